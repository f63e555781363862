"""How a tile can be moved: by a tensor map ("tma"), by asynchronous copies ("copy"), or element by element.

The conditions on tensor maps are those of `cuTensorMapEncodeTiled` (CUDA driver API) and of
`cp.async.bulk.tensor` and `cp.reduce.async.bulk.tensor` (PTX ISA); on copies those of `cp.async`.
They hold on every machine with the instruction. A tile axis longer than a box is cut into boxes.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from twill.tile.access.address import Address, begins_before, counted_down, moved_start
from twill.tile.access.scalar import SymbolicScalars
from twill.tile.access.value import ONE
from twill.tile.affine import Polynomial

ALIGNMENT = 16  # bytes: base address, strides, innermost extent of a tensor map
RANK = 5  # axes of a tensor map
COPY_BYTES = 4  # the smallest cp.async

BYTES = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "f8e4m3": 1, "f8e5m2": 1, "i64": 8, "i32": 4, "i16": 2, "i8": 1,
         "i1": 1}  # fmt: skip
# What cp.reduce.async.bulk.tensor combines, by element type; integers of 32 and 64 bits all.
FLOAT_REDUCTIONS = {"f32": ("add",), "f16": ("add", "min", "max"), "bf16": ("add", "min", "max")}


@dataclass(frozen=True)
class Movement:
    """What is moved. kind: "tile_load", "tile_store" or "tile_reduce" (with `combine`). declared: the element type of
    the argument. alignment: the base address is a multiple of it, in bytes. promised: the kernel uses a descriptor,
    which promises that a tensor map can be made. names: of symbols, for reasons. located: a launch
    knows where the tensor is. walks: a program of the launch grid does the kernel's work again and again, with few
    tensors (`twill.tile.walks`).
    """

    kind: str
    combine: str
    element: str
    declared: str
    address: Address
    pad: float
    alignment: int
    promised: bool
    names: Mapping[int, str]
    located: bool = True
    walks: bool = False


@dataclass(frozen=True)
class ChosenTransport:
    """kind: as `Access.transport`. reason: why it is not "tma", "" if it is. made: as `Access.made`."""

    kind: str
    reason: str = ""
    made: bool = False


def choose(movement: Movement, scalars: SymbolicScalars) -> ChosenTransport:
    """How a tile is moved: by the TMA wherever that can be. To make a tensor map takes about as long as a tile does,
    so a kernel makes those alone that serve many."""
    reason = next(why_not_tma(movement, scalars), "")
    if not reason:
        return ChosenTransport("tma")
    makes = movement.walks and movement.kind in ("tile_load", "tile_store")
    if makes and not next(why_not_tma(movement, scalars, made=True), ""):
        return ChosenTransport("tma", made=True)
    if movement.kind != "tile_load" or all(axis.extent == 1 for axis in movement.address.axes):
        return ChosenTransport("plain", reason)
    why = next(why_not_copy(movement, scalars), "")
    if why:
        return ChosenTransport("plain", f"{reason}; no asynchronous copy: {why}")
    return ChosenTransport("copy", reason)


def why_not_tma(movement: Movement, scalars: SymbolicScalars, made: bool = False) -> Iterator[str]:
    """Reasons against a tensor map, in words. made: against one that a program instance makes for itself."""
    address, bytes_each = movement.address, BYTES[movement.element]
    known = scalars.settled if made else scalars.fixed
    if not movement.located and not made:
        yield "its address is looked up"
    moving = [axis for axis in address.axes if axis.extent > 1]
    if not moving:
        yield "it is a single element"
    if movement.element != movement.declared and BYTES[movement.element] > 1:
        yield f"elements of {movement.declared} are seen as {movement.element}"
    for term in address.terms:
        yield f"its index {movement.names[term.value]} is computed element by element"
    if not address.complete:
        yield "its mask is not only bounds on its indices"
    inner = [axis for axis in address.axes if axis.stride == ONE]
    if not inner or (moving and moving[-1] not in inner):
        yield f"its innermost stride is {text(moving[-1].stride, movement)}, not 1" if moving else "it has no stride 1"
    elif inner[-1].extent * bytes_each < ALIGNMENT:
        yield f"its innermost extent is {inner[-1].extent * bytes_each} bytes, under {ALIGNMENT}"
    if not movement.promised:  # a store looks at the numbers when it comes by them, and threads may do it
        yield from misplaced(movement, scalars)
        yield from unaligned(movement, scalars) if not made or movement.kind == "tile_load" else ()
    if begins_before(moved_start(address.constant, known)[1], known):
        yield "a tensor map of it would begin in front of the tensor"
    for axis in counted_down(address, known) if not movement.promised else ():
        yield f"its index {text(axis.offset, movement)} may be in the row in front"
    varying = [term for term in address.constant.terms if not known(Polynomial((term,)))]
    if len(address.axes) + len(varying) > RANK:
        yield f"it has {len(address.axes) + len(varying)} strides, over {RANK}"
    for part in varying:
        if part[1] < 0:
            yield f"it moves by {text(Polynomial((part,)), movement)}, and no stride of a tensor map is negative"
    for axis in address.axes:
        if not known(axis.stride):
            yield f"its stride {text(axis.stride, movement)} differs between program instances"
    for axis in address.axes:
        if axis.lower:
            yield f"its lower bound is {text(axis.lower, movement)}, not 0"
        if axis.upper is not None and not known(axis.upper):
            yield f"its bound {text(axis.upper, movement)} differs between program instances"
    masked = any(axis.lower is not None or axis.upper is not None for axis in address.axes)
    if movement.kind == "tile_load" and masked and movement.pad and not math.isnan(movement.pad):
        yield f"masked elements read as {movement.pad}, not 0"
    if movement.kind == "tile_reduce" and not reducible(movement.element, movement.combine):
        yield f"no tensor reduction is {movement.combine} of {movement.element}"


def misplaced(movement: Movement, scalars: SymbolicScalars) -> Iterator[str]:
    """The first innermost index, if it is not provably a multiple of 16 bytes. A tensor map that is read from an
    innermost index of other bytes ends the launch with an illegal instruction (seen on an H100; the PTX ISA does not
    say so)."""
    divisors, bytes_each = scalars.divisors(), BYTES[movement.element]
    for axis in movement.address.axes:
        if axis.stride == ONE and axis.extent > 1 and axis.offset.divisor(divisors) * bytes_each % ALIGNMENT:
            yield f"its index {text(axis.offset, movement)} is not known to be a multiple of {ALIGNMENT} bytes"


def unaligned(movement: Movement, scalars: SymbolicScalars) -> Iterator[str]:
    """What is not provably a multiple of 16 bytes: base address, strides, constant. An argument that is a stride is
    taken to be positive."""
    divisors, bytes_each = scalars.divisors(), BYTES[movement.element]
    if movement.alignment % ALIGNMENT:
        yield f'{movement.address.base} is not known to be aligned to {ALIGNMENT} bytes (":16" in its type)'
    rows = [axis for axis in movement.address.axes if axis.extent > 1][:-1]  # what a tensor map steps over
    for axis in movement.address.axes:
        if axis.extent > 1 and not all(coefficient > 0 for _, coefficient in axis.stride.terms or (((), 0),)):
            yield f"its stride {text(axis.stride, movement)} is not known to be positive"
        step = axis.stride.divisor(divisors) * bytes_each
        if axis.extent > 1 and (axis.stride != ONE or axis in rows) and step % ALIGNMENT:
            yield f"its stride {text(axis.stride, movement)} is not known to be a multiple of {ALIGNMENT} bytes"
    if movement.address.constant.divisor(divisors) * bytes_each % ALIGNMENT:
        yield (
            f"its start {text(movement.address.constant, movement)} is not known to be a multiple of {ALIGNMENT} bytes"
        )


def why_not_copy(movement: Movement, scalars: SymbolicScalars) -> Iterator[str]:
    """Reasons against asynchronous copies from global to shared memory (only loads have them), in words."""
    address = movement.address
    if movement.element != movement.declared and BYTES[movement.element] > 1:
        yield f"elements of {movement.declared} are seen as {movement.element}"
    if address.terms:
        yield "each element has an address of its own"
    if not address.complete:
        yield "the mask is not only bounds"
    if movement.pad:
        yield "they fill with 0 only"
    run = copy_bytes(movement, scalars)
    if run < COPY_BYTES:
        yield f"runs of {run} bytes"


def copy_bytes(movement: Movement, scalars: SymbolicScalars) -> int:
    """The length of the aligned runs of consecutive elements, at most 16 bytes."""
    divisors, bytes_each = scalars.divisors(), BYTES[movement.element]
    axes = [axis for axis in movement.address.axes if axis.extent > 1]
    if not axes or axes[-1].stride != ONE:
        return bytes_each
    starts = [axis.stride * axis.offset for axis in movement.address.axes]
    strides = [axis.stride for axis in axes[:-1]]
    parts = [polynomial.divisor(divisors) for polynomial in (movement.address.constant, *starts, *strides)]
    run = math.gcd(*parts, axes[-1].extent) * bytes_each
    return math.gcd(run, movement.alignment, ALIGNMENT) or ALIGNMENT


def reducible(element: str, combine: str) -> bool:
    """Whether the tensor reduction instruction has this operation on this element type."""
    return combine in FLOAT_REDUCTIONS.get(element, ("add", "min", "max", "and", "or", "xor")) and element not in (
        "f64", "f8e4m3", "f8e5m2", "i16", "i8", "i1",
    )  # fmt: skip


def text(polynomial: Polynomial, movement: Movement) -> str:
    """A polynomial in the kernel's names."""
    return polynomial.text(movement.names)
