"""Launches that were seen -> specializations as a sidecar has them: types, constants, promises, grid and sizes.

Every integer argument is a size. A dimension of a tensor or a count of the grid is said by sizes where they fit all
launches of the specialization (`M`, `cdiv(M, BLOCK_M)`, a product of two such), else as the number that it was; a
dimension that was not always the same and fits nothing is a size of its own.
"""

from __future__ import annotations

import hashlib
import itertools
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.kernel.problem import evaluate
from twill.kernel.recorded_tables import LookedUp, TableTexts, table_texts
from twill.kernel.sidecar import Constant, SidecarTable

MOST_SIZES = 8  # launches of one specialization that are written down, those of the most calls
TELLING = 16  # an equality of two numbers that are not greater is more often chance than sense
DIVISOR = 16


@dataclass(frozen=True)
class RecordedVariant:
    """What Triton compiles one kernel for. Tuples of pairs are in the order of the parameters."""

    kernel: str
    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Constant], ...]
    divisible: tuple[str, ...]
    fp_fusion: bool = True

    def types(self) -> dict[str, str]:
        """The signature with its promises, as a sidecar has it."""
        hinted = {name: f"{kind}:16" if name in self.divisible else kind for name, kind in self.signature}
        return {name: kind if kind.startswith("tensordesc") else hinted[name] for name, kind in self.signature}

    def name(self) -> str:
        """The same for the same variant, and hardly ever for another."""
        parts = (self.kernel, self.signature, [(n, repr(v)) for n, v in self.constants], self.divisible, self.fp_fusion)
        first = next((kind for _, kind in self.signature if kind.startswith(("*", "tensordesc"))), "launch")
        element = first.removeprefix("tensordesc<").lstrip("*").split("[")[0]
        return f"{element}-{hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:6]}"

    def is_in(self, tables: Iterable[SidecarTable]) -> bool:
        """Whether one of the tables of a sidecar says the same."""
        constants = {name: repr(value) for name, value in self.constants}
        return any(
            table.kernel in ("", self.kernel)
            and table.signature == self.types()
            and {name: repr(value) for name, value in table.constexprs.items()} == constants
            and table.fp_fusion in (None, self.fp_fusion)
            for table in tables
        )


@dataclass(frozen=True)
class Sizes:
    """What one launch of a variant was called with. shapes: of tensors in memory, row-major. looked_up: the numbers in
    its integer tensors, if some of them are addresses."""

    grid: tuple[int, ...]
    whole: tuple[tuple[str, int], ...]
    floats: tuple[tuple[str, float], ...]
    shapes: tuple[tuple[str, tuple[int, ...]], ...]
    looked_up: LookedUp | None = None


def memory_shape(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    """The row-major shape of the memory that a tensor covers: its dimensions from the largest stride to the smallest if
    there are no gaps, else one dimension over everything. In elements."""
    if 0 in shape:
        return tuple(shape)
    order = sorted(range(len(shape)), key=lambda axis: (-strides[axis], axis))
    expected = 1
    for axis in reversed(order):
        if shape[axis] != 1 and strides[axis] != expected:
            return (1 + sum((size - 1) * abs(stride) for size, stride in zip(shape, strides, strict=True)),)
        expected *= shape[axis]
    return tuple(shape[axis] for axis in order) if shape else (1,)


def table_text(variant: RecordedVariant, launches: Mapping[Sizes, int], *, default: bool) -> str:
    """One `[[specialization]]`, as text. launches: how often each was seen."""
    retained = _of_one_rank(launches)
    names = _Names(variant, retained)
    axes = range(len(next(iter(retained)).grid))
    grid = [names.expression([sizes.grid[axis] for sizes in retained]) for axis in axes]
    if None in grid:  # no expression fits: the grid that was used most stays a number, with its launches
        common = Counter[tuple[int, ...]]()
        for sizes, count in retained.items():
            common[sizes.grid] += count
        chosen = common.most_common(1)[0][0]
        return table_text(variant, {one: n for one, n in launches.items() if one.grid == chosen}, default=default)
    tables = names.tables()
    tensors = {name: names.shape(name) for name, _ in next(iter(retained)).shapes if name not in tables.shapes}
    tensors |= {name: [shape] for name, shape in tables.shapes.items()}
    times = sum(launches.values())
    lines = [
        "[[specialization]]",
        f"# launches seen: {times}, choices of sizes: {len(launches)}",
        f"name = {_text(variant.name())}",
        *(["default = true"] if default else []),
        f"kernel = {_text(variant.kernel)}",
        f"grid = {_list(str(count) for count in grid)}",
        *([] if variant.fp_fusion else ["enable_fp_fusion = false"]),
        "",
        "[specialization.signature]",
        *(f"{name} = {_text(kind)}" for name, kind in variant.types().items()),
        "",
        "[specialization.constexprs]",
        *(f"{name} = {_constant(value)}" for name, value in variant.constants),
        "",
        "[specialization.problem]",
        f"units = {_table((name, str(names.unit(name))) for name in names.sizes)}",
        f"tensors = {_table((name, _list(shape)) for name, shape in tensors.items())}",
    ]
    if tables.tables:
        lines.append(f"tables = {_table((name, _list(of)) for name, of in tables.tables.items())}")
    floats = next(iter(retained)).floats
    if floats:
        lines.append(f"scalars = {_table((name, _constant(value)) for name, value in floats)}")
    rows = [_table((name, str(names.sizes[name][at])) for name in names.sizes) for at in range(len(retained))]
    rows = list(dict.fromkeys(rows))
    lines.append(f"run = [{', '.join(rows)}]")
    lines.append(f"bench = [{rows[0]}]")
    return "\n".join(lines) + "\n"


def _of_one_rank(launches: Mapping[Sizes, int]) -> dict[Sizes, int]:
    """The launches of the most calls whose grids and tensors have as many dimensions as those of the first, and which
    look the same numbers up."""

    def rank(sizes: Sizes) -> object:
        return len(sizes.grid), tuple((name, len(shape)) for name, shape in sizes.shapes), sizes.looked_up

    ordered = sorted(launches, key=lambda sizes: -launches[sizes])
    return {sizes: launches[sizes] for sizes in ordered if rank(sizes) == rank(ordered[0])}


class _Names:
    """The sizes of a specialization, and what is said by them. sizes: the value of each at every launch."""

    def __init__(self, variant: RecordedVariant, retained: dict[Sizes, int]) -> None:
        for surplus in list(retained)[MOST_SIZES:]:
            del retained[surplus]
        self.variant = variant
        self.retained = list(retained)
        self.sizes = {name: [dict(one.whole)[name] for one in self.retained] for name, _ in self.retained[0].whole}
        self.units: dict[str, int] = {}  # of sizes that tables have

    def tables(self) -> TableTexts:
        """The numbers that are looked up; their sizes are sizes of the specialization from now on."""
        found = self.retained[0].looked_up
        if found is None:
            return TableTexts({}, {}, {}, {})
        blocks = [value for _, value in self.variant.constants if type(value) is int and value > 1]
        fixed = {name: values[0] for name, values in self.sizes.items() if len({*values}) == 1}
        made = table_texts(found, fixed, blocks)
        self.sizes |= {name: [value] * len(self.retained) for name, value in made.sizes.items()}
        self.units |= made.units
        return made

    def unit(self, name: str) -> int:
        """Of what all values of a size are multiples, as far as Triton was told."""
        if name in self.units:
            return self.units[name]
        if name in self.variant.divisible:
            return DIVISOR
        own = name not in dict(self.retained[0].whole)
        return DIVISOR if own and all(value % DIVISOR == 0 for value in self.sizes[name]) else 1

    def shape(self, name: str) -> list[str]:
        """The dimensions of a tensor, as expressions."""
        shapes = [dict(one.shapes)[name] for one in self.retained]
        return [self.dimension(name, axis, [shape[axis] for shape in shapes]) for axis in range(len(shapes[0]))]

    def dimension(self, name: str, axis: int, values: list[int]) -> str:
        """One dimension; if nothing says it, a new size does."""
        found = self.expression(values)
        if found is None:
            found = f"{name}_{axis}"
            self.sizes[found] = values
        return found

    def expression(self, values: list[int]) -> str | None:
        """What has these values at the launches: sizes, or the number that they all are; None if nothing says it."""
        constant = str(values[0]) if len(set(values)) == 1 else None
        if constant is not None and values[0] <= TELLING:
            return constant
        for text in self.candidates():
            if all(self.value(text, at) == value for at, value in enumerate(values)):
                return text
        return constant

    def candidates(self) -> Iterator[str]:
        """Expressions over sizes and constants, simple ones first."""
        blocks = [name for name, value in self.variant.constants if type(value) is int and value > 1]
        simple = [name for name, values in self.sizes.items() if max(values) > 1]
        simple.sort(key=lambda name: "stride" in name)
        simple += [f"cdiv({name}, {block})" for name in simple for block in blocks]
        yield from simple
        for one, other in itertools.combinations(simple, 2):
            yield f"{one} * {other}"

    def value(self, text: str, at: int) -> float:
        """Of an expression, at one launch."""
        constants = {name: value for name, value in self.variant.constants if type(value) is int}
        return evaluate(text, {**constants, **{name: values[at] for name, values in self.sizes.items()}})


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=False)


def _constant(value: Constant) -> str:
    """As TOML has it; it has no word for None."""
    if value is None:
        return '"None"'
    if isinstance(value, bool):
        return "true" if value else "false"
    return _text(value) if isinstance(value, str) else repr(value)


def _list(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _table(entries: Iterable[tuple[str, str]]) -> str:
    keys = ((name if name.isidentifier() else _text(name), value) for name, value in entries)
    inside = ", ".join(f"{name} = {value}" for name, value in keys)
    return f"{{ {inside} }}" if inside else "{}"
