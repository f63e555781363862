"""`twill coverage PATH|PACKAGE`: what would become of every kernel, ranked by reason (docs/coverage.md)."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from twill.cli import codes
from twill.cli.complaint import complain

if TYPE_CHECKING:
    from twill.coverage.outcome import AttemptOutcome, Stage

EVERY = 5.0  # seconds between two lines of progress
SHOWN = 3  # kernels that are named for each reason


def coverage(arguments: Namespace) -> int:
    """Print the ranking, or with --json every outcome. The exit code is 0 whatever becomes of the kernels."""
    from twill import exc
    from twill.cli.output import refuse_directory
    from twill.coverage.attempt import Asked
    from twill.coverage.survey import Survey, files_of, survey
    from twill.machine.file import load_machine

    load_machine(arguments.machine)
    files = files_of(arguments.name)
    if not files:
        raise exc.NoKernel("no file there mentions Triton's jit", file=arguments.name, hint="a path with kernels")
    results = Path(arguments.results) if arguments.results is not None else None
    known = read_results(results) if results is not None and results.is_file() else ()
    if (arguments.keep is not None or arguments.execute) and not arguments.emit:
        raise exc.NothingToKeep("--keep leaves" if arguments.keep is not None else "--execute executes")
    if arguments.keep is not None:
        refuse_directory(Path(arguments.keep))
    asked = Asked(
        arguments.machine, arguments.emit or 0.0, arguments.limit, arguments.keep or "", execute=arguments.execute
    )
    jobs = arguments.jobs or os.cpu_count() or 1
    given = Survey(files, asked, jobs, arguments.sample, arguments.seed, arguments.only, known)
    with retained(results, {one.key for one in known}) as keep:
        outcomes = survey(given, telling(keep))
    if arguments.json:
        print(json.dumps([one.model_dump(mode="json") for one in outcomes]))
    else:
        print("\n".join(report(outcomes, Path.cwd())))
    return codes.SOLVED


def read_results(path: Path) -> tuple[AttemptOutcome, ...]:
    """The outcomes of earlier runs; a last line that was cut is left out. Raises MalformedResults."""
    from pydantic import ValidationError

    from twill import exc
    from twill.coverage.outcome import AttemptOutcome

    found = []
    lines = path.read_text(encoding="utf-8").split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            found.append(AttemptOutcome.model_validate_json(line))
        except ValidationError:
            raise exc.MalformedResults(file=str(path), line=number) from None
    return tuple(found)


@contextlib.contextmanager
def retained(path: Path | None, known: set[str]) -> Iterator[Callable[[AttemptOutcome], None]]:
    """A function that appends outcomes to a file, a whole line at a time, but for those that are there already."""
    from twill.cli.output import refuse_file, reporting

    if path is None:
        yield lambda outcome: None
        return
    refuse_file(path)
    with reporting(path), path.open("a+b") as file:
        file.seek(0)
        whole = file.read()
        file.truncate(whole.rfind(b"\n") + 1)

        def keep(outcome: AttemptOutcome) -> None:
            if outcome.key and outcome.key not in known:
                file.write(outcome.model_dump_json().encode() + b"\n")
                file.flush()

        yield keep


def telling(keep: Callable[[AttemptOutcome], None]) -> Callable[[int, int, AttemptOutcome], None]:
    """Keeps every outcome, and says how many there are now and then."""
    last = time.monotonic()

    def notify(done: int, total: int, outcome: AttemptOutcome) -> None:
        nonlocal last
        keep(outcome)
        if time.monotonic() - last > EVERY:
            last = time.monotonic()
            complain(f"twill: {done} of {total}: {outcome.kernel or outcome.file} {outcome.stage}")
            sys.stderr.flush()

    return notify


STAGES: tuple[tuple[Stage, str], ...] = (
    ("import", "files that can't be imported"),
    ("triton", "kernels that Triton does not compile as specialized"),
    ("extraction", "refused at extraction"),
    ("solve", "without a schedule"),
    ("emission", "refused at emission"),
    ("execution", "wrong, or not executed, on the CPU"),
)


def report(outcomes: Sequence[AttemptOutcome], here: Path) -> Iterator[str]:
    """The ranking, for people. Shares are of the kernels that Triton compiles."""
    from twill.coverage.outcome import BUG, REACHED, compiled, counted, ranked

    tried = compiled(outcomes)
    counts = counted(outcomes)
    kernels = sum(1 for one in outcomes if one.kernel)
    guessed = sum(1 for one in tried if one.spec == "guessed")
    yield f"{kernels} kernels, {len(tried)} of which Triton compiles ({guessed} as guessed)"
    for stage in REACHED:
        if stage in counts:
            yield f"{counts[stage]:6} {stage:10} {share(counts[stage], len(tried))}"
    if spilling := sum(1 for one in outcomes if one.spilled and one.stage == "emitted"):
        yield f"{spilling:8} of them spill registers"
    bugs = [one for one in outcomes if one.code == BUG]
    for stage, words in STAGES:
        if stage not in counts:
            continue
        of = f" {share(counts[stage], len(tried))}" if stage not in ("import", "triton") else ""
        yield f"{counts[stage]:6} {words}{of}"
        for reason, those in ranked(outcomes, stage):
            yield f"{len(those):8} {reason}"
            if stage not in ("import", "triton"):
                names = ", ".join(dict.fromkeys(one.kernel for one in those[:SHOWN]))
                yield f"         {names}{', ...' if len(those) > SHOWN else ''}"
    for one in bugs:
        place = os.path.relpath(one.file, here)
        yield f"exit code {BUG}: {place}::{one.kernel} at {one.stage}: {one.message}"


def share(part: int, whole: int) -> str:
    """A percentage."""
    return f"{100 * part / whole:.0f} %" if whole else ""
