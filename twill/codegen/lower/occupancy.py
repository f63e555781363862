"""How many CTAs of a kernel share an SM, and what each of them may have then.

A kernel whose MMAs keep a unit of its SM busy fills it with one CTA: the register file goes to the groups that
multiply. Any other kernel waits (for memory, for its reductions, for small MMAs that follow one another) more than it
computes, and what fills the time are other CTAs. Its groups take registers as compiled, its load groups are one warp
each, and its rings share the SM's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from twill.codegen.lower.direct import direct_schedule, has_products, is_straight
from twill.codegen.lower.groups import Group, warp_groups, with_one_load_group
from twill.codegen.targets.base import LANES
from twill.codegen.warp.layout import THREADS
from twill.machine.description import Machine
from twill.machine.occupancy import ctas_with, register_pool
from twill.schedule.document import INSTANCES, LoopSchedule, Schedule

IDLE_SHARE = 0.2  # of an iteration in which no unit works, from which on a kernel with MMAs is latency-bound


def most_ctas(schedule: Schedule, machine: Machine) -> int:
    """CTAs that share an SM at most: those that the register file holds, but one at least. One warp group
    (`direct_schedule`) shares nothing with the others that would fill up before the register file. A kernel with MMAs
    has an SM to itself where its loops keep a unit busy, and where accumulators are in tensor memory."""
    if has_products(schedule) and not is_latency_bound(schedule, machine):
        return 1
    alone, held = len(warp_groups(schedule)[0]) == 1, held_ctas(schedule, machine)
    return max(1, held if alone else min(machine.emitting.ctas.whole, held))


def is_latency_bound(schedule: Schedule, machine: Machine) -> bool:
    """Whether a kernel with MMAs leaves all units idle for more than `IDLE_SHARE` of its main loop, so that another CTA
    on the SM has something to fill. Never where load groups come before groups that multiply: such a load group is one
    warp if CTAs share the SM, and the warps of an MMA would not begin at a multiple of four."""
    issuers = [group.issuer for group in working_groups(schedule, machine)]
    in_registers = machine.mma is not None and machine.mma.accumulator != "tmem"
    loop = max(schedule.loops, key=lambda loop: loop.ii)
    idle = time_of_iteration(loop) - loop.certificate.bounds.resource
    return in_registers and issuers == sorted(issuers) and idle > IDLE_SHARE * time_of_iteration(loop)


def time_of_iteration(loop: LoopSchedule) -> float:
    """Cycles from one iteration to the next, with its part of what the loop takes to fill and drain where the number of
    its iterations is known. Straight-line code is not overlapped with that of the next program instance."""
    exposed = max(0, loop.length - loop.ii)
    if loop.trip == INSTANCES:
        return loop.ii + exposed
    return loop.ii + (exposed / int(loop.trip) if loop.trip.isdigit() and int(loop.trip) else 0)


def held_ctas(schedule: Schedule, machine: Machine) -> int:
    """CTAs that the register file holds, if every thread has as many registers as the hungriest warp group, and as
    the compiler wants besides, and that an SM has threads for; 0 if it does not hold one, which spills then."""
    return max(held(working_groups(schedule, machine), machine), held(few_groups(schedule, machine), machine))


def held(groups: Sequence[Group], machine: Machine) -> int:
    """The same of CTAs that have these groups."""
    threads = sum(group.threads for group in as_compiled(groups))
    registers = max(group.registers for group in groups) + machine.emitting.spare_registers.whole
    return min(ctas_with(threads, registers, machine), machine.emitting.threads.whole // threads)


def few_groups(schedule: Schedule, machine: Machine) -> tuple[Group, ...]:
    """`working_groups`, with load groups as one if one thread can issue what they issue."""
    if has_products(schedule) and is_straight(schedule):
        return working_groups(schedule, machine)
    return with_one_load_group(*warp_groups(schedule), schedule)[0]


def with_room_for_ctas(
    groups: tuple[Group, ...], group_of: dict[int, int], schedule: Schedule, machine: Machine, ctas: int
) -> tuple[tuple[Group, ...], dict[int, int]]:
    """The groups of each of so many CTAs that share an SM, and which of them each group of the schedule is: all load
    groups as one (`few_groups`) where the register file holds fewer CTAs otherwise."""
    if ctas == 1 or is_straight(schedule) or held(groups, machine) >= ctas:
        return groups, group_of
    return with_one_load_group(groups, group_of, schedule)


def working_groups(schedule: Schedule, machine: Machine) -> tuple[Group, ...]:
    """The groups that a CTA has. Of straight-line code with MMAs, which follows its row blocks and is in the order of
    the program, those are a group for each block and one that issues loads (`twill.codegen.lower.assign`)."""
    groups, _ = warp_groups(schedule)
    if not has_products(schedule) or not is_straight(schedule):
        return groups
    (one,) = direct_schedule(schedule, THREADS * schedule.cooperation.width).warp_groups
    computing = [replace(g, registers=one.registers) for g in groups if not g.issuer]
    issuing = [g for g in groups if g.issuer]
    return (*computing[: schedule.cooperation.blocks], *issuing[:1])


def needs_no_budgets(groups: Sequence[Group], machine: Machine) -> bool:
    """Whether a launch gives each thread of a CTA what the hungriest warp group needs, and twice what the compiler
    wants besides (there is no other CTA to gain), if load groups are one warp each. Such a CTA begins sooner: it has
    fewer threads, and none waits for registers of another one. Never where load groups come before groups that multiply
    (`is_latency_bound`)."""
    issuers = [group.issuer for group in groups]
    compiled = as_compiled(groups)
    threads = sum(group.threads for group in compiled)
    need = max(group.registers for group in groups) + 2 * machine.emitting.spare_registers.whole
    return any(issuers) and issuers == sorted(issuers) and need <= register_pool(threads, machine) // threads


def as_compiled(groups: Sequence[Group]) -> tuple[Group, ...]:
    """The groups of a kernel whose CTAs share an SM: no budgets, which whole warp groups have, so that one warp is
    enough to issue loads."""
    return tuple(replace(g, registers=0, threads=LANES if g.issuer else g.threads) for g in groups)
