"""Cycles of an iteration by the machine code, simulated, beside a recorded measurement and the schedule: no GPU.

    python -m benchmarks.predicted build/examples --simulate benchmarks/results/predicted-2026-11-21.json

The launches are those of the measurement on one SM: a short and a long loop, of which the CTA that takes longest
decides. `twill.codegen.targets.hopper.timing` simulates them from the disassembly of each kernel. Results go to
benchmarks/results/simulated-<date>.json and the page beside it.
"""

from __future__ import annotations

import json
import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.predicted import LOOPS, Grid, Loop, line, predicted
from twill.codegen.compile.disassembler import disassemble
from twill.codegen.targets.hopper.timing.launch import SimulatedLaunch, TimedKernel
from twill.machine.file import load_machine
from twill.manifest.document import CUBIN, MANIFEST, read_manifest

MACHINE = "h200"  # on which was measured
CLOSE = 0.1  # of the measured cycles


@dataclass(frozen=True)
class Row:
    """Cycles of an iteration: the schedule's interval, as simulated, and as measured on one SM."""

    kernel: str
    predicted: int
    simulated: float
    measured: float


def simulated(folder: Path, loop: Loop) -> float:
    """Cycles of an iteration. Errors: those of the simulation; AssertionError: there is no nvdisasm."""
    cubin = (folder / CUBIN).read_bytes()
    text = disassemble(cubin, encoded=True)
    assert text is not None, "there is no nvdisasm"
    kernel = TimedKernel.read(read_manifest(folder / MANIFEST), cubin, text)
    short, long = (longest(kernel, sizes, grid) for sizes, grid in zip(loop.sizes, loop.alone, strict=True))
    return (long - short) / (loop.iterations[1] - loop.iterations[0])


def longest(kernel: TimedKernel, sizes: Mapping[str, int], grid: Grid) -> int:
    """Of the first and the last CTA, each on its SM."""
    machine = load_machine(MACHINE)
    ctas = min(math.prod(grid), machine.sms.whole)
    return max(
        kernel.cycles(SimulatedLaunch(sizes, grid, ctas, number), machine.simulating) for number in {0, ctas - 1}
    )


def rows(folder: Path, only: str, record: Mapping[str, Any]) -> Iterator[Row]:
    """Every kernel in `folder` that was measured."""
    measured = {one["kernel"]: one["alone"]["cycles"] for one in record["rows"]}
    for name, loop in LOOPS.items():
        if only in name and name in measured and (folder / name / MANIFEST).exists():
            schedule = json.loads((folder / name / "schedule.json").read_text(encoding="utf-8"))
            yield Row(name, predicted(schedule, loop), simulated(folder / name, loop), measured[name])


HEAD = ("kernel", "measured", "schedule", "/ measured", "simulated", "/ measured")


def markdown(document: Mapping[str, Any]) -> str:
    """The page of a document that `simulate` wrote."""
    found = document["rows"]
    about = (
        f"{document['date']}. Cycles of an iteration on one SM: measured ({document['record']}), the schedule's "
        'initiation interval, and the emitted machine code simulated (docs/model.md, "Between issue and result").'
    )
    table = [line(HEAD), line(["---"] * len(HEAD)), *(line(cells(one)) for one in found)]
    said = (
        f"Within {100 * CLOSE:.0f} %: {close(found, 'simulated')} of {len(found)} simulated, "
        f"{close(found, 'predicted')} by the schedule. Mean error {100 * error(found, 'simulated'):.1f} % and "
        f"{100 * error(found, 'predicted'):.1f} %."
    )
    return "\n".join(["# Simulated and measured cycles of an iteration", "", about, "", *table, "", said]) + "\n"


def cells(one: Mapping[str, Any]) -> list[str]:
    """One row."""
    measured, schedule, found = one["measured"], one["predicted"], one["simulated"]
    parts = [f"{measured:.0f}", f"{schedule}", f"{schedule / measured:.2f}", f"{found:.0f}", f"{found / measured:.2f}"]
    return [one["kernel"], *parts]


def close(found: Sequence[Mapping[str, Any]], column: str) -> int:
    """Rows of which a column is near what was measured."""
    return sum(abs(one[column] / one["measured"] - 1) <= CLOSE for one in found)


def error(found: Sequence[Mapping[str, Any]], column: str) -> float:
    """The mean of what a column is off, as a part of what was measured."""
    return float(statistics.mean(abs(one[column] / one["measured"] - 1) for one in found))


def simulate(folder: Path, only: str, record: Path, out: Path | None) -> None:
    """Prints the rows and writes the results."""
    now = datetime.now(UTC)
    out = out or Path(__file__).parent / f"results/simulated-{now:%Y-%m-%d}.json"
    found = []
    for one in rows(folder, only, json.loads(record.read_text(encoding="utf-8"))):
        found.append(asdict(one))
        print(line(cells(found[-1])), flush=True)
        document = {"date": f"{now:%Y-%m-%d %H:%M} UTC", "record": record.stem, "rows": found}
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        out.with_suffix(".md").write_text(markdown(document), encoding="utf-8")
