"""What every strategy makes of every example: the table of docs/comparing-strategies.md.

    python benchmarks/compare.py --budget 30 --jobs 2         # solve, write the results, put them into the document
    python benchmarks/compare.py --from benchmarks/results/compare-<date>.json      # the document again, no solve

`benchmarks/README.md` says what is compared.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.solve import subjects
from benchmarks.solve_report import environment, now, replace
from benchmarks.solve_row import Subject
from twill.graph.extract import extract
from twill.machine.file import load_machine
from twill.solve.comparison import STRATEGIES, Figures, compare
from twill.solve.pipeline import SolveOptions

ROOT = Path(__file__).resolve().parent.parent
DOCUMENT = ROOT / "docs" / "comparing-strategies.md"
BEGIN, END = "<!-- benchmarks/compare.py: begin -->", "<!-- benchmarks/compare.py: end -->"
SCHEMA = "twill.benchmark.compare/1"
Task = tuple[int, Subject, str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0, 2 for bad input."""
    made = argparse.ArgumentParser(prog="benchmarks/compare.py", description=__doc__, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--machines", default="h100,b200", help="names or machine files, separated by commas")
    made.add_argument("--examples", default="", help="NAME or NAME:SPEC, separated by commas; default: all")
    made.add_argument("--budget", type=float, default=30.0, help="seconds for each strategy (default 30)")
    made.add_argument("--jobs", type=int, default=1, help="kernels at a time (default 1)")
    made.add_argument("--from", dest="source", type=Path, metavar="JSON", help="results to take instead of solving")
    made.add_argument("--out", type=Path, help="JSON file (default benchmarks/results/compare-<date>.json)")
    made.add_argument("--document", type=Path, default=DOCUMENT, help="where the table goes, between its two marks")
    options = made.parse_args(arguments)
    if options.source is None:
        found = measured(options.examples, options.machines.split(","), options.budget, options.jobs)
        out = options.out or ROOT / "benchmarks" / "results" / f"compare-{datetime.now(UTC).date()}.json"
        replace(out, json.dumps(found, indent=1) + "\n")
    else:
        found = json.loads(options.source.read_text(encoding="utf-8"))
    text = options.document.read_text(encoding="utf-8")
    if BEGIN not in text or END not in text:
        print(f"{options.document} has no marks for the table: {BEGIN} and {END}", file=sys.stderr)
        return 2
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    replace(options.document, f"{before}{BEGIN}\n{table(found)}{END}{after}")
    return 0


def measured(examples: str, machines: Sequence[str], budget: float, jobs: int) -> dict[str, Any]:
    """Every strategy on every kernel and machine."""
    pairs = [(s, m) for s in subjects(examples, ROOT / "examples") for m in machines]
    tasks = [(n, s, m, budget) for n, (s, m) in enumerate(pairs)]
    tasks.sort(key=lambda task: "attention" not in task[1].name)  # the long ones first
    with multiprocessing.get_context("spawn").Pool(jobs) as pool:
        done = sorted(pool.imap_unordered(_row, tasks, chunksize=1), key=lambda row: row[0])
    rows = [row for _, row in done]
    return {"schema": SCHEMA, "date": now(), "environment": environment(), "budget_seconds": budget, "rows": rows}


def _row(task: Task) -> tuple[int, dict[str, Any]]:
    number, subject, machine, budget = task
    _, graph = extract(subject.target, subject.spec)
    found = compare(graph, load_machine(machine), SolveOptions(budget=budget))
    return number, {"example": subject.name, **found.model_dump(mode="json", by_alias=True)}


def table(found: dict[str, Any]) -> str:
    """The results as Markdown."""
    e = found["environment"]
    head = ["kernel", "machine", *STRATEGIES]
    lines = [
        "",
        f"Measured {found['date'][:10]} with a budget of {found['budget_seconds']:g} s for each strategy "
        f"({e['cpu']}, z3 {e['z3']}). Each cell: I for each program instance, L, copies, registers; `*`: I not proven "
        "minimal; `~`: estimated from costs normalized with U = 300.",
        "",
        _line(head),
        _line(["---"] * len(head)),
    ]
    for row in found["rows"]:
        cells = {listed["strategy"]: _cell(listed, found["budget_seconds"]) for listed in row["rows"]}
        lines.append(_line([f"{row['example']}:{row['spec']}", row["machine"], *(cells[s] for s in STRATEGIES)]))
    return "\n".join([*lines, "", ""])


def _cell(listed: dict[str, Any], budget: float) -> str:
    if listed["figures"] is None:
        return f"none in {budget:g} s" if listed["seconds"] >= budget else "none"
    f = Figures.model_validate(listed["figures"])
    about = "~" if f.cycles_per_unit is not None else ""
    open_ = "*" if listed["strategy"] == "joint" and f.proven == "none" else ""
    return f"{about}{f.cycles_per_instance:.0f}{open_}, {about}{f.length:.0f}, {f.copies}, {f.registers}"


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
