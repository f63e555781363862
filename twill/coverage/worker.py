"""The process that imports files: requests on standard input, answers on standard output, a line of JSON each.

A package is imported once for all of its files; every kernel goes through the pipeline in a child of this process.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import signal
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from types import FrameType
from typing import Any

from twill.coverage.attempt import Asked, apart, attempt
from twill.coverage.kernels import FoundKernel, kernels_of
from twill.coverage.outcome import AttemptOutcome, reason_of
from twill.exc import TwillError
from twill.kernel.importing import let_packages_stay, load

IMPORTS = 5  # limits that an import may take: the first of a package imports all of it
ROOMS = ("twill.codegen.emission", "twill.machine.file", "twill.solve.pipeline")


def main() -> None:
    """Answer until the input ends. {"list": FILE} -> its kernels; {"attempt": kernel, "key": ...} -> its outcome.

    An answer with "last" in it is the last: an import that was cut leaves packages behind that are none.
    """
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in (1, 2):
        os.dup2(nowhere, stream)  # whatever prints is no answer
    asked = Asked(**json.loads(sys.stdin.readline()))
    let_packages_stay()
    for room in ROOMS:  # once, and not in every child
        importlib.import_module(room)
    for line in sys.stdin:
        request = json.loads(line)
        answer = listed(request["list"], asked) if "list" in request else attempted(request, asked)
        answers.write(json.dumps(answer) + "\n")
        answers.flush()
        if "last" in answer:
            return


def listed(file: str, asked: Asked) -> dict[str, Any]:
    """The kernels of a file, or why it can't be imported."""
    try:
        with limited(IMPORTS * asked.limit):
            return {"kernels": [asdict(found) for found in kernels_of(load(file))]}
    except Exception as error:
        error = cut(error)
        outcome = AttemptOutcome(
            key="", file=file, kernel="", line=getattr(error, "line", 0), spec="", stage="import",
            code=error.exit_code if isinstance(error, TwillError) else 2,
            message=error.describe() if isinstance(error, TwillError) else f"{type(error).__name__}: {error}",
            reason=reason_of(error) if isinstance(error, TwillError) else str(error),
        )  # fmt: skip
        answer: dict[str, Any] = {"outcome": outcome.model_dump(mode="json")}
        return {**answer, "last": True} if isinstance(error, TimeoutError) else answer


def cut(error: Exception) -> Exception:
    """The TimeoutError that an import failed of, if it did; else the error itself."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, TimeoutError):
            return seen
        seen = seen.__cause__ or seen.__context__
    return error


def attempted(request: dict[str, Any], asked: Asked) -> dict[str, Any]:
    """What becomes of a kernel."""
    given = request["attempt"]
    found = FoundKernel(**{**given, "sig": tuple(given["sig"]), "const": tuple(given["const"])})
    loaded = load(found.file)
    work: Callable[[Callable[[str], None]], AttemptOutcome] = partial(attempt, found, loaded, asked, request["key"])
    return {"outcome": apart(found, request["key"], asked.patience(), work).model_dump(mode="json")}


@contextlib.contextmanager
def limited(seconds: float) -> Iterator[None]:
    """Raises TimeoutError after so many seconds."""

    def over(number: int, frame: FrameType | None) -> None:
        raise TimeoutError(f"importing the file takes more than {seconds:g} seconds")

    before = signal.signal(signal.SIGALRM, over)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


if __name__ == "__main__":
    main()
