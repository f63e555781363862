"""`python -m tests.survey [EXAMPLE ...] [--every N]`: seeded faults in the examples' warp programs, how many are found.

A table for docs/seeded-faults.md. With --every, each Nth fault only.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tests.effects import Effects, effects
from tests.golden_schedules import examples, kernel, machine, schedule
from tests.mutations import Mutant, mutants
from twill.codegen.abstract_machine import Trial, trials, verify
from twill.codegen.aref import If, Pipeline, WarpProgram
from twill.codegen.lower import lower


@dataclass
class Survey:
    """Faults by class: how many were made, how many are no faults, how many are found; those that are neither."""

    made: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    missed: list[tuple[str, Mutant]] = field(default_factory=list)

    def add(self, name: str, program: WarpProgram, faults: Iterable[Mutant]) -> None:
        """Try faults of a program."""
        given = trials(program)
        clean = verify(program, given=given)
        if clean:
            raise SystemExit(f"{name} itself is refused: {clean[0].describe()}")
        more: list[Trial] = []
        done: list[Effects] = []
        for mutant in faults:
            self.made[mutant.kind] += 1
            violations = verify(mutant.program, given=given, enough=1)
            if violations:
                self.found[mutant.kind] += 1
                self.rules[violations[0].rule] += 1
                continue
            if not more:  # only what the usual launches do not find is worth many
                more = [*trials(program, thorough=True)]
                done = [effects(program, trial) for trial in more]
            if all(effects(mutant.program, trial) == effect for trial, effect in zip(more, done, strict=True)):
                self.same[mutant.kind] += 1
            else:
                self.missed.append((name, mutant))

    def table(self) -> str:
        """A row for each class."""
        rows = ["| class | made | no fault | found | rate |", "| --- | ---: | ---: | ---: | ---: |"]
        for kind in sorted(self.made):
            rows.append(_row(kind, self.made[kind], self.same[kind], self.found[kind]))
        rows.append(_row("all", self.made.total(), self.same.total(), self.found.total()))
        return "\n".join(rows)

    def misses(self, programs: dict[str, WarpProgram]) -> str:
        """A line for each fault that was not found."""
        lines = []
        for name, mutant in self.missed:
            place = mutant.place
            where = ""
            if place:
                stmt = type(place.stmt).__name__ if isinstance(place.stmt, If | Pipeline) else str(place.stmt)
                where = f", {programs[name].groups[place.group].role} {place.path}: {stmt[:160]}"
            lines.append(f"{name}: {mutant.kind} {mutant.text}{where}")
        return "\n".join(lines)


def _row(kind: str, made: int, same: int, found: int) -> str:
    faults = made - same
    return f"| {kind} | {made} | {same} | {found} | {f'{100 * found / faults:.1f} %' if faults else ''} |"


def main(words: Sequence[str]) -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("examples", nargs="*")
    parser.add_argument("--every", type=int, default=1)
    arguments = parser.parse_args(words)
    survey, programs = Survey(), {}
    for example in examples():
        if arguments.examples and example.name not in arguments.examples:
            continue
        program = lower(kernel(example).program, schedule(example), machine())
        programs[example.name] = program
        before = survey.found.total(), survey.made.total() - survey.same.total()
        survey.add(example.name, program, list(mutants(program))[:: arguments.every])
        after = survey.found.total(), survey.made.total() - survey.same.total()
        print(f"{example.name}: {after[0] - before[0]} of {after[1] - before[1]}", file=sys.stderr, flush=True)
    print(survey.table())
    print(f"\nby rule: {dict(survey.rules.most_common())}")
    print(survey.misses(programs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
