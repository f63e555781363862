"""Promises of the twin: what is told apart from a fault."""

from __future__ import annotations

import pytest

from tests.golden_schedules import Example, lowered
from tests.mutations import Mutant, mutants
from tests.places import edit, instead, places
from tests.twin import Twin
from tests.warp_programs import gemm
from tests.wide import close, conversions_of, results
from twill.codegen.verify.abstract_machine import trials
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


@pytest.mark.usefixtures("at_root")
def test_a_fault_of_what_cancels_is_told_apart_from_one_of_what_is_left() -> None:
    """A maximum that is rounded, or computed with another factor, cancels; an accumulator does not, nor does a rescale
    that is left out. All without rounding: in attention they differ by roundings alone, or by more."""
    example = Example("examples/attention.py", "full-d256")
    program = lowered(example)
    creeping = next(trial for trial in trials(program) if trial.launch.text.endswith("creeping data"))
    right = results(program, creeping)
    verdicts = {
        kind: {
            close(results(one.program, creeping), right)
            for one in mutants(program)
            if one.kind == kind and in_steady(one)
        }
        for kind in ("maximum rounded", "accumulator rounded", "rescale left out once")
    }
    assert verdicts == {"maximum rounded": {True}, "accumulator rounded": {False}, "rescale left out once": {False}}
    assert all(conversions_of(one.program) == conversions_of(program) for one in mutants(program)
               if one.kind in verdicts)  # fmt: skip


def in_steady(mutant: Mutant) -> bool:
    """Of the first warp group alone."""
    place = mutant.place
    return place is not None and place.group == 0 and "steady" in {name for name, _ in place.path}
