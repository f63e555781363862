"""The GPU as the microbenchmarks use it: their modules, two pieces of memory, launches with a limit on their time."""

from __future__ import annotations

import ctypes
import hashlib
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from twill import exc
from twill.codegen.print.cuda.compiled import ARCHITECTURE
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape, Operand
from twill.codegen.targets.hopper.probes import COLUMNS, MMA_PROBES, OTHER_MMA_PROBES, TENSOR_ROW
from twill.codegen.targets.probe import Probe
from twill.runtime.device import Device, device, runs_on
from twill.runtime.driver import bindings, call, on_device
from twill.runtime.launch import LaunchShape, launch
from twill.runtime.module import Kernel, LaunchParameter, LoadedModule, load_module
from twill.runtime.tensor import ELEMENT_BYTES, TensorView
from twill.runtime.tensor_map import TileBox, tensor_map

SOURCES = ("pipes.cu", "shared.cu", "global.cu", "tensors.cu", "barriers.cu", "products.cu")
MEMORY = 64 << 20  # bytes: twice what 132 SMs touch
CYCLES = 4096  # bytes
SECONDS = 20.0  # of one launch, which takes well under one

Build = Callable[[str, str], bytes]  # a cubin from the name of a source and an architecture


@dataclass
class Workbench:
    """See the top of this file; `opened` makes one."""

    gpu: Device
    arch: str
    build: Build
    cycles: TensorView
    memory: TensorView
    modules: dict[str, LoadedModule] = field(default_factory=dict)
    kernels: dict[str, Kernel] = field(default_factory=dict)

    def run(self, probe: Probe, count: int) -> int:
        """Cycles of `count` rounds: the median over the CTAs. Errors: DriverFailed, MicrobenchmarkHung."""
        return round(statistics.median(self.readings(probe, count)[: self.ctas(probe)]))

    def clock(self, probe: Probe) -> tuple[int, int]:
        """Cycles and nanoseconds of a launch of `clock_at_work`: medians over the SMs."""
        read, ctas = self.readings(probe, probe.counts[1]), self.ctas(probe)
        return round(statistics.median(read[:ctas])), round(statistics.median(read[ctas : 2 * ctas]))

    def ctas(self, probe: Probe) -> int:
        """CTAs of a launch."""
        return self.gpu.sms if probe.ctas == "all" else 1

    def readings(self, probe: Probe, count: int) -> tuple[int, ...]:
        """What a launch writes, for twice as many CTAs as it has."""
        kernel = self.kernel(probe)
        shape = LaunchShape((self.ctas(probe), 1, 1), (probe.threads, 1, 1), probe.shared)
        launch(kernel, shape, [self.cycles, self.memory, count, *probe.numbers, *self.maps(probe)], stream=0)
        self.wait(probe)
        host = (ctypes.c_uint64 * (2 * self.ctas(probe)))()
        call("cuMemcpyDtoH", ctypes.addressof(host), self.cycles.pointer, ctypes.sizeof(host))
        return tuple(host)

    def kernel(self, probe: Probe) -> Kernel:
        """Built and loaded once."""
        if probe.kernel not in self.kernels:
            if probe.file not in self.modules:
                self.modules[probe.file] = load_module(self.build(probe.file, self.arch), self.arch)
            self.kernels[probe.kernel] = self.modules[probe.file].kernel(probe.kernel, parameters(probe))
        return self.kernels[probe.kernel]

    def maps(self, probe: Probe) -> tuple[Any, ...]:
        """The tensor map of a probe that has one: rows of 128 bytes over all of the memory."""
        if not probe.tensor:
            return ()
        columns = TENSOR_ROW // ELEMENT_BYTES[probe.tensor]
        shape = (MEMORY // TENSOR_ROW, columns)
        whole = TensorView(self.memory.pointer, probe.tensor, shape, (columns, 1), self.gpu.index)
        return (tensor_map(whole, TileBox((probe.numbers[0], columns)), probe.name),)

    def wait(self, probe: Probe) -> None:
        """Until the launch is done."""
        driver, begun = bindings(), time.monotonic()
        while True:
            (code,) = driver.cuStreamQuery(0)
            if not int(code):
                return
            if code.name != "CUDA_ERROR_NOT_READY":
                raise exc.DriverFailed(f"the microbenchmark {probe.name}", code.name)
            if time.monotonic() - begun > SECONDS:
                raise exc.MicrobenchmarkHung(probe.name, SECONDS)


def parameters(probe: Probe) -> tuple[LaunchParameter, ...]:
    """Those of its kernel."""
    numbers = tuple(LaunchParameter(f"number{i}", "i32") for i in range(len(probe.numbers)))
    maps = (LaunchParameter("map", "tensor_map"),) if probe.tensor else ()
    return (
        LaunchParameter("cycles", "pointer"), LaunchParameter("memory", "pointer"), LaunchParameter("count", "i32"),
        *numbers, *maps,
    )  # fmt: skip


@contextmanager
def opened(arch: str, machine: str, build: Build | None = None, index: int = 0) -> Iterator[Workbench]:
    """A workbench on GPU `index`, which must be of `arch`. Errors: DriverMissing, WrongDevice, DriverFailed."""
    gpu = usable(arch, machine, index)
    with on_device(index):
        pointers = [int(call("cuMemAlloc", size)) for size in (CYCLES, MEMORY)]
        try:
            call("cuMemsetD8", pointers[1], 0, MEMORY)
            cycles, memory = (
                TensorView(p, "u8", (n,), (1,), index) for p, n in zip(pointers, (CYCLES, MEMORY), strict=True)
            )
            yield Workbench(gpu, arch, build or cubin, cycles, memory)
        finally:
            for pointer in pointers:
                bindings().cuMemFree(pointer)  # after a failed kernel nothing can be freed: its error is the news


def usable(arch: str, machine: str, index: int = 0) -> Device:
    """The GPU, if it is of `arch` and there are microbenchmarks for that. Errors: DriverMissing, WrongDevice."""
    if arch != ARCHITECTURE:
        why = f"there are microbenchmarks for {ARCHITECTURE} alone, and machine {machine} is {arch}"
        raise exc.WrongDevice(why, "a machine of compute capability 9.0; docs/calibration.md has what others need")
    gpu = device(index)
    if not runs_on(arch, gpu.capability):
        capability = "{}.{}".format(*gpu.capability)
        why = f"machine {machine} is {arch}, this GPU is {gpu.name} of compute capability {capability}"
        raise exc.WrongDevice(why, "the machine file that this GPU is closest to (`twill machines list`)")
    return gpu


def source(name: str) -> str:
    """The text of a file of cuda/ behind what all of them share."""
    place = files("twill.codegen.targets.hopper.microbenchmarks")
    shared = place.joinpath("probe.cuh").read_text(encoding="utf-8").replace("#pragma once\n", "\n")
    return f'{shared}\n#line 1 "{name}"\n{place.joinpath(name).read_text(encoding="utf-8")}'


def source_digest() -> str:
    """Of all texts: measurements of other texts are not comparable."""
    return hashlib.sha256("".join(source(name) for name in SOURCES).encode()).hexdigest()[:16]


def cubin(name: str, arch: str) -> bytes:
    """A source compiled. Errors: BuildToolsMissing, CudaRejected, BuildRejected."""
    from twill.codegen.compile.nvrtc import compile_cubin

    return compile_cubin(source(name), arch, shapes=shapes() if name == "products.cu" else (), name=name).cubin


def shapes() -> Iterator[MultiplyShape]:
    """The multiplies of products.cu."""
    for dtype, _ in MMA_PROBES:
        element: Operand = "bf16" if dtype == "bf16" else "e4m3"
        for n in COLUMNS:
            yield MultiplyShape(element, element, n)
            yield MultiplyShape(element, element, n, "register")
    for dtype, _ in OTHER_MMA_PROBES:
        other: Operand = "f16" if dtype == "f16" else "tf32" if dtype == "tf32" else "e5m2"
        for n in COLUMNS[-2:]:
            yield MultiplyShape(other, other, n)
