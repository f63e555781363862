"""Loops over scalars that store where data says are one thread's: a `for` becomes a `while`, in Triton's IR.

::

    for i in range(first, last):                  # nothing but scalars
        expert = tl.load(ids + i)
        count = tl.load(counts + expert)          # of a tensor that the loop writes
        tl.store(sorted + count, i)               # an address that depends on it
        tl.store(counts + expert, count + 1)

Tiles' addresses and masks are made ahead of everything else, so that they depend on nothing that a loop changes but by
a fixed amount, or that the kernel writes. A loop like this one has no tiles, and waits for memory in every iteration
whoever does it: it is run by one thread (`twill.tile.translate.elected`), as Triton's programs run it by all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import MappingProxyType

from twill.tile.mlir import RawBlock, RawOp, RawValue, every
from twill.tile.program import TileType
from twill.tile.translate.counted_while import PREDICATES
from twill.tile.translate.raw_rewriter import RawRewriter

TRUTH = TileType((), "i1")
ELEMENTS = frozenset({"i32", "i64", "f32", "f64"})  # that one thread loads and stores for all
STEPS = frozenset({"arith.addi", "arith.subi"})


def elect_stores(blocks: Sequence[RawBlock]) -> tuple[RawBlock, ...]:
    """The blocks of a function in which each such `scf.for` that is in no other loop is an `scf.while`."""
    if not any(op.name == "scf.for" for op in every(blocks)):
        return tuple(blocks)
    return _Rewriter(blocks).rewritten()


class _Rewriter(RawRewriter):
    def operation(self, op: RawOp) -> tuple[RawOp]:
        """The operation, or the loop that it becomes."""
        if op.name == "scf.for" and self.stores_by_data(op):
            return (self.repeated(op),)
        if op.name == "scf.if":
            return (replace(op, regions=tuple(self.blocks(region) for region in op.regions)),)
        return (op,)

    def stores_by_data(self, loop: RawOp) -> bool:
        """Whether a loop has nothing but scalars, stores, and changes what its accesses or branches depend on."""
        inner = list(every(loop.regions[0]))
        stores = [op for op in inner if op.name == "tt.store"]
        loads = [op for op in inner if op.name == "tt.load"]
        if not stores or not all(map(self.is_scalar, inner)):
            return False
        written = {self.base(op.operands[0]) for op in stores}
        varying = {op.results[0].id for op in loads if self.base(op.operands[0]) in written}
        for one in (loop, *(op for op in inner if op.name == "scf.for")):
            varying |= self.changing(one)
        for op in inner:  # in order: what is made of those, and what a branch on them gives
            if varying.intersection(op.operands) or (op.name == "scf.if" and self.yields(op) & varying):
                varying |= {result.id for result in op.results}
        return any(varying.intersection(self.placing(op)) for op in inner)

    def is_scalar(self, op: RawOp) -> bool:
        """Whether one thread can do it."""
        tiles = any(value.type.shape or value.type.element.startswith("desc:") for value in op.results)
        known = not op.name.startswith(("tt.descriptor", "tt.call", "scf.while", "tt.atomic"))
        element = self.element(op)
        return known and not tiles and (element is None or element in ELEMENTS)

    def element(self, op: RawOp) -> str | None:
        """What an access loads or stores."""
        if op.name == "tt.load":
            return op.results[0].type.element
        if op.name == "tt.store":
            maker = self.makers.get(op.operands[0])
            kind = None if maker is None else next(v.type for v in maker.results if v.id == op.operands[0])
            return "f32" if kind is None else "" if kind.shape else kind.element.partition(":")[2]
        return None

    def base(self, pointer: int) -> int:
        """The pointer that one is made from."""
        op = self.makers.get(pointer)
        while op is not None and op.name in ("tt.addptr", "tt.bitcast"):
            pointer = op.operands[0]
            op = self.makers.get(pointer)
        return pointer

    def changing(self, loop: RawOp) -> set[int]:
        """What a loop carries and changes by more than a fixed amount."""
        block = loop.regions[0][0]
        inside = {value.id for op in every((block,)) for value in op.results} | {one.id for one in block.arguments}
        found = set()
        for argument, yielded in zip(block.arguments[1:], block.operations[-1].operands, strict=True):
            op = self.makers.get(yielded)
            fixed = op is not None and op.name in STEPS and op.operands[0] == argument.id
            if yielded != argument.id and not (fixed and op is not None and op.operands[1] not in inside):
                found.add(argument.id)
        return found

    def yields(self, op: RawOp) -> set[int]:
        """What the sides of a branch give."""
        return {value for region in op.regions for block in region for value in block.operations[-1].operands}

    def placing(self, op: RawOp) -> tuple[int, ...]:
        """The operands that say where, whether and how often something is done."""
        if op.name == "tt.store":
            return (op.operands[0], *op.operands[2:])
        if op.name == "tt.load":
            return op.operands[:2]
        return op.operands[:1] if op.name == "scf.if" else op.operands[:3] if op.name == "scf.for" else ()

    def repeated(self, loop: RawOp) -> RawOp:
        """`scf.for` as `scf.while`: it carries the counter, too; loops in it likewise."""
        lower, upper, step, *inits = loop.operands
        induction, *arguments = loop.regions[0][0].arguments
        body = tuple(map(self.inner, loop.regions[0][0].operations))
        entering = tuple(self.like(value) for value in (induction, *arguments))
        holds = RawValue(next(self.fresh), TRUTH, loop.line, "")
        compare = self.make("arith.cmpi", (entering[0].id, upper), (holds,), loop, predicate=PREDICATES.index("slt"))
        passed = tuple(value.id for value in entering)
        before = RawBlock(entering, (compare, self.make("scf.condition", (holds.id, *passed), (), loop)))
        following = self.like(induction)
        advance = self.make("arith.addi", (induction.id, step), (following,), loop)
        leave = replace(body[-1], operands=(following.id, *body[-1].operands))
        after = RawBlock((induction, *arguments), (*body[:-1], advance, leave))
        results = (self.like(induction), *loop.results)
        return RawOp(
            "scf.while", (lower, *inits), results, MappingProxyType({}), ((before,), (after,)), loop.line, loop.variable
        )

    def inner(self, op: RawOp) -> RawOp:
        """An operation of such a loop, its loops rewritten."""
        op = replace(op, regions=tuple(
            tuple(replace(block, operations=tuple(map(self.inner, block.operations))) for block in region)
            for region in op.regions
        ))  # fmt: skip
        return self.repeated(op) if op.name == "scf.for" else op

    def make(
        self, name: str, operands: tuple[int, ...], results: tuple[RawValue, ...], at: RawOp, **attributes: int
    ) -> RawOp:  # fmt: skip
        """A new operation."""
        return RawOp(name, operands, results, MappingProxyType(dict(attributes)), (), at.line, "")
