"""A rewrite of operations of Triton's IR, in blocks and in those of their regions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import count

from twill.tile.mlir import RawBlock, RawOp, RawValue, every


@dataclass
class RawRewriter:
    """One function. makers: the operation that gives each of its values. fresh: numbers that no value has."""

    function: Sequence[RawBlock]
    makers: dict[int, RawOp] = field(default_factory=dict)

    def __post_init__(self) -> None:
        operations = list(every(self.function))
        self.makers = {value.id: op for op in operations for value in op.results}
        within = (block for op in operations for region in op.regions for block in region)
        arguments = (value.id for block in (*self.function, *within) for value in block.arguments)
        self.fresh: Iterator[int] = count(max((*self.makers, *arguments), default=0) + 1)

    def rewritten(self) -> tuple[RawBlock, ...]:
        """The function's blocks."""
        return self.blocks(self.function)

    def blocks(self, blocks: Sequence[RawBlock]) -> tuple[RawBlock, ...]:
        """The blocks with their operations rewritten."""
        return tuple(
            replace(block, operations=tuple(new for op in block.operations for new in self.operation(op)))
            for block in blocks
        )

    def operation(self, op: RawOp) -> Sequence[RawOp]:
        """The operation, or what stands in its place."""
        raise NotImplementedError

    def like(self, value: RawValue) -> RawValue:
        """A new value of the same type."""
        return replace(value, id=next(self.fresh))
