"""Neighbouring program instances may be fused only where nothing else tells them apart."""

from __future__ import annotations

from collections.abc import Callable

from tests.tile_programs import Programs, gemm
from twill.graph.build import dependence_graph
from twill.tile.affine import Polynomial


def fusable(p: Programs) -> set[str]:
    return {dim.name for dim in dependence_graph(p.done()).dims if dim.fusable}


def test_both_output_dimensions_of_a_gemm() -> None:
    assert {d.name for d in dependence_graph(gemm()).dims if d.fusable} == {"m", "n"}


def copy(at: Callable[[Programs, Polynomial], Polynomial], out: int = 64) -> Programs:
    """y[64 s + i] = x[at(s) + i]."""
    p = Programs()
    s = Polynomial.symbol(p.op("program_id", axis=0))
    p.store("y", p.load("x", (64,), at=(at(p, s),)), at=(s * out,))
    return p


def test_an_origin_of_size_times_the_grid_index() -> None:
    assert fusable(copy(lambda p, s: s * 64)) == {"n"}
    assert fusable(copy(lambda p, s: s * 64 + Polynomial.symbol(p.argument("n")))) == {"n"}


def test_origins_that_overlap_or_leave_gaps() -> None:
    assert not fusable(copy(lambda p, s: s * 32))
    assert not fusable(copy(lambda p, s: s * 128))
    assert not fusable(copy(lambda p, s: s * 64 + s * Polynomial.symbol(p.argument("n"))))
    assert not fusable(copy(lambda p, s: s * 64, out=128))


def test_an_origin_that_is_a_loop_counter_is_not_of_the_grid() -> None:
    p = Programs()
    with p.loop(p.argument("n"), []) as loop:
        p.store("y", p.load("x", (64,), at=(loop.i * 64,)), at=(loop.i * 64,))
    assert not fusable(p)


def scaled(*, bound: bool = False, other: bool = False, factor: bool = False) -> Programs:
    """y[m, n] = x[m, n] * w[n], with the row block's grid index in more and more places."""
    p = Programs()
    index = p.op("program_id", axis=0)
    s = Polynomial.symbol(index)
    with p.loop(index if bound else p.argument("trips"), []) as loop:
        n = loop.i * 32
        w = p.load("w", (32,), "f32", at=(s * 32 if other else n,))
        if factor:
            w = p.op("mul", w, p.op("splat", p.op("cast", index, element="f32"), shape=(32,)))
        x = p.load("x", (64, 32), "f32", at=(s * 64, n))
        p.store("y", p.op("mul", x, p.row(w, 64)), at=(s * 64, n))
    return p


def test_a_grid_index_in_a_bound_or_another_tile_forbids_fusing() -> None:
    assert fusable(scaled()) == {"m"}
    assert not fusable(scaled(bound=True))
    assert not fusable(scaled(other=True))
    assert not fusable(scaled(factor=True))
