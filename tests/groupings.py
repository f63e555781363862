"""All ways to spread a tiny graph's instructions over warp groups, for the exhaustive solver."""

from __future__ import annotations

from dataclasses import dataclass

from tests.rules import crossing, least_budget, resident_registers
from twill.graph.costed import CostedGraph
from twill.machine.description import Machine


@dataclass(frozen=True)
class Grouping:
    """Warp groups of all instructions; the context of each warp group."""

    groups: tuple[int, ...]
    contexts: tuple[str, ...]
    crossing: int


def groupings(graph: CostedGraph, machine: Machine) -> list[Grouping]:
    """All ways to give instructions warp groups; groups of one context are numbered as they come up."""
    contexts = {context.name: context for context in machine.contexts}
    found: list[Grouping] = []

    def extend(groups: tuple[int, ...], names: tuple[str, ...]) -> None:
        number = len(groups)
        if number == len(graph.instructions):
            found.append(Grouping(groups, names, crossing(graph, groups)))
            return
        instruction = graph.instructions[number]
        options = [(group, names) for group, name in enumerate(names) if name in instruction.contexts]
        for name in instruction.contexts:
            if name in contexts and names.count(name) < contexts[name].max_groups:
                options.append((len(names), (*names, name)))
        for group, now in options:
            earlier = [graph.instructions[i] for i, g in enumerate(groups) if g == group]
            if any(other.variable_latency != instruction.variable_latency for other in earlier):
                continue
            tag = instruction.single_issuer
            issuers = {g for i, g in enumerate(groups) if tag and graph.instructions[i].single_issuer == tag}
            if issuers <= {group}:
                extend((*groups, group), now)

    extend((), ())
    return found


def registers_ever_fit(graph: CostedGraph, machine: Machine, grouping: Grouping) -> bool:
    """Whether what is resident leaves the budgets legal."""
    total = 0
    for group, name in enumerate(grouping.contexts):
        context = machine.context(name)
        resident = resident_registers(graph, grouping.groups, group)
        budget = least_budget(resident, context, machine.register_file.granule)
        if budget > context.max_registers:
            return False
        total += budget * context.threads
    return total <= machine.register_file.registers.value
