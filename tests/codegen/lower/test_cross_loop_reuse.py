"""Promises of `twill.codegen.lower.cross_loop_reuse`: what several loops read is loaded once where it fits, and as
before where not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from tests.golden_schedules import Example, lowered
from tests.kernels import H100
from tests.places import edit, instead, places
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.lower.cross_loop_reuse import position
from twill.codegen.verify.abstract.actor import Actor
from twill.codegen.verify.abstract_machine import run, trials, verify
from twill.codegen.warp.program import Consumed, If, Pipeline, Skip, Stmt, TmaLoad, WarpGroup, WarpProgram, walk
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked


@cache
def layer_norm() -> WarpProgram:
    example = Example("examples/layer_norm.py", "bf16")
    return lowered(example)


def ring_depth(program: WarpProgram) -> int:
    """Of the ring that all loops read x from."""
    (depth,) = (aref.depth for aref in program.arefs if aref.name == "x")
    return depth


def computing(program: WarpProgram) -> WarpGroup:
    return next(group for group in program.groups if not group.issuer)


def test_one_ring_feeds_every_loop_that_reads_the_same_tiles() -> None:
    program = layer_norm()
    assert sorted(aref.name for aref in program.arefs) == ["b", "instance", "w", "x"]
    cursors = Counter(program.arefs[cursor.aref].name for cursor in computing(program).cursors)
    assert cursors == {"x": 3, "w": 1, "b": 1, "instance": 1}  # a place in the ring for each loop


@pytest.mark.parametrize("fits", [True, False])
def test_a_row_that_fits_is_loaded_once_and_another_in_every_loop(fits: bool) -> None:
    program = layer_norm()
    depth, seen = ring_depth(program), 0
    for trial in trials(program):
        tiles, rows = -(-int(trial.launch.scalars["N"]) // 1024), trial.launch.grid[0]
        if (tiles <= depth) != fits or not tiles:
            continue
        loads: list[str] = []

        def watch(actor: Actor, stmt: Stmt, loads: list[str] = loads) -> None:
            if isinstance(stmt, TmaLoad) and program.maps[stmt.map].argument == "X":
                loads.append(actor.role)

        trace = run(program, trial.launch, trial.launch.ctas, watch=watch)
        boxes = 1  # of four elements as one, 256 of them
        assert trace.violations == () and len(loads) == rows * tiles * boxes * (1 if fits else 3)
        seen += 1
    assert seen


def test_the_program_is_right() -> None:
    assert verify(layer_norm()) == ()


def changed(group: WarpGroup, keep: bool) -> WarpGroup:
    """Slots given back by every loop or, if `keep`, by none but where rows do not fit."""

    def block(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        made: list[Stmt] = []
        for stmt in stmts:
            if isinstance(stmt, If) and any(isinstance(inner, Consumed) for inner in stmt.body):
                made += () if keep else stmt.body
            elif isinstance(stmt, Pipeline):
                made.append(replace(stmt, steady=block(stmt.steady)))
            else:
                made.append(stmt)
        return tuple(made)

    return replace(group, body=block(group.body))


@pytest.mark.parametrize("keep", [True, False])
def test_slots_given_back_at_the_wrong_time_are_found(keep: bool) -> None:
    program = layer_norm()
    groups = tuple(group if group.issuer else changed(group, keep) for group in program.groups)
    found = {violation.rule for violation in verify(replace(program, groups=groups), enough=6)}
    assert found & {"phase", "deadlock", "order", "values"}


def test_tiles_of_products_and_of_what_is_written_are_not_kept() -> None:
    example = Example("examples/gemm.py", "bf16")
    program = lowered(example)
    conditions = [s for g in program.groups for s in walk(g.body) if isinstance(s, If) and not g.issuer]
    assert all(not any(isinstance(inner, TmaLoad) for inner in walk((stmt,))) for stmt in conditions)


def test_a_load_without_others_is_the_only_one_of_its_family() -> None:
    family = ((0, 0, -1), (2, 0, -1))
    assert position((family,), (2, 0, -1)) == (1, 2)
    assert position((family,), (4, 1, -1)) == (0, 1)


def test_a_place_in_the_ring_that_is_not_moved_on_is_found() -> None:
    """Behind a loop over a row that is longer than the ring: the next row's tiles lie further on."""
    program = layer_norm()
    guarded = [p for p in places(program) if isinstance(p.stmt, If) and any(isinstance(s, Skip) for s in p.stmt.body)]
    assert len(guarded) == 4
    for place in guarded:
        assert verify(edit(program, place, instead()), enough=1), place


IN_TURN = """
@triton.jit
def k(a, w, y, K, B: tl.constexpr, MORE: tl.constexpr):
    r, c = tl.program_id(0) * 2 * B + tl.arange(0, B), tl.arange(0, B)
    first, second = a + r[:, None] * K + c[None, :], a + (r + B)[:, None] * K + c[None, :]
    at = w + c[:, None] * B + c[None, :]
    total = tl.zeros([B, B], tl.float32)
    for i in range(0, K, B):
        total = step(total, tl.load(first + i), tl.load(at + i * B), MORE)
    total = total * 0.5
    for i in range(0, K, B):
        total = step(total, tl.load(second + i), tl.load(at + (K + i) * B), MORE)
    total = total * 0.25
    for i in range(0, K, B):
        total = step(total, tl.load(first + i), tl.load(at + (2 * K + i) * B), MORE)
    total = total * 2.0
    for i in range(0, K, B):
        total = step(total, tl.load(second + i), tl.load(at + (3 * K + i) * B), MORE)
    tl.store(y + r[:, None] * B + c[None, :], total.to(tl.float16))


@triton.jit
def step(total, x, w, MORE: tl.constexpr):
    if MORE:
        return total + tl.maximum(tl.dot(x, w), 0.0)
    return tl.dot(x, w, total)
"""


@pytest.mark.parametrize(("more", "rings"), [(True, 2), (False, 1)])
def test_tiles_that_loops_read_in_turn_have_rings_of_their_own(
    kernel_file: Callable[..., str], more: bool, rings: int
) -> None:
    """The third loop reads the first one's rows again, the fourth one the second one's: in one ring the second loop's
    tiles would come between. Where warp groups take program instances alternately, tiles are kept for none: a group
    waits for the other one's loops, which wait for slots. What is emitted has the abstract machine's consent, and its
    PTX is equal to the tile program."""
    sig = [*(f"{name}=*fp16:16" for name in "awy"), "K=i32:16"]
    kernel = extract(f"{kernel_file(IN_TURN)}::k", sig=sig, const=["B=64", f"MORE={more}"])
    schedule = solve(kernel.graph, H100, SolveOptions(strategy="heuristic", fuse=False))
    emission = emit_scheduled(kernel, H100, schedule)
    program = emission.program
    loads = [s for g in program.groups for s in walk(tuple(g.stmts)) if isinstance(s, TmaLoad)]
    found = {one.target.buffer for one in loads if program.maps[one.map].argument == "a"}
    assert len(found) == rings
    assert not checked(emission, problem_of(kernel.specialization)).said()
