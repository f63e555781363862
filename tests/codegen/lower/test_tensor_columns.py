"""Promises of where tiles lie in tensor memory."""

from __future__ import annotations

from twill.codegen.lower.tensor_columns import TensorColumns, TensorTile, allocate

SCORES, OUTPUT = TensorTile("S", 128, slots=2), TensorTile("O", 128)
OPERAND = TensorTile("P", 64, over="S")


def test_rings_lie_behind_one_another_and_an_operand_in_every_slot_of_its_host() -> None:
    found = allocate((SCORES, OUTPUT, OPERAND), 512)
    assert isinstance(found, TensorColumns)
    assert found.first == {"S": 0, "O": 256, "P": 0} and found.stride == {"S": 128, "O": 128, "P": 128}
    assert found.slots("P") == 2 and found.used == 384


def test_what_may_have_another_slot_gets_it_if_there_is_room() -> None:
    one = TensorTile("acc", 256, extra=True)
    roomy, tight = allocate((one,), 512), allocate((one, TensorTile("other", 128)), 512)
    assert isinstance(roomy, TensorColumns) and isinstance(tight, TensorColumns)
    assert (roomy.slots("acc"), tight.slots("acc")) == (2, 1)


def test_more_columns_than_there_are_are_refused_with_the_figure() -> None:
    said = allocate((TensorTile("S", 256, slots=2), OUTPUT, OPERAND), 512)
    assert said == "accumulators of 640 columns are more than tensor memory has, 512: S 2 x 256, O 1 x 128"
