"""Promises of `twill.codegen.verify.abstract_machine`: right programs pass; each mistake is found, with its rule and
line."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import count
from typing import Any

import numpy as np
import pytest

from tests.effects import effects
from tests.golden_schedules import Example, lowered, machine
from tests.happens import order
from tests.lowered import scheduled
from tests.mutations import Mutant, mutants
from tests.places import edit, instead, move, places
from tests.warp_programs import claiming, gemm, registers
from twill.codegen.emission import extract
from twill.codegen.lower.tile_scheduler import tile_scheduler
from twill.codegen.lowering import lower
from twill.codegen.verify import abstract_machine
from twill.codegen.verify.abstract.coverage import choose
from twill.codegen.verify.abstract.derive import derived_problem
from twill.codegen.verify.abstract.extent import trips_of
from twill.codegen.verify.abstract.inputs import launches
from twill.codegen.verify.abstract.instance_assignment import WAYS, Way
from twill.codegen.verify.abstract.operands import spreads
from twill.codegen.verify.abstract.wanted import wanted
from twill.codegen.verify.abstract_machine import RULES, Trial, in_range, run, trials, verify
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import Accumulator, Along
from twill.codegen.warp.program import (
    Acquire,
    Advance,
    Arrive,
    BulkWait,
    Compute,
    Consumed,
    Expect,
    Fence,
    FetchInstance,
    Fill,
    Get,
    Multiply,
    ProxyFence,
    Publish,
    PublishInstance,
    ReceiveInstance,
    SetProgramId,
    SlotRef,
    Stmt,
    StopUnless,
    StoreGlobal,
    Sync,
    TmaLoad,
    WaitGroups,
    WarpProgram,
    Window,
)
from twill.tile.rewrite.pipeline import Allowed


@cache
def pair() -> WarpProgram:
    return gemm(2, 1)


@cache
def ring() -> WarpProgram:
    return registers()


@cache
def dynamic() -> WarpProgram:
    return claiming(gemm(2, 1))


@cache
def launched(made: Callable[[], WarpProgram]) -> tuple[Trial, ...]:
    return trials(made())


def found(made: Callable[[], WarpProgram], program: WarpProgram) -> dict[str, Any]:
    return {violation.rule: violation for violation in reversed(verify(program, given=launched(made), enough=1))}


def changed(
    program: WarpProgram, kind: type[Stmt], change: Callable[[Any], tuple[Stmt, ...]], group: int = 0, which: int = 0
) -> WarpProgram:
    """The program with one statement of that kind in a group replaced."""
    place = [place for place in places(program) if place.group == group and isinstance(place.stmt, kind)][which]
    return edit(program, place, instead(*change(place.stmt)))


def without(program: WarpProgram, kind: type[Stmt], group: int = 0, which: int = 0) -> WarpProgram:
    return changed(program, kind, lambda stmt: (), group, which)


@pytest.mark.parametrize("shape", [(2, 1), (1, 0), (1, 2)])
def test_a_right_program_passes(shape: tuple[int, int]) -> None:
    assert verify(gemm(*shape)) == ()


def test_a_ring_filled_from_registers_passes() -> None:
    assert verify(registers()) == ()


def test_the_launches_reach_every_corner() -> None:
    texts = [trial.launch.text for trial in launched(pair)]
    grids = [trial.launch.grid for trial in launched(pair)]
    steps = {-(-int(trial.launch.scalars["K"]) // 64) for trial in launched(pair)}
    assert {0, 1, 2, 3} <= steps and max(steps) > 3 + 1, texts
    assert max(x * y for x, y, *_ in grids) >= 5, texts


@pytest.mark.parametrize("ctas", [1, 2, 3])
@pytest.mark.parametrize("way", ["in turn", *WAYS])
def test_results_do_not_depend_on_who_claims_what(ctas: int, way: Way) -> None:
    trial = max(launched(dynamic), key=lambda trial: trial.launch.grid)
    trace = run(dynamic(), trial.launch, ctas, way=way)
    assert not trace.violations and trace.steps > 0
    np.testing.assert_array_equal(trace.arrays["c_desc"], run(pair(), trial.launch).arrays["c_desc"])


def test_a_program_whose_instances_are_claimed_passes() -> None:
    assert verify(dynamic()) == ()


def test_results_do_not_depend_on_the_number_of_ctas() -> None:
    trial = max(launched(pair), key=lambda trial: trial.launch.grid)
    for ctas in (1, 2, 5):
        trace = run(pair(), trial.launch, ctas)
        assert not trace.violations and trace.steps > 0
        wanted = trial.references[0].expected["c_desc"]
        np.testing.assert_allclose(trace.arrays["c_desc"], wanted, rtol=2**-7, atol=2**-8)


LOAD, FILL = 2, 1  # warp groups of the two programs


def of_next(
    program: WarpProgram, kind: type[Stmt], change: Callable[[Any], tuple[Stmt, ...]], made: WarpProgram | None = None,
    group: int = 0,
) -> WarpProgram:  # fmt: skip
    """`made`, or the program, with the statement of that kind changed by which a group comes to know its instance."""
    made = made or program
    place = next(p for p in places(made) if p.group == group and p.path[0][0] == "next" and isinstance(p.stmt, kind))
    return edit(made, place, instead(*change(place.stmt)))


def claims_at_the_end(program: WarpProgram) -> WarpProgram:
    return replace(
        program, groups=tuple(replace(g, finish=(FetchInstance(),)) if g.issuer else g for g in program.groups)
    )


FAULTS: list[tuple[str, str, Callable[[], WarpProgram], Callable[[WarpProgram], WarpProgram], str]] = [
    ("a slot never given back", "deadlock", pair, lambda p: without(p, Consumed), "Acquire: the empty barrier of slot"),
    ("no Acquire", "order", pair, lambda p: without(p, Acquire, LOAD), "may still be on its way: no Acquire before it"),
    ("no Get", "order", pair, lambda p: without(p, Get, which=1), "may still be on its way: no Get before it"),
    ("no Get of registers", "order", ring, lambda p: without(p, Get), "no barrier orders the two"),
    ("a parity too far", "phase", pair, lambda p: changed(p, Get, lambda s: (*[Advance(s.cursor)] * 3, s)), "Get by"),
    ("no WaitGroups", "mma-wait", ring, lambda p: without(p, WaitGroups), "no WaitGroups covers it"),
    ("too loose a WaitGroups", "mma-wait", pair,
     lambda p: changed(p, WaitGroups, lambda s: (replace(s, pending=2),), which=1), "may still use it"),
    ("no Fence", "mma-fence", pair, lambda p: without(p, Fence), "since the last Fence that names it"),
    ("no proxy fence before a store", "proxy-fence", pair,
     lambda p: without(p, ProxyFence), "no ProxyFence of compute0"),
    ("no proxy fence before Publish", "proxy-fence", ring,
     lambda p: without(p, ProxyFence, FILL), "no ProxyFence of fill"),
    ("no Sync before a TMA store", "order", pair, lambda p: without(p, Sync, which=1), "no barrier orders the two"),
    ("no Sync before staging is written", "bulk", pair,
     lambda p: without(p, Sync), "no BulkWait and barrier before it"),
    ("no BulkWait before staging is written", "bulk", pair, lambda p: without(p, BulkWait), "may still read it"),
    ("no BulkWait at the end", "bulk", pair, lambda p: without(p, BulkWait, which=1), "ends while a bulk store"),
    ("too few bytes", "bytes", pair,
     lambda p: changed(p, Expect, lambda s: (replace(s, bytes=s.bytes - 16),), LOAD), "is told of"),
    ("too many bytes", "deadlock", pair,
     lambda p: changed(p, Expect, lambda s: (replace(s, bytes=s.bytes + 16),), LOAD), "of 32784 bytes"),
    ("no Publish", "deadlock", ring, lambda p: without(p, Publish, FILL), "0 of 4 arrivals"),
    ("given back twice", "phase", pair, lambda p: changed(p, Consumed, lambda s: (s, s)), "Consumed by compute0 means"),
    ("a box at another place", "values", pair,
     lambda p: changed(p, TmaLoad, lambda s: (replace(s, coordinates=s.coordinates[::-1]),), LOAD), "c_desc differ"),
    ("a statement left out", "undefined", pair, lambda p: without(p, Compute), "reads `c` before"),
    ("no beginning", "undefined", pair, lambda p: without(p, Fill), "reads `acc` before"),
    ("nothing accumulates", "values", ring,
     lambda p: changed(p, Multiply, lambda s: (replace(s, accumulate=False),)), "c_desc differ"),
    ("an arrival left over", "leftover", pair,
     lambda p: with_barrier(changed(p, Fill, lambda s: (Arrive(2), s))), "is left over"),
    ("a barrier of others", "barrier", pair,
     lambda p: changed(p, Sync, lambda s: (replace(s, barrier=1),)), "which does not count it"),
    ("a barrier for one thread", "barrier", pair,
     lambda p: changed(p, Acquire, lambda s: (Sync(0), s), LOAD), "one thread"),
    ("a consumer that acquires", "side", pair,
     lambda p: changed(p, Get, lambda s: (Acquire(s.cursor),)), "no producer"),
    ("registers on a ring of the TMA", "side", pair,
     lambda p: changed(p, Expect, lambda s: (Publish(s.cursor),), LOAD), "filled by tma"),
    ("arrivals that nobody makes", "counts", pair, lambda p: aref(p, empty_count=4), "its warp groups make 8"),
    ("a ring one slot short", "slots", pair, lambda p: buffer(p, 0, slots=2), "has 2 slots, its ring `ab` 3"),
    ("buffers over each other", "shared", pair, lambda p: buffer(p, 1, offset=1024), "overlap by"),
    ("an offset inside of a swizzle pattern", "shared", pair, lambda p: buffer(p, 3, offset=p.buffers[3].offset + 512),
     "is not aligned to the 1024 bytes"),
    ("too little shared memory", "shared", pair, lambda p: replace(p, shared=4096), "buffers and barriers need"),
    ("too much of it", "shared", pair, lambda p: buffer(replace(p, shared=1 << 20), 3, offset=1 << 19), "h100 has"),
    ("another swizzle", "layout", pair, lambda p: replace(p, maps=(replace(p.maps[0], swizzle=64), *p.maps[1:])),
     "swizzled by 64 bytes"),
    ("a budget that setmaxnreg does not take", "registers", pair,
     lambda p: group(p, 0, registers=100), "multiples of 8"),
    ("budgets beyond the register file", "registers", pair, lambda p: group(p, LOAD, registers=232), "together"),
    ("budgets beyond what the launch has allocated", "registers", pair,
     lambda p: group(p, 1, registers=240), "have 65536 registers together, a launch of 384 threads on h100 has 64512"),
    ("fragments beyond the budget", "registers", pair, lambda p: group(p, 0, registers=40), "alive at once"),
    ("rows of another tile", "layout", pair,
     lambda p: changed(p, Multiply, lambda s: (replace(s, a=SlotRef(0, s.b.cursor)),)), "is 128 x 64, not 64 x 64"),
    ("8-bit operands across", "layout", pair,
     lambda p: changed(p, Multiply, lambda s: (replace(s, operand="f8e4m3"),)),
     "only 16-bit operands may be transposed"),
    ("no Get of an instance", "order", dynamic, lambda p: of_next(p, Get, lambda s: ()), "no barrier orders the two"),
    ("an instance never given back", "deadlock", dynamic, lambda p: of_next(p, Consumed, lambda s: ()),
     "Acquire: the empty barrier of slot"),
    ("an instance given back before it is read", "order", dynamic,
     lambda p: of_next(p, ReceiveInstance, lambda s: (Consumed(s.source.cursor), s),
         of_next(p, Consumed, lambda s: ())),
     "no barrier orders the two"),
    ("no Acquire before an instance", "deadlock", dynamic, lambda p: of_next(p, Acquire, lambda s: (), group=LOAD),
     "Get: the full barrier of slot"),
    ("a parity of instances too far", "phase", dynamic,
     lambda p: of_next(p, Get, lambda s: (*[Advance(s.cursor)] * 2, s)), "without knowing that phase"),
    ("the slot of the instance before", "walk", dynamic,
     lambda p: of_next(p, ReceiveInstance, lambda s: (Advance(s.source.cursor), s, Advance(s.source.cursor))),
     "learns of"),
    ("always the first slot of instances", "walk", dynamic,
     lambda p: of_next(p, ReceiveInstance, lambda s: (replace(s, source=SlotRef(s.source.buffer)),)),
     "at no slot of the ring"),
    ("an instance not learnt", "walk", dynamic, lambda p: of_next(p, ReceiveInstance, lambda s: ()),
        "does not come to know"),
    ("an instance not told", "walk", dynamic, lambda p: of_next(p, PublishInstance, lambda s: (), group=LOAD),
        "learns of"),
    ("an instance not claimed", "walk", dynamic, lambda p: without(p, FetchInstance, LOAD),
        "publishes an instance once more"),
    ("two claims", "walk", dynamic, lambda p: changed(p, FetchInstance, lambda s: (s, s), LOAD),
        "not all instances that"),
    ("two who claim", "walk", dynamic, lambda p: changed(p, Fill, lambda s: (s, FetchInstance())),
        "which is not there for it"),
    ("a claim behind the last", "walk", dynamic, claims_at_the_end, "the counter is not 0"),
    ("a group that is left out", "walk", dynamic, lambda p: aref(p, which=1, consumers=(0,)), "has no part in the"),
    ("one of a share alone", "counts", dynamic, lambda p: aref(p, which=1, empty_count=4), "its warp groups make 8"),
    ("instances that a group counts by itself", "walk", dynamic,
     lambda p: group(p, 0, loop=tile_scheduler().loop), "counts its instances by itself"),
    ("the end of instances is not looked for", "deadlock", dynamic,
     lambda p: of_next(p, StopUnless, lambda s: (), group=0), "Get: the full barrier of slot"),
    ("the wrong row of tiles", "values", pair,
     lambda p: of_next(p, SetProgramId, lambda s: (replace(s, axis=1 - s.axis),)), "differ"),
    ("no bound where the tensor ends", "bounds", ring,
     lambda p: changed(p, StoreGlobal, lambda s: (replace(s, window=unbounded(s.window)),)), "outside of a tensor"),
]  # fmt: skip


def unbounded(window: Window) -> Window:
    return replace(window, axes=tuple(replace(axis, upper=None) for axis in window.axes))


def with_barrier(program: WarpProgram) -> WarpProgram:
    return replace(
        program, barriers=(*program.barriers, replace(program.barriers[0], id=2, groups=(0, 1), threads=256))
    )


def aref(program: WarpProgram, which: int = 0, **changes: Any) -> WarpProgram:
    made = tuple(replace(ring, **changes) if ring.id == which else ring for ring in program.arefs)
    return replace(program, arefs=made)


def buffer(program: WarpProgram, number: int, **changes: Any) -> WarpProgram:
    made = tuple(replace(b, **changes) if b.id == number else b for b in program.buffers)
    return replace(program, buffers=made)


def group(program: WarpProgram, number: int, **changes: Any) -> WarpProgram:
    return replace(program, groups=tuple(replace(g, **changes) if g.id == number else g for g in program.groups))


@pytest.mark.parametrize(("rule", "made", "fault", "words"), [f[1:] for f in FAULTS], ids=[f[0] for f in FAULTS])
def test_a_fault_is_found(
    rule: str, made: Callable[[], WarpProgram], fault: Callable[[WarpProgram], WarpProgram], words: str
) -> None:
    violations = verify(fault(made()), given=launched(made), enough=6)
    assert [violation for violation in violations if violation.rule == rule and words in violation.message], [
        violation.describe() for violation in violations
    ]


def test_violations_name_group_and_line() -> None:
    (first, *_) = verify(without(pair(), Get, which=1), given=launched(pair), enough=1)
    assert first.rule == "order" and first.line == 36 and first.group == "compute0" and first.other == "load"
    assert first.describe("k.py").startswith("k.py:36: [order] the Multiply into `acc` by compute0 reads slot")


def test_a_fence_behind_the_barrier_is_too_late() -> None:
    program = pair()
    place = next(place for place in places(program) if isinstance(place.stmt, ProxyFence))
    index = place.path[-1][1]
    late = edit(program, place, move(index, index + 2))
    assert "proxy-fence" in found(pair, late)


def test_every_rule_has_a_sentence() -> None:
    # Behind the first: tests/codegen/verify/abstract/test_cluster.py, test_split_k.py, passes/test_group_order.py,
    # test_walks.py, test_elected.py and verify/test_tensor_fences.py in tests/codegen.
    others = {"failed", "cluster", "cta-order", "parts", "aligned", "map", "tensor-fence"}
    assert {fault[1] for fault in FAULTS} | others == set(RULES)


def test_seeded_faults_are_found() -> None:
    """One of each class; `python -m tests.survey` makes all of them in every example."""
    program, given = pair(), launched(pair)
    classes: dict[str, Mutant] = {}
    for mutant in mutants(program):
        classes.setdefault(mutant.kind, mutant)
    assert len(classes) >= 30
    for mutant in classes.values():
        assert verify(mutant.program, given=given, enough=1) or all(
            effects(mutant.program, trial) == effects(program, trial) for trial in given
        ), mutant.kind


def test_a_wait_that_orders_nothing_is_told_apart_from_one_that_does() -> None:
    trial = launched(pair)[-1]
    right = order(pair(), trial)
    assert right[1]
    gets = [place for place in places(pair()) if isinstance(place.stmt, Get)]
    again = edit(pair(), gets[0], instead(gets[0].stmt, gets[0].stmt))
    assert order(again, trial) == right
    assert effects(again, trial, orders=False) == effects(pair(), trial, orders=False)
    assert order(edit(pair(), gets[0], instead()), trial) != right


def test_an_acquire_that_another_one_stands_in_for_is_needed_by_warps_that_fall_behind(at_root: object) -> None:
    """Bias tiles wait for the slots of the weights beside them alone, which are given back next to theirs: the data are
    ordered, but a warp that is ahead may arrive in the phase before."""
    example = Example("examples/layer_norm.py", "bf16-wide")
    program = lowered(example)
    acquires = [
        place
        for place in places(program)
        if isinstance(place.stmt, Acquire)
        and program.arefs[program.groups[place.group].cursor(place.stmt.cursor).aref].name == "b"
        and ("steady", 5) in place.path
    ]
    assert len(acquires) == 1
    wrong = edit(program, acquires[0], instead())
    assert "in each of its warps" in verify(wrong, enough=1)[0].message


@pytest.mark.parametrize("kind", [Acquire, Get, Consumed, Sync, ProxyFence])
def test_every_wait_of_a_lean_program_orders_something(kind: type[Stmt]) -> None:
    """The order of accesses, computed apart from the machine, changes with each."""
    trial = max(launched(pair), key=lambda trial: run(pair(), trial.launch).steps)
    right = order(pair(), trial)
    always = [place for place in places(pair()) if not {name for name, _ in place.path} & {"prologue", "epilogue"}]
    for place in always:
        if isinstance(place.stmt, kind):
            wrong = edit(pair(), place, instead())
            assert order(wrong, trial) != right, place


def test_a_slot_that_was_not_filled_is_not_given_back() -> None:
    consumed = next(place for place in places(pair()) if isinstance(place.stmt, Consumed))
    early = replace(pair().groups[0], start=(consumed.stmt,))
    wrong = replace(pair(), groups=(early, *pair().groups[1:]))
    assert any("before it was full for" in violation.message for violation in verify(wrong, given=launched(pair)))


def test_groups_that_take_turns_meet_every_number_of_iterations() -> None:
    shared = tuple(replace(group, share=(0, 2)) for group in pair().groups)
    goal = wanted(replace(pair(), groups=shared))
    assert (goal.takers, wanted(pair()).takers) == (2, 1)
    known = derived_problem(pair().program)
    for candidate in choose(pair().program, known, goal):
        few = math.prod(known.case(candidate.sizes).grid) < 2
        assert not (few and any(reached[0] == "trip" for reached in candidate.reaches))


@pytest.mark.usefixtures("at_root")
def test_a_second_cta_begins_where_other_loops_run_first() -> None:
    read = extract("examples/attention.py", "causal", allowed=Allowed("masks"))
    program = lower(read.program, scheduled(read.program, 2), machine())
    made = list(launches(program))
    assert [launch.ctas for launch in made].count(2) == 1
    unlike = next(launch for launch in made if launch.ctas == 2)
    first, second, *_ = trips_of(read.program, unlike.grid, unlike.scalars)
    assert [bool(trip) for trip in first] != [bool(trip) for trip in second]
    assert all(launch.ctas == 1 for launch in launches(pair()))


def test_an_index_of_a_fragment_that_is_not_there_is_reported() -> None:
    program = changed(pair(), Fence, lambda stmt: (Fill(99, Number(0.0, "f32")),))
    assert verify(program, given=launched(pair), enough=1)[0].rule in ("failed", "layout")


def test_vectors_along_other_tiles_do_not_spread() -> None:
    tile = Accumulator(64, 128)
    assert spreads(Along(tile, 1), tile, (0, -1)) and spreads(Along(tile, 0), tile, (-1, 0))
    assert not spreads(Along(Accumulator(128, 128), 1), tile, (0, -1))
    assert not spreads(Along(tile, 1), tile, (-1, 0))


def test_sizes_are_made_up_where_the_sidecar_names_none() -> None:
    program = pair()
    problem = derived_problem(program.program)
    assert set(problem.units) == {"K"} and problem.unit("K") == 16
    assert verify(program, problem) == ()
    assert verify(without(program, Get, which=1), problem, enough=1)


def test_where_sums_overflow_a_launch_has_small_floats() -> None:
    program = gemm()
    made = next(one for one in launches(program) if one.scale == 1 and max(one.scalars.values()) > 0)
    floats = {name: array for name, array in made.arrays.items() if array.dtype.kind == "f"}
    large = replace(
        made, arrays={**made.arrays, **{n: a * np.float32(2.0**80) for n, a in floats.items()}}, scale=2**80
    )
    with np.errstate(over="ignore", invalid="ignore"):
        launch, found = in_range(program, large)
    assert launch.scale == 1 and all(np.isfinite(array).all() for array in found.expected.values())
    assert in_range(program, made)[0] is made


def test_two_processes_find_what_one_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where all is right, no launch is run a second time."""
    right, calls = pair(), count()
    assert verify(right, processes=2) == ()
    monkeypatch.setattr(abstract_machine, "trials", lambda *given, **named: next(calls))
    assert verify(right, processes=2) == ()
    assert next(calls) == 0
    monkeypatch.undo()
    wrong = edit(right, next(place for place in places(right) if isinstance(place.stmt, Acquire)), instead())
    assert verify(wrong, processes=2) == verify(wrong) != ()
