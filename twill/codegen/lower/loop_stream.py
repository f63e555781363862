"""The stream of one loop of one warp group: its events in the order of the schedule, which versions of values they
read, and what they do with rings. Nothing here is a statement, or a register."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from twill import exc
from twill.codegen.lower.cross_loop_reuse import position
from twill.codegen.lower.load_order import LoadOrder
from twill.codegen.lower.loads_ahead import loads_ahead
from twill.codegen.lower.mmas_around import mmas_around
from twill.codegen.lower.placement import Placement
from twill.codegen.lower.ring_uses import RingReads
from twill.codegen.lower.stream import EventKey, Made, Stream, StreamEvent, arrange
from twill.codegen.lower.task import Place, Source, Task
from twill.codegen.lower.tensor_use import TensorUse
from twill.codegen.lower.values import Ages, Overwritten, Reading, Values, ages, fetches, touched

LAG = 2  # slots of a ring that MMAs in flight hold
FETCHED = 1  # cycles in front of its first reader, that a value of another group is fetched


@dataclass(frozen=True)
class LoopStream:
    """tasks: the group's, by the numbers of their events. received: values of other groups, by their events' numbers.
    values: that are in registers, in the order in which the stream comes by them. ages: of what events read; landings:
    values that move to registers of their own when they are complete, by the event. reads: of rings. ahead: the tasks
    that load a tile to registers by an event of their own, ahead of the one that fills the slot. arriving: loads of
    other groups, by their events' numbers, that this one waits for to store there."""

    region: int
    tasks: tuple[Task, ...]
    received: tuple[Place, ...]
    stream: Stream
    values: tuple[Made, ...] = ()
    ages: Ages = field(default_factory=dict)
    landings: Mapping[EventKey, Made] = field(default_factory=dict)
    landed: frozenset[tuple[EventKey, Made, int]] = frozenset()
    reads: tuple[RingReads, ...] = ()
    ahead: tuple[int, ...] = ()
    arriving: tuple[Place, ...] = ()


def loop_stream(rings: Placement, group: int, values: Values, region: int) -> LoopStream | Overwritten | None:
    """The stream of a loop; None if the group has nothing to do in it. Overwritten: a value whose variable it may not
    share. Raises UnsupportedBySchedule."""
    return _LoopStreams(rings, group, values).of(region)


class _LoopStreams:
    """met: the values that were looked at, which are in registers."""

    def __init__(self, rings: Placement, group: int, values: Values) -> None:
        self.plan, self.rings, self.group, self.values = rings.plan, rings.by_place, group, values
        self.placement = rings
        self.met: dict[Made, None] = {}

    def root(self, made: Made) -> Made:
        """What stands for the variable of a value."""
        self.met.setdefault(made)
        return self.values.find(made)

    def touched(self, task: Task) -> tuple[Made, ...]:
        """The variables that the retirement of an MMA frees."""
        return tuple(map(self.root, touched(self.plan, task)))

    def of(self, region: int) -> LoopStream | Overwritten | None:
        """See `loop_stream`."""
        tasks = self.plan.of_group(self.group, region)
        if not tasks and not self.read_afterwards(region):
            return None
        interval = self.plan.interval(region)
        events: list[StreamEvent] = []
        ahead = loads_ahead(self.placement, self.group, tasks, region)
        for number, task in enumerate(tasks):
            if number in ahead:
                events.append(StreamEvent(("ahead", number), task.start - ahead[number]))
            multiplies = self.is_waited_for(task)
            issue = ("issue", number)
            events.append(StreamEvent(issue, task.start, multiplies, carried=self.is_carried(task)))
            if multiplies:
                end = self.retire_time(task, tasks, interval)
                ready, matters = self.touched(task), self.matters(task, tasks)
                events.append(StreamEvent(("retire", number), end, retires=issue, ready=ready, matters=matters))
        received = self.received(region, tasks)
        for number, (place, start) in enumerate(received.items()):
            carried = self.is_carried(self.plan.tasks[place])
            events.append(StreamEvent(("receive", number), start - FETCHED, carried=carried))
        arriving = self.arriving(region)
        events += [StreamEvent(("arrive", number), order.time) for number, order in enumerate(arriving)]
        stream, loads = arrange(events, interval), tuple(order.load for order in arriving)
        return self.with_versions(
            LoopStream(region, tuple(tasks), tuple(received), stream, (), ahead=tuple(ahead), arriving=loads)
        )

    def is_waited_for(self, task: Task) -> bool:
        """Whether a task is an MMA that its group waits for; of accumulators in tensor memory the readers wait."""
        return task.node.kind == "mma" and not self.plan.is_in_tensor_memory(task)

    def with_versions(self, loop: LoopStream) -> LoopStream | Overwritten:
        """Which version of its operands each event reads; or a value that a reader does not find any more."""
        tasks = list(loop.tasks)
        defined_by: dict[Made, EventKey] = {}
        definers: dict[Made, list[EventKey]] = {}
        readings: list[Reading] = []
        for number, task in enumerate(tasks):
            if self.plan.defines(task):
                defined_by[task.steps[-1], task.block] = ("issue", number)
            readings += [Reading(("issue", number), source) for source in self.plan.register_sources(task)]
        for number in loop.ahead:
            step, block = tasks[number].steps[-1], tasks[number].block
            defined_by[step, block] = ("ahead", number)
            cell = self.plan.flat.steps[step].results[0]
            readings.append(Reading(("issue", number), Source(step, block, 0, cell)))
        for number, place in enumerate(loop.received):
            defined_by[self.plan.tasks[place].steps[-1], place[2]] = ("receive", number)
        for made, key in defined_by.items():
            definers.setdefault(self.root(made), []).append(key)
        landings = self.landings(loop.stream, tasks, readings)
        landed = {*landings.values()}
        found = ages(loop.stream, self.values, [r for r in readings if r.made not in landed], definers, defined_by)
        if isinstance(found, Overwritten):
            return found
        there = frozenset(r.key for r in readings if r.made in landed)
        reads = tuple(self.ring_reads(loop))
        return replace(loop, values=tuple(self.met), ages=found, landings=landings, landed=there, reads=reads)

    # -- when MMAs are waited for -----------------------------------------------------------------

    def retire_time(self, task: Task, tasks: list[Task], interval: int) -> int:
        """When an MMA is waited for: in front of the first instruction that reads its result, so that nothing else
        waits if it is late; if none does, see `quiet_end`. But before it runs again, and before other instructions
        write an accumulator or a fragment A: ptxas serializes MMAs if they do while one is in flight (C7513,
        C7515), and before a slot that threads fill again is wanted: see `wanted_again`."""
        mmas = [other for other in tasks if other.node.kind == "mma"]
        if self.may_lag(task, tasks):
            return task.start + interval + 1
        operands = {made for mma in mmas for made in self.touched(mma)}
        limits = [task.start + interval - 1, *self.wanted_again(task, tasks, interval)]
        limits += self.wanted_by_others(task, tasks, interval)
        for other in tasks:
            if (other.node.kind == "elementwise" and self.result_of(other) in operands) or self.values.are_apart(other):
                limits.append(other.start + ((task.start - other.start) // interval + 1) * interval)
        first = self.first_reader(task, tasks, interval)
        return min(self.quiet_end(task, tasks, interval) if first is None else first, *limits)

    def wanted_again(self, task: Task, tasks: list[Task], interval: int) -> Iterator[int]:
        """When a slot that an MMA reads must have been given back. An MMA that is waited for later than the
        schedule ends it keeps its slots longer, and no group must wait for what only itself, behind that wait, gives.

        Tiles that this group computes: when it fills the slot again. Tiles that another one computes: when this group
        first waits for a tile of another, after that one waits for the slot; both do what they do in the order of the
        schedule's cycles. Tiles that are loaded: when it first waits for one that is loaded behind the slot's next."""
        waits = self.waits(tasks, task.region)
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
        for source in self.plan.slot_sources(task):
            if (loader := self.loader(source, task.region)) is None:
                continue
            again = loader.start + (self.rings[loader.place].aref.depth + source.distance) * interval
            for behind, start in self.waits_for_loads(tasks, task.region):
                if behind.groups == loader.groups:
                    turns = -((behind.start - again) // interval)  # until it loads then, or later
                    yield start + turns * interval

    def waits_for_loads(self, tasks: list[Task], region: int) -> Iterator[tuple[Task, int]]:
        """What other groups load in the loop's order, and when this one waits for it."""
        for task in tasks:
            for source in self.plan.slot_sources(task):
                if (loader := self.loader(source, region)) is not None:
                    yield loader, task.start + source.distance * self.plan.interval(region)
        yield from ((self.plan.tasks[order.load], order.time) for order in self.arriving(region))

    def wanted_by_others(self, task: Task, tasks: list[Task], interval: int) -> Iterator[int]:
        """When an MMA's result must have been handed to another group: before this one waits for a tile of another,
        which may be made of it."""
        if task.place in self.rings:
            ends = task.start + task.latency
            yield from (start - (start - ends) // interval * interval for start in self.waits(tasks, task.region))

    def waits(self, tasks: list[Task], region: int) -> list[int]:
        """When this group waits for what others compute: where MMAs read a slot, and where a value is fetched into
        registers, be it for behind the loop alone."""
        slots = [
            other.start for other in tasks for source in self.plan.slot_sources(other) if self.is_handed(source, region)
        ]
        received = self.received(region, tasks)
        computed = (place for place in received if self.rings[place].aref.transport == "registers")
        return [*slots, *(received[place] - FETCHED for place in computed)]

    def loader(self, source: Source, region: int) -> Task | None:
        """What fills a slot in a loop for a group that reads it there, if that loads tiles in the loop's order."""
        place = self.plan.place_of(source)
        if place[0] != region or place not in self.rings or self.rings[place].held:
            return None
        return None if self.rings[place].aref.transport == "registers" else self.plan.tasks[place]

    def is_computed(self, source: Source, region: int) -> bool:
        """Whether a warp group computes a value in a loop, and it is read from a ring."""
        place = self.plan.place_of(source)
        return place[0] == region and place in self.rings and self.rings[place].aref.transport == "registers"

    def is_handed(self, source: Source, region: int) -> bool:
        """Whether it is another warp group that computes it."""
        return self.is_computed(source, region) and {self.group} != {
            *self.plan.tasks[self.plan.place_of(source)].groups
        }

    def first_reader(self, task: Task, tasks: list[Task], interval: int) -> int | None:
        """When an MMA's result is read first by something that must wait for it."""
        if task.place in self.rings:
            return None
        readers = [
            other.start + source.distance * interval
            for other in tasks
            if other.node.kind != "mma" or self.values.are_apart(other)
            for source in self.plan.register_sources(other)
            if self.plan.place_of(source) == task.place
        ]
        return min(readers, default=None)

    def quiet_end(self, task: Task, tasks: list[Task], interval: int) -> int:
        """When to wait for an MMA that nothing reads: when it ends. But where the MMAs around it, with nothing
        else of the group between, have one that is read: behind those that follow it, and behind the first reader of
        each that went before it, so that nobody waits for it on the way to that one."""
        run, end = mmas_around(task, tasks, interval), task.start + task.latency
        read = {id(other): self.first_reader(other, tasks, interval) for other, _ in run}
        if all(first is None for first in read.values()):
            return end
        for other, start in run:
            end, first = max(end, start + 1), read[id(other)]
            if start < task.start and first is not None:
                end = max(end, first + start - other.start + 1)
        return end

    def may_lag(self, task: Task, tasks: list[Task]) -> bool:
        """Whether an MMA is waited for only after it has been issued for the next iteration, so that the tensor core
        never runs dry: nobody else multiplies in this loop meanwhile, nothing but it touches its registers, and its
        rings have slots to spare."""
        if self.matters(task, tasks) or not self.is_carried(task):
            return False
        if any(fetches(self.plan, task, block) for block in self.plan.parts(task)):
            return False
        others = [t for t in self.plan.tasks.values() if t.region == task.region and t.node.kind == "mma"]
        if any(other.groups != task.groups for other in others):
            return False
        rings = [self.rings[self.plan.place_of(source)] for source in self.plan.slot_sources(task)]
        return all(ring.held or ring.aref.depth > LAG for ring in rings)

    def result_of(self, task: Task) -> Made:
        """The variable that a task defines."""
        return self.root(task.made)

    def matters(self, task: Task, tasks: list[Task]) -> bool:
        """Whether anything but MMAs touches an MMA's registers in the loop; also a copy for another MMA."""
        mine = set(self.touched(task))
        for other in tasks:
            if other.node.kind == "mma" and not self.values.are_apart(other):
                continue
            read = {self.root(s.made) for s in self.plan.register_sources(other)}
            if other.node.kind == "elementwise":
                read.add(self.result_of(other))
            if read & mine:
                return True
        return task.place in self.rings or task.steps[-1] in self.plan.amendments

    # -- values -----------------------------------------------------------------------------------

    def received(self, region: int, tasks: Sequence[Task]) -> dict[Place, int]:
        """Register values of other groups in this loop, fetched in front of their first reader here; those that are
        only read behind the loop, when they are made: by cycle."""
        wanted: dict[Place, int] = {}
        for task in tasks:
            for source in self.plan.register_sources(task):
                place = self.plan.place_of(source)
                maker = self.plan.tasks[place]
                if place[0] != region or self.group in maker.groups:
                    continue
                start = task.start + source.distance * self.plan.interval(region)
                wanted[place] = min(start, wanted.get(place, start))
        for place in self.read_afterwards(region):
            maker = self.plan.tasks[place]
            wanted.setdefault(place, maker.start + maker.latency + 1)
        return dict(sorted(wanted.items()))

    def arriving(self, region: int) -> list[LoadOrder]:
        """Tiles that other groups load and this one waits for, so as to store there."""
        orders = (order for place in self.placement.arriving.values() for order in place)
        return [order for order in orders if order.load[0] == region and self.group in order.store.groups]

    def read_afterwards(self, region: int) -> list[Place]:
        """What other groups make in a loop and this one's tasks outside of it read in registers or begin with."""
        found: list[Place] = []
        for place, maker in self.plan.tasks.items():
            away = place[0] == region and self.group not in maker.groups and not self.plan.is_in_tensor_memory(maker)
            if away and any(self.group in one.groups for one in self.plan.starting_with(place)):
                found.append(place)
        for task in self.plan.tasks.values():
            if task.region == region or self.group not in task.groups:
                continue
            places = (self.plan.place_of(source) for source in self.plan.register_sources(task))
            found += [
                p
                for p in places
                if p[0] == region
                and self.group not in self.plan.tasks[p].groups
                and not self.plan.is_in_tensor_memory(self.plan.tasks[p])
            ]
        return found

    def landings(self, stream: Stream, tasks: list[Task], readings: list[Reading]) -> dict[EventKey, Made]:
        """MMAs whose registers are written again, by themselves or by what they add to, while their last result is
        still read: by the event that completes them, what moves to registers of its own then, if it is read nowhere
        later than the next completion."""
        landed: dict[EventKey, Made] = {}
        for number, task in enumerate(tasks):
            made = task.made
            mine = [r for r in readings if r.made == made]
            if task.node.kind != "mma" or self.is_carried(task) or not mine:
                continue
            if any(task.place == self.plan.place_of(r.source) and tasks[r.event[1]].node.kind == "mma" for r in mine):
                continue
            issued, complete = ("issue", number), ("retire", number)
            count = stream.executions
            writers = self.writers(tasks, self.root(made))
            again = any(count(issued, r.event, w, r.source.distance) > 0 for r in mine for w in writers)
            soon = any(count(issued, complete, w) > 0 for w in writers)
            late = any(count(complete, r.event, complete, r.source.distance) > 0 for r in mine)
            if again and not soon and not late:
                landed[complete] = made
        return landed

    def writers(self, tasks: list[Task], variable: Made) -> list[EventKey]:
        """The events that write a variable."""
        return [
            ("issue", number)
            for number, task in enumerate(tasks)
            if self.plan.defines(task) and self.result_of(task) == variable
        ]

    def is_carried(self, task: Task) -> bool:
        """Whether what a task makes has a value before the loop."""
        stretch = self.plan.wired.stretch[task.region]
        carries = [c for c in self.plan.flat.carries if c.stretch == stretch and not c.pure]
        sources = [self.plan.source(c.yielded, task.block) for c in carries]
        return any(s is not None and s.step == task.steps[-1] for s in sources)

    # -- rings ------------------------------------------------------------------------------------

    def ring_reads(self, loop: LoopStream) -> Iterator[RingReads]:
        """Which events read from rings, and by which one all reads of a ring are over. Raises UnsupportedBySchedule."""
        stream = loop.stream
        reads: dict[int, list[tuple[EventKey, EventKey]]] = {}  # aref -> (event, the one by which the read is over)
        keys: dict[int, Place] = {}
        for number, task in enumerate(loop.tasks):
            multiplies = self.is_waited_for(task)
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
                keys[ring.aref.id] = ring.key
                reads.setdefault(ring.aref.id, []).append((("issue", number), end))
            held = self.rings.get(task.place)
            if held is not None and held.use is TensorUse.UPDATED and self.group in held.aref.consumers:
                keys[held.aref.id] = held.key  # an MMA works on the slot that it is handed
                reads[held.aref.id] = [(("issue", number), end)]
        known = [(("receive", number), place) for number, place in enumerate(loop.received)]
        known += [(("arrive", number), place) for number, place in enumerate(loop.arriving)]
        for key, place in known:
            keys[self.rings[place].aref.id] = self.rings[place].key
            reads.setdefault(self.rings[place].aref.id, []).append((key, key))
        for aref, found in reads.items():
            again, _ = position(self.plan.reuse_groups, keys[aref])
            side = f"get_again{again}_" if again else "get"
            ends = stream.last(end for _, end in found)
            yield RingReads(aref, tuple(event for event, _ in found), ends, side, keys[aref])
