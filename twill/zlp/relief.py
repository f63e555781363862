"""Warp groups for a loop whose tiles are too many for the registers of those that were proposed.

The proposals of `twill.zlp.grouping` spread work; here registers are spread. From each of the first few, one item after
the other is moved to the warp group in which the loop, one iteration at a time, lacks the fewest registers. A move may
cost registers elsewhere: a tile that is read in another warp group has a landing place there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.zlp.grouping import Groups, proposals
from twill.zlp.issue import IssueBundle, together
from twill.zlp.memory_use import MemoryUse
from twill.zlp.sequential import timed_orders
from twill.zlp.slots import Slot, slots_of

BEGINNINGS = 4  # proposals that are relieved
MOVES = 10  # items that are moved, one after the other
EFFORT = 4_000_000  # some seconds


def relieved(
    graph: CostedGraph,
    machine: Machine,
    choices: Sequence[Groups],
    fixed: Mapping[int, int] | None = None,
    effort: int = EFFORT,
) -> Iterator[Groups]:
    """Warp groups that lack fewer and fewer registers, from each of the first few choices. fixed: instructions that
    stay in their slots. effort: moves that are tried at most, times the square of the loop's instructions, of which
    placing them takes time."""
    slots, items = slots_of(machine), together(graph)
    movable = [item for item in items if not any(m.id in (fixed or {}) for m in item.members)]
    left = iter(range(effort // max(1, len(graph.instructions)) ** 2))
    for begin in choices[:BEGINNINGS]:
        current, least = begin, lacking(graph, machine, begin)
        for _ in range(MOVES):
            if not least:
                break
            moves = (move for move, _ in zip(_moves(slots, movable, current), left, strict=False))
            best = min(_tried(graph, machine, current, moves), default=None)
            if best is None or best[0] >= least:
                break
            least, current = best
            yield current


def least_lacking(graph: CostedGraph, machine: Machine) -> int:
    """Registers of a thread that the loop lacks in the best of the warp groups that are proposed, and of those that
    come of relieving them."""
    choices = proposals(graph, machine, 1)
    every = [*choices, *relieved(graph, machine, choices)]
    threads = max(context.threads for context in machine.contexts)
    return min((-(-lacking(graph, machine, one) // threads) for one in every), default=0)


def lacking(graph: CostedGraph, machine: Machine, groups: Groups) -> int:
    """Registers of all threads that the warp groups lack in the best of a few orders, one iteration at a time."""
    slots, use = slots_of(machine), MemoryUse(graph, machine, slots_of(machine), groups)
    pool = int(machine.register_file.registers.value)
    found: list[int] = []
    for start, ii in timed_orders(graph, groups):
        short, taken = 0, 0
        for slot in use.resident:
            context, budget = slots[slot].context, use.asked(slot, use.need(slot, start, ii))
            short += context.threads * max(0, budget - context.max_registers)
            taken += context.threads * min(budget, context.max_registers)
        found.append(short + max(0, taken - pool))
    return min(found, default=1 << 40)


def _tried(
    graph: CostedGraph, machine: Machine, groups: Groups, moves: Iterable[tuple[IssueBundle, int]]
) -> Iterator[tuple[int, Groups]]:
    """What comes of each move, and what it lacks."""
    for item, slot in moves:
        ids = {member.id for member in item.members}
        moved = tuple(slot if v in ids else s for v, s in enumerate(groups))
        yield lacking(graph, machine, moved), moved


def _moves(slots: Sequence[Slot], items: Sequence[IssueBundle], groups: Groups) -> Iterator[tuple[IssueBundle, int]]:
    """Items with the other slots that they may go to; of free slots of a context only the first."""
    used = set(groups)
    firsts = {slots[s].context.name: s for s in reversed([s.id for s in slots if s.id not in used])}
    variable = {groups[m.id] for item in items if item.variable for m in item.members}
    for item in items:
        home = groups[item.members[0].id]
        for slot in slots:
            able = slot.context.name in item.contexts and slot.id != home
            if able and (
                slot.id == firsts.get(slot.context.name) or (slot.id in used and (slot.id in variable) == item.variable)
            ):
                yield item, slot.id
