"""Promises of `twill.codegen.lower.register_operands`: an operand A that no iteration changes is fetched once, if
registers allow."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from tests.golden_schedules import Example, kernel, machine, schedule
from tests.lowered import plan_of
from twill import exc
from twill.codegen import emit as emitting
from twill.codegen.emit import emit
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import (
    Consumed,
    LoadShared,
    Multiply,
    Pipeline,
    ProxyFence,
    Stmt,
    WarpGroup,
    WarpProgram,
    walk,
)
from twill.graph.build import wire
from twill.schedule.document import Schedule

pytestmark = pytest.mark.usefixtures("at_root")

FULL, WIDE = Example("examples/attention.py", "full"), Example("examples/attention.py", "full-d256")
GEMM = Example("examples/gemm.py", "bf16-wide")


@cache
def lowered(example: Example, hold: bool = True) -> WarpProgram:
    return lower(kernel(example).program, schedule(example), machine(), hold)


def computing(program: WarpProgram) -> list[WarpGroup]:
    return [group for group in program.groups if not group.issuer]


def fetched(group: WarpGroup) -> list[int]:
    """Places in the group's body of loads from shared memory, in front of its loop."""
    return [place for place, stmt in enumerate(group.body) if isinstance(stmt, LoadShared)]


def from_registers(group: WarpGroup) -> set[int]:
    """Fragments that products of the steady state take A from."""
    loop = next(stmt for stmt in group.body if isinstance(stmt, Pipeline))
    return {s.a for s in walk(loop.steady) if isinstance(s, Multiply) and isinstance(s.a, int)}


def test_the_queries_of_attention_are_fetched_once_and_their_slot_is_given_back_at_once() -> None:
    for group in computing(lowered(FULL)):
        (place,) = fetched(group)
        load = group.body[place]
        assert isinstance(load, LoadShared) and load.result in from_registers(group)
        assert isinstance(group.body[place + 1], ProxyFence) and isinstance(group.body[place + 2], Consumed)
        assert group.fragment(load.result).element == "bf16"


def test_a_slot_that_is_free_at_once_is_enough() -> None:
    depths = {hold: [a.depth for a in lowered(FULL, hold).arefs if a.name.startswith("q")] for hold in (True, False)}
    assert depths == {True: [1, 1], False: [2, 2]}


def test_without_room_it_stays_in_shared_memory() -> None:
    assert all(not fetched(group) for group in computing(lowered(WIDE)))  # 64 registers more than 208
    assert all(not fetched(group) for group in computing(lowered(FULL, hold=False)))


def test_what_a_loop_loads_is_no_such_operand() -> None:
    assert lowered(GEMM) == lowered(GEMM, hold=False)


def test_the_room_is_what_the_budgets_leave_beyond_the_schedule() -> None:
    """Q takes 32 registers of a thread; the schedule's 192 become 232."""
    assert resident_at(schedule(FULL))
    asked = tuple(
        w.model_copy(update={"registers": 208}) if w.context == "compute" else w for w in schedule(FULL).warp_groups
    )
    assert not resident_at(schedule(FULL).model_copy(update={"warp_groups": asked}))


def resident_at(given: Schedule) -> bool:
    return bool(plan_of(wire(kernel(FULL).program), given, machine()).register_operands)


@pytest.mark.parametrize("kind", [LoadShared, Consumed])
def test_the_abstract_machine_misses_the_load_and_the_release(kind: type[Stmt]) -> None:
    program = lowered(FULL)
    first = next(group for group in program.groups if not group.issuer)
    place = fetched(first)[0] + 2 * (kind is Consumed)
    assert isinstance(first.body[place], kind)
    broken = replace(first, body=(*first.body[:place], *first.body[place + 1 :]))
    groups = tuple(broken if group is first else group for group in program.groups)
    found = verify(replace(program, groups=groups), enough=1)
    assert {violation.rule for violation in found} & {"undefined", "deadlock"}


def test_a_release_in_front_of_the_load_is_found() -> None:
    program = lowered(FULL)
    first = next(group for group in program.groups if not group.issuer)
    place = fetched(first)[0]
    load, fence, release = first.body[place : place + 3]
    broken = replace(first, body=(*first.body[:place], release, load, fence, *first.body[place + 3 :]))
    groups = tuple(broken if group is first else group for group in program.groups)
    assert verify(replace(program, groups=groups), enough=1)


@pytest.mark.parametrize("cause", ["spill", "serialized", "wait", "budget"])
def test_a_build_without_room_reads_from_shared_memory(monkeypatch: pytest.MonkeyPatch, cause: str) -> None:
    built: list[WarpProgram] = []

    def build(program: WarpProgram, *_: object, **named: object) -> Any:
        built.append(program)
        if len(built) == 1:
            raise exc.BuildRejected(cause, "no room", None)
        return "kernel"

    monkeypatch.setattr(emitting, "build_kernel", build)
    monkeypatch.setattr(emitting, "verify", lambda program, problem, **named: ())
    monkeypatch.setattr(emitting, "refuse_early", lambda program, built: None)
    listed: list[str] = []
    make: Callable[[], Any] = lambda: emit(  # noqa: E731
        kernel(FULL).wired, kernel(FULL).specialization, schedule(FULL), machine(), listed.append
    )
    assert make() == "kernel" and built == [lowered(FULL), lowered(FULL, hold=False)]
    assert any("with less in registers" in text for text in listed)
