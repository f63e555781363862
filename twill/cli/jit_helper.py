"""The helper of `twill.jit` (`twill.runtime.helper`): requests on standard input, answers on standard output.

From Triton's module of a variant to an emitted kernel in the store: extract, look up or solve, emit. No line of the
user's program is run for it. The process ends with its input.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import sys
import threading
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Protocol

from twill.runtime.library import path_of
from twill.runtime.request import Prepared, PrepareRequest, State, read_request

if TYPE_CHECKING:
    from twill.codegen.emission import Extracted
    from twill.codegen.gluon import GluonEmission
    from twill.graph.dependence import DependenceGraph
    from twill.machine.description import Machine
    from twill.manifest.document import Manifest
    from twill.manifest.family import MemberCost
    from twill.schedule.document import Schedule
    from twill.schedule.options import SolveOptions
    from twill.store.layered import LayeredStore
    from twill.tile.program import Split

    class Solve(Protocol):
        """How a schedule is had. cluster: CTAs that multiply together."""

        def __call__(self, graph: DependenceGraph, machine: Machine, cluster: int = 1) -> Schedule:
            """The schedule. Errors: Missing, TwillError."""


SPEC = "launch"  # what the variant is called in messages and documents
NICE = 10


class Missing(Exception):
    """There is no schedule, and none is to be solved; the message is the reason."""


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever prints is not an answer
    with contextlib.suppress(OSError):
        os.nice(NICE)
    lines: SimpleQueue[str] = SimpleQueue()
    threading.Thread(target=read, args=(lines,), daemon=True).start()
    while True:
        answer = prepared(read_request(lines.get()))
        answers.write(answer.line() + "\n")
        answers.flush()


def read(lines: SimpleQueue[str]) -> None:
    """Pass on the requests; when their writer is gone, nobody waits for what is being done."""
    for line in sys.stdin:
        lines.put(line)
    os._exit(0)


def prepared(request: PrepareRequest) -> Prepared:
    """The answer to one request. Nothing raises here."""
    from twill.exc import TwillError, UnknownProblem

    with noted() as notes:
        try:
            return replaced(emitted(request), notes)
        except Missing as missing:
            return Prepared(request.key, "missing", str(missing), tuple(notes))
        except UnknownProblem as error:
            asks: State = "asks" if request.may_ask else "failed"
            return Prepared(request.key, asks, error.describe().replace("\n", ";"), tuple(notes))
        except TwillError as error:
            state: State = "unsupported" if final(error) else "failed"
            return Prepared(request.key, state, error.describe().replace("\n", ";"), tuple(notes))
        except Exception as error:  # a mistake of Twill's own is no reason to end, and none for the launch
            logging.getLogger("twill.jit").debug("preparing %s", request.kernel, exc_info=True)
            return Prepared(request.key, "failed", f"{type(error).__name__}: {error}", tuple(notes))


def replaced(answer: Prepared, notes: list[str]) -> Prepared:
    """The answer with all that was noted until now."""
    return Prepared(answer.key, answer.state, answer.reason, tuple(notes), answer.artifact)


def emitted(request: PrepareRequest) -> Prepared:
    """Extract, find a schedule, emit, keep. Errors: Missing, TwillError."""
    from twill.exc import TwillError
    from twill.machine.file import load_machine
    from twill.runtime.artifact import refusal, to_text

    machine = load_machine(request.machine)
    store = opened(request.store, request.server)
    with alone(request):
        there = made_meanwhile(store, request)
        if there is not None:
            return there
        try:
            made = as_cuda if request.form == "cuda" else as_gluon
            data = made(request, extracted(request), machine, solver(store, request))
        except TwillError as error:
            if final(error):
                keep_artifact(store, request, refusal(request.key, error.describe().replace("\n", ";")))
            raise
        keep_artifact(store, request, data)
        return Prepared(request.key, "emitted", artifact=to_text(data))


def as_cuda(request: PrepareRequest, kernel: Extracted, machine: Machine, solve: Solve) -> bytes:
    """The artifact of a kernel of CUDA. Errors: Missing, TwillError."""
    from twill.codegen.emission import emit_solved, with_slow_builds
    from twill.tune.family import cost_of

    emission = with_slow_builds(lambda: emit_solved(kernel, machine, solve), logging.getLogger("twill.jit").info)
    cost = cost_of(kernel, emission.schedule, machine)
    return artifact_of(request, emission.schedule, emission.manifest, emission.build.cubin, cost)


def as_gluon(request: PrepareRequest, kernel: Extracted, machine: Machine, solve: Solve) -> bytes:
    """The artifact of what Triton makes of a module of Gluon, of pairs of CTAs where these have less I. Errors:
    Missing, TwillError."""
    from twill.codegen.gluon import emit_gluon
    from twill.codegen.gluon_manifest import gluon_manifest

    kernel = kernel.on(machine, integers=False)
    emission = in_pairs(kernel, machine, solve) or emit_gluon(kernel, machine, solve)
    manifest = gluon_manifest(emission, kernel.specialization, machine.architecture)
    return artifact_of(request, emission.schedule, manifest, emission.compiled.cubin)


def in_pairs(kernel: Extracted, machine: Machine, solve: Solve) -> GluonEmission | None:
    """The kernel as products of two CTAs, as `twill emit` takes them; None where they have no less I, are refused, or
    have no schedule and none is to be solved. Errors: Missing, TwillError."""
    from twill import exc
    from twill.codegen.gluon import emit_gluon
    from twill.graph.pairs import CTAS, may_pair
    from twill.solve.regions import main_region

    if not may_pair(main_region(kernel.graph), machine):
        return None
    try:
        paired = solve(kernel.graph, machine, CTAS)
        if paired.ii >= solve(kernel.graph, machine).ii:
            return None
        return emit_gluon(kernel, machine, lambda *_: paired)
    except (
        Missing, exc.BudgetExhausted, exc.UnsupportedInKernel, exc.CandidateRefused, exc.Infeasible, exc.NotInGluon,
        exc.NoGluon, exc.GluonSpills,
    ) as refused:  # fmt: skip
        logging.getLogger("twill.jit").info("no pairs of CTAs: %s", refused)
        return None


def artifact_of(
    request: PrepareRequest, schedule: Schedule, manifest: Manifest, cubin: bytes, cost: MemberCost | None = None
) -> bytes:
    """A kernel as it is kept, with how fast the model takes it to be."""
    from twill.runtime.artifact import artifact
    from twill.schedule.predict import predict

    predicted = predict(schedule, manifest.ctas, persistent=manifest.persistent, threads=manifest.threads)
    return artifact(request.key, manifest.text(), cubin, predicted, cost)


@contextlib.contextmanager
def alone(request: PrepareRequest) -> Iterator[None]:
    """No other process that shares the store's file prepares the same key meanwhile: the ranks of one node. The lock is
    the system's, so it ends with whoever holds it. Without a file everybody is alone."""
    path = path_of(request.store)
    if path is None:
        yield
        return
    place = Path(f"{path}.preparing")
    try:
        place.mkdir(parents=True, exist_ok=True)
        lock = (place / request.key[:32]).open("w", encoding="utf-8")
    except OSError:  # the store says what is wrong with its place
        yield
        return
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            yield
        finally:
            with contextlib.suppress(OSError):
                (place / request.key[:32]).unlink()  # whoever waits for it finds what was made


def made_meanwhile(store: LayeredStore, request: PrepareRequest) -> Prepared | None:
    """What another process has made of the key since it was looked up; None if nothing."""
    from twill.exc import TwillError
    from twill.runtime.artifact import NAME, RefusedVariant, read_artifact, to_text

    data = store.get_artifact(request.key, NAME)
    if data is None:
        return None
    try:
        found = read_artifact(data, request.key)
    except TwillError:  # it is made anew
        return None
    if isinstance(found, RefusedVariant):
        return Prepared(request.key, "unsupported", found.reason)
    return Prepared(request.key, "emitted", artifact=to_text(data))


@cache
def opened(path: str, server: str) -> LayeredStore:
    """The store and service of a request; a file that cannot be used is noted, and done without."""
    from twill.exc import StoreUnavailable
    from twill.store.location import OFF, open_store

    environment = {**os.environ, "TWILL_STORE": path or os.environ.get("TWILL_STORE", "")}
    try:
        return open_store(None, server, budget=None, environment=environment)
    except StoreUnavailable as error:
        logging.getLogger("twill.jit").warning("%s", error.message)
        return open_store(None, server, budget=None, environment={**environment, "TWILL_STORE": OFF})


def keep_artifact(store: LayeredStore, request: PrepareRequest, data: bytes) -> None:
    """For the next process; a store that cannot be written is noted."""
    from twill.runtime.artifact import NAME

    store.put_artifact(request.key, NAME, data)


def final(error: Exception) -> bool:
    """Whether the error is about the kernel, so that this version of everything would refuse the same variant again.

    Whatever is not named here may be over tomorrow: a service that refuses a token, a disk that is full, a tool or a
    machine file that is not there.
    """
    from twill import exc

    about_the_kernel = (
        exc.KernelDoesNotCompile, exc.UnsupportedOperation, exc.DataDependentControlFlow, exc.NestedLoop,
        exc.AddressNotAffine, exc.AtomicResultUsed, exc.CudaRejected, exc.BuildRejected, exc.WarpProgramBroken,
        exc.UnsupportedInKernel, exc.ScheduleMismatch, exc.SharedMemoryFull, exc.Infeasible,
        exc.UnpricedOperation, exc.NothingToSchedule, exc.ImpossibleCycle,
        exc.NotInGluon, exc.GluonRejected, exc.GluonDiffers, exc.GluonSpills,
    )  # fmt: skip
    return isinstance(error, about_the_kernel)


def extracted(request: PrepareRequest) -> Extracted:
    """The kernel, from Triton's module of it; with K in parts, if that is asked for and can be."""
    from twill.exc import CannotSplit
    from twill.tile.program import Split

    if request.split > 1:
        with contextlib.suppress(CannotSplit):
            return extracted_in(request, Split(request.split_axis, request.split))
    return extracted_in(request, None)


def extracted_in(request: PrepareRequest, split: Split | None) -> Extracted:
    """The same, with K in so many parts. Errors: CannotSplit, among others."""
    from twill.codegen.emission import extract_module
    from twill.kernel.specialization import Parameter, Specialization
    from twill.tile.rewrite.pipeline import Allowed

    return extract_module(
        request.module,
        Specialization(
            file=request.file,
            kernel=request.kernel,
            spec=SPEC,
            signature=tuple((one.name, one.type) for one in request.signature),
            constexprs=tuple((one.name, one.value) for one in request.constants),
            divisibility=tuple((name, 16) for name in request.divisible),
            parameters=tuple(Parameter(one.name, one.optional, one.default) for one in request.parameters),
            fp_fusion=True,  # calls without it are Triton's (`twill.runtime.dispatch`)
            strict=request.strict,
            recorded=request.recorded,
        ),
        Allowed(conditional=request.form == "cuda", split=split),  # warps of Gluon do not vote
    )


def solver(store: LayeredStore, request: PrepareRequest) -> Solve:
    """How a schedule is had: looked up; if that was asked for, solved at the service or here."""
    from twill.codegen.gluon_sharing import with_shared_tiles
    from twill.schedule.options import SolveOptions
    from twill.solve.shared_budget import SharedBudget

    usual = SolveOptions(budget=request.seconds, fuse=False)  # few launches have instances to spare
    budget = SharedBudget(request.seconds)

    def solve(graph: DependenceGraph, machine: Machine, cluster: int = 1) -> Schedule:
        options = usual.model_copy(update={"cluster": cluster})
        found = asked(graph, machine, options)
        if request.form != "gluon":
            return found

        def again(blocks: int, pins: tuple[str, ...]) -> Schedule:
            with contextlib.suppress(Missing):
                return asked(graph, machine, options.model_copy(update={"blocks": blocks, "pins": pins}))
            return found

        return with_shared_tiles(found, machine, again)

    def asked(graph: DependenceGraph, machine: Machine, wanted: SolveOptions) -> Schedule:
        found = looked_up(store, graph, machine, wanted)
        if found is not None:
            return found
        if not request.solve:
            raise Missing("nobody has stored a schedule for it")
        with budget.solving(wanted) as left:
            return solved(store, graph, machine, left)

    return solve


def looked_up(store: LayeredStore, graph: DependenceGraph, machine: Machine, options: SolveOptions) -> Schedule | None:
    """A stored schedule: of a solve for emission, else of any solve if it fuses no program instances."""
    from twill.schedule.key import schedule_key
    from twill.store.respelling import spelled

    store.know(machine)
    for asked in (options.asked, options.model_copy(update={"fuse": True}).asked):
        entry = store.get(schedule_key(graph, machine.digest(), asked))
        schedule = None if entry is None else spelled(entry, graph, machine)
        if schedule is not None and schedule.cooperation.fuse == 1:
            return schedule
    return None


def solved(store: LayeredStore, graph: DependenceGraph, machine: Machine, options: SolveOptions) -> Schedule:
    """Solved at the service, or here; the best that the budget allows."""
    from twill.cli.store_lookup import answer, keep
    from twill.exc import BudgetExhausted, ServiceRefused
    from twill.solve import pipeline

    say = logging.getLogger("twill.jit").info
    try:
        elsewhere = answer(store, graph, machine, options, say)
    except ServiceRefused as error:
        logging.getLogger("twill.jit").warning("%s; the kernel is solved here", error.message)
        elsewhere = None
    if elsewhere is not None:
        return elsewhere
    try:
        schedule = pipeline.solve(graph, machine, options)
    except BudgetExhausted as ended:
        return pipeline.best_known(ended)
    keep(store, schedule, graph, machine, options, say)
    return schedule


@contextlib.contextmanager
def noted() -> Iterator[list[str]]:
    """What Twill warns of meanwhile."""

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            notes.append(record.getMessage())

    notes: list[str] = []
    handler: Any = Handler(logging.WARNING)
    logger = logging.getLogger("twill")
    logger.addHandler(handler)
    try:
        yield notes
    finally:
        logger.removeHandler(handler)


if __name__ == "__main__":
    main()
