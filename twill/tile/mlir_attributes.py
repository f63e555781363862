"""Attributes and types in generic MLIR -> Python values and tile types; xDSL reads each text once."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import Any

from xdsl.context import Context
from xdsl.dialects import builtin
from xdsl.ir import Attribute
from xdsl.parser import Parser

from twill.tile.program import TileType

Python = Any  # int, float, str, bool, None, tuple, dict or Dense: what an attribute becomes
ALIAS = re.compile(r"[#!]\w+\b(?!\.)")  # `#loc7`, but not `#arith.fastmath<none>`


@dataclass(frozen=True)
class Dense:
    """A constant tile: the one value that every element has, None if they differ."""

    value: int | float | None


@dataclass(frozen=True)
class ValueType:
    """What is known of a value by its type. unsigned: it is a descriptor of unsigned integers."""

    type: TileType
    unsigned: bool


@dataclass(frozen=True)
class Signature:
    """An operation without its name, operands, regions and location."""

    attributes: Mapping[str, Python]
    results: tuple[ValueType, ...]


_signatures: dict[str, Signature] = {}
_attributes: dict[str, Mapping[str, Python]] = {}
_types: dict[str, ValueType] = {}
_RESULT = re.compile(r"\([^()]*\) -> ([^()]+)")  # of an operation with one result


class Attributes:
    """Reads the attributes of one module.

    Most of a module is repetitions: a text that was read before, in whatever module, is not read again. Aliases differ
    from module to module, and so does what is known of texts with one.
    """

    def __init__(self, aliases: Mapping[str, str]) -> None:
        """aliases: what `#name` and `!name` stand for, in an order in which each needs only those before it."""
        self._aliases: dict[str, Attribute] = {}
        self._signatures: dict[str, Signature] = {}
        self._types: dict[str, ValueType] = {}
        for name, text in aliases.items():
            self._aliases[name] = self._parser(text).parse_attribute()

    def signature(self, text: str) -> Signature:
        """Of `<{value = 1 : i32}> {noinline} : (f32, f32) -> f32`: properties and attributes, which may both lack."""
        known = self._signatures if ALIAS.search(text) else _signatures
        if text not in known:
            attributes, _, types = f" {text}".rpartition(" : ")
            one = _RESULT.fullmatch(types)
            results = (self.type(one[1]),) if one is not None else self._results(types)
            known[text] = Signature(self._read(attributes.strip()), results)
        return known[text]

    def _results(self, types: str) -> tuple[ValueType, ...]:
        """Of `(f32, f32) -> (f32, i32)`."""
        return tuple(value_type(result) for result in self._parser(types).parse_function_type().outputs.data)

    def _read(self, text: str) -> Mapping[str, Python]:
        """Of `<{value = 1 : i32}> {noinline}`: many operations have the same ones, at other types."""
        known = {} if ALIAS.search(text) else _attributes
        if text not in known:
            parser = self._parser(text)
            properties, attributes = parser.parse_optional_properties_dict(), parser.parse_optional_attr_dict()
            values = {name: python_of(value) for name, value in {**properties, **attributes}.items()}
            known[text] = MappingProxyType(values)
        return known[text]

    def type(self, text: str) -> ValueType:
        """Of `tensor<128x64xf32>`."""
        known = self._types if ALIAS.search(text) else _types
        if text not in known:
            known[text] = value_type(self._parser(text).parse_type())
        return known[text]

    def _parser(self, text: str) -> Parser:
        parser = Parser(_context(), text)
        parser.attribute_aliases = self._aliases
        return parser


@cache
def _context() -> Context:
    context = Context(allow_unregistered=True)
    context.load_dialect(builtin.Builtin)
    return context


def value_type(attribute: Attribute) -> ValueType:
    """What a type says of its values."""
    return ValueType(tile_type(attribute), unsigned_descriptor(attribute))


_BYTES = {"f64": 8, "f32": 4, "bf16": 2, "f16": 2}


def spell_constants(text: str) -> str:
    """The text with tiles whose elements are all one number as tiles of no axis: of a constant that is all that is
    asked for, and xDSL makes a number for each element of a tile of integers. Numbers in hexadecimal are bytes."""
    return spell_bits(_COMMON.sub(r"dense<\1> : tensor<\2>", text))


_COMMON = re.compile(r"dense<([\w.+-]+)> : tensor<(?:\d+x)+(\w+)>")


def spell_bits(text: str) -> str:
    """The text with infinities and NaNs in constant tiles spelled as bytes.

    MLIR writes `dense<0xFF800000> : tensor<4xf32>` for minus infinity, which xDSL would read as the number
    4286578688; `dense<"0x000080FF">`, the bytes in memory order, means the same to both.
    """

    def spell(match: re.Match[str]) -> str:
        bits = int(match[1], 16).to_bytes(_BYTES.get(match[3], 1), "little")
        return f'dense<"0x{bits.hex().upper()}"> : tensor<{match[2]}{match[3]}>'

    return re.sub(r"dense<0x([0-9A-F]+)> : tensor<((?:\d+x)*)(b?f\w+)>", spell, text)


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
    values: list[Any] = _of_bytes(attribute)
    if len(set(map(repr, values))) != 1:  # by repr, for NaN is not equal to itself
        return Dense(None)
    width = getattr(attribute.get_element_type(), "width", None)
    return Dense(values[0] & 1 if width is not None and width.data == 1 else values[0])


def _of_bytes(attribute: builtin.DenseIntOrFPElementsAttr) -> list[Any]:
    """The elements, or the first one alone where all have its bytes, as in most constants."""
    values, count, content = attribute.iter_values(), len(attribute), attribute.data.data
    first = content[: len(content) // max(count, 1)]
    return [next(iter(values))] if first and first * count == content else list(values)
