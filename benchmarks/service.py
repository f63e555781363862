"""The schedule service under load, under fire, and under nonsense, on this machine's loopback.

    python benchmarks/service.py                       # everything, as in benchmarks/README.md
    python benchmarks/service.py --only lookups,kills  # some of: lookups, submits, kills, refusals

Results go to `benchmarks/results/service-<date>.json` (`--out` for another file). Exit code 1 if a promise is broken.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import json
import os
import platform
import random
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also where twill is not installed

from benchmarks.service_graphs import submission
from benchmarks.service_load import Connection, Taken, ended, load
from benchmarks.service_process import Served, megabytes
from twill.machine.file import load_machine
from twill.schedule.checker.check import check
from twill.store.interface import Entry

ROOT = Path(__file__).resolve().parent.parent
SEED = 20261121
NEW = 16  # problems between two kills; each is submitted twice
Found = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0, or 1 if a promise is broken."""
    options = parser().parse_args(arguments)
    parts: dict[str, Callable[[argparse.Namespace, Path], Found]] = {
        "lookups": lookups, "submits": submits, "kills": kills, "refusals": refusals,
    }  # fmt: skip
    out = options.out or ROOT / "benchmarks" / "results" / f"service-{datetime.now(UTC).date()}.json"
    results: Found = json.loads(out.read_text(encoding="utf-8")) if out.exists() else {}
    results["machine"] = f"{os.cpu_count()} cores, Python {platform.python_version()}, load {os.getloadavg()[0]:.1f}"
    for name in options.only.split(",") if options.only else parts:
        with tempfile.TemporaryDirectory() as directory:
            results[name] = parts[name](options, Path(directory))
        print(name, json.dumps(results[name]), flush=True)
        out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    broken = [name for name, found in results.items() if isinstance(found, dict) and found.get("broken")]
    return 1 if broken else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="benchmarks/service.py", allow_abbrev=False)
    made.add_argument("--only", default="", help="lookups, submits, kills, refusals")
    made.add_argument("--clients", type=int, default=64)
    made.add_argument("--workers", type=int, default=2)
    made.add_argument("--lookups", type=int, default=10_000)
    made.add_argument("--submits", type=int, default=1000)
    made.add_argument("--distinct", type=int, default=200)
    made.add_argument("--kills", type=int, default=10)
    made.add_argument("--out", type=Path)
    return made


# -- under load


def submit(connection: Connection, number: int) -> tuple[int, Found]:
    """One submission; its job."""
    status, body = connection.ask("POST", "/v1/jobs", submission(number))
    return status, json.loads(body)


def lookups(options: argparse.Namespace, directory: Path) -> Found:
    """Look-ups of stored schedules, by one client and by many."""
    served = Served(directory, options.workers, "--log-level", "warning")
    served.start()
    one = Connection(served.port)
    keys = []
    for number in range(20):
        job = submit(one, number)[1]
        assert ended(one, job["id"])["state"] == "done"
        keys.append(job["key"])

    def look(connection: Connection, key: str) -> tuple[int, int]:
        status, body = connection.ask("GET", f"/v1/schedules/{key}")
        return status, len(body)

    chosen = [keys[number % len(keys)] for number in range(options.lookups)]
    alone = load(served.port, 1, chosen[: options.lookups // 10], look)
    many = load(served.port, options.clients, chosen, look)
    assert served.process is not None
    found = {
        "one_client": alone.summary(),
        "clients": options.clients,
        "many_clients": many.summary(),
        "bytes": many.brought[0],
        "memory_mb": megabytes(served.process.pid),
        "broken": [status for status in alone.statuses + many.statuses if status != 200],
    }
    one.close()
    served.stop()
    return found


def submits(options: argparse.Namespace, directory: Path) -> Found:
    """Many submissions of few problems at once: each is solved once, and none is lost."""
    served = Served(directory, options.workers)
    served.start()
    chosen = [number % options.distinct for number in range(options.submits)]
    random.Random(SEED).shuffle(chosen)
    begun = time.perf_counter()
    taken = load(served.port, options.clients, chosen, submit)
    one = Connection(served.port)
    jobs = {job["id"] for job in taken.brought}
    states = Counter(ended(one, job)["state"] for job in jobs)
    wall = time.perf_counter() - begun
    solves = solves_in(served.log)
    found = {
        "submissions": taken.summary(),
        "statuses": Counter(taken.statuses),
        "distinct": len({job["key"] for job in taken.brought}),
        "jobs": len(jobs),
        "states": states,
        "all_ended_after_seconds": round(wall, 1),
        "broken": [
            *(f"{key} was solved {number} times" for key, number in solves.items() if number != 1),
            *(f"{number} jobs ended {state}" for state, number in states.items() if state != "done"),
            *(["not every problem was solved"] if len(solves) != options.distinct else []),
            *(f"a submission got {status}" for status in taken.statuses if status not in (200, 202)),
        ],
    }
    one.close()
    served.stop()
    return found


def solves_in(log: Path) -> Counter[str]:
    """How often each key's solve began."""
    lines = (json.loads(line) for line in log.read_text(encoding="utf-8").splitlines() if line.startswith("{"))
    return Counter(line["key"] for line in lines if line["message"] == "solve begins")


# -- under fire


def kills(options: argparse.Namespace, directory: Path) -> Found:
    """kill -9 of the service, and of a solve's process, at random moments while clients submit and look up."""
    chance = random.Random(SEED)
    served = Served(directory, options.workers)
    served.start()
    rounds = [killed_round(served, chance, number, options) for number in range(options.kills)]
    one = Connection(served.port)
    accepted = {job["id"]: job for found in rounds for job in found["accepted"]}
    ends = {job: ended(one, job) for job in accepted}
    states = Counter(job["state"] for job in ends.values())
    wrong = [said for job in ends.values() for said in wrong_with(one, job)]
    one.close()
    served.stop()
    return {
        "kills_of_the_service": len(rounds),
        "kills_of_a_solve": sum(found["worker"] for found in rounds),
        "accepted": len(accepted),
        "states": states,
        "attempts": Counter(job["attempts"] for job in ends.values()),
        "seconds_until_it_listened_again": [found["seconds"] for found in rounds],
        "broken": wrong + [f"{job['id']}: {job['problem']}" for job in ends.values() if job["state"] != "done"],
    }


def killed_round(served: Served, chance: random.Random, number: int, options: argparse.Namespace) -> Found:
    """Submissions by several clients, in the middle of which the service is killed and started again."""
    first = NEW * number
    chosen = [first + n % NEW for n in range(2 * NEW)]
    taken = Taken()
    clients = threading.Thread(target=lambda: taken.__dict__.update(load(served.port, 8, chosen, submit).__dict__))
    clients.start()
    time.sleep(chance.uniform(0.0, 2.0))
    worker = served.kill_a_worker(chance)
    time.sleep(chance.uniform(0.0, 2.0))
    served.kill()
    begun = time.perf_counter()
    served.start()
    seconds = time.perf_counter() - begun
    clients.join()
    bad = [status for status in taken.statuses if status not in (200, 202)]
    assert not bad, bad
    return {"accepted": taken.brought, "worker": worker, "seconds": round(seconds, 2)}


def wrong_with(connection: Connection, job: Found) -> list[str]:
    """What is wrong with the stored schedule of a job that is done."""
    if job["state"] != "done":
        return []
    status, body = connection.ask("GET", f"/v1/schedules/{job['key']}")
    if status != 200:
        return [f"{job['key']}: lost ({status})"]
    entry = Entry.parse(body)
    if entry.key != job["key"] or not entry.schedule.certificate.optimal:
        return [f"{job['key']}: another schedule"]
    return [violation.describe() for violation in check(entry.schedule, load_machine("h100"))]


# -- under nonsense


def refusals(options: argparse.Namespace, directory: Path) -> Found:
    """What is refused: how soon, how clearly, and with how much memory."""
    served = Served(directory, 0, "--log-level", "warning")
    served.start()
    assert served.process is not None
    good = json.loads(submission(0))
    node = json.dumps(good["graph"]["regions"][0]["nodes"][1])
    unknown = submission(0).replace(b"mul.f32", b"frob.f32")
    bodies = {
        "oversize": b" " * (64 << 20),
        "deeply nested": b'{"graph":' * 200_000,
        "NaN": submission(0).replace(b'"bytes": 512', b'"bytes": NaN', 1),
        "infinity": submission(0).replace(b'"options": {}', b'"options": {"budget": 1e999}'),
        "unknown unit": unknown,
        "a million nodes": f'{{"graph":{{"regions":[{{"nodes":[{",".join([node] * 1_000_000)}]}}]}}}}'.encode(),
        "a million empty nodes": b'{"graph":{"regions":[{"nodes":[' + b"{}," * 1_000_000 + b"{}]}]}}",
        "many digits": b'{"graph": ' + b"9" * 3_000_000 + b"}",
    }
    before = megabytes(served.process.pid)
    found: Found = {}
    for name, body in bodies.items():
        connection = Connection(served.port)
        begun = time.perf_counter()
        status, said = refused(connection, body)
        found[name] = {"status": status, "seconds": round(time.perf_counter() - begun, 3), "kind": said}
        connection.close()
    after = megabytes(served.process.pid)
    served.stop()
    return {
        **found,
        "memory_mb": {"before": before, "after": after},
        "broken": [name for name, one in found.items() if not 400 <= one["status"] < 500],
    }


def refused(connection: Connection, body: bytes) -> tuple[int, str]:
    """Status and kind of the answer. A service may answer and close before it has read everything."""
    found = http.client.HTTPConnection("127.0.0.1", connection.port(), timeout=60)
    try:
        found.putrequest("POST", "/v1/jobs")
        found.putheader("Content-Type", "application/json")
        found.putheader("Content-Length", str(len(body)))
        found.endheaders()
        with contextlib.suppress(OSError):  # it may have heard enough
            found.send(body)
        answer = found.getresponse()
        return answer.status, json.loads(answer.read())["kind"]
    finally:
        found.close()


if __name__ == "__main__":
    sys.exit(main())
