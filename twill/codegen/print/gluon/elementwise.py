"""Elementwise operations on tensors: one small printer for each kind of `twill.tile.vocabulary`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from twill import exc
from twill.codegen.print.gluon.scalars import AND, COMPARE, OR, PRODUCT, SHIFT, SUM, TYPES, UNARY, XOR, Text
from twill.tile.vocabulary import COMPARISONS, MINUS

Attributes = Mapping[str, Any]
FLOATS = ("f16", "bf16", "f32", "f64", "f8e4m3", "f8e5m2")


@dataclass(frozen=True)
class Elementwise:
    """operands: their texts; element: of the first; result: element of the result."""

    kind: str
    operands: tuple[Text, ...]
    element: str
    result: str
    attributes: Attributes

    @property
    def on_floats(self) -> bool:
        """Whether the first operand is a float."""
        return self.element in FLOATS


def print_elementwise(op: Elementwise) -> Text:
    """The expression. Errors: NotInGluon for what has no printer."""
    printer = PRINTERS.get(op.kind)
    if printer is None or (not op.on_floats and not op.attributes.get("signed", 1)):
        raise exc.NotInGluon(f"`{op.kind}` on {op.element} has no printer for Gluon", hint="`--as cuda`")
    return printer(op)


Printer = Callable[[Elementwise], Text]


def _sign(sign: str, level: int) -> Printer:
    def printer(op: Elementwise) -> Text:
        left, right = op.operands
        if sign == "+" and not op.on_floats and "0" in (left.text, right.text):
            return right if left.text == "0" else left
        return Text(f"{left.within(level)} {sign} {right.within(level - 1)}", level)

    return printer


def _function(name: str) -> Printer:
    return lambda op: Text(f"gl.{name}({', '.join(operand.text for operand in op.operands)})")


def _fma(op: Elementwise) -> Text:
    """`gl.fma`; of bf16 a product and a sum, which Triton's compiler contracts."""
    a, b, c = op.operands
    minus = op.attributes.get(MINUS)
    if op.result == "bf16":
        product = _sign("*", PRODUCT)(replace(op, operands=(a, b)))
        pair = (c, product) if minus == "product" else (product, c)
        return _sign("-" if minus else "+", SUM)(replace(op, operands=pair))
    if minus == "product":
        a = _neg(replace(op, operands=(a,)))
    elif minus:
        c = _neg(replace(op, operands=(c,)))
    return _function("fma")(replace(op, operands=(a, b, c)))


def _neg(op: Elementwise) -> Text:
    return Text(f"-{op.operands[0].within(UNARY)}", UNARY)


def _div(op: Elementwise) -> Text:
    if op.on_floats and op.attributes.get("rounding") == "rn":
        return _function("div_rn")(op)
    return _sign("/" if op.on_floats else "//", PRODUCT)(op)


def _extremum(op: Elementwise) -> Text:
    """Of a float and NaN it is the float."""
    for attribute in ("propagate_nan", "slack"):
        if op.attributes.get(attribute):
            raise exc.NotInGluon(f"`{op.kind}` with {attribute} has no printer for Gluon", hint="`--as cuda`")
    return _function(f"{op.kind}imum")(op)


def _exact(name: str, attribute: str) -> Printer:
    """A function that Triton has, but for those that are asked to be more exact."""

    def printer(op: Elementwise) -> Text:
        if op.attributes.get(attribute):
            raise exc.NotInGluon(f"`{name}` with {attribute} has no printer for Gluon", hint="`--as cuda`")
        return _function(name)(op)

    return printer


def _clamp(op: Elementwise) -> Text:
    x, low, high = (operand.text for operand in op.operands)
    return Text(f"gl.minimum(gl.maximum({x}, {low}), {high})")


def _compare(op: Elementwise) -> Text:
    if op.attributes.get("unordered") is not None:
        raise exc.NotInGluon("a comparison that holds for NaN has no printer for Gluon", hint="`--as cuda`")
    left, right = op.operands
    return Text(f"{left.within(OR)} {COMPARISONS[str(op.attributes['predicate'])]} {right.within(OR)}", COMPARE)


def _cast(op: Elementwise) -> Text:
    if op.element == op.result:
        return op.operands[0]
    if op.attributes.get("rounding"):
        raise exc.NotInGluon("a conversion that rounds towards zero has no printer for Gluon", hint="`--as cuda`")
    return Text(f"{op.operands[0].within(0)}.to(gl.{TYPES[op.result]})")


PRINTERS: dict[str, Printer] = {
    "add": _sign("+", SUM),
    "sub": _sign("-", SUM),
    "mul": _sign("*", PRODUCT),
    "fma": _fma,
    "neg": _neg,
    "div": _div,
    "rem": _sign("%", PRODUCT),
    "abs": _function("abs"),
    "floor": _function("floor"),
    "ceil": _function("ceil"),
    "max": _extremum,
    "min": _extremum,
    "clamp": _clamp,
    "exp": _exact("exp", "accurate"),
    "exp2": _function("exp2"),
    "log": _function("log"),
    "log2": _function("log2"),
    "sqrt": _exact("sqrt", "rounding"),
    "rsqrt": _function("rsqrt"),
    "sin": _function("sin"),
    "cos": _function("cos"),
    "erf": _function("erf"),
    "cast": _cast,
    "compare": _compare,
    "select": _function("where"),
    "and": _sign("&", AND),
    "or": _sign("|", OR),
    "xor": _sign("^", XOR),
    "shl": _sign("<<", SHIFT),
    "shr": _sign(">>", SHIFT),
}
