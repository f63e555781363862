"""Rows that several processes of `benchmarks/solve.py` measured at the same time, as one table.

    python benchmarks/solve_merge.py ROWS.json ... --out benchmarks/results/solve-<date>.json

Rows are taken together only if they were measured by one version of Python, z3 and Triton on one kind of machine, with
equal repeats and budget. The later file wins where two have a row of the same example, specialization and machine.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from benchmarks.solve_report import SCHEMA, replace

SAME = ("python", "z3", "triton", "pyscipopt", "cpu", "cores")
HEAD = (
    "kernel",
    "machine",
    "I",
    "bound",
    "copies",
    "L",
    "registers",
    "seconds",
    "compact, U",
    "Boolean",
    "joint solve, U",
    "paper's search",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 2 if the files do not belong together."""
    made = argparse.ArgumentParser(prog="benchmarks/solve_merge.py", description=__doc__, allow_abbrev=False)
    made.add_argument("files", nargs="+", type=Path)
    made.add_argument("--out", required=True, type=Path)
    options = made.parse_args(arguments)
    documents = [json.loads(path.read_text(encoding="utf-8")) for path in options.files]
    if len({json.dumps(setting(document)) for document in documents}) != 1:
        print("the files were measured with different versions, machines, repeats or budgets", file=sys.stderr)
        return 2
    rows = {(r["example"], r["spec"], r["machine"]): r for document in documents for r in document["rows"]}
    first, last = min(d["date"] for d in documents), max(d["date"] for d in documents)
    environment = {key: documents[0]["environment"][key] for key in SAME}
    merged = {
        "schema": SCHEMA, "date": first, "until": last, "environment": environment, "processes": len(documents),
        "repeat": documents[0]["repeat"], "budget_seconds": documents[0]["budget_seconds"],
        "rows": [rows[key] for key in sorted(rows)],
    }  # fmt: skip
    replace(options.out, json.dumps(merged, indent=1) + "\n")
    replace(options.out.with_suffix(".md"), markdown(merged))
    return 0


def setting(document: dict[str, Any]) -> list[Any]:
    """What rows must share."""
    return [document["schema"], document["repeat"], document["budget_seconds"], *(
        document["environment"][key] for key in SAME)]  # fmt: skip


def markdown(merged: dict[str, Any]) -> str:
    """The table."""
    e = merged["environment"]
    about = (
        f"{merged['date']}; {e['cpu']}, {e['cores']} cores, each row in a process of its own, several at a time; "
        f"Python {e['python']}, z3 {e['z3']}, Triton {e['triton']}, PySCIPOpt {e['pyscipopt']}. Seconds: median of "
        f"{merged['repeat']} (least-most); budget {merged['budget_seconds']:g} s. `bound`: proven lower bound on I. "
        "The last four columns: costs normalized to U, all on the same graph. First seconds to find the shortest L and "
        "to refute one cycle less, by the compact encoding and the paper's Boolean one; then the "
        "whole joint solve and the whole of the paper's search. `>` where the budget ended first."
    )
    lines = ["# Solve times", "", about, "", line(HEAD), line(["---"] * len(HEAD))]
    return "\n".join([*lines, *(line(cells(row)) for row in merged["rows"])]) + "\n"


def cells(row: dict[str, Any]) -> list[str]:
    """One row."""
    o = row["objective"] or {}
    said = seconds(row["solve_seconds"], row["median_seconds"])
    said += "" if row["status"] == "optimal" else " (not all proven)"
    figures = [str(o.get(key, "")) for key in ("copies", "length", "registers")]
    last = row["comparisons"][-1] if row["comparisons"] else None
    compact = f"U = {last['units']}: {answers(last['compact'])}" if last else ""
    name, bound = f"{row['example']}:{row['spec']}", str(row["lower_bound"] or "")
    other = answers(last["boolean"]) if last else ""
    return [name, row["machine"], str(o.get("ii", "")), bound, *figures, said, compact, other, *searches(last)]


def searches(comparison: dict[str, Any] | None) -> list[str]:
    """Seconds of the joint solve and of the paper's search on the normalized graph, where both were run."""
    if not comparison or not comparison["paper_search"]:
        return ["", ""]
    paper, joint = comparison["paper_search"], comparison["joint_seconds"]
    found = "> " if paper["ii"] is None else f"I = {paper['ii']}, L = {paper['length']}: "
    return [seconds(joint, statistics.median(joint)), f"{found}{paper['seconds']:.1f}"]


def answers(asked: list[dict[str, Any]]) -> str:
    """Seconds of both questions."""
    texts = []
    for a in asked:
        unfinished = a["outcome"] not in ("sat", "unsat")
        texts.append(("> " if unfinished else "") + f"{a['median_seconds']:.2f}")
    return " / ".join(texts)


def seconds(times: list[float], median: float) -> str:
    """0.29 (0.28-0.31)."""
    return f"{median:.2f} ({min(times):.2f}-{max(times):.2f})" if times else ""


def line(values: Sequence[str]) -> str:
    """A row of the Markdown table."""
    return "| " + " | ".join(values) + " |"


if __name__ == "__main__":
    sys.exit(main())
