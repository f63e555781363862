"""How each tile of a program is cut into row blocks and spread over registers, by dataflow.

A tile's *core* is its axes longer than 1. Matrices are accumulators if the kernel multiplies matrices (a warp
group has their rows), else blocked. Whether a vector runs along rows or columns follows from its uses:
a reduction of axis 1 makes one value for each row, `v[:, None]` shows a vector as rows, `v[None, :]` as columns,
elementwise operations and carries tie vectors together. A vector that no matrix is near is blocked. Vectors that are
used in two ways lie in the first; for the other they are made anew or converted (`twill.codegen.lower.conversions`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from twill import exc
from twill.codegen.targets.base import Target
from twill.codegen.warp.layout import Accumulator, Along, Layout, Slice, Uniform, has_slices, runs
from twill.graph.build import Wired
from twill.tile.flat import Step
from twill.tile.vocabulary import ELEMENTWISE, MMA, REARRANGE, VIEWS

ROWS, COLUMNS = 1, 0  # the axis that is taken away


@dataclass(frozen=True)
class View:
    """A cell as a view of the one it was made from: axes[i] is the base's axis behind axis i, -1 if it repeats."""

    base: int
    axes: tuple[int, ...]


class TileLayouts:
    """Shapes, layouts and views of the cells of one program, `split` parts along dimension class `dim`. columns: nodes
    that are made in parts of their columns instead, by (region, node), and the dimension (`Dim.id`) that is cut."""

    def __init__(
        self,
        wired: Wired,
        target: Target,
        dim: int,
        split: int,
        columns: Mapping[tuple[int, int], int] | None = None,
    ) -> None:
        self.wired, self.flat, self.dim, self.split = wired, wired.flat, dim, split
        self.target = target
        self.columns = columns or {}
        self.cut_elsewhere = self.cells_of_columns()
        self.products = any(self.is_of_matrices(step) for step in self.flat.steps)
        self.multiplies = any(step.op.kind in MMA for step in self.flat.steps)
        self.parent: dict[int, int] = {}
        self.side: dict[int, int] = {}
        self.beside: dict[int, tuple[int, ...]] = {}  # the matrix that a class of vectors is spread over
        self.shapes: dict[int, tuple[int, ...]] = {}  # of cells that were asked for
        self.views: dict[int, View] = {}
        self.infer()

    # -- shapes -------------------------------------------------------------------------------

    def cells_of_columns(self) -> dict[int, int]:
        """The cells that `columns` make, and views of them: the dimension class that is cut."""
        made = {number: dim for place, dim in self.columns.items() for number in self.wired.steps[place]}
        found: dict[int, int] = {}
        for number, step in enumerate(self.flat.steps):
            dim = made.get(number)
            if dim is None and step.op.kind in VIEWS:
                dim = next((self.wired.dims[found[c]] for c in step.cells() if c in found), None)
            if dim is not None:
                classes = {c for c, other in self.wired.dims.items() if other == dim}
                found |= {cell: c for cell in step.results for c in self.wired.classes.of[cell] if c in classes}
        return found

    def is_split(self, cell: int) -> bool:
        """Whether the cell's tile is cut into row blocks."""
        return self.dim >= 0 and self.dim in self.wired.classes.of[cell]

    def cut(self, cell: int) -> int:
        """The dimension class along which the cell's tile is cut into parts, if it has it; -1 for none."""
        return self.cut_elsewhere.get(cell, self.dim)

    def shape(self, cell: int) -> tuple[int, ...]:
        """The shape of one row block's part."""
        if cell not in self.shapes:
            pairs = zip(self.flat.cells[cell].type.shape, self.wired.classes.of[cell], strict=True)
            cut = self.cut(cell)
            self.shapes[cell] = tuple(e // self.split if c == cut >= 0 else e for e, c in pairs)
        return self.shapes[cell]

    def core(self, cell: int) -> tuple[int, ...]:
        """Extents above 1 of one row block's part."""
        return tuple(extent for extent in self.shape(cell) if extent > 1)

    def core_axes(self, cell: int) -> tuple[int, ...]:
        """The axes that the core keeps."""
        return tuple(axis for axis, extent in enumerate(self.shape(cell)) if extent > 1)

    def is_of_matrices(self, step: Step) -> bool:
        """Whether a step tells rows from columns: an MMA, or a reduction of one axis of a matrix."""
        if step.op.kind == "reduce":
            return sum(extent > 1 for extent in self.flat.cells[step.operands[0]].type.shape) == 2
        return step.op.kind in MMA

    # -- layouts ------------------------------------------------------------------------------

    def find(self, cell: int) -> int:
        """The cell that stands for all that are tied to it."""
        root = self.parent.get(cell, cell)
        return cell if root == cell else self.find(root)

    def tie(self, left: int, right: int) -> None:
        """Two vectors of one shape lie in the same way."""
        if len(self.core(left)) == len(self.core(right)) == 1:
            low, high = sorted((self.find(left), self.find(right)))
            self.parent[high] = low

    def infer(self) -> None:
        """Ties first, then what each use says of its class."""
        for step in self.flat.steps:
            if step.op.kind in ELEMENTWISE or step.op.kind in (
                "update",
                "broadcast",
                "expand_dims",
                "reshape",
                "splat",
                "scan",
            ):
                for cell in step.cells():
                    self.tie(cell, step.results[0])
        for carry in self.flat.carries:
            for cell in (carry.init, carry.yielded, carry.result):
                if cell >= 0:
                    self.tie(carry.argument, cell)
        for step in self.flat.steps:
            self.read(step)

    def read(self, step: Step) -> None:
        """What one step says of its vectors. A rearrangement takes elements from anywhere: its operands are no rows of
        what it makes."""
        kind = step.op.kind
        if kind in REARRANGE:
            return
        if kind == "reduce" and self.products and len(self.core(step.operands[0])) == 2:
            axis, axes = int(str(step.op.attribute("axis"))), self.core_axes(step.operands[0])
            if axis in axes:  # else it has one element, and all is as it was
                self.say(step.results[0], axes.index(axis), self.core(step.operands[0]))
        matrix = next((core for cell in step.results if len(core := self.core(cell)) == 2), ())
        for cell in (*step.cells(), *step.results):
            shape = self.shape(cell)
            if len(shape) == 2 and len(self.core(cell)) == 1 and (self.products or matrix):
                self.say(cell, ROWS if shape[1] == 1 else COLUMNS, matrix)

    def say(self, cell: int, side: int, matrix: tuple[int, ...]) -> None:
        """A use has a vector along rows or columns, maybe of a matrix of that shape."""
        root = self.find(cell)
        if self.side.setdefault(root, side) == side and matrix:
            self.beside.setdefault(root, matrix)

    def layout(self, cell: int) -> Layout:
        """The layout of one row block's part in registers."""
        core = self.core(cell)
        if not core:
            return Uniform()
        if len(core) == 1:
            return self.of_vector(cell, core[0])
        if len(core) == 2 and self.is_of_mma(core):
            return Accumulator(*core, self.target.warp_rows_of(core[0]))
        return runs(core, self.target.threads)

    def is_of_mma(self, core: tuple[int, ...]) -> bool:
        """Whether a matrix lies as the results of products do."""
        padded = self.target.is_padded(core[0])
        return self.products and self.target.has_result(*core) and (self.multiplies or not padded)

    def of_vector(self, cell: int, extent: int) -> Layout:
        """The layout of a vector: that of the first use that tells rows from columns."""
        root = self.find(cell)
        side, matrix = self.side.get(root), self.beside.get(root, ())
        if side is None:
            return runs((extent,), self.target.threads)
        if self.products and (self.is_of_mma(matrix) if matrix else self.target.has_vector(extent, side)):
            return vector(extent, side, self.target)
        blocked = runs(matrix, self.target.threads)
        return Slice(blocked, side) if matrix and has_slices(blocked) else runs((extent,), self.target.threads)

    def refuse(self, cell: int, what: str, hint: str) -> None:
        """Raises UnsupportedInKernel at the cell's line."""
        value = self.wired.program.values[self.flat.cells[cell].value]
        raise exc.UnsupportedInKernel(
            f"`{value.name}` is {what}", file=self.wired.program.file, line=value.line, hint=hint
        )

    # -- views --------------------------------------------------------------------------------

    def view(self, cell: int) -> View:
        """The cell that a chain of views shows, and how. A cell that is no view shows itself."""
        if cell not in self.views:
            self.views[cell] = self.seen(cell)
        return self.views[cell]

    def is_transposed(self, cell: int) -> bool:
        """Whether a matrix shows the one it was made from with rows and columns exchanged; that one may have further
        axes, of extent 1."""
        rows, columns = self.view(cell).axes
        return rows > columns

    def is_whole(self, cell: int, like: int) -> bool:
        """Whether a cell shows, element by element, a tile of the shape of cell `like`."""
        axes = self.core_map(self.view(cell), like)
        return axes == tuple(range(len(axes)))

    def seen(self, cell: int) -> View:
        """As `view`, found anew."""
        maker = self.wired.wiring.maker.get(cell)
        axes = tuple(range(len(self.shape(cell))))
        if maker is None:
            return View(cell, axes)
        step = self.flat.steps[maker]
        kind = step.op.kind
        if kind not in ("update", "broadcast", "expand_dims", "reshape", "transpose", "splat") or not step.cells():
            return View(cell, axes)
        inner = self.view(step.operands[0])
        below = self.shape(step.operands[0])
        here = self.shape(cell)
        if kind == "splat":
            own: tuple[int, ...] = tuple(-1 for _ in here)
        elif kind == "broadcast":
            own = tuple(a if below[a] == here[a] else -1 for a in range(len(here)))
        elif kind == "update":
            own = axes
        elif kind == "transpose":
            order = step.op.attribute("order")
            assert isinstance(order, tuple)
            own = order
        else:
            own = self.realigned(cell, below, here)
        return View(inner.base, tuple(inner.axes[a] if a >= 0 else -1 for a in own))

    def realigned(self, cell: int, below: tuple[int, ...], here: tuple[int, ...]) -> tuple[int, ...]:
        """A reshape that only adds or drops axes of extent 1."""
        retained = [a for a, extent in enumerate(below) if extent > 1]
        if [below[a] for a in retained] != [extent for extent in here if extent > 1]:
            self.refuse(cell, "reshaped across its axes", "reshape only to add or drop axes of extent 1")
        left = iter(retained)
        return tuple(next(left) if extent > 1 else -1 for extent in here)

    def core_map(self, view: View, cell: int) -> tuple[int, ...]:
        """For each core axis of `cell`, the core axis of the view's base, or -1 along which it repeats."""
        base = self.core_axes(view.base)
        return tuple(base.index(view.axes[a]) if view.axes[a] in base else -1 for a in self.core_axes(cell))


def vector(extent: int, side: int, target: Target) -> Along:
    """The layout of a vector along rows (side 1) or columns (side 0) of what MMAs of a target make; its parent is
    the least that has them."""
    assert target.mma is not None, "matrices have the layouts of products"
    if side == ROWS:
        return Along(Accumulator(extent, target.mma.columns, target.warp_rows_of(extent)), 1)
    return Along(Accumulator(target.mma.rows, extent, target.warp_rows), 0)
