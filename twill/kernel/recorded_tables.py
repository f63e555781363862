"""Numbers in tensors that a kernel looks up, as `tables` of a sidecar: addresses, sizes and strides of many tensors.

What was recorded are numbers; what a sidecar says is how they belong together, so that a kernel can be checked at other
sizes. Equal numbers are taken to be one size (a matrix of K columns whose rows are K apart), small ones for what they
are; a vector as long as the product of two numbers that stand beside its address is a matrix of these. An address
becomes the place of its tensor behind those that stand before it in the table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

SMALL = 16  # an equality of numbers up to this is more often chance than sense
DIVISOR = 16


@dataclass(frozen=True)
class PointedAt:
    """What the addresses in a tensor point to. bytes: of an element. shapes: row-major, one for each address."""

    bytes: int
    shapes: tuple[tuple[int, ...], ...]


@dataclass(frozen=True)
class LookedUp:
    """Integer tensors of one launch in which addresses were found, by argument. numbers: of the others. addresses: of
    those that are addresses."""

    numbers: tuple[tuple[str, tuple[int, ...]], ...]
    addresses: tuple[tuple[str, PointedAt], ...]


@dataclass(frozen=True)
class TableTexts:
    """What a sidecar says of them. sizes: further ones, each with its value. units: of what each is a multiple. shapes:
    of these tensors and of what they point to. tables: as in the sidecar."""

    sizes: Mapping[str, int]
    units: Mapping[str, int]
    shapes: Mapping[str, str]
    tables: Mapping[str, tuple[str, ...]]


def table_texts(found: LookedUp, counts: Mapping[str, int], blocks: Iterable[int]) -> TableTexts:
    """The sizes, shapes and tables of what was looked up. counts: integer arguments, of which one may say how many rows
    the tensors have. blocks: constants of the kernel, of which sizes may have to be multiples."""
    found = replace(found, addresses=tuple((name, as_matrices(of, found.numbers)) for name, of in found.addresses))
    pointed = {name: shape for name, of in found.addresses for shape in (of.shapes,)}
    values = {number for _, numbers in found.numbers for number in numbers}
    values |= {extent for shapes in pointed.values() for shape in shapes for extent in shape}
    sizes = {f"n{value}": value for value in sorted(values) if value > SMALL}
    units = {name: unit_of(value, blocks) for name, value in sizes.items()}
    tables: dict[str, tuple[str, ...]] = {}
    shapes: dict[str, str] = {}
    for name, numbers in found.numbers:
        tables[name], shapes[name] = tuple(map(said, numbers)), length_of(len(numbers), counts)
    for name, of in found.addresses:
        rows = len(of.shapes)
        shapes[name] = length_of(rows, counts)
        tables[name] = tuple(places(of))
        again = f"cdiv({shapes[name]}, {rows})" if shapes[name] in counts and rows > 1 else "1"
        whole = " + ".join(map(elements, of.shapes))
        shapes[f"{name}.pointee"] = f"({whole})" if again == "1" else f"{again} * ({whole})"
    return TableTexts(sizes, units, shapes, tables)


def as_matrices(of: PointedAt, numbers: Iterable[tuple[str, tuple[int, ...]]]) -> PointedAt:
    """Vectors whose lengths are products of two numbers in their rows of the tables, the same two in every row: as
    matrices. Others stay as they are."""
    if any(len(shape) != 1 for shape in of.shapes):
        return of
    rows = len(of.shapes)
    columns = [
        [table[row * width + column] for row in range(rows)]
        for _, table in numbers
        if len(table) % rows == 0
        for width in (len(table) // rows,)
        for column in range(width)
    ]
    lengths = [shape[0] for shape in of.shapes]
    if lengths in columns:
        return of
    for one, other in itertools.combinations_with_replacement(columns, 2):
        sides = tuple(zip(one, other, strict=True))
        if [a * b for a, b in sides] == lengths:
            return replace(of, shapes=sides)
    return of


def unit_of(value: int, blocks: Iterable[int]) -> int:
    """Of what a size is a multiple: the longest block that divides it (a power of two, as tiles are), else what 16 and
    it have in common."""
    tiles = (block for block in blocks if block & block - 1 == 0 and value % block == 0)
    return max((math.gcd(value, DIVISOR), *tiles))


def said(number: int) -> str:
    """A number, by its size."""
    return f"n{number}" if number > SMALL else str(number)


def elements(shape: tuple[int, ...]) -> str:
    """How many elements a tensor has."""
    return " * ".join(map(said, shape)) or "1"


def places(of: PointedAt) -> Iterator[str]:
    """Bytes from the first tensor to each; from all of them to those of the next round."""
    whole = " + ".join(map(elements, of.shapes))
    for number in range(len(of.shapes)):
        before = [f"row * ({whole})", *(elements(shape) for shape in of.shapes[:number])]
        yield f"({' + '.join(before)}) * {of.bytes}"


def length_of(length: int, counts: Mapping[str, int]) -> str:
    """The length of a tensor: that of rows of which an argument says how many there are, or a number."""
    for name, count in counts.items():
        if count > 1 and length % count == 0 and length // count <= SMALL:
            return name if length == count else f"{name} * {length // count}"
    return str(length)
