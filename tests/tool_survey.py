"""Seeded faults of the B200's warp programs, per tool: the abstract machine, and the executor of PTX.

    python -m tests.tool_survey lower CASES [ROW ...]               # reads and lowers; needs Triton
    python -m tests.tool_survey run CASES RECORD ... [--execute N]  # run and table: `tests.survey_command`
    python -m tests.tool_survey table RECORD ...

The faults are those of `tests.survey`. A faulty program runs on the abstract machine at the launches of every emission;
then it is printed, compiled by NVRTC and ptxas (spills are accepted), and its PTX is executed where rings come round
(`tests.blackwell_rows`) and compared with the tile program. What no tool finds is harmless as far as two machines that
share no code can tell: the executor orders every two accesses by clocks, whatever ran first, and delays what is
asynchronous. With --execute, each Nth fault that the abstract machine finds is executed, and all those that it does
not (0: these alone). A line is written to RECORD for each; a record is gone on with, and the last line about a fault
counts.
"""

from __future__ import annotations

import pickle
import signal
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.mutations import Mutant, mutants
from tests.survey import by_processes
from tests.survey_command import append, commands, read, taken
from twill import exc
from twill.codegen.emit import build_kernel
from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.verify.abstract_machine import Trial, trials, verify
from twill.codegen.warp.program import WarpProgram
from twill.kernel.specialization import Specialization, problem_of
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.trial import execute

NOTHING, NOT_ASKED, LATE = "nothing", "not asked", "time"
LIMIT = 120  # seconds of CPU of one execution


@dataclass(frozen=True)
class Case:
    """A program, and the launch at which its PTX is executed on at most `ctas` CTAs."""

    program: WarpProgram
    specialization: Specialization
    schedule: Schedule
    machine: Machine
    launch: CheckedLaunch
    ctas: int


@dataclass(frozen=True)
class Line:
    """What the tools say of a fault: the first rule that is broken, `values` (numbers differ), `compiler` or `printer`
    (refused), NOTHING, NOT_ASKED, LATE."""

    case: str
    number: int
    kind: str
    machine: str
    executor: str
    where: str = ""
    seconds: float = 0.0


@dataclass
class State:
    """What all processes begin with."""

    cases: dict[str, Case] = field(default_factory=dict)
    trials: dict[str, tuple[Trial, ...]] = field(default_factory=dict)
    faults: dict[str, list[Mutant]] = field(default_factory=dict)
    execute: int = 1
    end: float = 0.0


STATE = State()


class Late(Exception):
    """An execution takes too long."""


def late(number: int, frame: Any) -> None:
    """The handler of the alarm."""
    raise Late


def executed(case: Case, program: WarpProgram) -> str:
    """What printing, compiling and executing say of a program that stands for that of a case."""
    signal.signal(signal.SIGVTALRM, late)
    signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT)
    try:
        made = build_kernel(program, case.specialization, case.schedule, case.machine, accept_slow=True)
        found = execute.verified(made.build.ptx, made.manifest, case.program, case.launch, case.ctas)
    except Late:
        return LATE
    except exc.CudaRejected:
        return "compiler"
    except exc.TwillError as error:
        return type(error).__name__
    except Exception:  # a program that the printer was never meant to get
        return "printer"
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
    return found.findings[0].rule if found.findings else "values" if found.differences else NOTHING


def tried(fault: tuple[str, int]) -> Line | None:
    """One fault; None behind the end."""
    name, number = fault
    if time.time() > STATE.end:
        return None
    begin, case, mutant = time.process_time(), STATE.cases[name], STATE.faults[name][number]
    found = verify(mutant.program, given=STATE.trials[name], enough=1)
    machine = found[0].rule if found else NOTHING
    asked = not found or (STATE.execute and number % STATE.execute == 0)
    said = executed(case, mutant.program) if asked else NOT_ASKED
    place = mutant.place
    where = f"{mutant.text} {case.program.groups[place.group].role}: {str(place.stmt)[:160]}" if place else mutant.text
    return Line(name, number, mutant.kind, machine, said, where, round(time.process_time() - begin, 1))


def prepared(name: str) -> tuple[str, tuple[Trial, ...], str]:
    """The launches of the abstract machine, and what the executor says of the right program."""
    case = STATE.cases[name]
    return name, trials(case.program, problem_of(case.specialization)), executed(case, case.program)


def run(
    cases: dict[str, Case], known: Iterable[Line], jobs: int, seconds: float, every: int, kinds: Sequence[str],
    execute: int,
) -> Iterator[Line]:  # fmt: skip
    """A line for each fault that is not known, those of all cases in turns."""
    STATE.cases, STATE.execute, STATE.end = cases, execute, time.time() + seconds
    STATE.faults = {name: list(mutants(case.program)) for name, case in cases.items()}
    done = {(line.case, line.number) for line in known}
    for name, given, said in by_processes(jobs, prepared, cases):
        STATE.trials[name] = given
        if said != NOTHING:
            raise ValueError(f"{name} is wrong as it is: {said}")
    asked = {name: taken(made, every, kinds) for name, made in STATE.faults.items()}
    longest = max(map(len, asked.values()))
    faults = [(name, numbers[n]) for n in range(longest) for name, numbers in asked.items() if n < len(numbers)]
    faults = sorted((fault for fault in faults if fault not in done), key=lambda fault: (fault[1] % 10, fault[1]))
    yield from (line for line in by_processes(jobs, tried, faults) if line is not None)


def settled(lines: Iterable[Line]) -> list[Line]:
    """The last word on each fault."""
    return [*{(line.case, line.number): line for line in lines}.values()]


# ---------------------------------------------------------------- tables


def table(lines: Sequence[Line]) -> str:
    """A row for each program: who finds what."""
    rows = [
        "| program | faults | found by the abstract machine | executed | found so | found by one | by the executor "
        "alone | harmless for both | rate |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in [*dict.fromkeys(line.case for line in lines), "all"]:
        mine = [line for line in lines if name in (line.case, "all")]
        asked = [line for line in mine if line.executor not in (NOT_ASKED, LATE)]
        by_machine = [line for line in mine if line.machine != NOTHING]
        so = [line for line in asked if line.executor != NOTHING]
        alone = [line for line in so if line.machine == NOTHING]
        harmless = [line for line in asked if (line.machine, line.executor) == (NOTHING, NOTHING)]
        some = len(by_machine) + len(alone)
        numbers = map(str, (len(mine), len(by_machine), len(asked), len(so), some, len(alone), len(harmless)))
        rate = f"{100 * len(by_machine) / some:.1f} %" if some else ""
        rows.append(f"| {name} | {' | '.join(numbers)} | {rate} |")
    return "\n".join(rows)


def classes(lines: Sequence[Line]) -> str:
    """A row for each class of faults."""
    rows = ["| class | faults | abstract machine | executor, of those executed | harmless for both |",
            "| --- | ---: | --- | --- | ---: |"]  # fmt: skip
    for kind in sorted({line.kind for line in lines}):
        mine = [line for line in lines if line.kind == kind]
        machine = Counter(line.machine for line in mine if line.machine != NOTHING)
        executor = Counter(line.executor for line in mine if line.executor not in (NOT_ASKED, NOTHING))
        harmless = sum((line.machine, line.executor) == (NOTHING, NOTHING) for line in mine)
        said = (", ".join(f"{rule} {n}" for rule, n in one.most_common()) for one in (machine, executor))
        rows.append(f"| {kind} | {len(mine)} | {' | '.join(said)} | {harmless} |")
    return "\n".join(rows)


# ---------------------------------------------------------------- the command


def lowered(names: Sequence[str]) -> dict[str, Case]:
    """The rows of `tests.blackwell_rows`."""
    from tests.blackwell import machine
    from tests.blackwell_rows import ROWS
    from tests.blackwell_table import given

    return {
        row.name: Case(row.lowered(), row.kernel().specialization, row.schedule(), machine(),
                       given(row, row.executed), row.ctas)
        for row in ROWS
        if not names or row.name in names
    }  # fmt: skip


def main(words: Sequence[str]) -> int:
    """See the top of this file."""
    parser, mine = commands(__doc__)
    mine["run"].add_argument("--execute", type=int, default=1)
    given = parser.parse_args(words)
    if given.command == "lower":
        given.programs.write_bytes(pickle.dumps(lowered(given.names)))
        return 0
    records = given.record
    if given.command == "run":
        cases, before = pickle.loads(given.programs.read_bytes()), read([*given.before, given.record], Line)
        taking = (given.every, given.kind, given.execute)
        append(given.record, run(cases, before, given.jobs, given.seconds, *taking))
        records = [*given.before, given.record]
    lines = settled(read(records, Line))
    print(table(lines), "", classes(lines), sep="\n")
    return 0


if __name__ == "__main__":
    from tests import tool_survey  # what is pickled has the name of the module

    sys.exit(tool_survey.main(sys.argv[1:]))
