"""The closed vocabulary of tile operations: name, family, and the work each element costs.

Families: "source" (constants, grid indices, ranges), "view" (no work: the same elements in
another shape), "elementwise" (also on scalars), "reduce", "product", "raw access" (pointers and
descriptors as Triton spells them) and "access" (after `twill.tile.access.resolve`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SOURCES = ("constant", "program_id", "num_programs", "last_part", "range", "splat", "visited")
# constant: attribute value. program_id, num_programs: attribute axis. range: start, end.
# last_part: attribute axis. A scalar i1: whether this program instance has the sum of `sum_parts`.
# splat: scalar -> tile (a view of one element).
# visited: attribute index. The operand of that index of the `visit` of the program's walk, for this instance.

VIEWS = ("broadcast", "expand_dims", "reshape", "transpose", "slice", "join", "update")
# expand_dims: axis. transpose: order.
# amend: value amended condition -> `amended` if the uniform condition holds, else `value`. It is the value itself,
# changed where it is (`twill.tile.rewrite.loop_fusion`): `amended` is made of it by elementwise operations that
# nothing else reads.

LIBRARY = ("log1p", "expm1", "log10", "exp10", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
           "cbrt", "atan2", "hypot")  # fmt: skip
"""Functions of CUDA's library that are called by this name and are only computed with."""

# elementwise kind -> operation class without its element type; "" costs nothing.
ELEMENTWISE: dict[str, str] = {
    "add": "add", "sub": "add", "mul": "mul", "fma": "fma", "neg": "mul",
    "div": "div", "rem": "div", "abs": "logic", "floor": "round", "ceil": "round",
    **dict.fromkeys(("trunc", "rint", "round"), "round"),  # round: halves away from zero, rint: to even
    "max": "max", "min": "max", "exp": "exp2", "exp2": "exp2", "log": "log2", "log2": "log2",
    "sqrt": "sqrt", "rsqrt": "rsqrt", "sin": "sin", "cos": "sin", "tanh": "tanh", "erf": "erf",
    **dict.fromkeys(LIBRARY, "function"), "tan": "sin", **dict.fromkeys(("pow", "atan2", "hypot"), "pow"),
    "clamp": "max", "cast": "cast", "bitcast": "", "compare": "compare", "select": "select",
    "and": "logic", "or": "logic", "xor": "logic", "shl": "logic", "shr": "logic", "sum_parts": "add",
    "inline_asm": "logic",
}  # fmt: skip
# Attributes, where an operation has them; without: in brackets.
# div, rem, shr, max, min, compare of integers: signed 0/1 (1). cast: signed 0/1 (1), of the side that is an integer,
#   or of the narrower one of two; i1 as signed is 0 and -1.
# cast to a narrower float: rounding "rtz" (to nearest even). Casts to fp8 saturate.
# div, sqrt of f32: rounding "rn", to nearest (as exact as Triton's: div.full, 2 ulps, and sqrt.approx). f64 is rounded.
# exp of f32: accurate 1, libdevice's (as exact as Triton's: one multiplication by log2(e), then ex2.approx).
# exp2 of f32: natural 1, it stands for an exponential to base e, whose results below 2^-126 are not zero.
# max, min, clamp of floats: propagate_nan 1 (of a number and NaN: the number).
# max: slack: of a and b it is b where b > a + slack, else a (floats; without: the larger one).
# mul: often_one: an operand is a vector spread over the other, and often 1 in many rows; says nothing else.
# compare: predicate lt le gt ge eq ne. Of floats: unordered, the answer where one is NaN (0, for ne 1).
# A sum of a product of floats may be one fma, unless the program says that it has no fp fusion; fma is always one.
# fma of floats: minus "product" or "summand", which of the two counts with the other sign.
# exp and log cost one multiplication more than exp2 and log2.
# sum_parts of f32: attribute axis. The sum of the operands that the program instances have which differ along that axis
#   of the launch grid alone, in the order of their indices: in the instance that comes to it last, which is the one
#   whose `last_part` is true. In the others: anything. (`twill.tile.rewrite.split_k` writes it.)

# inline_asm: attributes text, constraints, pack, results and sources (element types, with commas) and output, which of
#   the results it is (`twill.ptx.inline`). What it costs is what its instructions do (`twill.graph.work`).

SLACK = "slack"
OFTEN_ONE = "often_one"
NATURAL = "natural"
MINUS = "minus"

REDUCE = ("reduce",)  # attributes axis, combine: add mul max min or and xor; of max and min: signed, propagate_nan
REARRANGE = ("rearrange", "gather")
HISTOGRAM = ("histogram",)
# operands of one type, counted through row by row, one behind the other; attributes first, extents, steps: element
# number e of the result is number first + Σ digit · step of them, with the digits of e in a row of extents, the last
# one fastest
# gather: source index; attribute axis. Along it, the element of the source that the index says; along the others, its
# own place. An index that the source has not is that of its last element.
# histogram: integers [mask] -> i32: element number n of the result is how many of them are n; of others (Triton:
# anything) there is no count.
SCAN = ("scan",)  # attributes axis, combine, reverse, signed, propagate_nan
UNPACKED = "e2m1"  # type of a tile of elements of 4 bits that have a place of 8 each (`tile.rewrite.unpacked_operands`)
MMA = ("dot", "dot_scaled")
# operands a b [c]; sums have the type of the result: f32, f16, f64 or i32 (i8 operands are signed)
# precision: of f32 operands "tf32" "tf32x3" "bf16x3" "bf16x6" "ieee"; others are exact: "ieee".
# imprecise: of fp8 operands, how many products may be summed in less than f32 before they go into the accumulator.
# dot_scaled: operands a b c and the scales of both; elements times their scales, summed in f32. a, b: types of elements
#   (e4m3, e5m2; e2m1, two in a byte of a tile of i8, or a tile of UNPACKED). block: elements along K that have one
#   scale. Scales of i8 are of type e8m0. layout: of scales "rows", [rows, blocks], or "chunks", as tensor cores copy
#   them (`twill.tile.interpret.block_scales`).

SCALAR_LOOP, COUNTED = "scalar_loop", "counted"
# operand... -> scalar...; attribute counted 1: its first argument counts to a number (0); a loop over scalars with its
# region (`twill.tile.scalar_region`), in which stand operations
# look_up: index [mask]; attributes base, element, pad. A number from a tensor that the kernel does not write.
ELECTED = "elected"
# operand... -> scalar...; what one thread does for the whole program instance, with its region: scalars with atomic
# operations among them, in a loop (a lock that is waited for) or once. Every access of memory in front of it is over
# before it begins, and none behind it begins before it is over.
ATOMIC = "atomic"
# in the region of one: index value... [mask] -> old; attributes base, element, combine (add max min and or xor xchg,
# cas: the number that is compared and the one that replaces it, load: no value, store), signed (1), order ("relaxed"
# "acquire" "release" "acq_rel"). Where the mask does not hold nothing is touched, and the old value is 0.

RAW_ACCESS = (
    "load",  # pointer [mask [other]]; elements that the mask leaves out are other, or anything
    "store",  # pointer value [mask]
    "atomic_add",  # pointer value [mask] -> old; attributes combine (add; max min and or xor; xchg), signed (1), order
    "add_pointer",  # pointer offset (elements)
    "make_descriptor",  # base shape... strides...; type desc; attribute padding "zero" "nan"
    "descriptor_load",  # desc index...
    "descriptor_store",  # desc value index...
    "descriptor_reduce",  # desc value index...; attributes combine add min max and or xor, signed (1)
)
# Attribute guarded 1, of each that touches memory: one operand more, a scalar i1, and nothing is touched where it is 0.
# What such a load gives there is anything.

ACCESS = (
    "tile_load",  # [mask]
    "tile_store",  # tile [mask]
    "tile_reduce",  # tile [mask] [-> old, 0 where it is not touched]; attributes combine, signed (1); order if old
)
VISIT = "visit"  # scalar...; in a walk (`twill.tile.walks`), where the work of an instance is done

# mask: what the bounds of the access do not say; elements where it is false are not touched either. A scalar i1 is the
# same for all of them: of a store, whether it is one.


def combining(attributes: Mapping[str, Any]) -> str:
    """How an access combines, from its attributes: "add", "max", "umax" of unsigned integers, ..."""
    name = str(attributes.get("combine", "add"))
    return f"u{name}" if name in ("max", "min") and not attributes.get("signed", 1) else name


# Operation classes on the transcendental units; every other class is arithmetic.
TRANSCENDENTAL = frozenset({"exp2", "log2", "sqrt", "rsqrt", "sin", "tanh", "erf", "div", "pow", "function"})

# Every operation class that a node's counts can name, "<class>.<element of the work>". Machine
# files price exactly these. 16-bit floats (f16, bf16) count as "f16"; i1, i8 and i16 as "i32".
# Transcendental work, division, rounding, reductions and scans of 16-bit floats count as "f32".
# "exp2_polynomial.f32" is no node's: machine files may price it, where exponentials may be split
# (`twill.graph.exponentials`).
# - add mul max compare select: one element each (compare: the element type of its operands)
# - fma: a multiplication whose only use is an addition of the same shape
# - cast: conversions. "f64" or "i64" if either side is one; else "f32" if either side is f32 or
#   one is an integer and the other a float; "f16" among 16- and 8-bit floats; "i32" among integers. Short integers
#   to floats count two of these (`twill.graph.work.cast_classes`)
# - logic: and or xor shl shr abs, per 32- or 64-bit word. round: floor ceil trunc rint round.
#   function: of CUDA's library, 20 to 50 instructions; pow: of twice as many
# - reduce_*, scan_*: per input element. *_add: sums and products. *_max: max and min. *_logic: and or xor
_WORK_ELEMENTS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(("add", "mul", "max", "compare", "select"), ("f64", "f32", "f16", "i64", "i32")),
    "fma": ("f64", "f32", "f16"),
    "cast": ("f64", "f32", "f16", "i64", "i32"),
    "logic": ("i64", "i32"),
    "div": ("f64", "f32", "i64", "i32"),
    **dict.fromkeys(("round", "exp2", "log2", "sqrt", "rsqrt", "sin", "tanh", "erf", "pow", "function"),
                    ("f64", "f32")),
    **dict.fromkeys(("reduce_add", "reduce_max", "scan_add", "scan_max"), ("f64", "f32", "i64", "i32")),
    **dict.fromkeys(("reduce_logic", "scan_logic"), ("i64", "i32")),
}  # fmt: skip

OPERATION_CLASSES: tuple[str, ...] = tuple(
    f"{name}.{element}" for name, elements in _WORK_ELEMENTS.items() for element in elements
)

COMPARISONS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}
"""Predicates of "compare", and how they are written."""
NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt"}
"""The order that holds where another one does not, of numbers."""
