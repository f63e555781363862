"""A Python script as it stands, with every Triton kernel that it defines or imports from now on under `twill.jit`."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import triton
from triton.runtime import jit as triton_jit
from triton.runtime.autotuner import Autotuner, Heuristics
from triton.runtime.jit import JITFunction

from twill.runtime.jit import TwillKernel, hasten, take_turns
from twill.runtime.policy import JitSettings


def run_script(path: Path, words: Sequence[str], chosen: JitSettings, made: list[TwillKernel]) -> None:
    """Run a script as `python script.py words` does; raises what it raises. made: gets its kernels, one by one."""
    before = sys.argv[:], sys.path[:]
    sys.argv[:] = [str(path), *words]
    sys.path[0:1] = [str(path.resolve().parent)]  # in the place of what Python found `twill` by
    try:
        with every_kernel(chosen, made):
            runpy.run_path(str(path), run_name="__main__")
    finally:
        sys.argv[:], sys.path[:] = before


@contextmanager
def every_kernel(chosen: JitSettings, made: list[TwillKernel]) -> Iterator[None]:
    """What `@triton.jit` makes inside is under `twill.jit`, and listed in `made`; autotuners know it."""
    original: Callable[..., Any] = triton_jit.jit

    def jit(fn: Any = None, **options: Any) -> Any:
        def under(function: Any) -> Any:
            if type(function) is not JITFunction:  # Gluon's, or one that is interpreted
                return function
            made.append(TwillKernel(function, chosen))
            return made[-1]

        if fn is None:
            return lambda later: under(original(**options)(later))
        return under(original(fn, **options))

    beginning, judging = Autotuner.__init__, Heuristics.__init__

    def begin(tuner: Any, *args: Any, **options: Any) -> None:
        beginning(tuner, *args, **options)
        take_turns(tuner)
        hasten(tuner)

    def judge(heuristics: Any, *args: Any, **options: Any) -> None:
        judging(heuristics, *args, **options)
        hasten(heuristics)

    triton.jit = triton_jit.jit = jit
    Autotuner.__init__, Heuristics.__init__ = begin, judge
    try:
        yield
    finally:
        triton.jit = triton_jit.jit = original
        Autotuner.__init__, Heuristics.__init__ = beginning, judging


def summary(made: Sequence[TwillKernel]) -> str:
    """What became of the kernels, for people: a line, and the reasons of those that ran as Triton's."""
    launched = [kernel for kernel in made if kernel.twill_dispatch.launched]
    emitted = [kernel for kernel in launched if kernel.twill_dispatch.used]
    reasons = [reason for kernel in launched if (reason := kernel.twill_dispatch.explain())]
    count = "1 Triton kernel was" if len(launched) == 1 else f"{len(launched)} Triton kernels were"
    head = f"{count} launched, {len(emitted)} emitted"
    return "\n".join([head, *(f"  {line}" for reason in reasons for line in reason.splitlines())])
