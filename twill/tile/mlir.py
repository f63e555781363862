"""Generic MLIR text -> a small frozen tree of operations, independent of Triton and of xDSL."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any, TypeVar

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.dialects.builtin import LocationAttr
from xdsl.ir import Attribute, Block, Operation, Region, SSAValue
from xdsl.parser import Parser

from twill.tile.program import TileType

T = TypeVar("T")
Python = Any  # int, float, str, bool, None, tuple, dict or Dense: what an attribute becomes


@dataclass(frozen=True)
class Dense:
    """A constant tile: the one value that every element has, None if they differ."""

    value: int | float | None


@dataclass(frozen=True)
class RawValue:
    """An SSA value with the line and the Python variable it was made for (0 and "" if unknown).

    unsigned: it is a descriptor of unsigned integers.
    """

    id: int
    type: TileType
    line: int
    name: str
    unsigned: bool = False


@dataclass(frozen=True)
class RawOp:
    """One operation. line and name as of the innermost frame in the kernel's own file. successors: of a branch, the
    blocks that it leads to, by their number in the region."""

    name: str  # "arith.addf", "tt.load"
    operands: tuple[int, ...]
    results: tuple[RawValue, ...]
    attributes: Mapping[str, Python]
    regions: tuple[tuple[RawBlock, ...], ...]
    line: int
    variable: str
    successors: tuple[int, ...] = ()


@dataclass(frozen=True)
class RawBlock:
    """A block: its arguments, and its operations with the terminator last."""

    arguments: tuple[RawValue, ...]
    operations: tuple[RawOp, ...]


def parse(text: str, file: str) -> RawOp:
    """The module's operation tree. `file`: the absolute path whose lines locations are wanted for."""
    return _Reader(file).operation(_Parser(_context(), spell_bits(text)).parse_module())


@cache
def _context() -> Context:
    """The one context of all modules, so that what one of them spelled need not be read again in the next."""
    context = Context(allow_unregistered=True)
    context.load_dialect(builtin.Builtin)
    return context


_types: dict[str, builtin.FunctionType | None] = {}
_properties: dict[str, dict[str, Attribute]] = {}


class _Parser(Parser):
    """xDSL's parser, which reads signatures, properties and locations once: most of a module is repetitions of them.

    Attributes of xDSL don't change. Aliases (`#loc7`, but not `#arith.fastmath<none>`) differ from module to module,
    and so does what is known of texts with one.
    """

    def __init__(self, context: Context, text: str) -> None:
        super().__init__(context, text)
        self.text = text
        self.locations: dict[str, LocationAttr | None] = {}

    def parse_optional_function_type(self) -> builtin.FunctionType | None:
        return self._once(_types, self.text.find(" loc(", self.pos), super().parse_optional_function_type)

    def parse_optional_properties_dict(self) -> dict[str, Attribute]:
        end = self.text.find("}>", self.pos) + 2 if self.text.startswith("<", self.pos) else -1
        found = self._once(_properties, end, super().parse_optional_properties_dict)
        return {**found}

    def parse_optional_location(self) -> LocationAttr | None:
        return self._once(self.locations, self.text.find(")", self.pos) + 1, super().parse_optional_location)

    def _once(self, known: dict[str, T], end: int, parse: Callable[[], T]) -> T:
        """What `parse` makes of the text up to `end`, which it may also end before or behind."""
        begin = self.pos
        text = self.text[begin:end] if end > begin else ""
        if text in known:
            self._resume_from(end)
            return known[text]
        made = parse()
        alias = known is not self.locations and re.search(r"[#!]\w+\b(?!\.)", text)
        if text and not alias and self.text[begin : self.pos].rstrip() == text:
            known[text] = made
        return made


_BYTES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}


def spell_bits(text: str) -> str:
    """The text with infinities and NaNs in constant tiles spelled as bytes.

    MLIR writes `dense<0xFF800000> : tensor<4xf32>` for minus infinity, which xDSL would read as the number
    4286578688; `dense<"0x000080FF">`, the bytes in memory order, means the same to both.
    """

    def spell(match: re.Match[str]) -> str:
        bits = int(match[1], 16).to_bytes(_BYTES.get(match[3], 1), "little")
        return f'dense<"0x{bits.hex().upper()}"> : tensor<{match[2]}{match[3]}>'

    return re.sub(r"dense<0x([0-9A-F]+)> : tensor<((?:\d+x)*)(b?f\w+)>", spell, text)


class _Reader:
    """Numbers the SSA values of one module in the order of their definition."""

    def __init__(self, file: str) -> None:
        self.file = file
        self.ids: dict[SSAValue, int] = {}

    def operation(self, op: Operation) -> RawOp:
        attributes = {name: python_of(value) for name, value in {**op.properties, **op.attributes}.items()}
        name = attributes.pop("op_name__", op.name)
        line, variable = locate(op.location, self.file)
        operands = tuple(self.ids[operand] for operand in op.operands)
        regions = tuple(self.region(region) for region in op.regions)
        results = tuple(self.define(result, line, variable) for result in op.results)
        parent = op.parent_region()
        places = {id(block): number for number, block in enumerate(parent.blocks)} if op.successors and parent else {}
        successors = tuple(places[id(block)] for block in op.successors)
        return RawOp(name, operands, results, MappingProxyType(attributes), regions, line, variable, successors)

    def region(self, region: Region) -> tuple[RawBlock, ...]:
        return tuple(self.block(block) for block in region.blocks)

    def block(self, block: Block) -> RawBlock:
        arguments = tuple(self.define(value, *locate(value.location, self.file)) for value in block.args)
        return RawBlock(arguments, tuple(self.operation(op) for op in block.ops))

    def define(self, value: SSAValue, line: int, name: str) -> RawValue:
        self.ids[value] = len(self.ids)
        return RawValue(self.ids[value], tile_type(value.type), line, name, unsigned_descriptor(value.type))


def locate(location: Attribute | None, file: str) -> tuple[int, str]:
    """(line, Python variable) of the innermost frame of a location that lies in `file`; (0, "") if none."""
    for name, path, line in frames(location):
        if path == file:
            return line, name
    return 0, ""


def frames(location: Attribute | None, name: str = "") -> Iterable[tuple[str, str, int]]:
    """(variable, file, line) of every frame of a location, innermost first."""
    match location:
        case builtin.FileLineColLoc():
            yield name, location.filename.data, location.line.data
        case builtin.NameLoc():
            yield from frames(location.location, location.desc.data or name)
        case builtin.CallSiteLoc():
            yield from frames(location.callee, name)
            yield from frames(location.caller, name)
        case builtin.FusedLoc(locations=builtin.ArrayAttr() as parts):
            for part in parts.data:
                yield from frames(part, name)
        case _:
            return


# MLIR's spelling of an element type -> ours, where they differ.
_ELEMENTS = {"f8E4M3FN": "f8e4m3", "f8E5M2": "f8e5m2"}


def tile_type(attribute: Attribute) -> TileType:
    """Our type of an MLIR type; an element type outside of `TileType`'s list keeps MLIR's spelling."""
    if isinstance(attribute, builtin.TensorType):
        return TileType(tuple(attribute.get_shape()), element_of(attribute.element_type))
    if isinstance(attribute, builtin.UnregisteredAttr) and attribute.attr_name.data == "tt.tensordesc":
        return descriptor_type(attribute.value.data)
    return TileType((), element_of(attribute))


def element_of(attribute: Attribute) -> str:
    """The element type of a scalar MLIR type: "f32", "i1", "ptr:f16"."""
    if isinstance(attribute, builtin.UnregisteredAttr):
        text = str(attribute.value.data)
        if attribute.attr_name.data == "tt.ptr":
            # "f16" or "f16, 1": the address space is always global memory for an argument.
            pointee = text.split(",")[0].strip()
            return f"ptr:{_ELEMENTS.get(pointee, pointee)}"
        return f"{attribute.attr_name.data}<{text}>"
    text = str(attribute)
    return _ELEMENTS.get(text, text)


def descriptor_type(text: str) -> TileType:
    """The type in `tt.tensordesc<...>`: Triton 3.6 writes `tensor<64x64xf16>`, 3.9 `64x64xf16`."""
    match = re.fullmatch(r"(?:tensor<)?((?:\d+x)+)(\w+)>?(?:, .*)?", text.strip())
    if match is None:
        return TileType((), f"tt.tensordesc<{text}>")
    shape = tuple(int(extent) for extent in match[1].split("x") if extent)
    signless = re.sub(r"^[su](?=i\d)", "", match[2])  # of all types only descriptors have signs
    return TileType(shape, f"desc:{_ELEMENTS.get(signless, signless)}")


def unsigned_descriptor(attribute: Attribute) -> bool:
    """Whether a type is a descriptor's of unsigned integers."""
    if not isinstance(attribute, builtin.UnregisteredAttr) or attribute.attr_name.data != "tt.tensordesc":
        return False
    return re.search(r"\dxui\d", str(attribute.value.data)) is not None


def python_of(attribute: Attribute) -> Python:
    """An attribute as a Python value; one of no known kind as its text."""
    match attribute:
        case builtin.IntegerAttr():
            width = getattr(attribute.type, "width", None)
            value = attribute.value.data
            return value & 1 if width is not None and width.data == 1 else value
        case builtin.FloatAttr():
            return attribute.value.data
        case builtin.StringAttr():
            return attribute.data
        case builtin.UnitAttr():
            return True
        case builtin.DenseArrayBase():
            return tuple(attribute.get_values())
        case builtin.DenseIntOrFPElementsAttr():
            return dense(attribute)
        case builtin.ArrayAttr():
            return tuple(python_of(item) for item in attribute.data)
        case builtin.DictionaryAttr():
            return {name: python_of(item) for name, item in attribute.data.items()}
        case builtin.UnregisteredAttr():
            return attribute.value.data
        case _:
            return str(attribute)


def dense(attribute: builtin.DenseIntOrFPElementsAttr) -> Dense:
    """The common value of a constant tile's elements."""
    values: list[Any] = list(attribute.iter_values())
    if len(set(map(repr, values))) != 1:  # by repr, for NaN is not equal to itself
        return Dense(None)
    width = getattr(attribute.get_element_type(), "width", None)
    return Dense(values[0] & 1 if width is not None and width.data == 1 else values[0])
