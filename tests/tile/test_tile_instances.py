"""Loops over tiles: what they compute, and what is none."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.generated.kernels import held
from twill.kernel.problem import Case
from twill.kernel.specialization import Specialization, resolve
from twill.manifest.evaluate import evaluate
from twill.tile.program import loops_of
from twill.tile.translate.translate import tile_program

HEAD = """
@triton.jit
def at(tile, N, BM: tl.constexpr, BN: tl.constexpr):
    return tile // tl.cdiv(N, BN) * BM, tile % tl.cdiv(N, BN) * BN


@triton.jit
def k(a, b, c, M, N, K, BM: tl.constexpr, BN: tl.constexpr, BK: tl.constexpr, STEP: tl.constexpr):
    pid = tl.program_id(0)
    tiles = tl.cdiv(M, BM) * tl.cdiv(N, BN)
    stride = STEP if STEP else tl.num_programs(0)
"""
GEMM = """
        acc = tl.zeros([BM, BN], tl.float32)
        for k in range(0, K, BK):
            acc = tl.dot(a.load([m, k]), b.load([k, n]), acc)
"""
PLAIN = "    for tile in range(pid, tiles, stride):\n        m, n = at(tile, N, BM, BN)" + GEMM
STORE = "        c.store([m, n], acc.to(tl.float16))\n"
EPILOGUE = f"""    last = pid - stride
    for tile in range(pid, tiles, stride):
        m, n = at(tile, N, BM, BN){GEMM}
        last += stride
        m, n = at(last, N, BM, BN)
"""
SIG = ["a=tensordesc<fp16[16, 16]>", "b=tensordesc<fp16[16, 16]>", "c=tensordesc<fp16[16, 16]>",
       "M=i32", "N=i32", "K=i32"]  # fmt: skip


def specialization(file: str, step: int, block: int = 16) -> Specialization:
    """BM = BN = BK = block."""
    sig = [one.replace("16, 16", f"{block}, {block}") for one in SIG]
    return resolve(f"{file}::k", sig=sig, const=[f"BM={block}", f"BN={block}", f"BK={block}", f"STEP={step}"])


def case(grid: int, m: int, n: int, k: int) -> Case:
    """A GEMM of m x n x k on that many programs."""
    shapes = {"a": (m, max(k, 16)), "b": (max(k, 16), n), "c": (m, n)}
    return Case({}, (grid,), shapes, {"M": m, "N": n, "K": k})


@pytest.mark.parametrize("step", [0, 3])
@pytest.mark.parametrize("loop", [PLAIN, EPILOGUE], ids=["one counter", "a counter of its own for the epilogue"])
def test_a_gemm_in_a_loop_over_tiles_computes_what_triton_does_on_any_grid_that_reaches_them(
    kernel_file: Callable[..., str], loop: str, step: int
) -> None:
    spec = specialization(kernel_file(HEAD + loop + STORE), step)
    program = tile_program(spec)
    assert program.tiles is not None
    assert evaluate(program.tiles.count, {"M": 40, "N": 17, "K": 5}) == 6
    assert program.tiles.stride == (step or None)
    for launched in (case(3, 40, 48, 48), case(7, 48, 16, 16), case(3, 16, 48, 0)):
        for one in held(spec, launched, raw=True):
            assert one.furthest < 1, (launched, one)


CARRIED = "    s = tl.zeros([BM, BN], tl.float32)\n"
NOT_INDEPENDENT = {
    "sums that go on from tile to tile": (CARRIED + PLAIN + "        s += acc\n        acc = s\n" + STORE),
    "a tensor that is loaded and stored": PLAIN + "        acc += c.load([m, n])\n" + STORE,
    "the program's own number": PLAIN + "        acc += pid\n" + STORE,
    "how many programs there are": PLAIN + "        acc += tl.num_programs(0)\n" + STORE,
    "a place that depends on no tile": PLAIN + "        m, n = 0, 0\n" + STORE,
    "a place for each program": PLAIN + "        m = tile % 3 * BM\n" + STORE,
    "a counter that is not the tile": EPILOGUE.replace("last += stride", "last += 1") + STORE,
    "a store behind the loop": PLAIN + STORE + "    c.store([0, 0], tl.zeros([BM, BN], tl.float16))\n",
}


@pytest.mark.parametrize("name", NOT_INDEPENDENT)
def test_tiles_that_need_one_another_are_no_instances(kernel_file: Callable[..., str], name: str) -> None:
    program = tile_program(specialization(kernel_file(HEAD + NOT_INDEPENDENT[name]), 3))
    assert program.tiles is None and len(list(loops_of(program.body))) == 2


@pytest.mark.parametrize(("second", "independent"), [("max", True), ("min", False)])
def test_atomics_are_of_instances_where_their_order_does_not_matter(
    kernel_file: Callable[..., str], second: str, independent: bool
) -> None:
    """A maximum and then a minimum is something else than the minimum first."""
    text = (
        "@triton.jit\ndef k(x, y, n, K, B: tl.constexpr):\n"
        "    for tile in range(tl.program_id(0), n, tl.num_programs(0)):\n"
        "        at = tile * B + tl.arange(0, B)\n        s = tl.zeros([B], tl.int32)\n"
        "        for j in range(K):\n            s += tl.load(x + at + j)\n"
        f"        tl.atomic_max(y + at % 8, s)\n        tl.atomic_{second}(y + at % 8, s)\n"
    )
    spec = resolve(f"{kernel_file(text)}::k", sig=["x=*i32", "y=*i32", "n=i32", "K=i32"], const=["B=16"])
    assert (tile_program(spec).tiles is not None) == independent
