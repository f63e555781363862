"""The loops of one warp group in the grammar: registers of values, cursors of positions in rings, statements."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from twill import exc
from twill.codegen.lower.cross_loop_reuse import before, position, streams
from twill.codegen.lower.cursors import CursorUse
from twill.codegen.lower.events import Events, LoopPlan
from twill.codegen.lower.loop_stream import LoopStream
from twill.codegen.lower.operations import Tools, outside
from twill.codegen.lower.ring_uses import ring_uses
from twill.codegen.lower.scalars import OUTSIDE
from twill.codegen.lower.select_loop import EventStatements, SelectedLoop, select_loop
from twill.codegen.lower.stream import EventKey
from twill.codegen.lower.task import Source
from twill.codegen.warp.program import Fill, If, Operand, Reg, Skip, Stmt
from twill.tile.flat import UNIFORM, FlatCarry
from twill.tile.uniformity import stretches

Most = Mapping[tuple[int, str], int]


class Loops:
    """Says the loops of the group of `tools`."""

    def __init__(self, tools: Tools, events: Events) -> None:
        self.tools, self.events = tools, events
        self.plan, self.registers, self.rings = tools.plan, tools.registers, tools.rings.by_place
        self.loops = {number: loop for number, loop, _ in stretches(tools.plan.wired.program) if loop is not None}

    # -- registers and cursors ----------------------------------------------------------------

    def with_registers(self, said: LoopStream) -> LoopPlan:
        """The loop, whose values have registers: in the order in which the stream comes by them."""
        plan = LoopPlan(said, self.loops[self.plan.wired.stretch[said.region]])
        for number in said.ahead:
            self.events.puts.dealt(said.tasks[number], self.rings[said.tasks[number].place])
        for made in said.values:
            self.registers.of(made)
        moved: dict[object, int] = {}
        for event, made in said.landings.items():
            held = self.registers.fragment(self.registers.of(made))
            moved[made] = self.registers.new(f"{held.name}_done", held.element, held.layout)
            plan.landings[event] = (held.id, moved[made])
        plan.variables = {key: self.registers.version(self.registers.of(key[1]), ago) for key, ago in said.ages.items()}
        plan.variables |= {key: moved[key[1]] for key in said.landed}
        return plan

    def take_positions(self, said: LoopStream, most: Most) -> None:
        """Cursors for the positions in rings that a loop reads at."""
        for reads in said.reads:
            for use in ring_uses(said.stream, reads, most[reads.aref, reads.side]).values():
                aref, side, index = use.position
                self.tools.cursors.of(self.tools.rings.arefs[aref], side, index)

    def uses_of(self, said: LoopStream, most: Most) -> dict[EventKey, dict[int, CursorUse]]:
        """What events do with rings, by cursors. Slots stay where a later loop reads the same tiles again, if all of
        them do."""
        found: dict[EventKey, dict[int, CursorUse]] = {}
        arefs = self.tools.rings.arefs
        for reads in said.reads:
            place, of = position(self.plan.reuse_groups, reads.place)
            trip = self.tools.scalars.trip(self.loops[self.plan.wired.stretch[said.region]])
            only = None if place + 1 == of else streams(trip, arefs[reads.aref].depth)
            for event, use in ring_uses(said.stream, reads, most[reads.aref, reads.side]).items():
                found.setdefault(event, {})[reads.aref] = self.tools.cursors.use(use, arefs, only)
        return found

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

    # -- statements ---------------------------------------------------------------------------

    def statements(self, plan: LoopPlan) -> list[Stmt]:
        """Initial values, then the pipeline."""
        made = self.initial(plan)
        trip = self.tools.scalars.trip(plan.loop)
        events = EventStatements(
            partial(self.events.emit, plan), partial(self.events.older_versions, plan), self.registers.of
        )
        selected = SelectedLoop(plan.said.stream, events, plan.loop, f"loop{plan.region}", trip)
        ahead, behind = self.around(plan)
        ahead += self.events.orders.begin(plan.region)
        pipeline = select_loop(selected, self.plan.candidate.switches)
        return [*made, *ahead, *pipeline, *behind, *self.events.orders.end(plan.region)]

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
        made = self.tools.group in self.plan.tasks[place].groups
        in_registers = made and not self.plan.is_in_tensor_memory(self.plan.tasks[place])
        return in_registers or place in plan.said.received

    def initial_value(self, carry: FlatCarry, plan: LoopPlan) -> list[Stmt]:
        """The start of one carried value, in every row block that this group has. Raises UnsupportedBySchedule."""
        made: list[Stmt] = []
        blocks = range(self.plan.tiles.split) if self.plan.tiles.is_split(carry.argument) else (-1,)
        for block in blocks:
            source = self.plan.source(carry.yielded, block)
            if source is None or not self.has(source, plan):
                continue
            variable = self.registers.of(source.made)
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
