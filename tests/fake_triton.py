"""A driver of Triton's for tests: kernels are compiled for a Hopper GPU that is not there, and launches are noted."""

from __future__ import annotations

import gc
import importlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.compiler import CompiledKernel
from triton.runtime.driver import driver

BESIDE = 4  # what a launcher gets besides the kernel's arguments: metadata, and three for hooks


class FakeTriton:
    """launches: name of every kernel that Triton launched, with its grid and stream. loaded: whether it loaded any."""

    def __init__(self) -> None:
        self.launches: list[tuple[str, tuple[int, ...], int]] = []
        self.loaded = False
        self.device = 0
        self.stream = 0
        self.utils = SimpleNamespace(
            load_binary=self.load,
            get_device_properties=lambda device: {"max_shared_mem": 232448, "multiprocessor_count": 132},
            unload_module=lambda module: None,
        )

    def load(self, name: str, kernel: bytes, shared: int, device: int) -> tuple[str, str, int, int, int]:
        """As a driver: module, function, registers, spills and most threads of a kernel."""
        self.loaded = True
        return name, name, 32, 0, 1024

    def get_current_target(self) -> GPUTarget:
        return GPUTarget("cuda", 90, 32)

    def get_current_device(self) -> int:
        return self.device

    def get_current_stream(self, device: int) -> int:
        return self.stream

    def get_active_torch_device(self) -> Any:
        return importlib.import_module("torch").device("cuda", self.device)

    def launcher_cls(self, source: Any, metadata: Any) -> Any:
        def launch(first: int, second: int, third: int, stream: int, function: str, *rest: Any) -> None:
            if len(rest) != BESIDE + len(source.signature):
                raise TypeError(f"a launch with {len(rest) - BESIDE} arguments of {len(source.signature)}")
            self.launches.append((function, (first, second, third), stream))

        return launch


@contextmanager
def installed() -> Iterator[FakeTriton]:
    """Triton talks to a `FakeTriton` inside."""
    before, fake = driver._active, FakeTriton()
    driver.set_active(fake)
    try:
        yield fake
    finally:
        if fake.loaded:
            forget_modules()
        driver.set_active(before)


def forget_modules() -> None:
    """Kernels have nothing to unload, whenever they are collected: there may be no driver then."""
    for one in gc.get_objects():
        if type(one) is CompiledKernel:  # proxies do things when they are asked what they are
            one.module = None
