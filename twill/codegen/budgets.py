"""Registers that the schedule leaves over: given to the warp groups that compute, since nobody else can use them.

A schedule's budgets are the smallest that hold its tiles. What the compiler needs besides (addresses, values on the way
from one instruction to the next) is known only to it; room beyond the schedule's estimate costs nothing, as one CTA has
the SM to itself.
"""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.aref import WarpGroup, WarpProgram
from twill.machine import Machine


def widened(program: WarpProgram, machine: Machine) -> WarpProgram:
    """The program with its register file handed out: groups that hold tiles grow evenly, up to their context's limit;
    what they cannot take goes to those that only issue."""
    if not all(group.registers for group in program.groups):
        return program  # as compiled: nothing is handed out
    granule = machine.register_file.granule
    budgets = {group.id: group.registers for group in program.groups}
    free = int(machine.register_file.registers.value) - sum(g.threads * g.registers for g in program.groups)
    for growing in (_groups(program, issuer=False), _groups(program, issuer=True)):
        while True:
            below = [group for group in growing if budgets[group.id] + granule <= _limit(group, machine)]
            least = min((budgets[group.id] for group in below), default=0)
            poorest = [group for group in below if budgets[group.id] == least]
            taken = sum(group.threads for group in poorest) * granule
            if not poorest or taken > free:
                break
            budgets |= {group.id: least + granule for group in poorest}
            free -= taken
    return replace(program, groups=tuple(replace(group, registers=budgets[group.id]) for group in program.groups))


def _groups(program: WarpProgram, issuer: bool) -> list[WarpGroup]:
    return [group for group in program.groups if group.issuer == issuer]


def _limit(group: WarpGroup, machine: Machine) -> int:
    """Registers per thread that the group's kind of context may have: the smallest issues, the largest computes."""
    limits = [context.max_registers for context in machine.contexts]
    return min(limits) if group.issuer else max(limits)
