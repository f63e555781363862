"""The job queue as the service and its workers see it; `queue_sqlite` is the embedded one.

A job is one request to solve, from the moment it is accepted until it has ended::

    queued -> running -> done | failed | cancelled
       ^         |
       +---------+   the lease ran out: its worker is gone

Whatever implements `JobQueue` keeps these promises. A job that `submit` returned is never lost,
whatever is killed. At most one job of a key is queued or running. A claim is a lease: a worker
that stops beating loses its job to another, and what it says afterwards is not heard.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, get_args

from twill.document import Document
from twill.store.api import Job, JobBounds, JobProblem, State

STATES: tuple[State, ...] = get_args(State)


@dataclass(frozen=True)
class QueuedRequest:
    """What is to be solved. document: a `Submission` that names its machine by digest, as canonical JSON.

    kernel, spec, machine: names for people. client: who asked first. machine_document: the machine of `machine_digest`
    as canonical JSON, which a queue keeps once for all jobs. A queue drops the documents (leaves them "") of a job
    that is done, and of others that ended when it has many of them.

    priority: jobs of a higher one go first. share: of the workers, beside other clients of that priority. quota: jobs
    that the client may have queued or running (0: any number). trace: what asked for it (`traces.current`).
    """

    key: str
    document: str
    kernel: str
    spec: str
    machine: str
    client: str = ""
    machine_digest: str = ""
    machine_document: str = ""
    priority: int = 0
    share: float = 1.0
    quota: int = 0
    trace: str = ""


@dataclass(frozen=True)
class JobEvent:
    """A step of a job. sequence: 1, 2, ... within the job. job: what the job was then, a `Job` as JSON."""

    sequence: int
    job: str


@dataclass(frozen=True)
class Claim:
    """A worker's right to a job until its lease ends; `token` is larger than that of every earlier claim of the job.

    document, machine, trace: those of its `Request`.
    """

    job: Job
    document: str
    machine: str
    token: int
    trace: str = ""


class Note(Document):
    """A line of the audit log: who asked for what. at: UTC time. action: "submit", "cancel", ...; subject: what of."""

    number: int
    at: str
    client: str
    action: str
    subject: str


class QueueFull(Exception):
    """No more jobs are taken for now. waiting: jobs that are queued."""

    def __init__(self, waiting: int) -> None:
        super().__init__(f"{waiting} jobs are waiting")
        self.waiting = waiting


class QuotaUsed(Exception):
    """The client has as many open jobs as it may. open: how many."""

    def __init__(self, open: int) -> None:
        super().__init__(f"{open} jobs of this token are queued or running")
        self.open = open


class QueueUnavailable(Exception):
    """The queue cannot be read or written now: the disk is full, the file damaged or locked. The message is why."""


class JobQueue(Protocol):
    """See the top of this file. Every method may be called from any thread, and may raise QueueUnavailable."""

    # -- by the service

    def submit(
        self, request: QueuedRequest, limit: int, solved: bool = False, look: Callable[[], bool] = lambda: False
    ) -> tuple[Job, bool]:
        """The job of `request`, and whether it is a new one; raises QueueFull if `limit` jobs wait already,
        QuotaUsed if the client has as many open as it may.

        A job of the same key that is queued or running is the answer, and nothing is added. solved: the
        schedule is there already, so that the job is born done (or an earlier one that is done is returned). look:
        whether it is there now, asked when no job of the key is open: one may have ended since `solved` was found out.
        """

    def get(self, job: str) -> Job | None:
        """The job of that id."""

    def request(self, job: str) -> QueuedRequest | None:
        """What was asked for in the job of that id."""

    def recent(self, limit: int, state: State | None = None) -> tuple[Job, ...]:
        """The last jobs, newest first."""

    def events(self, job: str, after: int = 0) -> tuple[JobEvent, ...]:
        """What happened to a job since event number `after`, in order."""

    def cancel(self, job: str) -> Job | None:
        """Ask for a job's end: one that waits ends now, one that runs as soon as its worker hears of it."""

    def counts(self) -> Mapping[State, int]:
        """How many jobs are in each state."""

    def trouble(self) -> str:
        """Why the queue cannot be written to, by writing; "" if it can."""

    def damage(self) -> str:
        """What of the queue is damaged; "" if nothing is. Reads all of it."""

    def note(self, client: str, action: str, subject: str) -> None:
        """Write down who asked for what."""

    def notes(self, limit: int, before: int | None = None) -> tuple[Note, ...]:
        """What was written down, newest first; before: only smaller numbers."""

    def listen(self, heard: Callable[[str], None]) -> bool:
        """Call `heard` from a thread whenever a job has news, with "ID STATE", or "" if news may have been missed.

        False: this queue cannot tell, and whoever waits for news has to look.
        """

    # -- by the workers

    def claim(self, worker: str, seconds: float) -> Claim | None:
        """The job that is next, or one whose lease ran out, leased for `seconds`; None: there is none.

        Next is the highest priority; of that, clients take turns by their shares; of a client, what waits longest.
        """

    def beat(self, claim: Claim, seconds: float) -> Literal["go on", "cancel", "lost"]:
        """Prolong the lease, and hear whether the job is still wanted and still this worker's."""

    def progress(self, claim: Claim, bounds: JobBounds) -> None:
        """Write down how far the solve has come."""

    def finish(self, claim: Claim, state: State, problem: JobProblem | None = None) -> bool:
        """End the job; False, and nothing happens, if it is no longer this worker's.

        A job that was cancelled and has been asked for again meanwhile waits again instead of ending "cancelled".
        """

    def give_back(self, claim: Claim, blameless: bool = True) -> bool:
        """Put the job back to where it waits, because this worker stops; or, not blameless, because it broke down."""

    def orphans(self, gone: Callable[[str], bool]) -> int:
        """Put the jobs of workers that are known to be gone back, before their leases end; how many there were."""

    def stalled(self) -> int:
        """Put jobs whose leases ran out back, for the next worker; how many there were."""

    def forget(self, seconds: float) -> int:
        """Remove jobs that ended more than `seconds` ago; how many there were."""

    def close(self) -> None:
        """Let go of everything; no method is called after this."""
