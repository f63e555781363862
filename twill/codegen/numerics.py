"""What emitted code rounds otherwise, or elsewhere, than the Triton kernel says: each change with a bound on its error.

Found in the warp program, as it is printed; so nothing is listed that is not done, and what a strict program lists is
what is left: forms of products, which are at least as exact as what was asked for. A bound is relative to the result
unless it says otherwise; 2^-24 is the unit roundoff of f32.
"""

from __future__ import annotations

from collections.abc import Iterator

from twill.codegen.warp import program as ir
from twill.codegen.warp.layout import Along
from twill.manifest.document import NumericChange
from twill.tile.rewrite.precision import INSTEAD, changed_mmas
from twill.tile.vocabulary import SLACK

IN_ANOTHER_ORDER = "that of n additions in another order, n 2^-24 of the sum of magnitudes"

MMA_CHANGES = {
    "tf32": ("tf32 by three products of bf16", "2^-16 of each product, instead of 2^-10"),
    "tf32x3": ("tf32x3 by six products of bf16", "2^-23 of each product, instead of 2^-21"),
    "bf16x3": ("three products of bf16", "2^-16 of each product, as asked for"),
    "bf16x6": ("six products of bf16", "2^-23 of each product, as asked for"),
    "ieee": ("ieee by eight products of bf16, summed a tile at a time",
             "2^-32 of each product, operands below 2^-110 2^-133; the tensor core truncates sums over a tile"),
}  # fmt: skip
"""Of f32 operands, by the precision that was asked for."""


def changes(program: ir.WarpProgram) -> tuple[NumericChange, ...]:
    """Every change once, in the order of the kernel's lines."""
    found = [*_mmas(program), *_regrouped(program)]
    for group in program.groups:
        for stmt in group.stmts:
            found += _of_statement(stmt, group)
    return tuple(sorted(dict.fromkeys(found), key=lambda change: (change.line, change.what)))


def _mmas(program: ir.WarpProgram) -> Iterator[NumericChange]:
    for op in changed_mmas(program.program):
        types = {program.program.type_of(operand).element for operand in op.operands[:2]}
        asked = str(op.attribute(INSTEAD))
        if "bf16" in types and asked in MMA_CHANGES:
            yield NumericChange(op.line, *MMA_CHANGES[asked])
        else:
            yield NumericChange(op.line, f"a product in {', '.join(sorted(types))} with an accumulator of f32",
                         "no error but that of its sum")  # fmt: skip


def _regrouped(program: ir.WarpProgram) -> Iterator[NumericChange]:
    for line in program.program.regrouped:
        yield NumericChange(line, "factors and summands that a tile has in common are applied once",
                     "2^-24 for each factor and 2^-24 of each summand, rounded at another place")  # fmt: skip


def _of_statement(stmt: ir.Stmt, group: ir.WarpGroup) -> Iterator[NumericChange]:
    match stmt:
        case ir.Compute():
            yield from (NumericChange(stmt.line, *said) for said in _of_compute(stmt, group))
        case ir.SumParts():
            yield NumericChange(stmt.line, "a sum over K in parts, which are added in their order", IN_ANOTHER_ORDER)
        case ir.Reduce(combine="add") if stmt.line:
            layout = group.fragment(stmt.result).layout
            if isinstance(layout, Along) and layout.parts:
                yield NumericChange(stmt.line, "a sum over iterations is kept in four parts", IN_ANOTHER_ORDER)


def _of_compute(stmt: ir.Compute, group: ir.WarpGroup) -> Iterator[tuple[str, str]]:
    """What it does otherwise, and how far off that is."""
    named = dict(stmt.attributes)
    if (slack := named.get(SLACK)) is not None:
        yield (f"a running maximum moves only when it grew by more than {slack:.4g}",
               "one unit roundoff of the type that exponentials are rounded to, as without it; they are up to 2^8"
               " times as large")  # fmt: skip
    if stmt.kind == "erfc":
        short = int(str(named.get(ir.DIGITS, 24))) <= 8
        bound = "4.3e-4, absolute 4.3e-8 where it is below 1e-4" if short else "absolute 2.1e-7"
        yield "1 + erf(x) by a short formula, for results of 16 bits or fewer", bound
    spread = (o.fragment for o in stmt.operands if isinstance(o, ir.Reg) and o.axes)
    if stmt.kind == "mul" and any("_inverse" in group.fragment(number).name for number in spread):
        yield "a division by a vector is one reciprocal and multiplications", "3 · 2^-23, instead of 2 · 2^-23"
    if stmt.kind == "div" and named.get(ir.NORMAL):
        yield "the reciprocal of a positive number", "2^-23; below 2^-126 it is 0"
    if named.get(ir.SUBNORMAL) == 0:
        yield "an exponential below 2^-126, of which sums are made, is 0", "absolute 2^-126"
    if (share := named.get(ir.POLYNOMIAL)) is not None:
        yield (f"{share} of 16 exponentials by a polynomial on the pipes of multiplications and additions",
               "1.5e-7, of ex2.approx 2^-22 = 2.4e-7")  # fmt: skip
