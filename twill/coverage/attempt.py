"""One kernel through the pipeline, as far as was asked for, in a process of its own with a limit of time."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twill.coverage.kernels import FoundKernel, specialized
from twill.coverage.outcome import BUG, REFUSED, AttemptOutcome, Stage, reason_of
from twill.exc import BudgetExhausted, NoTarget, TwillError
from twill.kernel.importing import KernelFile

if TYPE_CHECKING:
    from twill.graph.dependence import DependenceGraph
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule
    from twill.solve.shared_budget import SharedBudget

EMISSION = 4  # how many times the budget of a solve all of an emission may take


@dataclass(frozen=True)
class Asked:
    """What is asked for each kernel. machine: name or file. emit: seconds for all of its solves, 0: only extraction.
    limit: seconds for everything before the solve. keep: where emitted kernels are left, "": nowhere. execute: whether
    the PTX of what is emitted is executed on the CPU, for which there is the limit once more."""

    machine: str = "h100"
    emit: float = 0.0
    limit: float = 60.0
    keep: str = ""
    execute: bool = False

    def patience(self) -> float:
        """Seconds after which a kernel is given up."""
        return self.limit * (1 + self.execute) + self.emit * EMISSION


class AttemptProgress:
    """Which stage a kernel is in, and for how long it was in those before. unsolved: what the last solve raised, from
    which an emission may go on. spilled: bytes that a thread of the kernel stores of spilled registers."""

    def __init__(self, notify: Callable[[str], None]) -> None:
        self.tell = notify
        self.seconds: dict[str, float] = {}
        self.stage: Stage = "triton"
        self.unsolved: BaseException | None = None
        self.spilled = 0

    @contextlib.contextmanager
    def at(self, stage: Stage) -> Iterator[None]:
        """Inside, the stage is this one."""
        self.stage, begin = stage, time.monotonic()
        self.tell(stage)
        try:
            yield
        finally:
            self.seconds[stage] = round(time.monotonic() - begin, 3)


def attempt(
    found: FoundKernel, loaded: KernelFile, asked: Asked, key: str, notify: Callable[[str], None]
) -> AttemptOutcome:
    """What becomes of a kernel. Nothing raises here: what is no refusal is a mistake of ours, with exit code 5."""
    progress = AttemptProgress(notify)
    try:
        with progress.at("triton"):
            found, error = specialized(found, loaded)
        if error is not None:
            return _outcome(found, progress, key, error)
        reached = _through(found, asked, progress)
    except Exception as error:
        if error is progress.unsolved:
            progress.stage = "solve"
        elif progress.stage == "emission" and "solve" not in progress.seconds and isinstance(error, TwillError):
            progress.stage = "extraction"  # it was refused before anything was solved
        return _outcome(found, progress, key, error)
    progress.stage = reached
    return _outcome(found, progress, key, None)


def _through(found: FoundKernel, asked: Asked, progress: AttemptProgress) -> Stage:
    """How far the kernel comes. Raises what refuses it."""
    from twill.codegen.emission import emit_solved, extract, refuse_before_solving, with_slow_builds
    from twill.codegen.room import PatientSolver
    from twill.coverage.keep import keep
    from twill.kernel.specialization import problem_of
    from twill.machine.file import load_machine
    from twill.solve.shared_budget import SharedBudget
    from twill.trial.execute import checked_with_awkward_data

    with progress.at("extraction"):
        kernel, machine = extract(found.target, found.spec or None, found.sig, found.const), load_machine(asked.machine)
        if not asked.emit:
            with contextlib.suppress(NoTarget):
                refuse_before_solving(kernel, machine)
            return "extracted"
    budget = SharedBudget(asked.emit)

    def solve(graph: DependenceGraph, on: Machine) -> Schedule:
        before = progress.stage
        with progress.at("solve"):
            try:
                return _solved(graph, on, budget)
            except TwillError as error:
                progress.unsolved = error
                raise
            finally:
                progress.stage = before
                progress.tell(before)

    with progress.at("emission"):
        patient = PatientSolver(solve, EMISSION * asked.emit)
        emission = with_slow_builds(lambda: emit_solved(kernel, machine, patient))
        progress.spilled = emission.facts.spill_stores
        if asked.keep:
            keep(Path(asked.keep), found, kernel.program, emission)
    if asked.execute:
        with progress.at("execution"):
            checked_with_awkward_data(emission, problem_of(kernel.specialization))
    return "emitted"


def _solved(graph: DependenceGraph, machine: Machine, budget: SharedBudget) -> Schedule:
    """The best schedule within the budget. Errors: those of a solve that finds none."""
    from twill.schedule.document import Schedule
    from twill.solve import pipeline
    from twill.solve.pipeline import SolveOptions

    try:
        with budget.solving(SolveOptions(fuse=False)) as options:
            return pipeline.solve(graph, machine, options)
    except BudgetExhausted as ended:
        if not isinstance(ended.schedule, Schedule):
            raise
        return ended.schedule


def _outcome(found: FoundKernel, progress: AttemptProgress, key: str, error: BaseException | None) -> AttemptOutcome:
    code = 0 if error is None else error.exit_code if isinstance(error, TwillError) else BUG
    message = ""
    if isinstance(error, TwillError):
        message = error.describe()
    elif error is not None:
        message = f"{type(error).__name__}: {error}"
    return AttemptOutcome(
        key=key, file=found.file, kernel=found.kernel, line=found.line, spec=found.spec or "guessed",
        stage=progress.stage, code=code, message=message, reason="" if error is None else reason_of(error),
        seconds=progress.seconds, guessed=(*found.sig, *found.const), spilled=progress.spilled,
    )  # fmt: skip


def apart(
    found: FoundKernel, key: str, patience: float, work: Callable[[Callable[[str], None]], AttemptOutcome]
) -> AttemptOutcome:
    """`work(tell)` in a child process; after `patience` seconds it is ended, and the outcome is what it was at last."""
    reading, writing = os.pipe()
    begin = time.monotonic()
    child = os.fork()
    if child == 0:
        _child(reading, writing, work)
    os.close(writing)
    lines = list(_lines(reading, begin + patience))
    os.close(reading)
    hung = time.monotonic() >= begin + patience
    if hung:
        os.kill(child, signal.SIGKILL)
    _, status = os.waitpid(child, 0)
    answers = [line["outcome"] for line in lines if "outcome" in line]
    if answers:
        return AttemptOutcome.model_validate(answers[-1])
    stages: list[Any] = [line["stage"] for line in lines if "stage" in line]
    stage: Any = stages[-1] if stages else "triton"
    why = f"no answer within {patience:g} seconds" if hung else f"the process died of signal {os.WTERMSIG(status)}"
    return AttemptOutcome(
        key=key, file=found.file, kernel=found.kernel, line=found.line, spec=found.spec or "guessed",
        stage=stage, code=REFUSED if stage == "triton" else BUG, message=why, reason=why,
        seconds={"all": round(time.monotonic() - begin, 1)},
    )  # fmt: skip


def _child(reading: int, writing: int, work: Callable[[Callable[[str], None]], AttemptOutcome]) -> None:
    """The child: lines of JSON to the pipe, everything else that is printed to nowhere."""
    try:
        os.close(reading)
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)

        def send(**line: object) -> None:
            os.write(writing, json.dumps(line).encode() + b"\n")

        outcome = work(lambda stage: send(stage=stage))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(json.dumps({"outcome": outcome.model_dump(mode="json")}).encode() + b"\n")
    finally:
        os._exit(0)


def _lines(reading: int, until: float) -> Iterator[dict[str, object]]:
    """Lines of JSON from a pipe, until it ends or the time is over."""
    rest = b""
    while (left := until - time.monotonic()) > 0:
        ready, _, _ = select.select([reading], [], [], left)
        got = os.read(reading, 1 << 16) if ready else b""
        if not got:
            return
        *whole, rest = (rest + got).split(b"\n")
        yield from map(json.loads, whole)
