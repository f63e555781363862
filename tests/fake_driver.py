"""A CUDA driver for tests: answers as one does on a machine with two H200, and notes what it is asked to launch."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest
from cuda.bindings import driver as real

from twill.runtime import (
    delay,
    device,
    driver,
    interval,
    launch,
    module,
    native,
    plan,
    tensor_map,
    workspace,
)

EARLY = int(real.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
SIZES = {"tensor_map": 128, "pointer": 8, "i32": 4, "u32": 4, "i64": 8, "f32": 4, "f64": 8}
ATTRIBUTES = {
    "COMPUTE_CAPABILITY_MAJOR": 9, "COMPUTE_CAPABILITY_MINOR": 0, "MULTIPROCESSOR_COUNT": 132,
    "L2_CACHE_SIZE": 60 << 20, "MAX_SHARED_MEMORY_PER_MULTIPROCESSOR": 233472, "RESERVED_SHARED_MEMORY_PER_BLOCK": 1024,
    "MAX_SHARED_MEMORY_PER_BLOCK_OPTIN": 232448, "MAX_THREADS_PER_BLOCK": 1024,
    "MAX_GRID_DIM_X": (1 << 31) - 1, "MAX_GRID_DIM_Y": 65535, "MAX_GRID_DIM_Z": 65535,
}  # fmt: skip


class Code(int):
    """A result code."""

    name = "CUDA_SUCCESS"


OK = Code(0)


@dataclass
class Launch:
    """What cuLaunchKernelEx was given. values: the parameters' bytes; a tensor map begins with its address. cluster,
    early: of its attributes, if there are such."""

    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    stream: int
    values: tuple[bytes, ...]
    cluster: tuple[int, int, int] = (1, 1, 1)
    early: bool = False


@dataclass
class FakeDriver:
    """sizes: of the kernel's parameters, in bytes. moved: addresses that tensor maps were given; immovable: none is.
    capturing: streams that a graph is captured on. allocated: (device, bytes). mode: of captures, for this thread.
    calls: what was asked of memory and streams. elapsed: microseconds that the GPU has worked; cost: of one launch of
    an emitted kernel; behind: whether the GPU has not done yet what it was asked to; destroyed: streams that are
    gone. alive: events that were not given back. resident: CTAs of a kernel that an SM holds. quick: kernels
    that let time pass are over at once; held: events behind another one, of which the driver says once that they are
    still to come; holding: the next event is one."""

    sizes: list[int]
    capability: tuple[int, int] = (9, 0)
    model: bytes = b"NVIDIA H200"
    current: int = 0
    launches: list[Launch] = field(default_factory=list)
    encoded: list[dict[str, Any]] = field(default_factory=list)
    moved: list[int] = field(default_factory=list)
    immovable: bool = False
    loaded: int = 0
    capturing: set[int] = field(default_factory=set)
    allocated: list[tuple[int, int]] = field(default_factory=list)
    mode: Any = real.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_GLOBAL
    calls: list[tuple[Any, ...]] = field(default_factory=list)
    pushed: list[int] = field(default_factory=list)
    elapsed: float = 0.0
    cost: float = 10.0
    behind: bool = False
    destroyed: set[int] = field(default_factory=set)
    events: dict[int, float] = field(default_factory=dict)
    alive: set[int] = field(default_factory=set)
    resident: int = 2
    quick: bool = False
    held: set[int] = field(default_factory=set)
    holding: bool = False

    def entry_points(self) -> native.EntryPoints:
        """What is called through C values, with the functions that `cuda.bindings` would have."""

        def launch(config: Any, kernel: Any, parameters: Any, extra: Any) -> int:
            return int(self.cuLaunchKernelEx(config._obj, kernel.value, parameters.value, 0)[0])

        def current(cell: Any) -> int:
            code, index = self.cuCtxGetDevice()
            cell._obj.value = index
            return int(code)

        return native.EntryPoints(launch, current)

    def namespace(self) -> Any:
        """What stands for `cuda.bindings.driver`."""
        functions = {name: getattr(self, name) for name in dir(self) if name.startswith("cu")}
        types = {name: getattr(real, name) for name in dir(real) if name.startswith("CU") or name.startswith("cuu")}
        return SimpleNamespace(**types, **functions)

    def cuDriverGetVersion(self) -> tuple[Code, int]:
        return OK, 13000

    def cuCtxGetDevice(self) -> tuple[Code, int]:
        return OK, self.current

    def cuCtxPushCurrent(self, context: int) -> tuple[Code]:
        self.pushed.append(context)
        return (OK,)

    def cuCtxPopCurrent(self) -> tuple[Code, int]:
        return OK, self.pushed[-1]

    def cuDevicePrimaryCtxRetain(self, index: int) -> tuple[Code, int]:
        return OK, index

    def cuDeviceGet(self, index: int) -> tuple[Code, int]:
        return OK, index

    def cuDeviceGetName(self, length: int, handle: int) -> tuple[Code, bytes]:
        return OK, self.model + b"\0"

    def cuDeviceGetAttribute(self, kind: Any, handle: int) -> tuple[Code, int]:
        name = kind.name.removeprefix("CU_DEVICE_ATTRIBUTE_")
        major, minor = self.capability
        return OK, {**ATTRIBUTES, "COMPUTE_CAPABILITY_MAJOR": major, "COMPUTE_CAPABILITY_MINOR": minor}[name]

    def cuLibraryLoadData(self, code: bytes, *arguments: Any) -> tuple[Code, str]:
        self.loaded += b".entry" not in code
        return OK, "library"

    def cuLibraryGetKernel(self, library: str, name: bytes) -> tuple[Code, int]:
        return OK, 77

    def cuKernelGetParamCount(self, kernel: int) -> tuple[Code, int]:
        return OK, len(self.sizes)

    def cuKernelGetParamInfo(self, kernel: int, index: int) -> tuple[Code, int, int]:
        return OK, 0, self.sizes[index]

    def cuKernelSetAttribute(self, kind: Any, value: int, *_: Any) -> tuple[Code]:
        if "MAX_DYNAMIC_SHARED" in kind.name:
            self.calls.append(("dynamic shared", value))
        return (OK,)

    def cuKernelGetAttribute(self, kind: Any, kernel: int, handle: int) -> tuple[Code, int]:
        return OK, 384 if "MAX_THREADS" in kind.name else 0

    def cuTensorMapEncodeTiled(self, *arguments: Any) -> tuple[Code, Any]:
        names = ("type", "rank", "pointer", "sizes", "strides", "box")
        plain = [[int(entry) for entry in a] if isinstance(a, list) else a for a in arguments]
        self.encoded.append(dict(zip(names, plain, strict=False)))
        storage = (ctypes.c_uint64 * 16)(arguments[2])
        return OK, SimpleNamespace(storage=storage, getPtr=lambda: ctypes.addressof(storage))

    def cuTensorMapReplaceAddress(self, tensor_map: Any, pointer: int) -> tuple[Code]:
        if self.immovable:
            return (Code(1),)
        self.moved.append(pointer)
        ctypes.c_uint64.from_address(int(tensor_map.getPtr())).value = pointer
        return (OK,)

    def cuOccupancyMaxActiveBlocksPerMultiprocessor(self, function: Any, threads: int, shared: int) -> tuple[Code, int]:
        self.calls.append(("occupancy", int(function), threads, shared))
        return OK, self.resident

    def cuStreamIsCapturing(self, stream: int) -> tuple[Code, int]:
        return OK, int(stream in self.capturing)

    def cuThreadExchangeStreamCaptureMode(self, mode: Any) -> tuple[Code, Any]:
        before, self.mode = self.mode, mode
        return OK, before

    def cuStreamCreate(self, flags: int) -> tuple[Code, int]:
        self.calls.append(("stream", flags))
        return OK, 0x5000

    def cuMemAlloc(self, size: int) -> tuple[Code, int]:
        self.calls.append(("alloc", size, self.mode))
        self.allocated.append((self.pushed[-1] if self.pushed else self.current, size))
        return OK, len(self.allocated) << 32

    def cuMemsetD8Async(self, address: int, value: int, size: int, stream: int) -> tuple[Code]:
        self.calls.append(("set", address, value, size, stream))
        return (OK,)

    def cuStreamSynchronize(self, stream: int) -> tuple[Code]:
        self.calls.append(("synchronize", stream))
        return (OK,)

    def cuStreamDestroy(self, stream: int) -> tuple[Code]:
        self.calls.append(("destroy", stream))
        return (OK,)

    def cuEventCreate(self, flags: int) -> tuple[Code, int]:
        handle = len(self.calls)
        self.calls.append(("event", handle))
        self.alive.add(handle)
        return OK, handle

    def cuEventRecord(self, event: int, stream: int) -> tuple[Code]:
        if stream in self.destroyed:
            return (Code(400),)
        self.calls.append(("record", event, stream, self.mode))
        self.events[event] = self.elapsed
        if self.holding:
            self.held.add(event)
            self.holding = False
        return (OK,)

    def cuLaunchKernel(self, *arguments: Any) -> tuple[Code]:
        self.calls.append(("delay", arguments))
        self.holding = not self.quick
        return (OK,)

    def cuEventQuery(self, event: int) -> tuple[Code]:
        if event in self.held:
            self.held.remove(event)
            return (Code(real.CUresult.CUDA_ERROR_NOT_READY),)
        return (Code(real.CUresult.CUDA_ERROR_NOT_READY if self.behind else 0),)

    def cuEventElapsedTime(self, first: int, last: int) -> tuple[Code, float]:
        return OK, (self.events[last] - self.events[first]) / 1000

    def cuEventDestroy(self, event: int) -> tuple[Code]:
        self.alive.remove(event)
        self.events.pop(event, None)
        return (OK,)

    def cuLaunchKernelEx(self, config: Any, kernel: int, parameters: int, extra: int) -> tuple[Code]:
        pointers = (ctypes.c_void_p * len(self.sizes)).from_address(parameters)
        values = tuple(ctypes.string_at(address or 0, size) for address, size in zip(pointers, self.sizes, strict=True))
        grid = (config.gridDimX, config.gridDimY, config.gridDimZ)
        block = (config.blockDimX, config.blockDimY, config.blockDimZ)
        cluster, early = (1, 1, 1), False
        for number in range(config.numAttrs):
            kind, value = int(config.attrs[number].id), config.attrs[number].value
            if kind == EARLY:
                told = getattr(value, "programmaticStreamSerializationAllowed", None)
                early = bool(value[0] if told is None else told)
                continue
            dims = getattr(value, "clusterDim", None)
            cluster = tuple(value[:3]) if dims is None else (dims.x, dims.y, dims.z)
        self.elapsed += self.cost
        self.launches.append(
            Launch(grid, block, config.sharedMemBytes, int(config.hStream or 0), values, cluster, early)
        )
        return (OK,)


def install(monkeypatch: pytest.MonkeyPatch, fake: FakeDriver) -> FakeDriver:
    """Every module of the runtime talks to `fake`; nothing is remembered from another."""
    namespace = fake.namespace()
    for user in (driver, device, interval, module, launch, native, plan, tensor_map, workspace):
        monkeypatch.setattr(user, "bindings", lambda: namespace)
    monkeypatch.setattr(native, "entry_points", fake.entry_points)
    forget()
    return fake


def forget() -> None:
    """The runtime remembers nothing of a driver."""
    kept = (delay._kernel, device.device, device.driver_version, module.prepare, module._attribute, tensor_map.encode)
    for remembered in (*kept, driver._primary_context, workspace.zeros):
        remembered.cache_clear()


def fake_torch(
    pointer: int,
    dtype: str = "torch.bfloat16",
    shape: tuple[int, ...] = (),
    strides: tuple[int, ...] = (),
    gpu: int = 0,
    beyond: int = 1 << 20,
) -> Any:
    """What the runtime asks of a PyTorch tensor."""

    class Tensor:
        def data_ptr(self) -> int:
            return pointer

        def get_device(self) -> int:
            return gpu

        def stride(self) -> tuple[int, ...]:
            return strides

        def untyped_storage(self) -> Any:
            """From the tensor's first element to `beyond` bytes after it."""
            return SimpleNamespace(data_ptr=lambda: pointer, nbytes=lambda: beyond)

    Tensor.__module__ = "torch"
    tensor: Any = Tensor()
    tensor.dtype, tensor.shape = dtype, shape
    tensor.device = SimpleNamespace(type="cuda" if gpu >= 0 else "cpu", index=gpu if gpu >= 0 else None)
    return tensor
