"""One row of `benchmarks/solve.py`, measured in a process of its own.

A process for each row starts every kernel alike, and Ctrl-C ends it at once, whatever the solver does.
"""

from __future__ import annotations

import multiprocessing
import signal
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection

from benchmarks.solve_measure import Comparison, Solved, Tell, Times, compare, main_loop, measure_solve
from benchmarks.solve_report import Row
from twill.exc import TwillError
from twill.graph.extract import extract
from twill.machine.description import Machine
from twill.schedule.options import SolveOptions, SolverName


@dataclass(frozen=True)
class Subject:
    """One kernel and specialization; `name` is the example's, as in --examples."""

    name: str
    target: str
    spec: str | None


@dataclass(frozen=True)
class Plan:
    """What to measure. units: None stands for exact cycles; tried in order until the Boolean encoding finishes."""

    subjects: tuple[Subject, ...]
    machines: tuple[Machine, ...]
    repeat: int
    budget: float
    units: tuple[int | None, ...]
    paper: bool
    solver: SolverName = "z3"
    margin: bool = False


def measure_apart(plan: Plan, subject: Subject, machine: Machine, tell: Tell) -> Row:
    """`measure_row` in a process of its own, which ends with the call; a row that says so if it dies."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_work, args=(sender, plan, subject, machine), daemon=True)
    begun = time.perf_counter()
    process.start()
    sender.close()
    try:
        while isinstance(message := receiver.recv(), str):
            tell(message)
        assert isinstance(message, Row)
        return message
    except EOFError:
        process.join()
        times = Times((time.perf_counter() - begun,))
        died = Solved("refused", f"the process ended with code {process.exitcode}", times, None, 1, {})
        return Row(subject.name, subject.spec or "-", machine.name, 0, 0.0, died, ())
    finally:
        process.kill()
        process.join()
        receiver.close()


def _work(sender: Connection, plan: Plan, subject: Subject, machine: Machine) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # a terminal sends it to both; the caller ends this process
    sender.send(measure_row(plan, subject, machine, sender.send))


def measure_row(plan: Plan, subject: Subject, machine: Machine, tell: Tell) -> Row:
    """Extract, solve, compare."""
    begun = time.perf_counter()
    tell("extracting")
    try:
        _, graph = extract(subject.target, subject.spec)
    except TwillError as refused:
        seconds = time.perf_counter() - begun
        nothing = Solved("refused", refused.message, Times((seconds,)), None, 1, {})
        return Row(subject.name, subject.spec or "-", machine.name, 0, seconds, nothing, ())
    seconds = time.perf_counter() - begun
    options = SolveOptions(budget=plan.budget, solver=plan.solver, margin=plan.margin)
    solved = measure_solve(graph, machine, plan.repeat, tell, options)
    if solved.schedule is None:
        return Row(subject.name, graph.spec, machine.name, 0, seconds, solved, ())
    costed = main_loop(solved.schedule, graph).graph
    comparisons: list[Comparison] = []
    for bound in plan.units:
        comparisons.append(compare(costed, machine, bound, plan.repeat, plan.budget, plan.paper, tell))
        if comparisons[-1].finished:
            break
    return Row(subject.name, graph.spec, machine.name, len(costed.instructions), seconds, solved, tuple(comparisons))
