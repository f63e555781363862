"""What `tests.gpu.gluon` builds and runs: examples, their sizes, and the tiles of Triton's own kernels beside them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.gpu.jit_calls import Call

Tiles = Mapping[str, int]
"""Constants and options of a launch that are others than those a call has by itself."""


@dataclass(frozen=True)
class Build:
    """An emitted kernel, in both forms. tiles: those that its specialization has."""

    spec: str
    machine: str = "h200"
    tiles: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Workload:
    """One example. awkward: sizes at which it must be right. timed: sizes at which it is timed, too. stock: launches of
    Triton's own compiler, of which the fastest counts; the first one's error is what is allowed. least: the ratio of
    its time to that of the fastest module, at the first of the timed sizes."""

    kernel: str
    builds: tuple[Build, ...]
    awkward: tuple[tuple[int, ...], ...]
    timed: tuple[tuple[int, ...], ...]
    stock: tuple[Tiles, ...]
    causal: bool = False
    least: float = 0.0

    def call(self, size: tuple[int, ...], tiles: Tiles) -> Call:
        """Tensors and arguments; needs PyTorch and Triton."""
        from tests.gpu import jit_calls

        make = getattr(jit_calls, self.kernel)
        return (partial(make, causal=True) if self.causal else make)(*size, **tiles)  # type: ignore[no-any-return]


PRODUCTS = ((16, 16, 16), (1040, 528, 336), (1001, 328, 200))
BIASED = ((16, 16, 16), (1040, 528, 336), (1001, 336, 200))  # N is a multiple of 16
HEADS = ((1, 128), (6, 640))


def _launch(rows: int, columns: int, warps: int, stages: int, **others: int) -> Tiles:
    return {"BLOCK_M": rows, "BLOCK_N": columns, "num_warps": warps, "num_stages": stages, **others}


GEMM = (
    _launch(128, 128, 8, 3), _launch(128, 128, 4, 4), _launch(128, 256, 8, 3), _launch(128, 256, 8, 4, GROUP_M=16),
    _launch(256, 128, 8, 3), _launch(256, 128, 8, 4, GROUP_M=16),
)  # fmt: skip
GELU = (_launch(128, 128, 8, 3), _launch(128, 128, 4, 3), _launch(128, 256, 8, 3), _launch(256, 128, 8, 3))
DUAL = (_launch(128, 128, 8, 3), _launch(128, 64, 4, 3), _launch(64, 128, 4, 3), _launch(128, 128, 8, 2))
ATTENTION = (
    _launch(128, 128, 8, 3), _launch(64, 64, 4, 3), _launch(128, 64, 8, 3), _launch(128, 64, 4, 3),
    _launch(128, 128, 8, 2),
)  # fmt: skip
LINEAR = tuple({"num_warps": warps, "num_stages": stages} for warps, stages in ((4, 3), (4, 2), (8, 2), (8, 3)))


def both(spec: str, tiles: tuple[tuple[str, int], ...] = ()) -> tuple[Build, ...]:
    """With the schedules of both machines."""
    return Build(spec, "h200", tiles), Build(spec, "h100", tiles)


WIDE = (("BLOCK_N", 256),)
WIDE_GROUPS = (*WIDE, ("GROUP_M", 16))
WORKLOADS = {
    "attention-full": Workload(
        "attention", (Build("full"),), HEADS, ((16, 8192), (32, 2048)), ATTENTION, least=1.25
    ),
    "gemm": Workload(
        "gemm", both("bf16") + both("bf16-wide", WIDE_GROUPS), PRODUCTS,
        ((8192, 8192, 1024), (4096, 4096, 4096)), GEMM, least=1.05,
    ),
    "attention-causal": Workload(
        "attention", (Build("causal"),), HEADS, ((16, 8192), (32, 2048)), ATTENTION, causal=True
    ),
    "gelu": Workload(
        "gemm_bias_gelu", both("bf16") + both("bf16-wide", WIDE), BIASED, ((8192, 8192, 2048),), GELU,
    ),
    "dual": Workload("dual_gemm", both("bf16"), PRODUCTS, ((8192, 8192, 2048),), DUAL),
    "linear": Workload("linear_attention", (Build("bf16"),), ((3, 64), (6, 640)), ((128, 4096),), LINEAR),
}  # fmt: skip
