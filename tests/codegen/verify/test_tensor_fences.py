"""The abstract machine knows the fences of tensor memory: waits and arrivals of its rings have them, others none."""

from __future__ import annotations

import pytest

from tests import blackwell_kept
from tests.golden_schedules import Example
from tests.mutations import mutants
from twill.codegen.verify.abstract.order import Knowledge, SlotAccess, SlotAccesses
from twill.codegen.verify.abstract_machine import trials, verify
from twill.kernel.specialization import problem_of

LOAD = SlotAccess(0, ("time", 0), 1, "tensor", False, (0, 128, 0, 128), 1, "LoadAccumulator of `acc`")
FENCE = "tensor-fence"
MMA = SlotAccess(1, ("mma", 1), 1, "mma", True, (0, 128, 0, 128), 2, "the TensorMultiply into `acc`")


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [(True, True, []), (False, True, [FENCE]), (True, False, [FENCE]), (False, False, [FENCE])],
)
def test_a_product_behind_a_read_needs_a_fence_on_both_sides(before: bool, after: bool, found: list[str]) -> None:
    reader, multiplier, accesses = Knowledge(0, False), Knowledge(1, True), SlotAccesses()
    reader.tick()
    assert not list(accesses.enter(LOAD, reader.collective(), reader.after))
    if before:
        reader.tensor_before()
    multiplier.learn(reader.released())
    if after:
        multiplier.tensor_after()
    assert [rule for rule, _ in accesses.enter(MMA, multiplier.collective(), multiplier.after)] == found


def test_an_arrival_behind_products_has_its_fence() -> None:
    reader, accesses = Knowledge(0, False), SlotAccesses()
    assert not list(accesses.enter(MMA, {}, {}))
    reader.learn({("mma", 1): 1})
    assert [rule for rule, _ in accesses.enter(LOAD, reader.collective(), reader.after)] == [FENCE]
    reader.tensor_after()
    assert not list(accesses.enter(LOAD, reader.collective(), reader.after))


@pytest.mark.parametrize(
    ("one", "kind"),
    [(blackwell_kept.LINEAR, "dropped Acquire"), (blackwell_kept.BACKWARD, "Consumed before its use")],
)
def test_a_wait_or_an_arrival_that_only_its_fence_is_needed_of_is_found(one: Example, kind: str) -> None:
    """Other waits order the accesses, but without a fence. Nothing but the executor of PTX had found these two."""
    program = blackwell_kept.lowered(one)
    given = trials(program, problem_of(blackwell_kept.kernel(one).specialization))
    faults = [mutant for mutant in mutants(program) if mutant.kind == kind]
    rules = [found[0].rule for mutant in faults if (found := verify(mutant.program, given=given, enough=1))]
    assert rules.count(FENCE) == 1
