"""What `benchmarks.attention_sweep` measured, as tables with geometric means and least rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]
PEERS = ("FlashAttention 3", "FlashAttention 4", "cuDNN", "PyTorch flash")
COLUMNS = ("fastest library", *PEERS, "Triton")
GROUPS: tuple[tuple[str, Callable[[Row], bool]], ...] = (
    *((group, lambda row, group=group: row["group"] == group) for group in ("full", "causal", "decode", "variable")),
    *((f"GQA {shared}", lambda row, shared=shared: row["shared"] == shared) for shared in (1, 4, 8)),
    *((f"D = {width}", lambda row, width=width: row["width"] == width) for width in (64, 96, 128, 256)),
    ("all", lambda row: True),
)  # fmt: skip


def tables(files: Sequence[Sequence[Row]]) -> str:
    """Of all rows: for each GPU the summary, then every problem."""
    rows = [row for file in files for row in file]
    parts = {gpu: [row for row in rows if row["gpu"] == gpu] for gpu in dict.fromkeys(row["gpu"] for row in rows)}
    return "\n\n".join("\n".join(lines) for gpu, part in parts.items() for lines in (summary(gpu, part), table(part)))


def of(name: str) -> str:
    """The peer that a contestant belongs to; nothing for an emitted kernel."""
    return next((peer for peer in (*PEERS, "Triton") if name.startswith(peer)), "")


def against(row: Row) -> dict[str, float]:
    """Speed of the fastest emitted kernel over that of each peer's fastest way, and of the fastest library."""
    mine = min((time for name, time in row["us"].items() if not of(name)), default=math.nan)
    found: dict[str, float] = {}
    for name, time in row["us"].items():
        if peer := of(name):
            found[peer] = min(found.get(peer, math.inf), time / mine)
    libraries = [ratio for peer, ratio in found.items() if peer in PEERS]
    return {**found, **({"fastest library": min(libraries)} if libraries else {})}


def mean(numbers: Sequence[float]) -> float:
    """The geometric one, of one at least."""
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def summary(gpu: str, rows: Sequence[Row]) -> list[str]:
    """A line for each group of problems: mean (least), and how many where a peer lacks some."""
    lines = [f"{gpu}, {len(rows)} problems: of the speed of", "", f"| problems | rows | {' | '.join(COLUMNS)} |",
             f"| --- | ---: |{' --- |' * len(COLUMNS)}"]  # fmt: skip
    for group, belongs in GROUPS:
        chosen = [against(row) for row in rows if belongs(row)]
        if not chosen:
            continue
        cells = []
        for column in COLUMNS:
            ratios = [one[column] for one in chosen if column in one]
            count = f", of {len(ratios)}" if len(ratios) < len(chosen) else ""
            cells.append(f"{mean(ratios):.3f} ({min(ratios):.3f}){count}" if ratios else "")
        lines.append(f"| {group} | {len(chosen)} | {' | '.join(cells)} |")
    return lines


def table(rows: Sequence[Row]) -> list[str]:
    """Every problem: the fastest emitted kernel, what it does in a second, and the speed beside each peer."""
    lines = [f"| problem | emitted kernel | µs | TFLOP/s | TB/s | {' | '.join(COLUMNS)} |",
             f"| --- | --- | ---: | ---: | ---: |{' ---: |' * len(COLUMNS)}"]  # fmt: skip
    for row in rows:
        mine = {name: time for name, time in row["us"].items() if not of(name)}
        if not mine:
            continue
        best, ratios = min(mine, key=lambda name: mine[name]), against(row)
        speeds = f"{row['operations'] / mine[best] / 1e6:.0f} | {row['bytes'] / mine[best] / 1e6:.2f}"
        cells = (f"{ratios[column]:.3f}" if column in ratios else "" for column in COLUMNS)
        lines.append(f"| {row['problem']} | {best} | {mine[best]:.1f} | {speeds} | {' | '.join(cells)} |")
    return lines
