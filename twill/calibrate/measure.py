"""A microbenchmark, repeated until its repeats agree."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from twill import exc
from twill.calibrate.recording import Measurement
from twill.codegen.targets.probe import Probe, sample

REPEATS = 25
ATTEMPTS = 3

Run = Callable[[Probe, int], int]  # cycles of one launch of that many rounds


def measure(probe: Probe, run: Run, repeats: int = REPEATS, wider: float = 1.0) -> Measurement:
    """Both counts in turns, `repeats` times, after one launch that is not counted.

    wider: by how much more than `probe.spread` is believed. Errors: SpreadTooLarge after ATTEMPTS; those of `run`.
    """
    limit = probe.spread * wider
    for attempt in range(1, ATTEMPTS + 1):
        run(probe, probe.counts[1])
        pairs = tuple((run(probe, probe.counts[0]), run(probe, probe.counts[1])) for _ in range(repeats))
        found = sample([probe.cycles(pair) for pair in pairs])
        if found.spread <= limit:
            date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
            return Measurement(
                name=probe.name, counts=probe.counts, steps=probe.steps, pairs=pairs, attempts=attempt, date=date
            )
    raise exc.SpreadTooLarge(probe.name, found.median, found.low, found.high, limit, ATTEMPTS)
