"""The solves of one emission."""

from __future__ import annotations

from argparse import Namespace

import pytest

from tests.golden_schedules import Example, schedule
from twill.cli.solves import Solves
from twill.schedule.document import Schedule

GEMM = Example("examples/gemm.py", "bf16")


@pytest.mark.parametrize("processes", [1, 2])
def test_each_question_is_asked_once(monkeypatch: pytest.MonkeyPatch, processes: int) -> None:
    asked = list[tuple[object, ...]]()

    def solved(graph: object, machine: object, arguments: Namespace, budget: object) -> Schedule:
        asked.append((graph, machine, arguments))
        return schedule(GEMM)

    monkeypatch.setattr("twill.cli.emit.solved", solved)
    alone, paired = Namespace(cluster=1), Namespace(cluster=2)
    with Solves(None, processes) as solve:
        solve.begin(("graph", "machine", paired))  # type: ignore[arg-type]
        found = [solve("graph", "machine", one) for one in (paired, alone, Namespace(cluster=2), alone)]  # type: ignore[arg-type]
    assert found == [schedule(GEMM)] * 4
    others = [("graph", "machine", alone)]  # the first one is asked by another process, if there may be one
    assert asked == (others if processes > 1 else [("graph", "machine", paired), *others])


def test_what_the_first_solve_took_is_of_the_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.cli.emit.solved", lambda *_: schedule(GEMM))
    monkeypatch.setattr("time.monotonic", iter(range(0, 1000, 5)).__next__)
    with Solves(60.0, 2) as solve:
        solve.begin(("graph", "machine", Namespace()))  # type: ignore[arg-type]
        solve("graph", "machine", Namespace())  # type: ignore[arg-type]
        assert solve.budget.spent == 5
