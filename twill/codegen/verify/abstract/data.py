"""What the tensors of made-up launches hold: normal numbers, maxima that creep, and what operations tell apart."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Literal

from twill.reach import reach
from twill.tile.interpret.arithmetic import Array, rounded
from twill.tile.interpret.arrays import np
from twill.tile.program import TileProgram, loops_of, reads
from twill.tile.tile_instances import reached
from twill.tile.vocabulary import MMA

CREEP = 4.0  # what creeping floats grow to: maxima of a row then move by less than an exponent's 8 bits, and by more
FACTOR = 2.0**16  # in matrices: three of them and a long sum are far from the largest f32
EVERY = 4096  # elements of a tensor among which there is one of each awkward float

ROUNDS = frozenset({"floor", "ceil", "trunc", "rint", "round"})

LARGEST = {"f64": 1.7976931348623157e308, "f32": 3.4028234663852886e38, "f16": 65504.0, "bf16": 3.3895313892515355e38,
           "f8e4m3": 448.0, "f8e5m2": 57344.0}  # fmt: skip
LEAST = {"f64": 2.0**-1022, "f32": 2.0**-126, "f16": 2.0**-14, "bf16": 2.0**-126, "f8e4m3": 2.0**-6, "f8e5m2": 2.0**-14}
"""The least normal number of each type."""

Data = Literal["normal", "creeping", "awkward"]
"""normal: floats from a normal distribution, integers from 0 to 7. creeping: the floats grow from the start of each
tensor to its middle, so that maxima over a loop rise a little in some iterations and a lot in others, and shrink to its
end, so that what was summed up when they rose is not lost among what follows. awkward: NaN, infinities, -0.0, subnormal
numbers, the type's largest and halves of odd numbers among them; integers of all bits, where no address, bound or trip
count depends on them."""


def tensor(rng: np.random.Generator, size: int, element: str, scale: int, data: Data, free: bool) -> Array:
    """A tensor of data of a kind. scale: of normal floats. free: whether integers may be any."""
    made = random_tensor(rng, size, element, scale)
    if data == "creeping" and made.dtype.kind == "f":
        slope = 1 - np.abs(np.linspace(-1.0, 1.0, made.size, dtype=made.dtype))
        return rounded(made * (CREEP * slope), element)
    if data == "awkward" and made.dtype.kind == "f":
        return with_awkward_floats(rng, made, element)
    return of_all_bits(rng, made) if free else made


def random_tensor(rng: np.random.Generator, size: int, element: str, scale: int) -> Array:
    """Normal floats times `scale`; integers 0 to 7."""
    if element.startswith("i"):
        return rounded(rng.integers(0, 2 if element == "i1" else 8, size), element)
    return rounded(scale * rng.standard_normal(size, np.float32), element)


def scales(program: TileProgram) -> frozenset[str]:
    """Tensors of scales of blocks."""
    makers = program.makers
    operands = [operand for op in program.ops() if op.kind == "dot_scaled" for operand in op.operands[3:]]
    made_of = reach(operands, lambda of: makers[of].operands if of in makers and makers[of].access is None else ())
    accesses = (makers[one].access for one in made_of if one in makers)
    return frozenset(access.base for access in accesses if access is not None)


def of_scales(rng: np.random.Generator, size: int, element: str, data: Data) -> Array:
    """Scales: of type e8m0 (i8) powers of two about 1, or awkward ones, NaN among them, of which no product of two
    leaves f32; of type e4m3 positive numbers."""
    if element != "i8":
        return rounded(np.abs(rng.standard_normal(size, np.float32)) + 2.0**-6, element)
    low, high = (96, 159) if data == "awkward" else (120, 135)
    made = rng.integers(low, high, size).astype(np.uint8)
    if data == "awkward":
        made[::EVERY] = 0xFF
    return made.view(np.int8)


def with_awkward_floats(rng: np.random.Generator, made: Array, element: str) -> Array:
    """The tensor with a few NaN, infinities, -0.0, subnormal numbers, the largest ones, and halves of odd numbers."""
    largest, least = LARGEST[element], LEAST[element]
    awkward = (math.nan, math.inf, -math.inf, -0.0, 0.0, largest, -largest, least / 2, -least / 4, 0.5, -2.5)
    if not made.size:
        return made
    changed = made.copy()
    for value in awkward:
        places = rng.choice(made.size, -(-made.size // EVERY), replace=False)
        moved = math.isinf(value) and element == "f8e5m2"  # rounded it would be the largest number
        changed[places] = value if moved else rounded(np.full(places.size, value, made.dtype), element)
    return changed


def finite_in_products(program: TileProgram, arrays: Mapping[str, Array]) -> Mapping[str, Array]:
    """Of a program that multiplies matrices: tensors whose finite numbers are at most FACTOR. Whether products and sums
    of larger ones overflow on their way depends on the order and the width in which they are added: there is no one
    right result."""
    if not any(op.kind in MMA for op in program.ops()):
        return arrays
    return {name: _at_most(array, FACTOR) if array.dtype.kind == "f" else array for name, array in arrays.items()}


def _at_most(array: Array, largest: float) -> Array:
    return np.where(np.isfinite(array), np.clip(array, -largest, largest), array).astype(array.dtype)


def of_all_bits(rng: np.random.Generator, made: Array) -> Array:
    """Integers of which any bit may be set; truth values as they are."""
    if made.dtype.kind != "i":
        return made
    kind = np.iinfo(made.dtype)
    changed = rng.integers(kind.min, kind.max, made.size, made.dtype, endpoint=True)
    for number, value in enumerate((kind.min, kind.max, -1, 0, 1)):
        changed[number::EVERY] = value
    return changed


def tells_floats_apart(program: TileProgram) -> bool:
    """Whether an operation treats NaN, infinities, signs of zero, halves or sizes differently: it chooses, compares,
    rounds, converts to an integer or reads bits, as atomic extremes do; or works on floats whose infinities a
    conversion loses."""
    for op in program.ops():
        if any(program.type_of(value).element == "f8e5m2" for value in (*op.operands, *op.results)):
            return True
        floats = any(program.type_of(operand).element in LARGEST for operand in op.operands)
        chooses = op.kind in ("max", "min", "clamp", "compare") or dict(op.attributes).get("combine") in ("max", "min")
        converts = op.kind in ("cast", "bitcast") and program.type_of(op.results[0]).element.startswith("i")
        if (floats and (chooses or converts)) or op.kind in ROUNDS:
            return True
    return False


def free_integers(program: TileProgram) -> frozenset[str]:
    """Tensors of integers that no address, bound or trip count depends on."""
    loads = [op for op in program.ops() if op.access is not None and op.kind == "tile_load"]
    names = {
        op.access.base for op in loads if op.access is not None and op.access.element in ("i8", "i16", "i32", "i64")
    }
    return frozenset(name for name in names if not steers(program, name))


def steers(program: TileProgram, name: str) -> bool:
    """Whether an address, a bound or a trip count depends on what is loaded from a tensor."""
    loads = (op for op in program.ops() if op.access is not None and op.kind == "tile_load")
    loaded = {result for op in loads if op.access is not None and op.access.base == name for result in op.results}
    bounds = {value for loop in loops_of(program.body) for value in (loop.lower, loop.upper, loop.step)}
    addresses = {value for op in program.ops() for value in reads(op) if value not in op.operands}
    addresses |= {op.operands[position] for op in program.ops() for position in op.index_operands}
    return bool(reached(program.body, loaded) & (bounds | addresses))
