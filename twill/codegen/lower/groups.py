"""The warp groups of a warp program, from those of its schedule, and their register budgets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from twill import exc
from twill.graph.mma_hazards import is_mma
from twill.machine.description import Machine
from twill.machine.occupancy import register_pool
from twill.schedule.document import Schedule

COPIES = (
    2  # of a lone computing warp group, which take program instances alternately (`twill.codegen.passes.ping_pong`)
)
ISSUER = "load"  # the role of a load group that is alone
BESIDE = 16  # registers beside an accumulator: part of an operand A, addresses
WALKING = 4  # granules more for load groups that find their instances by a walk, and make tensor maps
BY_THREADS = ("copy load", "plain load")
LOADS = (*BY_THREADS, "tma load")
EVERY = 256  # steps: more than any budget has granules


@dataclass(frozen=True)
class Group:
    """A warp group of the warp program. issuer: it only issues asynchronous instructions. like: the group whose stream
    it repeats for other program instances (`twill.codegen.passes.ping_pong`); -1: it has one of its own. loads: beside
    accumulators in tensor memory, its threads load tiles into rings, and do nothing else in loops."""

    id: int
    role: str
    threads: int
    registers: int
    issuer: bool
    like: int = -1
    loads: bool = False

    @property
    def computes(self) -> bool:
        """Whether it works on tiles in registers, in loops or behind them."""
        return not self.issuer and not self.loads


def warp_groups(schedule: Schedule) -> tuple[tuple[Group, ...], dict[int, int]]:
    """The schedule's groups with its budgets, and which of them each group of the schedule became: load groups that
    never work in the same loop become one."""
    loops_of: dict[int, set[int]] = {}
    by_threads = set()
    for op in schedule.ops:
        loops_of.setdefault(op.warp_group, set()).add(op.loop)
        if op.op in BY_THREADS:
            by_threads.add(op.warp_group)
    group_of: dict[int, int] = {}
    made: list[Group] = []
    busy: list[set[int]] = []
    for w in schedule.warp_groups:
        mine = loops_of.get(w.id, set())
        issuer = w.context == "issue" and w.id not in by_threads
        same = (g.id for g in made if issuer and g.issuer and not busy[g.id] & mine)
        number = next(same, len(made))
        if number == len(made):
            made.append(Group(number, w.role, w.threads, w.registers, issuer))
            busy.append(set())
        busy[number] |= mine
        group_of[w.id] = number
    return tuple(made), group_of


def with_room_for_mmas(
    groups: tuple[Group, ...], group_of: dict[int, int], schedule: Schedule, machine: Machine
) -> tuple[tuple[Group, ...], dict[int, int]]:
    """The groups, all load groups as one where the launch of so many threads has too few registers for an MMA: the
    compiler gives no instruction more than a launch has, whatever budgets warp groups move later; or where it has fewer
    than the groups' budgets take. Only where one thread can issue in every loop what they issued, which takes the sum
    of their holds."""
    issuers = sum(g.issuer for g in groups)
    threads, granule = sum(g.threads for g in groups), machine.register_file.granule
    pool = register_pool(threads, machine)
    budgets = sum(-(-g.registers // granule) * granule * g.threads for g in groups)
    if issuers < 2 or (pool // threads >= most_registers(schedule) and budgets <= pool):
        return groups, group_of
    return with_one_load_group(groups, group_of, schedule)


def with_one_load_group(
    groups: tuple[Group, ...], group_of: dict[int, int], schedule: Schedule
) -> tuple[tuple[Group, ...], dict[int, int]]:
    """The groups, all load groups as one; as they are where one thread can't issue in every loop what they issued,
    which takes the sum of their holds."""
    issuers = {g.id for g in groups if g.issuer}
    if len(issuers) < 2:
        return groups, group_of
    for loop in schedule.loops:
        mine = {op.id for op in schedule.ops if op.loop == loop.loop and group_of[op.warp_group] in issuers}
        if sum(i.hold for i in loop.graph.instructions if i.id in mine) > loop.ii:
            return groups, group_of
    made: dict[int, Group] = {}  # by the number before
    for group in groups:
        if group.id not in issuers or group.id == min(issuers):
            role = ISSUER if group.issuer else group.role
            made[group.id] = replace(group, id=len(made), role=role)
    one = made[min(issuers)].id
    number = {g.id: made[g.id].id if g.id in made else one for g in groups}
    return tuple(made.values()), {w: number[g] for w, g in group_of.items()}


def most_registers(schedule: Schedule) -> int:
    """Registers of a thread that the largest MMA of a schedule names, and what is beside them."""
    most = 0
    for graph in (loop.graph for loop in schedule.loops):
        held = {storage.id: storage.registers for storage in graph.storages if storage.space == "register"}
        for value in graph.values:
            if value.space == "register" and is_mma(graph.instructions[value.producer]):
                most = max(most, value.registers if value.storage is None else held.get(value.storage, 0))
    return most + BESIDE if most else 0


def with_registers(
    groups: Sequence[Group], schedule: Schedule, machine: Machine, file: str, issuers: int = 1, more: int = 0
) -> tuple[Group, ...]:
    """Budgets raised to what the register file has left: those of the schedule are what its tiles need, and
    the compiler needs some for addresses. Load groups get `issuers` granules first; then computing groups grow evenly,
    and load groups take what is too little for one more granule of theirs. Where results of MMAs are in tensor memory
    and several groups compute, one that has the most that a schedule may plan for goes on with the others, to all that
    a thread can name. more: granules that load groups get beside these, beyond what the machine gives them otherwise.

    Raises RegisterFileFull, for the kernel of `file`, if the budgets exceed the register file.
    """
    contexts = {w.context: machine.context(w.context) for w in schedule.warp_groups}
    granule = machine.register_file.granule
    several = sum(not g.issuer for g in groups) > 1 and machine.mma is not None and machine.mma.accumulator == "tmem"
    beyond = machine.emitting.most_registers.whole - granule if several else 0
    raised = {g.id: -(-g.registers // granule) * granule for g in groups}
    left = register_pool(sum(g.threads for g in groups), machine) - sum(g.threads * raised[g.id] for g in groups)
    if left < 0:
        raise exc.RegisterFileFull(-left, file=file)
    for issuer, steps in ((True, issuers + more), (False, EVERY), (True, EVERY)):
        mine = [g for g in groups if g.issuer == issuer]
        most = max((c.max_registers for n, c in contexts.items() if (n == "issue") == issuer), default=0)
        most = most + more * granule if issuer else max(most, beyond)
        for _ in range(steps):
            growing = [g for g in mine if raised[g.id] < most]
            need = sum(g.threads for g in growing) * granule
            if not growing or need > left:
                break
            left -= need
            for g in growing:
                raised[g.id] += granule
    return tuple(replace(g, registers=raised[g.id]) for g in groups)


def doubled(groups: Sequence[Group], machine: Machine, copies: int) -> tuple[Group, ...]:
    """The groups and, behind the one that computes, `copies` - 1 more like it, if only one does and the register file
    and the machine have room for them. Numbers are new."""
    computing = [g for g in groups if not g.issuer]
    if len(computing) != 1:
        return tuple(groups)
    (one,) = computing
    made: list[Group] = []
    for group in groups:
        if group is not one:
            made.append(replace(group, id=len(made)))
            continue
        first = len(made)
        for number in range(copies):
            like = -1 if number == 0 else first
            made.append(replace(one, id=first + number, role=f"{one.role} {number}", like=like))
    budgets = sum(g.threads * g.registers for g in made)
    most = max((c.max_groups for c in machine.contexts if c.name == "compute"), default=0)
    pool = register_pool(sum(g.threads for g in made), machine)
    return tuple(made) if budgets <= pool and copies <= most else tuple(groups)
