"""Instructions whose warp group another loop has fixed, for schedulers that choose warp groups themselves.

The values that pass from one loop to the next tie instructions of the later loop to warp groups of
the earlier one. Warp groups of one context are interchangeable: it is enough that instructions of one fixed group
share a group, and that the groups are renumbered afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping

from twill.graph.costed import CostedGraph
from twill.zlp.grouping import Groups
from twill.zlp.slots import Slot


def tied(graph: CostedGraph, fixed: Mapping[int, int]) -> CostedGraph:
    """`graph` with one single-issuer tag for all instructions that `fixed` puts into one slot."""
    if not fixed:
        return graph
    tags: dict[str, str] = {}
    for v, slot in fixed.items():
        old = graph.instructions[v].single_issuer
        if old:
            tags[old] = f"slot {slot}"
    made = []
    for i in graph.instructions:
        tag = f"slot {fixed[i.id]}" if i.id in fixed else tags.get(i.single_issuer, i.single_issuer)
        made.append(i.model_copy(update={"single_issuer": tag}))
    return graph.model_copy(update={"instructions": tuple(made)})


def renamed(groups: Groups, slots: tuple[Slot, ...], fixed: Mapping[int, int]) -> Groups | None:
    """`groups` with slots of one context exchanged so that every `fixed` instruction is where it must be.

    fixed: instruction id -> slot. None if no exchange does that.
    """
    names: dict[int, int] = {}
    for v, wanted in fixed.items():
        if slots[groups[v]].context != slots[wanted].context or names.setdefault(groups[v], wanted) != wanted:
            return None
    if len(set(names.values())) < len(names):
        return None
    for slot in sorted(set(groups) - names.keys()):
        alike = [s.id for s in slots if s.context == slots[slot].context]
        free = [s for s in alike if s not in names.values()]
        names[slot] = slot if slot in free else free[0]
    return tuple(names[slot] for slot in groups)
