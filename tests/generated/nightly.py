"""The nightly form: `python -m tests.generated --count 20000 [--processes 2] [--seed N] [--progress FILE] [--json F]`.

Prints how often each operation was held, by the type of its result, and every kernel that differs; exit code 1 if one
does. With a progress file, a run that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.generated.holding import hold
from tests.generated.programs import program
from tests.generated.values import DTYPES

STEP = 100  # programs between two lines of the progress file

Job = tuple[int, int, int]
"""(seed, number of the first program, how many)."""


@dataclass
class Tally:
    """What was held, and the texts of what differed."""

    count: int = 0
    seconds: float = 0.0
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: dict[str, str] = field(default_factory=dict)

    def add(self, other: Tally) -> None:
        """Takes in what another one has."""
        self.count += other.count
        self.seconds += other.seconds
        self.made.update(other.made)
        self.failed.update(other.failed)


def many(job: Job) -> tuple[Job, Tally]:
    """The programs of a job; each is made from its number alone."""
    seed, first, count = job
    tally = Tally()
    began = time.process_time()
    with tempfile.TemporaryDirectory(prefix="twill-generated-") as directory:
        for number in range(first, first + count):
            one = program(Random(f"{seed}/{number}"))
            tally.count += 1
            tally.made.update(one.made)
            try:
                hold([one], Path(directory))
            except Exception as error:  # each is worth a line, none ends the run
                what = f"{type(error).__name__}: {error}"
                tally.failed[f"{seed}/{number}"] = what if one.source in what else f"{what}\n{one.source}"
    tally.seconds = time.process_time() - began
    return job, tally


def line(job: Job, tally: Tally) -> str:
    """A job that is over, as a line of the progress file."""
    made = [[operation, dtype, count] for (operation, dtype), count in sorted(tally.made.items())]
    return json.dumps({"job": job, "seconds": tally.seconds, "made": made, "failed": tally.failed})


def earlier(progress: Path) -> Iterator[tuple[Job, Tally]]:
    """The jobs of a progress file; a line that was cut off is none."""
    for text in progress.read_text(encoding="utf-8").splitlines() if progress.exists() else ():
        try:
            read = json.loads(text)
        except json.JSONDecodeError:
            continue
        seed, first, count = read["job"]
        made = Counter({(operation, dtype): number for operation, dtype, number in read["made"]})
        yield (seed, first, count), Tally(count, read["seconds"], made, read["failed"])


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


def held(jobs: list[Job], processes: int, progress: Path | None) -> Iterator[Tally]:
    """The tallies of all jobs, those of the progress file first."""
    done = dict(earlier(progress)) if progress else {}
    yield from (done[job] for job in jobs if job in done)
    left = [job for job in jobs if job not in done]
    with multiprocessing.get_context("spawn").Pool(processes) as pool:
        for job, tally in pool.imap_unordered(many, left):
            if progress:
                with progress.open("a", encoding="utf-8") as file:
                    print(line(job, tally), file=file)
            yield tally


def main() -> int:
    """Runs, prints, and says by its result whether all agreed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=20000)
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--progress", type=Path, help="what is done, as a file that a later run goes on with")
    parser.add_argument("--json", type=Path, help="the counts, as a file")
    asked = parser.parse_args()
    jobs = [(asked.seed, first, min(STEP, asked.count - first)) for first in range(0, asked.count, STEP)]
    total = Tally()
    for tally in held(jobs, asked.processes, asked.progress):
        total.add(tally)
        for text in tally.failed.values():
            print(text, end="\n\n", flush=True)
        print(f"{total.count} held, {len(total.failed)} differ, {total.seconds:.0f} s", file=sys.stderr, flush=True)
    if asked.json:
        record(total, asked.json)
    print(table(total.made))
    print(f"{total.count} programs, {len(total.failed)} differ, {total.seconds:.0f} s of CPU time")
    return 1 if total.failed else 0
