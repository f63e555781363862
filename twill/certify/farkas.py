"""Why inequalities contradict one another: whole factors with which they add up to 0 <= -1 or less (Farkas).

Used in making a proof; z3 finds the factors, and whoever checks adds up.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import gcd, lcm

import z3

from twill.certify.linear import Linear


def factors(parts: Sequence[Linear]) -> tuple[int, ...] | None:
    """A factor >= 0 for each inequality so that the sum is a contradiction; None if they have a common real solution.

    Solved as its own small linear program: Σ factor · inequality has no unknown left, and its bound is -1 at most.
    """
    context = z3.Context()  # of its own: the same parts get the same factors
    solver = z3.SimpleSolver(ctx=context)
    solver.set("ctrl_c", False)  # SIGINT is Python's
    unknown = [z3.Real(f"f{n}", context) for n in range(len(parts))]
    sums: dict[str, list[object]] = {}
    for number, part in zip(unknown, parts, strict=True):
        solver.add(number >= 0)
        for name, times in part.terms:
            sums.setdefault(name, []).append(times * number)
    solver.add(*(z3.Sum(terms) == 0 for terms in sums.values()))
    solver.add(z3.Sum([part.bound * number for number, part in zip(unknown, parts, strict=True)]) <= -1)
    if solver.check() != z3.sat:
        return None
    model = solver.model()
    values = [model.eval(number, model_completion=True) for number in unknown]
    shared = lcm(*(v.denominator_as_long() for v in values))
    scaled = [v.numerator_as_long() * (shared // v.denominator_as_long()) for v in values]
    least = gcd(*scaled) or 1
    return tuple(s // least for s in scaled)
