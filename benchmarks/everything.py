"""Everything that is measured on a GPU, one thing after the other, in the time there is.

    python -m benchmarks.everything PLACE [--only gemm,memory] [--seconds 560] [--machine h200]
    python -m benchmarks.everything --list

What can be made without the GPU (emitting, compiling) is made beside the measurements, a few steps at once and at low
priority; measurements have the GPU to themselves, one at a time, in the order of the list. A step that would not end in
the time that is left is not begun, and what still runs at the end is ended. The same command goes on where the last one
stopped: PLACE/done.jsonl has a line for each step that ended, PLACE/log what it printed, PLACE/<name> what it made.
Exit code: 0 if everything is done, 1 if a step failed (it runs again the next time), 3 if the time was over first.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.everything_steps import MEASUREMENTS, Measurement, Step

ROOT = Path(__file__).resolve().parent.parent
TOGETHER = 3  # steps without the GPU that run at once; most of them have processes of their own
PATIENCE = 5.0  # seconds for a process that is told to end
FAILED, TIME_OVER = 1, 3


@dataclass(frozen=True)
class Numbered:
    """A step of a measurement. number: its place among the measurement's steps."""

    of: Measurement
    number: int

    @property
    def step(self) -> Step:
        """What is done."""
        return self.of.steps[self.number]

    @property
    def name(self) -> str:
        """As it is recorded."""
        return f"{self.of.name}.{self.number}"


@dataclass
class Run:
    """What is under way. place: the folder. machine: a name for steps that emit. until: on the monotonic clock.

    ended: exit codes by name of step, those of earlier commands with 0 among them.
    """

    place: Path
    machine: str
    until: float
    ended: dict[str, int] = field(default_factory=dict)
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)
    changed: threading.Condition = field(default_factory=threading.Condition)
    over: bool = False

    def remaining(self) -> float:
        """Seconds."""
        return self.until - time.monotonic()

    def next_of(self, asked: Sequence[Measurement], *, gpu: bool) -> Numbered | None:
        """The first step that may begin: those before it are done, it has the time, and nobody has begun it."""
        for measurement in asked:
            following = self.following(measurement)
            if following is None or following.step.gpu != gpu or following.name in self.running:
                continue
            if following.step.seconds <= self.remaining():
                return following
        return None

    def following(self, measurement: Measurement) -> Numbered | None:
        """The step of a measurement that is due; None if all are done or one has failed."""
        for number in range(len(measurement.steps)):
            step = Numbered(measurement, number)
            if self.ended.get(step.name) != 0:
                return None if step.name in self.ended else step
        return None

    def take(self, asked: Sequence[Measurement], *, gpu: bool) -> Numbered | None:
        """Begin the next step of a kind as soon as there is one; None if none comes any more."""
        with self.changed:
            while not self.over:
                found = self.next_of(asked, gpu=gpu)
                if found is not None:
                    self.running[found.name] = self.started(found)
                    return found
                if not self.may_come(asked, gpu=gpu):
                    return None
                self.changed.wait(1.0)
        return None

    def may_come(self, asked: Sequence[Measurement], *, gpu: bool) -> bool:
        """Whether a step that runs, or that another thread may begin, has one of this kind behind it."""
        for measurement in asked:
            due = self.following(measurement)
            if due is None or not any(step.gpu == gpu for step in measurement.steps[due.number + 1 :]):
                continue
            if due.name in self.running or (due.step.gpu != gpu and due.step.seconds <= self.remaining()):
                return True
        return False

    def started(self, what: Numbered) -> subprocess.Popen[bytes]:
        """Its process, in a group of its own; what it prints goes into its log."""
        folder = self.place / what.of.name
        folder.mkdir(parents=True, exist_ok=True)
        log = self.place / "log" / f"{what.name}.txt"
        log.parent.mkdir(exist_ok=True)
        words = shlex.split(what.step.words.format(place=shlex.quote(str(folder)), machine=self.machine))
        words = [sys.executable, "-u", *words[1:]] if words[0] == "python" else words
        low = [] if what.step.gpu else ["nice", "-n", "10"]
        with log.open("wb") as to:
            return subprocess.Popen([*low, *words], cwd=ROOT, stdout=to, stderr=to, start_new_session=True)

    def work(self, asked: Sequence[Measurement], *, gpu: bool) -> None:
        """One step of a kind after the other."""
        while (what := self.take(asked, gpu=gpu)) is not None:
            began = time.monotonic()
            code = self.running[what.name].wait()
            with self.changed:
                del self.running[what.name]
                if not self.over:
                    self.note(what, code, time.monotonic() - began)
                self.changed.notify_all()

    def note(self, what: Numbered, code: int, seconds: float) -> None:
        """A step ended by itself."""
        self.ended[what.name] = code
        line = {"step": what.name, "code": code, "seconds": round(seconds, 1), "words": what.step.words}
        with (self.place / "done.jsonl").open("a") as record:
            record.write(json.dumps(line) + "\n")
        print(f"{what.name}: exit code {code}, {seconds:.0f} s ({what.step.seconds} expected)", flush=True)

    def end(self) -> None:
        """What runs is ended; it begins anew the next time."""
        with self.changed:
            self.over = True
            processes = list(self.running.values())
            self.changed.notify_all()
        for number in (signal.SIGTERM, signal.SIGKILL):
            for process in processes:
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
            until = time.monotonic() + PATIENCE
            for process in processes:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(max(0.0, until - time.monotonic()))


def done_before(place: Path) -> Iterator[str]:
    """Steps that ended with 0 in earlier commands; a line that was cut off in the middle is none."""
    with contextlib.suppress(FileNotFoundError):
        for line in (place / "done.jsonl").read_text().splitlines():
            with contextlib.suppress(ValueError):
                entry = json.loads(line)
                if entry["code"] == 0:
                    yield entry["step"]


def run(asked: Sequence[Measurement], place: Path, machine: str, seconds: float) -> int:
    """Measure in the time there is; the exit code."""
    place.mkdir(parents=True, exist_ok=True)
    under_way = Run(place, machine, time.monotonic() + seconds, dict.fromkeys(done_before(place), 0))
    kinds = [True] + [False] * TOGETHER
    threads = [threading.Thread(target=under_way.work, args=(asked,), kwargs={"gpu": gpu}) for gpu in kinds]
    for thread in threads:
        thread.start()
    try:
        while any(thread.is_alive() for thread in threads) and under_way.remaining() > 0:
            time.sleep(0.05)
    finally:
        under_way.end()
        for thread in threads:
            thread.join()
    return told(asked, under_way)


def told(asked: Iterable[Measurement], ended: Run) -> int:
    """What is left, printed; the exit code."""
    failed = [name for name, code in ended.ended.items() if code]
    left = [due.name for one in asked if (due := ended.following(one)) is not None]
    if failed:
        print(f"failed (PLACE/log has what they printed): {', '.join(failed)}")
    if left:
        print(f"left for the next time: {', '.join(left)}")
    return FAILED if failed else TIME_OVER if left else 0


def chosen(only: str) -> tuple[Measurement, ...]:
    """The measurements whose names are in `only`, in the order of the list; all if it is empty. Errors: ValueError."""
    names = {name for name in only.split(",") if name}
    unknown = names - {one.name for one in MEASUREMENTS}
    if unknown:
        raise ValueError(f"no measurement is called {', '.join(sorted(unknown))}; --list has their names")
    return tuple(one for one in MEASUREMENTS if not names or one.name in names)


def main(words: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser("python -m benchmarks.everything", description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("place", nargs="?", type=Path, metavar="PLACE")
    parser.add_argument("--list", action="store_true", help="names, seconds and commands")
    parser.add_argument("--only", default="", help="some of them, by name: a,b")
    parser.add_argument("--seconds", type=float, default=3600.0, help="for everything (default 3600)")
    parser.add_argument("--machine", default="h200", help="for what is emitted (default h200)")
    arguments = parser.parse_args(words)
    try:
        asked = chosen(arguments.only)
    except ValueError as error:
        parser.error(str(error))
    if arguments.list:
        for one in asked:
            print(f"{one.name}: {one.about}")
            for step in one.steps:
                print(f"  {step.seconds:4} s {'GPU' if step.gpu else '   '} {step.words}")
        return 0
    if arguments.place is None:
        parser.error("a folder is missing (or --list)")
    return run(asked, arguments.place, arguments.machine, arguments.seconds)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
