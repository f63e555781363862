"""One loop to be scheduled, with constraints beside the rules: pins, fixed warp groups, register floors, hazards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph
from twill.graph.mma_hazards import hazard_pairs
from twill.machine.description import Machine
from twill.smt.assignment import Assignment
from twill.smt.encoding import Encoding, RuleOrigin, implies
from twill.smt.pins import Pin, assert_pins

LARGE = 32  # instructions


@dataclass(frozen=True)
class Problem:
    """fixed: instruction id -> slot id that it must be in.

    floors: registers per thread that are taken anyway, by slot id. hazards: nothing writes registers of MMAs while
    one is in flight (`twill.graph.mma_hazards`).
    """

    graph: CostedGraph
    machine: Machine
    pins: tuple[Pin, ...] = ()
    fixed: Mapping[int, int] = field(default_factory=dict)
    floors: Mapping[int, int] = field(default_factory=dict)
    hazards: bool = False

    @property
    def hazard_pairs(self) -> tuple[tuple[int, int], ...]:
        """Writers and MMAs that exclude each other in one warp group."""
        return hazard_pairs(self.graph) if self.hazards else ()

    @property
    def large(self) -> bool:
        """Whether questions about all of it are left for last."""
        return len(self.graph.instructions) > LARGE

    @property
    def names_instructions(self) -> bool:
        """Whether row blocks are told apart."""
        return bool(self.pins or self.fixed or self.floors)

    @property
    def names_slots(self) -> bool:
        """Whether slots of one context are told apart."""
        return any(p.names_group for p in self.pins) or bool(self.fixed or self.floors)

    def demand(self, e: Encoding) -> None:
        """Assert pins, fixed slots and floors. Raises BadPin."""
        assert_pins(e, self.pins)
        granule = self.machine.register_file.granule
        for v, slot in self.fixed.items():
            e.add(e.member(v, e.slots[slot]))
        for slot, registers in self.floors.items():
            e.add(f"(and used{slot} (<= {-(-registers // granule)} b{slot}))")
        for writer, mma in self.hazard_pairs:
            held, lasts = e.instruction(writer).hold, e.instruction(mma).latency
            term = implies([e.same(writer, mma)], e.disjoint(e.start(writer), held, e.start(mma), lasts))
            if term is not None:
                e.add(term, RuleOrigin("quiet products", (writer, mma)))

    def keeps_fixed(self, a: Assignment) -> bool:
        """Whether an assignment that knows nothing of `fixed`, `floors` and `hazards` respects them."""
        if any(a.slot[v] != slot for v, slot in self.fixed.items()):
            return False
        if any(not _apart(a, writer, mma) for writer, mma in self.hazard_pairs):
            return False
        return a.fits(self.floors)

    def registers(self, a: Assignment) -> int:
        """Summed budgets, with those that are taken anyway."""
        return sum(a.budgets(self.floors).values())


def _apart(a: Assignment, writer: int, mma: int) -> bool:
    """Whether a writer and an MMA are in two warp groups, or the one is not held while the other is in flight."""
    held, lasts = a.graph.instructions[writer].hold, a.graph.instructions[mma].latency
    ahead = (a.start[mma] - a.start[writer]) % a.ii
    return a.slot[writer] != a.slot[mma] or held <= ahead <= a.ii - lasts
