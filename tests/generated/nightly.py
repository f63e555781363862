"""The nightly form: `python -m tests.generated --count 20000 --processes 2 [--seed N] [--json FILE]`.

Prints how often each operation was held, by the type of its result, and every kernel that differs; exit code 1 if one
does.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.generated.holding import hold
from tests.generated.programs import programs
from tests.generated.values import DTYPES
from tests.generated.writer import Program


@dataclass
class Tally:
    """What one process has held, and the texts of what differed."""

    count: int = 0
    seconds: float = 0.0
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)


def many(job: tuple[int, int]) -> Tally:
    """So many programs from a seed."""
    count, start = job
    tally = Tally()
    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="twill-generated-") as directory:

        @seed(start)
        @settings(
            max_examples=count, deadline=None, database=None, phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(programs())
        def one(program: Program) -> None:
            tally.count += 1
            tally.made.update(program.made)
            try:
                hold(program, Path(directory))
            except Exception as error:  # each is worth a line, none ends the run
                what = f"{type(error).__name__}: {error}"
                tally.failed[program.source] = what if program.source in what else f"{what}\n{program.source}"

        one()
    tally.seconds = time.process_time() - began
    return tally


def table(made: Counter[tuple[str, str]]) -> str:
    """Operations by types of results, as text."""
    operations = sorted({operation for operation, _ in made})
    rows = [f"{'':24}" + "".join(f"{dtype:>8}" for dtype in DTYPES)]
    for operation in operations:
        rows.append(f"{operation:24}" + "".join(f"{made[operation, dtype] or '':>8}" for dtype in DTYPES))
    return "\n".join(rows)


def record(total: Tally, path: Path) -> None:
    """How often each operation was held, by the type of its result, as JSON: what `docs/operations.md` is made of."""
    counts: dict[str, dict[str, int]] = {}
    for (operation, dtype), number in sorted(total.made.items()):
        counts.setdefault(operation, {})[dtype] = number
    found = {"programs": total.count, "differ": len(total.failed), "made": counts}
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def main() -> int:
    """Runs, prints, and says by its result whether all agreed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="the counts, as a file")
    asked = parser.parse_args()
    step = 250
    jobs = [(min(step, asked.count - done), asked.seed * 1_000_003 + done) for done in range(0, asked.count, step)]
    total, began = Tally(), time.monotonic()
    with multiprocessing.get_context("spawn").Pool(asked.processes) as pool:
        for tally in pool.imap_unordered(many, jobs):
            total.count += tally.count
            total.seconds += tally.seconds
            total.made.update(tally.made)
            total.failed.update(tally.failed)
            for text in tally.failed.values():
                print(text, end="\n\n", flush=True)
            if asked.json:
                record(total, asked.json)
            print(f"{total.count} held, {len(total.failed)} differ, {time.monotonic() - began:.0f} s", file=sys.stderr)
    print(table(total.made))
    print(f"{total.count} programs, {len(total.failed)} differ, {total.seconds:.0f} s of CPU time")
    return 1 if total.failed else 0
