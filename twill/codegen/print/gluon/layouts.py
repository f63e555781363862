"""Layouts as Gluon names them: how the tensors of a role lie in the registers of its partition.

A fragment of `rows` by `columns` is a tensor in the layout of the products with as many columns; one that products read
from registers is an operand of the product that reads it; vectors are slices of a layout of products.
"""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.print.gluon.hopper import operand_layout, product_layout
from twill.codegen.warp.layout import Accumulator, Along
from twill.codegen.warp.program import Compute, Fragment, Multiply, Reduce, Reg, WarpGroup


@dataclass(frozen=True)
class Products:
    """Of products with so many columns."""

    columns: int

    @property
    def text(self) -> str:
        """The name of the layout in the module."""
        return f"MMA_{self.columns}"


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

    @property
    def text(self) -> str:
        """An expression."""
        return f"gl.SliceLayout({self.axis}, MMA_{self.columns})"


Layout = Products | OperandA | SlicedLayout


def layouts_of(group: WarpGroup) -> dict[int, Layout]:
    """The layout of every fragment of a warp group."""
    reads = {
        s.a: group.fragment(s.accumulator) for s in group.stmts if isinstance(s, Multiply) and isinstance(s.a, int)
    }
    rows = _columns_of_rows(group)
    return {fragment.id: _layout(fragment, reads.get(fragment.id), rows) for fragment in group.fragments}


def _layout(fragment: Fragment, product: Fragment | None, rows: int) -> Layout:
    match fragment.layout:
        case Accumulator(_, columns):
            if product is None:
                return Products(columns)
            assert isinstance(product.layout, Accumulator)
            return OperandA(product.layout.columns)
        case Along(_, 1):
            return SlicedLayout(1, rows)
        case Along(parent):
            return SlicedLayout(0, parent.columns)
    raise TypeError(f"{fragment.layout} was refused")


def _columns_of_rows(group: WarpGroup) -> int:
    """The columns of the matrix that vectors of rows are slices of: the first that is reduced to one, or that one is
    combined with."""
    fragments = {fragment.id: fragment.layout for fragment in group.fragments}
    matrices = [layout.columns for layout in fragments.values() if isinstance(layout, Accumulator)]
    for stmt in group.stmts:
        if isinstance(stmt, Reduce) and stmt.axis == 1 and isinstance(layout := fragments[stmt.operand], Accumulator):
            return layout.columns
    for stmt in group.stmts:
        if not isinstance(stmt, Compute) or not isinstance(layout := fragments[stmt.result], Accumulator):
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
