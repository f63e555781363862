"""docs/model.md once more, by formulas modulo I: what the checker is compared with.

Written from that page alone. Where `twill.schedule.checker.check` unrolls a schedule and watches it, this module
computes with remainders; graphs here number their instructions 0, 1, 2, ...
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

from twill.graph.costed import CostedGraph, CostedValue
from twill.machine.description import Context, Machine


@dataclass(frozen=True)
class Plan:
    """An initiation interval, and per instruction a start and a warp group; per warp group its context."""

    ii: int
    starts: tuple[int, ...]
    groups: tuple[int, ...]
    contexts: tuple[str, ...]


def length(graph: CostedGraph, plan: Plan) -> int:
    """L."""
    return max(plan.starts[i.id] + i.latency for i in graph.instructions)


def copies(graph: CostedGraph, plan: Plan) -> int:
    """max(1, ⌈L / I⌉)."""
    return max(1, -(-length(graph, plan) // plan.ii))


def crossing(graph: CostedGraph, groups: tuple[int, ...]) -> int:
    """Σ crossing of value edges between warp groups."""
    return sum(e.crossing for e in graph.edges if e.kind == "value" and groups[e.src] != groups[e.dst])


def lifetime(graph: CostedGraph, plan: Plan, value: CostedValue) -> tuple[int, int]:
    """[birth, death) of iteration 0's copy."""
    producer = graph.instructions[value.producer]
    issue = plan.starts[producer.id]
    register = value.space == "register"
    birth = issue + producer.hold if register and not producer.asynchronous else issue
    if not value.reads:
        return birth, birth if register else issue + producer.latency
    ends = [birth]
    for read in value.reads:
        reader = graph.instructions[read.reader]
        duration = reader.latency if reader.asynchronous else reader.hold
        ends.append(plan.starts[reader.id] + read.distance * plan.ii + duration)
    return birth, max(ends)


def depth(graph: CostedGraph, plan: Plan, value: CostedValue) -> int:
    """max(1, ⌈(death - birth) / I⌉)."""
    birth, death = lifetime(graph, plan, value)
    return max(1, -(-(death - birth) // plan.ii))


def memory(graph: CostedGraph, plan: Plan, space: str) -> int:
    """Bytes of `space` in use."""
    rings = [v for v in graph.values if v.space == space and v.storage is None]
    return resident_bytes(graph, space) + sum(v.bytes * depth(graph, plan, v) for v in rings)


def resident_bytes(graph: CostedGraph, space: str) -> int:
    """Bytes of storages and invariants in `space`."""
    total = sum(s.bytes for s in graph.storages if s.space == space)
    return total + sum(i.bytes for i in graph.invariants if i.space == space)


def registers(graph: CostedGraph, plan: Plan, group: int) -> int:
    """The most registers per thread that `group` needs, without overhead."""
    return resident_registers(graph, plan.groups, group) + live_registers(graph, plan, group)


def resident_registers(graph: CostedGraph, groups: tuple[int, ...], group: int) -> int:
    """Storages, invariants and landing places of `group`."""
    values = [v for v in graph.values if v.space == "register"]
    total = 0
    for storage in graph.storages:
        if storage.space == "register" and any(v.storage == storage.id and groups[v.producer] == group for v in values):
            total += storage.registers
    for invariant in graph.invariants:
        if invariant.space == "register" and any(groups[reader] == group for reader in invariant.readers):
            total += invariant.registers
    for value in values:
        outside = value.storage is None and groups[value.producer] != group
        if outside and any(groups[read.reader] == group for read in value.reads):
            total += value.registers
    return total


def live_registers(graph: CostedGraph, plan: Plan, group: int) -> int:
    """The most registers of values made in `group` that are alive at once."""
    mine = [
        (v.registers, *lifetime(graph, plan, v))
        for v in graph.values
        if v.space == "register" and v.storage is None and plan.groups[v.producer] == group
    ]
    most = 0
    for _, instant, _ in mine:
        alive = 0
        for count, birth, death in mine:
            alive += count * ((instant - birth) // plan.ii - (instant - death) // plan.ii)
        most = max(most, alive)
    return most


def least_budget(need: int, context: Context, granule: int) -> int:
    """The smallest multiple of the granule that covers `need` registers (may exceed the maximum)."""
    if need == 0:
        return context.min_registers
    rounded = -int(-(need + context.overhead.value) // granule) * granule
    return max(context.min_registers, rounded)


def meet(start: int, cycles: int, other: int, other_cycles: int, ii: int) -> bool:
    """Whether [start, start + cycles) and [other, other + other_cycles) share a cycle modulo ii."""
    if cycles <= 0 or other_cycles <= 0:
        return False
    return (other - start) % ii < cycles or (start - other) % ii < other_cycles


def broken(graph: CostedGraph, machine: Machine, plan: Plan, budgets: tuple[int, ...]) -> frozenset[str]:
    """Names of the rules of the model's first table that the plan with these budgets breaks."""
    return timing(graph, plan) | grouping(graph, machine, plan) | space(graph, machine, plan, budgets)


def timing(graph: CostedGraph, plan: Plan) -> frozenset[str]:
    """Uniqueness, dependence, capacity, concurrency, cross-warp spill."""
    ii, starts, groups = plan.ii, plan.starts, plan.groups
    found = set()
    if min(starts) != 0:
        found.add("uniqueness")
    for edge in graph.edges:
        wait = edge.delay + (edge.crossing if groups[edge.src] != groups[edge.dst] else 0)
        if starts[edge.dst] + edge.distance * ii < starts[edge.src] + wait:
            found.add("dependence")

    every = [(u.unit, starts[i.id] + u.start, u.cycles) for i in graph.instructions for u in i.uses]
    uses = [use for use in every if use[0] not in graph.interleaved]
    if any(sum(cycles for unit, _, cycles in every if unit == shared) > ii for shared in graph.interleaved):
        found.add("capacity")
    holds = [(groups[i.id], starts[i.id], i.hold) for i in graph.instructions]
    leaving = []
    for value in graph.values:
        home = groups[value.producer]
        if value.spill > 0 and any(groups[read.reader] != home for read in value.reads):
            ready = starts[value.producer] + graph.instructions[value.producer].latency
            leaving.append((home, ready, value.spill))
    for rule, busy in (("capacity", uses), ("concurrency", holds), ("cross-warp spill", leaving)):
        if any(cycles > ii for _, _, cycles in busy):
            found.add(rule)
        for one, other in combinations(busy, 2):
            if one[0] == other[0] and meet(one[1], one[2], other[1], other[2], ii):
                found.add(rule)
    for home, begin, cycles in leaving:
        for group, start, hold in holds:
            if group == home and meet(begin, cycles, start, hold, ii):
                found.add("cross-warp spill")
    return frozenset(found)


def grouping(graph: CostedGraph, machine: Machine, plan: Plan) -> frozenset[str]:
    """Warp uniqueness, single issuer, variable latency."""
    found = set()
    used = set(plan.groups)
    for context in machine.contexts:
        if sum(plan.contexts[group] == context.name for group in used) > context.max_groups:
            found.add("warp uniqueness")
    for one in graph.instructions:
        if plan.contexts[plan.groups[one.id]] not in one.contexts:
            found.add("warp uniqueness")
        for other in graph.instructions:
            together = plan.groups[one.id] == plan.groups[other.id]
            if one.single_issuer and one.single_issuer == other.single_issuer and not together:
                found.add("single issuer")
            if one.variable_latency and not other.variable_latency and together:
                found.add("variable latency")
    return frozenset(found)


def space(graph: CostedGraph, machine: Machine, plan: Plan, budgets: tuple[int, ...]) -> frozenset[str]:
    """Memory capacity, register limit, register file."""
    found = set()
    for name in ("shared", "tmem"):
        if memory(graph, plan, name) > machine.capacity(name):
            found.add("memory capacity")
    contexts = {context.name: context for context in machine.contexts}
    total = 0
    for group in set(plan.groups):
        context = contexts[plan.contexts[group]]
        need = registers(graph, plan, group)
        if need and need + context.overhead.value > budgets[group]:
            found.add("register limit")
        if budgets[group] % machine.register_file.granule:
            found.add("register file")
        if not context.min_registers <= budgets[group] <= context.max_registers:
            found.add("register file")
        total += context.threads * budgets[group]
    if total > machine.register_file.registers.value:
        found.add("register file")
    return frozenset(found)
