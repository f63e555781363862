"""Children that measure rows, each ended and begun again without the culprit if one of its steps takes too long."""

from __future__ import annotations

import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.kernels.measure import Effort
from benchmarks.kernels.record import Entry, entry_of
from benchmarks.kernels.tables import ROOT, Row

CHILD = (sys.executable, "-m", "benchmarks.kernels.child")
ANYONE = ("", "reference")


@dataclass
class Supervisor:
    """How rows are measured. limit: seconds of one step of a child. until: moment (`time.monotonic`) after which no row
    begins. tell: gets one line for people now and then."""

    emitted: str
    effort: Effort
    limit: float = 90.0
    until: float = float("inf")
    seed: int = 0
    command: Sequence[str] = CHILD
    tell: Callable[[str], None] = print
    environment: dict[str, str] = field(default_factory=dict)

    def entries(self, rows: Sequence[Row]) -> Iterator[Entry]:
        """The rows as they are done. Rows that nobody can compute, or that fail as a whole, are told and left out."""
        left = list(rows)
        without: dict[str, dict[str, str]] = {}
        while left and time.monotonic() < self.until:
            culprit: tuple[str, str, str] | None = None
            for said in self._child(left, without):
                if "entry" in said:
                    entry = entry_of(said["entry"])
                    left = [row for row in left if row.key != entry.key]
                    yield entry
                elif "skipped" in said:
                    self.tell(f"{said['skipped']}: {said['why']}")
                    left = [row for row in left if row.key != said["skipped"]]
                elif "failed" in said:
                    culprit = tuple(said["failed"])
            if culprit is None:
                return
            left = self._after(culprit, left, without)

    def _after(self, culprit: tuple[str, str, str], left: list[Row], without: dict[str, dict[str, str]]) -> list[Row]:
        """What is left to do once a child has failed: the row without who failed, or no such row."""
        key, name, why = culprit
        self.tell(f"{key}: {name or 'the row'}: {why}")
        if not name or name in without.get(key, {}):
            return [row for row in left if row.key != key]
        without.setdefault(key, {})[name] = why
        return left

    def _child(self, rows: list[Row], without: Mapping[str, Mapping[str, str]]) -> Iterator[dict[str, Any]]:
        """What one child says; last {"failed": [row, contestant, why]} if it did not end well."""
        process = subprocess.Popen(
            self.command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT
        )
        lines, complaints = Lines(process.stdout), Lines(process.stderr)
        assert process.stdin is not None
        task = {"rows": [asdict(row) for row in rows], "emitted": self.emitted, "effort": asdict(self.effort)}
        process.stdin.write(json.dumps({**task, "without": without, "seed": self.seed}))
        process.stdin.close()
        at = (rows[0].key, "", "start")
        why = ""
        while True:
            try:
                line = lines.queue.get(timeout=self.limit)
            except queue.Empty:
                why = f"no end of '{at[2]}' after {self.limit:g} s"
                break
            if line is None:
                process.wait()
                why = f"exit code {process.returncode}: {complaints.last_words()}" if process.returncode else ""
                break
            if not line.startswith("{"):
                continue
            said = json.loads(line)
            if "environment" in said:
                self.environment = said["environment"]
            elif "at" in said:
                at = tuple(said["at"])
                if at[2] == "begin" and time.monotonic() > self.until:
                    break
            else:
                yield said
        process.kill()
        process.wait()
        lines.close()
        complaints.close()
        if why:
            yield {"failed": [at[0], at[1], why]}


class Lines:
    """Lines of a stream as they come, None at its end; read by a thread."""

    def __init__(self, stream: Any) -> None:
        self.queue: queue.Queue[str | None] = queue.Queue()
        self.stream = stream
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def last_words(self) -> str:
        """Of a stream that has ended."""
        self.thread.join()
        words = "".join(line for line in self.queue.queue if line)
        return " ".join(words.split())[-300:]

    def close(self) -> None:
        """Once the other end is closed."""
        self.thread.join()
        self.stream.close()

    def _read(self) -> None:
        for line in self.stream:
            self.queue.put(line)
        self.queue.put(None)
