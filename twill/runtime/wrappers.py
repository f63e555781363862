"""Triton's autotuners and heuristics around a kernel under `twill.jit`, doing what they do at less cost to the host.

A launch through `@triton.heuristics` and `@triton.autotune` takes Triton twice as long as the launch of the kernel
itself: dictionaries of all arguments are made for each heuristic and for the autotuner's key, names of element types
are printed, every wrapper unpacks all arguments for the next. `quicken` gives a wrapper a class whose `run` finds the
same values, the same key and the same configuration. What is not a plain launch of a known key is done by Triton's own.
A class that a package has made from Triton's keeps its own `run`, and finds ours where it calls Triton's.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import cache
from typing import Any

from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import KernelInterface

from twill.runtime.quick_match import COMPILER

TUNER_RUN, HEURISTICS_RUN = Autotuner.run, Heuristics.run
PLAIN = frozenset({int, float, bool, str, type(None)})  # their values have no element type


class ElementTypes(dict[Any, str]):
    """Names of element types, which are the same for ever if they are PyTorch's."""

    def __missing__(self, element_type: Any) -> str:
        name = str(element_type)
        if type(element_type).__module__ == "torch":
            self[element_type] = name
        return name


NAMES = ElementTypes()


def is_compiling() -> bool:
    """Whether torch.compile reads this; PyTorch's own function, once PyTorch is there."""
    return False


class QuickLaunch(KernelInterface):  # type: ignore[misc]
    """What both have."""

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        """The launch on `grid`."""

        def launch(*args: Any, **kwargs: Any) -> Any:
            if is_compiling() or "grid" in kwargs or "warmup" in kwargs:  # what is wrong with that is Python's to say
                return self.run(*args, grid=grid, warmup=False, **kwargs)
            kwargs["grid"], kwargs["warmup"] = grid, False
            return start(self, args, kwargs)

        return launch


class QuickTuner(QuickLaunch, Autotuner):  # type: ignore[misc]
    """An autotuner. twill_names: of the kernel's parameters."""

    twill_names: frozenset[str]

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As `Autotuner.run`."""
        return self.twill_run(args, kwargs)

    def twill_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same; `kwargs` is nobody else's."""
        config = None
        if Autotuner.run is TUNER_RUN:
            try:
                config = self.twill_chosen(args, kwargs)
            except Exception:  # Triton says what is wrong with the call
                config = None
        if config is None:
            return Autotuner.run(self, *args, **kwargs)
        more = config.all_kwargs()
        if config.pre_hook is not None or not more.keys().isdisjoint(kwargs):
            return Autotuner.run(self, *args, **kwargs)
        self.best_config = config
        kwargs.update(more)
        return start(self.fn, args, kwargs)

    def twill_chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The configuration of a call whose key is known; None if it is not."""
        if len(self.configs) == 1:
            return self.configs[0]
        whole: Any = NotImplemented
        if COMPILER.made is not None:
            whole = COMPILER.made.key_of(self.keys, self.twill_names, self.arg_names, NAMES, args, kwargs)
        if whole is NotImplemented:
            whole = self.twill_key(args, kwargs)
        return self.cache[whole] if whole in self.cache else None  # noqa: SIM401 - a look-up may take turns

    def twill_key(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Any, ...]:
        """What Triton keeps the configuration of a call under."""
        names = self.twill_names
        given = {**dict(zip(self.arg_names, args, strict=False)), **kwargs} if args else kwargs
        return (
            *[given[name] for name in self.keys if name in given and name in names],
            *[
                NAMES[value.dtype]
                for name, value in given.items()
                if value.__class__ not in PLAIN and name in names and hasattr(value, "dtype")
            ],
        )


class QuickHeuristics(QuickLaunch, Heuristics):  # type: ignore[misc]
    """Heuristics."""

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """As `Heuristics.run`, which torch.compile knows how to read."""
        if is_compiling():
            return Heuristics.run(self, *args, **kwargs)
        return self.twill_run(args, kwargs)

    def twill_run(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The same; `kwargs` is nobody else's."""
        if Heuristics.run is not HEURISTICS_RUN:
            return Heuristics.run(self, *args, **kwargs)
        given = {**dict(zip(self.arg_names, args, strict=False)), **kwargs} if args else kwargs.copy()
        for name, value_of in self.values.items():
            kwargs[name] = given[name] = value_of(given.copy())
        return start(self.fn, args, kwargs)


def start(inner: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """`inner.run(*args, **kwargs)`; `kwargs` is nobody else's."""
    kind: Any = inner.__class__
    if kind.run is _quick_run(kind) and "run" not in inner.__dict__:
        return inner.twill_run(args, kwargs)
    return inner.run(*args, **kwargs)


@cache
def _quick_run(kind: Any) -> Any:
    """The `run` of a class that does the same as its `twill_run`; None if there is no such pair."""
    owner = next((one for one in kind.__mro__ if "run" in vars(one)), object)
    return vars(owner)["run"] if "twill_run" in vars(owner) else None


def quicken(wrapper: Any) -> None:
    """Have an autotuner or heuristics around a kernel under `twill.jit` launch quicker; what is neither is left alone,
    and so are all where PyTorch was not imported before."""
    compiling = getattr(getattr(sys.modules.get("torch"), "compiler", None), "is_compiling", None)
    kind: Any = type(wrapper)
    known = isinstance(wrapper, Autotuner | Heuristics) and not isinstance(wrapper, QuickTuner | QuickHeuristics)
    if known and compiling is not None:
        globals()["is_compiling"] = compiling
        wrapper.twill_names = frozenset(wrapper.arg_names)
        wrapper.__class__ = _quickened(kind, QuickTuner if isinstance(wrapper, Autotuner) else QuickHeuristics)


@cache
def _quickened(kind: Any, quick: Any) -> type:
    """`kind`, which finds `quick` where it would find Triton's."""
    bases = (quick,) if kind in quick.__mro__ else (kind, quick)
    return type(kind.__name__, bases, {"__module__": kind.__module__, "__qualname__": kind.__qualname__})
