"""Times of launches that take turns in random order: sustained, as fast as they come, and burst, one after a pause.

Sustained is what `triton.testing.do_bench` does: launches back to back, each with a cold L2, a pair of events around
each; on large products the board then draws what it may and the clock falls. Burst is one launch after a rest, at the
highest clock. The two differ by up to a quarter and are never compared with one another.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from benchmarks.kernels.record import Spread, spread
from benchmarks.kernels.sensor import Sensor

Launch = Callable[[], Any]
FLUSH = 256 << 20  # bytes: more than the L2 of any machine described
FLUSHES_MS = 0.1  # about how long that takes
AHEAD = 2_000_000  # cycles that the GPU waits at the start of a window, so that the host gets ahead
MOST = 400  # launches of a window


@dataclass(frozen=True)
class Effort:
    """How long is measured. rounds: windows of each launch that count; one round before them does not, it brings the
    board to its power limit. warm, window: seconds. bursts: single launches, each after `pause` seconds."""

    rounds: int = 9
    warm: float = 0.02
    window: float = 0.06
    bursts: int = 7
    pause: float = 0.03


def sustained(
    launches: Mapping[str, Launch], effort: Effort, sensor: Sensor, chance: random.Random
) -> dict[str, Spread]:
    """Every launch in `rounds` windows; each round runs all of them in a new order."""
    clock = Clock()
    times: dict[str, list[list[float]]] = {name: [] for name in launches}
    spans: dict[str, list[tuple[float, float]]] = {name: [] for name in launches}
    estimates = {name: clock.once(launch) for name, launch in launches.items()}
    for counts in (False, *[True] * effort.rounds):
        for name in shuffled(launches, chance):
            if not counts:
                clock.window(launches[name], _count(effort.window, estimates[name]))
                continue
            clock.window(launches[name], _count(effort.warm, estimates[name]))
            begin = time.monotonic()
            times[name].append(clock.window(launches[name], max(5, _count(effort.window, estimates[name]))))
            spans[name].append((begin, time.monotonic()))
    return {name: spread(times[name], *_sensed(sensor, spans[name])) for name in launches}


def burst(launches: Mapping[str, Launch], effort: Effort, chance: random.Random) -> dict[str, Spread]:
    """Every launch `bursts` times by itself, after a pause, in a new order each time."""
    clock = Clock()
    times: dict[str, list[list[float]]] = {name: [] for name in launches}
    for _ in range(effort.bursts):
        for name in shuffled(launches, chance):
            clock.synchronize()
            time.sleep(effort.pause)
            times[name].append([clock.once(launches[name])])
    return {name: spread(found) for name, found in times.items()}


def shuffled(launches: Mapping[str, Launch], chance: random.Random) -> list[str]:
    """The names in some order."""
    order = list(launches)
    chance.shuffle(order)
    return order


def _count(seconds: float, estimate: float) -> int:
    return max(1, min(MOST, int(seconds * 1000 / (estimate + FLUSHES_MS))))


def _sensed(sensor: Sensor, spans: list[tuple[float, float]]) -> tuple[float | None, float | None]:
    """Means over all windows."""
    found = [sensor.mean(*span) for span in spans]
    clocks = [clock for clock, _ in found if clock is not None]
    powers = [power for _, power in found if power is not None]
    if not clocks:
        return None, None
    return sum(clocks) / len(clocks), sum(powers) / len(powers)


class Clock:
    """Events of the GPU around launches."""

    def __init__(self) -> None:
        import torch

        self.torch: Any = torch
        self.cache = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")

    def synchronize(self) -> None:
        """Wait for the GPU."""
        self.torch.cuda.synchronize()

    def once(self, launch: Launch) -> float:
        """Milliseconds of one launch."""
        return self.window(launch, 1)[0]

    def window(self, launch: Launch, count: int) -> list[float]:
        """Milliseconds of `count` launches one after the other, each with a cold L2."""
        event = self.torch.cuda.Event
        begins = [event(enable_timing=True) for _ in range(count)]
        ends = [event(enable_timing=True) for _ in range(count)]
        self.torch.cuda._sleep(AHEAD)  # else the first events would time the host
        for begin, end in zip(begins, ends, strict=True):
            self.cache.zero_()
            begin.record()
            launch()
            end.record()
        self.synchronize()
        return [float(begin.elapsed_time(end)) for begin, end in zip(begins, ends, strict=True)]
