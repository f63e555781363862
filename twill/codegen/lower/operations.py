"""Tile operations as statements of one warp group: operands, index arithmetic, elementwise work, loads.

`Scope` stands for one place in the stream: it knows the iteration, makes pure tiles (masks, offsets) anew where they
are used, and finds data operands through `find`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from twill import exc
from twill.codegen.lower.conversions import converted, fits, operand_layout
from twill.codegen.lower.cursors import Cursors
from twill.codegen.lower.discontinuities import reaches_discontinuity
from twill.codegen.lower.exponentials import in_part, polynomial_of
from twill.codegen.lower.flushes import Flush, flush
from twill.codegen.lower.indices import IndexTiles, padding, places_of
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.placement import Placement
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.ranges import SMALLEST_NORMAL, at_least
from twill.codegen.lower.reductions import histogram, rearrange, reduce, scan, sum_parts
from twill.codegen.lower.registers import Registers
from twill.codegen.lower.scalars import OUTSIDE, Iteration, ScalarTable
from twill.codegen.lower.task import Source, Task
from twill.codegen.lower.transfers import Part, Transfers
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Expr, Number
from twill.codegen.warp.layout import Layout, Uniform
from twill.tile.flat import UNIFORM, Step
from twill.tile.vocabulary import ELEMENTWISE, NATURAL, REARRANGE


@dataclass(frozen=True)
class Tools:
    """What the statements of one warp group are made with. group: whose tasks it does; own: its own number.
    exchanges: the values of each reduction across warps so far. summed: row blocks whose partial sums meet."""

    plan: LoweringPlan
    rings: Placement
    memory: SharedMemoryPlan
    registers: Registers
    scalars: ScalarTable
    transfers: Transfers
    cursors: Cursors
    group: int
    own: int
    exchanges: list[int] = field(default_factory=list)
    summed: list[int] = field(default_factory=list)


@dataclass
class LoweringScope:
    """Statements for one place. find: the variable of a data source; slot: the ring slot that holds it, if one does.
    polynomial: how many of 16 exponentials are one (`twill.graph.exponentials`)."""

    tools: Tools
    at: Iteration
    block: int
    find: Callable[[Source], int]
    slot: Callable[[Source], ir.SlotRef | None]
    made: list[ir.Stmt] = field(default_factory=list)
    known: dict[tuple[int, bool, Layout], int] = field(default_factory=dict)  # (cell, transposed, layout) -> fragment
    polynomial: int = 0

    def __post_init__(self) -> None:
        self.plan, self.registers, self.scalars = self.tools.plan, self.tools.registers, self.tools.scalars
        self.flat, self.tiles = self.plan.flat, self.plan.tiles

    # -- tasks --------------------------------------------------------------------------------

    def run(self, task: Task) -> None:
        """Every step of a chain; the last one's result is the task's variable."""
        self.polynomial = polynomial_of(task, self.plan.schedule)
        for number in task.steps:
            step = self.flat.steps[number]
            if step.op.kind == "reduce":
                reduce(self, number, step)
            elif step.op.kind == "scan":
                scan(self, number, step)
            elif step.op.kind in REARRANGE:
                rearrange(self, number, step)
            elif step.op.kind == "histogram":
                histogram(self, number, step)
            elif step.op.kind == "sum_parts":
                sum_parts(self, number, step)
            elif step.op.kind in ELEMENTWISE:
                self.compute(step, self.result(number))
            elif step.op.kind == "tile_load":
                self.load(number, step)
            else:
                self.refuse(step, f"`{step.op.kind}` is not emitted", "elementwise operations, reductions, dot")
            self.predicated_update(number)

    def predicated_update(self, number: int) -> None:
        """What changes a step's result under a guard: in its registers, which its readers find it in."""
        for step in self.plan.amendments.get(number, ()):
            guarded = replace(self, made=[], known=dict(self.known))
            guarded.become(self.result(number), step)
            condition = self.scalars.value(step.op.operands[2], self.at)
            self.made.append(ir.If(condition, tuple(guarded.made), rare=True, line=step.op.line))

    def become(self, result: int, step: Step) -> None:
        """The variable `result` gets what an `update` step makes of it."""
        cell = step.updated
        maker = self.wired_maker(cell)
        if maker is not None and maker.guarded and maker.op.kind in ELEMENTWISE:
            self.compute(maker, result)
        else:
            updated = self.shown(cell, step.results[0], self.layout_of(result))
            into = ir.Compute("cast", (updated,), result) if isinstance(updated, ir.Reg) else ir.Fill(result, updated)
            self.made.append(into)

    def result(self, number: int) -> int:
        """The variable of a step's result."""
        return self.registers.of((number, self.block))

    def compute(self, step: Step, result: int) -> None:
        """An elementwise step on its operands."""
        layout = self.layout_of(result)
        operands = tuple(self.operand(step, p, step.results[0], layout) for p in range(len(step.op.operands)))
        strict = self.plan.wired.program.strict
        approximate = step.op.kind == "div" and dict(step.op.attributes).get("rounding") != "rn" and not strict
        if approximate and self.divides_by_vector(step, operands[1], result):
            divisor = operands[1]
            assert isinstance(divisor, ir.Reg)
            held = self.registers.fragment(divisor.fragment)
            inverse = self.registers.new(f"{held.name}_inverse", held.element, held.layout)
            one = Number(1.0, held.element)
            self.made.append(ir.Compute("div", (one, ir.Reg(divisor.fragment)), inverse, line=step.op.line))
            mma = (operands[0], replace(divisor, fragment=inverse))
            self.made.append(ir.Compute("mul", mma, result, line=step.op.line))
            return
        attributes = step.op.attributes
        if approximate and at_least(self.tiles, step.operands[1]) >= SMALLEST_NORMAL:
            attributes = (*attributes, (ir.NORMAL, 1))
        if step.op.kind == "exp" or NATURAL in dict(attributes):
            attributes = (*(a for a in attributes if a[0] != NATURAL), *self.flushed(step, strict))
        attributes = (*attributes, *in_part(step, self.flat, layout, 0 if strict else self.polynomial))
        self.made.append(ir.Compute(step.op.kind, operands, result, attributes, line=step.op.line))

    def flushed(self, step: Step, strict: bool) -> tuple[tuple[str, int], ...]:
        """What is said of an exponential to base e that may be less than 2^-126."""
        if self.flat.cells[step.results[0]].type.element != "f32":
            return ()
        found = Flush.SEEN if strict else flush(self.tiles, step.results[0])
        return {Flush.SEEN: ((ir.SUBNORMAL, 1),), Flush.SUMMED: ((ir.SUBNORMAL, 0),), Flush.UNSEEN: ()}[found]

    def divides_by_vector(self, step: Step, divisor: ir.Operand, result: int) -> bool:
        """Whether a matrix of f32 is divided by a vector spread over it: one division a row and a multiplication an
        element do it, to 3 units in the last place instead of 2, unless a discontinuous operation reads the result."""
        spread = isinstance(divisor, ir.Reg) and bool(divisor.axes) and self.registers.fragment(result).element == "f32"
        return spread and not reaches_discontinuity(self.tiles, step.results[0])

    def load(self, number: int, step: Step) -> None:
        """A tile that every thread loads its own elements of."""
        assert step.op.access is not None
        if step.op.access.indices:
            self.gather(number, step)
            return
        cell = step.results[0]
        window = self.tools.transfers.window(Part(step.op.access, cell, self.block), self.at)
        guarded = bool(step.operands) and step.operands[0] == UNIFORM
        result = self.result(number)
        mask = self.fragment(step.operands[0], self.layout_of(result)) if step.operands and not guarded else None
        nothing = ir.Fill(result, Number(0, step.op.access.element))
        loaded: ir.Stmt = ir.LoadGlobal(window, result, mask, line=step.op.line)
        if guarded:
            condition = self.scalars.value(step.op.operands[0], self.at)
            loaded = ir.If(condition, (loaded,), (nothing,), line=step.op.line)
        self.made.append(loaded)

    def gather(self, number: int, step: Step) -> None:
        """A tile whose elements have addresses of their own."""
        access, result = step.op.access, self.result(number)
        assert access is not None
        made: list[ir.Stmt] = []
        part = Part(access, step.results[0], self.block)
        window, condition = self.picked(step, part, self.registers.fragment(result).layout, made)
        loaded: ir.Stmt = ir.LoadGlobal(window, result, line=step.op.line)
        if condition is not None:
            loaded = ir.If(condition, (loaded,), (ir.Fill(result, padding(access)),), line=step.op.line)
        self.made += [*made, loaded]

    def picked(self, step: Step, part: Part, layout: Layout, made: list[ir.Stmt]) -> tuple[ir.Window, Expr | None]:
        """The window of an access with its indices and its mask, and the scalar that says whether any of it is touched.
        layout: of the tile in registers. made: gets the statements in front of the access."""
        spans = self.tools.transfers.spans(part)
        places = places_of(span.extent for span in spans)
        moved = [span for span in spans if span.extent > 1]
        tiles = IndexTiles(self, layout, moved, made, holding=step.op.kind != "tile_load" or self.plan.candidate.direct)
        return tiles.window(step, self.tools.transfers.window_of(part.access, spans, self.at), places)

    # -- operands -----------------------------------------------------------------------------

    def operand(self, step: Step, position: int, like: int, layout: Layout | None = None) -> ir.Operand:
        """An operand of an elementwise step, spread to the shape of cell `like`, which lies in that layout."""
        cell = step.operands[position]
        if cell == UNIFORM:
            return self.scalars.value(step.op.operands[position], self.at)
        return self.shown(cell, like, layout)

    def shown(self, cell: int, like: int, layout: Layout | None = None) -> ir.Operand:
        """A cell as an operand of something of the shape of cell `like`, which lies in that layout (None: its own)."""
        view = self.tiles.view(cell)
        constant = self.constant(view.base)
        if constant is not None:
            return constant
        axes = self.tiles.core_map(view, like)
        whole = tuple(range(len(axes)))
        transposed = axes == (1, 0)
        if not self.tiles.core(view.base):
            return ir.Reg(self.base(view.base, False, Uniform()))
        wanted = operand_layout(layout or self.tiles.layout(like), whole if transposed else axes, self.tiles.target)
        if wanted is None:
            self.tiles.refuse(
                cell, f"spread over {self.tiles.core(like)} by {axes}", "a matrix, and its rows or columns"
            )
        assert wanted is not None
        fragment = self.base(view.base, transposed, wanted)
        return ir.Reg(fragment) if axes == whole or transposed else ir.Reg(fragment, axes)

    def layout_of(self, fragment: int) -> Layout:
        """How a fragment lies."""
        return self.registers.fragment(fragment).layout

    def moved(self, source: int, result: int, transposed: bool = False, line: int = 0) -> Iterator[ir.Stmt]:
        """One variable into another of any layout."""
        held, into = self.registers.fragment(source), self.registers.fragment(result)
        if held.layout == into.layout and not transposed:
            yield ir.Copy(source, result, line=line)
        elif fits(held.layout, into.layout) and not transposed:
            yield ir.Compute("cast", (ir.Reg(source),), result, line=line)
        else:
            yield from converted(self.tools.memory, self.tools.own, held, into, transposed, line)

    def constant(self, cell: int) -> Expr | None:
        """The number that every element of a cell is, if it is a constant or a splat of a uniform scalar."""
        maker = self.wired_maker(cell)
        if maker is None:
            return None
        if maker.op.kind == "constant":
            value = maker.op.attribute("value")
            assert isinstance(value, int | float)
            return Number(value, self.flat.cells[cell].type.element)
        if maker.op.kind == "splat" and maker.operands[0] == UNIFORM:
            return self.scalars.value(maker.op.operands[0], self.at)
        return None

    def wired_maker(self, cell: int) -> Step | None:
        """The step that makes a cell; None for carried values."""
        number = self.plan.wired.wiring.maker.get(cell)
        return None if number is None else self.flat.steps[number]

    def fragment(self, cell: int, layout: Layout | None = None) -> int:
        """A fragment that holds a cell as it is, in that layout (None: its own)."""
        layout = layout or self.tiles.layout(cell)
        operand = self.shown(cell, cell, layout)
        if isinstance(operand, ir.Reg) and not operand.axes and self.layout_of(operand.fragment) == layout:
            return operand.fragment
        made = self.temporary(cell, layout)
        if isinstance(operand, ir.Reg):
            self.made.append(ir.Compute("cast", (operand,), made, ()))
        else:
            self.made.append(ir.Fill(made, operand))
        return made

    def temporary(self, cell: int, layout: Layout | None = None) -> int:
        """A new fragment for a cell."""
        value = self.plan.wired.program.values[self.flat.cells[cell].value]
        element = self.flat.cells[cell].type.element
        return self.registers.new(value.name.replace(".", "_"), element, layout or self.tiles.layout(cell))

    def base(self, cell: int, transposed: bool, wanted: Layout) -> int:
        """The fragment that holds a cell that is no view, or its transpose, in that layout or one that fits it: a data
        value, or a pure tile made here."""
        if (cell, transposed, wanted) in self.known:
            return self.known[cell, transposed, wanted]
        source = self.plan.source(cell, self.block)
        if source is not None and self.is_direct(cell, source):
            made = self.data(source, transposed, wanted)
        elif transposed:
            made = self.temporary(cell, wanted)
            straight = self.pure(cell, self.tiles.layout(cell))
            self.made += self.moved(straight, made, transposed=True)
        else:
            made = self.pure(cell, wanted)
        self.known[cell, transposed, wanted] = made
        return made

    def is_direct(self, cell: int, source: Source) -> bool:
        """Whether the cell is the source's value itself and not a sign change or bit cast of it."""
        maker = self.plan.wired.wiring.maker.get(cell)
        return maker is None or maker == source.step

    def data(self, source: Source, transposed: bool, wanted: Layout) -> int:
        """A value that some task makes: from its ring slot, or its variable."""
        slot, line = self.slot(source), self.flat.steps[source.step].op.line
        if slot is not None and not self.has_itself(source):
            made = self.temporary(source.cell, wanted)
            self.made.append(ir.LoadShared(slot, made, transposed, line=line))
            return made
        found = self.find(source)
        if fits(self.layout_of(found), wanted) and not transposed:
            return found
        made = self.temporary(source.cell, wanted)
        self.made += self.moved(found, made, transposed, line)
        return made

    def has_itself(self, source: Source) -> bool:
        """Whether the group has a tile of straight-line code in registers, beside the slot that others, or its MMAs,
        read."""
        task = self.plan.tasks[self.plan.place_of(source)]
        return task.region not in self.plan.loops and self.tools.group in task.groups

    def pure(self, cell: int, layout: Layout) -> int:
        """Index arithmetic, made here for the iteration at hand, in that layout."""
        carry = self.plan.wired.wiring.argument.get(cell) or self.plan.wired.wiring.result.get(cell)
        if carry is not None:
            return self.progression(cell, layout)
        step = self.wired_maker(cell)
        assert step is not None
        made = self.temporary(cell, layout)
        if step.op.kind == "range":
            before = self.tiles.shape(cell)[0] * max(self.block, 0) if self.tiles.is_split(cell) else 0
            self.made.append(ir.Range(made, int(str(step.op.attribute("start"))) + before, line=step.op.line))
        elif step.op.kind in ELEMENTWISE:
            self.compute(step, made)
        elif step.op.access is not None:
            spans = self.tools.transfers.spans(Part(step.op.access, cell, self.block))
            tiles = IndexTiles(
                self, self.registers.fragment(made).layout, [s for s in spans if s.extent > 1], self.made
            )
            tiles.look_up(step, made, places_of(span.extent for span in spans))
        else:
            self.refuse(step, f"`{step.op.kind}` is not emitted", "elementwise operations on ranges")
        return made

    def progression(self, cell: int, layout: Layout) -> int:
        """A carried tile to which every iteration adds the same: init + number * difference."""
        wiring = self.plan.wired.wiring
        carry = wiring.argument.get(cell) or wiring.result[cell]
        step = self.wired_maker(self.tiles.view(carry.yielded).base)
        assert step is not None
        position = next(
            p for p, c in enumerate(step.operands) if c == UNIFORM or self.tiles.view(c).base != carry.argument
        )
        change = self.operand(step, position, cell, layout)
        number = self.at.number if cell == carry.argument else None
        if number is None:
            self.refuse(step, "a carried offset is used after its loop", "compute it from the loop bounds")
        made, init = self.temporary(cell, layout), self.shown(carry.init, cell, layout)
        assert number is not None
        self.made.append(ir.Compute("mul", (change, number), made))
        kind = "sub" if step.op.kind == "sub" else "add"
        self.made.append(ir.Compute(kind, (init, ir.Reg(made)), made))
        return made

    def refuse(self, step: Step, what: str, hint: str) -> None:
        """Raises UnsupportedInKernel at a step's line."""
        raise exc.UnsupportedInKernel(what, file=self.plan.wired.program.file, line=step.op.line, hint=hint)


def nowhere(source: Source) -> int:
    """Of a place in which no value of another task is at hand."""
    raise KeyError(source)


def outside(tools: Tools, block: int, made: list[ir.Stmt]) -> LoweringScope:
    """A place outside of loops: the variables as they are, and the slots of held rings."""

    def find(source: Source) -> int:
        return tools.registers.of(source.made)

    def slot(source: Source) -> ir.SlotRef | None:
        place = tools.plan.place_of(source)
        ring = tools.rings.by_place.get(place)
        if ring is None or not ring.held or source.step != tools.plan.tasks[place].steps[-1]:
            return None
        return ir.SlotRef(ring.buffer.id, tools.cursors.of(ring.aref, "get"))

    return LoweringScope(tools, OUTSIDE, block, find, slot, made)
