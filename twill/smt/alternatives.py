"""Other schedules that are as good as an optimal one, so that a measurement can choose between them.

Two schedules are the same here if their warp groups hold the same instructions, issue them in the same order, and
every instruction is in the same stage: then the emitted code is the same, whatever cycle each instruction starts at.
"""

from __future__ import annotations

from collections.abc import Iterator

from twill.smt.assignment import Assignment
from twill.smt.encoding import Encoding, negated
from twill.smt.limits import Limits
from twill.smt.objectives import crossing_at_most, length_at_most, registers_at_most
from twill.smt.problem import Problem
from twill.smt.questions import Questions

QUESTION = "another schedule that is as good"


def alternatives(problem: Problem, best: Assignment, limits: Limits) -> Iterator[Assignment]:
    """Every other assignment with the objectives of `best`, which is optimal; each one once.

    It ends when there is no other one. Raises OutOfBudget when that is not decided in time.
    """
    q = Questions(problem, limits, least_ii=best.ii, compacting=False)
    e = q.about((best.ii, best.ii))
    q.keep([
        length_at_most(e, best.length),
        crossing_at_most(e, best.crossing),
        registers_at_most(e, problem.registers(best)),
        _differs(e, best),
    ])  # fmt: skip
    while (found := q.ask(QUESTION, best.copies)) is not None:
        yield found
        q.keep([_differs(e, found)])


def _differs(e: Encoding, a: Assignment) -> str:
    """Some warp group, order of issue or stage is not as in `a`."""
    terms = [f"(= {e.start(v).stage} {t // a.ii})" for v, t in enumerate(a.start)]
    first_of: dict[int, int] = {}
    last_of: dict[int, int] = {}
    for v in sorted(range(len(a.start)), key=lambda v: (a.start[v] % a.ii, v)):
        slot = a.slot[v]
        terms.append(e.same(first_of.setdefault(slot, v), v))
        if slot in last_of:
            terms.append(f"(<= {e.start(last_of[slot]).row} {e.start(v).row})")
        last_of[slot] = v
    firsts = list(first_of.values())
    terms += [negated(e.same(u, v)) for n, u in enumerate(firsts) for v in firsts[:n]]
    return f"(not (and {' '.join(t for t in terms if t != 'true')}))"
