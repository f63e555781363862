"""What is timed: five tables of rows, each a kernel, the constants that say what it computes, and sizes.

Constants that only say how (block sizes) are not among a row's: every emitted specialization that computes the same
competes in it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# Kernels that compute a row of another one, from the same arguments.
BLACKWELL_ALONE = ("gemm_mxfp8", "gemm_nvfp4")
"""Kernels with products that the GPUs of these tables do not have."""
SAME = {"attention": ("attention_any_length", "attention_descending")}
LENGTHS = (1024, 2048, 4096, 8192, 16384)
DEPTHS = (256, 512, 1024, 2048, 4096, 8192, 16384)


@dataclass(frozen=True)
class Row:
    """One line of a table. fixed: constants that a specialization must have to compute it. part: what its ratios are
    averaged with."""

    table: str
    kernel: str
    sizes: Mapping[str, int]
    fixed: Mapping[str, Any] = field(default_factory=dict)
    part: str = ""

    @property
    def key(self) -> str:
        """`attention CAUSAL=True HEAD_DIM=64 Z=4 H=16 N_CTX=8192`."""
        return f"{self.kind} {words(self.sizes)}"

    @property
    def kind(self) -> str:
        """What is computed, at any size."""
        return f"{self.kernel} {words(self.fixed)}".strip()


def words(named: Mapping[str, Any]) -> str:
    """M=128 N=256."""
    return " ".join(f"{name}={value}" for name, value in named.items())


def computing(kernel: str) -> tuple[str, ...]:
    """The kernels that compute a row of this one: itself first."""
    return kernel, *SAME.get(kernel, ())


def rows(table: str) -> tuple[Row, ...]:
    """The rows of a table. Errors: KeyError."""
    return tuple(TABLES[table]())


def _products(m: int, n: int, *depths: int) -> Iterator[Mapping[str, int]]:
    for k in depths:
        yield {"M": m, "N": n, "K": k}


def _gemm() -> Iterator[Row]:
    for sizes in (*_products(8192, 8192, *DEPTHS), *_products(2304, 12800, 32768), *_products(2285568, 256, 256)):
        yield Row("gemm", "gemm", sizes, {}, "bf16")


def _fp8() -> Iterator[Row]:
    for sizes in _products(8192, 8192, *DEPTHS):
        yield Row("fp8", "gemm_fp8", sizes, {}, "e4m3")


def _attention() -> Iterator[Row]:
    for causal in (False, True):
        part = "causal" if causal else "full"
        for length in LENGTHS:
            yield _heads("attention", "attention", 16, length, {"HEAD_DIM": 128, "CAUSAL": causal}, f"{part}, D = 128")
        for dim, heads in ((64, 16), (256, 8)):
            fixed = {"HEAD_DIM": dim, "CAUSAL": causal}
            yield _heads("attention", "attention", heads, 8192, fixed, f"{part}, D = {dim}")


def _backward() -> Iterator[Row]:
    for dim, causal, length in product((128, 64), (False, True), LENGTHS):
        fixed = {"HEAD_DIM": dim, "CAUSAL": causal}
        part = "causal" if causal else "full"
        yield _heads("backward", "attention_backward", 16, length, fixed, f"{part}, D = {dim}")


def _heads(table: str, kernel: str, heads: int, length: int, fixed: Mapping[str, Any], part: str) -> Row:
    return Row(table, kernel, {"Z": 4, "H": heads, "N_CTX": length}, fixed, part)


def _examples() -> Iterator[Row]:
    """Every kernel that has no table of its own, at the sizes of its sidecar."""
    for path in sorted((ROOT / "examples").glob("*.twill.toml")):
        document = tomllib.loads(path.read_text(encoding="utf-8"))
        kernel = document["kernel"]
        if kernel in ("gemm", "gemm_fp8", "attention", "attention_backward", *SAME["attention"], *BLACKWELL_ALONE):
            continue
        seen: list[Mapping[str, int]] = []
        for specialization in document["specialization"]:
            for sizes in specialization.get("problem", {}).get("bench", ()):
                if sizes not in seen:
                    seen.append(sizes)
                    yield Row("examples", kernel, sizes, {}, kernel)


TABLES = {"gemm": _gemm, "fp8": _fp8, "attention": _attention, "backward": _backward, "examples": _examples}
TITLES = {
    "gemm": "GEMM in bf16",
    "fp8": "GEMM in fp8 (e4m3)",
    "attention": "Attention forward in bf16",
    "backward": "Attention backward in bf16",
    "examples": "The other examples",
}
