"""Seeded faults in the examples' warp programs: how many of them the abstract machine finds.

    python -m tests.survey lower PROGRAMS [EXAMPLE ...]            # lowers the kept schedules; needs the compiler
    python -m tests.survey lower PROGRAMS [EXAMPLE ...] --blackwell  # those of the B200; NAME_pair: of two CTAs
    python -m tests.survey corpus PROGRAMS OUTCOMES KEPT             # those of packages, see below
    python -m tests.survey run PROGRAMS RECORD ...                   # run and table: `tests.survey_command`
    python -m tests.survey table RECORD ...

`corpus` reads what `twill coverage PACKAGE --emit 15 --keep KEPT --json > OUTCOMES` emitted: kernels as they were
specialized, and the warp programs that their schedules are lowered to.

`run` needs NumPy alone. It writes a line for each fault to RECORD as soon as it is known, and begins with what the
records before lack: first every fault on the abstract machine, then what was not found there (`tests.twin`).
`table` is that of docs/seeded-faults.md.
"""

from __future__ import annotations

import hashlib
import json
import pickle
import re
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

from tests.mutations import Mutant, mutants
from tests.survey_command import append, commands, read, taken
from tests.twin import Twin
from twill.codegen.verify.abstract.wanted import wanted
from twill.codegen.verify.abstract_machine import Trial, trials, verify
from twill.codegen.warp.program import If, Pipeline, WarpProgram
from twill.codegen.warp.text import text

CLEAN = "clean"  # the class of the right program
OPEN, FOUND, MISSED = "open", "found", "missed"
SAME, BITS, NUMBERS, ORDERED = "no fault", "same bits", "same numbers", "ordered anyway"

TYPE = re.compile(r"\w+=(\*|tensordesc|(i|u|fp|bf)\d)")  # of a parameter that is no constant

A = TypeVar("A")
B = TypeVar("B")
Programs = dict[str, WarpProgram]
Fault = tuple[str, int]
"""An example, and the number of a fault in the order in which they are made."""


@dataclass(frozen=True)
class Line:
    """What became of a fault. program: which it was made in. rule: the first that was broken, where it was found."""

    example: str
    number: int
    program: str
    kind: str
    verdict: str
    rule: str = ""
    where: str = ""
    seconds: float = 0.0


@dataclass
class State:
    """What all processes begin with."""

    programs: Programs
    end: float
    digests: dict[str, str]
    trials: dict[str, tuple[Trial, ...]] = field(default_factory=dict)
    faults: dict[str, list[Mutant]] = field(default_factory=dict)
    twins: dict[str, Twin] = field(default_factory=dict)  # each process has its own


STATE = State({}, 0.0, {})


def digest(program: WarpProgram) -> str:
    """Names a warp program."""
    return hashlib.sha256(text(program).encode()).hexdigest()[:12]


# ---------------------------------------------------------------- what processes do
def launched(name: str) -> tuple[str, tuple[Trial, ...], Line]:
    """The launches of a program, and whether the program itself passes."""
    begin, program = time.perf_counter(), STATE.programs[name]
    given = trials(program)
    found = verify(program, given=given)
    rule, where = (found[0].rule, found[0].message) if found else ("", "")
    verdict = FOUND if found else SAME
    return name, given, Line(name, -1, digest(program), CLEAN, verdict, rule, where, time.perf_counter() - begin)


def tried(faults: Sequence[Fault]) -> list[Line]:
    """On the abstract machine."""
    return [_tried(*fault) for fault in faults if time.time() < STATE.end]


def _tried(name: str, number: int) -> Line:
    begin, mutant = time.perf_counter(), STATE.faults[name][number]
    found = verify(mutant.program, given=STATE.trials[name], enough=1)
    return _line(name, number, FOUND if found else OPEN, begin, found[0].rule if found else "")


def looked_into(faults: Sequence[Fault]) -> list[Line]:
    """What the abstract machine did not find."""
    return [_looked_into(*fault) for fault in faults if time.time() < STATE.end]


def _looked_into(name: str, number: int) -> Line:
    begin, program = time.perf_counter(), STATE.faults[name][number].program
    twin = STATE.twins.setdefault(name, Twin(STATE.programs[name]))
    if twin.does_the_same(program):
        return _line(name, number, SAME, begin)
    if twin.gives_the_same_bits(program):
        return _line(name, number, BITS, begin)
    if twin.gives_the_same_numbers(program):
        return _line(name, number, NUMBERS, begin)
    return _line(name, number, ORDERED if twin.is_ordered_alike(program) else MISSED, begin)


def _line(name: str, number: int, verdict: str, begin: float, rule: str = "") -> Line:
    mutant, program = STATE.faults[name][number], STATE.programs[name]
    where = f"{mutant.text}{_where(program, mutant)}"
    seconds = time.perf_counter() - begin
    return Line(name, number, STATE.digests[name], mutant.kind, verdict, rule, where, round(seconds, 2))


def _where(program: WarpProgram, mutant: Mutant) -> str:
    place = mutant.place
    if place is None:
        return ""
    stmt = type(place.stmt).__name__ if isinstance(place.stmt, If | Pipeline) else str(place.stmt)
    return f", {program.groups[place.group].role} {place.path}: {stmt[:200]}"


# ---------------------------------------------------------------- all of them
def run(
    programs: Programs, before: Sequence[Line], jobs: int, seconds: float, every: int, kinds: Sequence[str] = ()
) -> Iterator[Line]:
    """A line for each fault that `before` does not settle, two for those that have to be looked into. kinds: classes of
    faults; () for all."""
    global STATE
    known = {name: digest(program) for name, program in programs.items()}
    STATE = State(programs, time.time() + seconds, known)
    verdicts = {(line.example, line.number): line.verdict for line in before if line.program == known.get(line.example)}
    for name, given, line in by_processes(jobs, launched, programs):
        STATE.trials[name] = given
        yield line
    STATE.faults = {name: list(mutants(program)) for name, program in programs.items()}
    every_one = [(name, n) for name, made in STATE.faults.items() for n in taken(made, every, kinds)]
    doubtful = [fault for fault in every_one if verdicts.get(fault) == OPEN]
    for lines in by_processes(jobs, tried, chunks((fault for fault in every_one if fault not in verdicts), 4)):
        doubtful += [(line.example, line.number) for line in lines if line.verdict == OPEN]
        yield from lines
    for lines in by_processes(jobs, looked_into, chunks(sorted(doubtful, key=_price, reverse=True), 8)):
        yield from lines


def by_processes(jobs: int, do: Callable[[A], B], tasks: Iterable[A]) -> Iterator[B]:
    """What is made of each task, in any order. The processes begin with what is in STATE now."""
    if jobs == 1:
        yield from map(do, tasks)
        return
    with get_context("fork").Pool(jobs) as pool:
        yield from pool.imap_unordered(do, tasks)


def chunks(faults: Iterable[Fault], most: int) -> Iterator[list[Fault]]:
    """A few of one program each."""
    of: dict[str, list[Fault]] = {}
    for fault in faults:
        of.setdefault(fault[0], []).append(fault)
    for mine in of.values():
        yield from (mine[at : at + most] for at in range(0, len(mine), most))


def _price(fault: Fault) -> tuple[int, str, int]:
    """Orders faults by about how long it takes to look into them."""
    program = STATE.programs[fault[0]]
    goal = wanted(program, thorough=True)
    return goal.instances * goal.most**2 * sum(1 for group in program.groups for _ in group.stmts), *fault


def settled(lines: Iterable[Line]) -> list[Line]:
    """The last word on each fault, of each program as it was last surveyed."""
    last: dict[Fault, Line] = {}
    for line in lines:
        last[line.example, line.number] = line
    return list(last.values())


# ---------------------------------------------------------------- tables
def table(lines: Sequence[Line]) -> str:
    """A row for each class."""
    faults = [line for line in lines if line.kind != CLEAN]
    count = Counter((line.kind, line.verdict) for line in faults)
    count.update(("all", line.verdict) for line in faults)
    rows = [
        "| class | made | no fault | same bits | same numbers | ordered anyway | found | rate |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for kind in [*sorted({line.kind for line in faults}), "all"]:
        verdicts = [count[kind, verdict] for verdict in (SAME, BITS, NUMBERS, ORDERED, FOUND, MISSED)]
        *none, found, missed = verdicts
        rate = f"{100 * found / (found + missed):.1f} %" if found + missed else ""
        rows.append("| " + " | ".join([kind, *map(str, (sum(verdicts), *none, found)), rate]) + " |")
    return "\n".join(rows)


def rest(lines: Sequence[Line]) -> Iterator[str]:
    """What a table does not show: programs that are refused, faults that were not found or not looked into."""
    clean = [line for line in lines if line.kind == CLEAN]
    yield f"{len(clean)} programs, {sum(line.verdict == FOUND for line in clean)} of them refused"
    yield f"by rule: {dict(Counter(line.rule for line in lines if line.verdict == FOUND).most_common())}"
    yield f"{sum(line.seconds for line in lines):.0f} s; not looked into: {sum(line.verdict == OPEN for line in lines)}"
    for line in sorted(lines, key=lambda line: (line.kind, line.example)):
        if line.verdict == MISSED or (line.kind == CLEAN and line.verdict == FOUND):
            yield f"{line.example} {line.number}: {line.kind} {line.where}"


# ---------------------------------------------------------------- the command
def lowered(names: Sequence[str]) -> Programs:
    """The warp programs of the examples, from the kept schedules."""
    from tests.golden_schedules import examples, kernel, machine, schedule
    from twill.codegen.lowering import lower

    wanted = [example for example in examples() if not names or example.name in names]
    return {example.name: lower(kernel(example).program, schedule(example), machine()) for example in wanted}


def lowered_for_blackwell(names: Sequence[str]) -> Programs:
    """The warp programs of the examples for the B200, and those of pairs."""
    from tests import blackwell

    alone = {example.name: (example, 1) for example in (*blackwell.EMITTED, *blackwell.SCALED)}
    pairs = {f"{example.name}_pair": (example, 2) for example in blackwell.PAIRS}
    every = alone | pairs
    return {name: blackwell.lowered(*every[name]) for name in names or every}


def of_corpus(outcomes: Path, kept: Path) -> Programs:
    """The warp programs of a package's kernels that were emitted, lowered from their schedules."""
    from twill.codegen.emission import extract
    from twill.codegen.lowering import lower
    from twill.machine.file import load_machine
    from twill.schedule.document import Schedule

    made: Programs = {}
    for one in json.loads(outcomes.read_text(encoding="utf-8")):
        if one["stage"] != "emitted":
            continue
        place = hashlib.sha256(f"{one['file']}:{one['line']}".encode()).hexdigest()[:6]
        (folder,) = kept.glob(f"{one['kernel']}.*{place}")
        schedule = Schedule.model_validate_json((folder / "schedule.json").read_text(encoding="utf-8"))
        sig = [word for word in one["guessed"] if TYPE.match(word)]
        const = [word for word in one["guessed"] if not TYPE.match(word)]
        kernel = extract(f"{one['file']}::{one['kernel']}", sig=sig, const=const)
        made[one["kernel"]] = lower(kernel.wired, schedule, load_machine(schedule.machine))
    return made


def main(words: Sequence[str]) -> int:
    """See the module."""
    parser, mine = commands(__doc__, "corpus")
    mine["lower"].add_argument("--blackwell", action="store_true")
    corpus = mine["corpus"]
    corpus.add_argument("programs", type=Path)
    corpus.add_argument("outcomes", type=Path)
    corpus.add_argument("kept", type=Path)
    given = parser.parse_args(words)
    if given.command == "lower":
        lower = lowered_for_blackwell if given.blackwell else lowered
        given.programs.write_bytes(pickle.dumps(lower(given.names)))
    elif given.command == "corpus":
        given.programs.write_bytes(pickle.dumps(of_corpus(given.outcomes, given.kept)))
    elif given.command == "run":
        programs = pickle.loads(given.programs.read_bytes())
        before = read([*given.before, given.record], Line)
        append(given.record, run(programs, before, given.jobs, given.seconds, given.every, given.kind))
        print("\n".join(rest(settled([*before, *read([given.record], Line)]))))
    else:
        lines = settled(read(given.record, Line))
        print(table(lines), "", *rest(lines), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
