"""New operations for a tile program that is being rewritten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from twill.tile.affine import Polynomial
from twill.tile.program import Attribute, Op, TileProgram, TileType, Value
from twill.tile.written import written

I32 = TileType((), "i32")


@dataclass
class OpWriter:
    """Numbers values and operations past those of `program`. made: the operations written, in order; a caller may
    begin a new list. makers: the operation that makes a value, old and new."""

    program: TileProgram
    values: list[Value] = field(default_factory=list)
    made: list[Op] = field(default_factory=list)
    makers: dict[int, Op] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.values = list(self.program.values)
        self.makers = dict(self.program.makers)
        # Loops are numbered among operations, and there are no more of both than values and operations.
        self.number = len(self.values) + max((op.id for op in self.program.ops()), default=0)

    def op(
        self, kind: str, operands: tuple[int, ...], result: TileType, line: int, name: str = "",
        **attributes: Attribute,
    ) -> int:  # fmt: skip
        """A new operation; its result."""
        made = len(self.values)
        self.values.append(Value(made, result, name, line))
        self.made.append(Op(self.fresh(), kind, operands, (made,), tuple(attributes.items()), line, name))
        self.makers[made] = self.made[-1]
        return made

    def spread(self, value: int, views: Sequence[Op], like: Op) -> int:
        """A value seen as `views` show another one, the first one first, with the line and name of `like`."""
        for view in views:
            kind = self.values[view.results[0]].type
            value = self.op(view.kind, (value,), kind, like.line, like.name, **dict(view.attributes))
        return value

    def value_like(self, value: int) -> int:
        """A new value of the type, name and line of another one, which the caller makes."""
        self.values.append(replace(self.values[value], id=len(self.values)))
        return len(self.values) - 1

    def fresh(self) -> int:
        """The id of a new operation."""
        self.number += 1
        return self.number

    def polynomial(self, polynomial: Polynomial, line: int) -> int:
        """The value of a polynomial over i32 scalars."""

        def write(kind: str, operands: tuple[int, ...], attributes: Mapping[str, int]) -> int:
            return self.op(kind, operands, I32, line, "", **attributes)

        return written(polynomial, write)
