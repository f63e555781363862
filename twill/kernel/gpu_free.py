"""The GPU that a kernel file sees while it is imported: an H100 that computes nothing, the same everywhere.

Kernel files ask Triton or PyTorch for the device at their top (its name, capability, count of processors), and make
tensors on it. On a machine without a GPU that would fail, and on one with a GPU the answer would depend on the machine.
Inside `gpu_free()` Triton has a driver of ours, and PyTorch's `torch.cuda` answers as `twill.kernel.stand_in` says.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

from triton._C.libtriton import nvidia
from triton.backends.compiler import GPUTarget
from triton.runtime.driver import driver

from twill.kernel.stand_in import Place, StandIn, answering, properties

# TTIR is the same for every GPU with tensor descriptors; this names the first of them.
TARGET = GPUTarget("cuda", 90, 32)


class _Utils:
    """What Triton's driver has under `utils`."""

    def get_device_properties(self, device: int) -> dict[str, int]:
        """As the driver spells them."""
        known = properties()
        return {
            "max_shared_mem": known["shared_memory_per_block_optin"],
            "max_num_regs": known["regs_per_multiprocessor"],
            "multiprocessor_count": known["multi_processor_count"],
            "warpSize": known["warp_size"],
        }


class GpuFreeDriver:
    """Answers what a file may ask at import; launching is not among it."""

    utils = _Utils()

    def get_current_target(self) -> GPUTarget:
        """A Hopper GPU."""
        return TARGET

    def get_current_device(self) -> int:
        """The first device."""
        return 0

    def set_current_device(self, device: int) -> None:
        """There is only one."""

    def get_current_stream(self, device: int = 0) -> int:
        """The default stream."""
        return 0

    def get_device_interface(self) -> Any:
        """`torch.cuda`, as it is meanwhile."""
        return importlib.import_module("torch").cuda

    def get_active_torch_device(self) -> Any:
        """`torch.device("cuda", 0)`, which PyTorch makes without a GPU."""
        return importlib.import_module("torch").device("cuda", 0)


@contextlib.contextmanager
def gpu_free(place: Place = "meta") -> Iterator[None]:
    """Triton's active driver is a `GpuFreeDriver` inside, and PyTorch's CUDA an H100 whose tensors lie in `place`,
    whether PyTorch is there already or imported inside; outside both are what they were.
    """
    before = driver._active
    with contextlib.ExitStack() as undo:
        driver.set_active(GpuFreeDriver())
        undo.callback(lambda: driver.set_active(before))
        cublas = getattr(nvidia, "cublas", None)
        if cublas is not None:  # opens the library, which needs a GPU
            original = cublas.CublasLt
            cublas.CublasLt = StandIn
            undo.callback(setattr, cublas, "CublasLt", original)
        torch = sys.modules.get("torch")
        if isinstance(torch, ModuleType):  # not what a program put there in its stead
            undo.enter_context(answering(torch, place))
        elif torch is None:
            watcher = _Watcher(lambda torch: undo.enter_context(answering(torch, place)))
            sys.meta_path.insert(0, watcher)
            undo.callback(sys.meta_path.remove, watcher)
        yield


class _Watcher(importlib.abc.MetaPathFinder):
    """Calls `then` with PyTorch as soon as it is imported."""

    def __init__(self, then: Any) -> None:
        self.then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """PyTorch's own spec, with a loader that calls `then` when the module is whole; None for every other name."""
        if name != "torch":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            loader: Any = spec.loader
            whole = loader.exec_module

            def exec_module(module: ModuleType) -> None:
                del loader.exec_module
                whole(module)
                self.then(module)

            loader.exec_module = exec_module
        return spec
