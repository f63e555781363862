"""Which tiles a kernel may be tried with: the table `[specialization.tune]` of a sidecar, and what it means.

::

    [specialization.tune]
    tiles = { BLOCK_M = [128, 256], BLOCK_N = [128, 256] }         # constexprs, and the values to try
    blocks = { a_desc = ["BLOCK_M", "BLOCK_K"], b_desc = ["BLOCK_K", "BLOCK_N"] }

`blocks` says what the blocks of descriptors are in terms of constexprs, as expressions like those of the problem
table; a descriptor that is not named keeps the block of the signature.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.exc import MalformedSidecar
from twill.kernel.problem import evaluate
from twill.toml.table import Table

BLOCK = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True)
class Space:
    """The table as written. file, line: where it stands."""

    tiles: Mapping[str, tuple[int, ...]]
    blocks: Mapping[str, tuple[str, ...]]
    file: str = ""
    line: int = 0

    def points(self) -> Iterator[dict[str, int]]:
        """Every combination of values, in the order in which they are written."""
        for values in itertools.product(*self.tiles.values()):
            yield dict(zip(self.tiles, values, strict=True))

    def signature(self, types: Mapping[str, str], constants: Mapping[str, int | float]) -> dict[str, str]:
        """The types of the descriptors in `blocks`, with the blocks that go with these constants.

        types: of all arguments, as the specialization has them. Raises MalformedSidecar.
        """
        found = {}
        for name, block in self.blocks.items():
            if not types.get(name, "").startswith("tensordesc<"):
                raise self._wrong(f"blocks: {name} is no descriptor", "the name of a tensordesc argument")
            found[name] = BLOCK.sub(str([self._size(text, constants) for text in block]), types[name])
        return found

    def _size(self, text: str, constants: Mapping[str, int | float]) -> int:
        try:
            return int(evaluate(text, constants))
        except (ValueError, ArithmeticError) as error:
            raise self._wrong(f'blocks: "{text}": {error}', f"arithmetic over {', '.join(constants)}") from error

    def _wrong(self, message: str, hint: str) -> MalformedSidecar:
        return MalformedSidecar(f"tune: {message}", file=self.file, line=self.line, hint=hint)


def read_space(table: Table, constexprs: Mapping[str, object]) -> Space:
    """A tune table. constexprs: of its specialization. Raises MalformedSidecar and TOML errors."""
    tiles = table.table("tiles", "tiles = { BLOCK_M = [64, 128] }")
    blocks = table.table("blocks", 'blocks = { a_desc = ["BLOCK_M"] }') if table.has("blocks") else None
    space = Space(
        {name: _values(tiles, name, constexprs) for name in tiles.names()},
        {name: blocks.expressions(name, f'{name} = ["BLOCK_M"]') for name in blocks.names()} if blocks else {},
        table.text.file,
        table.line(),
    )
    table.finish()
    return space


def _values(table: Table, name: str, constexprs: Mapping[str, object]) -> tuple[int, ...]:
    given = table.data[name]
    values = tuple(value for value in given if type(value) is int and value > 0) if isinstance(given, list) else ()
    whole = isinstance(given, list) and values and len(values) == len(given)
    if name not in constexprs or not whole:
        what = f"{name} is no constexpr of it" if name not in constexprs else f"{name} has no list of whole numbers"
        raise MalformedSidecar(
            f"tune: {what}", file=table.text.file, line=table.line(name), hint=f"{name} = [64, 128], of a constexpr"
        )
    return values
