"""PyTorch's CUDA device where there is none: what `torch.cuda` answers of it, and tensors that say they lie on it.

Tensors that a file makes on "cuda" are made on the CPU, or on PyTorch's device "meta", where they have shapes, types
and strides and no memory; they say that they lie on `cuda:0`. What was launched computed nothing, so comparisons of
results (`torch.allclose`, `torch.testing.assert_close`) always hold.
"""

from __future__ import annotations

import contextlib
import importlib
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

Place = Literal["meta", "cpu"]
"""Where the memory of tensors "on the GPU" is: nowhere, or on the CPU."""


@cache
def properties() -> dict[str, Any]:
    """Of the GPU, by PyTorch's names."""
    return tomllib.loads(Path(__file__).with_name("stand_in.toml").read_text(encoding="utf-8"))


@contextlib.contextmanager
def answering(torch: Any, place: Place) -> Iterator[None]:
    """Inside, `torch.cuda` is that of one GPU, and tensors on it lie in `place`."""
    with contextlib.ExitStack() as undo:
        for owner, name, value in _answers(torch):
            there = hasattr(owner, name)
            before = getattr(owner, name, None)
            setattr(owner, name, value)
            undo.callback(*((setattr, owner, name, before) if there else (delattr, owner, name)))
        mode = _mode(torch, place)
        undo.enter_context(mode)
        engine = getattr(torch.autograd, "_engine_run_backward", None)
        if engine is not None:  # calls functions of the user, from where the mode is off
            undo.callback(setattr, torch.autograd, "_engine_run_backward", engine)
            torch.autograd._engine_run_backward = lambda *args, **named: _inside(mode, engine, args, named)
        yield


def _inside(mode: Any, function: Any, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    with mode:
        return function(*args, **named)


class StandIn:
    """A stream, an event, or the choice of a device: takes every call and does nothing."""

    cuda_stream = idx = 0

    def __init__(self, *args: object, **named: object) -> None:
        pass

    def __enter__(self) -> StandIn:
        return self

    def __exit__(self, *args: object) -> None:
        return None

    def elapsed_time(self, other: object) -> float:
        """Between two events, in milliseconds: one, as somebody will divide by it."""
        return 1.0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **named: None


def _answers(torch: Any) -> Iterator[tuple[Any, str, Any]]:
    """(module, name, what it is meanwhile)."""
    known = properties()
    free = known["total_memory"]

    def constant(value: object) -> Any:
        return lambda *args, **named: value

    answers: dict[str, Any] = {
        **dict.fromkeys(("is_available", "is_initialized", "is_bf16_supported"), True),
        **dict.fromkeys(("current_device", "memory_allocated", "max_memory_allocated", "memory_reserved"), 0),
        **dict.fromkeys(("_lazy_init", "init", "synchronize", "empty_cache", "set_device", "manual_seed",
                         "manual_seed_all", "reset_peak_memory_stats", "set_stream")),
        **dict.fromkeys(("current_stream", "default_stream"), StandIn()),
        "device_count": 1,
        "get_device_capability": (known["major"], known["minor"]),
        "get_device_name": known["name"],
        "get_device_properties": SimpleNamespace(**known),
        "get_arch_list": [f"sm_{known['major']}{known['minor']}"],
        "mem_get_info": (free, free),
    }  # fmt: skip
    for name, answer in answers.items():  # a function each: PyTorch's compiler keeps a table of them
        yield torch.cuda, name, constant(answer)
    for name in ("device", "device_of", "stream", "Stream", "Event"):
        yield torch.cuda, name, type(name, (StandIn,), {})
    yield torch.version, "cuda", "12.8"
    if hasattr(torch, "_C"):  # it is, once it is imported whole; builds without CUDA lack this
        yield torch._C, "_cuda_getCurrentRawStream", constant(0)
    if "torch.testing" in sys.modules:
        yield sys.modules["torch.testing"], "assert_close", lambda *args, **named: None


def _mode(torch: Any, place: Place) -> Any:
    """PyTorch's functions, with every device "cuda" replaced by `place`; tensors' devices the other way round."""
    base: Any = importlib.import_module("torch.overrides").TorchFunctionMode
    gpu, real = torch.device("cuda", 0), torch.device(place)

    def replaced(value: Any) -> Any:
        if isinstance(value, str) and value.split(":")[0] == "cuda":
            return real
        return real if isinstance(value, torch.device) and value.type == "cuda" else value

    class OnGpu(base):  # type: ignore[misc]
        """See `_mode`."""

        def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            named = dict(kwargs or {})
            name = getattr(function, "__name__", "")
            of_tensor = bool(args) and isinstance(args[0], torch.Tensor)
            if name == "__get__" and of_tensor:
                attribute = getattr(getattr(function, "__self__", None), "__name__", "")
                if attribute in ("device", "is_cuda", "is_cpu", "is_meta"):
                    return gpu if attribute == "device" else attribute == "is_cuda"
            if function is torch.allclose:
                return True
            if function is torch.device:
                return function(*args, **named)
            if name == "get_device" and of_tensor:
                return 0
            if name == "cuda" and of_tensor:
                return args[0] if place == "cpu" else args[0].to(real)
            if "pin_memory" in named:
                named["pin_memory"] = False
            if isinstance(named.get("generator"), torch.Generator) and place == "meta":
                named.pop("generator")
            named = {key: replaced(value) for key, value in named.items()}
            return function(*map(replaced, args), **named)

    return OnGpu()
