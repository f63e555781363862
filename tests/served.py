"""A real `twill serve` in a process of its own, which tests may kill."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType

import httpx

from tests.conftest import ROOT

PATIENCE = 300.0


class Served:
    """`twill serve` with its data in a directory, on a free port. log: its error stream, all starts together."""

    def __init__(self, directory: Path, *options: str) -> None:
        self.directory = directory
        self.options = options
        self.log = directory / "serve.log"
        self.process: subprocess.Popen[bytes] | None = None
        self.client = httpx.Client()

    def __enter__(self) -> Served:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.kill()
        self.client.close()

    def start(self) -> None:
        """Start, and wait until it answers."""
        begun = self.log.stat().st_size if self.log.exists() else 0
        command = [sys.executable, "-m", "twill", "serve", "--port", "0", "--rate", "0", "--store", str(self.directory)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self.options], cwd=ROOT, env={**os.environ, "PYTHONWARNINGS": "error"}, stderr=log
            )
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            said = self.log.read_text(encoding="utf-8")[begun:]
            place = re.search(r"twill serves on (http://[^ ]+)", said)
            if place:
                self.client.close()
                self.client = httpx.Client(base_url=place[1], timeout=PATIENCE)
                assert self.client.get("/healthz").status_code == 200
                return
            assert self.process.poll() is None, said
            time.sleep(0.05)
        raise AssertionError("the service did not start")

    def kill(self) -> None:
        """End it as nothing in it can prevent."""
        self.end(signal.SIGKILL)

    def end(self, number: signal.Signals) -> int:
        """Send a signal and wait; the exit code."""
        assert self.process is not None
        if self.process.poll() is None:
            self.process.send_signal(number)
        return self.process.wait(PATIENCE)

    def children(self) -> set[int]:
        """The processes that it started, and those that they started."""
        assert self.process is not None
        found: set[int] = set()
        new = {self.process.pid}
        while new:
            new = {child for parent in new for child in children_of(parent)} - found
            found |= new
        return found


def children_of(process: int) -> list[int]:
    """The processes that one has started."""
    try:
        words = Path(f"/proc/{process}/task/{process}/children").read_text(encoding="utf-8").split()
        threads = os.listdir(f"/proc/{process}/task")
        for thread in threads:
            if int(thread) != process:
                words += Path(f"/proc/{process}/task/{thread}/children").read_text(encoding="utf-8").split()
    except OSError:
        return []
    return [int(word) for word in words]
