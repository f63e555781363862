"""The recorded times of emitted kernels as a table.

    python benchmarks/kernels_report.py benchmarks/results/kernels-<date>.json

writes the Markdown file beside it. The JSON comes from `python -m tests.gpu.examples bench` on a GPU
(tests/gpu/README.md).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

HEAD = ("kernel", "size", "unit", "emitted", "Triton, tuned", "library", "x Triton", "x library", "host us")


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 2 without a file."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if len(given) != 1:
        print(__doc__, file=sys.stderr)
        return 2
    path = Path(given[0])
    document = json.loads(path.read_text(encoding="utf-8"))
    path.with_suffix(".md").write_text(markdown(document), encoding="utf-8")
    return 0


def markdown(document: dict[str, Any]) -> str:
    """The page."""
    about = (
        f"{document['date']}; {document['device']}; PyTorch {document['torch']}, Triton {document['triton']}. Medians, "
        "launches of the three in turns within one process, random data. `Triton, tuned`: the fastest of several "
        "block sizes, warps and stages of the same kernel file; `library`: PyTorch's call (cuBLAS, cuDNN through "
        "SDPA; for the GEMM with bias and GELU the product alone). `host us`: microseconds of the host for one "
        "launch, emitted / Triton."
    )
    rows = [line(HEAD), line(["---"] * len(HEAD)), *(line(cells(t)) for t in document["timings"])]
    return "\n".join(["# Emitted kernels beside Triton's own and PyTorch's", "", about, "", *rows]) + "\n"


def cells(timing: dict[str, Any]) -> list[str]:
    """One row."""
    digits = 0 if timing["unit"] == "TFLOP/s" else 2
    vendor = timing["vendor"]
    return [
        timing["kernel"],
        timing["case"],
        timing["unit"],
        f"{timing['emitted']:.{digits}f}",
        f"{timing['triton']:.{digits}f}",
        "" if vendor is None else f"{vendor:.{digits}f}",
        f"{timing['triton_ms'] / timing['emitted_ms']:.2f}",
        "" if vendor is None else f"{timing['emitted'] / vendor:.2f}",
        f"{timing['emitted_host_us']:.0f} / {timing['triton_host_us']:.0f}",
    ]


def line(values: Sequence[str]) -> str:
    """A row of the Markdown table."""
    return "| " + " | ".join(values) + " |"


if __name__ == "__main__":
    sys.exit(main())
