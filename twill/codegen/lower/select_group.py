"""The statements of one warp group: straight-line code and loops in program order."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby

from twill.codegen.lower.cursors import Cursors
from twill.codegen.lower.elected import is_elected
from twill.codegen.lower.events import Events
from twill.codegen.lower.group_stream import GroupStream
from twill.codegen.lower.loops import Loops
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.mma import MmaLowering
from twill.codegen.lower.operations import LoweringScope, Tools, outside
from twill.codegen.lower.ordering_barriers import begin, end
from twill.codegen.lower.placement import Placement, Ring
from twill.codegen.lower.puts import Puts
from twill.codegen.lower.registers import Registers
from twill.codegen.lower.scalars import OUTSIDE, ScalarTable
from twill.codegen.lower.stores import Stores
from twill.codegen.lower.task import Task
from twill.codegen.lower.tensor_memory import acquire_accumulators, load_accumulators, publish_accumulators, ran
from twill.codegen.lower.tensor_use import TensorUse, sum_of
from twill.codegen.lower.transfers import Transfers
from twill.codegen.warp.expression import Expr
from twill.codegen.warp.program import Advance, Commit, Consumed, Get, LoadShared, SlotRef, Stmt, WaitGroups, WarpGroup


class GroupSelector:
    """Says a warp group's stream in the grammar. memory: gets the staging buffers, tensor maps and barriers that it
    needs. fragments, cursors: numbers that are unique in the program."""

    def __init__(
        self, rings: Placement, memory: SharedMemoryPlan, stream: GroupStream, fragments: Iterator[int],
        cursors: Iterator[int],
    ) -> None:  # fmt: skip
        plan = rings.plan
        self.plan, self.rings, self.stream, self.made = plan, rings.by_place, stream, stream.group
        self.group = stream.tasks_of
        self.registers = Registers(plan, stream.values, fragments)
        self.cursors = Cursors(cursors, stream.most)
        self.scalars = ScalarTable(plan.wired, taken=self.registers.names)
        transfers = Transfers(plan.tiles, memory, self.scalars, plan.machine.emitting.box.whole)
        numbers = (self.group, self.made.id)
        tools = Tools(plan, rings, memory, self.registers, self.scalars, transfers, self.cursors, *numbers)
        self.tools, self.puts, self.mmas, self.stores = tools, Puts(tools), MmaLowering(tools), Stores(tools)
        self.events = Events(tools, self.puts, self.mmas, self.stores)
        self.loops = Loops(tools, self.events)

    # -- the whole group ----------------------------------------------------------------------

    def select(self) -> WarpGroup:
        """The warp group."""
        regions = self.plan.wired.graph.regions
        plans = {region: self.loops.with_registers(loop) for region, loop in self.stream.loops.items()}
        for loop in self.stream.loops.values():
            self.loops.take_positions(loop, self.stream.most)
        for plan in plans.values():
            plan.uses = self.loops.uses_of(plan.said, self.stream.most)
        body: list[Stmt] = []
        looped = 0  # statements up to the last loop
        for region in regions:
            body += self.held(region.id, first=True)
            if region.kind == "loop":
                body += self.acquired(region.id)
                body += self.loops.statements(plans[region.id]) if region.id in plans else []
                body += self.handed_on(region.id)
                looped = len(body)
            else:
                body += self.straight(region.id)
            body += self.held(region.id, first=False)
        group = self.made
        given = [(p, t) for p in plans.values() for t in self.events.ordering_barriers(p)]
        start = [stmt for p, t in given if t.of.group == self.group for stmt in begin(t, self.events.barrier_of(p, t))]
        finish = [stmt for p, t in given if t.to.group == self.group for stmt in end(t, self.events.barrier_of(p, t))]
        scalars: dict[int, tuple[Stmt, ...]] = {value: (let,) for value, let in self.scalars.lets.items()}
        scalars |= self.scalars.loops
        stream = self.tools.transfers.made.statements(body[:looped], body[looped:])
        lets = [stmt for value in sorted(scalars) for stmt in scalars[value]]
        return WarpGroup(
            id=group.id, role=group.role, threads=group.threads, registers=group.registers, issuer=group.issuer,
            fragments=tuple(self.registers.fragments), cursors=tuple(self.cursors.cursors),
            start=tuple(start), body=(*self.stores.before(), *lets, *self.puts.lets, *stream),
            finish=(*finish, *self.stores.finish()),
        )  # fmt: skip

    # -- accumulators in tensor memory --------------------------------------------------------

    def acquired(self, region: int) -> list[Stmt]:
        """What stands in front of a loop into whose accumulators this group multiplies."""
        made = self.accumulators(region, made=True)
        return acquire_accumulators(made, self.trip(region), self.tools) if made else []

    def handed_on(self, region: int) -> list[Stmt]:
        """What stands behind a loop whose accumulators this group makes or reads."""
        made, read = self.accumulators(region, made=True), self.accumulators(region, made=False)
        if not made and not read:
            return []
        found: list[Stmt] = []
        for say, rings in ((publish_accumulators, made), (load_accumulators, read)):
            for begun, alike in groupby(rings, self.begun):
                found += say([*alike], begun, self.tools) if begun is not None else ()
        return found

    def begun(self, ring: Ring) -> Expr | None:
        """Whether something is added to a sum behind whose loop this stands; None if a later loop goes on with it."""
        loops = sum_of(self.plan, self.plan.tasks[ring.key])
        return ran(loops, self.tools) if loops[-1].place == ring.key else None

    def accumulators(self, region: int, *, made: bool) -> list[Ring]:
        """The rings of what a whole loop adds up that this group fills, or reads; those that it changed itself, too, if
        they are read behind the loop."""
        rings = [ring for ring in self.rings.values() if ring.key[0] == region]
        sums = [ring for ring in rings if ring.use is TensorUse.SUM]
        if made:
            return [ring for ring in sums if ring.aref.producer == self.group]
        updated = [r for r in rings if r.use is TensorUse.UPDATED and r.aref.producer == self.group]
        own = [r for r in updated if self.group in {g for p in r.readers for g in self.plan.tasks[p].groups}]
        return [*(ring for ring in sums if self.group in ring.aref.consumers), *own]

    def trip(self, region: int) -> Expr:
        """Iterations of a loop."""
        return self.scalars.trip(self.loops.loops[self.plan.wired.stretch[region]])

    # -- rings that straight-line code fills --------------------------------------------------

    def held_rings(self) -> list[tuple[Ring, list[int]]]:
        """Placement that this group reads as a whole, and the regions in which it does."""
        found = []
        for ring in self.rings.values():
            if ring.held and self.group in ring.aref.consumers:
                regions = sorted({p[0] for p in ring.readers if self.group in self.plan.tasks[p].groups})
                found.append((ring, regions))
        return found

    def held(self, region: int, *, first: bool) -> list[Stmt]:
        """Gets before the first region that reads a held ring, or its release after the last."""
        made: list[Stmt] = []
        for ring, regions in self.held_rings():
            cursor = self.cursors.of(ring.aref, "get")
            reused = ring.key in self.plan.register_operands
            if first and regions[0] == region and not self.is_computed_in(ring, region):
                made += self.got(ring)
            if first and regions[0] == region if reused else not first and regions[-1] == region:
                mine = (self.plan.tasks[place] for place in ring.readers)
                behind = any(self.plan.is_in_tensor_memory(task) for task in mine if self.group in task.groups)
                made += [Consumed(cursor, behind=behind), *map(Advance, self.cursors.every(ring.aref, "get"))]
        return made

    def is_computed_in(self, ring: Ring, region: int) -> bool:
        """Whether a ring is filled in the straight-line code that reads it first: by this group, or by another one that
        may wait for what this one does there before it reads."""
        computed = self.plan.tasks[ring.key].node.kind != "load" and region not in self.plan.loops
        return self.puts_first(ring, region) or (computed and ring.key[0] == region)

    def puts_first(self, ring: Ring, region: int) -> bool:
        """Whether this group fills a ring itself in the region that reads it first."""
        return ring.aref.producer == self.group and ring.key[0] == region

    def got(self, ring: Ring) -> list[Stmt]:
        """Waits for a held tile."""
        return [Get(self.cursors.of(ring.aref, "get")), *self.receive_held(ring)]

    def put_and_got(self, ring: Ring, region: int) -> list[Stmt]:
        """What follows a put of a tile that this group reads in the same region first."""
        regions = next((regions for held, regions in self.held_rings() if held.key == ring.key), [])
        return self.got(ring) if regions[:1] == [region] and self.puts_first(ring, region) else []

    def receive_held(self, ring: Ring) -> list[Stmt]:
        """A held tile that this group reads in registers, or multiplies from there, is fetched once."""
        task = self.plan.tasks[ring.key]
        if ring.key not in self.plan.register_operands:
            mine = [self.plan.tasks[p] for p in ring.readers if self.group in self.plan.tasks[p].groups]
            in_registers = any(self.plan.place_of(s) == ring.key for t in mine for s in self.plan.register_sources(t))
            if not in_registers or self.group in task.groups or task.node.kind == "load":
                return []
        cursor = self.cursors.of(ring.aref, "get")
        variable = self.registers.of(task.made)
        return [LoadShared(SlotRef(ring.buffer.id, cursor), variable, line=task.node.line)]

    # -- straight-line code -------------------------------------------------------------------

    def straight(self, region: int) -> list[Stmt]:
        """The region's tasks in program order."""
        made: list[Stmt] = []
        scopes: dict[int, LoweringScope] = {}
        awaited = [
            ring
            for ring, regions in self.held_rings()
            if regions[0] == region and self.is_computed_in(ring, region) and not self.puts_first(ring, region)
        ]
        for task in sorted(self.plan.tasks.values(), key=lambda t: (t.place[1], t.block)):
            if task.region != region:
                continue
            ring = self.rings.get(task.place)
            if task.node.kind == "load" and ring is not None and ring.aref.producer == self.group:
                made += self.puts.load(task, ring, OUTSIDE)
                made += self.put_and_got(ring, region)
            scope = scopes.setdefault(task.block, outside(self.tools, task.block, []))
            if self.group not in task.groups:
                if is_elected(task, scope):
                    scope.made = made
                    self.stores.follow(task, scope)
                continue
            for ring_read in [one for one in awaited if task.place in one.readers]:
                made += self.got(ring_read)
                awaited.remove(ring_read)
            scope.made = made
            self.straight_task(task, scope)
            if ring is not None and task.node.kind != "load" and ring.aref.producer == self.group:
                made += self.puts.from_registers(task, ring)
                made += self.put_and_got(ring, region)
        return made

    def straight_task(self, task: Task, scope: LoweringScope) -> None:
        """One task outside of loops; an MMA is waited for at once."""
        if task.node.kind == "mma":
            scope.made += [*self.mmas.issue(task, scope), Commit(), WaitGroups(0, self.mmas.touched(task))]
        elif task.node.kind in ("store", "reduce_store"):
            self.stores.store(task, scope)
        else:
            scope.run(task)


def select_group(
    rings: Placement, memory: SharedMemoryPlan, stream: GroupStream, fragments: Iterator[int], cursors: Iterator[int]
) -> WarpGroup:
    """The warp group of a stream. Raises UnsupportedInKernel, UnsupportedBySchedule."""
    return GroupSelector(rings, memory, stream, fragments, cursors).select()
