"""Scalar expressions as Python: the same signs, truncating division and widths that Triton has."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twill import exc
from twill.codegen.warp.expression import (
    Apply,
    Element,
    Expr,
    Local,
    Lookup,
    Number,
    NumPrograms,
    PerGroup,
    ProgramId,
    Symbol,
)
from twill.manifest.evaluate import HOLDS
from twill.tile.vocabulary import COMPARISONS

# Python's precedence, the tightest first.
ATOM, UNARY, PRODUCT, SUM, SHIFT, AND, XOR, OR, COMPARE, CHOICE = range(10)
_SIGNS = {
    "add": ("+", SUM), "sub": ("-", SUM), "mul": ("*", PRODUCT), "div": ("//", PRODUCT), "rem": ("%", PRODUCT),
    "and": ("&", AND), "or": ("|", OR), "xor": ("^", XOR), "shl": ("<<", SHIFT), "shr": (">>", SHIFT),
}  # fmt: skip
_FOLDED: dict[str, Callable[[int, int], int]] = {"add": int.__add__, "sub": int.__sub__, "mul": int.__mul__}
_TURNED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_ASSOCIATIVE = ("add", "and", "or", "xor")
TYPES = {
    "i1": "int1", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "f16": "float16", "bf16": "bfloat16",
    "f32": "float32", "f64": "float64", "f8e4m3": "float8e4nv", "f8e5m2": "float8e5",
}  # fmt: skip
"""Elements as Gluon calls them."""
INTEGERS = ("i8", "i16", "i32", "i64")
BITS = {"bf16": 16, "f16": 16, "f8e4m3": 8, "f8e5m2": 8, "i8": 8, "f32": 32, "i32": 32}


@dataclass(frozen=True)
class Text:
    """A piece of Python and how tightly it binds."""

    text: str
    level: int = ATOM

    def within(self, level: int) -> str:
        """The text as an operand of something that binds as `level`."""
        return self.text if self.level <= level else f"({self.text})"


@dataclass(frozen=True)
class GluonScalarNames:
    """What names in expressions are in the text. locals: of Lets and steps, in full where they are printed in place.
    constant: the parameter that has these numbers, one for each warp group."""

    locals: Mapping[str, Text]
    constant: Callable[[tuple[int | float, ...]], str]


def print_scalar(expr: Expr, names: GluonScalarNames) -> Text:
    """An expression. Errors: NotInGluon for a kind that has no printer."""
    match expr:
        case Number(value, element):
            return number(value, element)
        case Symbol(_, name):
            return Text(name if name.isidentifier() else of_descriptor(name))
        case ProgramId(axis):
            return names.locals.get(f"program_id.{axis}", Text(f"pid_{axis}"))
        case NumPrograms(axis):
            return Text(f"grid_{axis}")
        case Local(name):
            return names.locals.get(name, Text(name))
        case PerGroup(values):
            return Text(names.constant(values))
        case Apply(kind, operands, element, attributes):
            return _applied(kind, [print_scalar(o, names) for o in operands], element, dict(attributes))
        case Element():
            raise exc.NotInGluon("one number of a tile is needed by all", hint="the CUDA form (`--as cuda`)")
        case Lookup():
            raise exc.NotInGluon("a number is looked up in memory", hint="the CUDA form (`--as cuda`)")
    raise TypeError(f"{expr} is in no warp program")


def of_descriptor(name: str) -> str:
    """`a_desc.shape.0` -> `a_desc.shape[0]`; strides are known to the launcher alone."""
    base, what, axis = name.rsplit(".", 2)
    if what != "shape":
        raise exc.NotInGluon(f"the strides of `{base}` are not known within the kernel", hint="a parameter of its own")
    return f"{base}.{what}[{axis}]"


def number(value: int | float, element: str = "i32") -> Text:
    """A literal."""
    if element == "i1":
        return Text(str(bool(value)))
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return Text(f'float("{value}")')
    return Text(repr(value), UNARY if value < 0 else ATOM)


def _applied(kind: str, said: list[Text], element: str, attributes: dict[str, object]) -> Text:
    if attributes.get("signed", 1) != 1:
        raise exc.NotInGluon(f"`{kind}` of unsigned integers has no printer for Gluon", hint="`--as cuda`")
    if kind == "cast":
        return Text(f"gl.cast({said[0].text}, gl.{TYPES[element]})")
    if kind in ("max", "min"):
        return Text(f"gl.{kind}imum({', '.join(one.text for one in said)})")
    if kind == "select":
        condition, yes, no = (one.within(COMPARE) for one in said)
        return Text(f"{yes} if {condition} else {no}", CHOICE)
    if kind == "compare":
        predicate = str(attributes["predicate"])
        if said[0].text.isdigit() and said[1].text.isdigit():
            return Text(str(HOLDS[predicate](int(said[0].text), int(said[1].text))))
        if said[0].text.isdigit():
            said, predicate = said[::-1], _TURNED[predicate]
        return _signed(said, COMPARISONS[predicate], COMPARE)
    if kind == "div" and element in ("f16", "bf16", "f32", "f64"):
        return _signed(said, "/", PRODUCT)
    if kind in _FOLDED and all(one.text.isdigit() for one in said):
        return number(_FOLDED[kind](*(int(one.text) for one in said)))
    if kind == "add" and "0" in (said[0].text, said[1].text):
        return said[1] if said[0].text == "0" else said[0]
    if kind == "mul" and element in INTEGERS and "0" in (said[0].text, said[1].text):
        return Text("0")
    if kind == "add" and element in INTEGERS and (less := _negated(said[1])) is not None:
        return Text(f"{said[0].within(SUM)} - {less.within(SUM - 1)}", SUM)
    if kind in _SIGNS and len(said) == 2:
        sign, level = _SIGNS[kind]
        loose = level if kind in _ASSOCIATIVE and element in ("i1", "i32", "i64") else level - 1
        return Text(f"{said[0].within(level)} {sign} {said[1].within(loose)}", level)
    raise exc.NotInGluon(f"the scalar operation `{kind}` has no printer for Gluon", hint="`--as cuda`")


def _negated(text: Text) -> Text | None:
    """What is subtracted where a negative number, or a product with -1, is added; None for other summands."""
    if text.level == UNARY and text.text[1:].isdigit():
        return Text(text.text[1:])
    factor = text.text.removesuffix(" * -1")
    return Text(factor, text.level) if text.level == PRODUCT and factor != text.text else None


def _signed(said: list[Text], sign: str, level: int) -> Text:
    left, right = said
    return Text(f"{left.within(level - 1 if level == COMPARE else level)} {sign} {right.within(level - 1)}", level)
