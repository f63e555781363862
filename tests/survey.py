"""`python -m tests.survey [EXAMPLE ...] [--every N]`: seeded faults in the examples' warp programs, how many are found.

A table for docs/seeded-faults.md. With --every, each Nth fault only.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tests.effects import Effects, effects
from tests.golden_schedules import examples, kernel, machine, schedule
from tests.happens import Order, order
from tests.mutations import Mutant, mutants
from twill.codegen.abstract_machine import Trial, trials, verify
from twill.codegen.aref import If, Pipeline, WarpProgram
from twill.codegen.lower import lower


class Twin:
    """The right program, run at many more sizes: only what the usual launches do not find is worth that."""

    def __init__(self, program: WarpProgram) -> None:
        self.program = program

    @cached_property
    def trials(self) -> list[Trial]:
        """The many sizes."""
        return [*trials(self.program, thorough=True)]

    @cached_property
    def effects(self) -> list[Effects]:
        """What it does at each."""
        return [effects(self.program, trial) for trial in self.trials]

    @cached_property
    def values(self) -> list[Effects]:
        """What it does at each besides putting others in order."""
        return [effects(self.program, trial, orders=False) for trial in self.trials]

    @cached_property
    def orders(self) -> list[Order]:
        """What happens before what at each."""
        return [order(self.program, trial) for trial in self.trials]

    def does_the_same(self, other: WarpProgram) -> bool:
        """Whether another program has the same effects at all sizes."""
        return all(effects(other, trial) == mine for trial, mine in zip(self.trials, self.effects, strict=True))

    def is_ordered_alike(self, other: WarpProgram) -> bool:
        """Whether another program does the same to the same places, in the same and a certain order, at all sizes."""
        pairs = zip(self.trials, self.values, strict=True)
        if not all(effects(other, trial, orders=False) == mine for trial, mine in pairs):
            return False
        return all(
            order(other, trial) == mine and mine[1] for trial, mine in zip(self.trials, self.orders, strict=True)
        )


@dataclass
class Survey:
    """Faults by class: how many were made; how many are no faults, since nothing changes, or since what they leave out
    or move orders nothing that is not ordered anyway; how many are found; those that are none of these."""

    made: Counter[str] = field(default_factory=Counter)
    same: Counter[str] = field(default_factory=Counter)
    ordered: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    rules: Counter[str] = field(default_factory=Counter)
    missed: list[tuple[str, Mutant]] = field(default_factory=list)

    def add(self, name: str, program: WarpProgram, faults: Iterable[Mutant]) -> None:
        """Try faults of a program."""
        given = trials(program)
        clean = verify(program, given=given)
        if clean:
            raise SystemExit(f"{name} itself is refused: {clean[0].describe()}")
        twin = Twin(program)
        for mutant in faults:
            self.made[mutant.kind] += 1
            violations = verify(mutant.program, given=given, enough=1)
            if violations:
                self.found[mutant.kind] += 1
                self.rules[violations[0].rule] += 1
            elif twin.does_the_same(mutant.program):
                self.same[mutant.kind] += 1
            elif twin.is_ordered_alike(mutant.program):
                self.ordered[mutant.kind] += 1
            else:
                self.missed.append((name, mutant))

    def table(self) -> str:
        """A row for each class."""
        rows = [
            "| class | made | no fault | ordered anyway | found | rate |",
            "| --- | ---: | ---: | ---: | ---: | ---: |",
        ]
        counters = (self.made, self.same, self.ordered, self.found)
        rows += [_row(kind, *(counter[kind] for counter in counters)) for kind in sorted(self.made)]
        return "\n".join([*rows, _row("all", *(counter.total() for counter in counters))])

    def rate(self) -> tuple[int, int]:
        """Found, of those that are faults."""
        return self.found.total(), self.made.total() - self.same.total() - self.ordered.total()

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


def _row(kind: str, made: int, same: int, ordered: int, found: int) -> str:
    faults = made - same - ordered
    return f"| {kind} | {made} | {same} | {ordered} | {found} | {f'{100 * found / faults:.1f} %' if faults else ''} |"


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
        before = survey.rate()
        survey.add(example.name, program, list(mutants(program))[:: arguments.every])
        after = survey.rate()
        print(f"{example.name}: {after[0] - before[0]} of {after[1] - before[1]}", file=sys.stderr, flush=True)
    print(survey.table())
    print(f"\nby rule: {dict(survey.rules.most_common())}")
    print(survey.misses(programs))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
