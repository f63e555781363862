"""Warp groups for the heuristic scheduler: a load/compute split, before any cycle is chosen.

The split is that of Tawa (arXiv 2510.14719): loads in a warp group of their own, row blocks side by
side in compute groups. A few variants are proposed; the heuristic tries them in turn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from twill.graph.costed import CostedGraph
from twill.machine.description import Machine
from twill.zlp.effort import unending
from twill.zlp.issue import IssueBundle, together
from twill.zlp.slots import Slot, slots_of

Groups = tuple[int, ...]  # instruction id -> slot
MOVES = 12  # steps of relief from one choice of warp groups
RELIEVED = 3  # choices that are relieved


def proposals(
    graph: CostedGraph,
    machine: Machine,
    least: int,
    over: Callable[[], bool] = unending,
    fixed: Mapping[int, int] | None = None,
) -> list[Groups]:
    """Different warp groups, most promising first. least: a lower bound on I, at which loads are to fit if they can.
    over: whether the time has ended, which leaves out what takes long to think of. fixed: slots of instructions, which
    the first of these keep (others may need their slots renamed, `twill.zlp.ties`)."""
    grouper = _Grouper(graph, slots_of(machine), fixed or {})
    blocks = max([1, *(i.block + 1 for i in graph.instructions)])
    widths = sorted(range(1, len(grouper.slots) + 1), key=lambda w: (w != blocks, w))
    bases = [grouper.around_fixed(spread, least) for spread in (False, True)] if fixed else []
    bases += [grouper.assign(width, light, least) for light in (True, False) for width in widths]
    found = list(dict.fromkeys(groups for groups in bases if groups is not None))
    for base in found[:RELIEVED]:
        found += grouper.relieved(base, least, over)
    return list(dict.fromkeys(found))


def group_load(graph: CostedGraph, groups: Sequence[int]) -> dict[int, int]:
    """Cycles in which each warp group is held in every iteration, spills of values that leave it included."""
    load: dict[int, int] = {}
    for instruction in graph.instructions:
        slot = groups[instruction.id]
        load[slot] = load.get(slot, 0) + instruction.hold
    for value in graph.values:
        home = groups[value.producer]
        if value.spill and any(groups[read.reader] != home for read in value.reads):
            load[home] += value.spill
    return load


@dataclass
class _Grouper:
    graph: CostedGraph
    slots: tuple[Slot, ...]
    fixed: Mapping[int, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.items = together(self.graph)
        touching = {v.producer for v in self.graph.values if v.space == "register"}
        touching |= {r.reader for v in self.graph.values if v.space == "register" for r in v.reads}
        self.in_registers = [any(m.id in touching for m in item.members) for item in self.items]

    def assign(self, width: int, light: bool, ii: int) -> Groups | None:
        """Row block b in the steady slot b mod `width` of its context; None if the contexts have no room.

        light: what touches no register value goes to the context with the fewest registers, if it may.
        """
        kinds: dict[int, bool] = {}  # slot -> whether it holds variable latencies
        load = [0] * len(self.slots)
        chosen: dict[int, int] = {}
        order = sorted(range(len(self.items)), key=lambda k: (not self.items[k].variable, self._block(k) < 0, k))
        for k in order:
            item = self.items[k]
            able = [s.id for s in self.slots if s.context.name in item.contexts]
            able = [s for s in able if kinds.get(s, item.variable) == item.variable]
            if not able:
                return None
            slot = self._choose(k, able, width, light, load, ii, chosen)
            kinds[slot] = item.variable
            load[slot] += item.hold
            for member in item.members:
                chosen[member.id] = slot
        return tuple(chosen[i.id] for i in self.graph.instructions)

    def around_fixed(self, spread: bool, ii: int) -> Groups | None:
        """What is fixed in its slot, loads where `assign` puts them, and of the rest each item in a slot that something
        is fixed in: that of its row block, or of what it is connected with, or (spread) the one with the least load.
        None if no slot is free for a load, or two slots are fixed for one item."""
        given = [{self.fixed[m.id] for m in item.members if m.id in self.fixed} for item in self.items]
        taken = {slot for slots in given for slot in slots}
        chosen: dict[int, int] = {}
        load = [0] * len(self.slots)
        if any(len(slots) > 1 for slots in given):
            return None
        order = sorted(range(len(self.items)), key=lambda k: (not given[k], not self.items[k].variable, k))
        for k in order:
            item = self.items[k]
            able = [s.id for s in self.slots if s.context.name in item.contexts]
            home = {chosen[i.id] for i in self.graph.instructions if i.id in chosen and i.block == self._block(k) >= 0}
            near = [s for s in able if s in taken and s in (home or self._neighbours(item, chosen))]
            if given[k]:
                slot = min(given[k])
            elif item.variable:
                able = [s for s in able if s not in taken]
                if not able:
                    return None
                slot = self._choose(k, able, len(able), True, load, ii, chosen)
            else:
                choice = (not spread and near) or [s for s in able if s in taken]
                if not choice:
                    return None
                slot = min(choice, key=lambda s: (load[s], s))
            load[slot] += item.hold
            chosen |= dict.fromkeys((member.id for member in item.members), slot)
        return tuple(chosen[i.id] for i in self.graph.instructions)

    def _choose(
        self, k: int, able: list[int], width: int, light: bool, load: list[int], ii: int, chosen: dict[int, int]
    ) -> int:
        item, registers = self.items[k], self.in_registers[k]
        spare = light and not registers
        limits = {s: self.slots[s].context.max_registers for s in able}
        best = min(limits.values()) if spare else max(limits.values())
        near = [s for s in able if limits[s] == best]
        if item.variable:
            # From the end, so that row blocks find the first slots of their context free.
            return next((s for s in reversed(near) if load[s] + item.hold <= ii), near[-1])
        steady = near[:width]
        block = self._block(k)
        if block >= 0:
            return steady[block % len(steady)]
        neighbours = self._neighbours(item, chosen)
        known = [s for s in steady if s in neighbours]
        return min(known or steady, key=lambda s: (load[s], s))

    def _block(self, k: int) -> int:
        blocks = {member.block for member in self.items[k].members}
        return blocks.pop() if len(blocks) == 1 else -1

    def _neighbours(self, item: IssueBundle, chosen: dict[int, int]) -> set[int]:
        mine = {member.id for member in item.members}
        found = set()
        for edge in self.graph.edges:
            if edge.kind == "value" and (edge.src in mine) != (edge.dst in mine):
                other = edge.dst if edge.src in mine else edge.src
                if other in chosen:
                    found.add(chosen[other])
        return found

    def relieved(self, groups: Groups, least: int, over: Callable[[], bool]) -> list[Groups]:
        """What comes of moving one item after another out of the most loaded warp group, while that helps.

        An item goes where the largest load becomes smallest, and among equals where crossing costs least.
        """
        found: list[Groups] = []
        current = groups
        for _ in range(min(MOVES, len(self.items))):
            load = group_load(self.graph, current)
            full = max(load, key=lambda s: (load[s], -s))
            if load[full] <= least:
                break
            burden, best = self._burden(current), current
            for item, slot in self._moves(current, full, load):
                if over():
                    return found
                moved = self._moved(current, item, slot)
                burden, best = min((burden, best), (self._burden(moved), moved), key=lambda pair: pair[0])
            if best is current:
                break
            current = best
            found.append(current)
        return found

    def _moves(self, groups: Groups, full: int, load: dict[int, int]) -> Iterator[tuple[IssueBundle, int]]:
        """Items of slot `full` with the slots that they could go to; of free slots of a context only the first."""
        variable = {groups[m.id] for item in self.items if item.variable for m in item.members}
        free = [s for s in range(len(self.slots)) if s not in load]
        firsts = {self.slots[s].context.name: s for s in reversed(free)}
        for item in self.items:
            if groups[item.members[0].id] != full or not item.hold:
                continue
            for slot, name in ((s.id, s.context.name) for s in self.slots):
                if slot == full or name not in item.contexts:
                    continue
                if slot == firsts.get(name) or (slot in load and (slot in variable) == item.variable):
                    yield item, slot

    @staticmethod
    def _moved(groups: Groups, item: IssueBundle, slot: int) -> Groups:
        ids = {member.id for member in item.members}
        return tuple(slot if v in ids else s for v, s in enumerate(groups))

    def _burden(self, groups: Groups) -> tuple[int, int]:
        return max(group_load(self.graph, groups).values()), self._crossing(groups)

    def _crossing(self, groups: Groups) -> int:
        return sum(e.crossing for e in self.graph.edges if e.kind == "value" and groups[e.src] != groups[e.dst])
