"""A product of 16-bit floats and the sum that it goes into are rounded once.

::

    m = a * b                                   r = fma(a, b, c)
    r = m + c                      becomes
    s = sum(m)                                  s = f16(sum(f32(a) * f32(b)))

Triton's compiler contracts so unless it is told not to (`enable_fp_fusion`), through `expand_dims`, `broadcast` and
`splat`, which move nothing between threads, and inside one basic block: of two products the one that less else reads,
or else the first. So these are the numbers that the kernel means. With each product rounded by itself they are further
from exact ones by a unit of 16-bit floats, and where sums cancel by all that is left. Sums of f32 are contracted by the
compiler of what is emitted.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from twill.tile.program import Items, Loop, Op, TileProgram, TileType
from twill.tile.rewrite.op_rewriter import OpRewriter
from twill.tile.vocabulary import MINUS

NARROW = ("f16", "bf16")
SPREADING = ("broadcast", "expand_dims", "splat")


@dataclass(frozen=True)
class Product:
    """a · b, and the views that spread it over what it is added to, the first one first."""

    made: Op
    views: tuple[Op, ...]


def contract(program: TileProgram) -> TileProgram:
    """The program with such sums; the same one if there are none, or may be none (strict, or without fp fusion)."""
    return program if program.strict or not program.fp_fusion else _Contractor(program).rewritten()


@dataclass
class _Contractor(OpRewriter):
    """here: the operations of the block that is written, by what they make."""

    here: dict[int, Op] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__post_init__()
        self.readers = Counter(operand for op in self.program.ops() for operand in op.operands)

    def loop(self, loop: Loop) -> Items:
        """The loop, whose body is another block."""
        around, self.here = self.here, {}
        made = super().loop(loop)
        self.here = around
        return made

    def instead(self, op: Op) -> list[Op]:
        """The operation with the product that it adds."""
        made = self.contracted(op)
        self.here |= dict.fromkeys(op.results, op)
        return [*self.write.made, made]

    def contracted(self, op: Op) -> Op:
        """The operation, or what it is with a product."""
        kind = self.program.type_of(op.results[0]) if len(op.results) == 1 else None
        if kind is None or kind.element not in NARROW:
            return op
        if op.kind in ("add", "sub"):
            return self.sum(op)
        if op.kind == "reduce" and op.attribute("combine") == "add" and len(op.operands) == 1:
            return self.reduction(op, kind)
        return op

    def sum(self, op: Op) -> Op:
        """fma(a, b, c) for a · b + c; where one of the two is subtracted, it says so."""
        found = [(self.product(operand), side) for side, operand in enumerate(op.operands)]
        products = [(product, side) for product, side in found if product is not None]
        if not products:
            return op
        product, side = min(products, key=lambda one: self.readers[op.operands[one[1]]])
        made = product.made.operands
        factors = {factor: self.write.spread(factor, product.views, op) for factor in dict.fromkeys(made)}
        a, b = (factors[factor] for factor in made)
        attributes = () if op.kind == "add" else ((MINUS, "product" if side else "summand"),)
        return replace(op, kind="fma", operands=(a, b, op.operands[1 - side]), attributes=attributes)

    def reduction(self, op: Op, kind: TileType) -> Op:
        """A sum of products, which are exact in f32."""
        made = self.here.get(op.operands[0])
        if made is None or not self.is_product(made) or self.readers[op.operands[0]] > 1:
            return op
        wide = TileType(self.program.type_of(op.operands[0]).shape, "f32")
        factors = {
            factor: self.write.op("cast", (factor,), wide, op.line, op.name) for factor in dict.fromkeys(made.operands)
        }
        a, b = (factors[factor] for factor in made.operands)
        product = self.write.op("mul", (a, b), wide, op.line, op.name)
        total = self.write.op(
            "reduce", (product,), TileType(kind.shape, "f32"), op.line, op.name, **dict(op.attributes)
        )
        return Op(op.id, "cast", (total,), op.results, (), op.line, op.name)

    def product(self, value: int) -> Product | None:
        """The product of this block that a value is, or is spread from."""
        views: list[Op] = []
        while (made := self.here.get(value)) is not None and made.kind in SPREADING:
            views.insert(0, made)
            value = made.operands[0]
        return Product(made, tuple(views)) if made is not None and self.is_product(made) else None

    def is_product(self, op: Op) -> bool:
        """Whether an operation multiplies 16-bit floats, and says nothing else."""
        return op.kind == "mul" and not op.attributes and self.program.type_of(op.results[0]).element in NARROW
