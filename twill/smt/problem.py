"""One loop to be scheduled, with constraints beside the rules: pins, fixed warp groups, register floors, hazards."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph
from twill.graph.quiet import quiet_pairs
from twill.machine.description import Machine
from twill.smt.assignment import Assignment
from twill.smt.encoding import Encoding, Origin, implies
from twill.smt.pins import Pin, assert_pins

LARGE = 32  # instructions


@dataclass(frozen=True)
class Problem:
    """fixed: instruction id -> slot id that it must be in.

    floors: registers per thread that are taken anyway, by slot id. quiet: nothing writes registers of products while
    one is in flight (`twill.graph.quiet`).
    """

    graph: CostedGraph
    machine: Machine
    pins: tuple[Pin, ...] = ()
    fixed: Mapping[int, int] = field(default_factory=dict)
    floors: Mapping[int, int] = field(default_factory=dict)
    quiet: bool = False

    @property
    def quiet_pairs(self) -> tuple[tuple[int, int], ...]:
        """Writers and products that exclude each other in one warp group."""
        return quiet_pairs(self.graph) if self.quiet else ()

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
        for writer, product in self.quiet_pairs:
            held, lasts = e.instruction(writer).hold, e.instruction(product).latency
            term = implies([e.same(writer, product)], e.disjoint(e.start(writer), held, e.start(product), lasts))
            if term is not None:
                e.add(term, Origin("quiet products", (writer, product)))

    def keeps_fixed(self, a: Assignment) -> bool:
        """Whether an assignment that knows nothing of `fixed`, `floors` and `quiet` respects them."""
        if any(a.slot[v] != slot for v, slot in self.fixed.items()):
            return False
        if any(not _apart(a, writer, product) for writer, product in self.quiet_pairs):
            return False
        threads = sum(a.slots[slot].context.threads * budget for slot, budget in self._budgets(a).items())
        return threads <= self.machine.register_file.registers.value

    def registers(self, a: Assignment) -> int:
        """Summed budgets, with those that are taken anyway."""
        return sum(self._budgets(a).values())

    def _budgets(self, a: Assignment) -> dict[int, int]:
        budgets = {s.id: a.budget(s.id) for s in a.used}
        for slot, floor in self.floors.items():
            budgets[slot] = max(floor, budgets.get(slot, 0))
        return budgets


def _apart(a: Assignment, writer: int, product: int) -> bool:
    """Whether a writer and a product are in two warp groups, or the one is not held while the other is in flight."""
    held, lasts = a.graph.instructions[writer].hold, a.graph.instructions[product].latency
    ahead = (a.start[product] - a.start[writer]) % a.ii
    return a.slot[writer] != a.slot[product] or held <= ahead <= a.ii - lasts
