"""1 + erf(x) as erfc(-x), where the results are rounded to 16 bits or fewer.

The error function to float32's last place takes a polynomial each for small and for large arguments. Added to 1 its
small values round away, and rounded to 16 bits so does most of the rest: one short formula is as good there
(`erfc_short` in `twill/codegen/cuda/tile.cuh`), with a relative error that keeps below that of float32's 1 + erf(x)
where the sum is small.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from twill.codegen.aref import Compute, Fence, If, Multiply, Operand, Pipeline, Reg, Stmt, WaitGroups, walk, with_blocks
from twill.codegen.expression import Number
from twill.codegen.fences import named

SHORT = ("bf16", "f16", "f8e4m3", "f8e5m2")
KEEPING = ("mul", "neg", "cast")  # what leaves a relative error as it is


def with_tails(body: tuple[Stmt, ...], elements: Mapping[int, str]) -> tuple[Stmt, ...]:
    """The body with those sums in the other form. elements: of the group's fragments."""
    mentions = Mentions.of(body)
    changed: dict[int, Stmt] = {}
    for stmt in walk(body):
        if isinstance(stmt, Compute) and stmt.kind == "erf" and elements[stmt.result] == "f32":
            total = mentions.sum_with_one(stmt)
            if total is not None and mentions.is_rounded(total.result, elements):
                changed[id(stmt)] = replace(stmt, kind="neg")
                changed[id(total)] = replace(total, kind="erfc", operands=(Reg(stmt.result),))
    return tuple(_with(body, changed)) if changed else body


@dataclass(frozen=True)
class Mentions:
    """Statements by the fragments that they read or write; in_products: fragments of products."""

    of_fragment: Mapping[int, tuple[Stmt, ...]]
    in_products: frozenset[int]

    @classmethod
    def of(cls, body: tuple[Stmt, ...]) -> Mentions:
        """All of a body."""
        found: dict[int, tuple[Stmt, ...]] = {}
        products: set[int] = set()
        for stmt in walk(body):
            if isinstance(stmt, If | Pipeline | Fence | WaitGroups):
                continue
            if isinstance(stmt, Multiply):
                products |= {stmt.accumulator, *([stmt.a] if isinstance(stmt.a, int) else [])}
                continue
            for number in set(named(stmt)):
                found[number] = (*found.get(number, ()), stmt)
        return cls(found, frozenset(products))

    def readers(self, number: int) -> tuple[Compute, ...] | None:
        """What reads a fragment that one statement writes; None if that is not all that happens to it."""
        computes = [stmt for stmt in self.of_fragment[number] if isinstance(stmt, Compute)]
        writers = [stmt for stmt in computes if stmt.result == number]
        if len(computes) < len(self.of_fragment[number]) or len(writers) != 1 or number in self.in_products:
            return None
        return tuple(stmt for stmt in computes if stmt.result != number)

    def sum_with_one(self, erf: Compute) -> Compute | None:
        """The only reader of a result, if it adds 1 to it."""
        readers = self.readers(erf.result)
        if readers is None or len(readers) != 1 or readers[0].kind != "add":
            return None
        return readers[0] if any(_is_one(operand) for operand in readers[0].operands) else None

    def is_rounded(self, number: int, elements: Mapping[int, str]) -> bool:
        """Whether all that comes of a fragment are short floats with its relative error."""
        if elements[number] in SHORT:
            return True
        readers = self.readers(number)
        return bool(readers) and all(
            stmt.kind in KEEPING and elements[stmt.result] in ("f32", *SHORT) and self.is_rounded(stmt.result, elements)
            for stmt in readers or ()
        )


def _is_one(operand: Operand) -> bool:
    return isinstance(operand, Number) and operand.value == 1


def _with(stmts: tuple[Stmt, ...], changed: Mapping[int, Stmt]) -> Iterator[Stmt]:
    for stmt in stmts:
        yield with_blocks(changed.get(id(stmt), stmt), lambda block: _with(block, changed))
