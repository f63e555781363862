"""Promises of the twin: what is told apart from a fault."""

from __future__ import annotations

from tests.places import edit, instead, places
from tests.twin import Twin
from tests.warp_programs import gemm
from twill.codegen.warp.program import Compute, ProxyFence


def test_a_computation_whose_result_is_the_same_bits_is_told_apart_from_one_that_is_not() -> None:
    negated = next(
        place for place in places(gemm(2, 1)) if isinstance(place.stmt, Compute) and place.stmt.kind == "cast"
    )
    assert isinstance(negated.stmt, Compute)
    right, wrong = (Compute(kind, negated.stmt.operands, negated.stmt.result) for kind in ("cast", "neg"))
    twin = Twin(gemm(2, 1))
    assert twin.gives_the_same_bits(edit(gemm(2, 1), negated, instead(wrong, right)))
    assert not twin.gives_the_same_bits(edit(gemm(2, 1), negated, instead(wrong)))
    fence = next(place for place in places(gemm(2, 1)) if isinstance(place.stmt, ProxyFence))
    assert not twin.gives_the_same_bits(edit(gemm(2, 1), fence, instead()))
