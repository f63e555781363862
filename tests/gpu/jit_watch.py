"""A kernel under `twill.jit` that is watched: who launched, and whether the result is right."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

import twill
from tests.gpu import jit_calls
from tests.gpu.jit_calls import Call

PATIENCE = 120.0  # seconds until an emitted kernel is ready


class Watched:
    """A kernel under twill.jit, and how often Triton's ran. spent: seconds in Triton."""

    def __init__(self, name: str, **options: Any) -> None:
        self.fast = twill.jit(jit_calls.another(name), **options)
        self.triton = 0
        self.spent = 0.0
        original = self.fast.twill_original
        run = type(original).run

        def counted(*args: Any, **kwargs: Any) -> Any:
            begun = time.perf_counter()
            try:
                return run(original, *args, **kwargs)
            finally:
                self.spent += time.perf_counter() - begun
                self.triton += not kwargs["warmup"]

        original.__dict__["run"] = counted

    def emitted(self, call: Call) -> bool:
        """Whether this launch was the emitted kernel's."""
        before = self.triton
        call.launch(self.fast)
        return self.triton == before


def like_triton(call: Call, launch: Callable[[], object]) -> str:
    """What is wrong with the result of a launch; "" if it is as near to float32 as Triton's."""
    call.launch(jit_calls.kernel(call.kernel))
    theirs = call.error()
    call.out.fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    ours = call.error()
    good = ours <= 1.2 * theirs + 1e-6
    return "" if good else f"{call.kernel} {call.text}: error {ours:.2e}, Triton's {theirs:.2e}"


def new_stream() -> Any:
    """A stream of its own."""
    stream: Any = torch.cuda.Stream
    return stream()


def until_emitted(watched: Watched, call: Call) -> str:
    """Launch until the emitted kernel does it."""
    end = time.monotonic() + PATIENCE
    while not watched.emitted(call):
        if time.monotonic() > end:
            return f"{call.kernel} {call.text} is never emitted: {twill.explain_fallback(watched.fast)}"
        time.sleep(0.02)
    return ""


def settled(watched: Watched) -> bool:
    """Whether nothing more is to be expected of any variant."""
    known = watched.fast.twill_dispatch.variants.known.values()
    return all(one.reason or (one.shelf is not None and one.shelf.settled.is_set()) for one in known)
