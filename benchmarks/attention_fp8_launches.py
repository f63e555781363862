"""Who computes the problems of `benchmarks.attention_fp8`: emitted kernels, Triton's own, FlashAttention 3, cuDNN."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.attention_fp8_data import Inputs, Problem, moved
from benchmarks.attention_sweep_launches import Call, Contestant, Describe, described, triton_described
from benchmarks.attention_sweep_members import emit_members
from benchmarks.attention_sweep_peers import _first, _flash_3_module

FILE = "benchmarks/attention_fp8_kernels.py"
TRITON = {
    64: ((128, 128, 8, 3), (128, 128, 4, 3), (128, 64, 4, 3), (64, 128, 4, 3)),
    128: ((128, 128, 8, 3), (128, 128, 8, 2), (128, 64, 4, 3), (128, 64, 8, 3), (64, 128, 4, 3)),
    256: ((128, 128, 8, 2), (128, 64, 8, 3), (128, 64, 8, 2), (64, 64, 4, 3)),
}
"""BLOCK_M, BLOCK_N, warps, stages by width."""
THREADS = 16


@dataclass(frozen=True)
class Member:
    """An emitted kernel. spec: of the sidecar. rows, keys: BLOCK_M and BLOCK_N. quads: the order of V's rows. interval,
    apart: cycles of an iteration, and from the first product of one row block to that of the other, where asked for
    (0: as the solver finds them)."""

    spec: str
    rows: int
    keys: int
    quads: bool = True
    interval: int = 0
    apart: int = 0
    width: int = 128

    @property
    def name(self) -> str:
        """Its folder."""
        asked = [f"{number}" for number in (self.interval, self.apart) if number]
        order = "quads" if self.quads else "plain"
        return "-".join((self.spec, f"d{self.width}", f"{self.rows}x{self.keys}", order, *asked))

    @property
    def kernel(self) -> str:
        return "descending" if self.spec == "descending" else "forward"

    def words(self) -> list[str]:
        """What `twill emit` is told."""
        rows, keys, width = self.rows, self.keys, self.width
        blocks = {
            "q_desc": f"fp8e4nv[1, {rows}, {width}]", "k_desc": f"fp8e4nv[1, {keys}, {width}]",
            "v_desc": f"fp8e4nv[1, {width}, {keys}]", "o_desc": f"bf16[1, {rows}, {width}]",
        }  # fmt: skip
        sig = [word for name, block in blocks.items() for word in ("--sig", f"{name}=tensordesc<{block}>")]
        tiles = {"HEAD_DIM": width, "BLOCK_M": rows, "BLOCK_N": keys}
        const = [word for name, value in tiles.items() for word in ("--const", f"{name}={value}")]
        const += ["--const", f"QUADS={str(self.quads).lower()}"]
        return [f"{FILE}::{self.kernel}", "--spec", self.spec, *sig, *const, *self.asked()]

    def asked(self) -> Iterator[str]:
        """The schedule that is asked for: a row block's accumulator is rescaled in front of its next first product, so
        that nothing is computed between the two products of a run."""
        if self.interval:
            yield from ("--ii", f"{self.interval}")
        if self.apart:
            for block in (0, 1):
                first = FIRST[self.width, self.keys] + block * self.apart
                yield from ("--pin", f"qk.{block}@start={first}")
                yield from ("--pin", f"kept.{block}@start={first + self.interval - RESCALED}")

    def computes(self, problem: Problem) -> bool:
        """Whether it is for such a problem."""
        specs = ("causal", "descending") if problem.causal else ("full", "even")
        even = self.spec != "even" or problem.length % self.keys == 0
        return self.spec in specs and self.width == problem.width and even


FIRST = {(128, 128): 779, (128, 192): 930, (128, 224): 930, (256, 128): 1200}
"""Width and keys: cycles until the first product, behind the load of K."""
RESCALED = 197  # cycles from where accumulators are rescaled to the next first product
MEMBERS = (
    Member("even", 128, 128), Member("even", 128, 128, True, 1640, 512), Member("even", 128, 128, False, 1450, 512),
    Member("even", 128, 128, True, 2100, 512),
    Member("full", 128, 192), Member("full", 128, 192, False, 2150, 768), Member("full", 128, 192, True, 2900, 900),
    Member("full", 128, 224, False, 2200, 900),
    Member("causal", 128, 128), Member("causal", 128, 128, True, 1450, 512),
    Member("causal", 128, 128, False, 1542, 771), Member("causal", 128, 128, True, 2000, 800),
    Member("causal", 128, 192, True, 2900, 1000),
    Member("descending", 128, 128, True, 1450, 725), Member("descending", 128, 128, False, 1542, 771),
    Member("descending", 128, 128, True, 1950, 512), Member("descending", 128, 192, True, 2700, 768),
    *(Member(spec, 192, 128, True, 2000, width=64) for spec in ("full", "causal", "descending")),
    *(Member(spec, 128, 128, True, 3000, 1024, width=256) for spec in ("even", "causal", "descending")),
)  # fmt: skip
"""Simulated, those with an interval are the best of about 140 (docs/performance-log.md). Those of 1,950 cycles and more
leave so much time that the two warp groups take turns at the tensor core."""


def build(folder: Path, machine: str) -> int:
    """Emits every member that is not there; how many could not be."""
    return emit_members(MEMBERS, folder, machine)


def call(given: Inputs, member: Member, describe: Describe) -> Call:
    """What a kernel is called with."""
    problem = given.problem
    query, key = [1, member.rows, member.width], [1, member.keys, member.width]
    v = given.quads if member.quads else given.across
    maps = (
        describe(given.q, query), describe(given.k, key), describe(v, [1, member.width, member.keys]),
        describe(given.out, query),
    )  # fmt: skip
    numbers: tuple[Any, ...] = (problem.scale, problem.length)
    if member.kernel == "descending":
        whole = member.rows % member.keys == 0
        numbers += (member.rows // member.keys if whole else -(-member.rows // member.keys) + 1,)
    grid = (-(-problem.length // member.rows), problem.all_heads)
    return Call(grid, (*maps, *given.scales, given.lse.flatten(), *numbers))


def _run(out: Any, launch: Callable[[], Any]) -> Any:
    launch()
    return out


def emitted(folder: Path, member: Member, given: Inputs) -> Contestant:
    """An emitted kernel."""
    from twill.runtime.kernel import EmittedKernel

    made = call(given, member, described)
    kernel = EmittedKernel.load(folder / member.name)
    return Contestant(member.name, partial(_run, given.out, partial(kernel[made.grid], *made.arguments)), given.out)


# ---------------------------------------------------------------- Triton's


def _triton(given: Inputs, tiles: tuple[int, int, int, int]) -> tuple[str, Call, dict[str, Any]]:
    """Name, arguments and options of the same kernel."""
    rows, keys, warps, stages = tiles
    problem = given.problem
    options = {
        "HEAD_DIM": problem.width, "BLOCK_M": rows, "BLOCK_N": keys, "CAUSAL": problem.causal,
        "EVEN_N": not problem.causal and problem.length % keys == 0, "QUADS": False,
        "num_warps": warps, "num_stages": stages,
    }  # fmt: skip
    member = Member("causal" if problem.causal else "full", rows, keys, quads=False, width=problem.width)
    return f"Triton {rows}x{keys}w{warps}s{stages}", call(given, member, triton_described), options


def compile_triton(given: list[Inputs]) -> None:
    """All configurations of all problems, many at a time. What does not compile says so when it is launched."""
    from benchmarks.attention_fp8_kernels import forward

    kernel: Any = forward
    with ThreadPoolExecutor(THREADS) as pool:
        ways = [_triton(one, tiles) for one in given for tiles in TRITON[one.problem.width]]
        for done in [pool.submit(kernel.warmup, *w.arguments, grid=w.grid, **options) for _, w, options in ways]:
            done.exception()


def triton_launches(given: Inputs) -> Iterator[tuple[str, Callable[[], Contestant]]]:
    """Names, and what makes a contestant."""
    from benchmarks.attention_fp8_kernels import forward

    kernel: Any = forward
    for tiles in TRITON[given.problem.width]:
        name, made, options = _triton(given, tiles)
        launch = partial(_run, given.out, partial(kernel[made.grid], *made.arguments, **options))
        yield name, partial(Contestant, name, launch, given.out)


# ---------------------------------------------------------------- peers


def _in_heads(problem: Problem, found: Any) -> Any:
    """[heads of all, rows, D] of what FlashAttention makes."""
    return found.transpose(1, 2).reshape(problem.all_heads, problem.length, problem.width)


def flash_3(name: str, columns: bool, given: Inputs) -> Contestant:
    """FlashAttention 3: Q and K as [batch, rows, heads, D], V alike, or with neighbouring rows beside one another."""
    problem = given.problem
    apart = (problem.batch, problem.heads)
    q, k, v = (moved(one.view(*apart, *one.shape[1:]), 0, 2, 1, 3) for one in (given.q, given.k, given.v))
    if columns:
        v = given.across.view(*apart, *given.across.shape[1:]).permute(0, 3, 1, 2)
    scales = dict(zip(("q_descale", "k_descale", "v_descale"), (one.view(apart) for one in given.scales), strict=True))
    function = _flash_3_module().flash_attn_func
    launch = partial(function, q, k, v, softmax_scale=problem.scale, causal=problem.causal, **scales)
    return Contestant(name, lambda: _first(launch()), None, partial(_in_heads, problem))


def cudnn(name: str, given: Inputs) -> Contestant:
    """PyTorch's scaled dot product attention, which had no fp8 at the time of writing."""
    import torch

    problem, attend = given.problem, torch.nn.functional.scaled_dot_product_attention
    shape = (problem.batch, problem.heads, problem.length, problem.width)
    q, k, v = (one.view(shape) for one in (given.q, given.k, given.v))

    def launch() -> Any:
        with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.CUDNN_ATTENTION):
            return attend(q, k, v, is_causal=problem.causal)

    return Contestant(name, launch, None, lambda found: found.flatten(0, 1))


LIBRARIES: dict[str, Callable[[Inputs], Contestant]] = {
    "FlashAttention 3": partial(flash_3, "FlashAttention 3", False),
    "FlashAttention 3, V by columns": partial(flash_3, "FlashAttention 3, V by columns", True),
    "cuDNN": partial(cudnn, "cuDNN"),
}
