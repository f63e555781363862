"""Large neighbourhood search: better schedules that resemble the best one known.

Most of the best schedule's structure is kept (warp groups, order of the starts, iterations between them), a few
instructions are free, and the solver is asked for a smaller I. Where the whole problem is out of its reach, this
one often is not; compaction then takes the I down as far as it goes. What is found is a schedule like any
other; what is not found proves nothing.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph
from twill.smt.assignment import Assignment
from twill.smt.encoding import Encoding, number
from twill.smt.questions import Questions

EFFORT = 3_000_000  # of the solver's counter for one neighbourhood
FREE = 8  # instructions that are free at first
PATIENCE = 20  # failures until one more is
QUESTION = "feasible near the best schedule"

Choice = Callable[[Assignment, random.Random], list[int]]  # instructions, those to be freed first


@dataclass
class Neighbourhoods:
    """A resumable, deterministic search: each call continues where the last one stopped."""

    questions: Questions
    seed: int = 0
    free: int = FREE
    _failures: int = 0
    _random: random.Random = field(default_factory=random.Random)

    def __post_init__(self) -> None:
        self._random.seed(self.seed)

    def improve(self, least_ii: int, patience: int) -> bool:
        """Whether I of the best schedule fell, before `patience` neighbourhoods in turn had nothing better.

        least_ii: where to stop. Raises OutOfBudget.
        """
        q, first, failures = self.questions, self.questions.found.ii, 0
        while q.found.ii > least_ii and failures < patience:
            best = q.found
            e = q.about((best.ii - 1, best.ii - 1), recalling=True)
            count = len(best.start)
            choose = self._random.choice(CHOICES)
            freed = set(choose(best, self._random)[: min(self.free, count)])
            answer = q.probe(QUESTION, 0, fixed_structure(e, best, freed), EFFORT, only_found=True)
            if answer == "sat":
                failures = 0
                continue
            failures += 1
            self._failures += 1
            if self._failures % PATIENCE == 0:
                self.free = min(self.free + 1, count)
        return q.found.ii < first


def fixed_structure(e: Encoding, a: Assignment, freed: set[int]) -> list[str]:
    """The structure of `a` among the instructions that are not freed, as terms of `e`.

    Rows are counted from the start of instruction 0, in `a` as in a model of these terms.
    """
    base = a.start[0] % a.ii
    rows = {v: (t - base) % a.ii for v, t in enumerate(a.start)}
    stages = {v: (t - base) // a.ii for v, t in enumerate(a.start)}
    stay = sorted((v for v in rows if v not in freed), key=lambda v: (rows[v], v))
    terms = [f"(= {e.start(0).row} 0)"] if e.rotates else []
    first_of: dict[int, int] = {}
    for v in stay:
        terms.append(e.same(first_of.setdefault(a.slot[v], v), v))
    for u, v in zip(stay, stay[1:], strict=False):
        p, q = e.start(u), e.start(v)
        terms.append(f"(<= {p.row} {q.row})")
        terms.append(f"(= (- {q.stage} {p.stage}) {number(stages[v] - stages[u])})")
    return [t for t in terms if t != "true"]


def near_a_row(a: Assignment, rng: random.Random) -> list[int]:
    """What starts near some row."""
    row = rng.randrange(a.ii)
    away = {v: min((t - row) % a.ii, (row - t) % a.ii) for v, t in enumerate(a.start)}
    return sorted(away, key=lambda v: (away[v], v))


def anything(a: Assignment, rng: random.Random) -> list[int]:
    """Any instructions."""
    return rng.sample(range(len(a.start)), len(a.start))


def of_a_unit(a: Assignment, rng: random.Random) -> list[int]:
    """What uses some unit."""
    unit = rng.choice(sorted({u.unit for i in a.graph.instructions for u in i.uses}))
    users = [i.id for i in a.graph.instructions if any(u.unit == unit for u in i.uses)]
    return rng.sample(users, len(users))


def neighbours(a: Assignment, rng: random.Random) -> list[int]:
    """Instructions that depend on one another."""
    beside = _beside(a.graph)
    found = [rng.randrange(len(a.start))]
    while len(found) < len(a.start):
        near = sorted({w for v in found for w in beside[v]} - set(found))
        found.append(rng.choice(near or sorted(set(beside) - set(found))))
    return found


def _beside(graph: CostedGraph) -> dict[int, set[int]]:
    beside: dict[int, set[int]] = {i.id: set() for i in graph.instructions}
    for e in graph.edges:
        beside[e.src].add(e.dst)
        beside[e.dst].add(e.src)
    return beside


CHOICES: tuple[Choice, ...] = (near_a_row, anything, of_a_unit, neighbours)
