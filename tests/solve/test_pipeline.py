"""The whole solve, on real kernels: optimal, accepted by the checker, the same every time, honest about its budget."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests import fused_programs
from tests.kernels import B200, H100, example
from tests.tile_programs import Programs
from twill.exc import BadPin, BudgetExhausted, Infeasible, NothingToSchedule, StrategyOption
from twill.graph.build import dependence_graph
from twill.graph.dependence import DependenceGraph
from twill.graph.extract import extract
from twill.machine.file import load_machine
from twill.schedule.checker.check import check
from twill.schedule.document import Schedule, ScheduledOp
from twill.solve import pipeline
from twill.solve.candidates import CandidateSearch
from twill.solve.job import Searching, SolveJob
from twill.solve.pipeline import Report, SolveOptions, main_region, schedulable, solve, solve_top

MACHINES = {"h100": H100, "b200": B200}
OBJECTIVES = ("ii", "copies", "crossing", "length", "registers")

# kernel, specialization, machine: exact costs, every cooperation
EXACT = (
    ("gemm", None, "h100"),
    ("gemm", None, "b200"),
    ("gemm_pointers", None, "h100"),
    ("layer_norm", None, "h100"),
    ("attention", "full", "h100"),
    ("attention", "causal", "h100"),
)


@cache
def solved(name: str, spec: str | None = None, machine: str = "h100", **options: Any) -> Schedule:
    """The schedule of an example, solved once."""
    return solve(example(name, spec), MACHINES[machine], SolveOptions(**options))


@cache
def solved_apart() -> Schedule:
    """Of causal attention with its two loops."""
    return solve(example("attention", "causal", "masks"), H100, SolveOptions())


def without_times(schedule: Schedule) -> str:
    """The document with every measured time set to zero."""

    def zero(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: 0.0 if k in ("seconds", "solve_seconds") else zero(v) for k, v in value.items()}
        return [zero(v) for v in value] if isinstance(value, list) else value

    return json.dumps(zero(json.loads(schedule.canonical())))


def groups_of(schedule: Schedule, loop: int, name: str, op: str) -> dict[int, int]:
    """Warp group by row block of the ops of that name whose operation ends in `op`."""
    return {o.block: o.warp_group for o in schedule.ops if o.loop == loop and o.name == name and o.op.split()[-1] == op}


# -- proven, and accepted -----------------------------------------------------------------------


@pytest.mark.parametrize(("name", "spec", "machine"), EXACT)
def test_every_loop_is_proven_optimal_and_the_checker_agrees(name: str, spec: str | None, machine: str) -> None:
    schedule = solved(name, spec, machine)
    assert check(schedule, MACHINES[machine]) == ()
    assert [loop.loop for loop in schedule.loops] == [r.id for r in schedulable(example(name, spec))]
    for loop in schedule.loops:
        assert loop.certificate.optimal
        assert loop.certificate.lower_bound == loop.ii == loop.objective.ii
        margin = any(step.question.startswith("margin") for step in loop.certificate.steps)
        assert loop.objective.proven == (OBJECTIVES[:3] if margin else OBJECTIVES)
    assert schedule.normalization is None


@pytest.mark.parametrize(("name", "spec", "machine"), EXACT)
def test_one_cooperation_is_chosen_and_none_promises_more(name: str, spec: str | None, machine: str) -> None:
    schedule = solved(name, spec, machine)
    (chosen,) = [c for c in schedule.candidates if c.verdict == "chosen"]
    assert chosen.cooperation == schedule.cooperation
    best = schedule.ii / schedule.cooperation.fuse
    for c in schedule.candidates:
        assert c.ii is None or c.ii / c.cooperation.fuse >= best


def test_gemm_keeps_the_tensor_core_busy_all_the_time() -> None:
    schedule = solved("gemm")
    graph = schedule.loops[0].graph
    busy = sum(u.cycles for i in graph.instructions for u in i.uses if u.unit == "tensor")
    assert schedule.ii == busy


def test_descriptors_and_pointers_have_one_key_and_one_interval() -> None:
    one, two = solved("gemm"), solved("gemm_pointers")
    assert one.key == two.key
    assert (one.ii, one.copies, one.length) == (two.ii, two.copies, two.length)


def test_the_key_tells_kernels_machines_and_options_apart() -> None:
    keys = [
        solved("gemm").key,
        solved("gemm", machine="b200").key,
        solved("layer_norm").key,
        solved("gemm", normalize=100).key,
        solved("gemm", blocks=2).key,
        solved("gemm", seed=1).key,
    ]
    assert len(set(keys)) == len(keys)


# -- what appears by itself ---------------------------------------------------------------------


def cycles(op: ScheduledOp, ii: int, count: int) -> set[int]:
    """The cycles modulo I from the start of an op."""
    return {(op.start + n) % ii for n in range(count)}


def test_attention_on_the_h100_is_two_consumers_in_ping_pong_and_a_load_group() -> None:
    schedule = solved("attention", "full")
    assert [g.role for g in schedule.warp_groups] == ["consumer 0", "consumer 1", "load"]
    for name, op in (("qk", "dot"), ("p", "exp2"), ("acc", "dot")):
        assert groups_of(schedule, 1, name, op) == {0: 0, 1: 1}  # a row block each
    assert groups_of(schedule, 1, "k", "load") == groups_of(schedule, 1, "v", "load") == {-1: 2}
    uses = {i.id: i.uses[0].cycles for i in schedule.loops[0].graph.instructions}
    tensor: dict[int, set[int]] = {0: set(), 1: set()}
    for o in schedule.ops:
        if o.unit == "tensor":
            tensor[o.warp_group] |= cycles(o, schedule.ii, uses[o.id])
    assert not tensor[0] & tensor[1]
    for o in schedule.ops:
        if o.op == "exp2":  # the tensor core works for one group while the other takes exponentials
            assert cycles(o, schedule.ii, o.hold) <= tensor[1 - o.warp_group]


def test_attention_on_the_b200_has_softmax_correction_mma_and_load_groups() -> None:
    schedule = solved("attention", "full", "b200", normalize=80, blocks=2)
    assert {g.role for g in schedule.warp_groups} == {"softmax 0", "softmax 1", "correction", "mma", "load"}
    assert schedule.certificate.optimal
    assert check(schedule, B200) == ()
    role = {g.id: g.role for g in schedule.warp_groups}
    assert {role[o.warp_group] for o in schedule.ops if o.unit == "tensor"} == {"mma"}
    assert {role[o.warp_group] for o in schedule.ops if o.op == "exp2"} == {"softmax 0", "softmax 1"}
    assert {role[g] for g in groups_of(schedule, 1, "acc", "mul").values()} == {"correction"}


def test_tiles_of_one_row_block_are_tried_in_pairs(at_root: object) -> None:
    """So few rows leave nothing to overlap with; fusing does not lower the bound on I, but what is reached."""
    graph = fused_programs.kernel("attention").graph
    schedule = solve(graph, MACHINES["h100"], SolveOptions(strategy="heuristic"))
    assert (schedule.cooperation.split, schedule.cooperation.fuse) == (1, 2)
    alone = solve(graph, MACHINES["h100"], SolveOptions(strategy="heuristic", fuse=False))
    assert schedule.ii < 2 * alone.ii


def test_instances_are_fused_along_columns_only_where_that_is_asked_for() -> None:
    """Two instances of linear attention have a lower bound on I each, but take long to be proven."""
    graph = example("linear_attention")
    alone = solve(graph, MACHINES["h100"], SolveOptions(strategy="heuristic"))
    assert alone.cooperation.fuse == 1
    assert {c.verdict for c in alone.candidates if c.cooperation.fuse > 1} == {
        "not tried: fused along columns only where the number of row blocks is asked for"
    }
    assert solve(graph, MACHINES["h100"], SolveOptions(strategy="heuristic", blocks=2)).cooperation.fuse == 2


def test_normalization_is_told_with_its_distortion() -> None:
    schedule = solved("attention", "full", "b200", normalize=80, blocks=2)
    assert schedule.normalization is not None
    assert schedule.normalization.bound == 80
    assert schedule.normalization.cycles_per_unit > 1
    assert schedule.normalization.worst_error > 0
    assert schedule.loops[0].graph.normalization == schedule.normalization


def test_values_that_pass_from_loop_to_loop_stay_in_their_warp_group() -> None:
    schedule = solved_apart()
    unmasked, masked = schedule.loops
    assert schedule.ii == unmasked.ii  # the loop whose trip count grows is the main one
    for name, op in (("acc", "dot"), ("l_i", "add"), ("m_ij", "max")):
        first, second = (groups_of(schedule, loop.loop, name, op) for loop in (unmasked, masked))
        assert first == second
        assert set(first) == {0, 1}


def test_loops_share_warp_groups_and_budgets() -> None:
    schedule = solved_apart()
    assert [g.role for g in schedule.warp_groups] == ["consumer 0", "consumer 1", "load"]
    for loop in schedule.loops:
        used = {o.warp_group for o in schedule.ops if o.loop == loop.loop}
        assert used <= {g.id for g in schedule.warp_groups}
        assert loop.objective.registers <= sum(g.registers for g in schedule.warp_groups)
        assert loop.graph.cooperation == schedule.cooperation
    assert sum(g.registers * g.threads for g in schedule.warp_groups) <= H100.register_file.registers.value


def test_a_third_loop_has_the_budgets_of_both_before_it_where_the_register_file_has_no_room_otherwise(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each loop fits beside the main one; the most of all of them may not."""
    slots = [SimpleNamespace(context=SimpleNamespace(threads=128))] * 3

    def solved(*budgets: int) -> Any:
        given = dict(enumerate(budgets))
        return SimpleNamespace(budgets=lambda: given, assignment=SimpleNamespace(slots=slots))

    answers, asked = [solved(152, 152, 208), solved(152, 240, 120)], list[dict[int, int]]()

    def follow(job: Any, region: Any, before: Any, floors: Mapping[int, int]) -> Any:
        asked.append(dict(floors))
        return answers.pop(0)

    monkeypatch.setattr(pipeline, "_follow_with", follow)
    before = [solved(152, 152, 24), solved(152, 240, 24)]
    job = SimpleNamespace(machine=H100)
    assert pipeline._follow(job, None, before).budgets() == {0: 152, 1: 240, 2: 120}  # type: ignore[arg-type]
    assert asked == [{0: 152, 1: 152, 2: 24}, {0: 152, 1: 240, 2: 24}]


def test_three_loops_of_loads_stores_and_sums_solve() -> None:
    schedule = solved("layer_norm")
    assert len(schedule.loops) == 3
    assert all("dot" not in o.op for o in schedule.ops)
    assert {o.op for o in schedule.ops} >= {"tma load", "tma store"}


# -- small kernels ------------------------------------------------------------------------------


def copying(trips: int) -> DependenceGraph:
    """A kernel that only loads and stores: in a loop, or straight on (0 trips)."""
    p = Programs()
    if trips:
        with p.loop(p.constant(trips), ()):
            p.store("y", p.load("x", (64, 64)))
    else:
        p.store("y", p.load("x", (64, 64)))
    return dependence_graph(p.done())


@pytest.mark.parametrize("trips", [0, 7])
@pytest.mark.parametrize("machine", MACHINES)
def test_a_kernel_of_loads_and_stores_solves(trips: int, machine: str) -> None:
    graph = copying(trips)
    schedule = solve(graph, MACHINES[machine])
    assert [o.op for o in schedule.ops] == ["tma load", "tma store"]
    assert schedule.certificate.optimal
    assert check(schedule, MACHINES[machine]) == ()
    assert schedule.loops[0].trip == ("7" if trips else "program instances")
    busy = sum(u.cycles for i in schedule.loops[0].graph.instructions for u in i.uses if u.unit == "tma")
    assert schedule.ii >= busy


def test_loops_that_need_different_kinds_of_warp_groups_share_them() -> None:
    p = Programs()
    x, grows = p.constant(1.0, (64, 64), "f32"), p.argument("n")
    with p.loop(grows, [x]) as work:  # computes only
        work.yields = [p.op("exp2", work.carried[0], name="x")]
    with p.loop(p.constant(4), work.results) as last:  # loads too
        last.yields = [p.op("add", last.carried[0], p.load("A", (64, 64), "f32"), name="x")]
    p.store("y", last.results[0])
    schedule = solve(dependence_graph(p.done()), H100)
    assert check(schedule, H100) == ()
    assert [(g.role, g.context) for g in schedule.warp_groups] == [("compute", "compute"), ("load", "issue")]
    assert {o.warp_group for o in schedule.ops if o.name == "x"} == {0}


def test_the_main_loop_is_the_one_that_grows_with_the_problem() -> None:
    causal = example("attention", "causal", "masks")
    loops = [r for r in causal.regions if r.kind == "loop"]
    assert main_region(causal).id == loops[0].id
    assert loops[1].trip is not None
    assert loops[1].trip.constant is not None
    work_most = max(
        (r for r in example("layer_norm").regions if r.kind == "loop"),
        key=lambda r: sum(c.elements for n in r.nodes for c in n.counts),
    )
    assert main_region(example("layer_norm")).id == work_most.id


def test_solve_fail_for_a_kernel_without_tile_instructions() -> None:
    empty = copying(0).model_copy(update={"regions": ()})
    with pytest.raises(NothingToSchedule, match="has no tile instruction"):
        solve(empty, H100)


# -- the same every time ------------------------------------------------------------------------


@pytest.mark.parametrize(("name", "machine"), [("gemm", "h100"), ("gemm", "b200"), ("layer_norm", "h100")])
def test_the_same_input_gives_the_same_bytes_apart_from_times(name: str, machine: str) -> None:
    again = solve(example(name), MACHINES[machine])
    assert without_times(again) == without_times(solved(name, None, machine))


def test_progress_closes_in_and_names_its_loop_and_cooperation() -> None:
    seen: list[Report] = []
    schedule = solve(example("gemm"), H100, SolveOptions(blocks=2), seen.append)
    assert seen
    assert {r.loop for r in seen} == {schedule.loops[0].loop}
    assert schedule.cooperation in {r.cooperation for r in seen}
    for r in seen:
        assert r.progress.upper is None or r.progress.lower <= r.progress.upper


# -- what a user asks for -----------------------------------------------------------------------


def test_pins_are_respected_and_recorded() -> None:
    free = solved("gemm", blocks=2)
    assert len(set(groups_of(free, 0, "acc", "dot").values())) == 1
    pins = ("acc.0!~acc.1", "b<a")
    schedule = solved("gemm", blocks=2, pins=pins)
    assert schedule.pins == pins
    assert schedule.certificate.optimal
    assert check(schedule, H100) == ()
    (left, right) = (next(o for o in schedule.ops if (o.name, o.block) == ("acc", b)) for b in (0, 1))
    assert left.warp_group != right.warp_group
    (b,) = [o for o in schedule.ops if o.name == "b"]
    assert all(b.start < o.start for o in schedule.ops if o.name == "a")
    assert schedule.key != free.key


def test_a_pin_on_a_numbered_warp_group_is_respected() -> None:
    schedule = solved("gemm", blocks=2, pins=("acc@group=1",))
    assert set(groups_of(schedule, 0, "acc", "dot").values()) == {0}  # used groups are numbered from 0 in the document
    assert check(schedule, H100) == ()


def test_solve_fail_for_an_impossible_pin() -> None:
    with pytest.raises(
        Infeasible, match=r"gemm\.py:33: gemm has no schedule on h100: one row block: .*pin acc<b"
    ) as error:
        solve(example("gemm"), H100, SolveOptions(pins=("acc<b",)))
    assert error.value.exit_code == 3
    assert "fewer pins" in error.value.hint


def test_solve_fail_for_a_pin_that_names_nothing() -> None:
    with pytest.raises(BadPin) as error:
        solve(example("gemm"), H100, SolveOptions(pins=("accumulator@stage=0",)))
    assert error.value.exit_code == 2
    assert error.value.hint == "one of a, acc, b"


@pytest.mark.parametrize("below", [1, 100])
def test_solve_fail_for_an_interval_below_the_bound(below: int) -> None:
    ii = solved("gemm").ii - below
    with pytest.raises(
        Infeasible, match=f"no schedule on h100 with I = {ii}: 2 row blocks.* acc .*tensor unit"
    ) as error:
        solve(example("gemm"), H100, SolveOptions(ii=ii, blocks=2))
    assert error.value.exit_code == 3


def test_the_optimal_interval_may_be_asked_for() -> None:
    best = solved("gemm", blocks=2)
    asked = solved("gemm", blocks=2, ii=best.ii)
    assert asked.objective == best.objective
    assert asked.certificate.optimal


def test_solve_fail_for_a_number_of_row_blocks_that_no_cooperation_has() -> None:
    with pytest.raises(Infeasible, match="no cooperation of gemm has 5 row blocks") as computed:
        solve(example("gemm"), H100, SolveOptions(blocks=5))
    assert computed.value.hint.startswith("--blocks 1, 2; program instances are not fused here")
    with pytest.raises(Infeasible, match="no cooperation of attention has 5 row blocks") as fusable:
        solve(example("attention", "full"), H100, SolveOptions(blocks=5))
    assert fusable.value.hint == "--blocks 1, 2, or with fused program instances 2, 3, 4, 6"


# -- budgets ------------------------------------------------------------------------------------


@pytest.mark.parametrize("options", [{"budget": 0.01}, {"resource_limit": 100}])
def test_a_budget_that_runs_out_gives_a_bound_and_never_an_optimum(options: dict[str, Any]) -> None:
    with pytest.raises(BudgetExhausted) as error:
        solve(example("attention", "full"), H100, SolveOptions(**options))
    optimum = solved("attention", "full")
    assert error.value.exit_code == 4
    assert 1 <= error.value.lower_bound <= optimum.ii
    left = error.value.schedule
    assert isinstance(left, Schedule)
    assert check(left, H100) == ()
    assert not left.certificate.optimal
    assert left.objective.proven != OBJECTIVES
    assert left.certificate.lower_bound <= left.ii
    assert not any(s.verdict == "infeasible" and s.ii <= optimum.ii <= s.ii_to and not s.copies
                   for s in left.certificate.steps if s.question == "feasible")  # fmt: skip


def test_a_budget_is_recorded() -> None:
    schedule = solved("gemm", budget=500.0, resource_limit=500_000_000, seed=3)
    certificate = schedule.certificate
    assert (certificate.budget_seconds, certificate.resource_limit, certificate.seed) == (500.0, 500_000_000, 3)


@pytest.mark.parametrize("pins", [("acc.1@stage=3", "b<a"), ("a.1@start=0",)])
def test_pinned_times_do_not_make_a_feasible_kernel_infeasible(pins: tuple[str, ...]) -> None:
    schedule = solved("gemm", pins=pins, blocks=2)
    assert schedule.ii == 512
    assert check(schedule, H100) == ()


def test_an_interval_above_the_optimum_may_be_asked_for_and_claims_no_optimality() -> None:
    schedule = solved("gemm", ii=600, blocks=2)
    assert schedule.ii == 600 and not schedule.certificate.optimal
    assert schedule.certificate.lower_bound <= 512


def test_the_best_few_are_as_good_as_the_best_and_different() -> None:
    graph, machine = example("gemm", None), H100
    top = solve_top(graph, machine, 3)
    first = solved("gemm")
    assert [s.objective for s in top.schedules] == [first.objective] * len(top.schedules)
    assert top.schedules[0].ops == first.ops
    assert len({s.ops for s in top.schedules}) == len(top.schedules)
    assert top.all == (len(top.schedules) < 3)
    with pytest.raises(StrategyOption):
        solve_top(graph, machine, 2, SolveOptions(strategy="heuristic"))


def test_the_least_i_of_a_product_in_parts_is_found_and_proven_at_once() -> None:
    """Six products of two row blocks, which keep the tensor core busy all the time. Without a question about the 33
    instructions: of these, two minutes prove nothing."""
    graph = extract("tests/part_kernels.py", "tf32x3")[1]
    schedule = solve(graph, H100, SolveOptions(blocks=2, fuse=False, budget=120.0))
    assert (schedule.ii, schedule.certificate.optimal, schedule.objective.proven) == (2 * 6 * 128, True, ("ii",))
    assert schedule.ii == schedule.certificate.bounds.best
    assert [step.solver for step in schedule.certificate.steps][-1] == "parts of products together"
    assert check(schedule, H100) == ()


def test_row_blocks_that_read_one_another_s_tiles_are_scheduled_to_the_optimum() -> None:
    """Whose crossings took longer than the budget while the relaxation was asked only where I had been hard."""
    found = solve(example("attention_backward", "full"), load_machine("h200"), SolveOptions(budget=60.0, fuse=False))
    assert found.cooperation.columns and found.certificate.optimal


@pytest.mark.parametrize(("state", "left"), [("open", [True]), ("found", []), ("infeasible", [False])])
def test_row_blocks_go_without_shares_only_where_no_schedule_has_them(state: str, left: list[bool]) -> None:
    graph = example("attention_backward", "full")
    search = CandidateSearch(SolveJob(graph, H100, SolveOptions(blocks=2), None), main_region(graph))
    search.searches = [
        cast(
            Searching,
            SimpleNamespace(graph=one, state=state if one.cooperation.columns else "open", best=None, lower=1),
        )
        for one in search.graphs()
    ]
    assert len(search.searches) == 2
    assert [one.graph.cooperation.columns for one in search._contenders()] == left
