"""Which program instances a CTA gets: every n-th, or those that it claims.

Claims of several CTAs may come in any order, so one launch can deal its instances in many ways. CTAs run one after the
other here and share nothing but the counter, so what each will get is chosen before they run, in several ways
(`WAYS`): a program that is right gives the same results for all.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Index = tuple[int, int, int]
Way = Literal["in turn", "in runs", "all to the first", "at random"]
WAYS: tuple[Way, ...] = ("all to the first", "at random")  # of claims; then the others have one instance each


@dataclass
class InstanceAssignment:
    """Of one CTA. given: what it gets, in this order. claims: made so far."""

    given: Sequence[Index]
    claims: int = 0

    def message(self, number: int) -> tuple[int, int, int, int]:
        """What all groups must come by as their `number`-th message: an instance, or that there is none."""
        return (*self.given[number], 1) if number < len(self.given) else (0, 0, 0, 0)


def assignments(instances: int, ctas: int, way: Way) -> list[list[int]]:
    """The places in the order of instances that each CTA gets. The first is its own number; it never gets one that
    comes before one that it has."""
    if way == "in turn":
        return [list(range(cta, instances, ctas)) for cta in range(ctas)]
    if way == "in runs":
        ends = [cta * (instances // ctas) + min(cta, instances % ctas) for cta in range(ctas + 1)]
        return [list(range(first, end)) for first, end in itertools.pairwise(ends)]
    assigned = [[cta] if cta < instances else [] for cta in range(ctas)]
    chance = random.Random(instances)
    for place in range(ctas, instances):
        assigned[0 if way == "all to the first" else chance.randrange(ctas)].append(place)
    return assigned
