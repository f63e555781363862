"""What changes from launch to launch of one plan, and the function that writes it: numbers, and where tensors are.

A number is free if no tensor map needs it, and so is where a tensor is: a map is moved there. Like a matcher, a writer
is Python source, made once for each kind of launch.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any, Protocol

from twill.runtime.arguments import is_positive

Writer = Callable[[Sequence[Any]], bool]
"""(values) -> whether all values are plainly right and were written; if not, the careful path says what is wrong."""

PROMISED = 16  # what the kind of a call says of whether a number or an address is a multiple of it


@dataclass(frozen=True)
class FreeNumber:
    """A number that every launch writes anew. position: among the values. slot: among the packed parameters (None: the
    code does not take it, but its promise is kept up). multiple, positive: what was promised of it."""

    position: int
    slot: int | None
    is_float: bool
    low: int = 0
    high: int = 0
    multiple: int = 1
    positive: bool = False


@dataclass(frozen=True)
class FreePointer:
    """The address of a PyTorch tensor that every launch writes anew. position, slot, multiple: as of a number.
    described: whether the value is a descriptor."""

    position: int
    slot: int
    multiple: int
    described: bool = False


@dataclass(frozen=True)
class FreeMap:
    """A tensor map that begins where the PyTorch tensor of a launch does. position, slot: as of a number. offset: bytes
    from the tensor's first element. described: whether the value is a descriptor."""

    position: int
    slot: int
    offset: int
    described: bool


Free = FreeNumber | FreePointer


class Moving(Protocol):
    """The tensor maps of a launch (`twill.runtime.address.MovingMaps`). at: where each is now."""

    at: list[int]

    def move(self, number: int, pointer: int) -> bool:
        """Have it begin at `pointer`; whether that could be done."""


class FreeCells:
    """Memory of one launch for what it writes anew. slots: where each parameter is, by number."""

    def __init__(self, free: Sequence[Free], cells: Sequence[Any], matched: bool) -> None:
        """cells: what each is at first, in C's types. matched: whether values come with their kind, as of a call that a
        matcher found: their classes are right, and what 16 says of them."""
        held = [(one, cell) for one, cell in zip(free, cells, strict=True) if one.slot is not None]
        held.sort(key=lambda pair: -ctypes.sizeof(pair[1]))  # no gaps
        packing = struct.Struct("".join(type(cell)._type_ for _, cell in held))
        self.memory = ctypes.create_string_buffer(max(1, packing.size))
        packing.pack_into(self.memory, 0, *(cell.value for _, cell in held))
        self.slots: dict[int, Any] = {}
        offset = 0
        for one, cell in held:
            assert one.slot is not None
            self.slots[one.slot] = type(cell).from_buffer(self.memory, offset)
            offset += ctypes.sizeof(cell)
        self.parts = tuple(free), tuple(one for one, _ in held), matched
        self.pack_into = packing.pack_into

    def writer(self, maps: tuple[FreeMap, ...], moving: Moving) -> Writer:
        """What writes all this, and has the tensor maps begin where they should."""
        return partial(writer(*self.parts, maps), self.pack_into, self.memory, moving.at, moving.move)


@lru_cache(maxsize=4096)
def writer(
    free: tuple[Free, ...], held: tuple[Free, ...], matched: bool, maps: tuple[FreeMap, ...]
) -> Callable[..., bool]:
    """(pack_into, memory, at, move, values) -> as `Writer`; held: in the order in which they lie in memory."""
    lines = ["def write(pack_into, memory, at, move, values):"]
    for number, one in enumerate(free):
        lines += [f"    v{number} = {_value(one)}"]
        lines += [f"    if {wrong}: return False" for wrong in _wrong(number, one, matched)]
    values = "".join(f", v{free.index(one)}" for one in held)
    lines += ["    try:", f"        pack_into(memory, 0{values})", "    except (error, OverflowError):"]
    lines += ["        return False"]
    for number, entry in enumerate(maps):
        lines.append(f"    m = {_address(entry)} + {entry.offset}")
        lines.append(f"    if m != at[{number}] and not move({number}, m): return False")
    lines.append("    return True")
    space: dict[str, Any] = {"is_positive": is_positive, "error": struct.error}
    exec("\n".join(lines), space)
    made: Callable[..., bool] = space["write"]
    return made


def _value(one: Free) -> str:
    return _address(one) if isinstance(one, FreePointer) else f"values[{one.position}]"


def _address(one: FreePointer | FreeMap) -> str:
    return f"values[{one.position}]" + (".base" if one.described else "") + ".data_ptr()"


def _wrong(number: int, one: Free, matched: bool) -> list[str]:
    """Conditions under which a value takes a careful look."""
    value = f"v{number}"
    unknown = one.multiple > 1 and not (matched and not PROMISED % one.multiple)
    multiple = [f"{value} % {one.multiple}"] if unknown else []
    if isinstance(one, FreePointer):
        return multiple
    if one.is_float:
        positive = [f"not is_positive({value})"] if one.positive else []
        kind = [] if matched else [f"{value}.__class__ is not float and {value}.__class__ is not int"]
        return [*kind, *positive]
    kind = [] if matched else [f"{value}.__class__ is not int"]
    known = one.slot is not None and (one.low, one.high) in ((-(1 << 31), 1 << 31), (-(1 << 63), 1 << 63))
    return [*kind, *([] if known else [f"not {one.low} <= {value} < {one.high}"]), *multiple]
