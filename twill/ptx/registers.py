"""How instructions get at registers, immediates and special registers, as arrays of the type that they work on."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from twill.exc import UnsupportedPtx
from twill.ptx import program as ptx
from twill.ptx.step import WARP, Array, LaneRegisters

Fetch = Callable[[Any], Array]
Put = Callable[[Any, Array], None]
Via = tuple[int, Callable[[Array], Array] | None]
"""A register's number, and what is done with arrays on their way from or to it, if anything is."""


class LaneOperand(NamedTuple):
    """An operand: the number of a register and what its arrays go through, or an array that is known before."""

    number: int
    convert: Callable[[Array], Array] | None
    value: Array | None = None


WORD_128 = np.dtype([("low", np.uint64), ("high", np.uint64)])
"""128 bits that only move."""
_UNSIGNED: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: WORD_128}
_SIGNED: dict[int, Any] = {1: np.int8, 2: np.int16, 4: np.int32, 8: np.int64}
TYPES: dict[str, Any] = {
    "pred": np.bool_, "f32": np.float32, "f64": np.float64,
    **{f"{kind}{8 * size}": dtype for size, dtype in _UNSIGNED.items() for kind in "bu" if size < 16}, "b128": WORD_128,
    **{f"s{8 * size}": dtype for size, dtype in _SIGNED.items()},
    "f16": np.uint16, "bf16": np.uint16, "f16x2": np.uint32, "bf16x2": np.uint32, "tf32": np.uint32,
    "e4m3x2": np.uint16, "e5m2x2": np.uint16,
}  # fmt: skip
"""Types of instructions -> what arrays of them hold: bits, for what NumPy does not compute with."""
_DTYPES: dict[str, np.dtype[Any]] = {name: np.dtype(kind) for name, kind in TYPES.items()}
_TYPE = re.compile(r"pred|[busf](8|16|32|64)|bf16(x2)?|f16x2|tf32|e4m3x2|e5m2x2|b128")


@cache
def held(type: str) -> Any:
    """The dtype of a register that is declared so."""
    return np.dtype(TYPES[type] if type in ("f32", "f64", "pred") else _UNSIGNED[ptx.width(type)])


def types_of(instruction: ptx.PtxInstruction) -> tuple[str, ...]:
    """The types among its modifiers, in order."""
    return _types(instruction.modifiers)


@lru_cache(maxsize=1024)
def _types(modifiers: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(modifier for modifier in modifiers if _TYPE.fullmatch(modifier))


def unsupported(instruction: ptx.PtxInstruction, why: str = "") -> UnsupportedPtx:
    """An error about it."""
    said = f": {why}" if why else ""
    return UnsupportedPtx(f"`{instruction.opcode}` is not executed{said}", line=instruction.place.line)


def constant(value: int | float, dtype: Any) -> Array:
    """The same for all lanes."""
    if isinstance(value, int) and np.dtype(dtype).kind in "ui":
        return _integer(int(value), np.dtype(dtype))
    made: Array = np.array([value], dtype)
    made.flags.writeable = False
    return made


@lru_cache(maxsize=4096)
def _integer(value: int, dtype: Any) -> Array:
    size = dtype.itemsize
    made: Array = np.array([value & (1 << 8 * size) - 1], _UNSIGNED[size]).view(dtype)
    made.flags.writeable = False
    return made


class Operands:
    """Operands of one function's instructions. registers: numbers and declared types; addresses: of variables. ranked:
    variables whose addresses say which CTA of the cluster is meant, as those of shared memory do in clusters, where
    programs clear a bit to mean the first of a pair; what the CTA's own rank sets in them. specials: the read-only
    registers."""

    def __init__(
        self,
        registers: Mapping[str, int],
        types: Mapping[str, str],
        addresses: Mapping[str, int],
        ranked: Mapping[str, Callable[[Any], int]] | None = None,
        specials: Mapping[str, Fetch] | None = None,
    ) -> None:
        self.registers = registers
        self.types = types
        self.addresses = addresses
        self.ranked = ranked or {}
        self.specials = specials or {}
        self._sources: dict[tuple[str, str], LaneOperand] = {}

    def number(self, operand: ptx.Operand) -> int:
        """A register's number. KeyError: it is none."""
        return self.registers[operand.name] if isinstance(operand, ptx.Register) else self.registers[""]

    def fetch(self, instruction: ptx.PtxInstruction, operand: ptx.Operand, type: str) -> Fetch:
        """Reads an operand as an array of a type."""
        dtype = _DTYPES[type]
        if isinstance(operand, ptx.Register):
            return self._register(instruction, operand, dtype)
        if isinstance(operand, ptx.Negated):
            inner = self._register(instruction, operand.of, dtype)
            return lambda g: ~inner(g)
        if isinstance(operand, ptx.Special):
            return self._special(instruction, operand, dtype)
        value = constant(self.value(instruction, operand, type), dtype)
        symbol = operand.base if isinstance(operand, ptx.AddressOperand) else operand
        if isinstance(symbol, ptx.PtxSymbol) and symbol.name in self.ranked:
            rank = self.ranked[symbol.name]
            return lambda g: value | dtype.type(rank(g))
        return lambda g: value

    def source(self, instruction: ptx.PtxInstruction, operand: ptx.Operand, type: str) -> LaneOperand | None:
        """The same as data; None for what threads differ in by themselves, special registers and ranks."""
        if isinstance(operand, ptx.Register):
            found = self._sources.get((operand.name, type))
            if found is None:
                number, read = self.reading(instruction, operand, _DTYPES[type])
                found = self._sources[operand.name, type] = LaneOperand(number, read)
            return found
        if isinstance(operand, ptx.Negated):
            number, read = self.reading(instruction, operand.of, _DTYPES[type])
            return LaneOperand(number, np.invert if read is None else lambda values: ~read(values))
        symbol = operand.base if isinstance(operand, ptx.AddressOperand) else operand
        if isinstance(operand, ptx.Special) or isinstance(symbol, ptx.PtxSymbol) and symbol.name in self.ranked:
            return None
        return LaneOperand(-1, None, constant(self.value(instruction, operand, type), _DTYPES[type]))

    def value(self, instruction: ptx.PtxInstruction, operand: ptx.Operand, type: str) -> int | float:
        """What is known before it runs: numbers and addresses of variables. UnsupportedPtx: anything else."""
        dtype = _DTYPES[type]
        if isinstance(operand, ptx.FloatImmediate):
            if dtype.kind == "f":
                return operand.value
            bits = np.array([operand.value], np.float32 if dtype.itemsize == 4 else np.float64)
            return int(bits.view(_UNSIGNED[bits.itemsize])[0])
        if isinstance(operand, ptx.Immediate):
            if dtype.kind != "f":
                return operand.value
            return float(
                np.array([operand.value & (1 << 8 * dtype.itemsize) - 1], _UNSIGNED[dtype.itemsize]).view(dtype)[0]
            )
        if isinstance(operand, ptx.PtxSymbol) and operand.name in self.addresses:
            return self.addresses[operand.name]
        if (
            isinstance(operand, ptx.AddressOperand)
            and isinstance(operand.base, ptx.PtxSymbol)
            and operand.base.name in self.addresses
        ):
            return self.addresses[operand.base.name] + operand.offset
        raise unsupported(instruction, f"operand {operand}")

    def _register(self, instruction: ptx.PtxInstruction, operand: ptx.Register, dtype: Any) -> Fetch:
        number, read = self.reading(instruction, operand, dtype)
        if read is None:
            return lambda g: g.registers[number]
        return lambda g: read(g.registers[number])

    def reading(self, instruction: ptx.PtxInstruction, operand: ptx.Register, dtype: Any) -> Via:
        """A register's number, and how its array becomes one of a type (None: it is one)."""
        if operand.name not in self.registers:
            raise unsupported(instruction, f"register {operand.name} is not declared")
        number, own = self.registers[operand.name], held(self.types[operand.name])
        if own == dtype:
            return number, None
        if own.itemsize == dtype.itemsize:
            return number, lambda values: values.view(dtype)
        if own.kind == "b" or dtype.kind == "b":
            raise unsupported(instruction, f"predicate and number in {operand.name}")
        same, other = np.dtype(_UNSIGNED[own.itemsize]), np.dtype(_UNSIGNED[dtype.itemsize])
        return number, lambda values: values.view(same).astype(other).view(dtype)

    def _special(self, instruction: ptx.PtxInstruction, operand: ptx.Special, dtype: Any) -> Fetch:
        read = self.specials.get(operand.name)
        if operand.name == "WARP_SZ":
            value = constant(WARP, dtype)
            return lambda g: value
        if read is None:
            raise unsupported(instruction, f"special register {operand.name}")
        return lambda g: read(g).astype(dtype)

    def put(self, instruction: ptx.PtxInstruction, operand: ptx.Operand, type: str) -> Put:
        """Writes an array of a type to a register: of a wider one, as the type extends."""
        if isinstance(operand, ptx.Nothing):
            return lambda g, value: None
        number, become = self.writing(instruction, operand, type)
        return _plain(number) if become is None else lambda g, value: _write(g, number, become(value))

    def writing(self, instruction: ptx.PtxInstruction, operand: ptx.Operand, type: str) -> Via:
        """A register's number, and how an array of a type becomes what it holds (None: it is that)."""
        if not isinstance(operand, ptx.Register) or operand.name not in self.registers:
            raise unsupported(instruction, f"destination {operand}")
        number, own = self.registers[operand.name], held(self.types[operand.name])
        dtype = _DTYPES[type]
        if own == dtype:
            return number, None
        if own.itemsize == dtype.itemsize:
            return number, lambda value: value.view(own)
        if own.itemsize < dtype.itemsize or own.kind == "b" or dtype.kind == "b":
            raise unsupported(instruction, f"a {type} does not fit {operand.name}")
        wide = np.dtype((_SIGNED if dtype.kind == "i" else _UNSIGNED)[own.itemsize])
        bits = dtype if dtype.kind in "iu" else np.dtype(_UNSIGNED[dtype.itemsize])
        return number, lambda value: value.view(bits).astype(wide).view(own)


def _plain(number: int) -> Put:
    def put(g: LaneRegisters, value: Array) -> None:
        if g.mask is None:
            g.registers[number] = value
        else:
            g.registers[number] = np.where(g.mask, value, g.registers[number])

    return put


def _write(g: LaneRegisters, number: int, value: Array) -> None:
    if g.mask is None:
        g.registers[number] = value
    else:
        g.registers[number] = np.where(g.mask, value, g.registers[number])
