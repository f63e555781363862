"""What a job queue does, as statements that SQLite and PostgreSQL both take: see `queue_sqlite`, `queue_postgres`.

Which job is next says `fair_order`.

`token` is the fencing token of a job: every claim raises it, nothing lowers it, and whatever a worker says counts only
with the token that is there. (`attempts` may go back, when a worker was not to blame.)
"""

from __future__ import annotations

import uuid
from abc import abstractmethod
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Literal

from twill.store.api import ENDED, Job, JobBounds, JobProblem, State
from twill.store.session import SqlDatabase, SqlSession

from .fair_order import next_job, rank
from .queue import STATES, Claim, JobEvent, Note, QueuedRequest, QueueFull, QueueUnavailable, QuotaUsed
from .queue_rows import HEAD, Row, count, job_of, utc

KEPT = "document <> '' AND state IN ('failed', 'cancelled')"  # jobs that can be tried again
MOST_KEPT = 200  # of those; with the largest documents, less than a gigabyte

MOST_ATTEMPTS = 5  # a job that took that many workers with it is not given to another
MOST_EVENTS = 1000  # of one job; a longer story keeps its beginning, and how it ended
ALL = 2**62  # rows; SQLite has no offset without a limit

LOST = JobProblem(
    kind="WorkerLost",
    message=f"{MOST_ATTEMPTS} workers were lost while they solved it",
    hint="look into the server's log; a smaller kernel, or a larger memory limit",
)


class SqlQueue:
    """See `server.queue.JobQueue`. version: of Twill, whose jobs are written and taken ("": there is only one).

    locking, skipping: what a SELECT says at its end to lock its rows, and to leave out those that others have locked;
    nothing where one transaction writes at a time. machines: the table of machine documents.
    """

    version = ""
    locking = ""
    skipping = ""
    machines = "machines"

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database

    def reading(self) -> AbstractContextManager[SqlSession]:
        """A connection for single statements."""
        return self.database.reading()

    def writing(self) -> AbstractContextManager[SqlSession]:
        """A connection in a transaction: all of the block or, if it raises, nothing of it."""
        return self.database.writing()

    @abstractmethod
    def now(self, db: SqlSession) -> float:
        """Seconds since the epoch, by one clock for all who use the queue."""

    @abstractmethod
    def damage(self) -> str:
        """See JobQueue."""

    def close(self) -> None:
        """See JobQueue."""
        self.database.close()

    def announce(self, db: SqlSession, job: Job) -> None:
        """Tell whoever listens, when the transaction is committed, that the job has news."""

    def hold_machines(self, db: SqlSession) -> None:
        """Keep others from adding jobs until the transaction ends."""

    def listen(self, heard: Callable[[str], None]) -> bool:
        """See JobQueue."""
        return False

    # -- by the service

    def submit(
        self, request: QueuedRequest, limit: int, solved: bool = False, look: Callable[[], bool] = lambda: False
    ) -> tuple[Job, bool]:
        """See JobQueue."""
        if solved:  # nothing is written if an earlier job is the answer
            with self.reading() as db:
                done = self.joined(db, request, solved)
            if done is not None:
                return done, False
        with self.writing() as db:
            while True:
                found = self.joined(db, request, solved)
                if found is not None:
                    return found, False
                if not solved and look():
                    solved = True
                    continue
                if not solved:
                    self.refuse_more(db, request, limit)
                added = self.add(db, request, "done" if solved else "queued")
                if added is not None:
                    return added, True
                # Somebody else has added the key's job just now: that is the one.

    def joined(self, db: SqlSession, request: QueuedRequest, solved: bool) -> Job | None:
        """The job that answers the request, if there is one."""
        if solved:
            question = "SELECT * FROM jobs WHERE key = ? AND state = 'done' ORDER BY number DESC LIMIT 1"
            done = db.execute(question, (request.key,)).fetchone()
            return None if done is None else job_of(done)
        row = db.execute(
            "SELECT number, state, cancelling, version FROM jobs WHERE key = ? AND state IN ('queued', 'running')"
            f" ORDER BY number DESC LIMIT 1{self.locking}",
            (request.key,),
        ).fetchone()
        if row is None:
            return None
        if row["cancelling"] and row["state"] == "running":
            # Asked to end, and now wanted again: the work that was done so far is not thrown away.
            db.execute("UPDATE jobs SET cancelling = 0 WHERE number = ?", (row["number"],))
        if row["state"] == "queued" and row["version"] != self.version:
            # It waits for workers of another Twill, of which there may be none any more.
            db.execute(
                "UPDATE jobs SET version = ?, document = ?, machine_digest = ? WHERE number = ?",
                (self.version, request.document, request.machine_digest, row["number"]),
            )
            self.keep_machine(db, request)
            self.announce(db, job_of(self.row(db, row["number"])))
        return job_of(self.row(db, row["number"]))

    def refuse_more(self, db: SqlSession, request: QueuedRequest, limit: int) -> None:
        """Raise QueueFull or QuotaUsed if as many jobs wait, or are open for the client, as may."""
        waiting = count(db, "SELECT count(*) AS n FROM jobs WHERE state = 'queued'")
        if waiting >= limit:
            raise QueueFull(waiting)
        if request.quota:
            question = "SELECT count(*) AS n FROM jobs WHERE client = ? AND state IN ('queued', 'running')"
            mine = count(db, question, request.client)
            if mine >= request.quota:
                raise QuotaUsed(mine)

    def add(self, db: SqlSession, request: QueuedRequest, state: State) -> Job | None:
        """A new row; None if the key has an open job already. A document is worth its room only until it is solved."""
        now = self.now(db)
        document = "" if state in ENDED else request.document
        if document:
            self.keep_machine(db, request)
        added = db.execute(
            "INSERT INTO jobs (id, key, state, kernel, spec, machine, client, document, created, ended, machine_digest,"
            " priority, rank, version, trace) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
            " ON CONFLICT DO NOTHING RETURNING number",
            (
                uuid.uuid4().hex, request.key, state, request.kernel, request.spec, request.machine, request.client,
                document, now, now if state in ENDED else None, request.machine_digest, request.priority,
                rank(db, request) if document else 0.0, self.version, request.trace,
            ),
        ).fetchall()  # fmt: skip
        return self.tell(db, added[0]["number"]) if added else None

    def keep_machine(self, db: SqlSession, request: QueuedRequest) -> None:
        """Keep the document of a request's machine, once for all jobs."""
        machine = (request.machine_digest, request.machine_document)
        db.execute(f"INSERT INTO {self.machines} VALUES (?, ?) ON CONFLICT DO NOTHING", machine)

    def get(self, job: str) -> Job | None:
        """See JobQueue."""
        with self.reading() as db:
            row = db.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()
        return None if row is None else job_of(row)

    def request(self, job: str) -> QueuedRequest | None:
        """See JobQueue."""
        with self.reading() as db:
            row = db.execute("SELECT * FROM jobs WHERE id = ?", (job,)).fetchone()
            if row is None:
                return None
            question = f"SELECT document FROM {self.machines} WHERE digest = ?"
            machine = db.execute(question, (row["machine_digest"],)).fetchone()
        head = (row["key"], row["document"], row["kernel"], row["spec"], row["machine"], row["client"])
        document = machine["document"] if row["document"] and machine else ""
        return QueuedRequest(*head, row["machine_digest"], document, row["priority"])

    def recent(self, limit: int, state: State | None = None) -> tuple[Job, ...]:
        """See JobQueue."""
        where, values = ("", ()) if state is None else ("WHERE state = ?", (state,))
        with self.reading() as db:
            rows = db.execute(f"SELECT * FROM jobs {where} ORDER BY number DESC LIMIT ?", (*values, limit)).fetchall()
        return tuple(job_of(row) for row in rows)

    def events(self, job: str, after: int = 0) -> tuple[JobEvent, ...]:
        """See JobQueue."""
        with self.reading() as db:
            rows = db.execute(
                "SELECT sequence, document FROM events WHERE job = (SELECT number FROM jobs WHERE id = ?)"
                " AND sequence > ? ORDER BY sequence",
                (job, after),
            ).fetchall()
        return tuple(JobEvent(row["sequence"], row["document"]) for row in rows)

    def cancel(self, job: str) -> Job | None:
        """See JobQueue."""
        with self.writing() as db:
            row = db.execute(f"SELECT number, state FROM jobs WHERE id = ?{self.locking}", (job,)).fetchone()
            if row is None:
                return None
            if row["state"] == "queued":
                self.end(db, row["number"], "cancelled", None)
            elif row["state"] == "running":
                db.execute("UPDATE jobs SET cancelling = 1 WHERE number = ?", (row["number"],))
            return job_of(self.row(db, row["number"]))

    def counts(self) -> Mapping[State, int]:
        """See JobQueue."""
        with self.reading() as db:
            rows = db.execute("SELECT state, count(*) AS n FROM jobs GROUP BY state").fetchall()
        return {**dict.fromkeys(STATES, 0), **{row["state"]: row["n"] for row in rows}}

    def trouble(self) -> str:
        """See JobQueue."""
        try:
            with self.writing() as db:
                probe = "INSERT INTO probe VALUES (1, ?) ON CONFLICT (one) DO UPDATE SET at = excluded.at"
                db.execute(probe, (self.now(db),))
        except QueueUnavailable as error:
            return str(error)
        return ""

    def note(self, client: str, action: str, subject: str) -> None:
        """See JobQueue."""
        with self.writing() as db:
            given = (self.now(db), client, action, subject)
            db.execute("INSERT INTO audit (at, client, action, subject) VALUES (?, ?, ?, ?)", given)

    def notes(self, limit: int, before: int | None = None) -> tuple[Note, ...]:
        """See JobQueue."""
        with self.reading() as db:
            question = "SELECT number, at, client, action, subject FROM audit WHERE number < ? ORDER BY number DESC"
            rows = db.execute(f"{question} LIMIT ?", (ALL if before is None else before, limit)).fetchall()
        return tuple(Note(**{**dict(row), "at": utc(row["at"])}) for row in rows)

    # -- by the workers

    def claim(self, worker: str, seconds: float) -> Claim | None:
        """See JobQueue."""
        with self.reading() as db:
            if next_job(db, self.version, self.now(db), "") is None:
                return None  # idle workers do not write
        with self.writing() as db:
            while (row := next_job(db, self.version, self.now(db), self.skipping)) is not None and not self.may_run(
                db, row
            ):
                pass  # it has ended, and is open no more
            if row is None:
                return None
            now = self.now(db)
            db.execute(
                "UPDATE jobs SET state = 'running', worker = ?, lease = ?, attempts = attempts + 1, token = token + 1,"
                " started = coalesce(started, ?) WHERE number = ?",
                (worker, now + seconds, now, row["number"]),
            )
            taken = self.tell(db, row["number"])
            rest = db.execute("SELECT document, token, trace FROM jobs WHERE number = ?", (row["number"],)).fetchone()
            question = f"SELECT document FROM {self.machines} WHERE digest = ?"
            found = db.execute(question, (row["machine_digest"],)).fetchone()
            return Claim(
                taken, rest["document"], "" if found is None else found["document"], rest["token"], rest["trace"]
            )

    def may_run(self, db: SqlSession, row: Row) -> bool:
        """End a job whose worker is gone if nobody wants it any more or it took too many; True if it can run."""
        if row["cancelling"]:
            self.end(db, row["number"], "cancelled", None)
            return False
        if row["attempts"] >= MOST_ATTEMPTS:
            self.end(db, row["number"], "failed", LOST)
            return False
        return True

    def beat(self, claim: Claim, seconds: float) -> Literal["go on", "cancel", "lost"]:
        """See JobQueue."""
        with self.writing() as db:
            row = self.mine(db, claim)
            if row is None:
                return "lost"
            db.execute("UPDATE jobs SET lease = ? WHERE number = ?", (self.now(db) + seconds, row["number"]))
            return "cancel" if row["cancelling"] else "go on"

    def progress(self, claim: Claim, bounds: JobBounds) -> None:
        """See JobQueue."""
        with self.writing() as db:
            row = self.mine(db, claim)
            if row is None:
                return
            db.execute("UPDATE jobs SET bounds = ? WHERE number = ?", (bounds.canonical(), row["number"]))
            self.tell(db, row["number"], MOST_EVENTS)

    def finish(self, claim: Claim, state: State, problem: JobProblem | None = None) -> bool:
        """See JobQueue."""
        with self.writing() as db:
            row = self.mine(db, claim)
            if row is None:
                return False
            if state == "cancelled" and not row["cancelling"]:
                self.wait_again(db, row["number"])
            else:
                self.end(db, row["number"], state, problem)
            return True

    def give_back(self, claim: Claim, blameless: bool = True) -> bool:
        """See JobQueue. A blameless attempt does not count."""
        with self.writing() as db:
            row = self.mine(db, claim)
            if row is None:
                return False
            self.requeue(db, row["number"], blameless)
            return True

    def orphans(self, gone: Callable[[str], bool]) -> int:
        """See JobQueue. The attempts do not count: a solve runs apart from its worker, and cannot have killed it."""
        with self.writing() as db:
            question = f"SELECT number, worker FROM jobs WHERE state = 'running' ORDER BY number{self.skipping}"
            found = [row["number"] for row in db.execute(question).fetchall() if gone(row["worker"])]
            for number in found:
                self.requeue(db, number, blameless=True)
            return len(found)

    def stalled(self) -> int:
        """See JobQueue."""
        with self.writing() as db:
            question = f"SELECT number FROM jobs WHERE state = 'running' AND lease < ? ORDER BY number{self.skipping}"
            found = [row["number"] for row in db.execute(question, (self.now(db),)).fetchall()]
            for number in found:
                self.requeue(db, number, blameless=False)
            return len(found)

    def forget(self, seconds: float) -> int:
        """See JobQueue."""
        with self.writing() as db:
            self.hold_machines(db)
            before = self.now(db) - seconds
            old = "state IN ('done', 'failed', 'cancelled') AND ended < ?"
            db.execute(f"DELETE FROM events WHERE job IN (SELECT number FROM jobs WHERE {old})", (before,))
            forgotten = db.execute(f"DELETE FROM jobs WHERE {old}", (before,)).rowcount
            db.execute("DELETE FROM audit WHERE at < ?", (before,))
            used = "SELECT machine_digest FROM jobs WHERE state IN ('queued', 'running')"
            used += f" UNION SELECT machine_digest FROM jobs WHERE {KEPT}"
            db.execute(f"DELETE FROM {self.machines} WHERE digest NOT IN ({used})")
            return forgotten

    # -- inside a transaction

    def row(self, db: SqlSession, number: int) -> Row:
        """The row of a job that is there."""
        row: Row = db.execute("SELECT * FROM jobs WHERE number = ?", (number,)).fetchone()
        return row

    def mine(self, db: SqlSession, claim: Claim) -> Row | None:
        """The row of a claim that still holds, without its document."""
        row: Row | None = db.execute(
            f"SELECT {HEAD} FROM jobs WHERE id = ? AND state = 'running' AND token = ?{self.locking}",
            (claim.job.id, claim.token),
        ).fetchone()
        return row

    def requeue(self, db: SqlSession, number: int, blameless: bool) -> None:
        """Let a running job wait again, if it may run; blameless: the attempt does not count."""
        less = 1 if blameless else 0
        db.execute("UPDATE jobs SET attempts = attempts - ? WHERE number = ?", (less, number))
        if self.may_run(db, self.row(db, number)):
            self.wait_again(db, number)

    def end(self, db: SqlSession, number: int, state: State, problem: JobProblem | None) -> None:
        """Write down how a job ended."""
        document = "''" if state == "done" else "document"
        db.execute(
            "UPDATE jobs SET state = ?, problem = ?, ended = ?, worker = NULL, lease = NULL, cancelling = 0,"
            f" document = {document} WHERE number = ?",
            (state, None if problem is None else problem.canonical(), self.now(db), number),
        )
        too_many = f"SELECT number FROM jobs WHERE {KEPT} ORDER BY ended DESC LIMIT {ALL} OFFSET ?{self.skipping}"
        db.execute(f"UPDATE jobs SET document = '' WHERE number IN ({too_many})", (MOST_KEPT,))
        self.tell(db, number)

    def wait_again(self, db: SqlSession, number: int) -> None:
        """From running back to queued."""
        db.execute("UPDATE jobs SET state = 'queued', worker = NULL, lease = NULL WHERE number = ?", (number,))
        self.tell(db, number)

    def tell(self, db: SqlSession, number: int, most: int | None = None) -> Job:
        """Add the job as it is now to its events, unless it has `most` already."""
        job = job_of(self.row(db, number))
        last = count(db, "SELECT coalesce(max(sequence), 0) AS n FROM events WHERE job = ?", number)
        if most is None or last < most:
            db.execute("INSERT INTO events VALUES (?, ?, ?)", (number, last + 1, job.canonical()))
            self.announce(db, job)
        return job
