"""Tiles that an address or a mask is made of, in the layout of the tile that is moved: each thread makes, or looks up,
the indices of its own elements.

A tile of row numbers has one register for each run of neighbouring elements that a thread moves (`AlongBlocked`), or
one for each row of an accumulator that it has (`Along`); what differs along both axes is a tile like the one moved.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING

from twill import exc
from twill.codegen.lower.transfers import BoxPart
from twill.codegen.warp.expression import Apply, Expr, Number, add, multiply
from twill.codegen.warp.layout import Accumulator, Along, AlongBlocked, Blocked, Layout, Uniform, shape_of
from twill.codegen.warp.program import Compute, Fill, If, LoadGlobal, Operand, Range, Reg, Stmt, Window, WindowIndex
from twill.tile.flat import UNIFORM, FlatCarry, Step
from twill.tile.program import Access
from twill.tile.vocabulary import ELEMENTWISE

if TYPE_CHECKING:
    from twill.codegen.lower.operations import LoweringScope

Places = tuple[int, ...]
"""For each axis of a tile of the program, the axis of the tile in registers that it runs along; -1: it has extent 1."""


@dataclass
class IndexTiles:
    """Makes them for one tile that is moved, in one place. layout: of that tile. spans: the part of the whole tile that
    each of its axes is. made: gets the statements. holding: by the warp group that has what else is made of data, as
    a tile that is stored is."""

    scope: LoweringScope
    layout: Layout
    spans: Sequence[BoxPart]
    made: list[Stmt]
    holding: bool = False
    known: dict[tuple[int, Places], int] = field(default_factory=dict)

    def window(self, step: Step, plain: Window, places: Places) -> tuple[Window, Expr | None]:
        """The window of an access with its indices and masks, and the scalar that says whether any of it is touched, if
        there is one. plain: the window without them. places: of the axes of the access."""
        op, over = step.op, tuple(sorted(place for place in places if place >= 0))
        assert op.access is not None
        indices, constant = [], plain.constant
        for position, index in zip(op.index_operands, op.access.indices, strict=True):
            tile = self.operand(step, position, tuple(places[axis] for axis in index.axes), over)
            scale = self.scope.scalars.polynomial(index.scale, self.scope.at, wide=True)
            if isinstance(tile, Reg):
                indices.append(WindowIndex(tile, scale))
            else:
                constant = add(constant, multiply(scale, Apply("cast", (tile,), "i64", (("signed", 1),))))
        made = replace(plain, constant=constant, indices=tuple(indices))
        if op.mask_operand is None:
            return made, None
        mask = self.operand(step, op.mask_operand, places, over)
        if isinstance(mask, Reg):
            return replace(made, where=(mask,)), None
        return made, None if isinstance(mask, Number) and mask.value else mask

    def operand(self, step: Step, position: int, places: Places, over: Places) -> Operand:
        """An operand of a step, spread over a tile that runs along the axes `over`."""
        if step.operands[position] == UNIFORM:
            return self.scope.scalars.value(step.op.operands[position], self.scope.at)
        return self.spread(step.operands[position], places, over)

    def spread(self, cell: int, places: Places, over: Places) -> Operand:
        """A cell that runs along `places`, spread likewise."""
        view = self.scope.tiles.view(cell)
        below = [-1] * len(self.scope.flat.cells[view.base].type.shape)
        for axis, base in enumerate(view.axes):
            if base >= 0:
                below[base] = places[axis]
        constant = self.scope.constant(view.base)
        if constant is not None:
            return constant
        runs = tuple(sorted(place for place in below if place >= 0))
        key = (view.base, tuple(below))
        if key not in self.known:
            self.known[key] = self.fresh(view.base, tuple(below), runs)
        if runs == over or not runs:
            return Reg(self.known[key])
        return Reg(self.known[key], tuple(runs.index(axis) if axis in runs else -1 for axis in over))

    def fresh(self, cell: int, places: Places, runs: Places) -> int:
        """A fragment that holds a cell that is no view. runs: the axes that it runs along, in their order."""
        wiring = self.scope.plan.wired.wiring
        if self.is_data(cell) and list(runs) == [place for place in places if place >= 0]:
            return self.scope.fragment(cell, self.along(runs))
        result = self.scope.temporary(cell, self.along(runs))
        carry, maker = wiring.argument.get(cell), wiring.maker.get(cell)
        step = self.scope.flat.steps[maker] if maker is not None else None
        if carry is not None and carry.pure:
            self.progression(carry, result, places, runs)
        elif step is not None and step.op.kind == "range":
            first = self.spans[places[0]].first if places[0] >= 0 else 0
            self.made.append(Range(result, int(str(step.op.attribute("start"))) + first, line=step.op.line))
        elif step is not None and step.op.kind in ELEMENTWISE:  # anew, for another warp group may have it
            operands = tuple(self.operand(step, n, places, runs) for n in range(len(step.operands)))
            self.made.append(Compute(step.op.kind, operands, result, step.op.attributes, line=step.op.line))
        elif step is not None and step.index and step.op.access is not None:
            self.look_up(step, result, places)
        else:
            self.refuse(cell)
        return result

    def is_data(self, cell: int) -> bool:
        """Whether the threads that move the tile have what a cell is."""
        wiring = self.scope.plan.wired.wiring
        carry, maker = wiring.argument.get(cell), wiring.maker.get(cell)
        made = carry is not None or (maker is not None and not self.scope.flat.steps[maker].index)
        return made and self.holding and self.scope.plan.source(cell, self.scope.block) is not None

    def look_up(self, step: Step, result: int, places: Places) -> None:
        """Each thread loads what it needs of a tile of integers."""
        access = step.op.access
        assert access is not None
        spans = [
            self.spans[p] if p >= 0 else BoxPart(0, axis.extent) for p, axis in zip(places, access.axes, strict=True)
        ]
        plain = self.scope.tools.transfers.window_of(access, spans, self.scope.at)
        window, condition = self.window(step, plain, places)
        order = [place for place in places if place >= 0]
        load: Stmt = LoadGlobal(window, result, transposed=order != sorted(order), line=step.op.line)
        nothing = Fill(result, padding(access))
        self.made.append(load if condition is None else If(condition, (load,), (nothing,), line=step.op.line))

    def progression(self, carry: FlatCarry, result: int, places: Places, runs: Places) -> None:
        """A carried tile to which every iteration adds the same: init + number * difference."""
        maker = self.scope.wired_maker(self.scope.tiles.view(carry.yielded).base)
        assert maker is not None
        cells = [UNIFORM if c == UNIFORM else self.scope.tiles.view(c).base for c in maker.operands]
        position = next(p for p, cell in enumerate(cells) if cell != carry.argument)
        change = self.operand(maker, position, places, runs)
        self.made.append(Compute("mul", (change, self.scope.at.number), result, line=maker.op.line))
        kind = "sub" if maker.op.kind == "sub" else "add"
        self.made.append(Compute(kind, (self.spread(carry.init, places, runs), Reg(result)), result))

    def along(self, runs: Places) -> Layout:
        """The layout of what runs along some axes of the tile that is moved."""
        if runs == tuple(range(len(shape_of(self.layout)))):
            return self.layout
        if not runs:
            return Uniform()
        match self.layout:
            case Accumulator():
                return Along(self.layout, 1 - runs[0])
            case Blocked((_, _)):
                return AlongBlocked(self.layout, 1 - runs[0])
        raise exc.UnsupportedInKernel(
            "indices along some axes of a tile of more than two dimensions", file=self.scope.plan.wired.program.file,
            hint="tiles of one or two dimensions",
        )  # fmt: skip

    def refuse(self, cell: int) -> None:
        """Raises UnsupportedInKernel."""
        program = self.scope.plan.wired.program
        value = program.values[self.scope.flat.cells[cell].value]
        raise exc.UnsupportedInKernel(
            f"an address, or the mask of a load, is made of `{value.name}`, which is computed from data",
            file=program.file, line=value.line,
            hint="indices made of the grid, loop counters, and what is loaded from a tensor that the kernel only reads",
        )  # fmt: skip


def places_of(extents: Iterable[int]) -> Places:
    """The places of the axes of an access: those of extent 1 have none."""
    numbers = count()
    return tuple(next(numbers) if extent > 1 else -1 for extent in extents)


def padding(access: Access) -> Number:
    """What masked elements of an access read as."""
    return Number(int(access.pad) if access.element.startswith("i") else access.pad, access.element)
