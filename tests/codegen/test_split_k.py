"""A split of K goes the whole way: lowered, checked, printed, compiled, executed; and what is wrong in it is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache

import pytest

from tests.conftest import ROOT
from tests.golden_schedules import machine
from twill import exc
from twill.codegen.emission import Extracted, emit_solved, extract
from twill.codegen.emit import Emission
from twill.codegen.lower import operations
from twill.codegen.lower.reductions import sum_parts
from twill.codegen.lowering import lower
from twill.codegen.print.sections import sections
from twill.codegen.verify.abstract.inputs import launch
from twill.codegen.verify.abstract.results import compare
from twill.codegen.verify.abstract_machine import run, trials, verify
from twill.codegen.warp.expression import Number
from twill.codegen.warp.parse import parse
from twill.codegen.warp.program import Stmt, SumParts, WarpProgram, with_blocks
from twill.codegen.warp.text import text
from twill.graph.extract import extract as solved_graph
from twill.kernel.specialization import problem_of
from twill.manifest.document import SPLIT_ZEROS
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.flat import Step
from twill.tile.program import Split
from twill.trial import execute

SMALL = tuple(
    f"{name}=tensordesc<bf16[{block}]>"
    for name, block in {"a_desc": "64, 64", "b_desc": "64, 64", "c_desc": "64, 64"}.items()
)


@cache
def split() -> Extracted:
    """A GEMM with tiles of 64 x 64 whose K is split in three."""
    return extract("examples/gemm.py", "bf16", SMALL, ("BLOCK_M=64", "BLOCK_N=64"), split=3)


@cache
def schedule() -> Schedule:
    return solve(split().graph, machine(), SolveOptions(strategy="heuristic", blocks=1, fuse=False))


@cache
def lowered(order: str = "static") -> WarpProgram:
    return lower(split().wired, schedule(), machine(), order=order)  # type: ignore[arg-type]


@cache
def emitted() -> Emission:
    return emit_solved(split(), machine(), lambda graph, on: schedule())


def edited(change: Callable[[SumParts], SumParts]) -> WarpProgram:
    """The program with every meeting of parts changed."""

    def block(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(change(s) if isinstance(s, SumParts) else with_blocks(s, block) for s in stmts)

    groups = tuple(replace(group, body=block(group.body)) for group in lowered().groups)
    return replace(lowered(), groups=groups)


@pytest.mark.parametrize("order", ["static", "dynamic"])
def test_a_split_program_is_right_in_either_order_of_instances(order: str) -> None:
    assert verify(lowered(order), problem_of(split().specialization)) == ()


def test_checked_launches_have_the_parts_and_the_kernel_as_written_has_not() -> None:
    made = trials(lowered(), problem_of(split().specialization))
    assert {trial.launch.grid[1] for trial in made} == {3}
    written = lowered().program.original
    assert written is not None
    assert written.split is None


FAULTS: dict[str, tuple[Callable[[SumParts], SumParts], str]] = {
    "two tiles in one sum": (lambda s: replace(s, slot=Number(0)), "parts"),
    "every part is the first": (lambda s: replace(s, part=Number(0)), "parts"),
    "nobody waits for the others": (lambda s: replace(s, part=Number(0), parts=Number(1)), "values"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_sum_of_parts_is_found(name: str) -> None:
    change, rule = FAULTS[name]
    found = verify(edited(change), problem_of(split().specialization), enough=1)
    assert rule in {violation.rule for violation in found}


def test_its_text_can_be_read_again() -> None:
    again = parse(text(lowered()), split().program)
    assert text(again) == text(lowered())
    assert any(isinstance(stmt, SumParts) for group in again.groups for stmt in group.stmts)


def test_row_blocks_have_sums_of_their_own_and_are_printed_once() -> None:
    sizes = tuple(f"{name}=tensordesc<bf16[128, 64]>" for name in ("a_desc", "c_desc"))
    kernel = extract("examples/gemm.py", "bf16", (*SMALL, *sizes), ("BLOCK_M=128", "BLOCK_N=64"), split=2)
    two = solve(kernel.graph, machine(), SolveOptions(strategy="heuristic", blocks=2, fuse=False))
    program = lower(kernel.wired, two, machine(), order="static")
    slots = [stmt.slot for group in program.groups for stmt in group.stmts if isinstance(stmt, SumParts)]
    assert len(slots) == len(set(slots)) == 2
    assert any(len(section.groups) == 2 for section in sections(program))
    assert verify(program, problem_of(kernel.specialization)) == ()


def test_one_flag_for_several_row_blocks_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The program that lowering refuses to make (`sum_parts`): four row blocks, of which one warp group has two sums
    and the flag of the second. Results were wrong on a GPU now and then, where another instance was the last of one of
    them alone. In a run where all sums have the same last part nothing is seen."""
    kernel = extract("examples/gemm_pointers.py", "bf16", (), ("BLOCK_M=256",), split=2)
    four = solve(kernel.graph, machine(), SolveOptions(strategy="heuristic", blocks=4, fuse=False))
    with pytest.raises(exc.UnsupportedInKernel, match="several row blocks"):
        lower(kernel.wired, four, machine(), order="static")

    def unchecked(scope: operations.LoweringScope, number: int, step: Step) -> None:
        scope.tools.summed.clear()
        sum_parts(scope, number, step)

    monkeypatch.setattr(operations, "sum_parts", unchecked)
    program = lower(kernel.wired, four, machine(), order="static")
    given = trials(program, problem_of(kernel.specialization))
    for trial in given[:2]:
        (reference,) = trial.references
        trace = run(program, trial.launch, trial.launch.ctas)
        assert not trace.violations
        assert not list(compare(program.program, trial.launch, trace.arrays, reference))
    assert {violation.rule for violation in verify(program, given=given)} == {"values"}


def test_the_machine_code_does_what_the_tile_program_does_and_leaves_its_counters_at_zero() -> None:
    """Also one part alone, which is what a launch of very many tiles has: it meets nobody."""
    emission = emitted()
    manifest = emission.manifest
    assert manifest.split is not None
    assert (manifest.split.axis, manifest.split.parts, manifest.split.bytes) == (1, 3, 4 * 64 * 64)
    assert manifest.workspace == SPLIT_ZEROS
    problem = problem_of(split().specialization)
    made = execute.small(emission.program, 2, problem)[-1]
    assert not execute.verified(emission.build.ptx, manifest, emission.program, made, ctas=3).said()
    whole = replace(made, grid=(made.grid[0], 1))
    assert not execute.verified(emission.build.ptx, manifest, emission.program, whole).said()


def test_many_parts_are_added_in_their_order_whoever_comes_last() -> None:
    """More than are loaded ahead; the rest of them, too."""
    emission = emitted()
    case = execute.small(emission.program, 2, problem_of(split().specialization))[-1]
    for parts in (7, 8):
        made = replace(case, grid=(1, parts))
        assert not execute.verified(emission.build.ptx, emission.manifest, emission.program, made, ctas=parts).said()


def test_where_parts_are_many_the_last_to_come_adds_up_slices_that_nobody_took() -> None:
    """32 parts of 32 registers a thread are summed by whoever is there. Here each CTA ends before the next one begins,
    so each but the last waits in vain."""
    emission = emitted()
    assert "sum_slice<128, 32>(" in emission.build.source
    case = execute.small(emission.program, 2, problem_of(split().specialization))[-1]
    made = replace(case, grid=(1, 32))
    assert not execute.verified(emission.build.ptx, emission.manifest, emission.program, made, ctas=32).said()


@cache
def paired() -> Emission:
    """The same in clusters of two."""
    return emit_solved(split(), machine(), lambda graph, on: schedule(), cluster=2)


def test_a_cta_that_repeats_its_neighbour_s_instance_is_no_part_of_a_sum() -> None:
    """Three tiles, so the second pair of each part lacks its second instance."""
    emission = paired()
    problem = problem_of(split().specialization)
    assert problem is not None
    assert verify(emission.program, problem) == ()
    case = problem.case({"M": 64 * 3, "N": 64, "K": 64 * 4})
    made = launch(emission.program.program, replace(case, grid=(*case.grid, 3)))
    assert made.grid == (3, 3)
    assert not execute.verified(emission.build.ptx, emission.manifest, emission.program, made, ctas=4).said()


def test_one_that_counted_itself_in_would_be_found() -> None:
    whole = {stmt.slot: stmt.parts for group in lowered().groups for stmt in group.stmts if isinstance(stmt, SumParts)}

    def block(stmts: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
        return tuple(
            replace(s, parts=next(iter(whole.values()))) if isinstance(s, SumParts) else with_blocks(s, block)
            for s in stmts
        )

    program = paired().program
    groups = tuple(replace(group, body=block(group.body)) for group in program.groups)
    found = verify(replace(program, groups=groups), problem_of(split().specialization), enough=1)
    assert "parts" in {violation.rule for violation in found}


def test_so_many_tiles_that_their_counters_have_no_room_are_not_split() -> None:
    split = emitted().manifest.split
    assert split is not None
    assert split.instances((1000, 1, 1), SPLIT_ZEROS) == (1000, 3, 1)
    assert split.instances((20000, 1, 1), SPLIT_ZEROS) == (20000, 1, 1)


def test_a_sidecar_that_splits_is_solved_as_it_is_emitted(kernel_file: Callable[..., str]) -> None:
    """The graph of `twill solve`, and with it the key of the schedule, is that of `twill emit`."""
    source = (ROOT / "examples/gemm.py").read_text().partition("@triton.jit")
    sidecar = (
        (ROOT / "examples/gemm.twill.toml").read_text().replace('name = "bf16"\n', 'name = "bf16"\nsplit = 3\n', 1)
    )
    file = kernel_file("@triton.jit" + source[2], sidecar)
    assert solved_graph(file, "bf16")[1] == extract(file, "bf16").graph
    assert extract(file, "bf16").program.split == Split(axis=1, parts=3)
    assert extract(file, "bf16", split=1).program.split is None
