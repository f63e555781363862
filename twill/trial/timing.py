"""Times of several launches on one GPU, taken in turns so that clock and power favour none of them."""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

FLUSH = 256 << 20  # bytes: more than the L2 of any machine described


def interleaved(
    launches: Mapping[str, Callable[[], Any]], rounds: int = 7, seconds: float = 0.05, seed: int = 0
) -> dict[str, float]:
    """Median milliseconds of each launch over `rounds`; each round runs all of them in a new order."""
    chance = random.Random(seed)
    samples: dict[str, list[float]] = {name: [] for name in launches}
    for _ in range(rounds):
        order = list(launches)
        chance.shuffle(order)
        for name in order:
            samples[name].append(milliseconds(launches[name], seconds))
            time.sleep(seconds)
    return {name: statistics.median(times) for name, times in samples.items()}


def milliseconds(launch: Callable[[], Any], seconds: float = 0.05) -> float:
    """Median GPU time of one launch, each with a cold L2, over about `seconds` of them (at least 3)."""
    import torch

    launch()
    once = _timed(launch, 1, None)[0]
    count = max(3, min(200, int(seconds * 1000 / max(once, 1e-3))))
    cache = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    return statistics.median(_timed(launch, count, cache))


def _timed(launch: Callable[[], Any], count: int, cache: Any) -> list[float]:
    import torch

    event: Any = torch.cuda.Event
    begins = [event(enable_timing=True) for _ in range(count)]
    ends = [event(enable_timing=True) for _ in range(count)]
    for begin, end in zip(begins, ends, strict=True):
        if cache is not None:
            cache.zero_()
        begin.record()
        launch()
        end.record()
    torch.cuda.synchronize()
    return [float(begin.elapsed_time(end)) for begin, end in zip(begins, ends, strict=True)]


def host_microseconds(launch: Callable[[], Any], times: int = 2000) -> float:
    """Median host time of one launch, the GPU kept idle enough that no launch waits for a place in the queue."""
    import torch

    samples = []
    launch()
    torch.cuda.synchronize()
    for _ in range(times // 20):
        begin = time.perf_counter()
        for _ in range(20):
            launch()
        samples.append((time.perf_counter() - begin) / 20 * 1e6)
        torch.cuda.synchronize()
    return statistics.median(samples)
