"""Elementwise operations as C expressions: one small printer for each kind of `twill.tile.vocabulary`.

Operands are C expressions of `value_type`; so is the result, except that a result of a small float type may still
have to be rounded to it (`Computed.exact` says whether). Approximate functions are those that Triton itself uses.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from twill import exc
from twill.codegen.print.cuda.elements import SMALL, is_float, value_type
from twill.codegen.print.cuda.print_assembly import assembly_expression
from twill.codegen.warp.program import DIGITS, FACTOR, NORMAL, SUBNORMAL
from twill.tile.vocabulary import COMPARISONS, LIBRARY, MINUS, NEGATED, SLACK

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class ElementwiseOperation:
    """What a printer is given. operands: C expressions; elements: their types; result: type of the result."""

    kind: str
    operands: tuple[str, ...]
    elements: tuple[str, ...]
    result: str
    attributes: Attributes

    @property
    def on_floats(self) -> bool:
        """Whether the first operand is a float."""
        return is_float(self.elements[0])

    @property
    def wide(self) -> bool:
        """Whether the first operand has 64 bits."""
        return self.elements[0] in ("f64", "i64")

    @property
    def unsigned(self) -> bool:
        """Whether integers count as unsigned."""
        return not self.on_floats and not self.attributes.get("signed", 1)


@dataclass(frozen=True)
class Computed:
    """A C expression. exact: its value is one of the result's type."""

    text: str
    exact: bool = True


HALVES = ("f16", "bf16")
BF16_DIGITS, FLOAT_DIGITS = 8, 24  # of a significand

Printer = Callable[[ElementwiseOperation], str]


def print_elementwise(operation: ElementwiseOperation) -> Computed:
    """The expression. Errors: UnsupportedInKernel for a kind, or a type of it, that has no printer."""
    printer = PRINTERS.get(operation.kind)
    if printer is None:
        raise exc.UnsupportedInKernel(f"no CUDA for the operation '{operation.kind}' on {operation.elements}")
    text = printer(operation)
    exact = operation.result not in SMALL or operation.kind in _EXACT or _is_exact_cast(operation)
    return Computed(text, exact or (operation.kind == "fma" and operation.result in HALVES))


_EXACT = {"inline_asm", "neg", "abs", "max", "min", "clamp", "select", "bitcast", "floor", "ceil"}


def _is_exact_cast(operation: ElementwiseOperation) -> bool:
    return operation.kind == "cast" and (
        operation.elements[0] == operation.result or operation.attributes.get("rounding") == "rtz"
    )


# ---------------------------------------------------------------- arithmetic
def _arithmetic(sign: str, wrapping: str) -> Printer:
    """a sign b; integers wrap round."""

    def printer(op: ElementwiseOperation) -> str:
        left, right = op.operands
        if op.on_floats:
            return f"({left} {sign} {right})"
        if op.elements[0] in ("i32", "i64"):
            return f"{wrapping}({left}, {right})"
        if op.elements[0] == "i1":
            return f"(bool)(({left} {sign} {right}) & 1)"
        return f"({value_type(op.result)})({left} {sign} {right})"

    return printer


def _fma(op: ElementwiseOperation) -> str:
    a, b, c = op.operands
    match op.attributes.get(MINUS):
        case "product":
            a = _turned(a)
        case "summand":
            c = _turned(c)
    if op.result in HALVES:
        return f"fma_{op.result}({a}, {b}, {c})"
    if op.on_floats:
        return f"{'::fma' if op.wide else 'fmaf'}({a}, {b}, {c})"
    return f"wrap_add(wrap_mul({a}, {b}), {c})"


def _neg(op: ElementwiseOperation) -> str:
    x = op.operands[0]
    return f"({_turned(x)})" if op.on_floats else f"wrap_sub(({value_type(op.result)})0, {x})"


def _turned(x: str) -> str:
    """The negative; of a number that is negative itself, too."""
    return f"-({x})" if x.startswith("-") else f"-{x}"


def _abs(op: ElementwiseOperation) -> str:
    if op.on_floats:
        return f"{'::fabs' if op.wide else 'fabsf'}({op.operands[0]})"
    (x,) = op.operands
    return f"({x} < 0 ? {_turned(x)} : {x})"


def _div(op: ElementwiseOperation) -> str:
    if op.on_floats and not op.wide and op.operands[0] == "1.0f" and op.attributes.get(NORMAL):
        return f"rcp({op.operands[1]})"  # 1 ulp; quotients below 2^-126 become zero
    if op.on_floats:
        name = "div_rounded" if op.attributes.get("rounding") == "rn" else "div_full"
        return f"({op.operands[0]} / {op.operands[1]})" if op.wide else f"{name}({', '.join(op.operands)})"
    return _signed_as_said(op, "/")


def _rem(op: ElementwiseOperation) -> str:
    if op.on_floats:
        return f"{'::fmod' if op.wide else 'fmodf'}({', '.join(op.operands)})"
    return _signed_as_said(op, "%")


def _signed_as_said(op: ElementwiseOperation, sign: str) -> str:
    """Integers, as unsigned where the attribute says so; the result has the type of the operands."""
    left, right = op.operands
    kind = value_type(op.result)
    if not op.unsigned:
        return f"({left} {sign} {right})" if kind in ("i32", "i64") else f"({kind})({left} {sign} {right})"
    return f"({kind})({_unsigned(op, left)} {sign} {_unsigned(op, right)})"


def _unsigned(op: ElementwiseOperation, text: str) -> str:
    return f"({_UNSIGNED[op.elements[0]]}){text}" if op.elements[0] in _UNSIGNED else text


_UNSIGNED = {"i8": "u8", "i16": "u16", "i32": "u32", "i64": "u64"}


def _extremum(name: str) -> Printer:
    """max or min. Of a float and NaN it is the float, unless attribute propagate_nan is set."""

    def printer(op: ElementwiseOperation) -> str:
        left, right = op.operands
        if SLACK in op.attributes:
            slack = f"{float(op.attributes[SLACK])!r}{'' if op.wide else 'f'}"
            return f"({right} > {left} + {slack} ? {right} : {left})"
        if op.on_floats:
            return _float_extremum(op, name, left, right)
        sign, compared = ">" if name == "max" else "<", (left, right)
        if op.unsigned:
            compared = (_unsigned(op, left), _unsigned(op, right))
        return f"({compared[0]} {sign} {compared[1]} ? {left} : {right})"

    return printer


def _float_extremum(op: ElementwiseOperation, name: str, left: str, right: str) -> str:
    if op.wide:
        return f"{name}_nan({left}, {right})" if op.attributes.get("propagate_nan") else f"::f{name}({left}, {right})"
    return f"{name}_nan({left}, {right})" if op.attributes.get("propagate_nan") else f"f{name}f({left}, {right})"


def _clamp(op: ElementwiseOperation) -> str:
    x, low, high = op.operands
    return _float_extremum(op, "min", _float_extremum(op, "max", x, low), high)


# ---------------------------------------------------------------- functions
def _function(single: str, double: str) -> Printer:
    """Those of f64 are called by names that values of the kernel may have, too."""
    return lambda op: f"{f'::{double}' if op.wide else single}({', '.join(op.operands)})"


def _exp(op: ElementwiseOperation) -> str:
    """Base 2 after one multiplication, as Triton's own, or libdevice's."""
    if op.attributes.get("accurate") and not op.wide:
        return f"expf({op.operands[0]})"
    return f"::exp({op.operands[0]})" if op.wide else f"{_ex2(op)}({op.operands[0]} * 1.4426950408889634f)"


def _exp2(op: ElementwiseOperation) -> str:
    return _function(_ex2(op), "exp2")(op)


def _ex2(op: ElementwiseOperation) -> str:
    return "ex2_subnormal" if op.attributes.get(SUBNORMAL) else "ex2"


def _erfc(op: ElementwiseOperation) -> str:
    """Short formulas, for results that are rounded to so many bits."""
    if op.wide:
        return f"::erfc({op.operands[0]})"
    if op.attributes.get(DIGITS, FLOAT_DIGITS) > BF16_DIGITS:
        return f"erfc_short({op.operands[0]})"
    twice = 2 * float(op.attributes.get(FACTOR, 1.0))
    return f"erfc_bf16({op.operands[0]}, {math.log2(twice)!r}f, {1 / twice!r}f)"


def _sqrt(op: ElementwiseOperation) -> str:
    """Approximate as Triton's own, or rounded."""
    single = "sqrtf" if op.attributes.get("rounding") == "rn" else "sqrt_fast"
    return _function(single, "sqrt")(op)


# ---------------------------------------------------------------- logic
def _compare(op: ElementwiseOperation) -> str:
    """Floats: with NaN false, except "ne"; attribute unordered says so where it is the other answer."""
    left, right = op.operands
    predicate = str(op.attributes["predicate"])
    if op.on_floats and op.attributes.get("unordered") is not None:
        if predicate == "ne":  # ordered and different
            return f"({left} < {right} || {left} > {right})"
        if predicate == "eq":
            return f"!({left} < {right} || {left} > {right})"
        return f"!({left} {COMPARISONS[NEGATED[predicate]]} {right})"
    if op.unsigned:
        left, right = _unsigned(op, left), _unsigned(op, right)
    return f"({left} {COMPARISONS[predicate]} {right})"


def _logic(sign: str) -> Printer:
    return lambda op: f"({value_type(op.result)})({op.operands[0]} {sign} {op.operands[1]})"


def _shl(op: ElementwiseOperation) -> str:
    return f"({value_type(op.result)})({_unsigned(op, op.operands[0])} << {op.operands[1]})"


def _shr(op: ElementwiseOperation) -> str:
    left = _unsigned(op, op.operands[0]) if op.unsigned else op.operands[0]
    return f"({value_type(op.result)})({left} >> {op.operands[1]})"


def _select(op: ElementwiseOperation) -> str:
    condition, yes, no = op.operands
    return f"({condition} ? {yes} : {no})"


# ---------------------------------------------------------------- conversions
def _cast(op: ElementwiseOperation) -> str:
    (x,), (source,), result = op.operands, op.elements, op.result
    if source == result:
        return x
    if op.attributes.get("rounding") == "rtz" and result in ("bf16", "f16", "f8e5m2"):
        return f"truncate_{SMALL[result]}({x})"
    if op.attributes.get("rounding") == "rtz" and result in SMALL:
        raise exc.UnsupportedInKernel(f"no CUDA for a conversion to {result} that rounds towards zero")
    if is_float(source):
        return _from_float(op, x, result)
    if source == "i1" and op.attributes.get("signed", 1) and result != "i1":
        return f"({value_type(result)})-(i32){x}"
    if result == "i1":
        return f"(bool)({x} & 1)"
    number = _unsigned(op, x) if op.unsigned else x
    if source in ("i8", "i16") and value_type(result) == "float":
        return f"short_to_float({number})"
    return f"({value_type(result)}){number}"


def _from_float(op: ElementwiseOperation, x: str, result: str) -> str:
    if is_float(result):
        same = value_type(op.elements[0]) == value_type(result)
        return x if same else f"({value_type(result)}){x}"
    if result == "i1":
        return f"({x} != 0)"
    signed = op.attributes.get("signed", 1)
    if result in ("i8", "i16"):
        return f"({value_type(result)}){'to_s16' if signed else 'to_u16'}({x})"
    return f"({value_type(result)}){x}" if signed else f"({value_type(result)})({_UNSIGNED[result]}){x}"


def _bitcast(op: ElementwiseOperation) -> str:
    (x,), (source,), result = op.operands, op.elements, op.result
    if source == result:
        return x
    to_bits = _TO_BITS.get(source, "")
    from_bits = _FROM_BITS.get(result, f"({value_type(result)})")
    return f"{from_bits}({to_bits}({x}))"


_TO_BITS = {"f32": "__float_as_int", "f64": "__double_as_longlong", **{e: f"bits_{name}" for e, name in SMALL.items()}}
_FROM_BITS = {"f32": "__int_as_float", "f64": "__longlong_as_double",
              **{e: f"from_bits_{name}" for e, name in SMALL.items()}}  # fmt: skip

PRINTERS: dict[str, Printer] = {
    "add": _arithmetic("+", "wrap_add"),
    "sub": _arithmetic("-", "wrap_sub"),
    "mul": _arithmetic("*", "wrap_mul"),
    "fma": _fma,
    "neg": _neg,
    "div": _div,
    "rem": _rem,
    "abs": _abs,
    "floor": _function("floor_fast", "floor"),
    "ceil": _function("ceil_fast", "ceil"),
    **{kind: _function(f"{kind}f", kind) for kind in ("trunc", "rint", "round", "pow", *LIBRARY)},
    "max": _extremum("max"),
    "min": _extremum("min"),
    "clamp": _clamp,
    "exp": _exp,
    "exp2": _exp2,
    "log": _function("logf", "log"),
    "log2": _function("log2f", "log2"),
    "sqrt": _sqrt,
    "rsqrt": _function("rsqrt_fast", "rsqrt"),
    "sin": _function("sinf", "sin"),
    "cos": _function("cosf", "cos"),
    "tanh": _function("tanhf", "tanh"),
    "erf": _function("erff", "erf"),
    "erfc": _erfc,
    "cast": _cast,
    "bitcast": _bitcast,
    "compare": _compare,
    "select": _select,
    "and": _logic("&"),
    "or": _logic("|"),
    "xor": _logic("^"),
    "shl": _shl,
    "shr": _shr,
    "inline_asm": lambda op: assembly_expression(op.attributes, op.operands),
}
