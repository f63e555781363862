"""A GPU for tests of `twill calibrate`: launches take the cycles that a function says."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fake_driver import OK, SIZES, Code, FakeDriver, install
from twill.calibrate import workbench
from twill.codegen.targets.hopper.probes import CLOCK, PROBES
from twill.codegen.targets.probe import Probe

Takes = Callable[[Probe, int], float]  # cycles of a launch of so many rounds

OVERHEAD = 1234  # cycles that every launch takes besides


class NotReady(Code):
    """What a stream says while it is busy."""

    name = "CUDA_ERROR_NOT_READY"


def steady(probe: Probe, count: int) -> float:
    """Ten cycles a step."""
    return 10 * probe.steps * count


@dataclass
class FakeGpu(FakeDriver):
    """takes: see Takes. busy: it never ends a launch. launched: probes and counts in order."""

    sizes: list[int] = field(default_factory=list)
    takes: Takes = steady
    busy: bool = False
    memory: dict[int, Any] = field(default_factory=dict)
    launched: list[tuple[str, int]] = field(default_factory=list)
    now: str = ""

    def cuLibraryGetKernel(self, library: str, name: bytes) -> tuple[Code, int]:
        return OK, 100 + kernels().index(name.decode())

    def of(self, kernel: int) -> Probe:
        name = kernels()[int(kernel) - 100]
        return next(probe for probe in (*PROBES.values(), CLOCK) if probe.kernel == name)

    def parameters(self, kernel: int) -> list[int]:
        return [SIZES[parameter.kind] for parameter in workbench.parameters(self.of(kernel))]

    def cuKernelGetParamCount(self, kernel: int) -> tuple[Code, int]:
        return OK, len(self.parameters(kernel))

    def cuKernelGetParamInfo(self, kernel: int, index: int) -> tuple[Code, int, int]:
        return OK, 0, self.parameters(kernel)[index]

    def cuKernelGetAttribute(self, kind: Any, kernel: int, handle: int) -> tuple[Code, int]:
        return OK, 1024 if "MAX_THREADS" in kind.name else 0

    def cuMemAlloc(self, size: int) -> tuple[Code, int]:
        buffer = ctypes.create_string_buffer(min(size, 1 << 16))
        address = ctypes.addressof(buffer) + 255 & ~255
        self.memory[address] = buffer
        return OK, address

    def cuMemsetD8(self, pointer: int, byte: int, size: int) -> tuple[Code]:
        return (OK,)

    def cuMemFree(self, pointer: int) -> tuple[Code]:
        del self.memory[pointer]
        return (OK,)

    def cuStreamQuery(self, stream: int) -> tuple[Code]:
        return (NotReady(600),) if self.busy else (OK,)

    def cuMemcpyDtoH(self, host: int, pointer: int, size: int) -> tuple[Code]:
        ctypes.memmove(host, pointer, size)
        return (OK,)

    def cuLaunchKernelEx(self, config: Any, kernel: int, parameters: int, extra: int) -> tuple[Code]:
        self.sizes = self.parameters(kernel)
        super().cuLaunchKernelEx(config, kernel, parameters, extra)
        grid, (cycles, _, count, *_rest) = self.launches[-1].grid, self.launches[-1].values
        probe, rounds = self.of(kernel), int.from_bytes(count, "little")
        self.launched.append((probe.name, rounds))
        said = round(OVERHEAD + self.takes(probe, rounds))
        values = [said] * grid[0] + [said * 1000 // 1800] * (grid[0] if probe is CLOCK else 0)
        written = (ctypes.c_uint64 * len(values))(*values)
        ctypes.memmove(int.from_bytes(cycles, "little"), written, ctypes.sizeof(written))
        return (OK,)


def kernels() -> list[str]:
    """Names of all kernels."""
    return sorted({probe.kernel for probe in (*PROBES.values(), CLOCK)})


def fake_gpu(monkeypatch: pytest.MonkeyPatch, **given: Any) -> FakeGpu:
    """The runtime and the workbench talk to it."""
    fake = FakeGpu(**given)
    install(monkeypatch, fake)
    namespace = fake.namespace()
    monkeypatch.setattr(workbench, "bindings", lambda: namespace)
    monkeypatch.setattr("twill.calibrate.calibrate.driver_version", lambda: "580.1")
    return fake
