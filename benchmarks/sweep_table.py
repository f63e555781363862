"""What `benchmarks.sweep` measured, as tables with geometric means and least rows."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def tables(files: Sequence[Sequence[Row]]) -> str:
    """Of all rows: the summary, then a table for each GPU and type."""
    rows = [row for file in files for row in file]
    kinds = list(dict.fromkeys((row["gpu"], row["type"]) for row in rows))
    parts = {kind: [row for row in rows if (row["gpu"], row["type"]) == kind] for kind in kinds}
    return "\n\n".join(["\n".join(summary(parts)), *("\n".join(table(*kind, part)) for kind, part in parts.items())])


def against(row: Row) -> dict[str, float]:
    """Speed of the family over each peer's; of the family over the fastest member's."""
    us = row["us"]
    found = {}
    for name, time in us.items():
        if name == "cuBLAS" or name.startswith("Triton"):
            found[name.split()[0]] = time / us["family"]
    members = [time for name, time in us.items() if name != "family" and name.split()[0] not in found]
    return {**found, "fastest member": min(members, default=us["family"]) / us["family"]}


def mean(numbers: Sequence[float]) -> float:
    """The geometric one, of one at least."""
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


def summary(parts: Mapping[tuple[str, str], Sequence[Row]]) -> list[str]:
    """A line for each GPU, type and group of shapes."""
    peers = "of cuBLAS | least | below 0.95 | of Triton | least | below 1.0 | of the fastest member | least"
    lines = [f"| GPU | type | shapes | rows | {peers} |", f"| --- | --- | --- |{' ---: |' * 9}"]
    for (gpu, kind), rows in parts.items():
        groups = [*dict.fromkeys(row["group"] for row in rows)]
        for group in (*groups, "all"):
            chosen = [against(row) for row in rows if group in ("all", row["group"])]
            cells = []
            for peer, bound in (("cuBLAS", 0.95), ("Triton", 1.0), ("fastest member", 0.0)):
                ratios = [one[peer] for one in chosen if peer in one]
                cells += [f"{mean(ratios):.3f}", f"{min(ratios):.3f}"] if ratios else ["", ""]
                cells += [str(sum(ratio < bound for ratio in ratios))] if bound else []
            lines.append(f"| {gpu} | {kind} | {group} | {len(chosen)} | {' | '.join(cells)} |")
    return lines


def table(gpu: str, kind: str, rows: Sequence[Row]) -> list[str]:
    """Every shape: TFLOP/s, and the speed beside each peer."""
    lines = [f"{gpu}, {kind}", "",
             "| M x N x K | TFLOP/s | µs | by | of cuBLAS | of Triton | fastest member | µs |",
             "| --- | ---: | ---: | --- | ---: | ---: | --- | ---: |"]  # fmt: skip
    for row in rows:
        m, n, k = row["shape"]
        us, ratios = row["us"], against(row)
        members = {name: time for name, time in us.items() if name.split()[0] not in ("family", "cuBLAS", "Triton")}
        best = min(members, key=lambda name: members[name], default="")
        cells = [f"{m} x {n} x {k}", f"{2e-6 * m * n * k / us['family']:.0f}", f"{us['family']:.1f}", row["chosen"],
                 *(f"{ratios[peer]:.3f}" if peer in ratios else "" for peer in ("cuBLAS", "Triton")),
                 best, f"{members[best]:.1f}" if best else ""]  # fmt: skip
        lines.append(f"| {' | '.join(cells)} |")
    return lines
