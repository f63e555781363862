"""The stream of one warp group: straight-line code and loops in program order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from math import prod

from twill import exc
from twill.codegen.aref import (
    Acquire,
    Advance,
    Commit,
    Consumed,
    Copy,
    Expect,
    Fence,
    Fill,
    Get,
    LoadGlobal,
    LoadShared,
    Multiply,
    ProxyFence,
    Publish,
    Reg,
    SlotRef,
    Stmt,
    StoreShared,
    TmaLoad,
    WaitGroups,
    WarpGroup,
)
from twill.codegen.cursors import Cursors, Use
from twill.codegen.expression import Number
from twill.codegen.gather import gather
from twill.codegen.layout import runs
from twill.codegen.operations import Scope, Tools
from twill.codegen.plan import Place, Plan, Ring, Source, Task
from twill.codegen.registers import EventKey, Made, Reading, Registers, versions
from twill.codegen.scalars import OUTSIDE, Iteration, ScalarTable
from twill.codegen.stores import Stores
from twill.codegen.stream import Event, Printer, Stream, arrange
from twill.codegen.transfers import Part, Transfers, largest_part, rows_of
from twill.codegen.turns import Turn, begin, end, give, turns, wait
from twill.graph.flat import FlatCarry, Step
from twill.graph.program import Loop
from twill.graph.purity import stretches

AT_ONCE = 4096  # elements of a tile that the 128 threads of a group load before they store them


@dataclass
class LoopPlan:
    """One loop of one warp group. uses: how events use the rings they read."""

    region: int
    loop: Loop
    stream: Stream
    uses: dict[EventKey, dict[int, Use]] = field(default_factory=dict)  # event -> aref -> use
    variables: dict[tuple[EventKey, Made, int], int] = field(default_factory=dict)
    landings: dict[EventKey, tuple[int, int]] = field(default_factory=dict)  # retire event -> (from, to)


class Emitter:
    """Makes the warp group `group` of a plan."""

    def __init__(self, plan: Plan, group: int, fragments: Iterator[int], cursors: Iterator[int]) -> None:
        self.plan, self.group = plan, group
        self.registers = Registers(plan, group, fragments)
        self.cursors = Cursors(cursors)
        self.scalars = ScalarTable(plan.wired, taken=self.registers.names)
        self.transfers = Transfers(plan.tiles, plan.memory, self.scalars)
        self.tools = Tools(plan, plan.memory, self.registers, self.scalars, self.transfers, group)
        self.stores = Stores(self.tools)
        self.received: dict[int, dict[Place, EventKey]] = {}  # region -> value of another group -> its event
        self.loops = {number: loop for number, loop, _ in stretches(plan.wired.program) if loop is not None}

    # -- the whole group ----------------------------------------------------------------------

    def emit(self) -> WarpGroup:
        """The warp group."""
        regions = self.plan.wired.graph.regions
        for region in regions:
            self.registers.accumulate_in_place(self.tasks(region.id))
        plans = {r.id: p for r in regions if r.kind == "loop" and (p := self.plan_loop(r.id)) is not None}
        for loop in plans.values():
            self.plan_uses(loop)  # all loops first: they agree on the number of cursors in a ring
        body: list[Stmt] = []
        for region in regions:
            body += self.held(region.id, first=True)
            if region.kind == "loop":
                body += self.loop(plans[region.id]) if region.id in plans else []
            else:
                body += self.straight(region.id)
            body += self.held(region.id, first=False)
        group = self.plan.groups[self.group]
        given = [(p, t) for p in plans.values() for t in self.turns(p)]
        start = [stmt for p, t in given if t.of.group == self.group for stmt in begin(t, self.turn(p, t))]
        finish = [stmt for p, t in given if t.to.group == self.group for stmt in end(t, self.turn(p, t))]
        layouts = {f.id: f.layout for f in self.registers.fragments}
        lets = [self.scalars.lets[value] for value in sorted(self.scalars.lets)]
        return WarpGroup(
            id=group.id, role=group.role, threads=group.threads, registers=group.registers, issuer=group.issuer,
            fragments=tuple(self.registers.fragments), cursors=tuple(self.cursors.cursors),
            start=tuple(start), body=(*lets, *gather(body, layouts)), finish=(*finish, *self.stores.finish()),
        )  # fmt: skip

    def tasks(self, region: int) -> list[Task]:
        """The group's tasks in a region, in the order of the program."""
        mine = [t for t in self.plan.tasks.values() if t.region == region and self.group in t.groups]
        return sorted(mine, key=lambda t: (t.place[1], t.block))

    # -- rings that straight-line code fills --------------------------------------------------

    def held_rings(self) -> list[tuple[Ring, list[int]]]:
        """Rings that this group reads as a whole, and the regions in which it does."""
        found = []
        for ring in self.plan.rings.values():
            if ring.held and self.group in ring.aref.consumers:
                regions = sorted({p[0] for p in ring.readers if self.group in self.plan.tasks[p].groups})
                found.append((ring, regions))
        return found

    def held(self, region: int, *, first: bool) -> list[Stmt]:
        """Gets before the first region that reads a held ring, or its release after the last."""
        made: list[Stmt] = []
        for ring, regions in self.held_rings():
            cursor = self.cursors.of(ring.aref, "get")
            if first and regions[0] == region:
                made.append(Get(cursor))
                made += self.receive_held(ring)
            if not first and regions[-1] == region:
                made += [Consumed(cursor), Advance(cursor)]
        return made

    def receive_held(self, ring: Ring) -> list[Stmt]:
        """A held tile that this group reads in registers is fetched once."""
        task = self.plan.tasks[ring.key]
        mine = [self.plan.tasks[p] for p in ring.readers if self.group in self.plan.tasks[p].groups]
        in_registers = any(self.plan.place_of(s) == ring.key for t in mine for s in self.plan.register_sources(t))
        if not in_registers or self.group in task.groups or task.node.kind == "load":
            return []
        cursor = self.cursors.of(ring.aref, "get")
        variable = self.registers.of((task.steps[-1], task.block))
        return [LoadShared(SlotRef(ring.buffer.id, cursor), variable, line=task.node.line)]

    # -- straight-line code -------------------------------------------------------------------

    def straight(self, region: int) -> list[Stmt]:
        """The region's tasks in program order."""
        made: list[Stmt] = []
        scopes: dict[int, Scope] = {}
        for task in sorted(self.plan.tasks.values(), key=lambda t: (t.place[1], t.block)):
            if task.region != region:
                continue
            ring = self.plan.rings.get(task.place)
            if task.node.kind == "load" and ring is not None and ring.aref.producer == self.group:
                made += self.put_load(task, ring, OUTSIDE)
            if self.group not in task.groups:
                continue
            scope = scopes.setdefault(task.block, Scope(self.tools, OUTSIDE, task.block, self.current, self.held_slot))
            scope.made = made
            self.straight_task(task, scope)
            if ring is not None and task.node.kind != "load" and ring.aref.producer == self.group:
                made += self.put_registers(task, ring)
        return made

    def straight_task(self, task: Task, scope: Scope) -> None:
        """One task outside of loops; a product is waited for at once."""
        if task.node.kind == "mma":
            scope.made += [*self.issue(task, scope), Commit(), WaitGroups(0, self.touched(task))]
        elif task.node.kind in ("store", "reduce_store"):
            self.stores.store(task, scope)
        else:
            scope.run(task)

    def current(self, source: Source) -> int:
        """The variable of a value outside of loops."""
        return self.registers.of((source.step, source.block))

    def held_slot(self, source: Source) -> SlotRef | None:
        """The slot of a held ring, for what is read from it in place."""
        ring = self.plan.rings.get(self.plan.place_of(source))
        if ring is None or not ring.held:
            return None
        return SlotRef(ring.buffer.id, self.cursors.of(ring.aref, "get"))

    # -- loops: planning ----------------------------------------------------------------------

    def plan_loop(self, region: int) -> LoopPlan | None:
        """Events and stream of a loop; None if the group has nothing to do in it."""
        tasks = self.tasks(region)
        if not tasks:
            return None
        loop = self.loops[self.plan.wired.stretch[region]]
        interval = self.plan.interval(region)
        events: list[Event] = []
        plan = LoopPlan(region, loop, Stream((), 0, interval))
        for task in tasks:
            number = tasks.index(task)
            events.append(Event(("issue", number), task.start, partial(self.issue_event, plan, task, number),
                                multiplies=task.node.kind == "mma", keep=partial(self.keep, task),
                                carried=self.is_carried(task)))  # fmt: skip
            if task.node.kind == "mma":
                events.append(
                    Event(("retire", number), self.retire_time(task, tasks, interval),
                          partial(self.retire_event, plan, task, number), retires=("issue", number),
                          ready=self.touched(task), matters=self.matters(task, tasks))
                )  # fmt: skip
        events += self.receive_events(plan, tasks)
        plan.stream = arrange(events, interval)
        self.plan_versions(plan, tasks)
        return plan

    def retire_time(self, task: Task, tasks: list[Task], interval: int) -> int:
        """When a product is waited for: at its latency, but before it runs again, and before other instructions write
        an accumulator or a fragment A: ptxas serializes products if they do while one is in flight (C7513, C7515)."""
        operands = {fragment for other in tasks if other.node.kind == "mma" for fragment in self.touched(other)}
        limits = [task.start + interval - 1]
        for other in tasks:
            if other.node.kind == "elementwise" and self.result_of(other) in operands:
                limits.append(other.start + ((task.start - other.start) // interval + 1) * interval)
        return min(task.start + task.latency, *limits)

    def result_of(self, task: Task) -> int:
        """The variable that a task defines."""
        return self.registers.of((task.steps[-1], task.block))

    def matters(self, task: Task, tasks: list[Task]) -> bool:
        """Whether anything but products touches a product's registers in the loop."""
        mine = set(self.touched(task))
        for other in tasks:
            if other.node.kind == "mma":
                continue
            read = {self.registers.of((s.step, s.block)) for s in self.plan.register_sources(other)}
            if other.node.kind == "elementwise":
                read.add(self.result_of(other))
            if read & mine:
                return True
        return task.place in self.plan.rings

    def a_in_slot(self, task: Task) -> bool:
        """Whether a product reads A from shared memory."""
        step = self.plan.flat.steps[task.steps[-1]]
        source = self.plan.source(step.operands[0], task.block)
        return source is not None and self.plan.in_slot(task, step, 0, source)

    def receive_events(self, plan: LoopPlan, tasks: list[Task]) -> list[Event]:
        """Register values of other groups in this loop, fetched in front of their first reader here."""
        found: list[Event] = []
        wanted: dict[tuple[int, int, int], int] = {}
        for task in tasks:
            for source in self.plan.register_sources(task):
                place = self.plan.place_of(source)
                maker = self.plan.tasks[place]
                if place[0] != plan.region or self.group in maker.groups:
                    continue
                if source.distance:
                    raise exc.UnsupportedInKernel(
                        f"`{task.node.name}` reads the value of an earlier iteration from another warp group",
                        file=self.plan.wired.program.file, line=task.node.line,
                        hint="solve with one row block (`--blocks 1`)",
                    )  # fmt: skip
                wanted[place] = min(task.start, wanted.get(place, task.start))
        for number, (place, start) in enumerate(sorted(wanted.items())):
            key = ("receive", number)
            keep = partial(self.keep, self.plan.tasks[place])
            found.append(Event(key, start - 1, partial(self.receive_event, plan, place, key), keep=keep))
        self.received[plan.region] = {place: ("receive", i) for i, place in enumerate(sorted(wanted))}
        return found

    def plan_versions(self, plan: LoopPlan, tasks: list[Task]) -> None:
        """Which variable each reader finds."""
        defined_by: dict[Made, EventKey] = {}
        definers: dict[int, list[EventKey]] = {}
        readings: list[Reading] = []
        for number, task in enumerate(tasks):
            if task.node.result is not None and task.node.kind != "load":
                defined_by[task.steps[-1], task.block] = ("issue", number)
            readings += [Reading(("issue", number), source) for source in self.plan.register_sources(task)]
        for place, key in self.received[plan.region].items():
            defined_by[self.plan.tasks[place].steps[-1], place[2]] = key
        for made, key in defined_by.items():
            definers.setdefault(self.registers.of(made), []).append(key)
        landed = self.land(plan, tasks, readings)
        others = [r for r in readings if (r.source.step, r.source.block) not in landed]
        plan.variables = versions(plan.stream, self.registers, others, definers, defined_by)
        for reading in readings:
            made = (reading.source.step, reading.source.block)
            if made in landed:
                plan.variables[reading.event, made, reading.source.distance] = landed[made]

    def land(self, plan: LoopPlan, tasks: list[Task], readings: list[Reading]) -> dict[Made, int]:
        """Products that are issued again while their last result is still read: where that result moves to when it
        is complete, if it is read nowhere later than the next completion."""
        landed: dict[Made, int] = {}
        for number, task in enumerate(tasks):
            made = (task.steps[-1], task.block)
            mine = [r for r in readings if (r.source.step, r.source.block) == made]
            if task.node.kind != "mma" or self.is_carried(task) or not mine:
                continue
            if any(task.place == self.plan.place_of(r.source) and tasks[r.event[1]].node.kind == "mma" for r in mine):
                continue

            def late(event: EventKey, mine: list[Reading] = mine) -> bool:
                return any(plan.stream.executions(event, r.event, event, r.source.distance) > 0 for r in mine)

            if late(("issue", number)) and not late(("retire", number)):
                held = self.registers.fragment(self.registers.of(made))
                landed[made] = self.registers.new(f"{held.name}_done", held.element, held.layout)
                plan.landings["retire", number] = (held.id, landed[made])
        return landed

    def plan_uses(self, plan: LoopPlan) -> None:
        """Which event waits for a ring, which gives its slot back, and the cursors in between."""
        tasks = self.tasks(plan.region)
        reads: dict[int, list[tuple[EventKey, int, EventKey]]] = {}  # aref -> (event, end of the read, event of it)
        rings: dict[int, Ring] = {}
        for number, task in enumerate(tasks):
            multiplies = task.node.kind == "mma"
            end = ("retire", number) if multiplies else ("issue", number)
            for source in self.plan.slot_sources(task):
                ring = self.plan.rings[self.plan.place_of(source)]
                if ring.held:
                    continue
                if source.distance:
                    raise exc.UnsupportedInKernel(
                        f"`{task.node.name}` reads a tile of an earlier iteration from shared memory",
                        file=self.plan.wired.program.file, line=task.node.line, hint="carry it in registers",
                    )  # fmt: skip
                over = task.start + (task.latency if multiplies else task.hold)
                rings[ring.aref.id] = ring
                reads.setdefault(ring.aref.id, []).append((("issue", number), over, end))
        for place, key in self.received[plan.region].items():
            ring = self.plan.rings[place]
            rings[ring.aref.id] = ring
            reads.setdefault(ring.aref.id, []).append((key, plan.stream.event(key).time, key))
        plan.uses = {}
        for aref, found in reads.items():
            ends = max(
                found, key=lambda read: (read[1], plan.stream.event(read[2]).stage, plan.stream.position(read[2]))
            )
            made = self.cursors.uses(rings[aref].aref, [event for event, _, _ in found], ends[2], plan.stream)
            for key, use in made.items():
                plan.uses.setdefault(key, {})[aref] = use

    # -- loops: statements --------------------------------------------------------------------

    def loop(self, plan: LoopPlan) -> list[Stmt]:
        """Initial values, then the pipeline."""
        made = self.initial(plan)
        name = f"loop{plan.region}"
        printer = Printer(plan.stream, plan.loop, name, self.scalars.trip(plan.loop))
        return made + printer.pipeline(plan.loop.line)

    def initial(self, plan: LoopPlan) -> list[Stmt]:
        """What carried values are before the first iteration."""
        made: list[Stmt] = []
        stretch = self.plan.wired.stretch[plan.region]
        for carry in self.plan.flat.carries:
            if carry.stretch == stretch and not carry.pure and self.plan.wired.wiring.makes(carry):
                made += self.initial_value(carry)
        return made

    def initial_value(self, carry: FlatCarry) -> list[Stmt]:
        """The start of one carried value, in every row block that this group has."""
        made: list[Stmt] = []
        blocks = range(self.plan.tiles.split) if self.plan.tiles.is_split(carry.argument) else (-1,)
        for block in blocks:
            source = self.plan.source(carry.yielded, block)
            if source is None or self.group not in self.plan.tasks[self.plan.place_of(source)].groups:
                continue
            variable = self.registers.of((source.step, source.block))
            scope = Scope(self.tools, OUTSIDE, block, self.current, self.held_slot, made)
            start = scope.shown(carry.init, carry.argument)
            if not isinstance(start, Reg):
                made.append(Fill(variable, start, line=0))
            elif start.fragment != variable:
                made.append(Copy(start.fragment, variable))
        return made

    def scope(self, plan: LoopPlan, key: EventKey, task: Task, at: Iteration, made: list[Stmt]) -> Scope:
        """The place of one event."""

        def find(source: Source) -> int:
            made_by = (source.step, source.block)
            if source.step in task.steps and not source.distance:
                return self.registers.of(made_by)
            return plan.variables[key, made_by, source.distance]

        def slot(source: Source) -> SlotRef | None:
            if not any(self.plan.place_of(s) == self.plan.place_of(source) for s in self.plan.slot_sources(task)):
                return None
            ring = self.plan.rings[self.plan.place_of(source)]
            if ring.held:
                return SlotRef(ring.buffer.id, self.cursors.of(ring.aref, "get"))
            return SlotRef(ring.buffer.id, plan.uses[key][ring.aref.id].cursor)

        return Scope(self.tools, at, task.block, find, slot, made)

    def is_carried(self, task: Task) -> bool:
        """Whether what a task makes has a value before the loop."""
        stretch = self.plan.wired.stretch[task.region]
        carries = [c for c in self.plan.flat.carries if c.stretch == stretch and not c.pure]
        sources = [self.plan.source(c.yielded, task.block) for c in carries]
        return any(s is not None and s.step == task.steps[-1] for s in sources)

    def keep(self, task: Task) -> list[Stmt]:
        """Copies of older versions of what a task defines."""
        if task.node.result is None or task.node.kind == "load":
            return []
        return self.registers.keep(self.registers.of((task.steps[-1], task.block)))

    def issue_event(self, plan: LoopPlan, task: Task, number: int, at: Iteration) -> list[Stmt]:
        """Everything that a task does when it is issued."""
        key = ("issue", number)
        made: list[Stmt] = []
        uses = plan.uses.get(key, {})
        for use in uses.values():
            made += use.before()
        if task.node.kind == "load":
            ring = self.plan.rings.get(task.place)
            return made + (self.put_load(task, ring, at) if ring is not None else [])
        scope = self.scope(plan, key, task, at, made)
        if task.node.kind == "mma":
            trip = self.scalars.trip(plan.loop)
            for turn in self.turns(plan):
                if task.place in turn.to.products:
                    made += wait(turn, task.place, self.turn(plan, turn), at, trip)
            made += self.issue(task, scope)
            for turn in self.turns(plan):
                if task.place in turn.of.products:
                    made += give(turn, task.place, self.turn(plan, turn), at, trip)
        elif task.node.kind in ("store", "reduce_store"):
            self.stores.store(task, scope)
        else:
            scope.run(task)
        for use in uses.values():
            made += use.after()
        ring = self.plan.rings.get(task.place)
        if ring is not None and task.node.kind == "elementwise":
            made += self.put_registers(task, ring)
        return made

    def turns(self, plan: LoopPlan) -> tuple[Turn, ...]:
        """The turns at the tensor core in a loop."""
        tasks = [t for t in self.plan.tasks.values() if t.region == plan.region]
        products = [t for t in tasks if t.node.kind == "mma"]
        return turns(products, [t for t in tasks if t not in products], self.plan.interval(plan.region))

    def turn(self, plan: LoopPlan, turn: Turn) -> int:
        """The named barrier by which one group gives its turn to another in a loop."""
        of, to = turn.of.group, turn.to.group
        return self.plan.memory.barrier(f"turn {of} to {to} in loop{plan.region}", (of, to)).id

    def retire_event(self, plan: LoopPlan, task: Task, number: int, at: Iteration) -> list[Stmt]:
        """What follows the wait for a product: its operands' slots go back, its result goes to other groups."""
        made: list[Stmt] = []
        if ("retire", number) in plan.landings:
            made.append(Copy(*plan.landings["retire", number]))
        for use in plan.uses.get(("retire", number), {}).values():
            made += use.after()
        ring = self.plan.rings.get(task.place)
        if ring is not None:
            made += self.put_registers(task, ring)
        return made

    def receive_event(self, plan: LoopPlan, place: tuple[int, int, int], key: EventKey, at: Iteration) -> list[Stmt]:
        """A value of another warp group comes into registers."""
        task, ring = self.plan.tasks[place], self.plan.rings[place]
        use = plan.uses[key][ring.aref.id]
        variable = self.registers.of((task.steps[-1], task.block))
        load = LoadShared(SlotRef(ring.buffer.id, use.cursor), variable, line=task.node.line)
        return [*use.before(), load, *use.after()]

    # -- filling rings ------------------------------------------------------------------------

    def put_load(self, task: Task, ring: Ring, at: Iteration) -> list[Stmt]:
        """A tile from global memory into the next slot."""
        step = self.plan.flat.steps[task.steps[-1]]
        assert step.op.access is not None
        part = Part(step.op.access, step.results[0], task.block)
        cursor = self.cursors.of(ring.aref, "put")
        if ring.aref.transport != "tma":
            return [Acquire(cursor, line=task.node.line), *self.put_by_threads(part, ring, cursor, step, at)]
        made_map = self.transfers.map(part, ring.buffer)
        made: list[Stmt] = [Acquire(cursor, line=task.node.line), Expect(cursor, ring.aref.bytes)]
        for box in self.transfers.boxes(part, ring.buffer, at):
            target = SlotRef(ring.buffer.id, cursor, box.rows, box.columns)
            made.append(TmaLoad(made_map.id, box.coordinates, target, cursor, line=task.node.line))
        return [*made, Advance(cursor)]

    def put_by_threads(self, part: Part, ring: Ring, cursor: int, step: Step, at: Iteration) -> Iterator[Stmt]:
        """A tile that no tensor map describes: every thread loads its elements and stores them into the slot, some
        rows at a time."""
        if step.operands:
            raise exc.UnsupportedInKernel(
                "a load whose mask is more than bounds on its indices feeds a ring",
                file=self.plan.wired.program.file, line=step.op.line, hint="mask by comparing indices with bounds",
            )  # fmt: skip
        window, shape = self.transfers.window(part, at), ring.buffer.shape
        each = largest_part(shape[0], max(1, AT_ONCE // prod(shape[1:]))) if len(shape) == 2 else shape[0]
        piece = (each, *shape[1:])
        fragment = self.registers.new(step.op.name or "loaded", ring.buffer.element, runs(piece))
        for first in range(0, shape[0], each):
            rows = (first, first + each) if each < shape[0] else None
            yield LoadGlobal(rows_of(window, first, each), fragment, line=step.op.line)
            yield StoreShared(fragment, SlotRef(ring.buffer.id, cursor, rows), line=step.op.line)
        if ring.multiplied:
            yield ProxyFence()
        yield Publish(cursor)
        yield Advance(cursor)

    def put_registers(self, task: Task, ring: Ring) -> list[Stmt]:
        """A computed tile into the next slot."""
        cursor = self.cursors.of(ring.aref, "put")
        fragment = self.registers.of((task.steps[-1], task.block))
        made: list[Stmt] = [
            Acquire(cursor, line=task.node.line),
            StoreShared(fragment, SlotRef(ring.buffer.id, cursor), line=task.node.line),
        ]
        return [*made, *([ProxyFence()] if ring.multiplied else []), Publish(cursor), Advance(cursor)]

    # -- products -----------------------------------------------------------------------------

    def touched(self, task: Task) -> tuple[int, ...]:
        """The fragments of a product that its retirement frees."""
        found = [self.registers.of((task.steps[-1], task.block))]
        a = self.plan.source(self.plan.flat.steps[task.steps[-1]].operands[0], task.block)
        if a is not None and not self.a_in_slot(task):
            found.append(self.registers.of((a.step, a.block)))
        return tuple(found)

    def issue(self, task: Task, scope: Scope) -> list[Stmt]:
        """Fence and multiply."""
        step = self.plan.flat.steps[task.steps[-1]]
        accumulator = self.registers.of((task.steps[-1], task.block))
        made: list[Stmt] = []
        accumulate = self.start_accumulator(task, scope, accumulator, made)
        products: list[Stmt] = []
        touched = [accumulator]
        element = self.plan.flat.cells[step.operands[0]].type.element
        depth = self.plan.tiles.shape(step.operands[0])[1]
        for block in self.plan.parts(task):
            a, b = (self.factor(task, scope, position, block) for position in (0, 1))
            assert isinstance(b[0], SlotRef)
            touched += [a[0]] if isinstance(a[0], int) else []
            products.append(
                Multiply(accumulator, a[0], b[0], a[1], b[1], depth, element, accumulate, line=step.op.line)
            )
            accumulate = True
        return [*made, Fence(tuple(touched)), *products]

    def factor(self, task: Task, scope: Scope, position: int, block: int) -> tuple[int | SlotRef, bool]:
        """Operand A (position 0) or B (1) of a product, and whether it is the transpose of the tile that is there."""
        step = self.plan.flat.steps[task.steps[-1]]
        cell = step.operands[position]
        source = self.plan.source(cell, block)
        if source is None:
            raise exc.UnsupportedInKernel(
                "a product of a constant tile", file=self.plan.wired.program.file, line=step.op.line
            )
        slot = scope.slot(source) if self.plan.in_slot(task, step, position, source) else None
        transposed = self.plan.tiles.view(cell).axes == (1, 0)
        return (scope.find(source) if slot is None else slot), transposed

    def start_accumulator(self, task: Task, scope: Scope, accumulator: int, made: list[Stmt]) -> bool:
        """Brings the addend into the accumulator; False if there is none, so that the product overwrites it."""
        step = self.plan.flat.steps[task.steps[-1]]
        if len(step.operands) < 3:
            return False
        addend = scope.shown(step.operands[2], step.results[0])
        if not isinstance(addend, Reg):
            if addend == Number(0.0, addend.element):
                return False
            made.append(Fill(accumulator, addend, line=step.op.line))
        elif addend.fragment != accumulator:
            made.append(Copy(addend.fragment, accumulator, line=step.op.line))
        return True
