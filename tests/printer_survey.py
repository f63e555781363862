"""Seeded faults of printer and headers: how many of them are found without a GPU.

    python -m tests.printer_survey run RECORD [--jobs N] [--kind KIND ...] [--name NAME ...] [--seconds S]
    python -m tests.printer_survey table RECORD

`run` prints each program of `tests.printer_mutations` right and with each of its faults, compiles the text and executes
the PTX (`twill.trial.execute`). It writes a line for each fault to RECORD as soon as it is known, and goes on
where RECORD ends. `table` is that of docs/seeded-faults.md.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cache, lru_cache, partial
from math import prod
from multiprocessing import get_context
from pathlib import Path
from types import FrameType
from typing import Any

import numpy as np
from cuda.bindings import nvrtc as bindings

from tests import run_cache
from tests.golden_schedules import examples, kernel, machine, schedule
from tests.printer_edits import mutated, printed
from tests.printer_mutations import CAUSAL, MUTATIONS, Mutation
from twill import exc
from twill.codegen.compile import nvrtc
from twill.codegen.compile.facts import read_facts, refuse
from twill.codegen.compile.listing import read_ptx
from twill.codegen.emission import Extracted, extract
from twill.codegen.emit import emit
from twill.codegen.lowering import lower
from twill.codegen.manifest import make_manifest
from twill.codegen.print.cuda.printer import Printed
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launch, launches, most_iterations, sidecar_problem
from twill.codegen.verify.abstract.reached import looked_into
from twill.codegen.warp.program import WarpProgram
from twill.manifest.document import Manifest
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.program import TileProgram
from twill.trial.execute import launchable, verified

CLEAN = "clean"  # the kind of a right program
FOUND, MISSED, UNCHANGED = "found", "missed", "unchanged"
SLOWER = 3  # times as long as the right program, and PATIENCE: it does not end
LARGER = {CAUSAL: ({"Z": 1, "H": 35, "N_CTX": 256},)}  # more heads than are walked together
PATIENCE = 60  # seconds


@dataclass(frozen=True)
class Line:
    """What became of a fault. program: the first that showed it. by: what found it. text: a digest of the fault."""

    kind: str
    name: str
    program: str
    verdict: str
    by: str = ""
    what: str = ""
    seconds: float = 0.0
    text: str = ""


# ---------------------------------------------------------------- programs
@dataclass(frozen=True)
class Case:
    """A right program. launches: that its text is executed with, the least work first. seconds: that they take."""

    program: WarpProgram
    manifest: Manifest
    ptx: str
    launches: tuple[CheckedLaunch, ...]
    seconds: float


@cache
def extracted(name: str) -> Extracted:
    """An example, or a kernel of `tests/printer_kernels.py`."""
    for example in examples():
        if example.name == name:
            return kernel(example)
    own, spec = name.split("_", 1)
    return extract(f"tests/printer_kernels.py::{own}", spec)


@cache
def lowered(name: str) -> WarpProgram:
    """From the kept schedule; from a quick one the first that the compiler builds without spills."""
    for example in examples():
        if example.name == name:
            return lower(extracted(name).program, schedule(example), machine())
    found = solve(extracted(name).graph, machine(), SolveOptions(strategy="heuristic", fuse=False))
    return emit(extracted(name).wired, extracted(name).specialization, found, machine()).program


@cache
def case(name: str) -> Case:
    """AssertionError: the right program is refused."""
    program = lowered(name)
    made, text = printed(program)
    manifest = make_manifest(
        program,
        extracted(name).specialization,
        architecture=machine().architecture,
        entry=made.function,
        threads=made.threads,
        cubin=b"",
        schedule="",
    )
    made_up = [any_integers(program.program, one) for one in (*launches(program), *own_cases(program))]
    possible = sorted(filter(partial(launchable, manifest), made_up), key=partial(work, program))
    given = Case(program, manifest, "", tuple(possible), 0.0)
    begin = time.perf_counter()
    outcome = examined(given, made, text)
    assert outcome == ("", ""), (name, outcome)
    return replace(given, ptx=translated(text), seconds=time.perf_counter() - begin)


def own_cases(program: WarpProgram) -> list[CheckedLaunch]:
    """Launches at the sizes that a kernel of `tests/printer_kernels.py` is run at, and at LARGER ones."""
    tile, problem = program.program, sidecar_problem(program.program)
    if problem is None:
        return []
    sizes = problem.run if "printer_kernels" in tile.file else LARGER.get(f"{tile.kernel}_{tile.spec}", ())
    return [launch(tile, problem.case(one)) for one in sizes]


def any_integers(program: TileProgram, launch: CheckedLaunch) -> CheckedLaunch:
    """With integers of their type's whole range, but for those that are addresses."""
    random = np.random.default_rng(5)
    arrays = {
        name: random.integers(np.iinfo(array.dtype).min, np.iinfo(array.dtype).max, array.shape, array.dtype, True)
        if array.dtype.kind == "i" and name not in looked_into(program)
        else array
        for name, array in launch.arrays.items()
    }
    return replace(launch, arrays=arrays)


def work(program: WarpProgram, launch: CheckedLaunch) -> int:
    """Iterations of the longest loop times program instances, about."""
    return prod(launch.grid) * (1 + most_iterations(program.program, launch))


def ctas(launch: CheckedLaunch) -> int:
    """Some that the program instances cannot be dealt to evenly."""
    return 2 if prod(launch.grid) % 2 else 3


def examined(given: Case, made: Printed, text: str) -> tuple[str, str] | None:
    """What finds a fault in the text, and what it says; ("", "") if nothing does, None if the PTX is the right one. The
    assembler comes last: it takes longer than everything else."""
    try:
        ptx = translated(text)
    except exc.TwillError as refused:
        return "compiler", str(refused)[:200]
    if ptx == given.ptx:
        return None
    for one in given.launches:
        found = verified(ptx, given.manifest, given.program, one, ctas(one))
        if found.findings:
            return found.findings[0].rule, found.findings[0].describe()[:200]
        if found.differences:
            return "values", found.differences[0][:200]
    try:
        _, ptx, log = nvrtc._nvrtc(text, machine().architecture, {})
        refuse(read_facts(log, read_ptx(ptx)), made.lines)
    except exc.TwillError as refused:
        return "compiler", str(refused)[:200]
    return "", ""


@lru_cache(maxsize=4)
def translated(text: str) -> str:
    """CUDA to PTX. Errors: CudaRejected."""
    options = [f"--gpu-architecture={machine().architecture.replace('sm', 'compute')}", "-std=c++17", "-lineinfo"]
    return run_cache.made_by_nvrtc("ptx", (text, options), lambda: _translated(text, options))


def _translated(text: str, options: list[str]) -> str:
    program = bindings.nvrtcCreateProgram(text.encode(), b"twill", 0, [], [])[1]
    (code,) = bindings.nvrtcCompileProgram(program, len(options), [option.encode() for option in options])
    if int(code):
        raise exc.CudaRejected(_filled(program, bindings.nvrtcGetProgramLogSize, bindings.nvrtcGetProgramLog))
    return _filled(program, bindings.nvrtcGetPTXSize, bindings.nvrtcGetPTX)


def _filled(program: object, size: Callable[..., Any], fill: Callable[..., Any]) -> str:
    room: bytes = b" " * size(program)[1]
    fill(program, room)
    return str(room.rstrip(b"\0"), "utf-8")


# ---------------------------------------------------------------- what a process does
def tried(mutation: Mutation) -> Line:
    """The fault in one program after the other, until one shows it."""
    begin, unchanged, last = time.perf_counter(), True, ""
    for name in mutation.programs:
        last = name
        outcome = looked_at(case(name), mutation)
        if outcome is None:
            continue
        unchanged = False
        if outcome[0]:
            return _line(mutation, name, FOUND, outcome, begin)
    return _line(mutation, last, UNCHANGED if unchanged else MISSED, ("", ""), begin)


def _line(mutation: Mutation, name: str, verdict: str, outcome: tuple[str, str], begin: float) -> Line:
    seconds = round(time.perf_counter() - begin, 1)
    return Line(mutation.kind, mutation.name, name, verdict, *outcome, seconds, digest(mutation))


def looked_at(given: Case, mutation: Mutation) -> tuple[str, str] | None:
    """What finds the fault and what it says; ("", "") if nothing does, None if nothing changes."""
    try:
        made, text = printed(given.program, mutation)
    except Exception as refused:  # a printer with a fault may raise anything
        return "printer", f"{type(refused).__name__}: {refused}"[:200]
    seconds = SLOWER * given.seconds + PATIENCE
    try:
        with ended_after(seconds):
            return examined(given, made, text)
    except TimeoutError:
        return "no end", f"none after {seconds:.0f} s"


@contextmanager
def ended_after(seconds: float) -> Iterator[None]:
    """TimeoutError if what is inside takes longer."""

    def ring(number: int, frame: FrameType | None) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def digest(mutation: Mutation) -> str:
    """Names a fault and the text that it is made in."""
    return hashlib.sha256(mutated(mutation).encode()).hexdigest()[:12]


# ---------------------------------------------------------------- all of them
def run(mutations: Sequence[Mutation], jobs: int, seconds: float) -> Iterator[Line]:
    """A line for each fault, in any order. seconds: after which no more are begun."""
    end = time.monotonic() + seconds
    if jobs == 1:
        yield from (tried(mutation) for mutation in mutations if time.monotonic() < end)
        return
    with get_context("fork").Pool(jobs) as pool:
        for lines in pool.imap_unordered(all_tried, together(mutations)):
            yield from lines
            if time.monotonic() > end:
                return


def all_tried(mutations: Sequence[Mutation]) -> list[Line]:
    """In one process, which makes their programs once."""
    return [tried(mutation) for mutation in mutations]


def together(mutations: Iterable[Mutation], most: int = 6) -> Iterator[list[Mutation]]:
    """A few of one program each."""
    of: dict[tuple[str, ...], list[Mutation]] = {}
    for mutation in mutations:
        of.setdefault(mutation.programs[:1], []).append(mutation)
    for mine in of.values():
        yield from (mine[at : at + most] for at in range(0, len(mine), most))


def settled(lines: Iterable[Line]) -> list[Line]:
    """The last word on each fault as it is now."""
    known = {(m.kind, m.name): digest(m) for m in MUTATIONS}
    last = {(line.kind, line.name): line for line in lines if known.get((line.kind, line.name)) == line.text}
    return list(last.values())


def table(lines: Sequence[Line]) -> str:
    """A row for each kind: seeded, found, by what."""
    rows = ["| kind | seeded | found | by |", "| --- | ---: | ---: | --- |"]
    for kind in [*dict.fromkeys(m.kind for m in MUTATIONS), "all"]:
        mine = [line for line in lines if kind in (line.kind, "all") and line.verdict != UNCHANGED]
        by = Counter(line.by for line in mine if line.verdict == FOUND)
        how = ", ".join(f"{check} {count}" for check, count in by.most_common())
        rows.append(f"| {kind} | {len(mine)} | {sum(by.values())} | {how} |")
    return "\n".join(rows)


def rest(lines: Sequence[Line]) -> Iterator[str]:
    """What a table does not show: faults that were not found, that changed nothing, or were not tried."""
    tried_ones = {(line.kind, line.name) for line in lines}
    for line in lines:
        if line.verdict != FOUND:
            yield f"{line.verdict}: {line.kind}, {line.name} ({line.program})"
    yield f"{sum((m.kind, m.name) not in tried_ones for m in MUTATIONS)} not tried"


# ---------------------------------------------------------------- the command
def read(path: Path) -> list[Line]:
    """The lines of a record; one that was not written to its end is left out."""
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    return [Line(**json.loads(line)) for line in text.splitlines() if line.endswith("}")]


def main(words: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("run")
    one.add_argument("record", type=Path)
    one.add_argument("--jobs", type=int, default=2)
    one.add_argument("--seconds", type=float, default=1e9)
    one.add_argument("--kind", action="append", default=[])
    one.add_argument("--name", action="append", default=[])
    one.add_argument("--missed", action="store_true", help="those that were not found, once more")
    one = commands.add_parser("table")
    one.add_argument("record", type=Path)
    given = parser.parse_args(words)
    before = settled(read(given.record))
    if given.command == "run":
        done = {(line.kind, line.name) for line in before if not given.missed or line.verdict == FOUND}
        mutations = [
            m
            for m in MUTATIONS
            if (m.kind, m.name) not in done
            and (not given.kind or m.kind in given.kind)
            and (not given.name or m.name in given.name)
        ]
        with given.record.open("a", encoding="utf-8") as record:
            for line in run(mutations, given.jobs, given.seconds):
                record.write(json.dumps(asdict(line)) + "\n")
                record.flush()
                print(
                    f"{line.verdict}: {line.kind}, {line.name} ({line.program}): {line.by} {line.what[:100]}",
                    flush=True,
                )
    lines = settled(read(given.record))
    print(table(lines), "", *rest(lines), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
