"""What each arithmetic operation, view, reduction and product of Triton's IR becomes.

A rule takes an operation and gives what its results are: value ids, or literals where everything
is known now. None: this form of the operation is not supported.
"""

from __future__ import annotations

import math
from math import prod

from twill.tile.interpret.arrays import np
from twill.tile.mlir import Dense, RawOp
from twill.tile.program import Attribute, TileType
from twill.tile.translate.block_scales import dot_scaled
from twill.tile.translate.branches import choose
from twill.tile.translate.builder import Literal, Made, ProgramBuilder
from twill.tile.translate.elementwise import Rule, elementwise, emit
from twill.tile.translate.folds import moved
from twill.tile.translate.inline_asm import inline_asm
from twill.tile.translate.libdevice import libdevice, multiply_high
from twill.tile.translate.reductions import reduce, scan


def view(kind: str, *names: str) -> Rule:
    """A view: `names` are the MLIR attributes it keeps. A view of a literal is a literal."""

    def rule(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
        literal = emitter.literal(op.operands[0])
        if literal and len(op.operands) == 1:
            return tuple(Literal(literal.number, result.type) for result in op.results)
        return emit(op, emitter, kind, {name: op.attributes[name] for name in names})

    return rule


def source(kind: str, *names: str) -> Rule:
    """An operation without operands that keeps its attributes `names`."""
    return lambda op, emitter: emit(op, emitter, kind, {name: op.attributes[name] for name in names})


def constant(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """A scalar, or a tile whose elements are all the same."""
    value = op.attributes["value"]
    number = value.value if isinstance(value, Dense) else value
    return None if number is None else (Literal(number, op.results[0].type),)


def poison(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """A value that nothing may depend on: zero is one of its values."""
    kind = op.results[0].type
    return (Literal(0 if kind.element.startswith("i") else 0.0, kind),)


SIGNED = {"s": 1, "u": 0}
INTEGER_PREDICATES = ("eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge")
FLOAT_PREDICATES = ("false", "oeq", "ogt", "oge", "olt", "ole", "one", "ord",
                    "ueq", "ugt", "uge", "ult", "ule", "une", "uno", "true")  # fmt: skip


def compare_integers(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`arith.cmpi`: predicate, and whether the operands are signed (1 where it makes no difference)."""
    predicate = INTEGER_PREDICATES[op.attributes["predicate"]]
    signed = SIGNED.get(predicate[0], 1)
    return elementwise("compare", predicate=predicate[-2:], signed=signed)(op, emitter)


def compare_floats(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`arith.cmpf`. unordered: the answer if an operand is NaN, where it is not Python's own."""
    predicate = FLOAT_PREDICATES[op.attributes["predicate"]]
    if predicate in ("false", "true", "ord", "uno"):
        return None
    name, unordered = predicate[1:], int(predicate.startswith("u"))
    usual = int(name == "ne")
    attributes: dict[str, Attribute] = {} if unordered == usual else {"unordered": unordered}
    return elementwise("compare", predicate=name, **attributes)(op, emitter)


def subtract_floats(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`arith.subf`. Minus zero less x is a negation. (Triton 3.6 spells `-x` as `0 - x`, and that is what it computes:
    of zero it is zero, where the negation of Triton 3.9 gives minus zero.)
    """
    minuend = emitter.literal(op.operands[0])
    if minuend and minuend.number == 0 and math.copysign(1, minuend.number) < 0:
        return emitter.emit(op, "neg", (emitter.value(op.operands[1]),), (op.results[0].type,))
    return elementwise("sub")(op, emitter)


def select(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`arith.select condition x y`; of scalar pointers, too."""
    if not op.results[0].type.element.startswith("ptr:") or op.results[0].type.shape:
        return elementwise("select")(op, emitter)
    condition, first, second = op.operands
    sides = (emitter.made(first), emitter.made(second))
    return (choose(op, emitter, emitter.value(condition), sides, op.results[0]),)


def float_cast(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.fp_to_fp`: rounds to nearest even unless attribute rounding says "rtz" (towards zero)."""
    if op.attributes.get("rounding") != 0:
        return elementwise("cast")(op, emitter)
    if (emitter.type_of(op.operands[0]).element, op.results[0].type.element) not in TOWARDS_ZERO:
        return None
    return elementwise("cast", rounding="rtz")(op, emitter)


# What Triton compiles to one instruction (and f8e5m2 to two).
TOWARDS_ZERO = frozenset({("f32", "bf16"), ("f32", "f16"), ("f32", "f8e5m2")})


def bitcast(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.bitcast`. A pointer becomes one to elements that are held alike: truth values as bytes, 32 and 64 bits as
    numbers of either kind, which is how Triton spells the atomic maximum and minimum of floats."""
    source, result = emitter.type_of(op.operands[0]).element, op.results[0].type.element
    if source.startswith("ptr:") and not any(alike >= {source[4:], result[4:]} for alike in SAME_BITS):
        return None
    return elementwise("bitcast")(op, emitter)


def clamp(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.clampf x low high`."""
    attributes: dict[str, Attribute] = {"propagate_nan": 1} if op.attributes.get("propagateNan") else {}
    return elementwise("clamp", **attributes)(op, emitter)


# Elements that a pointer may be cast between: what is in memory is what is in registers.
SAME_BITS = (frozenset({"i1", "i8"}), frozenset({"i32", "f32"}), frozenset({"i64", "f64"}))

BATCH = 16  # products that are written out one after the other

PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def dot(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...] | None:
    """`tt.dot a b c` of matrices, or of several. The precision matters for f32 operands only; others are exact."""
    left = emitter.type_of(op.operands[0])
    if len(left.shape) not in (2, 3) or (len(left.shape) == 3 and left.shape[0] > BATCH):
        return None
    asked = op.attributes.get("inputPrecision", 0)
    if asked not in range(len(PRECISIONS)):
        return None
    attributes: dict[str, Attribute] = {"precision": PRECISIONS[asked] if left.element == "f32" else "ieee"}
    if left.element.startswith("f8"):
        # Products that may be summed in less than f32 before they are added to the accumulator.
        attributes["imprecise"] = int(op.attributes.get("maxNumImpreciseAcc", 0))
    return emit(op, emitter, "dot", attributes) if len(left.shape) == 2 else batched(op, emitter, attributes)


def batched(op: RawOp, emitter: ProgramBuilder, attributes: dict[str, Attribute]) -> tuple[Made, ...]:
    """A product for each of the matrices that the first axis counts."""
    kind = op.results[0].type
    made: list[int] = []
    for number in range(kind.shape[0]):
        tiles = []
        for operand in op.operands:
            shape = emitter.type_of(operand).shape
            places = np.arange(prod(shape)).reshape(shape)[number]
            tiles.append(moved(op, emitter, (emitter.value(operand),), places))
        made += emitter.emit(op, "dot", tiles, (TileType(kind.shape[1:], kind.element),), tuple(attributes.items()))
    return (moved(op, emitter, tuple(made), np.arange(prod(kind.shape)).reshape(kind.shape)),)


def histogram(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """`tt.histogram x [mask]`. It is not defined for negative numbers, so short integers are read as unsigned."""
    operand, *mask = (emitter.value(one) for one in op.operands)
    kind = emitter.type_of(op.operands[0])
    if kind.element not in ("i32", "i64"):
        (operand,) = emitter.emit(op, "cast", (operand,), (TileType(kind.shape, "i32"),), (("signed", 0),))
    return emitter.emit(op, "histogram", (operand, *mask), (op.results[0].type,))


def split(op: RawOp, emitter: ProgramBuilder) -> tuple[Made, ...]:
    """`tt.split`: the two halves of the last axis, each a slice."""
    operand = emitter.value(op.operands[0])
    axis = len(emitter.type_of(op.operands[0]).shape) - 1
    return tuple(
        emitter.emit(op, "slice", (operand,), (result.type,), (("axis", axis), ("index", index)))[0]
        for index, result in enumerate(op.results)
    )


OPERATIONS: dict[str, Rule] = {
    "arith.constant": constant, "ub.poison": poison,
    "tt.get_program_id": source("program_id", "axis"), "tt.get_num_programs": source("num_programs", "axis"),
    "tt.make_range": source("range", "start", "end"),
    "tt.splat": view("splat"), "tt.broadcast": view("broadcast"), "tt.expand_dims": view("expand_dims", "axis"),
    "tt.reshape": view("reshape"), "tt.unsplat": view("reshape"), "tt.trans": view("transpose", "order"),
    "tt.join": view("join"), "tt.split": split,
    "arith.addi": elementwise("add"), "arith.addf": elementwise("add"),
    "arith.subi": elementwise("sub"), "arith.subf": subtract_floats,
    "arith.muli": elementwise("mul"), "arith.mulf": elementwise("mul"),
    "arith.divf": elementwise("div"), "tt.precise_divf": elementwise("div", rounding="rn"),
    "arith.divsi": elementwise("div", signed=1), "arith.divui": elementwise("div", signed=0),
    "arith.remf": elementwise("rem"),
    "arith.remsi": elementwise("rem", signed=1), "arith.remui": elementwise("rem", signed=0),
    "arith.negf": elementwise("neg"), "math.absf": elementwise("abs"), "math.absi": elementwise("abs"),
    "arith.maxnumf": elementwise("max"), "arith.maximumf": elementwise("max", propagate_nan=1),
    "arith.minnumf": elementwise("min"), "arith.minimumf": elementwise("min", propagate_nan=1),
    "arith.maxsi": elementwise("max", signed=1), "arith.maxui": elementwise("max", signed=0),
    "arith.minsi": elementwise("min", signed=1), "arith.minui": elementwise("min", signed=0),
    "arith.andi": elementwise("and"), "arith.ori": elementwise("or"), "arith.xori": elementwise("xor"),
    "arith.shli": elementwise("shl"),
    "arith.shrsi": elementwise("shr", signed=1), "arith.shrui": elementwise("shr", signed=0),
    "arith.cmpi": compare_integers, "arith.cmpf": compare_floats, "arith.select": select,
    "arith.extf": elementwise("cast"), "arith.truncf": elementwise("cast"), "tt.fp_to_fp": float_cast,
    "arith.sitofp": elementwise("cast", signed=1), "arith.uitofp": elementwise("cast", signed=0),
    "arith.fptosi": elementwise("cast", signed=1), "arith.fptoui": elementwise("cast", signed=0),
    "arith.extsi": elementwise("cast", signed=1), "arith.extui": elementwise("cast", signed=0),
    "arith.trunci": elementwise("cast", signed=1),
    "arith.bitcast": elementwise("bitcast"), "tt.bitcast": bitcast,
    "math.exp": elementwise("exp"), "math.exp2": elementwise("exp2"), "math.log": elementwise("log"),
    "math.log2": elementwise("log2"), "math.sqrt": elementwise("sqrt"),
    "tt.precise_sqrt": elementwise("sqrt", rounding="rn"),
    "math.rsqrt": elementwise("rsqrt"), "math.sin": elementwise("sin"), "math.cos": elementwise("cos"),
    "math.tanh": elementwise("tanh"), "math.erf": elementwise("erf"), "math.fma": elementwise("fma"),
    "math.floor": elementwise("floor"), "math.ceil": elementwise("ceil"), "tt.clampf": clamp,
    "tt.extern_elementwise": libdevice, "tt.elementwise_inline_asm": inline_asm, "tt.mulhiui": multiply_high,
    "tt.reduce": reduce, "tt.scan": scan, "tt.dot": dot, "tt.dot_scaled": dot_scaled,
    "tt.gather": view("gather", "axis"), "tt.histogram": histogram,
}  # fmt: skip
