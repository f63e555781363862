"""Every kernel that is emitted for the B200: how it is made, at which sizes it is executed, and what is published.

One row for each specialization of an example and each way to emit it. `tests.blackwell_table` measures them, and a test
executes those that no other test does.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from tests import blackwell, blackwell_attention, blackwell_kept, blackwell_multicast, golden_schedules, narrow
from tests.blackwell_attention import Attention
from tests.golden_schedules import Example
from tests.narrow import Narrow
from twill.codegen.emission import Extracted
from twill.codegen.emit import Emission
from twill.codegen.warp.program import WarpProgram
from twill.schedule.document import Schedule

Sizes = Mapping[str, int]
CUBLAS = "cuBLAS bf16 1108 to 1564"
FORWARD = "FlashAttention 4 1605 at best, about 1210 in the mean of 1k to 16k"
BACKWARD = "FlashAttention 4 968 at 16k"
SQUARE = {"M": 8192, "N": 8192, "K": 8192}
HEADS = {"Z": 2, "H": 16, "N_CTX": 16384}  # 32768 tokens, a hidden size of 2048

NARROW_HEADS = {**HEADS, "H": 32}  # of D = 64


@dataclass(frozen=True)
class Reference:
    """A function of PyTorch. inputs: its arguments, and their types; output: what it gives."""

    body: str
    inputs: Mapping[str, str]
    output: str

    @property
    def text(self) -> str:
        """The function."""
        return f"def reference({', '.join(self.inputs)}):\n    return {self.body}\n"


def plain(a: str, b: str, c: str, dtype: str, way: str = "", result: str = "bfloat16") -> Reference:
    """C = A B, or with a `way` of ".T" A times B transposed."""
    return Reference(f"({a}.float() @ {b}{way}.float()).to(torch.{result})", {a: dtype, b: dtype}, c)


@dataclass(frozen=True)
class Row:
    """executed: sizes at which the PTX runs on the executor, tiles ragged and rings come round; the grid is dealt to at
    most `ctas`. large: what TFLOP/s are predicted at; flops: of it. published: TFLOP/s of others. reference: what
    SentryWard is to prove the result equal to; it is asked about races otherwise. words: what `twill emit` is told.
    narrow: the kernel that SentryWard is asked about instead of this one."""

    name: str
    tile: str
    kernel: Callable[[], Extracted]
    schedule: Callable[[], Schedule]
    lowered: Callable[[], WarpProgram]
    compiled: Callable[[], Emission]
    executed: Sizes
    large: Sizes
    flops: float
    published: str = ""
    cluster: int = 1
    ctas: int = 2
    reference: Reference | None = None
    words: tuple[str, ...] = ()
    narrow: Callable[[], Narrow] | None = None


def product(
    one: Example, tile: str, executed: Sizes, *, published: str = "", twice: int = 1, cluster: int = 1,
    reference: Reference | None = None,
) -> Row:  # fmt: skip
    """C = A B, or two of them. cluster: 2 for pairs of CTAs."""
    return Row(
        f"{Path(one.file).name} {one.spec}{', pairs' if cluster == 2 else ''}", tile,
        partial(blackwell.kernel, one), partial(blackwell.schedule, one, cluster),
        partial(blackwell.lowered, one, cluster), partial(blackwell.compiled, one, cluster),
        executed, SQUARE, 2.0 * twice * SQUARE["M"] * SQUARE["N"] * SQUARE["K"], published, cluster,
        reference=reference, words=(one.file, "--spec", one.spec, "--cluster", str(cluster)),
    )  # fmt: skip


def attention(one: Attention, keys: int) -> Row:
    """Forward; half of the FLOP are counted where the mask is causal, as others do."""
    large = {**HEADS, "H": HEADS["H"] * 128 // one.depth}
    flops = 4.0 * large["Z"] * large["H"] * large["N_CTX"] ** 2 * one.depth
    return Row(
        f"attention.py {one.spec}, {one.rows} rows", f"{one.rows} x {one.keys}, D = {one.depth}",
        partial(blackwell_attention.kernel, one), partial(blackwell_attention.schedule, one),
        partial(blackwell_attention.lowered, one), partial(blackwell_attention.compiled, one),
        {"Z": 1, "H": 1, "N_CTX": keys}, large, flops / 2 if "causal" in one.spec else flops,
        FORWARD if one.spec == "full" else "", ctas=1, words=one.words, narrow=partial(narrow.attention, one),
    )  # fmt: skip


def kept(one: Example, tile: str, executed: Sizes, large: Sizes, flops: float, published: str = "") -> Row:
    """What has a schedule of its own."""
    depth = f", D = {one.depth}" if isinstance(one, blackwell_kept.Retiled) else ""
    types, constants = blackwell_kept.given(one)
    said = (*(("--sig", each) for each in types), *(("--const", each) for each in constants))
    words = (one.file, "--spec", one.spec, *(word for pair in said for word in pair))
    return Row(
        f"{one.file.removeprefix('examples/')} {one.spec}{depth}", tile,
        partial(blackwell_kept.kernel, one), partial(blackwell_kept.schedule, one),
        partial(blackwell_kept.lowered, one), partial(blackwell_kept.compiled, one),
        executed, large, flops, published, ctas=1, words=words,
        narrow=partial(narrow.kept, one),
    )  # fmt: skip


def spoken(row: Row) -> tuple[str, ...]:
    """What `twill emit` is told of a row, without how many CTAs work together."""
    return row.words[: row.words.index("--cluster")] if "--cluster" in row.words else row.words


def of(stem: str, spec: str) -> Example:
    """examples/STEM.py."""
    return Example(f"examples/{stem}.py", spec)


def forward(one: Example, flops: float, keys: int) -> Row:
    """Other kernels of attention forward. keys: as many as it is executed with."""
    made = kept(one, "128 x 128, D = 128", {"Z": 1, "H": 1, "N_CTX": keys}, HEADS, flops)
    return replace(made, narrow=partial(narrow.forward, one))


NARROW, WIDE = "128 x 128 x 64", "128 x 256 x 64"
RAGGED = {"M": 144, "N": 144}
FULL_FLOPS = 4.0 * HEADS["Z"] * HEADS["H"] * HEADS["N_CTX"] ** 2 * 128  # of attention forward at D = 128
IN_WINDOW = 1024 / HEADS["N_CTX"]  # keys of a query, of all of them
CHUNK = 2.0 * 64 * (64 * 128 + 128 * 64 + 64 * 64 + 128 * 64)  # FLOP of linear attention for 64 columns of V
BY_MAPS = plain("a_desc", "b_desc", "c_desc", "bfloat16")
BY_POINTERS = plain("a_ptr", "b_ptr", "c_ptr", "bfloat16")
IN_FP8 = plain("a_desc", "b_desc", "c_desc", "float8_e4m3fn", ".T")
IN_TF32 = plain("a_desc", "b_desc", "c_desc", "float32", ".T", "float32")
PRODUCTS = (
    product(blackwell.GEMM, NARROW, {**RAGGED, "K": 528}, published=CUBLAS, reference=BY_MAPS),
    product(of("gemm", "bf16-wide"), WIDE, {"M": 8, "N": 272, "K": 400}, published=CUBLAS, reference=BY_MAPS),
    product(blackwell.FP8, "128 x 128 x 128", {**RAGGED, "K": 528}, reference=IN_FP8),
    product(of("gemm_fp8", "e4m3-wide"), "128 x 256 x 128", {"M": 8, "N": 272, "K": 784}, reference=IN_FP8),
    product(blackwell.GELU, NARROW, {**RAGGED, "K": 272}, published=CUBLAS),
    product(blackwell.WIDE, WIDE, {"M": 8, "N": 272, "K": 272}, published=CUBLAS),
    product(blackwell.POINTERS, NARROW, {**RAGGED, "K": 272}, published=CUBLAS, reference=BY_POINTERS),
    product(blackwell.POINTERS_WIDE, WIDE, {"M": 16, "N": 208, "K": 272}, published=CUBLAS, reference=BY_POINTERS),
    product(blackwell.DUAL, f"{NARROW}, twice", {"M": 8, "N": 144, "K": 336}, twice=2),
    product(blackwell.MXFP8, "128 x 128 x 128", {**RAGGED, "K": 848}),
    product(of("gemm_mxfp8", "e4m3-wide"), "128 x 256 x 128", {"M": 8, "N": 272, "K": 592}),
    product(blackwell.NVFP4, "128 x 128 x 256", {"M": 8, "N": 144, "K": 1312}),
    product(blackwell.MXFP4, "128 x 128 x 256", {"M": 144, "N": 8, "K": 1312}),
    product(blackwell.NVFP4_WIDE, "128 x 256 x 256", {"M": 8, "N": 272, "K": 1056}),
    product(blackwell.TF32, "128 x 128 x 32", {"M": 144, "N": 140, "K": 268}, reference=IN_TF32),
    product(blackwell.TF32_WIDE, "128 x 256 x 32", {"M": 8, "N": 268, "K": 204}, reference=IN_TF32),
    product(blackwell.INT8, "128 x 128 x 128", {"M": 144, "N": 140, "K": 1040}),
    product(blackwell.INT8_WIDE, "128 x 256 x 128", {"M": 8, "N": 272, "K": 592}),
    product(blackwell.PLAIN, "128 x 128 x 128", {**RAGGED, "K": 848}),
    product(blackwell.PLAIN_WIDE, "128 x 256 x 128", {"M": 8, "N": 272, "K": 592}),
    product(blackwell.BY_THREADS, NARROW, {"M": 135, "N": 131, "K": 397}, published=CUBLAS),
    product(blackwell.FP8_FP4, "128 x 128 x 256", {**RAGGED, "K": 1152}),
    product(blackwell.FP4_FP8_WIDE, "128 x 256 x 128", {"M": 8, "N": 272, "K": 640}),
    product(blackwell.PLAIN_NVFP4, "128 x 128 x 256", {"M": 8, "N": 144, "K": 1568}),
)
PAIRS = (
    product(blackwell.GEMM, f"{NARROW} each", {"M": 272, "N": 144, "K": 136}, cluster=2),
    product(blackwell.GELU, f"{NARROW} each", {"M": 272, "N": 144, "K": 592}, cluster=2),
    product(blackwell.WIDE, f"{WIDE} each", {"M": 400, "N": 272, "K": 592}, cluster=2),
    product(blackwell.DUAL, f"{NARROW} each, twice", {"M": 272, "N": 144, "K": 400}, cluster=2, twice=2),
    product(blackwell.MXFP8, "128 x 128 x 128 each", {"M": 272, "N": 144, "K": 848}, cluster=2),
    product(blackwell.NVFP4_WIDE, "128 x 256 x 256 each", {"M": 400, "N": 264, "K": 1312}, cluster=2),
    product(blackwell.FP8_FP4, "128 x 128 x 256 each", {"M": 272, "N": 144, "K": 1152}, cluster=2),
    product(blackwell.TF32, "128 x 128 x 32 each", {"M": 272, "N": 140, "K": 268}, cluster=2),
    product(blackwell.INT8, "128 x 128 x 128 each", {"M": 272, "N": 140, "K": 1040}, cluster=2),
)
ATTENTION = (
    attention(blackwell_attention.FULL, 384),
    attention(blackwell_attention.CAUSAL, 384),
    attention(blackwell_attention.FULL_TWO, 512),
    attention(blackwell_attention.CAUSAL_TWO, 512),
    attention(blackwell_attention.FULL_64, 384),
    attention(blackwell_attention.CAUSAL_64, 384),
    attention(blackwell_attention.FULL_256, 256),
    attention(blackwell_attention.CAUSAL_256, 256),
    forward(blackwell_kept.POINTERS, FULL_FLOPS, 368),
    forward(blackwell_kept.ANY_LENGTH, FULL_FLOPS, 333),
    forward(blackwell_kept.ANY_LENGTH_CAUSAL, FULL_FLOPS / 2, 333),
    forward(blackwell_kept.DESCENDING, FULL_FLOPS / 2, 368),
    forward(blackwell_kept.WINDOW, FULL_FLOPS * IN_WINDOW, 384),
)
OTHERS = (
    Row(
        "layer_norm.py bf16", "rows of N", partial(golden_schedules.kernel, blackwell.LAYER_NORM),
        partial(blackwell.schedule, blackwell.LAYER_NORM), partial(blackwell.lowered, blackwell.LAYER_NORM),
        partial(blackwell.compiled, blackwell.LAYER_NORM), {"M": 4, "N": 8208}, {"M": 8192, "N": 8192}, 0.0,
        words=(blackwell.LAYER_NORM.file, "--spec", blackwell.LAYER_NORM.spec),
    ),
    kept(
        blackwell_kept.BACKWARD, "128 keys x 64 queries, D = 128", {"Z": 1, "H": 1, "N_CTX": 384}, HEADS,
        10.0 * HEADS["Z"] * HEADS["H"] * HEADS["N_CTX"] ** 2 * 128, BACKWARD,
    ),
    kept(
        blackwell_kept.BACKWARD_CAUSAL, "128 keys x 64 queries, D = 128", {"Z": 1, "H": 1, "N_CTX": 384}, HEADS,
        5.0 * HEADS["Z"] * HEADS["H"] * HEADS["N_CTX"] ** 2 * 128,
    ),
    kept(
        blackwell_kept.BACKWARD_64, "128 keys x 64 queries, D = 64", {"Z": 1, "H": 1, "N_CTX": 384}, NARROW_HEADS,
        10.0 * NARROW_HEADS["Z"] * NARROW_HEADS["H"] * NARROW_HEADS["N_CTX"] ** 2 * 64,
    ),
    kept(
        blackwell_kept.BACKWARD_CAUSAL_64, "128 keys x 64 queries, D = 64", {"Z": 1, "H": 1, "N_CTX": 384},
        NARROW_HEADS, 5.0 * NARROW_HEADS["Z"] * NARROW_HEADS["H"] * NARROW_HEADS["N_CTX"] ** 2 * 64,
    ),
    kept(
        blackwell_kept.LINEAR, "chunks of 64, D = 128 x 64", {"Z": 1, "H": 1, "T": 640, "HEAD_V": 128},
        {"Z": 32, "H": 16, "T": 4096, "HEAD_V": 128}, 32 * 16 * 2 * 64 * CHUNK,
    ),
)  # fmt: skip
MULTICAST = tuple(
    replace(
        row, name=f"{row.name}, multicast", lowered=partial(blackwell_multicast.lowered, row.kernel, row.schedule),
        compiled=partial(blackwell_multicast.compiled, row.name, row.kernel, row.schedule), executed=sizes,
        published="", cluster=2, ctas=2, reference=None, narrow=shared,
        words=(*spoken(row), "--cluster", "2", "--no-pair"),
    )
    for row, sizes, shared in (
        (PRODUCTS[0], {"M": 272, "N": 144, "K": 528}, None),
        (PRODUCTS[4], {"M": 272, "N": 144, "K": 592}, None),
        (ATTENTION[0], {"Z": 1, "H": 1, "N_CTX": 384}, partial(narrow.attention, blackwell_attention.FULL, 2)),
        (OTHERS[1], {"Z": 1, "H": 1, "N_CTX": 384}, partial(narrow.kept, blackwell_kept.BACKWARD, 2)),
    )
)  # fmt: skip
ROWS = (*PRODUCTS, *PAIRS, *ATTENTION, *OTHERS, *MULTICAST)
