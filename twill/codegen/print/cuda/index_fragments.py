"""Tiles of indices that need one register: base + a constant for each element.

Whatever is made from ranges by adding and subtracting scalars and each other, and by multiplying with literals, is in
thread t and register i  base(t) + Σ c_k · constant_k(i), with `constant_k` the part of the index along axis k that the
unrolled loop knows (`twill.codegen.print.cuda.places`). Such a fragment is printed as its base, so that masks cost a
comparison with an immediate for each element and no registers.
"""

from __future__ import annotations

from collections.abc import Mapping

from twill.codegen.print.cuda.places import indices, register
from twill.codegen.warp.expression import Number
from twill.codegen.warp.layout import Accumulator, Along, Layout, Uniform, shape_of
from twill.codegen.warp.program import Compute, Copy, Fill, Operand, Range, Reg, Stmt, WarpGroup

Coefficients = tuple[int, ...]  # one for each axis of the fragment
_NO_INDEX: Coefficients = (-1 << 31,)


def find_index_fragments(group: WarpGroup) -> dict[int, Coefficients]:
    """Fragments of a group that are such tiles in all their definitions, with their coefficients."""
    layouts: dict[int, Layout] = {
        f.id: f.layout for f in group.fragments if f.element == "i32" and not isinstance(f.layout, Uniform)
    }
    stmts = [stmt for stmt in group.stmts if _result(stmt) in layouts]
    found: dict[int, Coefficients] = {}
    changed = True
    while changed:
        changed = False
        for stmt in stmts:
            result = _result(stmt)
            made = _made(stmt, layouts, found)
            if made is not None and found.get(result) not in (made, _NO_INDEX):
                found[result] = _NO_INDEX if result in found else made
                changed = True
    defined = {_result(stmt) for stmt in stmts if _made(stmt, layouts, found) is not None}
    return {number: c for number, c in found.items() if c != _NO_INDEX and number in defined}


def _result(stmt: Stmt) -> int:
    """The fragment that a statement overwrites; -1 for none."""
    for name in ("result", "accumulator"):
        number = getattr(stmt, name, -1)
        if isinstance(number, int) and number >= 0:
            return number
    return -1


def _made(stmt: Stmt, layouts: Mapping[int, Layout], found: Mapping[int, Coefficients]) -> Coefficients | None:
    """What a statement makes; None while an operand is not known."""
    match stmt:
        case Range():
            return (1,)
        case Fill(result):
            return (0,) * len(shape_of(layouts[result]))
        case Copy(columns=(_, _)):
            return _NO_INDEX
        case Copy(source, _):
            return found.get(source) if source in layouts else _NO_INDEX
        case Compute(("add" | "sub" | "mul") as kind, operands, result):
            sides = [_of(operand, layouts[result], layouts, found) for operand in operands]
            known = [side for side in sides if side is not None]
            if _NO_INDEX in known:
                return _NO_INDEX
            return _combined(kind, operands, known) if len(known) == 2 else None
    return _NO_INDEX


def _of(
    operand: Operand, like: Layout, layouts: Mapping[int, Layout], found: Mapping[int, Coefficients]
) -> Coefficients | None:
    """Coefficients of an operand spread to a layout."""
    rank = len(shape_of(like))
    if not isinstance(operand, Reg):
        return (0,) * rank
    if operand.fragment not in layouts:
        return _NO_INDEX
    own = found.get(operand.fragment)
    if own is None or own == _NO_INDEX:
        return own
    axes = operand.axes or tuple(range(rank))
    return tuple(own[axis] if axis >= 0 else 0 for axis in axes)


def _combined(kind: str, operands: tuple[Operand, ...], sides: list[Coefficients]) -> Coefficients:
    left, right = sides
    if kind == "add":
        return tuple(a + b for a, b in zip(left, right, strict=True))
    if kind == "sub":
        return tuple(a - b for a, b in zip(left, right, strict=True))
    for scalar, other in ((operands[0], right), (operands[1], left)):
        if isinstance(scalar, Number):
            return tuple(int(scalar.value) * c for c in other)
    return left if not any(left) and not any(right) else _NO_INDEX


def constant(layout: Layout, coefficients: Coefficients, i: str) -> str:
    """C: the part of register `i` besides the base."""
    terms = []
    for coefficient, place in zip(coefficients, indices(layout, i), strict=True):
        if coefficient and place.constant != "0":
            terms.append(f"({place.constant})" + (f" * {coefficient}" if coefficient != 1 else ""))
    return " + ".join(terms) or "0"


def spread_constant(result: Layout, operand: Layout, axes: tuple[int, ...], coefficients: Coefficients, i: str) -> str:
    """C: that part of the operand that meets register `i` of a result, spread by `axes`."""
    place = register(result, operand, axes, i)
    if isinstance(result, Accumulator) and isinstance(operand, Along):  # the same split into thread and constant
        return constant(result, tuple(coefficients[axis] if axis >= 0 else 0 for axis in axes), i)
    return constant(operand, coefficients, place)


def lane(layout: Layout, coefficients: Coefficients) -> str:
    """C: what a range's base adds for the thread."""
    terms = [place.lane for c, place in zip(coefficients, indices(layout), strict=True) if c and place.lane != "0"]
    return " + ".join(terms) or "0"
