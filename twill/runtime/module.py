"""A cubin, loaded: its kernels, their parameters, and what a launch may ask of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Literal

from twill import exc
from twill.runtime.device import Device, device, driver_version, runs_on
from twill.runtime.driver import bindings, call, on_device

ParameterKind = Literal["pointer", "tensor_map", "i32", "u32", "i64", "u64", "f32", "f64"]

PARAMETER_BYTES: dict[str, int] = {
    "pointer": 8, "tensor_map": 128, "i32": 4, "u32": 4, "i64": 8, "u64": 8, "f32": 4, "f64": 8,
}  # fmt: skip

_MOST_PARAMETERS = 32764  # bytes that a kernel's parameters can have (CUDA C++ Programming Guide)


@dataclass(frozen=True)
class LaunchParameter:
    """One parameter of a kernel, and what its code relies on.

    For pointers: dtype, the type of the elements ("" for any); alignment of the address in bytes; strides, in elements
    per dimension (None: any).
    """

    name: str
    kind: ParameterKind
    dtype: str = ""
    alignment: int = 1
    strides: tuple[int | None, ...] | None = None


@dataclass(frozen=True, eq=False)
class Kernel:
    """A kernel of a loaded module, compiled for `arch`. handle: a CUkernel, good in every context."""

    name: str
    arch: str
    parameters: tuple[LaunchParameter, ...]
    handle: Any

    def static_shared(self, index: int) -> int:
        """Bytes of shared memory per CTA besides the dynamic ones, on device `index`."""
        return _attribute(self, "SHARED_SIZE_BYTES", index)

    def registers(self, index: int) -> int:
        """Registers per thread at entry, on device `index`."""
        return _attribute(self, "NUM_REGS", index)

    def local_bytes(self, index: int) -> int:
        """Bytes of local memory per thread (spills, stack), on device `index`."""
        return _attribute(self, "LOCAL_SIZE_BYTES", index)

    def max_threads(self, index: int) -> int:
        """The most threads of a CTA that it was compiled for, on device `index`."""
        return _attribute(self, "MAX_THREADS_PER_BLOCK", index)


@cache
def _attribute(kernel: Kernel, name: str, index: int) -> int:
    """What the driver says of `kernel` on device `index`, asked once."""
    kind = getattr(bindings().CUfunction_attribute, f"CU_FUNC_ATTRIBUTE_{name}")
    return int(call("cuKernelGetAttribute", kind, kernel.handle, call("cuDeviceGet", index)))


NOT_TAKEN = ("CUDA_ERROR_INVALID_IMAGE", "CUDA_ERROR_NO_BINARY_FOR_GPU", "CUDA_ERROR_UNSUPPORTED_PTX_VERSION")


@dataclass(frozen=True)
class LoadedModule:
    """A loaded cubin. Contexts get their copy of the code when a kernel is first launched there."""

    arch: str
    handle: Any

    def kernel(self, name: str, parameters: tuple[LaunchParameter, ...]) -> Kernel:
        """The kernel `name`, said to take `parameters` (its first launch checks that). Errors: DriverFailed."""
        return Kernel(name, self.arch, parameters, call("cuLibraryGetKernel", self.handle, name.encode()))


def load_module(cubin: bytes, arch: str) -> LoadedModule:
    """A module from a cubin compiled for `arch`. Errors: DriverMissing, DriverFailed, CodeNotTaken."""
    try:
        return LoadedModule(arch, call("cuLibraryLoadData", cubin, [], [], 0, [], [], 0))
    except exc.DriverFailed as error:
        if error.code not in NOT_TAKEN:
            raise
        raise exc.CodeNotTaken("cuLibraryLoadData", error.code, arch, driver_version()) from error


def _check_parameters(kernel: Kernel) -> None:
    """The declared parameters are the cubin's, one by one in size. Needs a current context."""
    sizes = _parameter_sizes(kernel)
    declared = [PARAMETER_BYTES[p.kind] for p in kernel.parameters]
    if sizes != declared:
        raise exc.WrongArgument(
            kernel.name, f"declared with parameters of {declared} bytes", f"those of the cubin, of {sizes} bytes"
        )


def _parameter_sizes(kernel: Kernel) -> list[int]:
    """Bytes of each parameter in the cubin. Drivers that cannot count them answer up to the first that is not there."""
    driver = bindings()
    try:
        code, found = driver.cuKernelGetParamCount(kernel.handle)
        count = _MOST_PARAMETERS if int(code) else int(found)
    except (AttributeError, RuntimeError):  # older bindings, older driver
        count = _MOST_PARAMETERS
    sizes: list[int] = []
    for index in range(count):
        code, *info = driver.cuKernelGetParamInfo(kernel.handle, index)
        if int(code):
            break
        sizes.append(int(info[1]))
    return sizes


@cache
def prepare(kernel: Kernel, index: int, shared_bytes: int, cluster: int) -> Device:
    """Makes `kernel` ready on device `index`: architecture, parameters, dynamic shared memory, cluster size. Once each.

    Errors: WrongArchitecture, WrongArgument, LaunchTooLarge, DriverFailed.
    """
    gpu = device(index)
    if not runs_on(kernel.arch, gpu.capability):
        raise exc.WrongArchitecture(kernel.name, kernel.arch, gpu.name, "{}.{}".format(*gpu.capability))
    kinds = bindings().CUfunction_attribute
    with on_device(index):
        _check_parameters(kernel)
        static = kernel.static_shared(index)
        if shared_bytes + static > gpu.shared_bytes:
            raise exc.LaunchTooLarge(
                kernel.name, "bytes of dynamic shared memory", shared_bytes, gpu.shared_bytes - static
            )
        handle = call("cuDeviceGet", index)
        set_to = kinds.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
        call("cuKernelSetAttribute", set_to, shared_bytes, kernel.handle, handle)
        if cluster > 8:  # larger clusters than every device with clusters has must be asked for
            call(
                "cuKernelSetAttribute",
                kinds.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED,
                1,
                kernel.handle,
                handle,
            )
    return gpu
