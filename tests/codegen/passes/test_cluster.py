"""Promises of `twill.codegen.passes.cluster`: slots of shared rings go back everywhere; repeated instances do not
store."""

from __future__ import annotations

from tests.warp_programs import clustered_gemm, gemm, registers
from twill.codegen.passes.cluster import clustered
from twill.codegen.warp.expression import Local
from twill.codegen.warp.program import Consumed, If, StoreGlobal, TmaStore, walk


def test_only_slots_of_shared_rings_go_back_everywhere() -> None:
    for program, everywhere in ((gemm(), False), (clustered_gemm(), True)):
        given = [stmt for group in clustered(program.groups, program.arefs) for stmt in group.stmts]
        assert {stmt.everywhere for stmt in given if isinstance(stmt, Consumed)} == {everywhere}


def test_every_store_is_under_a_guard_and_nothing_else_is() -> None:
    for program in (gemm(), registers()):
        for group, before in zip(clustered(program.groups, program.arefs), program.groups, strict=True):
            guards = [s for s in walk(group.body) if isinstance(s, If) and s.condition == Local("present", "i1")]
            stores = [s for s in walk(group.body) if isinstance(s, TmaStore | StoreGlobal)]
            assert [stmt for guard in guards for stmt in guard.body] == stores
            assert stores == [s for s in walk(before.body) if isinstance(s, TmaStore | StoreGlobal)]
