"""How far the solve goes: loops of about 50 and 100 instructions, with the proven gap where it is not exact.

    python benchmarks/scale.py --small 10 --large 60 --jobs 2

`benchmarks/README.md` says what is measured. Results are written when all loops are done.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.scale_graphs import SUBJECTS, Subject
from benchmarks.solve_report import environment, now, replace
from twill.schedule.document import Objective
from twill.smt.limits import Limits
from twill.smt.search import Search
from twill.zlp.bounds import lower_bounds

ROOT = Path(__file__).resolve().parent.parent
SCHEMA = "twill.benchmark.scale/1"
SMALL = 64  # instructions up to which a loop has the smaller budget
HEAD = (
    "loop",
    "machine",
    "instructions",
    "I",
    "bound",
    "gap",
    "seconds to I",
    "copies",
    "crossing",
    "L",
    "proven",
    "how",
)


@dataclass(frozen=True)
class Row:
    """One loop. seconds: until the last step that raised the bound on I or lowered I; total: until the end.

    lower_bound: proven. objective: None if no schedule was found, or there is none (infeasible).
    """

    name: str
    machine: str
    how: str
    instructions: int
    budget: float
    seconds: float
    total: float
    lower_bound: int
    objective: Objective | None
    infeasible: bool

    @property
    def gap(self) -> float | None:
        """By which part of I the I found may be too large at most."""
        return None if self.objective is None else (self.objective.ii - self.lower_bound) / self.objective.ii


def measure(subject: Subject, small: float, large: float) -> Row:
    """Search one loop until everything is proven or the budget ends."""
    graph, machine = subject.graph()
    count = len(graph.instructions)
    budget = small if count <= SMALL else large
    begun = time.perf_counter()
    search = Search(graph, machine, lower_bounds(graph, machine), Limits(seconds=budget))
    known, seconds = (search.lower, search.upper), 0.0
    while search.state == "open":
        search.advance()
        if known != (search.lower, search.upper):
            known, seconds = (search.lower, search.upper), time.perf_counter() - begun
    outcome = search.finish()
    return Row(
        subject.name, subject.machine, subject.how, count, budget, seconds, time.perf_counter() - begun,
        outcome.certificate.lower_bound, outcome.objective, outcome.infeasible,
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0, 2 for bad input."""
    made = argparse.ArgumentParser(prog="benchmarks/scale.py", description=__doc__, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--only", default="", help="names of loops, separated by commas; default: all")
    made.add_argument("--small", type=float, default=10.0, help=f"seconds for up to {SMALL} instructions (default 10)")
    made.add_argument("--large", type=float, default=60.0, help="seconds for more (default 60)")
    made.add_argument("--jobs", type=int, default=1, help="loops at a time (default 1)")
    made.add_argument("--out", type=Path, help="JSON file (default benchmarks/results/scale-<date>.json)")
    options = made.parse_args(arguments)
    wanted = set(options.only.split(",")) if options.only else {s.name for s in SUBJECTS}
    if unknown := wanted - {s.name for s in SUBJECTS}:
        print(f"no loop is called {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    chosen = [n for n, s in enumerate(SUBJECTS) if s.name in wanted]
    chosen.sort(
        key=lambda n: ("x5" not in SUBJECTS[n].name and "/100" not in SUBJECTS[n].name, n)
    )  # the long ones first
    tasks = [(n, options.small, options.large) for n in chosen]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        rows = sorted(pool.imap_unordered(_measure, tasks, chunksize=1), key=lambda found: found[0])
    out = options.out or ROOT / "benchmarks" / "results" / f"scale-{datetime.now(UTC).date()}.json"
    write([row for _, row in rows], options.jobs, out)
    print(out.with_suffix(".md").read_text(encoding="utf-8"))
    return 0


def _measure(task: tuple[int, float, float]) -> tuple[int, Row]:
    number, small, large = task
    return number, measure(SUBJECTS[number], small, large)


def write(rows: Sequence[Row], jobs: int, path: Path) -> None:
    """The rows as JSON at `path` and as a page beside it."""
    e = environment()
    document = {"schema": SCHEMA, "date": now(), "environment": e, "jobs": jobs, "rows": [_row(row) for row in rows]}
    replace(path, json.dumps(document, indent=1) + "\n")
    about = (
        f"{document['date']}; {e['cpu']}, {e['cores']} cores, {jobs} loops at a time, one process and one thread each; "
        f"Python {e['python']}, z3 {e['z3']}. `benchmarks/README.md` says what the columns mean."
    )
    lines = ["# Large loops", "", about, "", _line(HEAD), _line(["---"] * len(HEAD)), *(_line(cells(r)) for r in rows)]
    replace(path.with_suffix(".md"), "\n".join(lines) + "\n")


def cells(row: Row) -> list[str]:
    """A row under HEAD."""
    listed = [row.name, row.machine, str(row.instructions)]
    o, gap = row.objective, row.gap
    if o is None or gap is None:
        what = "none exists" if row.infeasible else "none found"
        return [*listed, what, str(row.lower_bound), "-", f"{row.total:.1f}", "-", "-", "-", "-", row.how]
    proven = ", ".join({"ii": "I", "length": "L"}.get(name, name) for name in o.proven) or "-"
    figures = [str(o.ii), str(row.lower_bound), f"{100 * gap:.1f} %", f"{row.seconds:.1f}"]
    return [*listed, *figures, str(o.copies), str(o.crossing), str(o.length), proven, row.how]


def _row(row: Row) -> dict[str, object]:
    objective = row.objective.model_dump() if row.objective else None
    return {**asdict(row), "objective": objective, "gap": row.gap}


def _line(words: Sequence[str]) -> str:
    return f"| {' | '.join(words)} |"


if __name__ == "__main__":
    sys.exit(main())
