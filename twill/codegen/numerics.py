"""What emitted code rounds otherwise, or elsewhere, than the Triton kernel says: each change with a bound on its error.

Found in the warp program, as it is printed; so nothing is listed that is not done, and what a strict program lists is
what is left: forms of products, which are at least as exact as what was asked for. A bound is relative to the result
unless it says otherwise; 2^-24 is the unit roundoff of f32.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from twill.codegen.warp.layout import Along
from twill.codegen.warp.program import (
    DIGITS,
    NORMAL,
    POLYNOMIAL,
    SUBNORMAL,
    Compute,
    Fragment,
    Reduce,
    Reg,
    Stmt,
    SumParts,
    WarpGroup,
    WarpProgram,
)
from twill.manifest.document import NumericChange
from twill.tile.rewrite.precision import INSTEAD, changed_mmas
from twill.tile.vocabulary import SLACK

Finder = Callable[[Stmt, WarpGroup], "NumericChange | None"]

MMA_CHANGES = {
    "tf32": ("tf32 by three products of bf16", "2^-16 of each product, instead of 2^-10"),
    "tf32x3": ("tf32x3 by six products of bf16", "2^-23 of each product, instead of 2^-21"),
    "bf16x3": ("three products of bf16", "2^-16 of each product, as asked for"),
    "bf16x6": ("six products of bf16", "2^-23 of each product, as asked for"),
    "ieee": ("ieee by eight products of bf16, summed a tile at a time",
             "2^-32 of each product, operands below 2^-110 2^-133; the tensor core truncates sums over a tile"),
}  # fmt: skip
"""Of f32 operands, by the precision that was asked for."""


def changes(program: WarpProgram) -> tuple[NumericChange, ...]:
    """Every change once, in the order of the kernel's lines."""
    found = [*_mmas(program), *_regrouped(program)]
    for group in program.groups:
        for stmt in group.stmts:
            found += [change for finder in FINDERS if (change := finder(stmt, group)) is not None]
    return tuple(sorted(dict.fromkeys(found), key=lambda change: (change.line, change.what)))


def _mmas(program: WarpProgram) -> Iterator[NumericChange]:
    for op in changed_mmas(program.program):
        types = {program.program.type_of(operand).element for operand in op.operands[:2]}
        asked = str(op.attribute(INSTEAD))
        if "bf16" in types and asked in MMA_CHANGES:
            yield NumericChange(op.line, *MMA_CHANGES[asked])
        else:
            yield NumericChange(op.line, f"a product in {', '.join(sorted(types))} with an accumulator of f32",
                         "no error but that of its sum")  # fmt: skip


def _regrouped(program: WarpProgram) -> Iterator[NumericChange]:
    for line in program.program.regrouped:
        yield NumericChange(line, "factors and summands that a tile has in common are applied once",
                     "2^-24 for each factor and 2^-24 of each summand, rounded at another place")  # fmt: skip


def _rescale(stmt: Stmt, group: WarpGroup) -> NumericChange | None:
    slack = dict(stmt.attributes).get(SLACK) if isinstance(stmt, Compute) else None
    if slack is None:
        return None
    return NumericChange(stmt.line, f"a running maximum moves only when it grew by more than {slack:.4g}",
                  "one unit roundoff of the type that exponentials are rounded to, as without it; they are up to 2^8"
                  " times as large")  # fmt: skip


def _partial(stmt: Stmt, group: WarpGroup) -> NumericChange | None:
    """Sums of rows whose result is in parts."""
    if not isinstance(stmt, Reduce) or stmt.combine != "add" or not stmt.line:
        return None
    layout = group.fragment(stmt.result).layout
    if not isinstance(layout, Along) or not layout.parts:
        return None
    return NumericChange(stmt.line, "a sum over iterations is kept in four parts",
                  "that of n additions in another order, n 2^-24 of the sum of magnitudes")  # fmt: skip


def _tail(stmt: Stmt, group: WarpGroup) -> NumericChange | None:
    if not isinstance(stmt, Compute) or stmt.kind != "erfc":
        return None
    short = int(str(dict(stmt.attributes).get(DIGITS, 24))) <= 8
    bound = "4.3e-4, absolute 4.3e-8 where it is below 1e-4" if short else "absolute 2.1e-7"
    return NumericChange(stmt.line, "1 + erf(x) by a short formula, for results of 16 bits or fewer", bound)


def _spread(stmt: Stmt, group: WarpGroup) -> NumericChange | None:
    """A division by a vector, whose inverse is a fragment of its own."""
    if not isinstance(stmt, Compute) or stmt.kind != "mul":
        return None
    inverse = [o for o in stmt.operands if isinstance(o, Reg) and o.axes and _is_inverse(group.fragment(o.fragment))]
    if not inverse:
        return None
    what = "a division by a vector is one reciprocal and multiplications"
    return NumericChange(stmt.line, what, "3 · 2^-23, instead of 2 · 2^-23")


def _is_inverse(fragment: Fragment) -> bool:
    return "_inverse" in fragment.name


def _reciprocal(stmt: Stmt, group: WarpGroup) -> NumericChange | None:
    if not isinstance(stmt, Compute) or stmt.kind != "div" or not dict(stmt.attributes).get(NORMAL):
        return None
    return NumericChange(stmt.line, "the reciprocal of a positive number", "2^-23; below 2^-126 it is 0")


def _exponential(stmt: Stmt, group: WarpGroup) -> NumericChange | None:
    if not isinstance(stmt, Compute) or dict(stmt.attributes).get(SUBNORMAL) != 0:
        return None
    return NumericChange(stmt.line, "an exponential below 2^-126, of which sums are made, is 0", "absolute 2^-126")


def _polynomial(stmt: Stmt, group: WarpGroup) -> NumericChange | None:
    share = dict(stmt.attributes).get(POLYNOMIAL) if isinstance(stmt, Compute) else None
    if share is None:
        return None
    what = f"{share} of 16 exponentials by a polynomial on the pipes of multiplications and additions"
    return NumericChange(stmt.line, what, "1.5e-7, of ex2.approx 2^-22 = 2.4e-7")


def _parts(stmt: Stmt, group: WarpGroup) -> NumericChange | None:
    if not isinstance(stmt, SumParts):
        return None
    return NumericChange(stmt.line, "a sum over K in parts, which are added in their order",
                  "that of n additions in another order, n 2^-24 of the sum of magnitudes")  # fmt: skip


FINDERS: tuple[Finder, ...] = (_rescale, _parts, _partial, _tail, _spread, _reciprocal, _exponential, _polynomial)
