"""Promises of rings in modules of Gluon: those that are filled, read and given back together have one pair of barriers,
and the program with it is still right; others stay as they are."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import lowerings
from twill.codegen.print.gluon import sayable
from twill.codegen.print.gluon.joined_rings import with_joined_rings
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import Advance, Expect, Stmt, TmaLoad, WarpProgram, with_blocks
from twill.kernel.specialization import problem_of
from twill.tile.rewrite.pipeline import Allowed

pytestmark = pytest.mark.usefixtures("at_root")


@cache
def kernel(name: str) -> Extracted:
    example = next(one for one in examples() if one.name == name)
    return extract(example.file, example.spec, (), (), Allowed(conditional=False))


@pytest.fixture
def apart(monkeypatch: pytest.MonkeyPatch) -> WarpProgram:
    """A GEMM whose rings are not joined."""
    monkeypatch.setattr(sayable, "with_joined_rings", lambda program: program)
    example = next(one for one in examples() if one.name == "gemm_bf16")
    return next(lowerings(kernel("gemm_bf16").wired, schedule(example), H100))


def wrong(program: WarpProgram) -> list[str]:
    return [one.rule for one in verify(program, problem_of(kernel("gemm_bf16").specialization))]


def test_the_rings_of_a_gemm_are_one_and_every_launch_is_right(apart: WarpProgram) -> None:
    joined = with_joined_rings(apart)
    assert [aref.name for aref in apart.arefs] == ["a", "b"]
    (ring,) = joined.arefs
    assert ring.name == "a b" and len(ring.buffers) == 2 and ring.bytes == sum(aref.bytes for aref in apart.arefs)
    assert sum(isinstance(stmt, Expect) for group in joined.groups for stmt in group.stmts) == 1
    assert not wrong(joined)


def test_a_joined_ring_that_expects_the_bytes_of_one_tile_is_found(apart: WarpProgram) -> None:
    def fewer(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        halved = (replace(s, bytes=s.bytes // 2) if isinstance(s, Expect) else with_blocks(s, fewer) for s in block)
        return tuple(halved)

    joined = with_joined_rings(apart)
    assert wrong(replace(joined, groups=tuple(replace(group, body=fewer(group.body)) for group in joined.groups)))


def test_rings_of_other_depths_stay_apart(apart: WarpProgram) -> None:
    first, second = apart.arefs
    uneven = replace(apart, arefs=(first, replace(second, depth=second.depth - 1)))
    assert with_joined_rings(uneven) is uneven


def test_rings_whose_slots_are_not_passed_side_by_side_stay_apart(apart: WarpProgram) -> None:
    """Between the two steps a tile is loaded by the one that was made first."""

    def loading(block: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for stmt in block:
            made.append(with_blocks(stmt, loading))
            if isinstance(stmt, Advance):
                made += [one for one in block if isinstance(one, TmaLoad) and one.cursor == stmt.cursor]
        return tuple(made)

    groups = tuple(replace(g, body=loading(g.body)) if g.issuer else g for g in apart.groups)
    ahead = replace(apart, groups=groups)
    assert with_joined_rings(ahead) is ahead


def test_partitions_that_do_the_same_stay_alike(apart: WarpProgram) -> None:
    """A ring that one of two readers has gets no part of the ring that both have, if the other reader's can't."""
    first, second = apart.arefs
    one_reader = replace(apart, arefs=(replace(first, consumers=first.consumers[:1]), second))
    assert len(second.consumers) == 2 and with_joined_rings(one_reader) is one_reader


def test_keys_and_values_of_attention_stay_apart() -> None:
    example = next(one for one in examples() if one.name == "attention_causal")
    program = next(lowerings(kernel("attention_causal").wired, schedule(example), H100))
    assert {"k", "v"} <= {aref.name for aref in program.arefs}
