"""Promises of the share of exponentials that a polynomial makes: the least that does not cost I, in few questions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import pytest

from tests import blackwell_attention
from tests.kernels import B200, H100, costed_example, example
from twill.forked import ForkedAnswer
from twill.graph.dependence import DependenceGraph, Region
from twill.machine.description import Machine
from twill.schedule.document import CooperationCandidate, Schedule
from twill.schedule.options import SolveOptions
from twill.smt import warm
from twill.solve import split
from twill.solve.assemble import Solved
from twill.solve.job import SolveJob
from twill.solve.pipeline import solve
from twill.zlp.bounds import lower_bounds
from twill.zlp.heuristic import heuristic_schedule


@dataclass(frozen=True)
class Cooperation:
    fuse: int = 1


@dataclass(frozen=True)
class Graph:
    cooperation: Cooperation = Cooperation()


@dataclass(frozen=True)
class Found:
    """What the questions need of a schedule."""

    outcome_ii: int
    share: int
    graph: Graph = Graph()


@dataclass
class Searched:
    """A search of cooperations that needs a share of `least` for I = 100."""

    job: SolveJob
    region: Region
    width: int
    share: int
    at_most: float = 0
    briefly: bool = False
    least: ClassVar[int] = 0
    asked: ClassVar[list[int]] = []
    open_below: None = None

    def better(self) -> tuple[Found, list[CooperationCandidate]] | None:
        self.asked.append(self.share)
        return (Found(100, self.share), []) if self.share >= self.least else None

    def winner(self, known: object = None) -> tuple[Found, list[CooperationCandidate]]:
        found = self.better()
        assert found is not None
        return found


def fewer(least: int, share: int, few: int, monkeypatch: pytest.MonkeyPatch, bound: float = 0) -> tuple[int, list[int]]:
    """The share that is found, and the shares that were asked about. bound: on I without any."""
    monkeypatch.setattr(split, "CandidateSearch", Searched)
    monkeypatch.setattr(split, "_bound", lambda job, region, width, share: bound)
    monkeypatch.setattr(Searched, "least", least)
    monkeypatch.setattr(Searched, "asked", [])
    nothing = cast(SolveJob, None), cast(Region, None), 1
    found, _ = split.fewer(*nothing, (cast(Solved, Found(100, share)), []), share, few)
    return cast(Found, found).share, Searched.asked


@pytest.mark.parametrize("share", range(2, 16, 2))
@pytest.mark.parametrize("few", [-2, 0])
def test_the_least_share_that_costs_no_interval_is_found(share: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for least in range(few + 2, share + 2, 2):
        for bound in (99, 100):
            found, asked = fewer(least, share, few, monkeypatch, bound)
            assert found == least
            assert len(asked) == len(set(asked)) <= 5


def test_one_question_shows_that_no_smaller_share_will_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert fewer(8, 8, -2, monkeypatch) == (8, [6])
    assert fewer(8, 8, 0, monkeypatch) == (8, [6])
    assert fewer(0, 8, -2, monkeypatch) == (0, [6, 0])


def test_where_something_else_bounds_the_interval_no_share_is_asked_about_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert fewer(0, 8, -2, monkeypatch, bound=100) == (0, [0])


@pytest.mark.parametrize(
    ("least", "bounds", "asked"),
    [(0, (100, 100), [0]), (8, (100, 100), [0, 8, 0, 4, 6]), (8, (90, 100), [8, 6]), (8, (90, 90), [0, 8, 6])],
    ids=["it will do", "it will not do", "its bound is less", "I is more than the bound"],
)
def test_no_share_is_tried_first_where_its_bound_is_that_of_the_share(
    least: int, bounds: tuple[int, int], asked: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """bounds: without a share, and with one of 8."""
    monkeypatch.setattr(split, "CandidateSearch", Searched)
    monkeypatch.setattr(split, "balanced", lambda job, region: 8)
    monkeypatch.setattr(split, "_heuristic_prefers", lambda *given: True)
    monkeypatch.setattr(split, "_bound", lambda job, region, width, share: bounds[share > 0])
    monkeypatch.setattr(Searched, "least", least)
    monkeypatch.setattr(Searched, "asked", [])
    job = cast(SolveJob, SimpleNamespace(options=SolveOptions(), copies=1))
    found, _ = split.winner(job, cast(Region, None))
    assert cast(Found, found).share == least and Searched.asked == asked


@pytest.mark.usefixtures("at_root")
def test_the_heuristic_looks_once_for_each_loop_of_a_solve(monkeypatch: pytest.MonkeyPatch) -> None:
    looked: list[int] = []

    def counted(graph: object, *given: object, **named: object) -> object:
        looked.append(1)
        return heuristic_schedule(graph, *given, **named)  # type: ignore[arg-type]

    monkeypatch.setattr("twill.smt.warm.heuristic_schedule", counted)
    job = SolveJob(example("attention", "full"), B200, SolveOptions())
    graph, again = (costed_example("attention", "full", B200, operand_a="tmem") for _ in range(2))
    least = lower_bounds(graph, B200).best
    first = job.starts.find(job.problem(graph), least, lambda: False)
    assert job.starts.find(job.problem(again), least, lambda: False) is first and len(looked) == 1
    assert job.starts.find(job.problem(graph), least, lambda: False, least) is first  # more than is of use, and known
    job.starts.find(job.problem(graph), least + 1, lambda: False, least + 2)
    job.starts.find(job.problem(graph), least + 1, lambda: False)  # that none is so small says nothing of others
    assert len(looked) == 3


@pytest.mark.usefixtures("at_root")
def test_what_was_found_when_the_time_ended_is_not_kept() -> None:
    graph = costed_example("attention", "full", B200, operand_a="tmem")
    starts, problem = (
        warm.HeuristicStarts(),
        SolveJob(example("attention", "full"), B200, SolveOptions()).problem(graph),
    )
    least = lower_bounds(graph, B200).best
    assert starts.find(problem, least, lambda: True) is None
    assert starts.find(problem, least, lambda: False) is not None


def timeless(document: Schedule) -> str:
    """A schedule without the seconds that it and its questions took."""
    asked = {loop.loop: loop.certificate for loop in document.loops}
    steps = {n: tuple(step.model_copy(update={"seconds": 0.0}) for step in c.steps) for n, c in asked.items()}
    loops = tuple(
        loop.model_copy(update={"certificate": loop.certificate.model_copy(update={"steps": steps[loop.loop]})})
        for loop in document.loops
    )
    certificate = document.certificate.model_copy(
        update={"steps": tuple(step.model_copy(update={"seconds": 0.0}) for step in document.certificate.steps)}
    )
    return document.model_copy(update={"loops": loops, "certificate": certificate, "solve_seconds": 0.0}).canonical()


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize(
    ("graph", "machine", "elsewhere"),
    [
        (lambda: example("gemm", "bf16"), H100, "candidates"),
        (lambda: blackwell_attention.kernel(blackwell_attention.FULL).graph, B200, "split"),
    ],
    ids=["of two cooperations the objectives behind I", "a smaller share beside them"],
)
def test_the_schedule_of_several_processes_is_that_of_one(
    graph: Callable[[], DependenceGraph], machine: Machine, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []

    class Counted(ForkedAnswer[Any]):
        def __init__(self, ask: Callable[[], Any], processes: int) -> None:
            super().__init__(ask, processes)
            asked.append(processes)

    monkeypatch.setattr(f"twill.solve.{elsewhere}.ForkedAnswer", Counted)
    options = SolveOptions(fuse=False)
    together = solve(graph(), machine, options, None, 2)
    assert asked == [2]
    assert timeless(together) == timeless(solve(graph(), machine, options))
