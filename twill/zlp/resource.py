"""The resource bound: a unit is busy with one instruction at a time (ResMII of modulo scheduling)."""

from __future__ import annotations

from twill.graph.costed import CostedGraph, Instruction
from twill.zlp.bound import NO_BOUND, LowerBound, spelled


def busy_cycles(graph: CostedGraph) -> dict[str, int]:
    """Cycles that one iteration keeps each unit busy."""
    cycles: dict[str, int] = {}
    for instruction in graph.instructions:
        for use in instruction.uses:
            cycles[use.unit] = cycles.get(use.unit, 0) + use.cycles
    return cycles


def resource_bound(graph: CostedGraph) -> LowerBound:
    """The largest Σ cycles of one unit.

    Proof. The busy intervals of a unit are disjoint modulo I, so within I consecutive cycles they
    occupy Σ cycles distinct ones. Hence Σ cycles ≤ I for every unit (and by definition for an
    interleaved one).
    """
    busy: dict[str, list[tuple[Instruction, int]]] = {}
    for instruction in graph.instructions:
        for use in instruction.uses:
            busy.setdefault(use.unit, []).append((instruction, use.cycles))
    best = NO_BOUND
    for unit, uses in busy.items():
        total = sum(cycles for _, cycles in uses)
        if total > best.value:
            best = LowerBound(total, f"the unit {unit} is busy {total} cycles in every iteration: {spelled(uses)}")
    return best
