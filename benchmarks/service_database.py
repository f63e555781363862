"""A front end on PostgreSQL under load, and its queue when it is long, on this machine's loopback.

    python benchmarks/service_database.py                       # everything, with a database of its own
    python benchmarks/service_database.py --only claims         # some of: claims, lookups, solved, beside
    python benchmarks/service_database.py --store postgresql:// # another database, empty

Prints JSON. The figures of a machine that does other work meanwhile are its own; the first line says how busy it is.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also where twill is not installed

from benchmarks.service_graphs import submission
from benchmarks.service_load import Connection, ended, load, stream, written
from benchmarks.service_process import ROOT, Served
from server.places import open_places
from server.queue import JobQueue, QueuedRequest
from tests.postgres import PostgresServer

Found = dict[str, Any]
SHORT, LONG = 100, 10_000  # jobs that wait while claims are timed
CLAIMS = 200
KEYS = 20


def main(arguments: Sequence[str] | None = None) -> int:
    """The command."""
    made = argparse.ArgumentParser(prog="benchmarks/service_database.py", allow_abbrev=False)
    made.add_argument("--store", default="")
    made.add_argument("--only", default="")
    made.add_argument("--clients", type=int, default=50)
    made.add_argument("--requests", type=int, default=20_000)
    options = made.parse_args(arguments)
    parts: dict[str, Callable[[str, argparse.Namespace], Found]] = {
        "claims": claims, "lookups": lookups, "solved": solved, "beside": beside,
    }  # fmt: skip
    database = None if options.store else PostgresServer("fsync=on", "full_page_writes=on")
    print(json.dumps({"cores": os.cpu_count(), "load": os.getloadavg()}), flush=True)
    for name in options.only.split(",") if options.only else parts:
        place = options.store if database is None else database.fresh()
        print(json.dumps({name: parts[name](place, options)}), flush=True)
    if database is not None:
        database.remove()
    return 0


def claims(place: str, options: argparse.Namespace) -> Found:
    """Seconds of a claim and its end, while few and while many jobs wait; in the database and in SQLite."""
    with tempfile.TemporaryDirectory() as directory:
        return {"postgres": depths(place), "sqlite": depths(directory)}


def depths(place: str) -> Found:
    """The same of one kind of queue."""
    store, queue = open_places(place, "")
    store.close()
    found: Found = {}
    for waiting in (SHORT, LONG):
        filled(queue, waiting)
        times = []
        for _ in range(CLAIMS):
            begun = time.perf_counter()
            claim = queue.claim("bench", 60)
            assert claim is not None and queue.finish(claim, "done")
            times.append(1000 * (time.perf_counter() - begun))
        cuts = statistics.quantiles(times, n=100)
        found[f"{waiting} waiting"] = {"p50_ms": round(cuts[49], 2), "p99_ms": round(cuts[98], 2)}
    queue.close()
    return found


def filled(queue: JobQueue, waiting: int) -> None:
    """Add jobs of ten clients until so many wait."""
    document = submission(0).decode()
    for number in range(queue.counts()["queued"], waiting + CLAIMS):
        key = f"{waiting:032x}{number:032x}"
        queue.submit(QueuedRequest(key, document, "k", "s", "h100", f"c{number % 10}", "digest", "machine"), 10**6)


def lookups(place: str, options: argparse.Namespace) -> Found:
    """Look-ups that the front end remembers, by many clients."""
    served = front(place)
    keys = [job["key"] for job in jobs_done(served, place)]
    chosen = [written("GET", f"/v1/schedules/{keys[number % KEYS]}") for number in range(options.requests)]
    taken = stream(served.port(), options.clients, chosen)
    served.stop()
    return {"clients": options.clients, **taken.summary(), "statuses": sorted(set(taken.statuses))}


def solved(place: str, options: argparse.Namespace) -> Found:
    """Submissions of graphs that are solved already."""
    served = front(place)
    jobs_done(served, place)
    chosen = [written("POST", "/v1/jobs", submission(number % KEYS)) for number in range(options.requests // 4)]
    taken = stream(served.port(), options.clients, chosen)
    served.stop()
    return {"clients": options.clients, **taken.summary(), "statuses": sorted(set(taken.statuses))}


def beside(place: str, options: argparse.Namespace) -> Found:
    """Look-ups by one client while a worker solves one job after the other."""
    served = front(place)
    keys = [job["key"] for job in jobs_done(served, place)]
    one = Connection(served.port)
    for number in range(KEYS, KEYS + 200):
        one.ask("POST", "/v1/jobs", submission(number))
    worker = working(place)
    time.sleep(5)
    taken = load(served.port, 1, [keys[number % KEYS] for number in range(2000)], look)
    left = json.loads(one.ask("GET", "/v1/jobs?state=queued&limit=200")[1])["jobs"]
    worker.kill()
    worker.wait()
    one.close()
    served.stop()
    return {**taken.summary(), "still waiting at the end": len(left)}


def look(connection: Connection, key: str) -> tuple[int, None]:
    """One look-up."""
    return connection.ask("GET", f"/v1/schedules/{key}")[0], None


def front(place: str) -> Served:
    """A front end on the database."""
    served = Served(Path(tempfile.mkdtemp(prefix="twill-bench-")), 0, "--log-level", "warning", "--store", place)
    served.start()
    return served


def working(place: str) -> subprocess.Popen[bytes]:
    """A worker on the database."""
    command = [sys.executable, "-m", "twill", "work", "--store", place, "--log-level", "error"]
    return subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL)


def jobs_done(served: Served, place: str) -> list[Found]:
    """The jobs of the first problems, solved."""
    worker, one = working(place), Connection(served.port)
    jobs = [json.loads(one.ask("POST", "/v1/jobs", submission(number))[1]) for number in range(KEYS)]
    assert all(ended(one, job["id"])["state"] == "done" for job in jobs)
    worker.kill()
    worker.wait()
    one.close()
    return jobs


if __name__ == "__main__":
    sys.exit(main())
