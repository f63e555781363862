"""Tile sizes that Triton cannot spell: those between powers of two.

The sides of Triton's tiles are powers of two; nothing else about a tile program asks for that. A kernel with a constant
of, say, 192 is read at powers of two instead. Where those programs differ in numbers alone, each an affine
function of the constant, the program at 192 has the functions' values there. Several such constants (192 rows, 80 keys)
are taken one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, is_dataclass, replace
from fractions import Fraction
from functools import cache, partial
from typing import Any

from twill.exc import KernelDoesNotCompile
from twill.forked import ForkedAnswer
from twill.kernel.specialization import Specialization
from twill.tile.program import TileProgram
from twill.tile.translate import translate

SAMPLES = (16, 32, 64, 128, 256, 512, 1024)
Known = dict[Specialization, TileProgram]
"""Programs that were read before, of files that have not changed since."""

ENOUGH = 3  # programs, which must all agree: two make a line, the others show that it is one
NEAREST = 4  # as many are asked for: each takes a compilation, and with several such constants each of them does


def tile_program(spec: Specialization, known: Known | None = None, processes: int = 1) -> TileProgram:
    """As `twill.tile.translate.translate.tile_program`, which it is for every kernel that Triton compiles.

    known: of whoever reads one kernel at several sizes, which may follow from the same powers of two. processes: that
    may work at it. Raises what that raises; `KernelDoesNotCompile` also where the sizes between powers of two cannot be
    derived.
    """
    known = {} if known is None else known
    if spec not in known:
        known[spec] = _read(spec, known, processes)
    return known[spec]


def _read(spec: Specialization, known: Known, processes: int) -> TileProgram:
    try:
        return translate.tile_program(spec)
    except KernelDoesNotCompile as refused:
        if "power of 2" not in str(refused):
            raise
        sizes = odd_sizes(spec)
        if not sizes:
            raise
        if processes > 1:
            read_ahead(spec, max(sizes), known, processes)
        return derived(spec, max(sizes), refused, known)


def read_ahead(spec: Specialization, size: int, known: Known, processes: int) -> None:
    """Reads the programs that the one at `size` is mostly derived from, every second one in a copy of this process."""
    wanted = [at(spec, size, sample) for sample in samples(spec, size)[:NEAREST]]
    with ForkedAnswer(partial(_read_all, wanted[1::2], known), processes) as others:
        _read_all(wanted[::2], known)
        known |= others.answer()


def _read_all(specs: Sequence[Specialization], known: Known) -> Known:
    """What is known behind reading those of `specs` that there are."""
    for spec in specs:
        with suppress(KernelDoesNotCompile):
            tile_program(spec, known)
    return known


def odd_sizes(spec: Specialization) -> set[int]:
    """Constants that are no powers of two."""
    numbers = {value for _, value in spec.constexprs if isinstance(value, int) and not isinstance(value, bool)}
    return {number for number in numbers if number > 0 and number & (number - 1)}


def derived(spec: Specialization, size: int, refused: KernelDoesNotCompile, known: Known) -> TileProgram:
    """The program at `size`, from those at powers of two. Raises `refused`'s like if they do not agree. known: as for
    `tile_program`.

    Where other constants are no powers of two either, each of those programs is derived in turn.
    """
    programs: dict[int, TileProgram] = {}
    for sample in samples(spec, size):
        if len(programs) == NEAREST and min(programs) < size < max(programs):
            break
        try:
            programs[sample] = tile_program(at(spec, size, sample), known)
        except KernelDoesNotCompile:
            continue  # a tile too large, or too small
    if len(programs) < ENOUGH or not min(programs) < size < max(programs):
        raise no_line(spec, size, refused, "Triton compiles it at too few of them")
    if len(set(map(outline, programs.values()))) > 1:
        raise no_line(spec, size, refused, "the kernel is another program at other sizes")
    found = [
        there[0] if there.count(there[0]) == len(there) else number_at(size, tuple(zip(programs, there, strict=True)))
        for there in zip(*map(numbers, programs.values()), strict=True)
    ]
    if None in found:
        raise no_line(spec, size, refused, "a number in the kernel is no affine function of it")
    made = filled(next(iter(programs.values())), iter(found))
    assert isinstance(made, TileProgram)
    return made


def samples(spec: Specialization, size: int) -> list[int]:
    """Powers of two that are no other constant of the kernel (Triton makes equal expressions one), nearest first."""
    known = {value for _, value in spec.constexprs}
    far = (sample for sample in SAMPLES if sample not in known)
    return sorted(far, key=lambda sample: max(sample, size) / min(sample, size))


def at(spec: Specialization, size: int, sample: int) -> Specialization:
    """The specialization with another number for a constant, also in the blocks of descriptors."""
    constexprs = tuple((name, sample if value == size else value) for name, value in spec.constexprs)
    signature = tuple(
        (name, re.sub(rf"(?<=[\[, ]){size}(?=[\], ])", str(sample), kind) if kind.startswith("tensordesc") else kind)
        for name, kind in spec.signature
    )
    return replace(spec, constexprs=constexprs, signature=signature)


def outline(node: Any) -> Any:
    """A program without its integers."""
    if isinstance(node, tuple):
        return tuple([outline(item) for item in node])
    if is_dataclass(node):
        kind: Any = node.__class__
        return kind, *[outline(getattr(node, name)) for name in names(kind)]
    return int if is_number(node) else node


def numbers(node: Any) -> list[int]:
    """The integers of a program, in the order of `outline`."""
    found: list[int] = []
    todo = [node]
    while todo:
        node = todo.pop()
        if isinstance(node, tuple):
            todo += reversed(node)
        elif is_dataclass(node):
            todo += [getattr(node, name) for name in reversed(names(node.__class__))]
        elif is_number(node):
            found.append(node)
    return found


@cache
def names(kind: type) -> tuple[str, ...]:
    """Of the fields of a dataclass."""
    return tuple(field.name for field in fields(kind))


def filled(node: Any, given: Iterator[int | None]) -> Any:
    """The program with other integers."""
    if isinstance(node, tuple):
        return tuple(filled(item, given) for item in node)
    if is_dataclass(node) and not isinstance(node, type):
        made: Mapping[str, Any] = {name: filled(getattr(node, name), given) for name in names(type(node))}
        return replace(node, **made)
    return next(given) if is_number(node) else node


def is_number(node: Any) -> bool:
    """Whether it is an integer (a bool is none)."""
    return isinstance(node, int) and not isinstance(node, bool)


def number_at(size: int, points: tuple[tuple[int, int], ...]) -> int | None:
    """Where the line through the points is at `size`; None if they are on no line, or it is at no integer there."""
    (first, low), (last, high) = points[0], points[-1]
    slope = Fraction(high - low, last - first)
    if any(low + slope * (sample - first) != number for sample, number in points):
        return None
    found = low + slope * (size - first)
    return int(found) if found.denominator == 1 else None


def no_line(spec: Specialization, size: int, refused: KernelDoesNotCompile, why: str) -> KernelDoesNotCompile:
    """The error that says what Triton does not spell and why it could not be derived."""
    return KernelDoesNotCompile(
        f"Triton cannot compile {spec.kernel} with {size}, and it does not follow from powers of two: {why}",
        file=spec.file,
        line=refused.line,
        hint="a power of two",
    )
