"""1 + erf(x) as erfc(-x), where the results are rounded to 16 bits or fewer.

The error function to float32's last place takes a polynomial each for small and for large arguments. Added to 1 its
small values round away, and rounded to 16 bits so does most of the rest: one short formula is as good there
(`erfc_short` in `twill/codegen/print/cuda/tile.cuh`; a shorter one for bf16, `erfc_bf16`), with a relative error that
keeps
below that of float32's 1 + erf(x) where the sum is small. The shorter one has a factor for nothing: GELU's 1/2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from twill.codegen.passes.fences import named
from twill.codegen.warp import program as ir
from twill.codegen.warp.choices import Choices, each_body
from twill.codegen.warp.expression import Number

SHORT = {"f16": 11, "bf16": 8, "f8e4m3": 4, "f8e5m2": 3}  # types: bits of a significand
KEEPING = ("mul", "neg", "cast")  # what leaves a relative error as it is


def with_tails(body: tuple[ir.Stmt, ...], elements: Mapping[int, str]) -> tuple[ir.Stmt, ...]:
    """The body with those sums in the other form. elements: of the group's fragments."""
    mentions = Mentions.of(body)
    changed: dict[int, ir.Stmt | None] = {}
    for stmt in ir.walk(body):
        if isinstance(stmt, ir.Compute) and stmt.kind == "erf" and elements[stmt.result] == "f32":
            total = mentions.sum_with_one(stmt)
            digits = mentions.digits(total.result, elements) if total is not None else 0
            if total is not None and digits:
                changed[id(stmt)] = replace(stmt, kind="neg")
                factor, scaling = mentions.factor(body, total) if digits <= SHORT["bf16"] else (1.0, {})
                changed |= scaling
                attributes = ((ir.DIGITS, digits), *(((ir.FACTOR, factor),) if scaling else ()))
                changed[id(total)] = replace(total, kind="erfc", operands=(ir.Reg(stmt.result),), attributes=attributes)
    return tuple(_with(body, changed)) if changed else body


@dataclass(frozen=True)
class Mentions:
    """Statements by the fragments that they read or write; in_mmas: fragments of products."""

    of_fragment: Mapping[int, tuple[ir.Stmt, ...]]
    in_mmas: frozenset[int]

    @classmethod
    def of(cls, body: tuple[ir.Stmt, ...]) -> Mentions:
        """All of a body."""
        found: dict[int, tuple[ir.Stmt, ...]] = {}
        products: set[int] = set()
        for stmt in ir.walk(body):
            if isinstance(stmt, ir.If | ir.Pipeline | ir.Fence | ir.WaitGroups):
                continue
            if isinstance(stmt, ir.Multiply):
                products |= {stmt.accumulator, *([stmt.a] if isinstance(stmt.a, int) else [])}
                continue
            for number in set(named(stmt)):
                found[number] = (*found.get(number, ()), stmt)
        return cls(found, frozenset(products))

    def readers(self, number: int) -> tuple[ir.Compute, ...] | None:
        """What reads a fragment that one statement writes; None if that is not all that happens to it."""
        computes = [stmt for stmt in self.of_fragment[number] if isinstance(stmt, ir.Compute)]
        writers = [stmt for stmt in computes if stmt.result == number]
        if len(computes) < len(self.of_fragment[number]) or len(writers) != 1 or number in self.in_mmas:
            return None
        return tuple(stmt for stmt in computes if stmt.result != number)

    def sum_with_one(self, erf: ir.Compute) -> ir.Compute | None:
        """The only reader of a result, if it adds 1 to it."""
        readers = self.readers(erf.result)
        if readers is None or len(readers) != 1 or readers[0].kind != "add":
            return None
        return readers[0] if any(_is_one(operand) for operand in readers[0].operands) else None

    def digits(self, number: int, elements: Mapping[int, str]) -> int:
        """The most bits of a significand among the short floats that are all that comes of a fragment, with its
        relative error; 0 if something else comes of it."""
        if elements[number] in SHORT:
            return SHORT[elements[number]]
        found = [0]
        for stmt in self.readers(number) or ():
            keeps = stmt.kind in KEEPING and elements[stmt.result] in ("f32", *SHORT)
            found.append(self.digits(stmt.result, elements) if keeps else 0)
        return max(found) if all(found[1:]) else 0

    def factor(self, body: tuple[ir.Stmt, ...], total: ir.Compute) -> tuple[float, Mapping[int, ir.Stmt | None]]:
        """A positive number that what a sum is multiplied by was multiplied by before, for nothing else, and what
        becomes of both multiplications if the sum has the factor. Looked for in the straight-line code of a body."""
        straight = [stmt for stmt in body if isinstance(stmt, ir.Compute)]
        for product in self.readers(total.result) or ():
            if product.kind != "mul" or not all(any(s is one for s in straight) for one in (total, product)):
                continue
            for scaled in (o for o in product.operands if isinstance(o, ir.Reg) and o.fragment != total.result):
                made = next((s for s in straight if s.kind == "mul" and s.result == scaled.fragment), None)
                if made is None or scaled.axes or self.readers(made.result) != (product,):
                    continue
                left, right = made.operands
                if not isinstance(left, ir.Reg) or left.axes or self.readers(left.fragment) is None:
                    continue
                if isinstance(right, Number) and right.value > 0:
                    operands = tuple(left if o == scaled else o for o in product.operands)
                    return float(right.value), {id(made): None, id(product): replace(product, operands=operands)}
        return 1.0, {}


def _is_one(operand: ir.Operand) -> bool:
    return isinstance(operand, Number) and operand.value == 1


def _with(stmts: tuple[ir.Stmt, ...], changed: Mapping[int, ir.Stmt | None]) -> Iterator[ir.Stmt]:
    for stmt in stmts:
        made = changed.get(id(stmt), stmt)
        if made is not None:
            yield ir.with_blocks(made, lambda block: _with(block, changed))


def run(program: ir.WarpProgram, choices: Choices) -> ir.WarpProgram:
    """The pass."""
    if choices.strict:
        return program
    return each_body(program, lambda group: with_tails(group.body, {f.id: f.element for f in group.fragments}))
