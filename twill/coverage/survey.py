"""All kernels of a path or package, by several workers, with what is known already left out."""

from __future__ import annotations

import hashlib
import json
import random
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import triton

from twill.coverage.attempt import Asked
from twill.coverage.kernels import FoundKernel
from twill.coverage.outcome import AttemptOutcome
from twill.exc import FileMissing
from twill.kernel.modules import file_of
from twill.kernel.sidecar import sidecar_path
from twill.runtime.variant import compiler

KERNELS = re.compile(rb"\bjit\b")
Tell = Callable[[int, int, AttemptOutcome], None]


@dataclass(frozen=True)
class Survey:
    """What to look at. sample: so many kernels, drawn with `seed`; None: all. only: a pattern of kernels' names. known:
    outcomes of earlier runs."""

    files: tuple[str, ...]
    asked: Asked
    jobs: int = 1
    sample: int | None = None
    seed: int = 0
    only: str = ""
    known: tuple[AttemptOutcome, ...] = ()


def files_of(name: str) -> tuple[str, ...]:
    """The files with kernels under a path, or of an importable package. Raises FileMissing."""
    place = Path(file_of(name))
    if place.name == "__init__.py" and not Path(name).exists():
        place = place.parent
    if not place.exists():
        raise FileMissing(name, "neither a file or folder nor an importable package", "a path, or a package's name")
    found = sorted(place.rglob("*.py")) if place.is_dir() else [place]
    return tuple(str(path) for path in found if path.is_file() and has_kernels(path.read_bytes()))


def has_kernels(source: bytes) -> bool:
    """Whether a file may define kernels, by its text."""
    return b"triton" in source and KERNELS.search(source) is not None


def survey(given: Survey, notify: Tell) -> list[AttemptOutcome]:
    """Every outcome, in the order of files. notify: called with how many are done, of how many, and the newest.

    Outcomes that are known are told and given back too.
    """
    workers: list[_Worker] = []
    try:
        return _survey(given, notify, workers)
    finally:
        for worker in workers:
            worker.close()


def _survey(given: Survey, notify: Tell, workers: list[_Worker]) -> list[AttemptOutcome]:
    """workers: idle ones; those that list the kernels try them too."""
    done: list[AttemptOutcome] = []
    lock = threading.Lock()
    listing: list[tuple[int, dict[str, Any]]] = []

    def note(outcome: AttemptOutcome, total: int) -> None:
        with lock:
            done.append(outcome)
            notify(len(done), total, outcome)

    files = [{"list": file} for file in given.files]
    _spread(given, files, lambda at, answer: listing.append((at, answer)), workers)
    kernels: list[FoundKernel] = []
    for _, answer in sorted(listing, key=lambda one: one[0]):
        if "outcome" in answer:
            note(AttemptOutcome.model_validate(answer["outcome"]), len(given.files))
        kernels.extend(_found(one) for one in answer.get("kernels", ()))
    kernels = chosen(kernels, given)
    keys = [key_of(found, given.asked) for found in kernels]
    known = {one.key: one for one in given.known}
    total = len(done) + len(kernels)
    for key in keys:
        if key in known:
            note(known[key], total)
    left = [
        {"attempt": asdict(found), "key": key} for found, key in zip(kernels, keys, strict=True) if key not in known
    ]
    _spread(given, left, lambda at, answer: note(AttemptOutcome.model_validate(answer["outcome"]), total), workers)
    return sorted(done, key=lambda one: (one.file, one.line, one.kernel, one.spec))


def chosen(kernels: Sequence[FoundKernel], given: Survey) -> list[FoundKernel]:
    """Those whose names fit; of them a sample, in their order."""
    fitting = [found for found in kernels if re.search(given.only, found.kernel)]
    if given.sample is None or given.sample >= len(fitting):
        return fitting
    drawn = set(random.Random(given.seed).sample(range(len(fitting)), given.sample))
    return [found for number, found in enumerate(fitting) if number in drawn]


def key_of(found: FoundKernel, asked: Asked) -> str:
    """Of an outcome: all that decides it."""
    sidecar = Path(sidecar_path(found.file))
    parts = (
        found.kernel, found.spec, Path(found.file).read_bytes().hex(), sidecar.read_text() if sidecar.is_file() else "",
        asked.machine, asked.emit, asked.keep, asked.execute, compiler(triton.__version__), guesser(),
    )  # fmt: skip
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def guesser() -> str:
    """A hash of how specializations are guessed."""
    here = Path(__file__).parent
    parts = ("guess.py", "kernels.py", "source.py")
    return hashlib.sha256(b"".join((here / name).read_bytes() for name in parts)).hexdigest()


def _found(given: dict[str, Any]) -> FoundKernel:
    return FoundKernel(**{**given, "sig": tuple(given["sig"]), "const": tuple(given["const"])})


def _spread(
    given: Survey, requests: Sequence[dict[str, Any]], answer: Callable[[int, dict[str, Any]], None],
    workers: list[_Worker],
) -> None:  # fmt: skip
    """Every request to some worker; `answer(number, what it said)` is called from threads, one at a time. workers: idle
    ones, before and afterwards."""
    todo: SimpleQueue[tuple[int, dict[str, Any]]] = SimpleQueue()
    for one in enumerate(requests):
        todo.put(one)
    lock = threading.Lock()
    failures: list[BaseException] = []

    def serve() -> None:
        worker = None
        try:
            while not failures:
                at, request = todo.get_nowait()
                worker = worker or _idle(workers) or _Worker(given.asked)
                said = worker.ask(request)
                if said is None:  # the process is gone
                    worker = None
                    said = {"outcome": _died(request).model_dump(mode="json")}
                elif said.pop("last", False):
                    worker.close()
                    worker = None
                with lock:
                    answer(at, said)
        except Empty:
            pass
        except BaseException as error:
            failures.append(error)
        finally:
            if worker is not None:
                workers.append(worker)

    threads = [threading.Thread(target=serve, daemon=True) for _ in range(min(given.jobs, len(requests)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failures:
        raise failures[0]


def _idle(workers: list[_Worker]) -> _Worker | None:
    """One of them, which is none of them any more."""
    try:
        return workers.pop()
    except IndexError:
        return None


def _died(request: dict[str, Any]) -> AttemptOutcome:
    """The outcome where even the worker did not survive: importing the file ended its process."""
    found = request.get("attempt", {})
    file = str(request.get("list") or found.get("file"))
    why = "importing the file ended the process"
    return AttemptOutcome(
        key=request.get("key", ""), file=file, kernel=found.get("kernel", ""), line=found.get("line", 0),
        spec=found.get("spec", ""), stage="import", code=2, message=f"{file}: {why}", reason=why,
    )  # fmt: skip


class _Worker:
    """A process of `twill.coverage.worker`."""

    def __init__(self, asked: Asked) -> None:
        command = [sys.executable, "-m", "twill.coverage.worker"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.send(asdict(asked))

    def send(self, line: dict[str, Any]) -> None:
        """One line."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(line) + "\n")
        self.process.stdin.flush()

    def ask(self, request: dict[str, Any]) -> dict[str, Any] | None:
        """The answer; None if the process is gone."""
        assert self.process.stdout is not None
        try:
            self.send(request)
            line = self.process.stdout.readline()
        except BrokenPipeError:
            line = ""
        if not line:
            self.close()
            return None
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                stream.close()
