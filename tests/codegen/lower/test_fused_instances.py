"""Promises of `twill.codegen.lower.fused_instances`: instances that are worked on at once do what each of them would
do alone, whatever
the launch grid leaves of the last group; mistakes about which instance is which are found."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.fused_programs import KEPT, fused, kernel, rows, schedule
from tests.golden_schedules import machine
from tests.kernels import H100
from tests.lowered import scheduled
from tests.places import edit, instead, places
from tests.tile_programs import gemm
from twill import exc
from twill.codegen.lower.fused_instances import exists
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.verify.abstract.derive import derived_problem
from twill.codegen.verify.abstract.inputs import launches
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Apply, Number, NumPrograms, ProgramId
from twill.codegen.warp.program import Fused, If, LoadGlobal, Stmt, StoreGlobal, TmaLoad, TmaStore, WarpProgram, walk
from twill.codegen.warp.text import text
from twill.graph.build import dependence_graph
from twill.kernel.problem import ProblemTable
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve


@cache
def made(count: int = 2) -> WarpProgram:
    return fused(rows(), count)


def problem(*grid: int) -> ProblemTable:
    """Launches of `rows` with that grid."""
    return replace(derived_problem(rows()), grid=tuple(map(str, grid)))


@pytest.mark.parametrize(("count", "grids"), [(2, (1, 2, 3)), (3, (2, 4))])
def test_every_grid_is_right(count: int, grids: tuple[int, ...]) -> None:
    for grid in grids:
        assert verify(made(count), problem(grid, 2)) == (), grid


def test_every_instance_has_tiles_of_its_own_and_what_they_share_is_loaded_once() -> None:
    program = made()
    assert program.fused == Fused(axis=0, count=2)
    assert program.program == rows()  # what is computed stays what the kernel says
    loads = [s for group in program.groups for s in group.stmts if isinstance(s, TmaLoad)]
    assert [program.maps[load.map].argument for load in loads].count("b_desc") == 1
    assert [program.maps[load.map].argument for load in loads].count("a_desc") == 2
    assert {program.buffers[aref.buffers[0]].shape for aref in program.arefs} == {(64, 64)}


def test_memory_is_touched_for_instances_that_exist_only() -> None:
    for group in made(3).groups:
        bare = [s for s in outside_of_guards(group.body) if isinstance(s, LoadGlobal | StoreGlobal | TmaStore)]
        assert bare == []
    guards = [s.condition for group in made(3).groups for s in group.stmts if isinstance(s, If) and touches(s.body)]
    assert set(guards) == {exists(Fused(0, 3), number) for number in range(3)}


def outside_of_guards(stmts: Iterable[Stmt]) -> list[Stmt]:
    """Statements that no question about the grid stands before."""
    found: list[Stmt] = []
    for stmt in stmts:
        if not (isinstance(stmt, If) and any(isinstance(o, NumPrograms) for o in operands(stmt.condition))):
            found.append(stmt)
            found += outside_of_guards(inner for inner in walk((stmt,)) if inner is not stmt)
    return found


def operands(expr: Any) -> tuple[Any, ...]:
    return expr.operands if isinstance(expr, Apply) else ()


def touches(stmts: Iterable[Stmt]) -> bool:
    return any(isinstance(stmt, LoadGlobal | StoreGlobal | TmaStore) for stmt in stmts)


def test_launches_leave_groups_of_every_size() -> None:
    for count in (2, 3):
        every = list(launches(made(count), problem(count * 2, 1)))
        assert {launch.grid[0] % count for launch in every} == set(range(count))
        sizes = {launch.grid[0]: launch.arrays["c_desc"].size for launch in every}
        assert len(set(sizes.values())) == 1  # what lies behind a smaller grid is there, and must stay as it was


# -- seeded faults ------------------------------------------------------------------------------

Fault = Callable[[WarpProgram], WarpProgram]


def guards(program: WarpProgram, kind: type[Stmt], number: int) -> list[Any]:
    """The places where instance `number` of a group is asked for in front of statements of that kind."""
    assert program.fused is not None
    asked = exists(program.fused, number)
    return [
        place
        for place in places(program)
        if isinstance(place.stmt, If) and place.stmt.condition == asked
        if any(isinstance(inner, kind) for inner in place.stmt.body)
    ]


def at(kind: type[Stmt], number: int, change: Callable[[If], tuple[Stmt, ...]]) -> Fault:
    """A change of the first such guard."""

    def fault(program: WarpProgram) -> WarpProgram:
        place = guards(program, kind, number)[0]
        assert isinstance(place.stmt, If)
        return edit(program, place, instead(*change(place.stmt)))

    return fault


def neighbours(stmt: If) -> tuple[Stmt, ...]:
    """The second instance's tile goes where the first one's belongs."""
    moved = []
    for inner in stmt.body:
        assert isinstance(inner, TmaStore)
        row = inner.coordinates[0]
        assert isinstance(row, Apply) and row.operands[1] == Number(64)
        moved.append(replace(inner, coordinates=(row.operands[0], *inner.coordinates[1:])))
    return (replace(stmt, body=tuple(moved)),)


def of_the_other(stmt: If) -> tuple[Stmt, ...]:
    return (replace(stmt, condition=exists(Fused(0, 2), 0)),)


FAULTS: list[tuple[str, Fault, str]] = [
    ("the tile of an absent instance is stored", at(TmaStore, 1, lambda s: s.body), "values"),
    ("the vector of an absent instance is stored", at(StoreGlobal, 1, lambda s: s.body), "bounds"),
    ("an absent instance's vector is loaded", at(LoadGlobal, 1, lambda s: s.body), "bounds"),
    ("one instance's guard for another", at(TmaStore, 1, of_the_other), "values"),
    ("an instance that exists stores nothing", at(TmaStore, 1, lambda s: ()), "values"),
    ("the instances' tiles are swapped", at(TmaStore, 1, neighbours), "values"),
    ("nothing is loaded for an absent instance", at(LoadGlobal, 1, lambda s: (replace(s, otherwise=()),)), "undefined"),
    ("groups along another axis", lambda p: replace(p, fused=Fused(1, 2)), "values"),
    ("groups of another size", lambda p: replace(p, fused=Fused(0, 3)), "values"),
]  # fmt: skip


@pytest.mark.parametrize(("fault", "rule"), [fault[1:] for fault in FAULTS], ids=[fault[0] for fault in FAULTS])
def test_a_mistake_is_found(fault: Fault, rule: str) -> None:
    assert rule in {violation.rule for violation in verify(fault(made()), problem(3, 2), enough=1)}


# -- examples -----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", KEPT)
def test_warp_programs_of_examples(name: str, golden: Callable[[str, str], None]) -> None:
    golden(f"fused/{name}.txt", text(lower(kernel(name).program, schedule(name), machine())))


def test_the_kernel_walks_groups() -> None:
    printed = print_cuda(made(), H100).text
    assert "u32 programs0,\n    u32 grid1" in printed
    assert "const u32 grid0 = (programs0 + 1) / 2;  // 2 instances at once" in printed
    assert re.search(r"const i32 program_id_0 = \(.*\) \* 2;", printed)
    assert "(program_id_0 + 1) < (i32)programs0" in printed


def test_instances_that_are_not_alike_are_refused() -> None:
    program = gemm()
    found = scheduled(program, 2)
    assert found.cooperation.split == 2
    ordered = found.model_copy(update={"cooperation": found.cooperation.model_copy(update={"fuse": 2, "dim": "k"})})
    with pytest.raises(exc.UnsupportedInKernel, match="fuses 2 program instances that are not alike") as raised:
        lower(program, ordered, H100)
    assert raised.value.hint == "solve the kernel again"


def test_clusters_of_fused_instances_are_refused() -> None:
    found = solve(dependence_graph(rows()), H100, SolveOptions(strategy="heuristic", blocks=2))
    with pytest.raises(exc.UnsupportedInKernel, match="clusters have no fused program instances"):
        lower(rows(), found, H100, cluster=2)


def test_groups_of_a_grid() -> None:
    three = Fused(1, 3)
    assert three.groups((5, 7)) == (5, 3, 1)
    assert three.first((4, 2, 0)) == (4, 6, 0)
    assert ProgramId(1) in operands(operands(exists(three, 2))[0])
