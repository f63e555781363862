"""Which job is solved next, as statements that SQLite and PostgreSQL both take.

Two columns decide it: `priority`, and within it `rank`, a virtual time. A client's jobs stand 1/share apart in it, none
before what was begun last, so that clients who wait take turns in proportion to their shares however many jobs each of
them has (start-time fair queueing: Goyal, Vin, Cheng, SIGCOMM 1996, with cost 1 a job). A job whose worker was lost is
among those that wait, at its old place.
"""

from __future__ import annotations

from twill.store.session import SqlSession

from .queue import QueuedRequest
from .queue_rows import HEAD, Row


def rank(db: SqlSession, request: QueuedRequest) -> float:
    """Where a new job stands in virtual time: 1/share behind the client's last, and behind what was begun last."""
    began = db.execute(
        "SELECT rank FROM jobs WHERE started IS NOT NULL AND priority = ? ORDER BY rank DESC LIMIT 1",
        (request.priority,),
    ).fetchone()
    mine = db.execute(
        "SELECT rank FROM jobs WHERE client = ? AND priority = ? AND state <> 'cancelled' ORDER BY rank DESC LIMIT 1",
        (request.client, request.priority),
    ).fetchone()
    return max(0.0 if row is None else float(row["rank"]) for row in (began, mine)) + 1.0 / request.share


def next_job(db: SqlSession, version: str, now: float, locked: str) -> Row | None:
    """The job that waits and is next, or whose lease ran out, without its document: a look into an index each.

    version: of Twill, whose jobs are taken. locked: what the SELECT ends with.
    """
    waiting = db.execute(
        f"SELECT {HEAD} FROM jobs WHERE state = 'queued' AND version = ?"
        f" ORDER BY priority DESC, rank, number LIMIT 1{locked}",
        (version,),
    ).fetchone()
    lost = db.execute(
        f"SELECT {HEAD} FROM jobs WHERE state = 'running' AND lease < ? AND version = ? ORDER BY lease LIMIT 1{locked}",
        (now, version),
    ).fetchone()
    rows: list[Row] = [row for row in (waiting, lost) if row is not None]
    return min(rows, key=lambda row: (-row["priority"], row["rank"], row["number"]), default=None)
