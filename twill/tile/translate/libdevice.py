"""Functions of CUDA's mathematical library, and what else of arithmetic is a few operations of the tile program."""

from __future__ import annotations

from twill.ptx.inline import InlineAsm
from twill.tile.mlir import RawOp
from twill.tile.program import Attribute, TileType
from twill.tile.translate.builder import Literal, Made, ProgramBuilder
from twill.tile.translate.elementwise import Rule, elementwise
from twill.tile.translate.inline_asm import attributes
from twill.tile.vocabulary import LIBRARY

# Functions, without __nv_, fast_ and the f of the f32 variant -> kind.
KINDS = {
    "exp": "exp", "exp2": "exp2", "log": "log", "log2": "log2", "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin",
    "cos": "cos", "tanh": "tanh", "erf": "erf", "fabs": "abs", "floor": "floor", "ceil": "ceil", "fma": "fma",
    "fmax": "max", "fmin": "min", "trunc": "trunc", "round": "round", "rint": "rint", "nearbyint": "rint",
    "fdivide": "div", "pow": "pow", **{kind: kind for kind in LIBRARY},
}  # fmt: skip

INTEGER_OF = {"f32": "i32", "f64": "i64"}  # of as many bits

# What tells libdevice's function from Triton's own of the same kind.
PRECISE: dict[str, dict[str, Attribute]] = {"exp": {"accurate": 1}}


def libdevice(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.extern_elementwise` of a function that the vocabulary has.

    libdevice reduces the range of its exponential; Triton's own does not, and neither does libdevice's fast one. The
    square root is Triton's, sqrt.approx.ftz, in both.
    """
    name = str(op.attributes.get("symbol", "")).removeprefix("__nv_")
    if name in RULES:
        return RULES[name](op, emitter)
    symbol = name.removeprefix("fast_")
    kind = KINDS.get(symbol) or KINDS.get(symbol.removesuffix("f"))
    if kind is None:
        return None
    return elementwise(kind, **(PRECISE.get(kind, {}) if symbol == name else {}))(op, emitter)


def rounded_to_integer(kind: str) -> Rule:
    """`kind` rounds to an integer, which is converted then (saturating, as all conversions)."""

    def rule(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
        operand = emitter.value(op.operands[0])
        (rounded,) = emitter.emit(op, kind, (operand,), (emitter.type_of(op.operands[0]),))
        return emitter.emit(op, "cast", (rounded,), (op.results[0].type,))

    return rule


def integer_power(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """x to the power of an integer: that of |x|, with the exponent as a float, and the sign of x where it is odd."""
    base, exponent = map(emitter.value, op.operands)
    kind, count = map(emitter.type_of, op.operands)
    truth, bits = TileType(kind.shape, "i1"), TileType(kind.shape, INTEGER_OF[kind.element])
    (size,) = emitter.emit(op, "abs", (base,), (kind,))
    (converted,) = emitter.emit(op, "cast", (exponent,), (kind,))
    (power,) = emitter.emit(op, "pow", (size, converted), (kind,))
    known = emitter.literal(op.operands[1])
    if known is not None and int(known.number) % 2 == 0:
        return (power,)
    (held,) = emitter.emit(op, "bitcast", (base,), (bits,))
    zero = emitter.constant(Literal(0, bits))
    (negative,) = emitter.emit(op, "compare", (held, zero), (truth,), (("predicate", "lt"),))
    if known is None:
        one, none = (emitter.constant(Literal(number, count)) for number in (1, 0))
        (last,) = emitter.emit(op, "and", (exponent, one), (count,))
        (odd,) = emitter.emit(op, "compare", (last, none), (truth,), (("predicate", "ne"),))
        (negative,) = emitter.emit(op, "and", (negative, odd), (truth,))
    (turned,) = emitter.emit(op, "neg", (power,), (kind,))
    return emitter.emit(op, "select", (negative, turned, power), (kind,))


def compared(predicate: str, bound: float) -> Rule:
    """Whether a float's magnitude compares so with a bound, as an integer 0 or 1."""

    def rule(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
        operand, kind = emitter.value(op.operands[0]), emitter.type_of(op.operands[0])
        (size,) = emitter.emit(op, "abs", (operand,), (kind,))
        limit = emitter.constant(Literal(bound, kind))
        truth = TileType(kind.shape, "i1")
        (answer,) = emitter.emit(op, "compare", (size, limit), (truth,), (("predicate", predicate),))
        return emitter.emit(op, "cast", (answer,), (op.results[0].type,), (("signed", 0),))

    return rule


def not_a_number(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """Whether a float is NaN, as an integer 0 or 1."""
    operand = emitter.value(op.operands[0])
    truth = TileType(op.results[0].type.shape, "i1")
    (answer,) = emitter.emit(op, "compare", (operand, operand), (truth,), (("predicate", "ne"),))
    return emitter.emit(op, "cast", (answer,), (op.results[0].type,), (("signed", 0),))


def multiply_high(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.mulhiui`: the upper half of an unsigned product of 32-bit integers."""
    kind = op.results[0].type
    if kind.element != "i32":
        return None
    wide = TileType(kind.shape, "i64")
    left, right = (
        emitter.emit(op, "cast", (emitter.value(operand),), (wide,), (("signed", 0),))[0] for operand in op.operands
    )
    (product,) = emitter.emit(op, "mul", (left, right), (wide,))
    by = emitter.constant(Literal(32, wide))
    (upper,) = emitter.emit(op, "shr", (product, by), (wide,), (("signed", 0),))
    return emitter.emit(op, "cast", (upper,), (kind,))


def by_instructions(text: str, constraints: str) -> Rule:
    """What instructions compute, as inline assembly."""

    def rule(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
        operands = [emitter.value(operand) for operand in op.operands]
        (kind,) = (result.type for result in op.results)
        sources = tuple(emitter.type_of(operand).element for operand in op.operands)
        asm = InlineAsm(text, constraints, 1, (kind.element,), sources)
        return emitter.emit(op, "inline_asm", operands, (kind,), attributes(asm, 0))

    return rule


def rounded_towards(rounding: str, result: str) -> Rule:
    """A float32 as an integer, saturating; Triton's libdevice reads subnormal numbers as 0."""
    letter = "l" if result.endswith("64") else "r"
    return by_instructions(f"cvt.{rounding}.ftz.{result}.f32 $0, $1;", f"={letter},f")


FIRST_SET = "{ .reg .b32 t; brev.b32 t, $1; bfind.shiftamt.u32 t, t; add.s32 $0, t, 1; }"
FIRST_SET_64 = "{ .reg .b64 u; .reg .b32 t; brev.b64 u, $1; bfind.shiftamt.u64 t, u; add.s32 $0, t, 1; }"
"""The first bit that is set, counted from 1; 0 if there is none."""
INSTRUCTIONS: dict[str, Rule] = {
    "popc": by_instructions("popc.b32 $0, $1;", "=r,r"), "popcll": by_instructions("popc.b64 $0, $1;", "=r,l"),
    "clz": by_instructions("clz.b32 $0, $1;", "=r,r"), "clzll": by_instructions("clz.b64 $0, $1;", "=r,l"),
    "brev": by_instructions("brev.b32 $0, $1;", "=r,r"), "brevll": by_instructions("brev.b64 $0, $1;", "=l,l"),
    "ffs": by_instructions(FIRST_SET, "=r,r"), "ffsll": by_instructions(FIRST_SET_64, "=r,l"),
    "mulhi": by_instructions("mul.hi.s32 $0, $1, $2;", "=r,r,r"),
    "umulhi": by_instructions("mul.hi.u32 $0, $1, $2;", "=r,r,r"),
    "byte_perm": by_instructions("prmt.b32 $0, $1, $2, $3;", "=r,r,r,r"),
    "copysignf": by_instructions("copysign.f32 $0, $2, $1;", "=f,f,f"),
    "saturatef": by_instructions("cvt.sat.f32.f32 $0, $1;", "=f,f"),
    **{f"float2{name}_{way}": rounded_towards(f"{rounding}i", kind)
       for name, kind in (("int", "s32"), ("uint", "u32"), ("ll", "s64"), ("ull", "u64"))
       for way, rounding in (("rd", "rm"), ("ru", "rp"), ("rz", "rz"))},
}  # fmt: skip

RULES: dict[str, Rule] = {
    **INSTRUCTIONS,
    "powif": integer_power, "powi": integer_power,
    "fdiv_rn": elementwise("div", rounding="rn"), "ddiv_rn": elementwise("div"),
    "fsqrt_rn": elementwise("sqrt", rounding="rn"),
    **dict.fromkeys(("llrintf", "llrint", "float2int_rn", "float2ll_rn"), rounded_to_integer("rint")),
    **dict.fromkeys(("llroundf", "llround"), rounded_to_integer("round")),
    **dict.fromkeys(("isnanf", "isnand"), not_a_number),
    **dict.fromkeys(("isinff", "isinfd"), compared("eq", float("inf"))),
    **dict.fromkeys(("finitef", "isfinited"), compared("lt", float("inf"))),
}  # fmt: skip
"""Functions that are not one operation of a tile program."""
