"""A job queue's connections and rows, whichever database they are of."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from twill.store.api import Job, JobBounds, JobProblem
from twill.store.session import SqlSession

Row = Mapping[str, Any]
"""What a statement gave, by the names of its columns."""


HEAD = "number, priority, rank, cancelling, attempts, machine_digest"  # of an open job


def count(db: SqlSession, question: str, *given: object) -> int:
    """The one number, called n, that answers a question."""
    return int(db.execute(question, given).fetchone()["n"])


def job_of(row: Row) -> Job:
    """A row as a job."""
    return Job(
        id=row["id"],
        key=row["key"],
        state=row["state"],
        kernel=row["kernel"],
        spec=row["spec"],
        machine=row["machine"],
        created=utc(row["created"]),
        started=None if row["started"] is None else utc(row["started"]),
        ended=None if row["ended"] is None else utc(row["ended"]),
        attempts=row["attempts"],
        bounds=None if row["bounds"] is None else JobBounds.parse(row["bounds"]),
        problem=None if row["problem"] is None else JobProblem.parse(row["problem"]),
    )


def utc(seconds: float) -> str:
    """Seconds since the epoch as ISO 8601."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
