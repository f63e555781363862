"""Promises about kernels with fewer columns, which SentryWard is asked about instead of attention as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests import blackwell_kept, blackwell_table, narrow, sentry
from tests.blackwell_attention import CAUSAL_64, FULL, FULL_TWO
from tests.codegen.targets.test_blackwell import changed, instead
from tests.codegen.targets.test_blackwell_attention import at
from tests.narrow import Narrow
from twill.codegen.warp import program as ir

pytestmark = pytest.mark.usefixtures("at_root")
MADE: dict[str, Callable[[], Narrow]] = {
    "128 rows": lambda: narrow.attention(FULL),
    "256 rows": lambda: narrow.attention(FULL_TWO),
    "causal, D = 64": lambda: narrow.attention(CAUSAL_64),
    "linear": lambda: narrow.kept(blackwell_kept.LINEAR),
    "backward, D = 64": lambda: narrow.kept(blackwell_kept.BACKWARD_64),
    "a sliding window": lambda: narrow.forward(blackwell_kept.WINDOW),
    "any length": lambda: narrow.forward(blackwell_kept.ANY_LENGTH),
    "pointers": lambda: narrow.forward(blackwell_kept.POINTERS),
}


@pytest.mark.parametrize("name", MADE)
def test_a_narrow_kernel_has_the_rings_and_the_statements_of_the_wide_one_in_their_order(name: str) -> None:
    made = MADE[name]()
    assert narrow.outline(made.program) == narrow.outline(made.of)
    assert made.program.shared < made.of.shared and made.program.tensor_columns <= made.of.tensor_columns


def test_that_of_attention_backward_gives_dv_back_before_it_reads_dk() -> None:
    """The wide one reads both by parts, and gives them back behind the last."""
    made = narrow.kept(blackwell_kept.BACKWARD)
    narrowed, wide = narrow.outline(made.program), narrow.outline(made.of)
    assert narrowed != wide and sorted(narrowed) == sorted(wide)


@pytest.mark.parametrize(
    "made",
    [lambda: narrow.attention(FULL, 2), lambda: narrow.kept(blackwell_kept.BACKWARD, 2)],
    ids=["forward", "backward"],
)
def test_that_of_two_ctas_shares_halves_of_rows_for_halves_of_columns(made: Callable[[], Narrow]) -> None:
    """Else it has the rings and the statements of the wide one."""
    one = made()
    shared, wide = narrow.outline(one.program), narrow.outline(one.of)
    assert one.program.cluster is not None and set(wide) <= set(shared)
    more = [line for line in shared if line not in wide]
    assert more and all("tma load" in line and line.endswith("by CTA  for all  # line") for line in more)


def test_an_outline_says_how_deep_rings_are_and_what_is_waited_for() -> None:
    lines = narrow.outline(narrow.attention(FULL).program)
    assert "k 2 tma 1 1" in lines
    assert any("mma" in line and line.endswith(": get k_get") for line in lines)


def test_a_descriptor_whose_highest_bit_is_set_is_a_positive_number() -> None:
    assert (
        sentry.unsigned("or.b64 \t%rd18, %rd15, -9223301530671579136;") == "or.b64 \t%rd18, %rd15, 9223442543037972480;"
    )
    assert sentry.unsigned("add.s64 %rd1, %rd2, -2;") == "add.s64 %rd1, %rd2, -2;"


def test_reductions_of_the_tma_are_stores_where_others_are_asked() -> None:
    """What they read of shared memory is the same."""
    text = "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%rd1, {%r1, %r2}], [%r3]; add.s32 a;"
    wanted = "cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%rd1, {%r1, %r2}], [%r3]; add.s32 a;"
    assert sentry.stored(text) == wanted == sentry.stored(wanted)


def test_others_find_that_two_ctas_which_share_loads_are_race_free_where_each_reduces_into_rows_of_its_own() -> None:
    made = narrow.kept(blackwell_kept.BACKWARD, 2)
    (text, entry, launch), _ = blackwell_table.asked_narrow(made)
    assert "cluster_ctarank; mad" in text and "cp.reduce" not in text
    short = blackwell_table.shortened(launch, 448, 128)  # a second block of queries
    assert sentry.checked(text, entry, short, 600)["result"] == "race_free"


def test_others_find_dq_that_is_overwritten_while_its_reduction_may_read_it() -> None:
    made = narrow.kept(blackwell_kept.BACKWARD)
    program = made.program
    for group in program.groups:
        program = changed(program, group.role, instead(ir.BulkWait, lambda stmt: None))
    (text, entry, launch), _ = blackwell_table.asked_narrow(replace(made, program=program))
    short = blackwell_table.shortened(launch, 448, 128)  # a second block of queries
    assert sentry.checked(text, entry, short, 600)["result"] == "potential_race"


def test_others_find_a_slot_of_a_narrow_kernel_that_is_filled_before_it_is_free() -> None:
    made = narrow.attention(FULL)
    wrong = replace(made, program=changed(made.program, "load", at(made.program, ir.Acquire, "k_put")))
    assert wrong.program != made.program
    question, _ = blackwell_table.asked_narrow(wrong)
    assert sentry.checked(*question)["result"] == "not_wellsynced"
