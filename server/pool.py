"""The workers of an embedded service: threads that take jobs, each solving in a process of its own."""

from __future__ import annotations

import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import TypeVar

from twill.exc import StoreUnavailable
from twill.store.api import JobBounds, JobProblem, State
from twill.store.interface import Entry, ScheduleStore
from twill.store.transport import BODY

from . import processes, solver_process, traces
from .queue import Claim, JobQueue, QueueUnavailable
from .solver_process import Message

LEASE = 60.0  # seconds after which a silent worker's job is given to another; a busy machine may be slow to begin
BEAT = 1.0  # seconds between two signs of life
IDLE = 0.5  # seconds between two looks for work that nobody told of (leases that ran out)
TOLD = 0.2  # seconds between two writes of a solve's bounds
POLL = 0.1  # seconds a solve may go on after it was cancelled, or its time was up
WITHOUT_MEMORY = (-signal.SIGABRT, solver_process.NO_ROOM_TO_SAY_SO)  # as C++ ends where an allocation fails
KILLED = (-signal.SIGKILL, 255, None)  # 255: with the server of processes, so that nobody knows how
ENDED_BUT_NOT_REAPED = ("Z", "X")
RETRY = 1.0  # seconds to wait after the queue or the store failed
PATIENCE = LEASE / 2  # seconds of a lease for which a solve goes on without a word from the queue

log = logging.getLogger("twill.server.pool")
T = TypeVar("T")


@dataclass(frozen=True)
class SolveLimits:
    """What one solve may take: seconds of wall-clock time, megabytes of address space."""

    seconds: float = 300.0
    megabytes: int = 4096


class Pool:
    """`size` workers. Nothing runs before `start`; `stop` gives what is not finished back to the queue."""

    def __init__(self, queue: JobQueue, store: ScheduleStore, size: int, limits: SolveLimits) -> None:
        self.queue = queue
        self.store = store
        self.limits = limits
        self.stopping = threading.Event()
        self.work = threading.Condition()
        self.threads = [
            threading.Thread(target=self.run, args=(worker_name(n),), name=f"worker {n}", daemon=True)
            for n in range(size)
        ]

    def start(self) -> None:
        """Take up what a killed service left behind, and begin."""
        if self.threads:
            processes.warm()
        left = self.queue.orphans(is_gone)
        if left:
            log.info("jobs of a service that ended without finishing them", extra={"jobs": left})
        for thread in self.threads:
            thread.start()

    def stop(self) -> None:
        """End every solve and wait until the workers are done."""
        self.stopping.set()
        self.wake()
        for thread in self.threads:
            if thread.is_alive():
                thread.join()

    def wake(self) -> None:
        """There may be work."""
        with self.work:
            self.work.notify_all()

    def heard(self, said: str) -> None:
        """What a queue that tells its news calls: some job waits ("ID queued"), or may have been missed ("")."""
        if not said or said.endswith(" queued"):
            self.wake()

    def alive(self) -> bool:
        """Whether every worker is at its post."""
        return all(thread.is_alive() for thread in self.threads)

    def run(self, name: str) -> None:
        """One worker's life."""
        while not self.stopping.is_set():
            try:
                claim = self.queue.claim(name, LEASE)
                if claim is None:
                    with self.work:
                        self.work.wait(IDLE)
                else:
                    self.solve(claim)
            except Exception:
                # The disk may be full, or the file locked: the job is not lost, and it is tried again.
                log.exception("a worker failed", extra={"worker": name})
                self.stopping.wait(RETRY)

    def solve(self, claim: Claim) -> None:
        """Solve a claimed job; what keeps queue or store from working is no fault of the job's."""
        try:
            about = {"twill.job": claim.job.id, "twill.kernel": claim.job.kernel, "twill.attempt": claim.job.attempts}
            with traces.span("solve", claim.trace, **about):
                Solve(self, claim).run()
        except Exception:
            with suppress(Exception):  # if the queue is down, the lease runs out instead
                self.queue.give_back(claim)
            raise


class Solve:
    """One claim, from the start of its process to the end of the job."""

    def __init__(self, pool: Pool, claim: Claim) -> None:
        self.pool = pool
        self.claim = claim
        self.begun = time.monotonic()
        self.last_beat = self.begun
        self.last_heard = self.begun  # when the queue last prolonged the lease
        self.last_told = 0.0
        self.bounds: JobBounds | None = None  # those that were not yet written down

    def run(self) -> None:
        """Start, listen, and end the process and the job.

        The schedule may be there already: stored by a worker that was killed before it could say so, or
        by a job that ended between a look into the store and the submission.
        """
        if self.pool.store.get(self.claim.job.key, graph=False) is not None:
            self.end("done")
            return
        process, pipe = solver_process.start(self.claim.document, self.claim.machine, self.pool.limits.megabytes)
        log.info("solve begins", extra=self.about())
        try:
            self.listen(process, pipe)
        finally:
            processes.end(process, pipe)

    def listen(self, process: ForkServerProcess, pipe: Connection) -> None:
        """Until the job has ended, or is no longer ours."""
        while True:
            message = receive(pipe, POLL)
            if message is None:
                process.join(RETRY)
                self.ended_silently(process.exitcode)
                return
            if message.entry is not None:
                self.keep(message.entry)
                return
            if message.problem is not None:
                self.end("failed", message.problem)
                return
            self.bounds = message.bounds or self.bounds
            if not self.goes_on():
                return

    def goes_on(self) -> bool:
        """Whether the solve may continue; ends the job, or gives it back, if not."""
        now = time.monotonic()
        if self.pool.stopping.is_set():
            self.pool.queue.give_back(self.claim)
            log.info("solve interrupted", extra=self.about())
            return False
        if now - self.begun > self.pool.limits.seconds:
            self.end("failed", out_of_time(self.pool.limits.seconds))
            return False
        if self.bounds is not None and now - self.last_told > TOLD:
            self.tell(now)
        return now - self.last_beat <= BEAT or self.beats(now)

    def beats(self, now: float) -> bool:
        """Prolong the lease; whether the solve may continue. It does while the queue is silent and the lease is not
        near its end: a database that is started again costs nobody a solve."""
        self.last_beat = now
        try:
            said = self.pool.queue.beat(self.claim, LEASE)
        except QueueUnavailable as error:
            if now - self.last_heard < PATIENCE:
                log.warning("the queue does not answer: %s", error, extra=self.about())
                return True
            raise
        self.last_heard = now
        if said == "cancel":
            self.end("cancelled")
        return said == "go on"

    def patiently(self, what: Callable[[], T]) -> T:
        """Do what a silent queue or store must not prevent, while the lease is not near its end."""
        while True:
            try:
                return what()
            except (QueueUnavailable, StoreUnavailable) as error:
                if self.pool.stopping.is_set() or time.monotonic() - self.last_heard > PATIENCE:
                    raise
                log.warning("tried again: %s", error, extra=self.about())
                self.pool.stopping.wait(RETRY)

    def tell(self, now: float) -> None:
        """Write the last bounds down."""
        if self.bounds is not None:
            with suppress(QueueUnavailable):  # the next ones are as good
                self.pool.queue.progress(self.claim, self.bounds)
            self.bounds, self.last_told = None, now

    def keep(self, document: str) -> None:
        """Store the schedule, which its process has examined, and only then call the job done."""
        if len(document) > BODY:
            self.end("failed", too_large(len(document)))
            return
        try:
            machine = solver_process.machine_of(self.claim.document, self.claim.machine)
            entry = Entry.parse(document)
            self.patiently(lambda: self.pool.store.keep(entry, machine))
        except StoreUnavailable:
            raise
        except Exception as error:
            log.exception("a schedule was not stored", extra=self.about())
            message = f"the schedule was not stored: {error}"
            self.end("failed", JobProblem(kind="Internal", message=message, hint="report it, with the graph"))
            return
        self.end("done")

    def end(self, state: State, problem: JobProblem | None = None) -> None:
        """Write down how the job ended, after what was last known of its bounds."""
        self.tell(time.monotonic())
        if self.patiently(lambda: self.pool.queue.finish(self.claim, state, problem)):
            log.info("solve ended", extra={**self.about(), "state": state, "problem": problem and problem.kind})

    def ended_silently(self, code: int | None) -> None:
        """The process ended without a word: without memory, as C++ does it, or killed by somebody, and then
        (a few times) the solve is tried again."""
        if code in KILLED:
            log.warning("the process of a solve was killed", extra=self.about())
            self.pool.queue.give_back(self.claim, blameless=False)
            self.pool.wake()
        elif code in WITHOUT_MEMORY:
            self.end("failed", solver_process.out_of_memory(self.pool.limits.megabytes))
        else:
            log.error("a solver crashed", extra={**self.about(), "code": code})
            self.end("failed", crashed(code))

    def about(self) -> dict[str, object]:
        """What a log line says of the job."""
        job = self.claim.job
        seconds = round(time.monotonic() - self.begun, 3)
        return {"job": job.id, "key": job.key, "kernel": job.kernel, "attempt": job.attempts, "seconds": seconds}


def receive(pipe: Connection, seconds: float) -> Message | None:
    """The next message; an empty one if none came in time, None if none will come."""
    try:
        return Message.parse(pipe.recv_bytes()) if pipe.poll(seconds) else Message()
    except (EOFError, OSError):
        return None


def out_of_time(seconds: float) -> JobProblem:
    """What is said of a solve that went on after its own budget, and the service's limit."""
    return JobProblem(
        kind="TimeLimit",
        message=f"the solve took more than the {seconds:g} s that this service gives to one",
        hint="--normalize U for coarser costs, or a service started with a larger --time-limit",
        exit_code=4,
    )


def crashed(code: int) -> JobProblem:
    """What is said of a process that ended as none should."""
    how = f"was ended by {signal.Signals(-code).name}" if -code in list(signal.Signals) else f"ended with code {code}"
    message = f"the solver crashed: its process {how}"
    return JobProblem(kind="Internal", message=message, hint="report it, with the graph; the server's log has the job")


def too_large(size: int) -> JobProblem:
    """What is said of a schedule that no client would read."""
    return JobProblem(
        kind="TooLarge",
        message=f"the schedule takes {size} bytes, and clients read {BODY}",
        hint="a kernel of fewer operations",
    )


def worker_name(number: int) -> str:
    """A name that tells this process from every other: where, process, when that began, worker."""
    return f"{here()}/{os.getpid()}/{began(os.getpid())}/{number}"


def is_gone(worker: str) -> bool:
    """Whether a worker's process is known to have ended (of one elsewhere nothing is known)."""
    where, process, beginning, _ = worker.rsplit("/", 3)
    return where == here() and began(int(process)) != beginning


@cache
def here() -> str:
    """Where process numbers mean the same: a host since it started, and the namespace of a container."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="utf-8").strip()
        space = os.readlink("/proc/self/ns/pid")
    except OSError:
        return socket.gethostname()
    return f"{socket.gethostname()}/{boot}/{space}"


def began(process: int) -> str:
    """When a process began, in ticks since boot; process numbers are used again, this never is. "": it is gone."""
    try:
        line = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return ""
    words = line.rpartition(")")[2].split()
    return "" if words[0] in ENDED_BUT_NOT_REAPED else words[19]
