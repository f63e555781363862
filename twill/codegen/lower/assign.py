"""First step of lowering: which warp group does which task, with how many registers.

    assign(wired, tiles, schedule, machine, candidate) -> Plan, or the Refusal of the candidate

In loops the schedule says which warp group has a task and when. Straight-line tasks follow the values that they read,
or else the tasks that read them, so they are assigned last to first. Every function here takes a plan and gives the
next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twill import exc
from twill.codegen.lower.candidates import CandidateRefusal, LoweringCandidate
from twill.codegen.lower.cross_loop_reuse import reuse_groups
from twill.codegen.lower.direct import direct_schedule
from twill.codegen.lower.groups import (
    COPIES,
    EVERY,
    WALKING,
    Group,
    doubled,
    warp_groups,
    with_registers,
    with_room_for_mmas,
)
from twill.codegen.lower.occupancy import as_compiled, needs_no_budgets, with_room_for_ctas
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.register_operands import choose_register_operands
from twill.codegen.lower.symmetric_groups import in_step, symmetric_groups
from twill.codegen.lower.task import Place, Task
from twill.codegen.lower.tensor_memory import refuse_not_emitted, with_readers
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.warp.layout import THREADS
from twill.graph.build import Wired
from twill.graph.links import linked_loops
from twill.machine.description import Machine
from twill.machine.occupancy import register_pool
from twill.schedule.document import Schedule
from twill.tile.order_dependence import depends_on_order


def assign(
    wired: Wired,
    tiles: TileLayouts,
    schedule: Schedule,
    machine: Machine,
    candidate: LoweringCandidate,
) -> LoweringPlan | CandidateRefusal:
    """The plan of a candidate.

    Refused is ping-pong where loops do more than multiply tiles that load groups bring, and where there is no room for
    a second computing warp group. Raises ScheduleMismatch, UnsupportedInKernel.
    """
    if candidate.direct:
        schedule = direct_schedule(schedule, candidate.threads, candidate.late)
    groups, group_of = warp_groups(schedule)
    groups, group_of = with_room_for_mmas(groups, group_of, schedule, machine)
    groups, group_of = with_room_for_ctas(groups, group_of, schedule, machine, candidate.ctas)
    tensor = tiles.target.has_tensor_memory and tiles.multiplies
    if tensor:
        groups, group_of = with_readers(groups, group_of, tiles.target.threads, schedule)
    if candidate.ping_pong and depends_on_order(wired.program):
        return CandidateRefusal("an atomic operation orders the warp groups of a program instance")
    if candidate.ping_pong:
        made = doubled(groups, machine, COPIES)
        if len(made) == len(groups):
            return CandidateRefusal("the register file has no room for a second computing warp group")
        number = dict(zip((g.id for g in groups), (g.id for g in made if g.like < 0), strict=True))
        groups, group_of = made, {old: number[new] for old, new in group_of.items()}
    plan = LoweringPlan(wired, schedule, machine, tiles, candidate, groups)
    if candidate.exchange and not keeps_values_together(plan):
        return CandidateRefusal("a value in registers goes from one loop to another")
    if candidate.exchange:
        plan = replace(plan, groups=with_most_registers(plan, group_of))
        pool = register_pool(sum(group.threads for group in plan.groups), machine)
        if sum(group.threads * group.registers for group in plan.groups) > pool:
            return CandidateRefusal("no registers for warp groups that do the most of what either did")
    plan = in_step_groups(stay_with_data(replace(plan, tasks=scheduled(plan, group_of))))
    compiled = tensor and not all(group.registers for group in groups)
    plan = without_idle_groups(with_straight(plan))
    asked = plan.groups
    plan = plan if compiled else with_budgets(plan)
    if tensor:
        refuse_not_emitted(plan)
    reused = () if candidate.ping_pong else reuse_groups(plan)  # tiles of a group that waits for the other one's turn
    plan = plan if candidate.direct else share_rings(replace(plan, reuse_groups=reused))
    if candidate.ping_pong and not plan.only_multiplies():
        return CandidateRefusal("its loops do more than multiply tiles that load groups bring")
    if tensor or not candidate.registers:
        return plan
    return replace(plan, register_operands=choose_register_operands(plan, asked))


# -- loops ----------------------------------------------------------------------------------------


def scheduled(plan: LoweringPlan, group_of: Mapping[int, int]) -> dict[Place, Task]:
    """Tasks of the loops, from the schedule. group_of: warp groups by those of the schedule. Raises
    ScheduleMismatch."""
    tasks: dict[Place, Task] = {}
    exchanged = {(loop, old): new for loop, old, new in plan.candidate.exchange}

    def instead(loop: int, group: int) -> int:
        return exchanged.get((loop, group), group)

    for loop in plan.schedule.loops:
        if loop.loop not in plan.loops:
            continue
        region = plan.wired.graph.regions[loop.loop]
        nodes = {node.id: node for node in region.nodes}
        ops = {op.id: op for op in plan.schedule.ops if op.loop == loop.loop}
        for instruction in loop.graph.instructions:
            if instruction.source < 0:
                continue  # a move: its producer stores the copy
            node, op = nodes.get(instruction.source), ops.get(instruction.id)
            if node is None or op is None or node.line != instruction.line:
                raise exc.ScheduleMismatch(
                    f"the schedule's `{instruction.name}` of line {instruction.line} is not in this kernel",
                    file=plan.wired.program.file,
                    hint="solve the kernel again",
                )
            place = (loop.loop, node.id, instruction.block)
            tasks[place] = Task(
                place, node, plan.wired.steps[loop.loop, node.id], (group_of[instead(op.loop, op.warp_group)],),
                op.start, instruction.latency, instruction.hold,
                max((u.cycles for u in instruction.uses if u.unit == instruction.unit), default=0),
            )  # fmt: skip
    return tasks


def keeps_values_together(plan: LoweringPlan) -> bool:
    """Whether loops between which values stay in registers exchange the same warp groups, if any."""
    changed = {loop: {(old, new) for one, old, new in plan.candidate.exchange if one == loop} for loop in plan.loops}
    return all(changed[one] == changed[other] for one, other in linked_loops(plan.wired.graph))


def with_most_registers(plan: LoweringPlan, group_of: Mapping[int, int]) -> tuple[Group, ...]:
    """The groups, those that take over a part of another one with no fewer registers than that one."""
    pairs = {(group_of[old], group_of[new]) for _, old, new in plan.candidate.exchange}
    registers = [group.registers for group in plan.groups]
    most = {new: max([registers[new], *(registers[old] for old, one in pairs if one == new)]) for _, new in pairs}
    return tuple(replace(group, registers=most.get(group.id, group.registers)) for group in plan.groups)


def stay_with_data(plan: LoweringPlan) -> LoweringPlan:
    """A store that a load group was to issue is issued where its tile is: there are the registers."""
    tasks = dict(plan.tasks)
    for place, task in plan.tasks.items():
        if task.node.kind in ("store", "reduce_store") and plan.groups[task.groups[0]].issuer:
            for source in plan.register_sources(task):
                maker = tasks.get(plan.place_of(source))
                if maker is not None:
                    tasks[place] = replace(task, groups=maker.groups)
    return replace(plan, tasks=tasks)


def in_step_groups(plan: LoweringPlan) -> LoweringPlan:
    """Groups that do the same do it in the same order, with the same registers."""
    tasks, groups = dict(plan.tasks), plan.groups
    for members in symmetric_groups(list(plan.tasks.values()), groups, plan.makers):
        tasks |= in_step(list(plan.tasks.values()), members)
        numbers, registers = {group.id for group in members}, members[0].registers
        groups = tuple(replace(g, registers=registers) if g.id in numbers else g for g in groups)
    return replace(plan, tasks=tasks, groups=groups)


def with_budgets(plan: LoweringPlan) -> LoweringPlan:
    """Groups with the registers that a launch gives them; a lone group that wants more than any budget has what the
    compiler gives a thread. Raises UnsupportedInKernel."""
    contexts = {context.name: context.max_registers for context in plan.machine.contexts}
    most = max(contexts[group.context] for group in plan.schedule.warp_groups)
    beyond = len(plan.groups) == 1 and plan.groups[0].registers > most
    moves = plan.candidate.budgets or plan.tiles.target.has_tensor_memory
    lean = not moves and needs_no_budgets(plan.groups, plan.machine)
    if lean or plan.candidate.ctas > 1 or plan.candidate.threads > THREADS or beyond:
        return replace(plan, groups=as_compiled(plan.groups))
    file = plan.wired.program.file
    issuers = EVERY if plan.tiles.target.has_tensor_memory else 1  # who issues MMAs has their descriptors
    more = WALKING if plan.wired.program.walk is not None else 0
    return replace(plan, groups=with_registers(plan.groups, plan.schedule, plan.machine, file, issuers, more))


# -- straight-line code ---------------------------------------------------------------------------


def with_straight(plan: LoweringPlan) -> LoweringPlan:
    """Tasks of straight-line regions, too, last to first: where their loop values are, or where they are read."""
    tasks = dict(plan.tasks)
    known = replace(plan, tasks=tasks)  # knows what is assigned so far
    for region in reversed(plan.wired.graph.regions):
        if region.kind == "loop":
            continue
        for node in reversed(region.nodes):
            for block in plan.blocks_of(region.id, node):
                place = (region.id, node.id, block)
                tasks[place] = task = Task(place, node, plan.wired.steps[region.id, node.id], ())
                tasks[place] = replace(task, groups=straight_groups(known, task))
    return replace(plan, tasks=tasks)


def straight_groups(plan: LoweringPlan, task: Task) -> tuple[int, ...]:
    """The groups that need a straight-line task done."""
    rooted = rooted_in(plan, task)
    if rooted:  # or where a loop goes on with it, which then reads what another group's loop left
        begun = {group for group in begun_with(plan, task) if not plan.groups[group].issuer}
        return tuple(sorted(begun)) or (min(rooted),)
    if task.node.kind == "load":
        registers = {g for reader in plan.readers(task.place, slots=False) for g in reader.groups}
        return tuple(sorted(registers | begun_with(plan, task)))
    readers = [r for r in plan.readers(task.place) if r.place != task.place]
    needed = {g for reader in readers for g in reader.groups} | begun_with(plan, task)
    computing = {g for g in needed if not plan.groups[g].issuer}  # one thread holds no tile that it is to multiply
    return tuple(sorted(computing)) or (plan.home_group(task.block),)


def begun_with(plan: LoweringPlan, task: Task) -> set[int]:
    """The groups that need the first value of a carried one, where a straight-line task makes that: those that make the
    carried value in its loop, and those that read it."""
    return {group for one in plan.starting_with(task.place) for group in one.groups}


def rooted_in(plan: LoweringPlan, task: Task) -> set[int]:
    """The groups in whose loops the values that a straight-line task works on are made, itself or by straight-line code
    in front of it, each task of which is looked at once."""
    found: set[int] = set()
    homes: set[int] = set()  # of accumulators in tensor memory, which any of them can read
    ahead, seen = [task], {task.place}
    while ahead:
        reader = ahead.pop()
        for place in map(plan.place_of, plan.register_sources(reader)):
            if place[0] in plan.loops:
                maker = plan.tasks.get(place)
                held = maker is not None and plan.is_in_tensor_memory(maker)
                homes |= {plan.home_group(reader.block)} if held else set()
                found |= set(maker.groups if maker is not None and not held else ())
            elif place not in seen:
                seen.add(place)
                region, node, _ = place
                ahead.append(Task(place, plan.node(region, node), plan.wired.steps[region, node], ()))
    return found or homes


def without_idle_groups(plan: LoweringPlan) -> LoweringPlan:
    """The plan of straight-line code with the groups that have something to do, numbered anew. Such code is where its
    values are, so that some groups of the schedule may have none of it. Groups that multiply come first, as the warps
    of an MMA begin at a multiple of four; one group issues the TMA's copies (`twill.codegen.lower.place`)."""
    busy = {group for task in plan.tasks.values() for group in task.groups}
    if any(task.node.kind == "load" and task.node.transport == "tma" for task in plan.tasks.values()):
        busy.update([group.id for group in plan.groups if group.issuer][:1])
    working = sorted((g for g in plan.groups if g.id in busy or g.like in busy), key=lambda group: group.issuer)
    if plan.loops or working == [*plan.groups] or not any(group.computes for group in working):
        return plan
    number = {group.id: place for place, group in enumerate(working)}
    groups = tuple(replace(g, id=number[g.id], like=number.get(g.like, -1)) for g in working)
    tasks = {p: replace(t, groups=tuple(number[group] for group in t.groups)) for p, t in plan.tasks.items()}
    return replace(plan, groups=groups, tasks=tasks)


# -- rings that loops share -----------------------------------------------------------------------


def share_rings(plan: LoweringPlan) -> LoweringPlan:
    """One load group fills the ring of all loops that read the same tiles."""
    tasks = dict(plan.tasks)
    for family in plan.reuse_groups:
        for place in family[1:]:
            tasks[place] = replace(tasks[place], groups=tasks[family[0]].groups)
    return replace(plan, tasks=tasks)
