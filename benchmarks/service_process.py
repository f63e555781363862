"""A `twill serve` of the benchmark's own, which it may kill."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PATIENCE = 60.0


class Served:
    """The service with its data in a directory. log: what it says, over all its starts."""

    def __init__(self, directory: Path, workers: int, *options: str) -> None:
        self.log = directory / "serve.log"
        self.log.touch()
        self.command = [
            sys.executable, "-m", "twill", "serve", "--port", "0", "--rate", "0", "--store", str(directory),
            "--workers", str(workers), *options,
        ]  # fmt: skip
        self.process: subprocess.Popen[bytes] | None = None
        self.place = 0

    def start(self) -> None:
        """Start, and wait until it listens."""
        begun = self.log.stat().st_size
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(self.command, cwd=ROOT, stderr=log)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until and self.process.poll() is None:
            with self.log.open("rb") as said:
                said.seek(begun)
                found = re.search(rb"twill serves on http://127.0.0.1:(\d+)", said.read())
            if found:
                self.place = int(found[1])
                return
            time.sleep(0.05)
        raise AssertionError(f"the service did not start: {self.log.read_text(encoding='utf-8')[-2000:]}")

    def port(self) -> int:
        """Where it listens now; it changes with every start."""
        return self.place

    def kill(self) -> None:
        """SIGKILL to the service alone: its solves must end by themselves."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def kill_a_worker(self, chance: random.Random) -> bool:
        """SIGKILL to one of the processes that it started (solves, and what they are forked from), if there is any."""
        assert self.process is not None
        found = descendants(self.process.pid)
        if found:
            with suppress(ProcessLookupError):  # it has just ended by itself
                os.kill(chance.choice(found), signal.SIGKILL)
        return bool(found)

    def stop(self) -> None:
        """End it in order."""
        assert self.process is not None
        self.process.terminate()
        self.process.wait(PATIENCE)


def descendants(process: int) -> list[int]:
    """The processes that one has started, and those that they have started, in that order."""
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{process}/task"):
            found += map(int, Path(f"/proc/{process}/task/{thread}/children").read_text(encoding="utf-8").split())
    except OSError:
        return []
    return found + [one for child in found for one in descendants(child)]


def megabytes(process: int) -> float:
    """The most memory that a process has had."""
    words = Path(f"/proc/{process}/status").read_text(encoding="utf-8").split()
    return round(int(words[words.index("VmHWM:") + 1]) / 1024, 1)
