"""One launch: every check that can be made before it, then the driver.

Arguments are plain values in the order of the kernel's parameters: numbers, tensors (PyTorch or anything with DLPack),
tensor maps. The stream is PyTorch's current one where a PyTorch tensor is among them, unless another is given.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from twill import exc
from twill.runtime.device import Device
from twill.runtime.driver import bindings, call, on_device
from twill.runtime.module import Kernel, LaunchParameter, prepare
from twill.runtime.tensor import TensorView, is_tensor, is_torch, view
from twill.runtime.tensor_map import TensorMap

_NUMBERS: dict[str, type] = {
    "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i64": ctypes.c_int64, "u64": ctypes.c_uint64,
    "f32": ctypes.c_float, "f64": ctypes.c_double,
}  # fmt: skip
_RANGES = {"i32": (-(1 << 31), 1 << 31), "u32": (0, 1 << 32), "i64": (-(1 << 63), 1 << 63), "u64": (0, 1 << 64)}


@dataclass(frozen=True)
class LaunchShape:
    """How many CTAs (grid), threads of one (block), dynamic shared bytes of one, CTAs of a cluster. early: whether it
    may begin before the kernel in front of it in its stream has ended (programmatic stream serialization)."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared_bytes: int = 0
    cluster: tuple[int, int, int] = (1, 1, 1)
    early: bool = False

    @property
    def threads(self) -> int:
        """Of one CTA."""
        return self.block[0] * self.block[1] * self.block[2]

    @property
    def cluster_size(self) -> int:
        """CTAs of one cluster."""
        return self.cluster[0] * self.cluster[1] * self.cluster[2]


def launch(kernel: Kernel, shape: LaunchShape, arguments: Sequence[Any], stream: object = None) -> None:
    """Start `kernel`; returns before it has run.

    stream: a handle, an object with `cuda_stream` or `__cuda_stream__`, or None. A grid with a zero launches nothing.

    Errors before anything runs: WrongArgument, MisalignedTensor, WrongArchitecture, LaunchTooLarge, DriverMissing;
    DriverFailed if the driver refuses it all the same.
    """
    handle = stream_handle(stream, arguments)
    values = bind(kernel.parameters, arguments, handle)
    index = _device_of(kernel, values)
    gpu = prepare(kernel, index, shape.shared_bytes, shape.cluster_size)
    check_shape(kernel.name, shape, gpu, kernel.max_threads(index))
    if 0 in shape.grid:
        return
    packed = pack(kernel.parameters, values)
    with on_device(index):
        call("cuLaunchKernelEx", launch_config(shape, handle), int(kernel.handle), packed.address, 0)


def stream_handle(stream: object, arguments: Sequence[Any] = ()) -> int:
    """The driver's handle of a stream; for None that of PyTorch's current one if a PyTorch tensor is given, else 0."""
    if stream is None:
        tensor = next((value for value in arguments if is_torch(value)), None)
        if tensor is None or tensor.device.type != "cuda":
            return 0
        return int(sys.modules["torch"].cuda.current_stream(tensor.device).cuda_stream)
    if isinstance(stream, int):
        return stream
    if hasattr(stream, "cuda_stream"):
        return int(stream.cuda_stream)
    if hasattr(stream, "__cuda_stream__"):
        return int(stream.__cuda_stream__()[1])
    raise exc.WrongArgument("stream", f"a {type(stream).__name__}", "a CUDA stream, its handle, or None")


# ---------------------------------------------------------------- arguments

Value = int | float | TensorView | TensorMap


def bind(parameters: Sequence[LaunchParameter], arguments: Sequence[Any], stream: int = 0) -> tuple[Value, ...]:
    """Arguments as the parameters want them. Errors: WrongArgument, MisalignedTensor."""
    if len(parameters) != len(arguments):
        wanted = ", ".join(p.name for p in parameters)
        raise exc.WrongArgument("(all)", f"{len(arguments)} values", f"{len(parameters)}: {wanted}")
    return tuple(_bind(p, a, stream) for p, a in zip(parameters, arguments, strict=True))


def _bind(parameter: LaunchParameter, value: Any, stream: int) -> Value:
    name = parameter.name
    if parameter.kind == "tensor_map":
        if not isinstance(value, TensorMap):
            raise exc.WrongArgument(name, f"a {type(value).__name__}", "a tensor map")
        return value
    if parameter.kind == "pointer":
        if not is_tensor(value):
            raise exc.WrongArgument(name, f"a {type(value).__name__}", "a tensor on the GPU")
        return _checked_pointer(parameter, view(value, name, stream))
    if isinstance(value, bool) or not isinstance(value, int if parameter.kind in _RANGES else (int, float)):
        raise exc.WrongArgument(name, f"a {type(value).__name__}", f"a number that fits {parameter.kind}")
    if parameter.kind in _RANGES:
        low, high = _RANGES[parameter.kind]
        if not low <= value < high:
            raise exc.WrongArgument(name, str(value), f"a number that fits {parameter.kind}")
    return value


def _checked_pointer(parameter: LaunchParameter, tensor: TensorView) -> TensorView:
    """`tensor`, if it has the type, alignment and strides that the code was printed for."""
    name = parameter.name
    if parameter.dtype and tensor.dtype != parameter.dtype:
        raise exc.WrongArgument(name, f"a tensor of {tensor.dtype}", f"a tensor of {parameter.dtype}")
    if tensor.pointer % parameter.alignment:
        found = f"starts at address {tensor.pointer:#x}"
        raise exc.MisalignedTensor(name, found, f"multiples of {parameter.alignment} bytes")
    wanted = parameter.strides
    if wanted is None:
        return tensor
    if len(tensor.strides) != len(wanted):
        raise exc.WrongArgument(name, f"a tensor of {len(tensor.strides)} dimensions", f"one of {len(wanted)}")
    for dim, (stride, want, size) in enumerate(zip(tensor.strides, wanted, tensor.shape, strict=True)):
        if want is not None and stride != want and size > 1:
            raise exc.MisalignedTensor(name, f"has stride {stride} in dimension {dim}", f"stride {want} there")
    return tensor


def _device_of(kernel: Kernel, values: Sequence[Value]) -> int:
    """The one GPU on which all tensors are; the current one if there are none."""
    named = [
        (p.name, v.device)
        for p, v in zip(kernel.parameters, values, strict=True)
        if isinstance(v, TensorView | TensorMap)
    ]
    for name, index in named:
        if index != named[0][1]:
            raise exc.WrongArgument(name, f"on GPU {index}", f"a tensor on GPU {named[0][1]}, where `{named[0][0]}` is")
    if named:
        return named[0][1]
    code, index = bindings().cuCtxGetDevice()
    return 0 if int(code) else int(index)


# ---------------------------------------------------------------- shape


def check_shape(kernel: str, shape: LaunchShape, gpu: Device, max_threads: int) -> None:
    """Errors: LaunchTooLarge, WrongArgument."""
    for axis, (count, limit) in enumerate(zip(shape.grid, gpu.grid, strict=True)):
        if count < 0:
            raise exc.WrongArgument("grid", f"{count} in axis {axis}", "counts from 0")
        if count > limit:
            raise exc.LaunchTooLarge(kernel, f"CTAs in axis {axis}", count, limit)
        if count % shape.cluster[axis]:
            raise exc.WrongArgument(
                "grid", f"{count} in axis {axis}", f"a multiple of the cluster, {shape.cluster[axis]}"
            )
    limit = min(gpu.threads, max_threads)
    if not 1 <= shape.threads <= limit:
        raise exc.LaunchTooLarge(kernel, "threads a CTA", shape.threads, limit)


def launch_config(shape: LaunchShape, stream: int) -> Any:
    """The driver's own form of a launch's shape and stream."""
    driver = bindings()
    config = driver.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = shape.grid
    config.blockDimX, config.blockDimY, config.blockDimZ = shape.block
    config.sharedMemBytes = shape.shared_bytes
    config.hStream = stream
    kinds, attributes = driver.CUlaunchAttributeID, []
    if shape.cluster_size > 1:
        attribute = driver.CUlaunchAttribute()
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
        dims = attribute.value.clusterDim
        dims.x, dims.y, dims.z = shape.cluster
        attributes.append(attribute)
    if shape.early:
        attribute = driver.CUlaunchAttribute()
        attribute.id = kinds.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION
        attribute.value.programmaticStreamSerializationAllowed = 1
        attributes.append(attribute)
    config.attrs, config.numAttrs = attributes, len(attributes)
    return config


# ---------------------------------------------------------------- packing


@dataclass(frozen=True)
class Packed:
    """The parameters as the driver reads them. address: of an array of pointers, one a parameter."""

    pointers: ctypes.Array[ctypes.c_void_p]
    storage: tuple[Any, ...]  # what the pointers point to
    address: int

    def changed(self, slots: Mapping[int, Any]) -> Packed:
        """A copy with other cells and tensor maps in some places; what is in the others is shared."""
        pointers = type(self.pointers).from_buffer_copy(self.pointers)
        storage = list(self.storage)
        for slot, value in slots.items():
            storage[slot] = value
            pointers[slot] = value.address if isinstance(value, TensorMap) else ctypes.addressof(value)
        return Packed(pointers, tuple(storage), ctypes.addressof(pointers))


def pack(parameters: Sequence[LaunchParameter], values: Sequence[Value]) -> Packed:
    """The driver copies what the pointers point to during the launch; `Packed` must live until then."""
    storage: list[Any] = []
    addresses = []
    for parameter, value in zip(parameters, values, strict=True):
        if isinstance(value, TensorMap):
            storage.append(value)
            addresses.append(value.address)
            continue
        cell = ctypes.c_uint64(value.pointer) if isinstance(value, TensorView) else _NUMBERS[parameter.kind](value)
        storage.append(cell)
        addresses.append(ctypes.addressof(cell))
    pointers = (ctypes.c_void_p * len(addresses))(*addresses)
    return Packed(pointers, tuple(storage), ctypes.addressof(pointers))
