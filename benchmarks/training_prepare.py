"""`python -m benchmarks.training prepare`: what a training launches, emitted where there is no GPU.

One layer of the model makes one step on the CPU, forward and backward, with kernels' launches going to a driver that is
none. Nothing is computed: results of PyTorch's operations on floating-point numbers are memory as it comes, whose
shapes are those that the operation has on the device "meta". Launches then have the types, sizes and strides of those
on a GPU, and the helper of `twill.jit` emits every variant.
"""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

BIG = 1 << 16  # elements from which on a result is not computed


def is_big(tensor: torch.Tensor) -> bool:
    """Whether its numbers stay as they come."""
    return tensor.is_floating_point() and tensor.numel() >= BIG


class Uncomputed(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Large results are not computed, as long as they are floating-point numbers."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func._schema.name.endswith("_") and isinstance(args[0], torch.Tensor) and is_big(args[0]):
            return args[0]  # written in place
        if any(argument.alias_info is not None for argument in (*func._schema.arguments, *func._schema.returns)):
            return func(*args, **kwargs)  # views

        def elsewhere(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype, device="meta")
            return torch.device("meta") if isinstance(value, torch.device) else value

        def here(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype)
            return value

        try:
            shapes = func(*tree_map(elsewhere, args), **tree_map(elsewhere, kwargs))
        except (NotImplementedError, RuntimeError):
            return func(*args, **kwargs)
        results = shapes if isinstance(shapes, (tuple, list)) else (shapes,)
        if not any(isinstance(one, torch.Tensor) and is_big(one) for one in results):
            return func(*args, **kwargs)
        return tree_map(here, shapes)


def uncomputed() -> Any:
    """The mode, which has no types."""
    return Uncomputed()  # type: ignore[no-untyped-call]


def prepare(folder: Path, model: str, machine: str, configurations: int, seconds: float) -> int:
    """Emit into FOLDER. seconds: of each solve."""
    import triton

    from benchmarks import training_model
    from benchmarks.operations import emitted, held
    from benchmarks.operations_table import no_gpu
    from benchmarks.training import MODELS, SAID, STORE
    from twill.runtime.policy import settings
    from twill.runtime.script import every_kernel
    from twill.runtime.variant import compiler

    folder.mkdir(parents=True, exist_ok=True)
    said = {"compiler": compiler(triton.__version__), "machine": machine, "configurations": configurations}
    (folder / SAID).write_text(json.dumps(said), encoding="utf-8")
    chosen = settings("solve", store=str(folder / STORE), machine=machine, solve_seconds=seconds)
    training_model.LAYERS = 1
    made: list[Any] = []
    begun = time.monotonic()
    with no_gpu(), held(configurations, bench=False), every_kernel(chosen, made), uncomputed():
        whole = MODELS[model]().to(torch.bfloat16)
        tokens = torch.randint(0, training_model.VOCABULARY, (training_model.BATCH, training_model.LENGTH))
        whole(input_ids=tokens, labels=tokens).loss.backward()
        print(f"one step: {time.monotonic() - begun:.0f} s", flush=True)
        for line in emitted(made):
            print(f"{time.monotonic() - begun:5.0f} s  {line[:400]}", flush=True)
    return 0
