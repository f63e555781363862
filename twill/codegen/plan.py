"""Who does what: tasks of warp groups, and the rings that carry tiles through shared memory between them.

A task is a node of the dependence graph for one row block. In loops the schedule says which warp group has it and
when; straight-line tasks follow the values they read, or else the tasks that read them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from math import prod

from twill import exc
from twill.codegen.aref import Aref, Buffer
from twill.codegen.memory import Memory, element_bytes
from twill.codegen.tiles import Tiles
from twill.graph.build import Wired
from twill.graph.dependence import Node
from twill.graph.flat import Step
from twill.machine import Machine
from twill.schedule import Schedule

SPARE = 2048  # bytes kept for barriers, scratch and alignment
DEEPEST = 8  # slots of a ring: more would only hold data that is used long after

Place = tuple[int, int, int]  # region, node, row block (-1: shared by all)


@dataclass(frozen=True)
class Task:
    """A node of one row block. groups: one in a loop; in straight-line code every group that needs a copy.
    start, latency, hold: cycles, of the schedule; busy: of its unit (0 in straight-line code)."""

    place: Place
    node: Node
    steps: tuple[int, ...]
    groups: tuple[int, ...]
    start: int = 0
    latency: int = 0
    hold: int = 0
    busy: int = 0

    @property
    def region(self) -> int:
        """The region of the dependence graph."""
        return self.place[0]

    @property
    def block(self) -> int:
        """The row block, -1 if shared by all."""
        return self.place[2]


@dataclass(frozen=True)
class Source:
    """Where an operand comes from. step: of `Flat.steps` that makes it, in row block `block`, `distance` iterations
    ago; axes: core axes of the operand as core axes of that step's result, -1 along which it repeats."""

    step: int
    block: int
    distance: int
    cell: int


@dataclass(frozen=True)
class Ring:
    """A tile that travels through shared memory. held: made in straight-line code and read by whole loops."""

    key: Place
    aref: Aref
    buffer: Buffer
    held: bool
    readers: tuple[Place, ...]
    multiplied: bool  # some reader is a product


@dataclass(frozen=True)
class Group:
    """A warp group of the warp program. issuer: it only issues asynchronous instructions."""

    id: int
    role: str
    threads: int
    registers: int
    issuer: bool


@dataclass
class Plan:
    """Tasks by place, groups, rings by the place that fills them."""

    wired: Wired
    schedule: Schedule
    machine: Machine
    tiles: Tiles
    memory: Memory
    tasks: dict[Place, Task] = field(default_factory=dict)
    groups: tuple[Group, ...] = ()
    rings: dict[Place, Ring] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.flat = self.wired.flat
        self.home = {step: place for place, steps in self.wired.steps.items() for step in steps}
        self.loops = {r.id for r in self.wired.graph.regions if r.kind == "loop"}
        self.operand_a = self.schedule.cooperation.operand_a
        self.make_groups()
        self.schedule_loops()
        self.follow_straight()
        self.make_rings()
        self.deepen()
        self.ring_bytes = self.memory.used()

    @property
    def capacity(self) -> int:
        """Bytes of shared memory of a CTA."""
        return int(self.machine.capacity("shared"))

    # -- warp groups --------------------------------------------------------------------------

    def make_groups(self) -> None:
        """The schedule's groups; load groups that never work in the same loop become one."""
        loops_of: dict[int, set[int]] = {}
        by_threads = set()
        for op in self.schedule.ops:
            loops_of.setdefault(op.warp_group, set()).add(op.loop)
            if op.op in ("copy load", "plain load"):
                by_threads.add(op.warp_group)
        self.group_of: dict[int, int] = {}
        made: list[Group] = []
        busy: list[set[int]] = []
        for w in self.schedule.warp_groups:
            mine = loops_of.get(w.id, set())
            issuer = w.context == "issue" and w.id not in by_threads
            same = (g.id for g in made if issuer and g.issuer and not busy[g.id] & mine)
            number = next(same, len(made))
            if number == len(made):
                made.append(Group(number, w.role, w.threads, w.registers, issuer))
                busy.append(set())
            busy[number] |= mine
            self.group_of[w.id] = number
        self.groups = self.with_registers(made)

    def with_registers(self, groups: list[Group]) -> tuple[Group, ...]:
        """Budgets raised to what the register file has left: those of the schedule are what its tiles need, and
        the compiler needs some for addresses. Load groups first, then compute groups evenly."""
        contexts = {w.context: self.machine.context(w.context) for w in self.schedule.warp_groups}
        granule = self.machine.register_file.granule
        left = self.register_pool(groups) - sum(g.threads * g.registers for g in groups)
        if left < 0:
            raise exc.UnsupportedInKernel(
                "the schedule's register budgets exceed what a launch can hand out", file=self.wired.program.file
            )
        raised = {g.id: g.registers for g in groups}
        for issuer in (True, False):
            mine = [g for g in groups if g.issuer == issuer]
            most = max((c.max_registers for n, c in contexts.items() if (n == "issue") == issuer), default=0)
            while any(raised[g.id] < most for g in mine):
                growing = [g for g in mine if raised[g.id] < most]
                need = sum(g.threads for g in growing) * granule
                if need > left:
                    break
                left -= need
                for g in growing:
                    raised[g.id] += granule
        return tuple(replace(g, registers=raised[g.id]) for g in groups)

    def register_pool(self, groups: list[Group]) -> int:
        """Registers that setmaxnreg can move between groups: those of the launch, equal in all threads."""
        threads = sum(g.threads for g in groups)
        granule = self.machine.register_file.granule
        return threads * min(256, int(self.machine.register_file.registers.value) // threads // granule * granule)

    def blocks_of(self, node: Node) -> tuple[int, ...]:
        """Row blocks of a node, as the costed graph has them."""
        dim = self.wired.dims.get(self.tiles.dim, -2) if self.tiles.dim >= 0 else -2
        joins = node.mma is not None and node.mma.k_dim == dim
        touched = dim in node.dims or (node.result is not None and dim in node.result.dims)
        return tuple(range(self.tiles.split)) if touched and not joins and self.tiles.split > 1 else (-1,)

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
                for block in self.blocks_of(node):
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
        needed = {g for reader in readers for g in reader.groups}
        return tuple(sorted(needed)) or (self.home_group(task.block),)

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

    # -- operands -----------------------------------------------------------------------------

    def source(self, cell: int, block: int) -> Source | None:
        """What data step an operand shows; None for constants and index arithmetic."""
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
        blocks = self.blocks_of(self.node(region, node))
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
            straight = self.tiles.view(step.operands[0]).axes == (0, 1)
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

    def readers(self, place: Place, *, slots: bool = True) -> list[Task]:
        """Tasks that read what the task at `place` makes; slots: also from shared memory."""
        found = []
        for task in self.tasks.values():
            sources = list(self.register_sources(task)) + (list(self.slot_sources(task)) if slots else [])
            if any(self.place_of(source) == place for source in sources):
                found.append(task)
        return found

    # -- rings --------------------------------------------------------------------------------

    def make_rings(self) -> None:
        """A ring for each tile that some task reads from shared memory or from another group."""
        shared: dict[tuple[object, ...], Ring] = {}
        for place in sorted(self.tasks):
            task = self.tasks[place]
            slot = [r for r in self.tasks.values() if any(self.place_of(s) == place for s in self.slot_sources(r))]
            away = self.away(task)
            if slot or away:
                self.rings[place] = self.ring(task, slot, away, shared)

    def away(self, task: Task) -> list[Task]:
        """Readers in registers of a warp group that does not make the value itself."""
        if task.node.kind == "load" and task.region not in self.loops:
            return []  # every group that needs it loads it
        return [r for r in self.readers(task.place, slots=False) if set(r.groups) - set(task.groups)]

    def ring(self, task: Task, slot: list[Task], away: list[Task], shared: dict[tuple[object, ...], Ring]) -> Ring:
        """The ring that a task fills; loads of one tensor in several loops share one."""
        cell = self.flat.steps[task.steps[-1]].results[0]
        shape, element = self.tiles.core(cell), self.flat.cells[cell].type.element
        loads = task.node.kind == "load"
        producer = self.producer(task)
        consumers = tuple(sorted({g for r in (*slot, *away) for g in r.groups} - (set() if slot else {producer})))
        held = task.region not in self.loops
        known_by = (task.node.tensor, shape, element, producer, consumers, task.block)
        readers = tuple(r.place for r in (*slot, *away))
        if loads and not held and known_by in shared:
            old = shared[known_by]
            if all(place[0] != task.region for place in self.rings if self.rings[place].aref == old.aref):
                return replace(old, key=task.place, readers=readers)
        name = f"{self.name(task)}{'' if task.block < 0 else f'.{task.block}'}"
        buffer = self.memory.buffer(name, shape, element, 1 if held else self.depth(task, known_by))
        copied = loads and task.node.transport == "tma"
        full = 1 if copied else 4 * self.groups[producer].threads // 128
        empty = sum(1 if self.groups[g].issuer else 4 for g in consumers)
        transport = "tma" if copied else "registers"
        aref = self.memory.aref(name, (buffer.id,), producer, consumers, transport, (full, empty))
        multiplied = any(r.node.kind == "mma" for r in slot)
        made = Ring(task.place, aref, buffer, held, readers, multiplied)
        shared.setdefault(known_by, made)
        return made

    def deepen(self) -> None:
        """Shared memory that is left over makes the shallowest rings of loads deeper, all of them by one slot, again
        and again: the model's latencies are those of a quiet memory."""
        loops = {r.aref.id: r for r in self.rings.values() if r.aref.transport == "tma" and not r.held}
        depth = {number: ring.aref.depth for number, ring in loops.items()}
        left = self.capacity - self.memory.used() - self.staging_bytes() - SPARE
        while depth:
            least = min(depth.values())
            shallow = [number for number in depth if depth[number] == least]
            need = sum(loops[number].buffer.bytes for number in shallow)
            if need > left or least == DEEPEST:
                break
            left -= need
            depth.update({number: least + 1 for number in shallow})
        for place, ring in list(self.rings.items()):
            slots = depth.get(ring.aref.id, ring.aref.depth)
            self.rings[place] = replace(ring, aref=self.memory.with_depth(ring.aref, slots),
                                        buffer=replace(ring.buffer, slots=slots))  # fmt: skip

    def staging_bytes(self) -> int:
        """What stores by the TMA want for their tiles."""
        wanted: dict[tuple[int, tuple[int, ...], str], int] = {}
        for task in self.tasks.values():
            cell = self.flat.steps[task.steps[-1]].operands[0] if task.node.kind in ("store", "reduce_store") else -1
            if cell >= 0 and task.node.transport == "tma" and len(self.tiles.core(cell)) == 2:
                shape, element = self.tiles.core(cell), self.flat.cells[cell].type.element
                for group in task.groups:
                    wanted[group, shape, element] = prod(shape) * element_bytes(element)
        return sum(wanted.values())

    def name(self, task: Task) -> str:
        """The kernel's name for a task's result."""
        return task.node.name or task.node.tensor or task.node.op_text.split()[0]

    def producer(self, task: Task) -> int:
        """The group that fills a task's ring."""
        if task.region in self.loops or task.node.kind != "load":
            return task.groups[0]
        issuers = (g.id for g in self.groups if g.issuer and task.node.transport == "tma")
        return next(issuers, self.home_group(task.block))

    def depth(self, task: Task, known_by: tuple[object, ...]) -> int:
        """Slots that the schedule gives the ring; the most of any loop for loads that share one."""
        tensor = task.node.tensor
        depths = [
            b.depth
            for b in self.schedule.buffers
            if b.block == task.block
            and b.space == "shared"
            and (b.name == task.node.name)
            and (b.loop == task.region or (tensor and b.loop in self.loops))
        ]
        return max(depths, default=2 if task.node.kind != "load" else 1)
