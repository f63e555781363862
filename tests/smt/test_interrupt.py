"""Ctrl-C while z3 works is an interrupt and never an answer."""

from __future__ import annotations

import os
import signal
import threading

import pytest
import z3

from twill.smt.interrupt import interruptible


def pigeons(holes: int) -> z3.Solver:
    """One pigeon more than holes: unsatisfiable, and out of reach for many holes."""
    solver = z3.SimpleSolver(ctx=z3.Context())
    sits = [[z3.Bool(f"p{i}_{j}", ctx=solver.ctx) for j in range(holes)] for i in range(holes + 1)]
    for places in sits:
        solver.add(z3.Or(places))
    for hole in zip(*sits, strict=True):
        solver.add(z3.AtMost(*hole, 1))
    return solver


def test_an_interrupt_is_raised_and_ends_the_work() -> None:
    solver = pigeons(40)
    before = threading.active_count()
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        interruptible(solver, solver.check)
    timer.join()
    assert threading.active_count() == before


def test_an_interrupt_is_raised_after_z3_took_the_signal_for_itself() -> None:
    small = pigeons(2)
    small.check()  # z3's handler, and Python's again, but one that does not end waits
    test_an_interrupt_is_raised_and_ends_the_work()


def test_without_an_interrupt_the_answer_is_that_of_the_work() -> None:
    solver = pigeons(3)
    assert interruptible(solver, solver.check) == z3.unsat


def test_errors_of_the_work_are_raised() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        interruptible(pigeons(3), fail)


def test_other_threads_work_directly() -> None:
    solver = pigeons(3)
    found: list[z3.CheckSatResult] = []
    thread = threading.Thread(target=lambda: found.append(interruptible(solver, solver.check)))
    thread.start()
    thread.join()
    assert found == [z3.unsat]
