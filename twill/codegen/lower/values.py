"""Values of a warp group, and no registers yet: which share a variable, and which version a reader sees.

A value is (step, row block) of the flat program. The result of an MMA lives where its addend lives; so a carried
accumulator and the instructions that rescale it are one variable. A reader that runs after the next definition of
what it reads sees an older version.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.stream import EventKey, Made, Stream
from twill.codegen.lower.task import Source, Task
from twill.graph.accumulator import accumulators


@dataclass(frozen=True)
class Values:
    """The values of one warp group by the variable that they share. apart: MMAs whose results have registers beside
    those of what they add to, because that is made anew while they are still read. parent: towards the value that
    stands for all that share a variable."""

    plan: LoweringPlan
    apart: frozenset[Made] = frozenset()
    parent: dict[Made, Made] = field(default_factory=dict)

    def find(self, made: Made) -> Made:
        """The value that stands for all that share its variable."""
        root = self.parent.get(made, made)
        return made if root == made else self.find(root)

    def unite(self, one: Made, other: Made) -> None:
        """Two values are one variable."""
        low, high = sorted((self.find(one), self.find(other)))
        if low != high:
            self.parent[high] = low

    def accumulate_in_place(self, tasks: list[Task]) -> None:
        """Unites every MMA's result with its addend, where that is made by a task of this group in the same
        region and nothing else needs it afterwards."""
        for task in tasks:
            source = None if task.made in self.apart else self.addend(task)
            if source is not None and self.may_overwrite(source, task):
                self.unite(task.made, source.made)

    def addend(self, task: Task) -> Source | None:
        """What an MMA adds to in registers, where that is made in the same region."""
        if task.node.kind != "mma" or self.plan.is_in_tensor_memory(task):
            return None
        step = self.plan.last_step(task)
        source = self.plan.source(step.operands[2], task.block) if len(step.operands) > 2 else None
        if source is None or self.plan.home[source.step][0] != task.region:
            return None
        # A vector that is spread over the matrix is none.
        return source if self.plan.tiles.is_whole(step.operands[2], step.results[0]) else None

    def are_apart(self, task: Task) -> bool:
        """Whether a task is an MMA whose result has registers beside those of what it adds to, of which it gets a copy:
        because others read that afterwards, or it is made anew while they still do."""
        source = self.addend(task)
        return source is not None and self.find(task.made) != self.find(source.made)

    def sum_in_place(self, tasks: list[Task]) -> None:
        """Unites what threads make of the sum of MMAs so far, for the next MMA to add to, with that sum, where the
        schedule has both in one place (`twill.graph.accumulator`), nothing else reads it and the MMA is not apart."""
        wanted = {task.region for task in tasks if task.node.kind == "elementwise"}
        sums = {region.id: accumulators(region) for region in self.plan.wired.graph.regions if region.id in wanted}
        for task in (task for task in tasks if task.node.kind == "elementwise"):
            nodes = next((n for n in sums[task.region] if task.node.id in n), [])
            before = [self.plan.wired.steps[task.region, node][-1] for node in nodes if node < task.node.id]
            for source in self.plan.register_sources(task):
                if source.step not in before[-1:] or source.distance or source.made in self.apart:
                    continue
                readers = self.plan.readers(self.plan.place_of(source))
                if all(reader.place == task.place for reader in readers):
                    self.unite(task.made, source.made)

    def may_overwrite(self, source: Source, task: Task) -> bool:
        """Whether the MMA is the last that needs its addend: carried ones, and those read only by it."""
        if source.distance or source.step in task.steps:
            return True
        readers = self.plan.readers(self.plan.place_of(source))
        return all(reader.place == task.place for reader in readers)


def shared_values(plan: LoweringPlan, group: int, apart: frozenset[Made] = frozenset()) -> Values:
    """The values of a warp group, whose MMAs accumulate in place but for those that are apart."""
    found = Values(plan, apart)
    for region in plan.wired.graph.regions:
        found.accumulate_in_place(plan.of_group(group, region.id))
        found.sum_in_place(plan.of_group(group, region.id))
    return found


def touched(plan: LoweringPlan, task: Task) -> tuple[Made, ...]:
    """The values of an MMA that its retirement frees: its result, and operands A in registers."""
    step = plan.last_step(task)
    found = [task.made]
    for block in plan.parts(task):
        if fetches(plan, task, block):
            found.append(fetched(task, block))
            continue
        a = plan.source(step.operands[0], block)
        if a is not None and not plan.in_slot(task, step, 0, a):
            found.append(a.made)
    return tuple(found)


def fetches(plan: LoweringPlan, task: Task, block: int) -> bool:
    """Whether an MMA fetches operand A into registers: its result has fewer rows than an instruction makes, which would
    read as many from shared memory."""
    step = plan.last_step(task)
    if not plan.tiles.target.is_padded(plan.tiles.shape(step.results[0])[0]):
        return False
    a = plan.source(step.operands[0], block)
    return a is not None and (plan.in_slot(task, step, 0, a) or plan.tiles.is_transposed(step.operands[0]))


def fetched(task: Task, block: int) -> Made:
    """The value that is such an operand of an MMA."""
    return ~task.steps[-1], block


@dataclass(frozen=True)
class Reading:
    """An event that reads a value in registers. event: its key."""

    event: EventKey
    source: Source

    @property
    def made(self) -> Made:
        """The value."""
        return self.source.made

    @property
    def key(self) -> tuple[EventKey, Made, int]:
        """The event, the value, and how many iterations ago it was made."""
        return self.event, self.made, self.source.distance


@dataclass(frozen=True)
class Overwritten:
    """A value that is read after its registers were written by what shares them."""

    made: Made


Ages = Mapping[tuple[EventKey, Made, int], int]
"""(event, value, distance) -> how often the variable was defined since, when the event reads it."""


def ages(
    stream: Stream, values: Values, readings: Sequence[Reading], definers: Mapping[Made, Sequence[EventKey]],
    defined_by: Mapping[Made, EventKey],
) -> Ages | Overwritten:  # fmt: skip
    """Which version each reader wants. definers: events by the variable (`Values.find`) that they define; defined_by:
    the event that makes a value."""
    found: dict[tuple[EventKey, Made, int], int] = {}
    for reading in readings:
        start = defined_by.get(reading.made)
        if start is None:  # from before the loop
            found[reading.key] = 0
            continue
        counts = [
            stream.executions(start, reading.event, definer, reading.source.distance)
            for definer in definers[values.find(reading.made)]
        ]
        ago = sum(counts)
        if ago < 0 or (ago and len(counts) > 1):
            return Overwritten(reading.made)
        found[reading.key] = ago
    return found
