"""Where partial sums of several program instances meet: what `sum_parts` and its statement
`SumParts` have in global memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from twill.tile.interpret.arithmetic import Array


@dataclass
class PartialSums:
    """Of one launch. open: the parts that have come of each sum that is not complete, by slot; sizes: of how many."""

    open: dict[int, dict[int, Array]] = field(default_factory=dict)
    sizes: dict[int, int] = field(default_factory=dict)

    def add(self, slot: int, part: int, parts: int, value: Array) -> Array | str | None:
        """The sum, in the order of its parts, where this one is the last to come; None where others are to come; in
        words what is wrong."""
        known = self.open.setdefault(slot, {})
        if part in known or not 0 <= part < parts or self.sizes.setdefault(slot, parts) != parts:
            return f"part {part} of {parts} to sum {slot}, which has parts {sorted(known)} of {self.sizes.get(slot)}"
        known[part] = value
        if len(known) < parts:
            return None
        del self.open[slot], self.sizes[slot]
        total = known[0]
        for number in range(1, parts):
            total = total + known[number]
        return total

    def left(self) -> Iterator[str]:
        """What is wrong at the end of the launch."""
        for slot, known in self.open.items():
            yield f"sum {slot} has {len(known)} of {self.sizes[slot]} parts at the end of the launch"
