"""The loops of one warp group: which events there are and when, which variables and ring slots they use."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from twill import exc
from twill.codegen.lower.cross_loop_reuse import before, position, streams
from twill.codegen.lower.events import Events, LoopPlan
from twill.codegen.lower.mma import MmaLowering
from twill.codegen.lower.operations import Tools, outside
from twill.codegen.lower.placement import Ring
from twill.codegen.lower.registers import EventKey, Made, Overwritten, Reading, versions
from twill.codegen.lower.scalars import OUTSIDE
from twill.codegen.lower.stream import Printer, Stream, StreamEvent, arrange
from twill.codegen.lower.task import Place, Source, Task
from twill.codegen.warp.expression import Expr
from twill.codegen.warp.program import Fill, If, Operand, Reg, Skip, Stmt
from twill.tile.flat import UNIFORM, FlatCarry
from twill.tile.uniformity import stretches

LAG = 2  # slots of a ring that MMAs in flight hold


class Loops:
    """Plans and prints the loops of the group of `tools`."""

    def __init__(self, tools: Tools, events: Events, mmas: MmaLowering) -> None:
        self.tools, self.events, self.products = tools, events, mmas
        self.plan, self.registers, self.rings = tools.plan, tools.registers, tools.rings.by_place
        self.received: dict[int, dict[Place, EventKey]] = {}  # region -> value of another group -> its event
        self.loops = {number: loop for number, loop, _ in stretches(tools.plan.wired.program) if loop is not None}

    # -- planning -----------------------------------------------------------------------------

    def plan_of(self, region: int) -> LoopPlan | Overwritten | None:
        """Events and stream of a loop; None if the group has nothing to do in it. Overwritten: a value whose variable
        it may not share."""
        tasks = self.plan.of_group(self.tools.group, region)
        if not tasks and not self.read_afterwards(region):
            return None
        loop = self.loops[self.plan.wired.stretch[region]]
        interval = self.plan.interval(region)
        events: list[StreamEvent] = []
        plan = LoopPlan(region, loop, Stream((), 0, interval))
        for task in tasks:
            number = tasks.index(task)
            events.append(StreamEvent(("issue", number), task.start, partial(self.events.issue, plan, task, number),
                                multiplies=task.node.kind == "mma", keep=partial(self.events.keep, task),
                                carried=self.is_carried(task)))  # fmt: skip
            if task.node.kind == "mma":
                events.append(
                    StreamEvent(("retire", number), self.retire_time(task, tasks, interval),
                          partial(self.events.retire, plan, task, number), retires=("issue", number),
                          ready=self.products.touched(task), matters=self.matters(task, tasks))
                )  # fmt: skip
        events += self.receive_events(plan, tasks)
        plan.stream = arrange(events, interval)
        return self.plan_versions(plan, tasks) or plan

    def retire_time(self, task: Task, tasks: list[Task], interval: int) -> int:
        """When an MMA is waited for: in front of the first instruction that reads its result, so that nothing else
        waits if it is late; if none does, see `quiet_end`. But before it runs again, and before other instructions
        write an accumulator or a fragment A: ptxas serializes MMAs if they do while one is in flight (C7513,
        C7515), and before a slot that threads fill again is wanted: see `wanted_again`."""
        mmas = [other for other in tasks if other.node.kind == "mma"]
        if self.may_lag(task, tasks):
            return task.start + interval + 1
        operands = {fragment for mma in mmas for fragment in self.products.touched(mma)}
        limits = [task.start + interval - 1, *self.wanted_again(task, tasks, interval)]
        for other in tasks:
            if (other.node.kind == "elementwise" and self.result_of(other) in operands) or self.copies(other):
                limits.append(other.start + ((task.start - other.start) // interval + 1) * interval)
        first = self.first_reader(task, tasks, interval)
        return min(self.quiet_end(task, tasks, interval) if first is None else first, *limits)

    def wanted_again(self, task: Task, tasks: list[Task], interval: int) -> Iterator[int]:
        """When a slot that an MMA reads must have been given back. An MMA that is waited for later than the
        schedule ends it keeps its slots longer, and no group must wait for what only itself, behind that wait, gives.

        Tiles that this group computes: when it fills the slot again. Tiles that another one computes: when this group
        first waits for a tile of another, after that one waits for the slot; both do what they do in the order of the
        schedule's cycles."""
        waits = [
            other.start
            for other in tasks
            for source in (*self.plan.slot_sources(other), *self.plan.register_sources(other))
            if self.is_handed(source, task.region)
        ]
        for source in self.plan.slot_sources(task):
            if not self.is_computed(source, task.region):
                continue
            place = self.plan.place_of(source)
            again = self.plan.tasks[place].start + (self.rings[place].aref.depth + source.distance) * interval
            if not self.is_handed(source, task.region):
                yield again
                continue
            again = max(again, task.start + task.latency)
            yield from (start - (start - again) // interval * interval for start in waits)

    def is_computed(self, source: Source, region: int) -> bool:
        """Whether a warp group computes a value in a loop, and it is read from a ring."""
        place = self.plan.place_of(source)
        return place[0] == region and place in self.rings and self.rings[place].aref.transport == "registers"

    def is_handed(self, source: Source, region: int) -> bool:
        """Whether it is another warp group that computes it."""
        return self.is_computed(source, region) and {self.tools.group} != {
            *self.plan.tasks[self.plan.place_of(source)].groups
        }

    def first_reader(self, task: Task, tasks: list[Task], interval: int) -> int | None:
        """When an MMA's result is read first by something that must wait for it."""
        if task.place in self.rings:
            return None
        readers = [
            other.start + source.distance * interval
            for other in tasks
            if other.node.kind != "mma" or self.copies(other)
            for source in self.plan.register_sources(other)
            if self.plan.place_of(source) == task.place
        ]
        return min(readers, default=None)

    def quiet_end(self, task: Task, tasks: list[Task], interval: int) -> int:
        """When to wait for an MMA that nothing reads: when it ends. But where the MMAs around it, with nothing
        else of the group between, have one that is read: behind those that follow it, and behind the first reader of
        each that went before it, so that nobody waits for it on the way to that one."""
        run, end = self.run_of(task, tasks, interval), task.start + task.latency
        read = {id(other): self.first_reader(other, tasks, interval) for other, _ in run}
        if all(first is None for first in read.values()):
            return end
        for other, start in run:
            end, first = max(end, start + 1), read[id(other)]
            if start < task.start and first is not None:
                end = max(end, first + start - other.start + 1)
        return end

    def run_of(self, task: Task, tasks: list[Task], interval: int) -> list[tuple[Task, int]]:
        """The MMAs around one with nothing else of the group between, and when they start, seen from it."""
        others = [other for other in tasks if other is not task]
        behind = sorted(((other.start - task.start) % interval, n) for n, other in enumerate(others))
        before = sorted(((task.start - other.start) % interval, n) for n, other in enumerate(others))
        found: list[tuple[Task, int]] = []
        for sign, neighbours in ((1, behind), (-1, before)):
            for cycles, n in neighbours:
                if others[n].node.kind != "mma":
                    break
                found.append((others[n], task.start + sign * cycles))
        return found

    def copies(self, task: Task) -> bool:
        """Whether an MMA copies what it adds to into registers of its own."""
        return task.node.kind == "mma" and (task.steps[-1], task.block) in self.registers.apart

    def may_lag(self, task: Task, tasks: list[Task]) -> bool:
        """Whether an MMA is waited for only after it has been issued for the next iteration, so that the tensor core
        never runs dry: nobody else multiplies in this loop meanwhile, nothing but it touches its registers, and its
        rings have slots to spare."""
        if self.matters(task, tasks) or not self.is_carried(task):
            return False
        if any(self.products.fetches(task, block) for block in self.plan.parts(task)):
            return False
        others = [t for t in self.plan.tasks.values() if t.region == task.region and t.node.kind == "mma"]
        if any(other.groups != task.groups for other in others):
            return False
        rings = [self.rings[self.plan.place_of(source)] for source in self.plan.slot_sources(task)]
        return all(ring.held or ring.aref.depth > LAG for ring in rings)

    def result_of(self, task: Task) -> int:
        """The variable that a task defines."""
        return self.registers.of((task.steps[-1], task.block))

    def matters(self, task: Task, tasks: list[Task]) -> bool:
        """Whether anything but MMAs touches an MMA's registers in the loop; also a copy for another MMA."""
        mine = set(self.products.touched(task))
        for other in tasks:
            if other.node.kind == "mma" and not self.copies(other):
                continue
            read = {self.registers.of((s.step, s.block)) for s in self.plan.register_sources(other)}
            if other.node.kind == "elementwise":
                read.add(self.result_of(other))
            if read & mine:
                return True
        return task.place in self.rings or task.steps[-1] in self.plan.amendments

    def receive_events(self, plan: LoopPlan, tasks: list[Task]) -> list[StreamEvent]:
        """Register values of other groups in this loop, fetched in front of their first reader here; those that are
        only read behind the loop, when they are made."""
        found: list[StreamEvent] = []
        wanted: dict[tuple[int, int, int], int] = {}
        for task in tasks:
            for source in self.plan.register_sources(task):
                place = self.plan.place_of(source)
                maker = self.plan.tasks[place]
                if place[0] != plan.region or self.tools.group in maker.groups:
                    continue
                start = task.start + source.distance * self.plan.interval(plan.region)
                wanted[place] = min(start, wanted.get(place, start))
        for place in self.read_afterwards(plan.region):
            maker = self.plan.tasks[place]
            wanted.setdefault(place, maker.start + maker.latency + 1)
        for number, (place, start) in enumerate(sorted(wanted.items())):
            key = ("receive", number)
            keep, carried = partial(self.events.keep, self.plan.tasks[place]), self.is_carried(self.plan.tasks[place])
            receive = partial(self.events.receive, plan, place, key)
            found.append(StreamEvent(key, start - 1, receive, keep=keep, carried=carried))
        self.received[plan.region] = {place: ("receive", i) for i, place in enumerate(sorted(wanted))}
        return found

    def read_afterwards(self, region: int) -> list[Place]:
        """What other groups make in a loop and this one's tasks outside of that loop read in registers."""
        found: list[Place] = []
        for task in self.plan.tasks.values():
            if task.region == region or self.tools.group not in task.groups:
                continue
            places = (self.plan.place_of(source) for source in self.plan.register_sources(task))
            found += [p for p in places if p[0] == region and self.tools.group not in self.plan.tasks[p].groups]
        return found

    def plan_versions(self, plan: LoopPlan, tasks: list[Task]) -> Overwritten | None:
        """Which variable each reader finds; or a value that a reader does not find any more."""
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
        found = versions(plan.stream, self.registers, others, definers, defined_by)
        if isinstance(found, Overwritten):
            return found
        plan.variables = found
        for reading in readings:
            made = (reading.source.step, reading.source.block)
            if made in landed:
                plan.variables[reading.event, made, reading.source.distance] = landed[made]
        return None

    def land(self, plan: LoopPlan, tasks: list[Task], readings: list[Reading]) -> dict[Made, int]:
        """MMAs whose registers are written again, by themselves or by what they add to, while their last result is
        still read: where that result moves to when it is complete, if it is read nowhere later than the next
        completion."""
        landed: dict[Made, int] = {}
        for number, task in enumerate(tasks):
            made = (task.steps[-1], task.block)
            mine = [r for r in readings if (r.source.step, r.source.block) == made]
            if task.node.kind != "mma" or self.is_carried(task) or not mine:
                continue
            if any(task.place == self.plan.place_of(r.source) and tasks[r.event[1]].node.kind == "mma" for r in mine):
                continue
            issued, complete = ("issue", number), ("retire", number)
            count = plan.stream.executions
            writers = self.writers(tasks, self.registers.of(made))
            again = any(count(issued, r.event, w, r.source.distance) > 0 for r in mine for w in writers)
            soon = any(count(issued, complete, w) > 0 for w in writers)
            late = any(count(complete, r.event, complete, r.source.distance) > 0 for r in mine)
            if again and not soon and not late:
                held = self.registers.fragment(self.registers.of(made))
                landed[made] = self.registers.new(f"{held.name}_done", held.element, held.layout)
                plan.landings["retire", number] = (held.id, landed[made])
        return landed

    def writers(self, tasks: list[Task], variable: int) -> list[EventKey]:
        """The events that write a variable."""
        return [
            ("issue", number)
            for number, task in enumerate(tasks)
            if task.node.result is not None and task.node.kind != "load" and self.result_of(task) == variable
        ]

    def plan_uses(self, plan: LoopPlan) -> None:
        """Which event waits for a ring, which gives its slot back, and the cursors in between."""
        tasks = self.plan.of_group(self.tools.group, plan.region)
        reads: dict[int, list[tuple[EventKey, int, EventKey]]] = {}  # aref -> (event, end of the read, event of it)
        rings: dict[int, Ring] = {}
        for number, task in enumerate(tasks):
            multiplies = task.node.kind == "mma"
            end = ("retire", number) if multiplies else ("issue", number)
            for source in self.plan.slot_sources(task):
                ring = self.rings[self.plan.place_of(source)]
                if ring.held:
                    continue
                if source.distance:
                    raise exc.UnsupportedBySchedule(
                        f"`{task.node.name}` reads a tile of an earlier iteration from shared memory",
                        file=self.plan.wired.program.file, line=task.node.line, hint="carry it in registers",
                    )  # fmt: skip
                over = task.start + (task.latency if multiplies else task.hold)
                rings[ring.aref.id] = ring
                reads.setdefault(ring.aref.id, []).append((("issue", number), over, end))
        for place, key in self.received[plan.region].items():
            ring = self.rings[place]
            rings[ring.aref.id] = ring
            reads.setdefault(ring.aref.id, []).append((key, plan.stream.event(key).time, key))
        plan.uses = {}
        for aref, found in reads.items():
            ends = max(
                found, key=lambda read: (read[1], plan.stream.event(read[2]).stage, plan.stream.position(read[2]))
            )
            ring, events = rings[aref], [event for event, _, _ in found]
            made = self.tools.cursors.uses(ring.aref, events, ends[2], plan.stream, *self.again(plan, ring))
            for key, use in made.items():
                plan.uses.setdefault(key, {})[aref] = use

    def again(self, plan: LoopPlan, ring: Ring) -> tuple[str, Expr | None]:
        """Which cursors a loop uses in a ring, and when it gives slots back: tiles that a later loop reads again stay,
        if all of them do."""
        place, of = position(self.plan.reuse_groups, ring.key)
        last = place + 1 == of
        only = None if last else streams(self.tools.scalars.trip(plan.loop), ring.aref.depth)
        return ("get" if place == 0 else f"get_again{place}_"), only

    def around(self, plan: LoopPlan) -> tuple[list[Stmt], list[Stmt]]:
        """What moves a loop's cursors past the tiles of other loops, before and after it, where those are not kept."""
        ahead: list[Stmt] = []
        behind: list[Stmt] = []
        trip = self.tools.scalars.trip(plan.loop)
        arefs = {aref for uses in plan.uses.values() for aref in uses}
        for ring in (r for r in self.rings.values() if r.key[0] == plan.region and r.aref.id in arefs):
            place, of = position(self.plan.reuse_groups, ring.key)
            used = {u.cursor for uses in plan.uses.values() for a, u in uses.items() if a == ring.aref.id}
            for cursor in sorted(used):
                condition = streams(trip, ring.aref.depth)
                if place:
                    ahead.append(If(condition, (Skip(cursor, before(place, trip)),)))
                if place + 1 < of:
                    behind.append(If(condition, (Skip(cursor, before(of - 1 - place, trip)),)))
        return ahead, behind

    def is_carried(self, task: Task) -> bool:
        """Whether what a task makes has a value before the loop."""
        stretch = self.plan.wired.stretch[task.region]
        carries = [c for c in self.plan.flat.carries if c.stretch == stretch and not c.pure]
        sources = [self.plan.source(c.yielded, task.block) for c in carries]
        return any(s is not None and s.step == task.steps[-1] for s in sources)

    # -- statements ---------------------------------------------------------------------------

    def statements(self, plan: LoopPlan) -> list[Stmt]:
        """Initial values, then the pipeline."""
        made = self.initial(plan)
        name = f"loop{plan.region}"
        trip = self.tools.scalars.trip(plan.loop)
        printer = Printer(plan.stream, plan.loop, name, trip, self.plan.candidate.switches)
        ahead, behind = self.around(plan)
        return [*made, *ahead, *printer.pipeline(plan.loop.line), *behind]

    def initial(self, plan: LoopPlan) -> list[Stmt]:
        """What carried values are before the first iteration."""
        made: list[Stmt] = []
        stretch = self.plan.wired.stretch[plan.region]
        for carry in self.plan.flat.carries:
            if carry.stretch == stretch and not carry.pure and self.plan.wired.wiring.makes(carry):
                made += self.initial_value(carry, plan)
        return made

    def has(self, source: Source, plan: LoopPlan) -> bool:
        """Whether this group makes a value of the loop, or receives it."""
        place = self.plan.place_of(source)
        return self.tools.group in self.plan.tasks[place].groups or place in self.received[plan.region]

    def initial_value(self, carry: FlatCarry, plan: LoopPlan) -> list[Stmt]:
        """The start of one carried value, in every row block that this group has. Raises UnsupportedBySchedule."""
        made: list[Stmt] = []
        blocks = range(self.plan.tiles.split) if self.plan.tiles.is_split(carry.argument) else (-1,)
        for block in blocks:
            source = self.plan.source(carry.yielded, block)
            if source is None or not self.has(source, plan):
                continue
            variable = self.registers.of((source.step, source.block))
            self.refuse_elsewhere(carry, block)
            scope = outside(self.tools, block, made)
            if carry.init == UNIFORM:
                value = self.plan.flat.cells[carry.argument].value
                start: Operand = self.tools.scalars.value(self.plan.wired.uniformity.carries[value].init, OUTSIDE)
            else:
                start = scope.shown(carry.init, carry.argument, scope.layout_of(variable))
            if not isinstance(start, Reg):
                made.append(Fill(variable, start, line=0))
            elif start.fragment != variable:
                made += scope.moved(start.fragment, variable)
        return made

    def refuse_elsewhere(self, carry: FlatCarry, block: int) -> None:
        """Raises UnsupportedBySchedule if a carried value begins with what only another group has in its registers."""
        begin = self.plan.source(carry.init, block)
        if begin is None or self.plan.place_of(begin) in self.rings:
            return
        task = self.plan.tasks[self.plan.place_of(begin)]
        if self.tools.group not in task.groups:
            raise exc.UnsupportedBySchedule(
                f"`{task.node.name}` of an earlier loop is in the registers of another warp group",
                file=self.plan.wired.program.file, line=task.node.line,
                hint="solve with one row block (`--blocks 1`)",
            )  # fmt: skip
