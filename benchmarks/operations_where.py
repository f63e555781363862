"""Where the time of an operation goes, launch by launch: the host's and the GPU's, without Twill and under it.

`python -m benchmarks.operations run FOLDER --where` prints, for every row, what the host takes to issue a step and what
its kernels take on the GPU, and then a line for each launch of a step: the GPU's time of its kernel in the flow of the
operation, and alone (the same launch again and again), and the host's time of the launch alone. GPU times are those of
the profiler (CUPTI), not of events, so a starved stream is not counted.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from unittest import mock

STEPS, ISSUES, ALONE = 10, 61, 30


@dataclass(frozen=True)
class Issued:
    """One launch of a step, as it can be made again."""

    kernel: Any
    grid: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]

    def again(self) -> None:
        """The same launch."""
        self.kernel.run(*self.args, grid=self.grid, warmup=False, **self.kwargs)


@contextmanager
def issuing(wrapped: bool) -> Iterator[list[Issued]]:
    """The launches made inside, of kernels as they are or of those under `twill.jit`."""
    from triton.runtime.jit import JITFunction

    from twill.runtime.jit import TwillKernel

    issued: list[Issued] = []
    if wrapped:
        start = TwillKernel.twill_start

        def noted(kernel: Any, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            issued.append(Issued(kernel, grid, args, dict(kwargs)))
            return start(kernel, grid, args, kwargs)

        patches: list[Any] = [mock.patch.object(TwillKernel, "twill_start", noted)]
    else:
        plain = JITFunction.run

        def ran(kernel: Any, *args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if not warmup:
                issued.append(Issued(kernel, grid, args, kwargs))
            return plain(kernel, *args, grid=grid, warmup=warmup, **kwargs)

        patches = [mock.patch.object(JITFunction, "run", ran)]
    for patch in patches:
        patch.start()
    try:
        yield issued
    finally:
        for patch in reversed(patches):
            patch.stop()


def issue_time(launch: Callable[[], Any]) -> float:
    """Microseconds until a step is issued to an idle GPU."""
    import torch

    torch.cuda.synchronize()
    begun = time.perf_counter()
    launch()
    return (time.perf_counter() - begun) * 1e6


def on_gpu(launch: Callable[[], Any], steps: int) -> list[tuple[str, float]]:
    """Name and microseconds of every kernel that `steps` steps run, in order."""
    import torch
    from torch.profiler import ProfilerActivity, profile

    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA]) as seen:
        for _ in range(steps):
            launch()
        torch.cuda.synchronize()
    events = [one for one in seen.events() if "cuda" in str(one.device_type).lower()]
    events = [one for one in events if not one.name.startswith(("Memcpy", "Memset"))]
    return [
        (one.name, float(one.time_range.elapsed_us())) for one in sorted(events, key=lambda one: one.time_range.start)
    ]


def accounted(pair: Sequence[Callable[[], Any]], what: str) -> Iterator[str]:
    """The lines of one way to run an operation; pair: without Twill, under it."""
    issue: tuple[list[float], list[float]] = ([], [])
    for number in range(ISSUES):
        for which in (0, 1) if number % 2 else (1, 0):
            issue[which].append(issue_time(pair[which]))
    flow = [on_gpu(launch, STEPS) for launch in pair]
    host = [statistics.median(times) for times in issue]
    busy = [sum(time for _, time in kernels) / STEPS for kernels in flow]
    yield (f"  {what:16} host issues {host[0]:8.1f} us, under twill {host[1]:8.1f}; GPU works {busy[0]:8.1f} us, "
           f"under twill {busy[1]:8.1f}; kernels {len(flow[0]) // STEPS} and {len(flow[1]) // STEPS}")  # fmt: skip
    per = len(flow[0]) // STEPS
    if not per or len(flow[0]) != len(flow[1]) or len(flow[0]) % STEPS:
        return
    for place in range(per):
        sides = [[kernels[step * per + place] for step in range(STEPS)] for kernels in flow]
        if sides[0][0][0] == sides[1][0][0] and "kernel" not in sides[0][0][0]:
            continue  # PyTorch's own
        times = [statistics.median(time for _, time in side) for side in sides]
        name, ours = sides[0][0][0][:40], sides[1][0][0][:30]
        yield f"    in the flow {name:40} {times[0]:7.1f} us, under twill {times[1]:7.1f} ({ours})"


def alone(launches: Sequence[Callable[[], Any]]) -> Iterator[str]:
    """Each launch of a step of both sides by itself."""
    found: list[list[Issued]] = []
    for wrapped, launch in enumerate(launches):
        with issuing(bool(wrapped)) as issued:
            launch()
        found.append(issued)
    if len(found[0]) != len(found[1]):
        yield f"    {len(found[0])} and {len(found[1])} launches"
        return
    for plain, ours in zip(*found, strict=True):
        if plain.kernel.__name__ != ours.kernel.__name__:
            return
        yield f"    alone       {plain.kernel.__name__[:40]:40} {_alone(plain)}, under twill {_alone(ours)}"


def _alone(one: Issued) -> str:
    """Host and GPU time of a launch."""
    import torch

    for _ in range(5):
        one.again()
    host = []
    for _ in range(5):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        for _ in range(ALONE):
            one.again()
        host.append((time.perf_counter() - begun) * 1e6 / ALONE)
    times = [time for _, time in on_gpu(one.again, ALONE)]
    return f"host {min(host):6.1f} us GPU {statistics.median(times or [0.0]):7.1f} us"
