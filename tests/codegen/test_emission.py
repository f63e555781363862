"""Promises of emission: a build short of registers is solved again with room; no foreign schedule is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from threading import Event
from time import sleep
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.golden_schedules import Example, kernel, lowered, machine, schedule
from twill import exc
from twill.codegen import emission, emit
from twill.codegen.compile.facts import MOST_SPILLED, KernelFacts, Remark
from twill.codegen.emission import emit_scheduled, emit_solved, extract, with_slow_builds
from twill.codegen.lower.candidates import Attempt, LoweringCandidate
from twill.codegen.print.cuda import compiled
from twill.codegen.room import PatientSolver, Solver, missing, roomier, slack, solve_with_room
from twill.graph.dependence import DependenceGraph
from twill.graph.extract import extract as graph_of
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.schedule.checker.check import check_or_raise
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import in_program_order, solve
from twill.solve.without_overlap import shares

pytestmark = pytest.mark.usefixtures("at_root")

GEMM = Example("examples/gemm.py", "bf16")


def facts(spilled: int = 0) -> KernelFacts:
    return KernelFacts("k", 168, 0, spilled, spilled, 0)


EMITTED: Any = object()


def refusal(cause: str, message: str = "", spilled: int = 0) -> exc.BuildRejected:
    return exc.BuildRejected(cause, message, facts(spilled), file="k.py", line=3)


def overhead(on: Machine) -> float:
    return on.context("compute").overhead.value


@dataclass(frozen=True)
class Played:
    """What stands for a program. registers: of each of its two warp groups, where its CTA has an SM to itself."""

    text: str
    registers: int = 240
    ctas: int = 1

    @property
    def groups(self) -> tuple[Any, ...]:
        return (SimpleNamespace(registers=self.registers),) * 2


class Builds:
    """Plays lowering, where each schedule makes a program of its own, and building, which refuses until the endings are
    used up."""

    def __init__(self, *endings: Exception) -> None:
        self.endings = list(endings)
        self.lean = False
        self.schedules: list[Schedule] = []
        self.asked: list[tuple[object, ...]] = []

    def lowered(self, wired: object, given: Schedule, on: Machine, candidate: LoweringCandidate, *_: object) -> Any:
        text = f"the program of strategy {given.strategy}, I = {given.ii}, with {candidate.room} registers free"
        return Played(text, 0 if self.lean and not candidate.budgets else 240)

    def built(
        self, program: object, spec: object, given: Schedule, *more: object, last_resort: bool = False, made: Any = None
    ) -> Any:
        self.schedules.append(given)
        self.asked.append((program, last_resort))
        if self.endings:
            raise self.endings.pop(0)
        return EMITTED


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Builds]:
    def put(*endings: Exception) -> Builds:
        builds = Builds(*endings)
        monkeypatch.setattr(emit, "lower_candidate", builds.lowered)
        monkeypatch.setattr(emit, "_emitted", builds.built)
        return builds

    return put


def test_a_build_that_spills_is_solved_again_with_that_much_room(play: Callable[..., Builds]) -> None:
    builds = play(refusal("spill", spilled=100), refusal("serialized", "due to insufficient register resources"))
    asked: list[float] = []

    def solver(graph: DependenceGraph, on: Machine) -> Schedule:
        asked.append(overhead(on) - overhead(machine()))
        return schedule(GEMM).model_copy(update={"machine_digest": on.digest()})

    listed: list[str] = []
    assert emit_solved(kernel(GEMM), machine(), solver, listed.append) is EMITTED
    room = slack(schedule(GEMM), machine())
    assert room == 88  # one group of 152 registers, of which it had 240 in the build
    assert asked == [0, 88 + 32, 2 * 88 + 32 + 16]  # 25 registers were spilled; then two granules more
    assert [s.machine_digest for s in builds.schedules] == [machine().digest()] * 3
    assert any("solving again with 224 registers" in line for line in listed)


def test_where_the_registers_of_a_launch_are_too_few_they_are_moved_before_anything_else_is_tried(
    play: Callable[..., Builds],
) -> None:
    builds = play(refusal("spill", spilled=100))
    builds.lean = True
    solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
    assert emit_solved(kernel(GEMM), machine(), solved) is EMITTED
    programs = [cast(Played, program) for program, _ in builds.asked]
    assert [one.registers for one in programs] == [0, 240] and len({one.text for one in programs}) == 1


def test_a_refusal_with_registers_moved_is_what_other_schedules_are_looked_for_with(
    play: Callable[..., Builds],
) -> None:
    builds = play(refusal("spill", "the first", 100), refusal("spill", "the second", 40))
    builds.lean = True
    said: list[str] = []
    solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
    assert emit_solved(kernel(GEMM), machine(), solved, said.append) is EMITTED
    assert any("the second: solving again" in line for line in said)


@pytest.mark.parametrize("cause", ["spill", "serialized", "wait", "budget"])
def test_whatever_the_compiler_refuses_is_solved_again(play: Callable[..., Builds], cause: str) -> None:
    builds = play(refusal(cause))
    solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
    assert emit_solved(kernel(GEMM), machine(), solved) is EMITTED
    assert len(builds.schedules) == 2


def test_schedules_with_more_room_are_candidates_of_the_same_search(play: Callable[..., Builds]) -> None:
    play(refusal("spill", "it spills", 100))
    seen: list[Attempt] = []
    assert emit_solved(kernel(GEMM), machine(), lambda graph, on: schedule(GEMM), record=seen.append) is EMITTED
    rooms = [(one.candidate.room, one.verdict.split(":")[0]) for one in seen if one.verdict[:3] != "not"]
    assert rooms == [(0, "refused"), (0, "refused"), (120, "taken")]
    taken = next(one for one in seen if one.verdict == "taken")
    assert "120 registers of a thread kept free" in str(taken)


def test_the_last_refusal_is_the_answer(play: Callable[..., Builds]) -> None:
    play(*[refusal("spill", f"spill {i}") for i in range(9)])
    with pytest.raises(exc.BuildRejected, match="spill 3"):
        emit_solved(kernel(GEMM), machine(), lambda graph, on: schedule(GEMM))


WAITS = (Remark("C7512", compiled.SERIALIZED),)
MUCH = 2 * MOST_SPILLED


@pytest.mark.parametrize(
    ("causes", "taken", "said"),
    [
        ([("spill", 400), ("budget", 0), ("spill", 36), ("spill", MUCH)], 2, "gemm spills: 36 bytes a thread"),
        ([("spill", MUCH), ("serialized", 0), ("wait", 64), ("serialized", MUCH)], 1, "waits behind its products"),
        ([("spill", MUCH), ("budget", 0), ("serialized", MUCH), *[("spill", MUCH)] * 2], None, ""),
    ],
)
def test_where_nothing_else_is_left_what_is_least_slow_is_taken_with_a_note(
    causes: list[tuple[str, int]], taken: int | None, said: str, play: Callable[..., Builds],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    """What spills least, else what the compiler makes wait for its products. Nobody asks for it who has something else
    to try; and it is not taken if it spills without end."""
    builds = play(*(refusal(cause, f"{n} bytes", n) for cause, n in causes))
    slow = facts(36) if "spills" in said else replace(facts(), remarks=WAITS)
    made = SimpleNamespace(facts=slow, program=SimpleNamespace(program=SimpleNamespace(kernel="gemm")))
    monkeypatch.setattr(f"{__name__}.EMITTED", made)
    solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
    notes: list[str] = []
    if taken is None:
        with pytest.raises(exc.BuildRejected, match="bytes"):
            with_slow_builds(lambda: emit_solved(kernel(GEMM), machine(), solved), notes.append)
        assert not notes
        return
    assert with_slow_builds(lambda: emit_solved(kernel(GEMM), machine(), solved), notes.append) is cast(Any, made)
    assert builds.asked[-1] == (builds.asked[taken][0], True) and said in notes[0]


def test_what_another_candidate_has_not_is_no_reason_against_a_build_that_is_left(
    play: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch
) -> None:
    builds = play(refusal("serialized", "waits"), exc.UnsupportedInKernel("no accumulator"))
    made = SimpleNamespace(
        facts=replace(facts(), remarks=WAITS), program=SimpleNamespace(program=SimpleNamespace(kernel="gemm"))
    )
    monkeypatch.setattr(f"{__name__}.EMITTED", made)
    solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
    assert with_slow_builds(lambda: emit_solved(kernel(GEMM), machine(), solved)) is cast(Any, made)
    assert builds.asked[-1] == (builds.asked[0][0], True)
    play(*[exc.UnsupportedInKernel("no accumulator")] * 2)
    with pytest.raises(exc.UnsupportedInKernel):
        with_slow_builds(lambda: emit_solved(kernel(GEMM), machine(), solved))


def test_tiles_that_are_too_many_for_any_budget_are_built_where_nothing_else_is_left(
    play: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody knows before what they spill: those of the program's order come first. If it is too much, the refusal is
    the answer."""
    crowded = [exc.BuildRejected("spill", f"tiles {i}", None) for i in range(9)]
    builds = play(*crowded[:5])
    made = SimpleNamespace(facts=facts(36), program=SimpleNamespace(program=SimpleNamespace(kernel="gemm")))
    monkeypatch.setattr(f"{__name__}.EMITTED", made)
    solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
    assert with_slow_builds(lambda: emit_solved(kernel(GEMM), machine(), solved)) is cast(Any, made)
    assert builds.asked[-1] == (builds.asked[4][0], True)
    play(*crowded)
    with pytest.raises(exc.BuildRejected, match="tiles 4"):
        with_slow_builds(lambda: emit_solved(kernel(GEMM), machine(), solved))


def test_after_its_time_no_other_schedule_is_looked_for_and_the_last_refusal_is_the_answer(
    play: Callable[..., Builds],
) -> None:
    """Builds that spill take longer than solves: a budget that only solves keep is none."""
    builds = play(*[refusal("spill", f"spill {i}") for i in range(9)])
    solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
    with pytest.raises(exc.BuildRejected, match="spill 1"):
        emit_solved(kernel(GEMM), machine(), PatientSolver(solved, 40, lambda: 30.0 * len(builds.schedules)))
    assert len(builds.schedules) == 2


def test_a_few_spilled_registers_are_little_beside_a_loop_and_where_registers_hold_no_results() -> None:
    hopper, blackwell = machine(), load_machine("b200")
    program = lowered(GEMM)
    assert emit.spills_little(program, blackwell)
    assert not emit.spills_little(program, hopper)
    assert not emit.spills_little(replace(program, groups=program.groups[:0]), blackwell)


def test_a_build_that_is_refused_ends_the_abstract_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """And is the refusal, whatever the machine says."""
    asked = Event()

    def refuse(*given: object, last_resort: bool, made: object) -> None:
        asked.wait(60)
        raise refusal("budget", "too many")

    def verified(*given: object, over: Callable[[], bool], **named: object) -> None:
        asked.set()
        while not over():
            sleep(0.001)
        raise exc.BudgetExhausted("the time ended")

    monkeypatch.setattr(emit, "build_kernel", refuse)
    monkeypatch.setattr(emit, "verify", verified)
    with pytest.raises(exc.BuildRejected, match="too many"):
        emit_scheduled(kernel(GEMM), machine(), schedule(GEMM))


def test_fail_an_emission_whose_time_ends_on_the_abstract_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes on by a second whenever it is asked: in front of every launch."""
    monkeypatch.setattr(emit, "build_kernel", lambda *given, last_resort, made: EMITTED)
    monkeypatch.setattr(emit, "refuse_early", lambda program, built: None)

    def emitted(seconds: float) -> int:
        asked = count()
        solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
        assert emit_solved(kernel(GEMM), machine(), PatientSolver(solved, seconds, lambda: next(asked))) is EMITTED
        return next(asked)

    emitted(1000)
    most = emitted(1000)  # launches and their references are remembered now
    for seconds in (2, most - 3):
        with pytest.raises(exc.BudgetExhausted, match="ended while it was run on the abstract machine") as ended:
            emitted(seconds)
        assert ended.value.exit_code == 4


def test_fail_an_emission_whose_compiler_works_on_when_it_is_late(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was begun in time may end a little later, and no more: the compiler takes minutes for some kernels."""
    done, now = Event(), [0.0]

    def takes(seconds: float) -> Callable[..., tuple[()]]:
        def work(*given: object, **named: object) -> tuple[()]:
            now[0] += seconds
            return ()

        return work

    def build(*given: object, last_resort: bool, made: object) -> object:
        done.wait(60)
        return EMITTED

    def emitted() -> object:
        solved = lambda graph, on: schedule(GEMM).model_copy(update={"machine_digest": on.digest()})  # noqa: E731
        return emit_solved(kernel(GEMM), machine(), PatientSolver(solved, 40, lambda: now[0]))

    monkeypatch.setattr(emit, "build_kernel", build)
    monkeypatch.setattr(emit, "refuse_early", lambda program, built: None)
    monkeypatch.setattr(emit, "refuse_misordered", lambda program, built: None)
    monkeypatch.setattr(emit, "verify", takes(50))
    monkeypatch.setattr(emit, "wait", takes(10))
    try:
        with pytest.raises(exc.BudgetExhausted, match="the compiler has not ended"):
            emitted()
        assert now == [60]
    finally:
        done.set()
    now[:] = [0.0]
    assert emitted() is EMITTED


def answers_once() -> Solver:
    """A solver that has a schedule, and none with more room."""
    answers = [schedule(GEMM)]

    def solver(graph: DependenceGraph, on: Machine) -> Schedule:
        if not answers:
            raise exc.Infeasible("no")
        return answers.pop()

    return solver


@pytest.mark.parametrize("cause", ["spill", "serialized", "wait"])
def test_iterations_do_not_overlap_where_no_schedule_has_more_room(play: Callable[..., Builds], cause: str) -> None:
    """Tiles of one iteration take fewer registers than those of several: in the order of the solver's schedule, then in
    that of the program."""
    builds = play(refusal(cause))
    assert emit_solved(kernel(GEMM), machine(), answers_once()) is EMITTED
    assert [(one.strategy, one.ii == one.length) for one in builds.schedules] == [("joint", False), ("joint", True)]
    builds = play(refusal(cause), refusal(cause))
    assert emit_solved(kernel(GEMM), machine(), answers_once()) is EMITTED
    assert [one.strategy for one in builds.schedules] == ["joint", "joint", "none"]


@pytest.mark.parametrize(("less", "taken"), [(1, "none"), (0, "joint"), (-1, "joint")])
def test_of_two_orders_of_an_iteration_the_shorter_one_is_taken(
    play: Callable[..., Builds], monkeypatch: pytest.MonkeyPatch, less: int, taken: str
) -> None:
    ordered = in_program_order(kernel(GEMM).graph, machine(), SolveOptions(fuse=False))
    assert ordered is not None
    played = ordered.model_copy(update={"ii": schedule(GEMM).length - less})
    monkeypatch.setattr(emission, "in_program_order", lambda graph, on, asked: played)
    builds = play(refusal("serialized"))
    assert emit_solved(kernel(GEMM), machine(), answers_once()) is EMITTED
    assert builds.schedules[-1].strategy == taken


@pytest.mark.parametrize("fixed", [False, True])
def test_row_blocks_that_exchange_tiles_have_an_order_of_their_own(play: Callable[..., Builds], fixed: bool) -> None:
    """The first of them issues the MMA that joins them first. It is tried before the solver's schedule, but where
    somebody asked for that one."""
    backward = kernel(Example("examples/attention_backward.py", "full"))
    builds = play(refusal("spill"))
    answers = [solve(backward.graph, machine(), SolveOptions(strategy="heuristic"))]
    overlapping = answers[0]
    again = lambda graph, on: answers.pop()  # noqa: E731
    if fixed:
        with pytest.raises(IndexError):  # the next thing is a schedule with more room
            emit_solved(backward, machine(), again, fixed=True)
        assert builds.schedules == [overlapping]
        return
    assert emit_solved(backward, machine(), again) is EMITTED
    taken, second = builds.schedules
    assert shares(overlapping) and taken.copies == 1 < overlapping.copies and second == overlapping
    names = {one.id: one.name for one in taken.loops[0].graph.instructions if one.op == "dot" and one.block == 0}
    issued = [names[op.id] for op in sorted(taken.ops, key=lambda op: op.start) if op.id in names]
    assert issued == ["qkT", "dpT", "dq", "dv", "dk"]


def test_the_order_of_the_program_is_no_schedule_with_room_while_there_is_one_of_the_solver(
    play: Callable[..., Builds],
) -> None:
    """That is what a solve gives whose time ends."""
    builds = play(refusal("serialized"))
    answers = [in_program_order(kernel(GEMM).graph, machine(), SolveOptions(fuse=False)), schedule(GEMM)]
    assert emit_solved(kernel(GEMM), machine(), lambda graph, on: cast(Schedule, answers.pop())) is EMITTED
    assert [(one.strategy, one.ii == one.length) for one in builds.schedules] == [("joint", False), ("joint", True)]


@pytest.mark.parametrize(
    "refused",
    [refusal("budget"), exc.SharedMemoryFull("rings", needed=9, capacity=8), exc.UnsupportedBySchedule("rows")],
)
def test_what_no_schedule_of_the_solver_can_be_is_built_in_the_order_of_the_program(
    play: Callable[..., Builds], refused: exc.TwillError
) -> None:
    """Rings of one slot, and tiles of one iteration, take less than what a solver overlaps."""
    builds = play(refused)
    assert emit_solved(kernel(GEMM), machine(), answers_once()) is EMITTED
    assert [one.strategy for one in builds.schedules] == ["joint", "none"]


def test_no_schedule_with_more_room_leaves_the_compilers_words(play: Callable[..., Builds]) -> None:
    play(*[refusal("budget", "it spills")] * 2)
    answers: list[Schedule | exc.TwillError] = [schedule(GEMM), exc.Infeasible("no")]

    def solver(graph: DependenceGraph, on: Machine) -> Schedule:
        answer = answers.pop(0)
        if isinstance(answer, exc.TwillError):
            raise answer
        return answer

    seen: list[Attempt] = []
    with pytest.raises(exc.BuildRejected, match="it spills"):
        emit_solved(kernel(GEMM), machine(), solver, record=seen.append)
    assert (104, "refused: no") in [(one.candidate.room, one.verdict) for one in seen]
    play(*[refusal("budget", "it spills")] * 2)
    answers += [schedule(GEMM), exc.BudgetExhausted("no schedule in time")]
    with pytest.raises(exc.BuildRejected, match="it spills"):
        emit_solved(kernel(GEMM), machine(), solver)
    with pytest.raises(exc.Infeasible):
        answers.append(exc.Infeasible("no"))
        emit_solved(kernel(GEMM), machine(), solver)


def test_a_schedule_with_room_is_valid_on_the_machine_as_it_is() -> None:
    found = solve_with_room(kernel(GEMM).graph, machine(), 32, lambda g, on: solve(g, on, SolveOptions()))
    check_or_raise(found, machine())
    plain = schedule(GEMM)
    assert max(g.registers for g in found.warp_groups) >= max(g.registers for g in plain.warp_groups) + 32
    assert found.key != plain.key


def test_room_is_made_only_where_multiplies_are() -> None:
    more = roomier(machine(), 16)
    assert overhead(more) == overhead(machine()) + 16
    assert more.context("issue") == machine().context("issue")
    assert "16 more after a build" in more.context("compute").overhead.source


def test_what_was_spilled_is_kept_free() -> None:
    assert [missing(refusal("spill", spilled=n), schedule(GEMM), machine()) for n in (4, 100, 4000)] == [16, 32, 64]
    assert missing(refusal("wait"), schedule(GEMM), machine()) == 16


def test_a_schedule_of_another_kernel_or_machine_is_refused(kernel_file: Callable[..., str]) -> None:
    ours = schedule(GEMM)
    dual = extract("examples/dual_gemm.py")
    for read, on, words in (
        (dual, machine(), "for kernel gemm, not dual_gemm"),
        (kernel(GEMM), load_machine("h200"), "for machine h100, not h200"),
        (kernel(GEMM), roomier(machine(), 8), "for machine h100, not h100 as it is now"),
    ):
        with pytest.raises(exc.ScheduleMismatch, match=words):
            emit_scheduled(read, on, ours)


def test_a_schedule_of_the_kernel_before_it_was_edited_is_refused(at_root: object) -> None:
    smaller = extract("examples/gemm.py", "bf16", const=("BLOCK_M=64",), sig=(
        "a_desc=tensordesc<bf16[64, 64]>", "c_desc=tensordesc<bf16[64, 128]>"))  # fmt: skip
    with pytest.raises(exc.ScheduleMismatch, match="another version of this kernel"):
        emit_scheduled(smaller, machine(), schedule(GEMM))


def test_a_broken_schedule_is_refused() -> None:
    broken = schedule(GEMM).model_copy(update={"ii": 1})
    with pytest.raises(exc.InvalidSchedule):
        emit_scheduled(kernel(GEMM), machine(), broken)


@pytest.mark.parametrize(("file", "spec"), [("examples/attention.py", "causal"), ("examples/gemm.py", "bf16")])
def test_the_graph_that_is_solved_is_the_graph_that_is_lowered(file: str, spec: str) -> None:
    """Maxima that move only when they must change no node: `twill solve` and `twill emit` have one graph."""
    read = kernel(Example(file, spec))
    assert read.graph is read.wired.graph and read.program is read.wired.program
    assert read.graph == graph_of(file, spec)[1]


def test_tiles_beyond_the_registers_of_a_warp_group_refuse_a_candidate_and_are_no_mistake() -> None:
    """What the compiler would spill is one way to lower a schedule that has no room; another one may have."""
    program = lowered(GEMM)
    emit.refuse_crowded(program, machine())
    squeezed = replace(program, groups=tuple(replace(group, registers=24) for group in program.groups))
    with pytest.raises(exc.BuildRejected, match="registers are alive at once in a warp group of 24") as refused:
        emit.refuse_crowded(squeezed, machine())
    assert refused.value.exit_code == 2 and refused.value.line
