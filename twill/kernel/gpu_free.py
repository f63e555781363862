"""The GPU that a kernel file sees while it is imported: none that can run anything, the same everywhere.

Tutorial-style files ask Triton for its device or target at the top of the file. On a machine without
a GPU that would fail, and on one with a GPU the answer would depend on the machine.
"""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator
from typing import Any

from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

# TTIR is the same for every GPU with tensor descriptors; this names the first of them.
TARGET = GPUTarget("cuda", 90, 32)


class GpuFreeDriver:
    """Answers what a file may ask at import; launching is not among it."""

    def get_current_target(self) -> GPUTarget:
        """A Hopper GPU."""
        return TARGET

    def get_current_device(self) -> int:
        """The first device."""
        return 0

    def get_active_torch_device(self) -> Any:
        """`torch.device("cuda", 0)`, which PyTorch makes without a GPU."""
        return importlib.import_module("torch").device("cuda", 0)


@contextlib.contextmanager
def gpu_free() -> Iterator[None]:
    """Triton's active driver is a `GpuFreeDriver` inside; outside it is what it was."""
    before = driver._active
    driver.set_active(GpuFreeDriver())
    try:
        yield
    finally:
        driver.set_active(before)
