"""Solve times of the examples, beside the paper's Boolean encoding on the same graphs.

    python benchmarks/solve.py --machines h100,b200 --examples attention,gemm:fp16 --repeat 5

`benchmarks/README.md` says what is measured. Results are written after every row, so an
interrupted run (Ctrl-C) keeps the rows that it had.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also where twill is not installed

from benchmarks.solve_report import Results, Row, as_tables, environment, now, solve_seconds, write
from benchmarks.solve_row import Plan, Subject, measure_apart
from twill.exc import TwillError
from twill.kernel.sidecar import read_sidecar
from twill.machine.file import load_machine

ROOT = Path(__file__).resolve().parent.parent


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0, 2 for bad input, 130 when interrupted."""
    options = parser().parse_args(arguments)
    console = Console(stderr=True)
    try:
        plan = Plan(
            subjects=subjects(options.examples, ROOT / "examples"),
            machines=tuple(load_machine(name) for name in options.machines.split(",")),
            repeat=options.repeat,
            budget=options.budget,
            units=options.units,
            paper=options.paper,
            solver=options.solver,
            margin=options.margin,
        )
    except TwillError as wrong:
        console.print(wrong.describe(), markup=False, soft_wrap=True)
        return wrong.exit_code
    out = options.out or ROOT / "benchmarks" / "results" / f"solve-{datetime.now(UTC).date()}.json"
    results = measure(plan, console, lambda partial: write(partial, out))
    for table in as_tables(results):
        Console().print(table)
    console.print(f"written: {out} and {out.with_suffix('.md')}", markup=False, soft_wrap=True)
    return 130 if results.interrupted else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="benchmarks/solve.py", description=__doc__, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--machines", default="h100,b200", help="names or machine files, separated by commas")
    made.add_argument("--examples", default="", help="NAME or NAME:SPEC, separated by commas; default: all")
    made.add_argument("--repeat", type=positive_int, default=5, help="runs of every measurement (default 5)")
    made.add_argument("--budget", type=positive, default=60.0, help="seconds for a solve or question (default 60)")
    made.add_argument("--units", type=units, default=(300, 100, 50), metavar="U,U...",
                      help='normalizations to compare at, in order until the Boolean encoding finishes; '
                           '"exact" for exact cycles, "none" for no comparison (default 300,100,50)')  # fmt: skip
    made.add_argument("--paper", action="store_true", help="also run the paper's whole search")
    made.add_argument("--solver", choices=("z3", "yices", "cvc5"), default="z3", help="of the solve")
    made.add_argument("--margin", action="store_true", help="with room for late products (docs/model.md) before L")
    made.add_argument("--out", type=Path, help="JSON file (default benchmarks/results/solve-<date>.json)")
    return made


def positive(text: str) -> float:
    """A number > 0; ValueError otherwise."""
    value = float(text)
    if not 0 < value < float("inf"):
        raise ValueError(text)
    return value


def positive_int(text: str) -> int:
    """An integer > 0; ValueError otherwise."""
    value = int(text)
    if value < 1:
        raise ValueError(text)
    return value


def units(text: str) -> tuple[int | None, ...]:
    """The normalizations of --units; ValueError if one is none."""
    if text == "none":
        return ()
    return tuple(None if word == "exact" else positive_int(word) for word in text.split(","))


class UnknownExample(TwillError):
    """--examples names an example or specialization that there is none of."""


def subjects(wanted: str, directory: Path) -> tuple[Subject, ...]:
    """What --examples means; raises UnknownExample and the errors of reading sidecars."""
    known = [s for file in sorted(directory.glob("*.py")) for s in specializations(file)]
    if not wanted:
        return tuple(known)
    found: list[Subject] = []
    for word in wanted.split(","):
        name, _, spec = word.partition(":")
        meant = [s for s in known if s.name == name and (not spec or s.spec == spec)]
        if not meant:
            names = sorted({s.name for s in known})
            specs = [s.spec for s in known if s.name == name and s.spec]
            hint = f"{name}:{' or :'.join(specs)}" if specs else f"one of {', '.join(names)}"
            raise UnknownExample(f"there is no example `{word}`", file=str(directory), hint=hint)
        found += [s for s in meant if s not in found]
    return tuple(found)


def specializations(file: Path) -> list[Subject]:
    """Every specialization of an example's sidecar; one without a name if there is no sidecar."""
    sidecar = read_sidecar(str(file))
    if sidecar is None:
        return [Subject(file.stem, str(file), None)]
    several = len({t.kernel for t in sidecar.tables}) > 1
    made = []
    for table in sidecar.tables:
        target = f"{file}::{table.kernel}" if table.kernel else str(file)
        made.append(Subject(f"{file.stem}.{table.kernel}" if several else file.stem, target, table.name))
    return made


def measure(plan: Plan, console: Console, keep: Callable[[Results], None]) -> Results:
    """Measure row by row; `keep` gets all rows so far after each. Ctrl-C ends it with the rows it has."""
    results = Results(now(), environment(), plan.repeat, plan.budget, interrupted=False, rows=())
    pairs = [(subject, machine) for subject in plan.subjects for machine in plan.machines]
    try:
        with console.status("") as status:
            for number, (subject, machine) in enumerate(pairs, start=1):
                title = f"{subject.name}:{subject.spec} on {machine.name} ({number} of {len(pairs)})"

                def tell(what: str, title: str = title) -> None:
                    status.update(f"{title}: {what}")

                row = measure_apart(plan, subject, machine, tell)
                results = replace(results, rows=(*results.rows, row))
                keep(results)
                console.print(f"{title}: {outcome(row)}", markup=False, highlight=False, soft_wrap=True)
    except KeyboardInterrupt:
        results = replace(results, interrupted=True)
        keep(results)
    return results


def outcome(row: Row) -> str:
    """A row in a few words, while the others run."""
    objective = row.solved.schedule.objective if row.solved.schedule else None
    figures = f"I = {objective.ii}, copies = {objective.copies}, L = {objective.length}; " if objective else ""
    message = f" ({row.solved.message})" if row.solved.message else ""
    return f"{figures}{solve_seconds(row.solved)}{message}"


if __name__ == "__main__":
    sys.exit(main())
