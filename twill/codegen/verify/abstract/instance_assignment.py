"""Which places in the order of program instances a CTA fetches.

Fetches of several CTAs may come in any order, so one launch can deal its instances in many ways. CTAs run one after the
other here and share nothing but the counter, so what each will get is chosen before they run, in several ways
(`WAYS`): a program that is right gives the same results for all.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

NO_PLACE = (1 << 32) - 1  # behind all instances
Way = Literal["in turn", "all to the first", "at random", "in any order"]
WAYS: tuple[Way, ...] = ("all to the first", "at random")  # of fetches; then the others have one instance each
ANY_ORDER: tuple[Way, ...] = ("in any order",)  # of places of CTAs that have not started, besides
Message = tuple[int, int, int, int]


@dataclass
class InstanceAssignment:
    """Of one CTA. places: that it gets, in this order; the first is its own number. fetches: made so far. published:
    the messages so far: grid indices, and whether there is an instance."""

    places: Sequence[int] = ()
    fetches: int = 0
    published: list[Message] = field(default_factory=list)

    @property
    def place(self) -> int:
        """What was fetched last; none behind the last one."""
        return self.places[self.fetches] if self.fetches < len(self.places) else NO_PLACE

    def message(self, number: int) -> Message:
        """What all groups must come by as their `number`-th message; that there is none if none was published."""
        return self.published[number] if number < len(self.published) else (0, 0, 0, 0)


def assignments(instances: int, ctas: int, way: Way) -> list[list[int]]:
    """The places in the order of instances that each CTA gets. The first is its own number; unless in any order, it
    never gets one that comes before one that it has."""
    if way == "in turn":
        return [list(range(cta, instances, ctas)) for cta in range(ctas)]
    assigned = [[cta] if cta < instances else [] for cta in range(ctas)]
    chance = random.Random(instances)
    left = list(range(ctas, instances))
    if way == "in any order":
        chance.shuffle(left)
    for place in left:
        assigned[0 if way == "all to the first" else chance.randrange(ctas)].append(place)
    return assigned
