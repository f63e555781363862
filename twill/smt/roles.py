"""The role of each warp group ("load", "mma", "softmax" ...), from its instructions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from twill.graph.costed import CostedGraph, Instruction
from twill.machine.description import Machine


def roles(graph: CostedGraph, slot_of: Sequence[int], machine: Machine) -> dict[int, str]:
    """Role by slot: "load", "mma", "consumer", "softmax", "correction", "compute", "store"; numbered if several."""
    members: dict[int, list[Instruction]] = {}
    for i, slot in zip(graph.instructions, slot_of, strict=True):
        members.setdefault(slot, []).append(i)
    named = {slot: _role(graph, held, machine) for slot, held in members.items()}
    counts = Counter(named.values())
    seen: Counter[str] = Counter()
    numbered = {}
    for slot in sorted(named):
        role = named[slot]
        numbered[slot] = f"{role} {seen[role]}" if counts[role] > 1 else role
        seen[role] += 1
    return numbered


def _role(graph: CostedGraph, held: list[Instruction], machine: Machine) -> str:
    if all(i.variable_latency for i in held):
        return "load"
    ids = {i.id for i in held}
    mmas = [i for i in held if machine.mma and i.unit == machine.mma.unit]
    others = [i for i in held if i not in mmas]
    if mmas:
        return "consumer" if others or "compute" in mmas[0].contexts else "mma"
    if any("exp2" in i.op for i in held) and any("reduce" in i.op for i in held):
        return "softmax"
    updates = {v.producer for v in graph.values if v.storage is not None}
    if ids & updates:
        return "correction"
    if all("store" in i.op for i in held):
        return "store"
    return "compute"
