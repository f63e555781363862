"""Launches of Triton's kernels, seen on their way to the GPU, or instead of it."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction


@dataclass(frozen=True)
class Launch:
    """One launch. arguments: by parameter. specialization: Triton's, one entry for each parameter. options: those that
    say how (num_warps). grid: of one to three program counts.
    """

    kernel: JITFunction
    arguments: Mapping[str, Any]
    specialization: tuple[Any, ...]
    options: Mapping[str, Any]
    grid: tuple[int, ...]


class Compiled:
    """What a launch gives back where nothing was compiled. A guess: few registers, little shared memory. launched: told
    of the grid and the arguments of each launch that is made with it."""

    n_regs = 32
    n_spills = 0
    metadata = SimpleNamespace(shared=1024, num_warps=4, num_ctas=1)

    def __init__(self, launched: Callable[[Any, tuple[Any, ...]], None] = lambda grid, args: None) -> None:
        self._launched = launched

    def __getitem__(self, grid: Any) -> Callable[..., None]:
        return lambda *args, **named: self._launched(grid, args)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return lambda *args, **named: None


@contextlib.contextmanager
def not_launched(see: Callable[[Launch], None] | None = None) -> Iterator[None]:
    """Inside, launches do nothing but call `see`, and measurements measure nothing: autotuners take their first
    configuration, `triton.testing.do_bench` says one millisecond, and benchmarks draw nothing.
    """

    def run(kernel: JITFunction, *args: Any, grid: Any = None, warmup: bool = False, **named: Any) -> Compiled:
        for hook in kernel.pre_run_hooks if see else ():
            hook(*args, **named)
        if see is not None and not warmup:
            see(bound(kernel, args, named, grid))

        def launched(over: Any, given: tuple[Any, ...]) -> None:
            """What `warmup` compiled takes all parameters in order, or all but those that are constants."""
            constants = {name: named[name] for name in kernel.arg_names[len(given) :] if name in named}
            options = {name: value for name, value in named.items() if name not in kernel.arg_names}
            if see is not None:
                see(bound(kernel, given, {**constants, **options}, over))

        return Compiled(launched)

    def milliseconds(*args: Any, quantiles: Any = None, **named: Any) -> Any:
        return 1.0 if quantiles is None else [1.0] * len(quantiles)

    with contextlib.ExitStack() as undo:
        _put(undo, JITFunction, "run", run)
        _put(undo, Autotuner, "_bench", lambda tuner, *args, config, **named: [1.0, 1.0, 1.0])
        testing = sys.modules.get("triton.testing")
        if testing is not None:
            _put(undo, testing, "do_bench", milliseconds)
            _put(undo, testing, "do_bench_cudagraph", milliseconds)
            _put(undo, testing.Mark, "run", lambda *args, **named: None)
        yield


@contextlib.contextmanager
def seen(see: Callable[[Launch], None]) -> Iterator[None]:
    """Inside, launches happen as ever, and `see` is called with each; an autotuner's trials are left out."""
    original, bench = JITFunction.run, Autotuner._bench
    trying = 0

    def run(kernel: JITFunction, *args: Any, grid: Any, warmup: bool, **named: Any) -> Any:
        if not warmup and not trying:
            see(bound(kernel, args, named, grid))
        return original(kernel, *args, grid=grid, warmup=warmup, **named)

    def tried(*args: Any, **named: Any) -> Any:
        nonlocal trying
        trying += 1
        try:
            return bench(*args, **named)
        finally:
            trying -= 1

    with contextlib.ExitStack() as undo:
        _put(undo, JITFunction, "run", run)
        _put(undo, Autotuner, "_bench", tried)
        yield


def bound(kernel: JITFunction, args: tuple[Any, ...], named: Mapping[str, Any], grid: Any) -> Launch:
    """A call of a kernel as Triton's own binder understands it. Raises what that raises."""
    binder = kernel.__dict__.get("_twill_binder")
    if binder is None:
        *_, binder = kernel.create_binder()
        kernel.__dict__["_twill_binder"] = binder
    how = {"debug": False, "instrumentation_mode": ""}
    arguments, specialization, options = binder(*args, **{**how, **named})
    counts = grid(arguments) if callable(grid) else grid
    counts = (counts,) if isinstance(counts, int) else counts
    left = {name: value for name, value in options.items() if name not in how}
    return Launch(kernel, dict(arguments), tuple(specialization), left, tuple(int(count) for count in counts))


def _put(undo: contextlib.ExitStack, owner: Any, name: str, value: object) -> None:
    before = getattr(owner, name)
    setattr(owner, name, value)
    undo.callback(setattr, owner, name, before)
