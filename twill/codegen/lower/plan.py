"""Who does what: tasks of warp groups, and where the operands of each come from.

A task is a node of the dependence graph for one row block.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from twill.codegen.lower.candidates import LoweringCandidate
from twill.codegen.lower.cross_loop_reuse import ReuseGroup
from twill.codegen.lower.groups import Group
from twill.codegen.lower.task import Place, Source, Task
from twill.codegen.lower.tensor_use import updaters
from twill.codegen.lower.tiles import TileLayouts
from twill.graph.build import Wired
from twill.graph.dependence import Node
from twill.machine.description import Machine
from twill.machine.occupancy import share
from twill.schedule.document import Schedule
from twill.tile.flat import Flat, Step
from twill.tile.vocabulary import MMA


def predicated_updates(tiles: TileLayouts) -> dict[int, tuple[Step, ...]]:
    """For each step whose result is changed where it is under a guard: by which `update` steps, in order."""
    found: dict[int, tuple[Step, ...]] = {}
    for step in tiles.flat.steps:
        if step.op.kind == "update":
            maker = tiles.wired.wiring.maker[tiles.view(step.results[0]).base]
            found[maker] = (*found.get(maker, ()), step)
    return found


@dataclass(frozen=True)
class OperandReaders:
    """known: tasks that were looked at. readers: by place, those of them that have what is made there as an operand."""

    known: set[Place]
    readers: dict[Place, list[Place]]


@dataclass(frozen=True)
class LoweringPlan:
    """Tasks by place, and the groups that have them: what `twill.codegen.lower.assign` makes. candidate: the choices
    that it follows. reuse_groups: loads of several loops that
    one ring holds the tiles of (`cross_loop_reuse`). register_operands: tiles that stay in registers
    (`register_operands`). known: answers of `part_sources`."""

    wired: Wired
    schedule: Schedule
    machine: Machine
    tiles: TileLayouts
    candidate: LoweringCandidate
    groups: tuple[Group, ...]
    tasks: Mapping[Place, Task] = field(default_factory=dict)
    reuse_groups: tuple[ReuseGroup, ...] = ()
    register_operands: frozenset[Place] = frozenset()
    found: dict[tuple[int, int], Source | None] = field(default_factory=dict, compare=False)  # answers of `source`
    known: dict[tuple[int, tuple[int, ...]], tuple[tuple[int, Source], ...]] = field(
        default_factory=dict, compare=False
    )

    @property
    def flat(self) -> Flat:
        """The steps of the program."""
        return self.wired.flat

    @cached_property
    def home(self) -> dict[int, tuple[int, int]]:
        """The region and node of each step that a node does."""
        return {step: place for place, steps in self.wired.steps.items() for step in steps}

    @cached_property
    def loops(self) -> frozenset[int]:
        """The regions that are loops."""
        return frozenset(r.id for r in self.wired.graph.regions if r.kind == "loop")

    @cached_property
    def amendments(self) -> dict[int, tuple[Step, ...]]:
        """See the function of that name."""
        return predicated_updates(self.tiles)

    @cached_property
    def updaters(self) -> Mapping[tuple[int, int], int]:
        """See the function of that name in `twill.codegen.lower.tensor_use`."""
        return updaters(self)

    def only_multiplies(self) -> bool:
        """Whether loops have nothing but MMAs of tiles that load groups bring, and nothing else passes through a
        ring: several warp groups may work on program instances alternately then."""
        inside = [task for task in self.tasks.values() if task.region in self.loops]
        if not any(task.node.kind == "mma" for task in inside):
            return False
        if any(task.node.kind not in ("mma", "load") for task in inside):
            return False
        sources = (source for task in self.tasks.values() for source in self.slot_sources(task))
        makers = [self.tasks[self.place_of(source)] for source in sources]
        return all(maker.node.kind == "load" and maker.node.transport == "tma" for maker in makers)

    def same_stream(self, group: int) -> tuple[int, ...]:
        """The group and those that repeat its stream."""
        return (group, *(g.id for g in self.groups if g.like == group))

    @property
    def capacity(self) -> int:
        """Bytes of shared memory of a CTA."""
        return share(self.machine, self.candidate.ctas)

    def last_step(self, task: Task) -> Step:
        """The step of the flat program that makes a task's result, or does what it does to memory."""
        return self.flat.steps[task.steps[-1]]

    def blocks_of(self, region: int, node: Node) -> tuple[int, ...]:
        """Row blocks of a node, as the costed graph has them."""
        if (region, node.id) in self.tiles.columns:
            return tuple(range(self.tiles.split))
        dim = self.wired.dims.get(self.tiles.dim, -2) if self.tiles.dim >= 0 else -2
        joins = node.mma is not None and node.mma.k_dim == dim
        touched = dim in node.dims or (node.result is not None and dim in node.result.dims)
        return tuple(range(self.tiles.split)) if touched and not joins and self.tiles.split > 1 else (-1,)

    def makers(self, task: Task) -> set[int]:
        """The groups that make what a task reads in its loop."""
        places = (self.place_of(source) for source in (*self.register_sources(task), *self.slot_sources(task)))
        return {group for place in places if place in self.tasks for group in self.tasks[place].groups}

    def interval(self, region: int) -> int:
        """I of a loop."""
        return next(loop.ii for loop in self.schedule.loops if loop.loop == region)

    def home_group(self, block: int) -> int:
        """The compute group that a row block belongs to."""
        for task in self.tasks.values():
            if task.region in self.loops and task.block == block and self.groups[task.groups[0]].computes:
                return task.groups[0]
        computing = [g for g in self.groups if g.computes] or [g for g in self.groups if not g.issuer]
        return max(computing, key=lambda group: group.registers).id

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

    def part_sources(self, task: Task, number: int) -> tuple[tuple[int, Source], ...]:
        """The sources of a step in every row block that the task works on, each once."""
        parts = self.parts(task)
        if (number, parts) not in self.known:
            every = (found for block in parts for found in self.sources(self.flat.steps[number], block))
            self.known[number, parts] = tuple(dict.fromkeys(every))
        return self.known[number, parts]

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
        """The row blocks that a task works on: its own, or all for an MMA that is contracted over the split."""
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
        if step.op.kind in MMA and position < 2:
            if position == 1 or made == "tile_load":
                return True
            straight = not self.tiles.is_transposed(step.operands[0])
            maker = self.tasks.get(self.place_of(source))
            together = maker is not None and maker.region == task.region and maker.groups == task.groups
            return not (straight and together and self.schedule.cooperation.operand_a == "register")
        return made == "tile_load" and self.home[source.step][0] in self.loops and not self.candidate.direct

    def defines(self, task: Task) -> bool:
        """Whether a task of a loop makes a value in registers: a load does where no ring takes it."""
        if self.is_in_tensor_memory(task) or self.is_updater(task):
            return False
        return task.node.result is not None and (task.node.kind != "load" or self.candidate.direct)

    def is_in_tensor_memory(self, task: Task) -> bool:
        """Whether a task is an MMA whose accumulator is there."""
        return task.node.kind == "mma" and self.tiles.target.has_tensor_memory

    def is_updater(self, task: Task) -> bool:
        """Whether a task changes an accumulator that is in tensor memory."""
        return task.place[:2] in self.updaters

    def updates(self, task: Task, source: Source) -> bool:
        """Whether a source of a task is the accumulator that it changes."""
        region, node = self.home[source.step]
        return self.updaters.get(task.place[:2]) == node and region == task.region

    def register_sources(self, task: Task) -> Iterator[Source]:
        """Sources that a task reads in registers, from other tasks or earlier iterations."""
        for number in task.steps:
            step = self.flat.steps[number]
            for position, source in self.part_sources(task, number):
                if step.op.kind in MMA and position == 2 and self.tiles.target.has_tensor_memory:
                    continue  # the accumulator, which is not in registers
                if self.updates(task, source):
                    continue  # the same
                if not self.in_slot(task, step, position, source) and not (
                    source.step in task.steps and not source.distance
                ):
                    yield source

    def slot_sources(self, task: Task) -> Iterator[Source]:
        """Sources that a task reads from shared memory."""
        for number in task.steps:
            step = self.flat.steps[number]
            for position, source in self.part_sources(task, number):
                if self.in_slot(task, step, position, source):
                    yield source

    def of_group(self, group: int, region: int) -> list[Task]:
        """A group's tasks in a region, in the order of the program."""
        mine = [t for t in self.tasks.values() if t.region == region and group in t.groups]
        return sorted(mine, key=lambda t: (t.place[1], t.block))

    def readers(self, place: Place, *, slots: bool = True) -> list[Task]:
        """Tasks that read what the task at `place` makes; slots: also from shared memory."""
        found = []
        for task in self.possible_readers(place):
            sources = list(self.register_sources(task)) + (list(self.slot_sources(task)) if slots else [])
            if any(self.place_of(source) == place for source in sources):
                found.append(task)
        return found

    def starting_with(self, place: Place) -> list[Task]:
        """Tasks that make, or read in registers, what a later loop carries that begins with what the task at `place`
        leaves; and of loops behind that one that go on with it."""
        found: list[Task] = []
        for goes_on in self.carried_on(place):
            found += [self.tasks[goes_on]] if goes_on in self.tasks else []
            found += [*self.readers(goes_on, slots=False), *self.starting_with(goes_on)]
        return found

    def carried_on(self, place: Place) -> Iterator[Place]:
        """Where loops make carried values that begin with what the task at `place` leaves."""
        for carry in self.flat.carries:
            if carry.pure or not self.wired.wiring.makes(carry):
                continue
            begin, source = self.source(carry.init, place[2]), self.source(carry.yielded, place[2])
            if begin is not None and source is not None and self.place_of(begin) == place != self.place_of(source):
                yield self.place_of(source)

    def possible_readers(self, place: Place) -> Iterator[Task]:
        """Tasks that have an operand which the task at `place` makes, in the order of `tasks`."""
        index = self.operand_readers
        if len(index.known) < len(self.tasks):  # tasks are added while they are assigned
            for one in [task for there, task in self.tasks.items() if there not in index.known]:
                index.known.add(one.place)
                sources = (source for number in one.steps for _, source in self.part_sources(one, number))
                for made in dict.fromkeys(self.place_of(source) for source in sources):
                    index.readers.setdefault(made, []).append(one.place)
        return (self.tasks[there] for there in index.readers.get(place, ()))

    @cached_property
    def operand_readers(self) -> OperandReaders:
        """What `possible_readers` knows."""
        return OperandReaders(set(), {})
