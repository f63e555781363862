"""What `benchmarks/solve.py` writes: machine-readable JSON, Markdown, and a table in the terminal."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import tempfile
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path

import z3
from rich import box
from rich.table import Table

from benchmarks.solve_measure import PHASES, Asked, Comparison, Solved, Times

SCHEMA = "twill.benchmark.solve/1"


@dataclass(frozen=True)
class Row:
    """One example, specialization and machine. instructions: of the main loop's costed graph."""

    example: str
    spec: str
    machine: str
    instructions: int
    extract_seconds: float
    solved: Solved
    comparisons: tuple[Comparison, ...]


@dataclass(frozen=True)
class Results:
    """All rows of one run, with where, when and how they were measured."""

    date: str
    environment: dict[str, str]
    repeat: int
    budget: float
    interrupted: bool
    rows: tuple[Row, ...]


def environment() -> dict[str, str]:
    """Versions, the CPU, and how many processes were running on it."""
    return {
        "python": platform.python_version(),
        "z3": z3.get_version_string(),
        "triton": importlib.metadata.version("triton"),
        "pyscipopt": importlib.metadata.version("pyscipopt"),
        "cpu": cpu_model(),
        "cores": str(os.cpu_count()),
        "load": f"{os.getloadavg()[0]:.1f}",
        "system": platform.platform(),
    }


def cpu_model() -> str:
    """The processor's name as the system gives it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def now() -> str:
    """The time, UTC, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")


# -- files ----------------------------------------------------------------------------------------


def write(results: Results, path: Path) -> None:
    """The results as JSON at `path` and as Markdown beside it; each file is replaced as a whole."""
    replace(path, json.dumps(as_json(results), indent=1) + "\n")
    replace(path.with_suffix(".md"), as_markdown(results))


def replace(path: Path, text: str) -> None:
    """Write a file so that a reader sees the old text or the new one, never a part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        os.chmod(name, 0o644)
        os.replace(name, path)
    except BaseException:
        os.unlink(name)
        raise


def as_json(results: Results) -> dict[str, object]:
    """The results as JSON; schedules are left out but for their figures."""
    return {
        "schema": SCHEMA,
        "date": results.date,
        "environment": results.environment,
        "repeat": results.repeat,
        "budget_seconds": results.budget,
        "interrupted": results.interrupted,
        "rows": [_row(row) for row in results.rows],
    }


def _row(row: Row) -> dict[str, object]:
    solved, schedule = row.solved, row.solved.schedule
    return {
        "example": row.example,
        "spec": row.spec,
        "machine": row.machine,
        "instructions": row.instructions,
        "status": solved.status,
        "message": solved.message,
        "objective": schedule.objective.model_dump() if schedule else None,
        "cooperation": schedule.cooperation.model_dump() if schedule else None,
        "lower_bound": solved.lower_bound,
        "extract_seconds": row.extract_seconds,
        "solve_seconds": list(solved.times.seconds),
        "median_seconds": solved.times.median,
        "phase_seconds": solved.phases,
        "comparisons": [_comparison(c) for c in row.comparisons],
    }


def _comparison(c: Comparison) -> dict[str, object]:
    return {
        "units": c.units,
        "worst_error": c.worst_error,
        "reason": c.reason,
        "ii": c.ii,
        "copies": c.copies,
        "length": c.length,
        "compact": [_asked(a) for a in c.compact],
        "boolean": [_asked(a) for a in c.boolean],
        "paper_search": asdict(c.paper) if c.paper else None,
        "joint_seconds": list(c.joint.seconds) if c.joint else None,
    }


def _asked(a: Asked) -> dict[str, object]:
    return {
        "outcome": a.outcome,
        "seconds": list(a.times.seconds),
        "median_seconds": a.times.median,
        "deciding_seconds": a.deciding,
        "variables": a.variables,
        "clauses": a.clauses,
    }


# -- tables ---------------------------------------------------------------------------------------

PHASE_NAMES = {"ii": "I", "length": "L"}
SOLVE_HEAD = ("kernel", "machine", "ops", "I", "copies", "crossing", "L", "registers", "seconds")
PHASES_HEAD = ("kernel", "machine", *(PHASE_NAMES.get(p, p) for p in PHASES))
COMPARE_HEAD = (
    "kernel",
    "machine",
    "costs",
    "worst error",
    "I",
    "copies",
    "shortest L",
    "compact",
    "Boolean",
)


def solve_cells(row: Row) -> tuple[str, ...]:
    """The cells of a row under SOLVE_HEAD."""
    solved, name = row.solved, f"{row.example}:{row.spec}"
    if solved.schedule is None:
        figures: tuple[str, ...] = ("-",) * 5
    else:
        o = solved.schedule.objective
        values = (o.ii, o.copies, o.crossing, o.length, o.registers)
        names = ("ii", "copies", "crossing", "length", "registers")
        figures = tuple(f"{v}" if n in o.proven else f"<= {v}" for v, n in zip(values, names, strict=True))
    return (name, row.machine, f"{row.instructions or '-'}", *figures, solve_seconds(solved))


def phase_cells(row: Row) -> tuple[str, ...]:
    """The cells of a row under PHASES_HEAD."""
    phases = tuple(f"{row.solved.phases[p]:.2f}" if p in row.solved.phases else "-" for p in PHASES)
    return (f"{row.example}:{row.spec}", row.machine, *phases)


def solve_seconds(solved: Solved) -> str:
    """The median and the range of the solve, or why there is none."""
    if solved.status == "refused":
        return "refused"
    if solved.status == "budget":
        proven = solved.schedule is not None and "ii" in solved.schedule.objective.proven
        return f"not finished in {solved.times.median:.0f} s" + ("" if proven else f", I >= {solved.lower_bound}")
    return spread(solved.times)


def spread(times: Times) -> str:
    """Median (least-most)."""
    if len(times.seconds) == 1:
        return f"{times.median:.2f}"
    return f"{times.median:.2f} ({min(times.seconds):.2f}-{max(times.seconds):.2f})"


def compare_cells(row: Row, c: Comparison, budget: float, paper: bool) -> tuple[str, ...]:
    """The cells of one comparison under COMPARE_HEAD."""
    costs = "exact" if c.units is None else f"U = {c.units}"
    head = (f"{row.example}:{row.spec}", row.machine, costs)
    if c.reason:
        return (*head, "-", "-", "-", "-", c.reason, "-", *(("-", "-") if paper else ()))
    figures = (f"{100 * c.worst_error:.0f} %", str(c.ii), str(c.copies), str(c.length))
    cells = [*head, *figures, *(answers(a, budget) for a in (c.compact, c.boolean))]
    if paper:
        cells += [paper_cell(c), spread(c.joint) if c.joint else "-"]
    return tuple(cells)


def answers(asked: tuple[Asked, ...], budget: float) -> str:
    """Seconds at the shortest L (sat) and one less (unsat)."""
    return " / ".join(f"not finished in {budget:g} s" if a.outcome == "unknown" else spread(a.times) for a in asked)


def paper_cell(c: Comparison) -> str:
    """What the paper's search returned."""
    if c.paper is None:
        return "-"
    if c.paper.ii is None:
        return f"no schedule in {c.paper.seconds:.0f} s"
    return f"I = {c.paper.ii}, L = {c.paper.length} in {c.paper.seconds:.2f} s"


def compare_head(paper: bool) -> tuple[str, ...]:
    """COMPARE_HEAD, with the paper's search if it was run."""
    return (*COMPARE_HEAD, "paper's search", "joint solve") if paper else COMPARE_HEAD


def has_paper(results: Results) -> bool:
    """Whether the paper's search was run anywhere."""
    return any(c.paper for row in results.rows for c in row.comparisons)


def tables(results: Results) -> list[tuple[str, tuple[str, ...], list[tuple[str, ...]]]]:
    """(title, head, rows) of every table."""
    paper = has_paper(results)
    compared = [compare_cells(row, c, results.budget, paper) for row in results.rows for c in row.comparisons]
    made = [
        ("Solve, exact costs", SOLVE_HEAD, [solve_cells(row) for row in results.rows]),
        ("Where the seconds went", PHASES_HEAD, [phase_cells(row) for row in results.rows if row.solved.phases]),
    ]
    if compared:
        title = "Compact and Boolean encoding: seconds at the shortest L / at one cycle less"
        made.append((title, compare_head(paper), compared))
    return made


def as_tables(results: Results) -> list[Table]:
    """Tables for the terminal."""
    made = []
    for title, head, rows in tables(results):
        table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name in head:
            table.add_column(name, overflow="fold")
        for cells in rows:
            table.add_row(*cells)
        made.append(table)
    return made


def as_markdown(results: Results) -> str:
    """The results as a page."""
    e = results.environment
    lines = [
        "# Solve times",
        "",
        f"{results.date}; {e['cpu']}, {e['cores']} cores (load at the start {e['load']}); Python {e['python']},"
        f" z3 {e['z3']}, Triton {e['triton']}, PySCIPOpt {e['pyscipopt']}."
        f" Seconds: median of {results.repeat} (least-most); budget {results.budget:g} s."
        " `benchmarks/README.md` says what the columns mean.",
    ]
    if results.interrupted:
        lines += ["", "The run was interrupted: rows are missing."]
    for title, head, rows in tables(results):
        lines += ["", f"## {title}", "", _line(head), _line(("---",) * len(head)), *(_line(cells) for cells in rows)]
    refusals = [row for row in results.rows if row.solved.message]
    if refusals:
        lines += ["", "## Remarks", ""]
        lines += [f"- {r.example}:{r.spec} on {r.machine}: {' '.join(r.solved.message.split())}" for r in refusals]
    return "\n".join(lines) + "\n"


def _line(cells: tuple[str, ...]) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
