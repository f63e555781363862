"""Loads by threads that fill a ring: how long before the slot is filled the tile comes to registers.

A load group whose threads load a tile and store it to shared memory would wait for memory in every iteration, and for
one tile after the other. So all of them are issued an iteration ahead, and the tiles wait in registers for their turn
to be stored; the order in which slots are filled stays that of the schedule. (Two iterations ahead gain nothing: what
moves from register to register has to be there.) Copies of the TMA need none of that: they are asynchronous.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from twill.codegen.lower.memory import held_bytes
from twill.codegen.lower.placement import Placement
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.puts import SINGLE, is_in_one_piece
from twill.codegen.lower.task import Task
from twill.machine.occupancy import register_pool

REGISTER = 4  # bytes


def loads_ahead(rings: Placement, group: int, tasks: Sequence[Task], region: int) -> dict[int, int]:
    """How many cycles ahead the loads of a load group in a loop are issued, by the number of the task. Loads of the
    TMA, those that wait for what another group stores, and those whose tiles take more registers than the group has,
    are left out; tiles get the registers in order.
    Beside accumulators in tensor memory so are tiles of more than `SINGLE` bytes.
    """
    plan = rings.plan
    owner, waiting = plan.groups[group], {order.access for order in rings.orders}
    if plan.candidate.direct or any(task.node.kind != "load" for task in tasks):
        return {}
    spare = plan.machine.emitting.spare_registers.whole + plan.machine.context("issue").overhead.whole
    budget = as_launched(plan) if owner.loads and not owner.registers else owner.registers
    free, interval = budget - spare, plan.interval(region)
    found: dict[int, int] = {}
    for number, task in enumerate(tasks):
        ring = rings.by_place.get(task.place)
        if ring is None or task.place in waiting or ring.aref.transport == "tma" or not is_in_one_piece(ring.buffer):
            continue
        if owner.loads and ring.buffer.bytes > SINGLE:  # each element may have an address of its own
            continue
        words = prod(ring.buffer.shape) * held_bytes(ring.buffer.element) // REGISTER
        registers = 2 * -(-words // owner.threads)  # one tile on its way, one that is stored
        if registers <= free:
            free -= registers
            found[number] = interval
    return found


def as_launched(plan: LoweringPlan) -> int:
    """Registers that a launch gives each thread of a program whose budgets are those of the compiler."""
    threads = sum(group.threads for group in plan.groups)
    return register_pool(threads, plan.machine) // threads
