"""Promises of loads that two CTAs share on the B200: each sends a half to both; a commit gives slots back to both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests import blackwell, blackwell_attention
from tests.blackwell_rows import MULTICAST, Row
from tests.blackwell_table import given, problem
from tests.codegen.targets.test_blackwell import changed, instead, other
from tests.conftest import ROOT
from tests.golden_schedules import kernel
from twill import exc
from twill.cli import main
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Local
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.trial import execute

pytestmark = pytest.mark.usefixtures("at_root")
TURNS, GELU, ATTENTION, BACKWARD = MULTICAST  # the first of a kernel that makes its own order of tiles


def said(row: Row, change: Callable[[str], str] = str) -> list[str]:
    made = row.compiled()
    ran = given(row, row.executed)
    return execute.verified(change(made.build.ptx), made.manifest, made.program, ran, row.ctas).said()


def broken(row: Row, program: ir.WarpProgram) -> set[str]:
    return {violation.rule for violation in verify(program, problem(row))}


@pytest.mark.parametrize(
    ("row", "shared"), [(TURNS, ["b"]), (GELU, ["b"]), (ATTENTION, ["k", "v"]), (BACKWARD, ["q", "do"])],
    ids=[row.name for row in MULTICAST],
)  # fmt: skip
def test_two_ctas_load_together_and_multiply_each_for_itself(row: Row, shared: list[str]) -> None:
    made = row.compiled()
    assert [ring.name for ring in made.program.arefs if ring.shared] == shared
    assert not made.program.pairs and "cta_group::2" not in made.build.ptx and made.manifest.cluster == 2
    assert broken(row, made.program) == set()
    assert said(row) == []


def test_slots_go_back_to_both_ctas_behind_products() -> None:
    program = GELU.lowered()
    assert "consumed b_get everywhere behind MMAs" in text(program) and "consumed a_get behind MMAs" in text(program)
    assert parse(text(program), program.program) == program
    assert "tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast" in GELU.compiled().build.ptx


# ---------------------------------------------------------------- what is wrong is found


def to_one(stmt: ir.Stmt) -> ir.Stmt:
    return replace(stmt, everywhere=False) if isinstance(stmt, ir.Consumed) else stmt


def by_first(stmt: ir.Stmt) -> ir.Stmt:
    assert isinstance(stmt, ir.TmaLoad)
    return replace(stmt, sender=min(stmt.sender, 0))


def for_oneself(stmt: ir.Stmt) -> ir.Stmt:
    assert isinstance(stmt, ir.TmaLoad)
    return replace(stmt, sender=-1)


def meeting(program: ir.WarpProgram, **changes: bool) -> ir.WarpProgram:
    assert program.cluster is not None
    return replace(program, cluster=replace(program.cluster, **changes))  # type: ignore[arg-type]


FAULTS: dict[str, tuple[Callable[[ir.WarpProgram], ir.WarpProgram], str]] = {
    "slots go back to the own CTA alone": (lambda p: changed(p, "mma", to_one), "deadlock"),
    "the first CTA sends both halves": (lambda p: changed(p, "load", instead(ir.TmaLoad, by_first)), "phase"),
    "each CTA loads all for itself": (lambda p: changed(p, "load", instead(ir.TmaLoad, for_oneself)), "phase"),
    "nobody waits until both have begun": (lambda p: meeting(p, meets_first=False), "cluster"),
    "a CTA ends before the other": (lambda p: meeting(p, meets_last=False), "cluster"),
    "arrivals come when a CTA has ended": (
        lambda p: replace(p, groups=tuple(replace(g, finish=()) if g.role == "load" else g for g in p.groups)),
        "cluster",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_a_shared_load_is_found_by_the_abstract_machine(name: str) -> None:
    change, rule = FAULTS[name]
    found = broken(GELU, change(GELU.lowered()))
    assert rule in found, found


def test_instances_that_want_different_tiles_each_have_a_turn() -> None:
    program = TURNS.lowered()
    assert parse(text(program), program.program) == program

    def first_turn(group: ir.WarpGroup) -> ir.WarpGroup:
        assert group.loop is not None
        return replace(group, loop=replace(group.loop, end=Local("instances", "u32")))

    assert broken(TURNS, replace(program, groups=tuple(map(first_turn, program.groups)))) == {"values"}


def test_a_commit_to_one_cta_is_found_by_the_executor() -> None:
    assert said(GELU, other(r"(mov\.b16\s+%rs\d+), 3;", r"\1, 1;"))


# ---------------------------------------------------------------- how it is asked for, what is refused


def test_loads_are_shared_where_no_pair_is_wanted_or_products_are_none_of_a_pair(
    capsys: pytest.CaptureFixture[str],
) -> None:
    gelu = ["emit", str(ROOT / blackwell.GELU.file), "--machine", "b200", "--no-store", "--cluster", "2", "--ir"]
    assert main(gelu) == 0
    assert ", of a pair" in capsys.readouterr().out
    assert main([*gelu, "--no-pair"]) == 0
    assert ", shared by the cluster" in (said := capsys.readouterr().out) and ", of a pair" not in said


def test_blocks_of_queries_whose_loops_have_other_bounds_share_nothing() -> None:
    one = blackwell_attention.CAUSAL
    with pytest.raises(exc.UnsupportedInKernel, match="`k` along axis 0: the bounds of its loop are others"):
        lower(blackwell_attention.kernel(one).wired, blackwell_attention.schedule(one), blackwell.machine(), cluster=2)


def test_a_kernel_without_loads_of_matrices_shares_nothing() -> None:
    with pytest.raises(exc.UnsupportedInKernel, match="no matrix is loaded by the TMA"):
        lower(
            kernel(blackwell.LAYER_NORM).wired, blackwell.schedule(blackwell.LAYER_NORM), blackwell.machine(), cluster=2
        )
