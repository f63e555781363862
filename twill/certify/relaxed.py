"""Lazily asserted rules: the register limit and the cross-warp spill, left out until a model breaks them.

Most models respect both by chance, and stating them for every pair of values costs more than all the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import product

from twill.certify.memory_rules import in_registers
from twill.certify.statement import Key, Statement
from twill.smt.assignment import Assignment
from twill.zlp.slots import slots_of


def assignment(s: Statement, values: Mapping[str, int]) -> Assignment:
    """The schedule of a model; unknowns that it leaves open count as 0."""
    ii = values["I"] if s.ranged else s.question.ii
    starts = [values.get(f"stage.{i.id}", 0) * ii + values.get(f"row.{i.id}", 0) for i in s.graph.instructions]
    slots = [
        next((k for k in s.able(i.id) if values.get(f"in.{s.owner[i.id]}.{k}")), s.able(i.id)[0])
        for i in s.graph.instructions
    ]
    earliest = min(starts)
    return Assignment(s.graph, s.machine, slots_of(s.machine), ii, tuple(t - earliest for t in starts), tuple(slots))


def broken_rules(s: Statement, values: Mapping[str, int]) -> Iterator[Key]:
    """Names of the left-out rules that a model may break."""
    a = assignment(s, values)
    granule = s.machine.register_file.granule
    for slot in a.used:
        pressure, at = a.pressure(slot.id)
        if at is not None and pressure > granule * values.get(f"budget.{slot.id}", 0):
            for u, value in enumerate(s.graph.values):
                if in_registers(value) and a.slot[value.producer] == slot.id:
                    yield from (("crowd", u, k) for k in s.able(value.producer))
    spilled = [x for x, value in enumerate(s.graph.values) if value.spill and _leaves(a, x)]
    for x, i in product(spilled, s.graph.instructions):
        value = s.graph.values[x]
        moved = a.start[value.producer] + s.instruction(value.producer).latency
        if a.slot[i.id] == a.slot[value.producer] and _meet(moved, value.spill, a.start[i.id], i.hold, a.ii):
            yield ("spill and hold", x, i.id)
    for x, y in product(spilled, spilled):
        one, other = s.graph.values[x], s.graph.values[y]
        first, second = (a.start[v.producer] + s.instruction(v.producer).latency for v in (one, other))
        same = a.slot[one.producer] == a.slot[other.producer]
        if x < y and same and _meet(first, one.spill, second, other.spill, a.ii):
            yield ("spill and spill", x, y)
        if x == y and one.spill > a.ii:
            yield ("spill and spill", x, x)


def _leaves(a: Assignment, x: int) -> bool:
    value = a.graph.values[x]
    return any(a.slot[read.reader] != a.slot[value.producer] for read in value.reads)


def _meet(a: int, a_cycles: int, b: int, b_cycles: int, ii: int) -> bool:
    return bool(a_cycles and b_cycles) and ((b - a) % ii < a_cycles or (a - b) % ii < b_cycles)
