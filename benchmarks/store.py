"""The store: how long a look-up takes at each level, and whether many processes at once lose anything.

    python benchmarks/store.py                       # everything, some minutes
    python benchmarks/store.py --processes 4 --operations 100 --lookups 500

Results go to `benchmarks/results/store-<date>.json` and a page beside it. `benchmarks/README.md` says what is measured.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import multiprocessing.queues
import os
import platform
import random
import socket
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also where twill is not installed

from twill.graph.extract import extract
from twill.machine.file import load_machine
from twill.schedule.key import KeyOptions, schedule_key
from twill.solve.pipeline import SolveOptions, solve
from twill.store.client import Client
from twill.store.http import HttpStore
from twill.store.interface import Entry
from twill.store.layered import LayeredStore
from twill.store.maintenance import keys, verify
from twill.store.memory import MemoryStore
from twill.store.sqlite import SqliteStore
from twill.store.validation import file

if TYPE_CHECKING:
    Words = multiprocessing.queues.Queue[str | None]

ROOT = Path(__file__).resolve().parent.parent
KERNEL = "examples/attention.py"
MACHINE = "h100"
ENTRIES = 200


@dataclass(frozen=True)
class Row:
    """Look-ups at one level, in microseconds. limit: what is promised of the median; None: nothing."""

    level: str
    count: int
    least: float
    median: float
    p99: float
    limit: float | None = None


@dataclass(frozen=True)
class Crowd:
    """Processes that read and write one file. wrong: reads that gave something else than was written."""

    processes: int
    operations: int
    keys: int
    seconds: float
    lost: int
    wrong: int
    bad: int


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0, or 1 if anything was lost or wrong."""
    options = parser().parse_args(arguments)
    entries = samples()
    with tempfile.TemporaryDirectory(prefix="twill-store-") as place:
        rows = [*local(Path(place) / "s", entries, options.lookups), *remote(Path(place), entries, options.lookups)]
        crowd = crowded(Path(place) / "crowd", entries[0], options.processes, options.operations)
    out = options.out or ROOT / "benchmarks" / "results" / f"store-{datetime.now(UTC).date()}.json"
    write(out, rows, crowd)
    sys.stdout.write(out.with_suffix(".md").read_text(encoding="utf-8"))
    return 1 if crowd.lost or crowd.wrong or crowd.bad else 0


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(prog="benchmarks/store.py", description=__doc__, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--lookups", type=int, default=10_000, help="look-ups at each level (default 10,000)")
    made.add_argument("--processes", type=int, default=16, help="that read and write at the same time (default 16)")
    made.add_argument("--operations", type=int, default=1000, help="of each of them (default 1,000)")
    made.add_argument("--out", type=Path, help="the JSON file of results")
    return made


def samples() -> list[Entry]:
    """Good entries: one schedule under the keys that it has with different seeds."""
    graph, machine = extract(str(ROOT / KERNEL))[1], load_machine(MACHINE)
    schedule = solve(graph, machine, SolveOptions())
    first, _ = file(schedule, graph, KeyOptions(), machine)
    return [renumbered(first, number, key_with(first, number)) for number in range(ENTRIES)]


def key_with(entry: Entry, seed: int) -> str:
    """The key of the entry with another seed."""
    assert entry.graph is not None
    return schedule_key(entry.graph, entry.machine_digest, KeyOptions(seed=seed))


def renumbered(entry: Entry, seed: int, key: str) -> Entry:
    """The entry as if it had been solved with another seed."""
    asked = KeyOptions(seed=seed)
    schedule = entry.schedule.model_copy(update={"key": key})
    update = {"key": key, "schedule": schedule, "schedule_digest": schedule.digest(), "asked": asked}
    return entry.model_copy(update=update)


# -- look-ups -----------------------------------------------------------------------------------


def timed(
    level: str, count: int, look_up: Callable[[str], object], entries: list[Entry], limit: float | None = None
) -> Row:
    """Look-ups of random keys, each timed by itself."""
    chance = random.Random(1)
    chosen = [chance.choice(entries).key for _ in range(count)]
    taken = []
    for key in chosen:
        begun = time.perf_counter_ns()
        found = look_up(key)
        taken.append((time.perf_counter_ns() - begun) / 1000)
        if found is None:
            raise SystemExit(f"{level}: {key} is not found")
    taken.sort()
    return Row(level, count, taken[0], taken[count // 2], taken[count * 99 // 100], limit)


def local(path: Path, entries: list[Entry], count: int) -> list[Row]:
    """Memory and SQLite."""
    machine = load_machine(MACHINE)
    store = SqliteStore(path)

    def put(entry: Entry) -> Entry:
        return store.put(entry.schedule, entry.graph, asked=entry.asked, machine=machine)

    new = iter(entries)
    puts = timed("SQLite, put with its check", len(entries), lambda _: put(next(new)), entries)
    memory = MemoryStore()
    for entry in entries:
        memory.hold(entry)
    layered = LayeredStore(memory, store)
    rows = [
        timed("memory", count, layered.get, entries, 5.0),
        timed("SQLite, the schedule", count, lambda key: store.get(key, graph=False), entries, 1000.0),
        timed("SQLite, the schedule and its graph", count, store.get, entries),
    ]
    with sqlite3.connect(path) as connection:
        connection.execute("UPDATE schedules SET checked = ''")
    connection.close()
    once = iter(entries)
    rows.append(
        timed(
            "SQLite, content that this checker has not seen", len(entries), lambda _: store.get(next(once).key), entries
        )
    )
    rows.append(puts)
    store.close()
    return rows


def remote(place: Path, entries: list[Entry], count: int) -> list[Row]:
    """The service on loopback, its store filled before it starts."""
    machine = load_machine(MACHINE)
    data = place / "service"
    filled = SqliteStore(data / "schedules.sqlite3")
    for entry in entries:
        filled.keep(entry, machine)
    filled.close()
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    words = [sys.executable, "-m", "twill", "serve", "--port", f"{port}", "--store", str(data), "--rate", "0"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    service = subprocess.Popen([*words, "--workers", "0", "--log-level", "error"], cwd=ROOT, **quiet)  # type: ignore[call-overload]
    try:
        wait_for(port)
        return served(f"http://127.0.0.1:{port}", entries, count)
    finally:
        service.terminate()
        service.wait()


def wait_for(port: int) -> None:
    """Until something listens."""
    end = time.monotonic() + 60
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def served(address: str, entries: list[Entry], count: int) -> list[Row]:
    """Look-ups at a service: the first of each entry, again, and again without what the client remembers."""
    store = HttpStore(Client(address))
    once = iter(entries)
    rows = [
        timed(
            "HTTP, content not seen before, with its check", len(entries), lambda _: store.get(next(once).key), entries
        )
    ]
    rows.append(timed("HTTP, known by its ETag", count, store.get, entries, 5000.0))

    def whole(key: str) -> object:
        store.client.known.clear()
        return store.client.schedule(key)

    rows.append(timed("HTTP, the entry sent and parsed", count, whole, entries, 5000.0))
    store.close()
    return rows


# -- many at once -------------------------------------------------------------------------------


def crowded(path: Path, entry: Entry, processes: int, operations: int) -> Crowd:
    """Processes that put, look up and write artifacts at random."""
    context = multiprocessing.get_context("spawn")
    names = [key_with(entry, seed) for seed in range(max(20, processes * operations // 10))]
    begun = time.monotonic()
    listed, wrong = context.Queue(), context.Queue()
    crowd = [
        context.Process(target=visit, args=(path, entry.canonical(), n, operations, names, listed, wrong))
        for n in range(processes)
    ]
    for one in crowd:
        one.start()
    written: set[str] = set()
    mistakes = 0
    alive = len(crowd)
    while alive:
        message = listed.get()
        if message is None:
            alive -= 1
        else:
            written.add(message)
    for one in crowd:
        one.join()
    while not wrong.empty():
        mistakes += 1
        wrong.get()
    seconds = time.monotonic() - begun
    store = SqliteStore(path)
    there = set(keys(store))
    bad = sum(1 for finding in verify(store) if finding.reason)
    store.close()
    return Crowd(processes, operations, len(there), seconds, len(written - there), mistakes, bad)


def visit(path: Path, text: str, number: int, operations: int, names: list[str], listed: Words, wrong: Words) -> None:
    """One process: as many operations, half of them writes."""
    entry, machine = Entry.parse(text), load_machine(MACHINE)
    chance = random.Random(number)
    store = SqliteStore(path, wait=120.0)
    for _ in range(operations):
        seed = chance.randrange(len(names))
        one = renumbered(entry, seed, names[seed])
        if chance.random() < 0.5:
            store.keep(one, machine)
            store.put_artifact(one.key, "a.cu", one.key.encode() * 50)
            listed.put(one.key)
            continue
        found = store.get(one.key)
        if found is not None and found.schedule != one.schedule:
            wrong.put(one.key)
        artifact = store.get_artifact(one.key, "a.cu")
        if artifact is not None and artifact != one.key.encode() * 50:
            wrong.put(one.key)
    store.close()
    listed.put(None)


# -- results ------------------------------------------------------------------------------------


def processor() -> str:
    """The processor's name, as far as the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def page(environment: Mapping[str, object], rows: list[Row], crowd: Crowd) -> str:
    """The results as a page."""
    lines = ["# Store", "", ", ".join(f"{name} {value}" for name, value in environment.items()), ""]
    lines += ["| look-up | count | least, µs | median, µs | p99, µs | promised median, µs |", "| --- |" + " ---: |" * 5]
    for row in rows:
        promised = "" if row.limit is None else f"{row.limit:,.0f}"
        lines.append(
            f"| {row.level} | {row.count:,} | {row.least:,.1f} | {row.median:,.1f} | {row.p99:,.1f} | {promised} |"
        )
    lines += [
        "",
        f"{crowd.processes} processes, {crowd.operations:,} operations each (half of them writes of a schedule and an"
        f" artifact), {crowd.seconds:.1f} s: {crowd.keys:,} keys written, {crowd.lost} lost, {crowd.wrong} wrong reads,"
        f" {crowd.bad} bad after all.",
        "",
    ]
    return "\n".join(lines)


def write(out: Path, rows: list[Row], crowd: Crowd) -> None:
    """The document and its page."""
    environment = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processor": processor(),
        "cores": os.cpu_count(),
        "load": os.getloadavg()[0],
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "kernel": KERNEL,
    }
    results = {"environment": environment, "lookups": [asdict(row) for row in rows], "crowd": asdict(crowd)}
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    out.with_suffix(".md").write_text(page(environment, rows, crowd), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
