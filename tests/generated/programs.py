"""Strategies: kernels of a few loads, operations that suit what is there, and stores."""

from __future__ import annotations

import math
from collections.abc import Callable
from random import Random
from typing import Any

from hypothesis import strategies as st

from tests.generated.values import DTYPES, FLOATS, FP8, HALVES, INTEGERS, Kind
from tests.generated.writer import INDENT, Input, Program, Tile, Writer

Draw = Random
Step = Callable[[Draw, Writer], Tile | None]

WIDTH = {"i1": 1, "fp16": 16, "bf16": 16, "fp32": 32, "fp64": 64, "fp8e4nv": 8, "fp8e5": 8,
         **{name: int(name[1:]) for name in INTEGERS}}  # fmt: skip
LANGUAGE = {"i1": "tl.int1", "fp16": "tl.float16", "bf16": "tl.bfloat16", "fp32": "tl.float32", "fp64": "tl.float64",
            "fp8e4nv": "tl.float8e4nv", "fp8e5": "tl.float8e5",
            **{name: f"tl.{'u' if name[0] == 'u' else ''}int{name[1:]}" for name in INTEGERS}}  # fmt: skip
SINGLE = ("fp32", "fp64")
ARITHMETIC = (*INTEGERS, *FLOATS)
SHAPES = ((64,), (128,), (16, 16), (8, 16), (32, 4))
ALL = "tl.PropagateNan.ALL"
LIBRARY = ("log1p", "expm1", "log10", "exp10", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh", "atanh",
           "cbrt", "rint", "round", "trunc")  # fmt: skip
LIBRARY_OF_TWO = ("pow", "atan2", "hypot")
HELPERS = f"""@triton.jit
def whole_max(a, b):
    return tl.maximum(a, b, propagate_nan={ALL})


@triton.jit
def whole_min(a, b):
    return tl.minimum(a, b, propagate_nan={ALL})


@triton.jit
def largest(a, b):
    return tl.maximum(a, b)


@triton.jit
def both(a, b):
    return a & b


@triton.jit
def either(a, b):
    return a | b


"""


def pick(draw: Draw, writer: Writer, dtypes: tuple[str, ...], **wanted: Any) -> Tile | None:
    """A tile of one of the types; None if there is none. wanted: fields that must be so."""
    good = [
        tile for tile in writer.tiles
        if tile.dtype in dtypes and tile.exact and all(getattr(tile, name) == value for name, value in wanted.items())
    ]  # fmt: skip
    return draw.choice(good[-6:]) if good else None


def partner(draw: Draw, writer: Writer, tile: Tile) -> str:
    """Another operand for a tile of its type: a tile of its shape, or a number."""
    same = [t for t in writer.tiles if (t.dtype, t.shape) == (tile.dtype, tile.shape) and t.exact][-4:]
    choices: list[str] = [t.name for t in same]
    if tile.dtype in INTEGERS:
        choices += ["1", "7"] + ([] if tile.dtype[0] == "u" else ["-3"])
    if tile.dtype in FLOATS:
        choices += ["0.1", "-2.0", "0.0", "65504.0"]
    return str(draw.choice(choices))


def cast(tile: Tile, dtype: str) -> str:
    """The text of a tile converted, if it has to be."""
    return tile.name if tile.dtype == dtype else f"{tile.name}.to({LANGUAGE[dtype]})"


# ---------------------------------------------------------------- elementwise
def unary(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, ARITHMETIC)
    if tile is None:
        return None
    choices = {"neg": "-{}", "abs": "tl.abs({})"}
    if tile.dtype in INTEGERS:
        choices |= {"not": "~{}"}
    if tile.dtype in SINGLE:
        choices |= {name: f"tl.{name}({{}})" for name in ("floor", "ceil", "sqrt", "rsqrt", "exp", "exp2", "log",
                                                         "log2", "sin", "cos", "erf")}  # fmt: skip
    if tile.dtype == "fp32":
        choices |= {"sqrt_rn": "tl.sqrt_rn({})"}
        choices |= {name: f"tl.extra.cuda.libdevice.{name}({{}})" for name in LIBRARY}
    name = draw.choice(sorted(choices))
    exact = name in ("neg", "abs", "not", "floor", "ceil", "sqrt_rn", "rint", "round", "trunc")
    return writer.let(choices[name].format(tile.name), tile.dtype, tile.shape, name, exact=exact)


def binary(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, ARITHMETIC)
    if tile is None:
        return None
    choices = {"add": "{} + {}", "sub": "{} - {}", "mul": "{} * {}", "rem": "{} % {}", "max": "tl.maximum({}, {})",
               "min": "tl.minimum({}, {})"}  # fmt: skip
    if tile.dtype in INTEGERS:
        choices |= {"div": "{} // {}", "shl": "{} << {}", "shr": "{} >> {}", "and": "{} & {}", "or": "{} | {}",
                    "xor": "{} ^ {}"}  # fmt: skip
    else:
        choices |= {"div": "{} / {}", "max_nan": f"tl.maximum({{}}, {{}}, propagate_nan={ALL})",
                    "min_nan": f"tl.minimum({{}}, {{}}, propagate_nan={ALL})"}  # fmt: skip
    if tile.dtype == "fp32":
        choices |= {"div_rn": "tl.div_rn({}, {})"}
        choices |= {name: f"tl.extra.cuda.libdevice.{name}({{}}, {{}})" for name in LIBRARY_OF_TWO}
    if tile.dtype in ("i32", "u32"):
        choices |= {"umulhi": "tl.umulhi({}, {})"}
    name = draw.choice(sorted(choices))
    other = partner(draw, writer, tile)
    operands = [tile.name, other]
    if draw.random() < 0.5:
        operands.reverse()
    if name == "div_rn" and other[0] not in "vx":
        operands = [tile.name, other]
    if name in ("shl", "shr"):  # by itself it is 0 for MLIR: by the width and more it may be anything
        amounts = [t for t in writer.tiles if t.loaded and (t.dtype, t.shape) == (tile.dtype, tile.shape) and t != tile]
        operands = [tile.name, draw.choice(amounts).name if amounts and tile.loaded else "3"]
    if name in ("div", "rem") and tile.dtype in INTEGERS:  # what a division by zero gives is not defined
        operands[1] = f"({operands[1]} | 1)"
    text = choices[name].format(*operands)
    if name in ("div", "rem") and tile.dtype in HALVES:  # which Triton computes in f32, and leaves so
        text = f"({text}).to({LANGUAGE[tile.dtype]})"
    return writer.let(text, tile.dtype, tile.shape, name, exact=name not in LIBRARY_OF_TWO)


def compare(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, ARITHMETIC)
    if tile is None:
        return None
    sign = draw.choice(["<", "<=", ">", ">=", "==", "!="])
    made = writer.let(f"{tile.name} {sign} {partner(draw, writer, tile)}", "i1", tile.shape)
    writer.made["compare", tile.dtype] += 1
    return made


def promoted(draw: Draw, writer: Writer) -> Tile | None:
    """Two types at once: Triton converts them to a common one."""
    tile = pick(draw, writer, ARITHMETIC)
    other = None if tile is None else pick(draw, writer, ARITHMETIC, shape=tile.shape)
    if tile is None or other is None:
        return None
    sign = draw.choice(["+", "-", "*", "<", ">=", "=="])
    dtype = draw.choice(["fp32", "i32", "fp64", "i64"]) if sign in "+-*" else "i8"
    text = f"({tile.name} {sign} {other.name}).to({LANGUAGE[dtype]})"
    return writer.let(text, dtype, tile.shape, "promoted")


def logic(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, ("i1",))
    other = None if tile is None else pick(draw, writer, ("i1",), shape=tile.shape)
    if tile is None or other is None:
        return None
    sign = draw.choice(["&", "|", "^"])
    return writer.let(f"{tile.name} {sign} {other.name}", "i1", tile.shape, "logic")


def where(draw: Draw, writer: Writer) -> Tile | None:
    condition = pick(draw, writer, ("i1",))
    tile = None if condition is None else pick(draw, writer, DTYPES, shape=condition.shape)
    if condition is None or tile is None:
        return None
    other = partner(draw, writer, tile)
    return writer.let(f"tl.where({condition.name}, {tile.name}, {other})", tile.dtype, tile.shape, "where")


def ternary(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, FLOATS)
    if tile is None:
        return None
    second, third = partner(draw, writer, tile), partner(draw, writer, tile)
    choices = ["tl.fma({}, {}, {})", "tl.clamp({}, {}, {})", f"tl.clamp({{}}, {{}}, {{}}, propagate_nan={ALL})"]
    index = draw.randint(0, 2)
    text = f"{choices[index].format(tile.name, second, third)}.to({LANGUAGE[tile.dtype]})"  # numbers may widen it
    return writer.let(text, tile.dtype, tile.shape, ("fma", "clamp", "clamp_nan")[index])


def convertible(source: str, wanted: str) -> bool:
    """Whether Triton compiles the conversion for sm_90."""
    if source in FP8:
        return wanted in (*HALVES, "fp32")
    return wanted not in FP8 or source in (*HALVES, "fp32")


def conversion(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, DTYPES)
    if tile is None:
        return None
    dtype = draw.choice([one for one in DTYPES if one != tile.dtype and convertible(tile.dtype, one)])
    if (tile.dtype, dtype) in (("fp32", "bf16"), ("fp32", "fp16"), ("fp32", "fp8e5")) and draw.random() < 0.5:
        text = f'{tile.name}.to({LANGUAGE[dtype]}, fp_downcast_rounding="rtz")'
        return writer.let(text, dtype, tile.shape, f"cast rtz from {tile.dtype}")
    return writer.let(cast(tile, dtype), dtype, tile.shape, f"cast from {tile.dtype}")


def bitcast(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, INTEGERS) if draw.random() < 0.5 else pick(draw, writer, (*FLOATS, *FP8), loaded=True)
    if tile is None:
        return None
    same = [one for one in DTYPES if WIDTH[one] == WIDTH[tile.dtype] and one != tile.dtype]
    dtype = draw.choice(same)
    return writer.let(f"{tile.name}.to({LANGUAGE[dtype]}, bitcast=True)", dtype, tile.shape, "bitcast")


# ---------------------------------------------------------------- shapes
def view(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, DTYPES)
    if tile is None or not tile.shape:
        return None
    size = math.prod(tile.shape)
    known: dict[str, Any] = {"data": tile.data, "loaded": tile.loaded}
    if len(tile.shape) == 2:
        rows, columns = tile.shape
        if draw.random() < 0.5:
            return writer.let(f"tl.trans({tile.name})", tile.dtype, (columns, rows), "trans", **known)
        return writer.let(f"tl.reshape({tile.name}, [{size}])", tile.dtype, (size,), "reshape", **known)
    which = draw.choice(["reshape", "split", "broadcast", "join"])
    if which == "reshape":
        columns = min(16, size)
        shape = (size // columns, columns)
        text = f"tl.reshape({tile.name}, [{shape[0]}, {columns}])"
        return writer.let(text, tile.dtype, shape, "reshape", **known)
    if which == "join":
        other = pick(draw, writer, (tile.dtype,), shape=tile.shape)
        assert other is not None
        known = {"data": "made", "loaded": tile.loaded and other.loaded}
        return writer.let(f"tl.join({tile.name}, {other.name})", tile.dtype, (size, 2), "join", **known)
    if which == "split":
        first, second = writer.name("v"), writer.name("v")
        writer.line(f"{first}, {second} = tl.split(tl.reshape({tile.name}, [{size // 2}, 2]))")
        writer.tiles.append(Tile(first, tile.dtype, (size // 2,), **known))
        return writer.let(f"{second}", tile.dtype, (size // 2,), "split", **known)
    text = f"tl.broadcast_to({tile.name}[None, :], [4, {size}])"
    return writer.let(text, tile.dtype, (4, size), "broadcast", **known) if size <= 64 else None


def reduction(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, (*INTEGERS, *FLOATS))
    if tile is None or not tile.shape:
        return None
    choices = ["max", "min"]
    if tile.dtype in INTEGERS:
        choices += ["sum", "xor_sum", "both", "either", "max", "min"]
    elif tile.data in ("small", "moderate"):
        choices += ["sum", "sum", "sum"]
    if math.prod(tile.shape) <= 64 and tile.dtype in FLOATS:
        choices += ["whole_max", "whole_min"]
    elif math.prod(tile.shape) > 64:
        choices = [one for one in choices if one not in ("both", "either")]
    name = draw.choice(choices)
    axis = draw.randint(0, len(tile.shape) - 1)
    left = tuple(extent for number, extent in enumerate(tile.shape) if number != axis)
    if name in ("whole_max", "whole_min", "both", "either"):
        return writer.let(f"tl.reduce({tile.name}, {axis}, {name})", tile.dtype, left, f"reduce {name}")
    keep = draw.random() < 0.5 and len(tile.shape) == 2
    text = f"tl.{name}({tile.name}, {axis}{', keep_dims=True' if keep else ''})"
    dtype = tile.dtype
    if name in ("sum", "xor_sum", "max", "min") and WIDTH[dtype] < 32:
        text, dtype = (text, dtype) if name == "xor_sum" else (f"{text}.to({LANGUAGE[dtype]})", dtype)
    exact = tile.dtype in INTEGERS or tile.data == "small" or name in ("max", "min")
    if keep:
        text = f"tl.broadcast_to({text}, [{tile.shape[0]}, {tile.shape[1]}])"
        return writer.let(text, dtype, tile.shape, f"reduce {name}", exact=exact, data="sum" if not exact else "made")
    return writer.let(text, dtype, left, f"reduce {name}", exact=exact, data="sum" if not exact else "made")


def scan(draw: Draw, writer: Writer) -> Tile | None:
    tile = pick(draw, writer, (*INTEGERS, *FLOATS))
    if tile is None or not tile.shape:
        return None
    axis = draw.randint(0, len(tile.shape) - 1)
    reverse = ", reverse=True" if draw.random() < 0.5 else ""
    if math.prod(tile.shape) <= 64 and draw.random() < 0.5:
        combine = draw.choice(["largest", "whole_min"] if tile.dtype in FLOATS else ["largest", "both"])
        text = f"tl.associative_scan({tile.name}, {axis}, {combine}{reverse})"
        return writer.let(text, tile.dtype, tile.shape, f"scan {combine}")
    if tile.dtype in FLOATS and tile.data != "small":
        return None
    text = f"tl.cumsum({tile.name}, {axis}{reverse}).to({LANGUAGE[tile.dtype]})"
    return writer.let(text, tile.dtype, tile.shape, "scan sum")


# ---------------------------------------------------------------- products and loops
PRODUCTS = ("i8", "fp16", "bf16", "fp32", "fp8e4nv", "fp8e5", "fp64", "mixed fp8")
PRECISIONS = ("tf32", "tf32x3", "ieee", "bf16x3", "bf16x6")


def product(draw: Draw, writer: Writer) -> Tile | None:
    kind = draw.choice(PRODUCTS)
    left, right = ("fp8e4nv", "fp8e5") if kind == "mixed fp8" else (kind, kind)
    depth = 32 if WIDTH[left] == 8 else 16
    data: Kind = draw.choice(["small", "moderate"])
    a = writer.load(left, data, (16, depth), 16 * depth)
    b = writer.load(right, data, (depth, 16), depth * 16)
    total = {"i8": "i32", "fp64": "fp64"}.get(left, "fp32")
    if left == "fp16" and draw.random() < 0.5:
        total = "fp16"
    options = f", out_dtype={LANGUAGE[total]}"
    if left == "fp32":
        # Small integers are exact at every precision; for other numbers only what is exact is held to the error of f32.
        precision = draw.choice(PRECISIONS[:3] if data == "small" else ("ieee",))
        options += f', input_precision="{precision}"'
    if left in FP8 and draw.random() < 0.5:
        options += ", max_num_imprecise_acc=32"
    if draw.random() < 0.5:
        acc = writer.load(total, "small" if data == "small" else "moderate", (16, 16), 256)
        options = f", acc={acc.name}{options}"
    exact = data == "small" or total == "i32"
    made = writer.let(
        f"tl.dot({a.name}, {b.name}{options})", total, (16, 16), exact=exact, data="made" if exact else "sum"
    )
    writer.made[f"dot {left}", total] += 1
    return made


def loop(draw: Draw, writer: Writer) -> Tile | None:
    """A loop that goes through an array and carries one or two values."""
    dtype = draw.choice(ARITHMETIC)
    shape = draw.choice(SHAPES)
    size, trips = math.prod(shape), draw.randint(0, 4)
    array, carried, inner = writer.name("x"), writer.name("c"), writer.name("k")
    writer.inputs[array] = Input(dtype, "awkward", size * 12)
    index = writer.index(shape)
    step = draw.choice([1, 3])
    first = draw.choice([0, 2])
    last = first + trips * step - (step - 1 if trips else 0)
    if draw.random() < 0.5:
        bound = writer.name("n")
        writer.scalars[bound] = ("i32", last)
    else:
        bound = str(last)
    start = "0" if dtype in INTEGERS else draw.choice(["0.0", '-float("inf")', "1.0"])
    writer.line(f"{carried} = tl.full([{', '.join(map(str, shape))}], {start}, {LANGUAGE[dtype]})")
    second = writer.name("c") if draw.random() < 0.5 else ""
    if second:
        writer.line(f"{second} = tl.full([{', '.join(map(str, shape))}], 2, {LANGUAGE[dtype]})")
    writer.line(f"for {inner} in range({first}, {bound}, {step}):")
    sign = draw.choice(["{} + {}", "{} - {}", "tl.maximum({}, {})", "tl.where({1} > {0}, {1}, {0})", "{} * {}"])
    deeper = writer.indent + INDENT
    block = f"tl.load({array} + {inner} * {size} + {index})" if draw.random() < 0.5 else (
        f"(tl.load({array} + {index}) + {inner}).to({LANGUAGE[dtype]})"
    )  # fmt: skip
    writer.lines.append(f"{deeper}b{inner} = {block}")
    if second:
        writer.lines.append(f"{deeper}{second} = {carried}")
    writer.lines.append(f"{deeper}{carried} = {sign.format(carried, f'b{inner}')}")
    if second:
        writer.let(f"{second}", dtype, shape, "loop")
    return writer.let(f"{carried}", dtype, shape, "loop")


def number(draw: Draw, writer: Writer) -> Tile | None:
    """A scalar argument, alone or added to a tile."""
    dtype = draw.choice(["i32", "u32", "i64", "fp32"])
    name = writer.name("s")
    value = {"i32": -7, "u32": 4000000000, "i64": -(2**40) - 1, "fp32": 0.1}[dtype]
    writer.scalars[name] = (dtype, value)
    tile = pick(draw, writer, (dtype,))
    if tile is None:
        return writer.let(f"{name} + 1", dtype, (), "scalar")
    return writer.let(f"{tile.name} * {name}", dtype, tile.shape, "scalar")


STEPS: tuple[tuple[int, Step], ...] = (
    (5, unary), (8, binary), (3, compare), (3, promoted), (1, logic), (3, where), (3, ternary), (8, conversion),
    (3, bitcast), (3, view), (4, reduction), (2, scan), (1, number),
)  # fmt: skip
_WEIGHTED = [step for weight, step in STEPS for _ in range(weight)]


def programs() -> st.SearchStrategy[Program]:
    """Kernels, each from a number: choices are uniform, so that every operation meets every type."""
    return st.integers(0, 2**62).map(lambda number_of: program(Random(number_of)))


def program(draw: Draw) -> Program:
    """A kernel of one to three loads, up to six operations and up to four stores."""
    writer = Writer()
    shape = draw.choice(SHAPES)
    size = math.prod(shape)
    special = draw.choice(["", "", "", "", "dot", "loop"])
    dtype = draw.choice(DTYPES)
    for number_of in range(0 if special == "dot" else draw.randint(1, 3)):
        kind: Kind = draw.choice(["awkward", "awkward", "awkward", "small", "moderate"])
        one = dtype if number_of < 2 and draw.random() < 0.5 else draw.choice(DTYPES)
        text = ""
        if one not in FP8 and one != "i1" and draw.randint(0, 3) == 0:
            bound = writer.name("n")
            writer.scalars[bound] = ("i32", draw.choice([0, size - 3, size]))
            text = f", mask={writer.index(shape)} < {bound}, other={draw.choice([0, 1])}"
        writer.load(one, kind, shape, size, text)
    first = len(writer.tiles)
    if special:
        (product if special == "dot" else loop)(draw, writer)
    for _ in range(draw.randint(2, 6)):
        draw.choice(_WEIGHTED)(draw, writer)
    made = writer.tiles[first:] or writer.tiles
    for tile in made[-4:]:
        keep(writer, tile)
    return writer.program(HELPERS)


def keep(writer: Writer, tile: Tile) -> None:
    """Stores a tile, with what its values may differ by."""
    if tile.dtype == "i1":
        tile = writer.let(f"{tile.name}.to(tl.int8)", "i8", tile.shape, "cast from i1")
    if tile.data == "sum":
        writer.store(tile, scale=64.0)
    else:
        writer.store(tile, ulps=0 if tile.exact else 2)
