"""Layouts as Gluon names them: how the tensors of a role lie in the registers of its partition.

A fragment of `rows` by `columns` is a tensor in the layout of the products with as many columns; one that products read
from registers is an operand of the product that reads it; vectors are slices of a layout of products.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.print.gluon.hopper import operand_layout, product_layout
from twill.codegen.warp.layout import WARP_ROWS, Accumulator, Along
from twill.codegen.warp.program import Compute, Fragment, Multiply, Reduce, Reg, WarpGroup


@dataclass(frozen=True)
class Products:
    """Of products with so many columns. rows: 64 where these lie in half of the lanes of tensor memory, else 0."""

    columns: int
    rows: int = 0

    @property
    def text(self) -> str:
        """The name of the layout in the module."""
        return f"MMA_{f'{self.rows}x' if self.rows else ''}{self.columns}"


@dataclass(frozen=True)
class OperandA:
    """Of operand A of products with so many columns."""

    columns: int

    @property
    def text(self) -> str:
        """The name of the layout in the module."""
        return f"A_OF_MMA_{self.columns}"


@dataclass(frozen=True)
class SlicedLayout:
    """The vector that is left of a layout of products without an axis."""

    axis: int
    columns: int
    rows: int = 0

    @property
    def text(self) -> str:
        """An expression."""
        return f"gl.SliceLayout({self.axis}, {Products(self.columns, self.rows).text})"


Layout = Products | OperandA | SlicedLayout


def layouts_of(group: WarpGroup, tensor: bool = False) -> dict[int, Layout]:
    """The layout of every fragment of a warp group. tensor: whether products are in tensor memory."""
    reads = {
        s.a: group.fragment(s.accumulator) for s in group.stmts if isinstance(s, Multiply) and isinstance(s.a, int)
    }
    return {fragment.id: _layout(fragment, reads.get(fragment.id), group, tensor) for fragment in group.fragments}


def _layout(fragment: Fragment, product: Fragment | None, group: WarpGroup, tensor: bool) -> Layout:
    match fragment.layout:
        case Accumulator(_, columns):
            if product is None:
                return Products(columns, _few(fragment.layout, tensor))
            assert isinstance(product.layout, Accumulator)
            return OperandA(product.layout.columns)
        case Along(parent, 1):
            return SlicedLayout(1, _columns_of_rows(group, parent.rows), _few(parent, tensor))
        case Along(parent):
            return SlicedLayout(0, parent.columns, _few(parent, tensor))
    raise TypeError(f"{fragment.layout} was refused")


def _few(layout: Accumulator, tensor: bool) -> int:
    """The rows of a result that lies in half of the lanes of tensor memory, of which a warp has 16; else 0."""
    return layout.rows if tensor and layout.warp_rows == WARP_ROWS else 0


def _columns_of_rows(group: WarpGroup, rows: int) -> int:
    """The columns of the matrix that vectors of so many rows are slices of: the first that is reduced to one, or that
    one is combined with."""
    every = {fragment.id: fragment.layout for fragment in group.fragments}
    fragments = {n: one for n, one in every.items() if not isinstance(one, Accumulator) or one.rows == rows}
    matrices = [layout.columns for layout in fragments.values() if isinstance(layout, Accumulator)]
    for stmt in group.stmts:
        if (
            isinstance(stmt, Reduce)
            and stmt.axis == 1
            and isinstance(layout := fragments.get(stmt.operand), Accumulator)
        ):
            return layout.columns
    for stmt in group.stmts:
        if not isinstance(stmt, Compute) or not isinstance(layout := fragments.get(stmt.result), Accumulator):
            continue
        if any(isinstance(o, Reg) and o.axes[:1] == (0,) and len(o.axes) == 2 for o in stmt.operands):
            return layout.columns
    return max(matrices, default=0)


def definition(layout: Layout, element_bits: int) -> str:
    """The line that defines a layout's name."""
    match layout:
        case Products(columns):
            return product_layout(columns, element_bits)
        case OperandA(columns):
            return operand_layout(f"MMA_{columns}", element_bits)
    raise TypeError("slices have no name")
