"""Who does what: tasks of warp groups, and where the operands of each come from.

A task is a node of the dependence graph for one row block. In loops the schedule says which warp group has it and
when; straight-line tasks follow the values they read, or else the tasks that read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from twill import exc
from twill.codegen.lower.alike import alike, in_step
from twill.codegen.lower.cross_loop_reuse import families
from twill.codegen.lower.fused_instances import exists
from twill.codegen.lower.groups import doubled, warp_groups, with_registers
from twill.codegen.lower.occupancy import as_compiled
from twill.codegen.lower.register_operands import resident
from twill.codegen.lower.task import Place, Source, Task
from twill.codegen.lower.tiles import Tiles
from twill.codegen.warp.expression import Expr
from twill.codegen.warp.program import Fused, If, Stmt
from twill.graph.build import Wired
from twill.graph.dependence import Node
from twill.machine.description import Machine
from twill.machine.occupancy import share
from twill.schedule.document import Schedule
from twill.tile.flat import Step

COPIES = 2  # of a lone computing warp group, which take program instances in turn (`twill.codegen.passes.ping_pong`)


def amendments(tiles: Tiles) -> dict[int, tuple[Step, ...]]:
    """For each step whose result is changed where it is under a guard: by which "amend" steps, in order."""
    found: dict[int, tuple[Step, ...]] = {}
    for step in tiles.flat.steps:
        if step.op.kind == "amend":
            maker = tiles.wired.wiring.maker[tiles.view(step.results[0]).base]
            found[maker] = (*found.get(maker, ()), step)
    return found


@dataclass
class Plan:
    """Tasks by place, and the groups that have them. ctas: that share an SM. hold: whether tiles may stay in registers
    as operands of products, and sums in parts from loop to loop; resident: the tiles that do. phased: whether a steady
    state may change once. fused: whose row blocks these are, of several instances."""

    wired: Wired
    schedule: Schedule
    machine: Machine
    tiles: Tiles
    ctas: int = 1
    hold: bool = True
    phased: bool = True
    fused: Fused | None = None
    resident: frozenset[Place] = frozenset()
    tasks: dict[Place, Task] = field(default_factory=dict)
    found: dict[tuple[int, int], Source | None] = field(default_factory=dict)  # sources that were asked for

    def __post_init__(self) -> None:
        self.flat = self.wired.flat
        self.home = {step: place for place, steps in self.wired.steps.items() for step in steps}
        self.loops = {r.id for r in self.wired.graph.regions if r.kind == "loop"}
        self.amendments = amendments(self.tiles)
        self.operand_a = self.schedule.cooperation.operand_a
        self.groups, self.group_of = warp_groups(self.schedule)
        self.assign()
        if self.may_alternate():
            self.alternate()

    def assign(self) -> None:
        """The tasks of every group."""
        self.tasks = {}
        self.schedule_loops()
        self.bring_in_step()
        asked = self.groups
        if self.ctas > 1:
            self.groups = as_compiled(self.groups)
        else:
            self.groups = with_registers(self.groups, self.schedule, self.machine, self.wired.program.file)
        self.follow_straight()
        self.kept = families(self)
        for family in self.kept:  # one load group fills the ring of all
            for place in family[1:]:
                self.tasks[place] = replace(self.tasks[place], groups=self.tasks[family[0]].groups)
        self.resident = resident(self, asked) if self.hold else frozenset()

    def may_alternate(self) -> bool:
        """Whether program instances may be worked on by several groups in turn: loops of nothing but products of tiles
        that load groups bring, and nothing else that passes through a ring."""
        inside = [task for task in self.tasks.values() if task.region in self.loops]
        if not any(task.node.kind == "mma" for task in inside):
            return False
        if any(task.node.kind not in ("mma", "load") for task in inside):
            return False
        sources = (source for task in self.tasks.values() for source in self.slot_sources(task))
        makers = [self.tasks[self.place_of(source)] for source in sources]
        return all(maker.node.kind == "load" and maker.node.transport == "tma" for maker in makers)

    def alternate(self) -> None:
        """A second computing group, if there is room for one."""
        groups, group_of = warp_groups(self.schedule)
        made = doubled(groups, self.machine, COPIES)
        if len(made) > len(groups):
            number = dict(zip((g.id for g in groups), (g.id for g in made if g.like < 0), strict=True))
            self.groups, self.group_of = made, {old: number[new] for old, new in group_of.items()}
            self.assign()

    def same_stream(self, group: int) -> tuple[int, ...]:
        """The group and those that repeat its stream."""
        return (group, *(g.id for g in self.groups if g.like == group))

    @property
    def capacity(self) -> int:
        """Bytes of shared memory of a CTA."""
        return share(self.machine, self.ctas)

    def blocks_of(self, region: int, node: Node) -> tuple[int, ...]:
        """Row blocks of a node, as the costed graph has them."""
        if (region, node.id) in self.tiles.columns:
            return tuple(range(self.tiles.split))
        dim = self.wired.dims.get(self.tiles.dim, -2) if self.tiles.dim >= 0 else -2
        joins = node.mma is not None and node.mma.k_dim == dim
        touched = dim in node.dims or (node.result is not None and dim in node.result.dims)
        return tuple(range(self.tiles.split)) if touched and not joins and self.tiles.split > 1 else (-1,)

    def exists(self, block: int) -> Expr | None:
        """Whether the program instance that a row block belongs to is one of the launch grid; None: it always is."""
        if self.fused is None or block < 0:
            return None
        return exists(self.fused, block // (self.tiles.split // self.fused.count))

    def if_exists(self, block: int, made: tuple[Stmt, ...], otherwise: tuple[Stmt, ...] = ()) -> tuple[Stmt, ...]:
        """Accesses to memory for a row block, which are left out if its program instance does not exist."""
        condition = self.exists(block)
        return made if condition is None else (If(condition, made, otherwise, line=made[0].line),)

    # -- loops --------------------------------------------------------------------------------

    def schedule_loops(self) -> None:
        """Tasks of the loops, from the schedule."""
        for loop in self.schedule.loops:
            if loop.loop not in self.loops:
                continue
            region = self.wired.graph.regions[loop.loop]
            nodes = {node.id: node for node in region.nodes}
            ops = {op.id: op for op in self.schedule.ops if op.loop == loop.loop}
            for instruction in loop.graph.instructions:
                if instruction.source < 0:
                    continue  # a move: its producer stores the copy
                node, op = nodes.get(instruction.source), ops.get(instruction.id)
                if node is None or op is None or node.line != instruction.line:
                    raise exc.ScheduleMismatch(
                        f"the schedule's `{instruction.name}` of line {instruction.line} is not in this kernel",
                        file=self.wired.program.file,
                        hint="solve the kernel again",
                    )
                place = (loop.loop, node.id, instruction.block)
                self.tasks[place] = Task(
                    place, node, self.wired.steps[loop.loop, node.id], (self.group_of[op.warp_group],),
                    op.start, instruction.latency, instruction.hold,
                    max((u.cycles for u in instruction.uses if u.unit == instruction.unit), default=0),
                )  # fmt: skip
        self.stay_with_data()

    def stay_with_data(self) -> None:
        """A store that a load group was to issue is issued where its tile is: there are the registers."""
        for place, task in list(self.tasks.items()):
            if task.node.kind in ("store", "reduce_store") and self.groups[task.groups[0]].issuer:
                for source in self.register_sources(task):
                    maker = self.tasks.get(self.place_of(source))
                    if maker is not None:
                        self.tasks[place] = replace(task, groups=maker.groups)

    def bring_in_step(self) -> None:
        """Groups that do the same do it in the same order, with the same registers."""
        tasks = list(self.tasks.values())
        for members in alike(tasks, self.groups, self.makers):
            self.tasks |= in_step(tasks, members)
            numbers, registers = {group.id for group in members}, members[0].registers
            self.groups = tuple(replace(g, registers=registers) if g.id in numbers else g for g in self.groups)

    def makers(self, task: Task) -> set[int]:
        """The groups that make what a task reads in its loop."""
        places = (self.place_of(source) for source in (*self.register_sources(task), *self.slot_sources(task)))
        return {group for place in places if place in self.tasks for group in self.tasks[place].groups}

    def interval(self, region: int) -> int:
        """I of a loop."""
        return next(loop.ii for loop in self.schedule.loops if loop.loop == region)

    # -- straight-line code -------------------------------------------------------------------

    def follow_straight(self) -> None:
        """Tasks of straight-line regions, last to first: where their loop values are, or where they are read."""
        for region in reversed(self.wired.graph.regions):
            if region.kind == "loop":
                continue
            for node in reversed(region.nodes):
                for block in self.blocks_of(region.id, node):
                    place = (region.id, node.id, block)
                    task = Task(place, node, self.wired.steps[region.id, node.id], ())
                    self.tasks[place] = task
                    self.tasks[place] = replace(task, groups=self.straight_groups(task))

    def straight_groups(self, task: Task) -> tuple[int, ...]:
        """The groups that need a straight-line task done."""
        rooted = self.rooted(task)
        if rooted:
            return (min(rooted),)
        if task.node.kind == "load":
            registers = {g for reader in self.readers(task.place, slots=False) for g in reader.groups}
            return tuple(sorted(registers))
        readers = [r for r in self.readers(task.place) if r.place != task.place]
        needed = {g for reader in readers for g in reader.groups} | self.begun_with(task)
        return tuple(sorted(needed)) or (self.home_group(task.block),)

    def begun_with(self, task: Task) -> set[int]:
        """The groups in which a carried value begins with what a task makes."""
        found: set[int] = set()
        for carry in self.flat.carries:
            if carry.pure or not self.wired.wiring.makes(carry):
                continue
            begin, source = self.source(carry.init, task.block), self.source(carry.yielded, task.block)
            if begin is None or source is None or self.place_of(begin) != task.place:
                continue
            place = self.place_of(source)
            makers = [self.tasks[place]] if place in self.tasks else []
            found |= {g for reader in (*makers, *self.readers(place, slots=False)) for g in reader.groups}
        return found

    def rooted(self, task: Task) -> set[int]:
        """The groups in whose loops the values that a straight-line task works on are made."""
        found: set[int] = set()
        for source in self.register_sources(task):
            place = self.place_of(source)
            if place[0] in self.loops:
                found |= set(self.tasks[place].groups) if place in self.tasks else set()
            else:
                region, node, block = place
                steps = self.wired.steps[region, node]
                found |= self.rooted(Task((region, node, block), self.node(region, node), steps, ()))
        return found

    def home_group(self, block: int) -> int:
        """The compute group that a row block belongs to."""
        for task in self.tasks.values():
            if task.region in self.loops and task.block == block and not self.groups[task.groups[0]].issuer:
                return task.groups[0]
        return next(g.id for g in self.groups if not g.issuer)

    def is_read(self, argument: str) -> bool:
        """Whether the kernel loads from that tensor."""
        return self.is_accessed(argument, "tile_load")

    def is_written(self, argument: str) -> bool:
        """Whether the kernel stores or adds to that tensor."""
        return self.is_accessed(argument, "tile_store", "tile_reduce")

    def is_accessed(self, argument: str, *kinds: str) -> bool:
        """Whether some operation of these kinds accesses that tensor."""
        accesses = (step.op.access for step in self.flat.steps if step.op.kind in kinds)
        return any(access is not None and access.base == argument for access in accesses)

    # -- operands -----------------------------------------------------------------------------

    def source(self, cell: int, block: int) -> Source | None:
        """What data step an operand shows; None for constants and index arithmetic."""
        if (cell, block) not in self.found:
            self.found[cell, block] = self.traced(cell, block)
        return self.found[cell, block]

    def traced(self, cell: int, block: int) -> Source | None:
        """As `source`, found anew."""
        distance = 0
        while True:
            if cell < 0:
                return None
            view = self.tiles.view(cell)
            base = view.base
            if base in self.wired.wiring.argument:
                carry = self.wired.wiring.argument[base]
                if carry.pure:
                    return None
                inside = self.wired.wiring.makes(carry)
                distance += inside
                cell = carry.yielded if inside else carry.init
                continue
            if base in self.wired.wiring.result:
                carry = self.wired.wiring.result[base]
                if carry.pure:
                    return None
                cell = carry.yielded if self.wired.wiring.makes(carry) else carry.init
                continue
            maker = self.wired.wiring.maker[base]
            if maker not in self.home:
                step = self.flat.steps[maker]
                inner = [self.source(c, block) for c in step.cells()] if step.modifier or not step.index else []
                found = [s for s in inner if s is not None]
                if len(found) != 1:
                    return None  # several are read one by one where they are made
                return replace(found[0], distance=found[0].distance + distance)
            return Source(maker, self.block_at(maker, block), distance, base)

    def sources(self, step: Step, block: int) -> Iterator[tuple[int, Source]]:
        """(operand position, source) for every data operand of a step."""
        for position, cell in enumerate(step.operands):
            for leaf in self.leaves(cell):
                source = self.source(leaf, block)
                if source is not None:
                    yield position, source

    def part_sources(self, task: Task, step: Step) -> Iterator[tuple[int, Source]]:
        """The sources of a step in every row block that the task works on, each once."""
        yield from dict.fromkeys(found for block in self.parts(task) for found in self.sources(step, block))

    def leaves(self, cell: int) -> Iterator[int]:
        """The cell, or the operands of free elementwise steps (sign changes, bit casts) behind it."""
        if cell < 0:
            return
        base = self.tiles.view(cell).base
        maker = self.wired.wiring.maker.get(base)
        if maker is not None and maker not in self.home and len(self.flat.steps[maker].cells()) > 1:
            for inner in self.flat.steps[maker].cells():
                yield from self.leaves(inner)
        else:
            yield cell

    def block_at(self, step: int, block: int) -> int:
        """The row block of a step's node that a reader in `block` sees."""
        region, node = self.home[step]
        blocks = self.blocks_of(region, self.node(region, node))
        return -1 if blocks == (-1,) else max(block, 0)

    def parts(self, task: Task) -> tuple[int, ...]:
        """The row blocks that a task works on: its own, or all for a product that is contracted over the split."""
        mma = task.node.mma
        joins = mma is not None and self.tiles.dim >= 0 and mma.k_dim == self.wired.dims.get(self.tiles.dim)
        return tuple(range(self.tiles.split)) if joins else (task.block,)

    def node(self, region: int, node: int) -> Node:
        """A node of the dependence graph."""
        return self.wired.graph.regions[region].nodes[node]

    def place_of(self, source: Source) -> Place:
        """The task that makes a source."""
        return (*self.home[source.step], source.block)

    def in_slot(self, task: Task, step: Step, position: int, source: Source) -> bool:
        """Whether a reader takes this operand from shared memory."""
        made = self.flat.steps[source.step].op.kind
        if step.op.kind == "dot" and position < 2:
            if position == 1 or made == "tile_load":
                return True
            straight = not self.tiles.is_transposed(step.operands[0])
            maker = self.tasks.get(self.place_of(source))
            together = maker is not None and maker.region == task.region and maker.groups == task.groups
            return not (straight and together and self.operand_a == "register")
        return made == "tile_load" and self.home[source.step][0] in self.loops

    def register_sources(self, task: Task) -> Iterator[Source]:
        """Sources that a task reads in registers, from other tasks or earlier iterations."""
        for number in task.steps:
            step = self.flat.steps[number]
            for position, source in self.part_sources(task, step):
                if not self.in_slot(task, step, position, source) and not (
                    source.step in task.steps and not source.distance
                ):
                    yield source

    def slot_sources(self, task: Task) -> Iterator[Source]:
        """Sources that a task reads from shared memory."""
        for number in task.steps:
            step = self.flat.steps[number]
            for position, source in self.part_sources(task, step):
                if self.in_slot(task, step, position, source):
                    yield source

    def of_group(self, group: int, region: int) -> list[Task]:
        """A group's tasks in a region, in the order of the program."""
        mine = [t for t in self.tasks.values() if t.region == region and group in t.groups]
        return sorted(mine, key=lambda t: (t.place[1], t.block))

    def readers(self, place: Place, *, slots: bool = True) -> list[Task]:
        """Tasks that read what the task at `place` makes; slots: also from shared memory."""
        found = []
        for task in self.tasks.values():
            sources = list(self.register_sources(task)) + (list(self.slot_sources(task)) if slots else [])
            if any(self.place_of(source) == place for source in sources):
                found.append(task)
        return found
