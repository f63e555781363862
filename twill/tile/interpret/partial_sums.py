"""Where partial sums of several program instances meet: what `sum_parts` and its statement
`SumParts` have in global memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from twill.tile.interpret.arithmetic import Array

Parts = Mapping[tuple[int, int], Array]
"""Partial sums, by slot and part."""


@dataclass(frozen=True)
class Foreseen:
    """Partial sums as they will come. bit: of a slot, which says the part that is the last."""

    parts: Parts
    bit: int

    def last(self, slot: int) -> int:
        """The part of a sum that comes last."""
        return slot >> self.bit & 1


@dataclass
class PartialSums:
    """Of one launch. open: the parts that have come of each sum that is not complete, by slot; sizes: of how many.
    came: all of them.

    foreseen: parts of another run of the same launch, with which another one of each sum can be the last than the one
    that is run last: part 0 or 1, by a bit of the slot, so that an instance that has parts of several sums is the last
    of some of them alone.
    """

    open: dict[int, dict[int, Array]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)
    came: dict[tuple[int, int], Array] = field(default_factory=dict)
    foreseen: Foreseen | None = None

    def add(self, slot: int, part: int, parts: int, value: Array) -> Array | str | None:
        """The sum, in the order of its parts, where this one is the last to come; None where it is another one; in
        words what is wrong."""
        known = self.open.setdefault(slot, {})
        if part in known or not 0 <= part < parts or self.sizes.setdefault(slot, parts) != parts:
            return f"part {part} of {parts} to sum {slot}, which has parts {sorted(known)} of {self.sizes.get(slot)}"
        known[part] = self.came[slot, part] = value
        complete = len(known) == parts
        if complete:
            del self.open[slot], self.sizes[slot]
        if self.foreseen is not None:
            complete = part == self.foreseen.last(slot)
            known = {n: self.foreseen.parts[slot, n] for n in range(parts)} if complete else known
        if not complete:
            return None
        total = known[0]
        for number in range(1, parts):
            total = total + known[number]
        return total

    def left(self) -> Iterator[str]:
        """What is wrong at the end of the launch."""
        for slot, known in self.open.items():
            yield f"sum {slot} has {len(known)} of {self.sizes[slot]} parts at the end of the launch"
