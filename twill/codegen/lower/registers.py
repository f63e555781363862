"""The fragments of one warp group: which data values share a variable, and which version a reader sees.

A value is (step, row block) of the flat program. The result of an MMA lives where its addend lives; so a carried
accumulator and the instructions that rescale it are one variable. A reader that runs after the next definition of
what it reads sees an older version, kept in a variable of its own by a copy in front of the definition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.stream import Stream
from twill.codegen.lower.task import Source, Task
from twill.codegen.warp.layout import Layout
from twill.codegen.warp.program import Copy, Fragment, Stmt
from twill.graph.accumulator import accumulators

Made = tuple[int, int]  # step, row block
EventKey = tuple[str, int]


@dataclass(frozen=True)
class Reading:
    """An event that reads a value in registers. event: its key."""

    event: EventKey
    source: Source


@dataclass
class Registers:
    """Fragments of one warp group. names: taken so far. apart: MMAs whose results have registers beside those of
    what they add to, because that is made anew while they are still read."""

    plan: LoweringPlan
    group: int
    numbers: Iterator[int]
    apart: frozenset[Made] = frozenset()
    fragments: list[Fragment] = field(default_factory=list)
    parent: dict[Made, Made] = field(default_factory=dict)
    variable: dict[Made, int] = field(default_factory=dict)
    older: dict[tuple[int, int], int] = field(default_factory=dict)  # (variable, versions ago) -> variable
    names: set[str] = field(default_factory=set)

    def new(self, name: str, element: str, layout: Layout) -> int:
        """A fragment with a name of its own."""
        base, count = name or "t", 2
        name = base
        while name in self.names:
            name, count = f"{base}_{count}", count + 1
        self.names.add(name)
        made = Fragment(next(self.numbers), name, element, layout)
        self.fragments.append(made)
        return made.id

    def fragment(self, number: int) -> Fragment:
        """The fragment of that number."""
        return next(f for f in self.fragments if f.id == number)

    def layouts(self) -> dict[int, Layout]:
        """How each fragment is spread, by number."""
        return {fragment.id: fragment.layout for fragment in self.fragments}

    # -- variables ----------------------------------------------------------------------------

    def find(self, made: Made) -> Made:
        """The value that stands for all that share its variable."""
        root = self.parent.get(made, made)
        return made if root == made else self.find(root)

    def unite(self, one: Made, other: Made) -> None:
        """Two values are one variable."""
        low, high = sorted((self.find(one), self.find(other)))
        if low != high:
            self.parent[high] = low

    def of(self, made: Made) -> int:
        """The variable that holds a value."""
        root = self.find(made)
        if root not in self.variable:
            step, block = made
            cell = self.plan.flat.steps[step].results[0]
            op = self.plan.flat.steps[step].op
            name = (op.name or op.kind).replace(".", "_") + ("" if block < 0 else f"_{block}")
            element = self.plan.flat.cells[cell].type.element
            self.variable[root] = self.new(name, element, self.plan.tiles.layout(cell))
        return self.variable[root]

    def accumulate_in_place(self, tasks: list[Task]) -> None:
        """Unites every MMA's result with its addend, where that is made by a task of this group in the same
        region and nothing else needs it afterwards."""
        for task in tasks:
            if task.node.kind != "mma" or (task.steps[-1], task.block) in self.apart:
                continue
            step = self.plan.flat.steps[task.steps[-1]]
            source = self.plan.source(step.operands[2], task.block) if len(step.operands) > 2 else None
            if source is None or self.plan.home[source.step][0] != task.region:
                continue
            if not self.plan.tiles.is_whole(step.operands[2], step.results[0]):
                continue  # a vector that is spread over the matrix
            if self.may_overwrite(source, task):
                self.unite((task.steps[-1], task.block), (source.step, source.block))

    def sum_in_place(self, tasks: list[Task]) -> None:
        """Unites what threads make of the sum of MMAs so far, for the next MMA to add to, with that sum, where the
        schedule has both in one place (`twill.graph.accumulator`) and nothing else reads it."""
        regions = {region.id: region for region in self.plan.wired.graph.regions}
        for task in (task for task in tasks if task.node.kind == "elementwise"):
            nodes = next((n for n in accumulators(regions[task.region]) if task.node.id in n), [])
            before = [self.plan.wired.steps[task.region, node][-1] for node in nodes if node < task.node.id]
            for source in self.plan.register_sources(task):
                readers = self.plan.readers(self.plan.place_of(source))
                alone = all(reader.place == task.place for reader in readers)
                if source.step in before[-1:] and not source.distance and alone:
                    self.unite((task.steps[-1], task.block), (source.step, source.block))

    def may_overwrite(self, source: Source, task: Task) -> bool:
        """Whether the MMA is the last that needs its addend: carried ones, and those read only by it."""
        if source.distance or source.step in task.steps:
            return True
        readers = self.plan.readers(self.plan.place_of(source))
        return all(reader.place == task.place for reader in readers)

    # -- versions -----------------------------------------------------------------------------

    def version(self, variable: int, ago: int) -> int:
        """The variable that keeps what `variable` was `ago` definitions before."""
        if ago == 0:
            return variable
        if (variable, ago) not in self.older:
            now = self.fragment(variable)
            self.older[variable, ago] = self.new(f"{now.name}_before", now.element, now.layout)
        return self.older[variable, ago]

    def keep(self, variable: int) -> list[Stmt]:
        """The copies in front of a definition, oldest first."""
        most = max((ago for v, ago in self.older if v == variable), default=0)
        return [Copy(self.version(variable, ago - 1), self.version(variable, ago)) for ago in range(most, 0, -1)]


@dataclass(frozen=True)
class Overwritten:
    """A value that is read after its registers were written by what shares them."""

    made: Made


def versions(
    stream: Stream, registers: Registers, readings: list[Reading], definers: dict[int, list[EventKey]],
    defined_by: dict[Made, EventKey],
) -> dict[tuple[EventKey, Made, int], int] | Overwritten:  # fmt: skip
    """(event, value, distance) -> the variable that a reader finds. definers: events by variable; defined_by:
    the event that makes a value."""
    found: dict[tuple[EventKey, Made, int], int] = {}
    for reading in readings:
        made = (reading.source.step, reading.source.block)
        variable = registers.of(made)
        start = defined_by.get(made)
        if start is None:  # from before the loop
            found[reading.event, made, reading.source.distance] = variable
            continue
        counts = {
            definer: stream.executions(start, reading.event, definer, reading.source.distance)
            for definer in definers[variable]
        }
        ago = sum(counts.values())
        if ago < 0 or (ago and len(counts) > 1):
            return Overwritten(made)
        found[reading.event, made, reading.source.distance] = registers.version(variable, ago)
    return found
