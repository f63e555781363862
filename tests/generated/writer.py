"""The text of a kernel while it is being written, and what is known of each of its tiles."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from tests.generated.values import Kind

INDENT = "    "


@dataclass(frozen=True)
class Tile:
    """A variable of the kernel. exact: both interpreters give the same bits. data: where its values come from, "made"
    if computed. loaded: straight from memory, so that a NaN has the bits that it was given."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    exact: bool = True
    data: str = "made"
    loaded: bool = False


@dataclass(frozen=True)
class Input:
    """An array that a kernel reads."""

    dtype: str
    kind: Kind
    size: int


@dataclass(frozen=True)
class Output:
    """An array that a kernel writes. ulps: how far floats may be apart (0: the same); scale: of sums, how many epsilons
    of the type, 0 if it is none."""

    dtype: str
    size: int
    ulps: int = 0
    scale: float = 0.0


@dataclass(frozen=True)
class Program:
    """A kernel `k` and its arguments. before: what stands in front of it in its source, as in that of all others.
    scalars: name -> (type, value). made: (operation, dtype) of what it computes."""

    before: str
    source: str
    inputs: dict[str, Input]
    outputs: dict[str, Output]
    scalars: dict[str, tuple[str, int | float]]
    grid: tuple[int, ...]
    made: tuple[tuple[str, str], ...]

    @property
    def signature(self) -> dict[str, str]:
        """Triton's type of every argument, in order."""
        arrays: dict[str, Input | Output] = {**self.inputs, **self.outputs}
        return {
            **{name: f"*{array.dtype}" for name, array in arrays.items()},
            **{name: kind for name, (kind, _) in self.scalars.items()},
        }


@dataclass
class Writer:
    """Collects lines, arguments and tiles."""

    lines: list[str] = field(default_factory=list)
    inputs: dict[str, Input] = field(default_factory=dict)
    outputs: dict[str, Output] = field(default_factory=dict)
    scalars: dict[str, tuple[str, int | float]] = field(default_factory=dict)
    tiles: list[Tile] = field(default_factory=list)
    made: Counter[tuple[str, str]] = field(default_factory=Counter)
    indices: dict[tuple[int, ...], str] = field(default_factory=dict)
    indent: str = INDENT
    number: int = 0

    def name(self, letter: str) -> str:
        """A new name."""
        self.number += 1
        return f"{letter}{self.number}"

    def line(self, text: str) -> None:
        """A line of the kernel, at the present depth."""
        self.lines.append(self.indent + text)

    def let(self, text: str, dtype: str, shape: tuple[int, ...], operation: str = "", **known: bool | str) -> Tile:
        """A new variable of this value. operation: what it is counted as."""
        tile = Tile(self.name("v"), dtype, shape, **known)  # type: ignore[arg-type]
        self.line(f"{tile.name} = {text}")
        self.tiles.append(tile)
        if operation:
            self.made[operation, dtype] += 1
        return tile

    def index(self, shape: tuple[int, ...]) -> str:
        """The variable that numbers the elements of a tile row by row."""
        if shape not in self.indices:
            self.indices[shape] = name = "i" + "x".join(map(str, shape))
            self.lines.insert(0, f"{INDENT}{name} = {_numbering(shape)}")
        return self.indices[shape]

    def load(self, dtype: str, kind: Kind, shape: tuple[int, ...], size: int, text: str = "") -> Tile:
        """A tile of an array of its own. text: the arguments of the load behind the pointer."""
        array = self.name("x")
        self.inputs[array] = Input(dtype, kind, size)
        tile = self.let(f"tl.load({array} + {self.index(shape)}{text})", dtype, shape, "load", data=kind, loaded=True)
        return tile

    def store(self, tile: Tile, ulps: int = 0, scale: float = 0.0) -> None:
        """The tile goes to an array of its own."""
        array = self.name("y")
        size = 1
        for extent in tile.shape:
            size *= extent
        self.outputs[array] = Output(tile.dtype, size, ulps, scale)
        where = f"{array} + {self.index(tile.shape)}" if tile.shape else array
        self.line(f"tl.store({where}, {tile.name})")

    def program(self, helpers: str, grid: tuple[int, ...] = (1,)) -> Program:
        """The kernel, its arguments in the order inputs, outputs, scalars."""
        names = ", ".join([*self.inputs, *self.outputs, *self.scalars])
        before = f"import triton\nimport triton.language as tl\n\n\n{helpers}"
        source = f"{before}@triton.jit\ndef k({names}):\n" + "\n".join(self.lines) + "\n"
        made = tuple(self.made)
        return Program(before, source, dict(self.inputs), dict(self.outputs), dict(self.scalars), grid, made)


def _numbering(shape: tuple[int, ...]) -> str:
    if len(shape) == 1:
        return f"tl.arange(0, {shape[0]})"
    rows, columns = shape
    return f"tl.arange(0, {rows})[:, None] * {columns} + tl.arange(0, {columns})[None, :]"


def tainted(tile: Tile) -> Tile:
    """The tile, known to be equal within an error only."""
    return replace(tile, exact=False)
