"""Two compilations of modules of Gluon are alike if only lines, registers and labels differ, and not otherwise."""

from __future__ import annotations

import pytest

from tests.gluon_alike import instructions

PTX = """
	.file	1 "kernel.py"
$L__BB0_2:                              // loop
	.loc	1 12 8
	add.s32 	%r7, %r3, %r7;
	@%p2 bra 	$L__BB0_2;
	.section	.debug_info
	.b32 17
"""


def test_what_only_says_where_something_stands_or_what_it_is_called_does_not_count() -> None:
    other = PTX.replace("12 8", "14 8").replace("%r3", "%r21").replace("%r7", "%r9").replace("BB0_2", "BB0_11")
    assert instructions(PTX) == instructions(other.replace(".b32 17", ".b32 18"))


@pytest.mark.parametrize(
    ("before", "after"),
    [("add.s32", "sub.s32"), ("%r3, %r7", "%r7, %r3"), ("%r3, %r7", "%r4, %r3"), ("@%p2", "@!%p2")],
)
def test_another_instruction_or_another_operand_counts(before: str, after: str) -> None:
    assert instructions(PTX) != instructions(PTX.replace(before, after))
