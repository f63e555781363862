"""Front ends, workers and a database under kill -9: `python -m tests.soak` (`make soak`) is the long form.

Clients submit problems through the front ends all the time, while processes are killed and the database is ended as a
crash would end it. Afterwards every job that was accepted must be done, its schedule must stand every check, and no job
may have been solved by two workers at the same time.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx

from server.queue_postgres import PostgresQueue
from tests.conftest import ROOT
from tests.kernels import H100
from tests.postgres import PostgresServer
from tests.service import body, graph
from twill.graph.dependence import DependenceGraph
from twill.store.examine import examine
from twill.store.postgres import PostgresStore

PATIENCE = 180.0  # seconds for a process to begin, and for what was accepted to be solved at the end
BETWEEN = 0.2  # seconds between two submissions of a client
PLACE = re.compile(r"twill (?:serves|works) on (\S+)")


@dataclass(frozen=True)
class Plan:
    """seconds: of submissions. kills: of front ends and workers, evenly spread. restarts: of the database."""

    seconds: float
    kills: int
    restarts: int
    fronts: int = 2
    workers: int = 4
    clients: int = 2
    seed: int = 0


@dataclass
class Process:
    """A process under test. log: of this start alone. died: seconds since the epoch."""

    name: str
    log: Path
    running: subprocess.Popen[bytes]
    died: float | None = None

    def place(self) -> str:
        """What it says that it serves or works on; "" as long as it has not begun."""
        found = PLACE.search(self.log.read_text(encoding="utf-8"))
        return found[1] if found else ""

    def end(self, number: signal.Signals) -> None:
        """Send a signal, and wait."""
        self.running.send_signal(number)
        self.running.wait(PATIENCE)
        self.died = time.time()


@dataclass
class Soak:
    """One run of a plan. accepted: the jobs that a front end answered for."""

    plan: Plan
    directory: Path
    database: PostgresServer = field(default_factory=PostgresServer)
    processes: dict[str, Process] = field(default_factory=dict)
    past: list[Process] = field(default_factory=list)
    accepted: dict[str, str] = field(default_factory=dict)  # id -> key
    refused: int = 0  # requests that nobody answered, or with 5xx
    over: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.url = self.database.fresh()
        self.random = random.Random(self.plan.seed)

    def run(self) -> dict[str, Any]:
        """Do it all; what happened. Raises AssertionError for what must not."""
        try:
            names = [f"front{n}" for n in range(self.plan.fronts)] + [f"work{n}" for n in range(self.plan.workers)]
            for name in names:
                self.start(name)
            self.wait_for_beginning()
            clients = [threading.Thread(target=self.submit, args=(n,)) for n in range(self.plan.clients)]
            for client in clients:
                client.start()
            self.trouble(names)
            self.over.set()
            for client in clients:
                client.join()
            self.wait_for_beginning()
            return self.checked()
        finally:
            self.over.set()
            for process in self.processes.values():
                process.end(signal.SIGKILL)
            self.database.remove()

    def start(self, name: str) -> None:
        """Start a process, in the place of one of its name."""
        log = self.directory / f"{name}.{len(self.past)}.log"
        what = ["serve", "--port", "0", "--rate", "0"] if name.startswith("front") else ["work"]
        with log.open("wb") as stream:
            running = subprocess.Popen(
                [sys.executable, "-m", "twill", *what, "--store", self.url],
                cwd=ROOT, env={**os.environ, "PYTHONWARNINGS": "error"}, stderr=stream,
            )  # fmt: skip
        self.processes[name] = Process(name, log, running)
        self.past.append(self.processes[name])

    def wait_for_beginning(self) -> None:
        """Until every process is at work."""
        until = time.monotonic() + PATIENCE
        while not all(process.place() for process in self.processes.values()):
            for name, process in list(self.processes.items()):
                if process.running.poll() is not None:  # it began while the database was away, and said so
                    assert "store" in process.log.read_text(encoding="utf-8")
                    process.died = time.time()
                    self.start(name)
            assert time.monotonic() < until, [process.log.read_text() for process in self.processes.values()]
            time.sleep(0.1)

    def trouble(self, names: list[str]) -> None:
        """Kill and restart, spread over the time of the plan."""
        begun = time.monotonic()
        kinds = ["kill"] * self.plan.kills + ["restart"] * self.plan.restarts
        self.random.shuffle(kinds)
        for number, kind in enumerate(kinds, 1):
            pause = begun + number * self.plan.seconds / (len(kinds) + 1) - time.monotonic()
            time.sleep(max(0.0, pause))
            if kind == "restart":
                self.database.restart()
                continue
            name = self.random.choice(names)
            self.processes[name].end(signal.SIGKILL)
            self.start(name)
        time.sleep(max(0.0, begun + self.plan.seconds - time.monotonic()))

    def submit(self, number: int) -> None:
        """A client: a new problem, or one that somebody asked for before, through any front end."""
        own = random.Random(f"{self.plan.seed} {number}")
        with httpx.Client(timeout=30) as client:
            while not self.over.wait(BETWEEN):
                problem = self.problem(own.randrange(40) if own.random() < 0.2 else own.randrange(10**6))
                place = self.processes[f"front{own.randrange(self.plan.fronts)}"].place()
                if not place:
                    continue
                try:
                    answer = client.post(f"{place}/v1/jobs", json=body(problem))
                except httpx.TransportError:
                    self.refused += 1
                    continue
                if answer.status_code in (200, 202):
                    job = answer.json()
                    self.accepted[job["id"]] = job["key"]
                else:
                    assert answer.status_code in (429, 503), answer.text
                    self.refused += 1

    def problem(self, number: int) -> DependenceGraph:
        """A problem of its own for every number."""
        return graph(64 * (1 + number % 400), kernel=f"kernel{number // 400}")

    # -- afterwards

    def checked(self) -> dict[str, Any]:
        """Everything that must hold now; the figures of the run."""
        queue, store = PostgresQueue(self.url), PostgresStore(self.url)
        try:
            until = time.monotonic() + PATIENCE
            while (counts := queue.counts())["queued"] or counts["running"]:
                assert time.monotonic() < until, counts
                time.sleep(0.2)
            again = 0
            for job, key in self.accepted.items():
                found = queue.get(job)
                assert found is not None, f"job {job} was accepted, and is lost"
                assert found.state == "done", found
                states = [json.loads(event.job)["state"] for event in queue.events(job)]
                assert states.count("done") == 1 and states[-1] == "done", states
                again += found.attempts > 1 or sum(pair == ("queued", "running") for pair in pairwise(states)) > 1
                entry = store.get(key)
                assert entry is not None and examine(entry, H100, proof=True) == ""
            twice = self.solved_at_once()
            assert twice == [], twice
            return {
                "accepted": len(self.accepted), "schedules": len(set(self.accepted.values())), "refused": self.refused,
                "kills": self.plan.kills, "database restarts": self.plan.restarts, "starts": len(self.past),
                "begun again": again, "lost": 0, "solved twice at once": 0,
            }  # fmt: skip
        finally:
            queue.close()
            store.close()

    def solved_at_once(self) -> list[str]:
        """Jobs that two workers had in work at the same time, by what the workers logged and when they died."""
        spans: dict[str, list[tuple[float, float]]] = {}
        for process in self.past:
            open_now: dict[str, float] = {}
            for line in process.log.read_text(encoding="utf-8").splitlines():
                said = json.loads(line) if line.startswith("{") and line.endswith("}") else {}
                if "job" not in said:
                    continue
                at = datetime.fromisoformat(said["time"]).timestamp()
                if said["message"] == "solve begins":
                    open_now[said["job"]] = at
                elif said["message"] in ("solve ended", "solve interrupted") and said["job"] in open_now:
                    spans.setdefault(said["job"], []).append((open_now.pop(said["job"]), at))
            for job, at in open_now.items():
                spans.setdefault(job, []).append((at, process.died or time.time()))
        return [job for job, times in spans.items() if overlap(sorted(times))]


def overlap(times: list[tuple[float, float]]) -> bool:
    """Whether one of the spans begins before the one in front of it has ended (0.05 s for clocks and logs)."""
    return any(later[0] < earlier[1] - 0.05 for earlier, later in zip(times, times[1:], strict=False))


def main() -> None:
    """The long form, with its figures as JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=20.0)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    plan = Plan(60 * given.minutes, given.kills, given.restarts, seed=given.seed)
    with tempfile.TemporaryDirectory() as directory:
        print(json.dumps(Soak(plan, Path(directory)).run(), indent=2))


if __name__ == "__main__":
    main()
