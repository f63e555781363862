"""The tile program: one specialized kernel as tile operations, with nothing about hardware.

Grammar::

    TileProgram ::= kernel spec file fp_fusion Argument* Item*
    Item        ::= Op | Loop
    Loop        ::= induction lower upper step Carry* Item*        (a counted loop)
    Carry       ::= init argument yielded result                   (a loop-carried value)
    Op          ::= kind operand* result* attribute* access? line name
    Access      ::= base Axis* Index* pad transport                (a tile access)
    Axis        ::= extent stride offset lower upper               (one axis of the tile)
    Index       ::= axes scale                                     (a computed or loaded part of the address)

Values are numbered (SSA); scalars are tiles of shape (). Operation kinds are a closed
vocabulary, `twill.tile.vocabulary`. The program is complete: running its operations in order
computes what the kernel computes, for every grid index and any argument.

`translate` makes it from Triton's IR with raw accesses ("load", "descriptor_load", ... over
pointers); the pass `twill.tile.access.resolve` replaces those by "tile_load", "tile_store" and
"tile_reduce" with an `Access`, whatever the spelling was, and drops the address arithmetic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from twill.manifest.tile_loop import TileLoop
from twill.tile.affine import Polynomial

if TYPE_CHECKING:
    from twill.tile.scalar_region import ScalarRegion


@dataclass(frozen=True)
class TileType:
    """Shape (() for a scalar) and element type: f32 f16 bf16 f8e4m3 f8e5m2 f64 i1 i8 i16 i32
    i64, or "ptr:f16" (pointer to f16), "desc:f16" (tensor descriptor; shape is its block)."""

    shape: tuple[int, ...]
    element: str


@dataclass(frozen=True)
class Value:
    """An SSA value; `name` is the kernel's variable if known, else ""."""

    id: int
    type: TileType
    name: str
    line: int


@dataclass(frozen=True)
class Axis:
    """One axis of a tile access: index i in [0, extent) addresses element
    `offset + i` of an axis of the tensor whose elements are `stride` apart (in elements).

    Indices outside [lower, upper) are masked; None: no bound on that side.
    Polynomials range over scalar values (arguments, grid indices, induction variables).
    """

    extent: int
    stride: Polynomial
    offset: Polynomial
    lower: Polynomial | None = None
    upper: Polynomial | None = None


@dataclass(frozen=True)
class Index:
    """A tile of integers that is part of an address: `scale` elements times the integer. The tile is an operand of the
    access; its axis a is axis `axes[a]` of the access, and it is the same along the others.

    Rows that a tile of row numbers picks: axes (0,), scale the distance between rows.
    """

    axes: tuple[int, ...]
    scale: Polynomial


@dataclass(frozen=True)
class Access:
    """A tile of a tensor in global memory. base: the argument's name (a pointer or descriptor).

    Axes are in the order of the tile's shape. Element (i, j, ...) is at
    base + constant + Σ stride·(offset + i) + Σ scale·index[i, j, ...]. pad: what masked elements read as. indices: one
    for each operand of the operation behind the tile that it stores, before the mask; () if the address is affine.
    transport: "tma" if strides, alignment and bounds allow a tensor map, "copy" if 16-byte
    asynchronous copies do, "plain" otherwise, with the reason it is not "tma". made: a launch does not know the tensor
    map of "tma"; the kernel makes it, and makes it anew where it is another one.
    """

    base: str
    element: str
    axes: tuple[Axis, ...]
    constant: Polynomial
    pad: float
    transport: str
    transport_reason: str
    indices: tuple[Index, ...] = ()
    made: bool = False


Attribute = int | float | str | tuple[int, ...]


@dataclass(frozen=True)
class Op:
    """One tile (or scalar) operation. attributes: name -> int, float, str or tuple of ints. region: of a loop over
    scalars, which is one operation (`twill.tile.scalar_region`)."""

    id: int
    kind: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attributes: tuple[tuple[str, Attribute], ...]
    line: int
    name: str
    access: Access | None = None
    region: ScalarRegion | None = None

    def attribute(self, name: str) -> Attribute:
        """The attribute `name`; KeyError if the operation has none."""
        return dict(self.attributes)[name]

    @property
    def index_operands(self) -> tuple[int, ...]:
        """The positions of the operands that are indices of the access, in their order."""
        first = 0 if self.kind == "tile_load" else 1
        return tuple(range(first, first + len(self.access.indices))) if self.access is not None else ()

    @property
    def mask_operand(self) -> int | None:
        """The position of the operand that is the mask of the access; None if it has none."""
        behind = (0 if self.kind == "tile_load" else 1) + (len(self.access.indices) if self.access is not None else 0)
        return behind if self.access is not None and behind < len(self.operands) else None


@dataclass(frozen=True)
class Carry:
    """A loop-carried value: enters as `init`, is `argument` inside, `yielded` replaces it for
    the next iteration, and it leaves the loop as `result` (all value ids)."""

    name: str
    init: int
    argument: int
    yielded: int
    result: int


@dataclass(frozen=True)
class Loop:
    """`for induction in range(lower, upper, step)`; the bounds are scalar value ids."""

    id: int
    induction: int
    lower: int
    upper: int
    step: int
    carried: tuple[Carry, ...]
    body: tuple[Op | Loop, ...]
    line: int


POINTEE = ".pointee"


@dataclass(frozen=True)
class Argument:
    """A runtime argument. divisibility: the integer (or address) is a multiple of it (1: unknown). positive: the float
    is from 2^-32 to 2^32."""

    name: str
    value: int
    type: TileType
    divisibility: int
    positive: bool = False

    @property
    def is_pointee(self) -> bool:
        """Whether it is no argument of the kernel, but the memory that numbers are addresses of: `ptrs.pointee` is what
        the numbers in the tensor `ptrs` point to (or the number `ptrs` itself). It begins at address 0; a number n
        points to element n / (bytes of an element). What is reached through one tensor of addresses is taken to be
        apart from what is reached otherwise, as tensors of different arguments are."""
        return self.name.endswith(POINTEE)


@dataclass(frozen=True)
class Split:
    """Along which axis of the launch grid, behind those that the kernel has, program instances are parts of one sum,
    and into how many parts a launch splits it."""

    axis: int
    parts: int


@dataclass(frozen=True)
class TileProgram:
    """See the grammar at the top of this file. original: the program that this one was made of by a rewriting that
    must not change what it computes; None: it is as the kernel has it. fp_fusion: a product of floats and the sum that
    it goes into may be rounded once, as one fma (Triton's option `enable_fp_fusion`). strict: nothing that is made of
    the program may round anything otherwise or elsewhere than it says (`twill.codegen.numerics`). regrouped: lines of
    the kernel where factors and summands were collected (`twill.tile.rewrite.uniform_factors`). tiles: the loop over
    tiles that the kernel has around it; they are the program instances here (`twill.tile.tile_instances`). split: how
    its instances are split (`twill.tile.rewrite.split_k`). walk: a program of scalars and loops that says with which
    numbers each program of the launch grid does this one's work, one after the other (`twill.tile.walks`); None: once
    each."""

    kernel: str
    spec: str
    file: str
    arguments: tuple[Argument, ...]
    values: tuple[Value, ...]  # values[i].id == i
    body: tuple[Op | Loop, ...]
    original: TileProgram | None = None
    fp_fusion: bool = True
    strict: bool = False
    regrouped: tuple[int, ...] = ()
    tiles: TileLoop | None = None
    split: Split | None = None
    walk: TileProgram | None = None

    def type_of(self, value: int) -> TileType:
        """The type of a value."""
        return self.values[value].type

    def ops(self) -> Iterator[Op]:
        """Every operation, loops' bodies included, in program order."""
        return walk(self.body)

    def with_ops(self, change: Callable[[Op], Op]) -> TileProgram:
        """The program with every operation changed, in loops and out of them."""

        def changed(items: Items) -> Items:
            return tuple(change(i) if isinstance(i, Op) else replace(i, body=changed(i.body)) for i in items)

        return replace(self, body=changed(self.body))

    @cached_property
    def makers(self) -> dict[int, Op]:
        """The operation that makes each value, of those that one makes."""
        return {result: op for op in self.ops() for result in op.results}

    @cached_property
    def scalar_ops(self) -> frozenset[int]:
        """Those with scalars for operands and results, by their id."""
        shapes = {op.id: [self.type_of(value).shape for value in (*op.operands, *op.results)] for op in self.ops()}
        return frozenset(number for number, found in shapes.items() if not any(found))

    @cached_property
    def accesses(self) -> tuple[tuple[Op, Access], ...]:
        """Every operation that accesses a tile of a tensor, with its access, in program order."""
        return tuple((op, op.access) for op in self.ops() if op.access is not None)

    @cached_property
    def outline(self) -> tuple[Op | Loop, ...]:
        """The body without what is computed of tiles: scalars, accesses, and the loops that they are in."""
        return _outline(self.body, self.scalar_ops)

    @cached_property
    def trips_outline(self) -> tuple[Op | Loop, ...]:
        """What the bounds of the loops that are in no other depend on, with these loops, empty; and integer divisions,
        which may be by 0."""
        needed: set[int] = set()
        retained: list[Op | Loop] = []
        for item in reversed(self.outline):
            if isinstance(item, Loop):
                needed.update((item.lower, item.upper, item.step))
                retained.append(replace(item, body=()))
            elif not needed.isdisjoint(item.results) or self._divides(item):
                needed.update(reads(item))
                retained.append(item)
        return tuple(reversed(retained))

    def _divides(self, op: Op) -> bool:
        """Whether it divides integers."""
        return op.kind in ("div", "rem") and self.type_of(op.results[0]).element.startswith("i")


def _outline(items: tuple[Op | Loop, ...], scalars: frozenset[int]) -> tuple[Op | Loop, ...]:
    """The items without operations on tiles that access nothing."""
    return tuple(
        replace(item, body=_outline(item.body, scalars)) if isinstance(item, Loop) else item
        for item in items
        if isinstance(item, Loop) or item.access is not None or item.id in scalars
    )


Items = tuple[Op | Loop, ...]


def constant_of(op: Op | None) -> Attribute | None:
    """What a constant is; None of any other operation."""
    return op.attribute("value") if op is not None and op.kind == "constant" else None


def reads(op: Op) -> tuple[int, ...]:
    """The values that an operation needs: its operands and the symbols of its access."""
    if op.access is None:
        return op.operands
    return op.operands + tuple(sorted({s for polynomial in _polynomials(op.access) for s in polynomial.symbols()}))


def _polynomials(access: Access) -> Iterator[Polynomial]:
    yield access.constant
    yield from (index.scale for index in access.indices)
    for axis in access.axes:
        yield from (p for p in (axis.stride, axis.offset, axis.lower, axis.upper) if p is not None)


def every(items: Items) -> Iterator[Op | Loop]:
    """Every operation and every loop of a block, a loop before what is in it."""
    for item in items:
        yield item
        if isinstance(item, Loop):
            yield from every(item.body)


def loops_of(items: Items) -> Iterator[Loop]:
    """Every loop of a block, those in loops included, in program order."""
    return (item for item in every(items) if isinstance(item, Loop))


def walk(items: Items) -> Iterator[Op]:
    """Every operation of a block, in program order."""
    for item in items:
        if isinstance(item, Loop):
            yield from walk(item.body)
        else:
            yield item
