"""How far a right program may be from the sequential one: the tile program run again with its roundings moved.

Two programs that mean the same round differently: sums are added up in another order, factors are collected, an
exponential has another base, running maxima stay behind, so that what is narrowed for an MMA falls elsewhere between
two numbers of the narrow type. Where each of that may happen, a *shaken* run makes an error of that size on purpose
(stochastic arithmetic: Vignes 1993; Parker, Monte Carlo arithmetic, 1997), and the rest of the program carries it on:
what cancels, what is amplified and what rounding absorbs is the program's own. How far the shaken run ends from the
plain one is the measure for any other run (`twill.codegen.verify.abstract.results`).

With e the unit of the type (2^-23 for f32), uniformly distributed in both directions:

    MMAs, quotients, roots, logarithms, ...     2 e of the result
    exp, exp2                                       e (2 + |operand|) of the result
    sums and differences                            e of both operands' sizes, up to `FARTHEST` (a constant that is far
                                                    larger is added for its rounding, which no rewriting may change)
    sums of n numbers, dot MMAs                 2 e of the Euclidean norm of what is added up, and what an MMA
                                                    in parts leaves out (`left_out`)
    an MMA with an accumulator of f16            a unit of f16: its rounding in full
    a narrow float that an MMA reads             that of 2^-u x, times 2^u, for u in [0, 1): its rounding in full

Program instances run in the opposite order, for what they add up in memory; what one of them adds to one address is
added in other orders (`ORDERS`), each sum rounded to the type.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import cache, partial
from types import MappingProxyType
from typing import Any

from twill.exc import UnknownProblem
from twill.reach import reach
from twill.tile.interpret import block_scales
from twill.tile.interpret.arithmetic import Array, rounded
from twill.tile.interpret.arrays import np
from twill.tile.interpret.atomics import in_turn
from twill.tile.interpret.elements import Elements, OutsideOfTensor, scatter, seen_as
from twill.tile.interpret.sequential import Instance, Order, one_each, visits, walked
from twill.tile.interpret.together import Alone, run_together
from twill.tile.interpret.widen import NARROW
from twill.tile.order_dependence import depends_on_order
from twill.tile.program import Loop, Op, TileProgram, TileType
from twill.tile.vocabulary import MMA

UNITS = {"f64": 2.0**-52, "f32": 2.0**-23}
NARROW_SUM = 2.0**-10  # a unit of f16, the narrow accumulator that MMAs have
FARTHEST = 2.0**12
OF_PARTS = {"tf32": (8, 1), "bf16x3": (8, 1), "bf16x6": (8, 2), "tf32x3": (11, 1)}
"""MMAs of f32 operands that are made of MMAs of their parts: (bits of a part, up to which order i + j MMAs
of part i of A and part j of B are added up). One of tf32 may be made as bf16x3 is, which is nearer to it."""
BITS = 24  # of a float32, which its parts hold together
ORDERS = 8  # in which a tile is added to addresses of several of its elements; the farthest counts
FEW = 16  # numbers of a tensor, of which one shaken run may move all by next to nothing
DRAWS = 4  # shaken runs then
SEVERAL = 8  # where a few elements of a tensor differ, and it is asked how far any may have been moved
SURE = 4.0  # so many times what a chunk was shaken, an element may be off for this; `results.WIDE` is twice that
SAME = frozenset({"tile_load", "load", "descriptor_load", "constant", "splat", "broadcast", "expand_dims", "reshape",
                  "transpose", "slice", "join", "rearrange", "gather", "update", "select", "max", "min", "clamp", "neg",
                  "abs", "floor", "ceil", "cast", "bitcast"})  # fmt: skip
"""Operations that give one of their operands, or round exactly."""
VIEWS = ("broadcast", "expand_dims", "reshape", "transpose", "slice", "join", "rearrange", "gather", "update")


def shaken_results(
    program: TileProgram,
    grid: Sequence[int],
    tensors: Mapping[str, Array],
    scalars: Mapping[str, int | float],
    narrowed: frozenset[int],
    plain: Mapping[str, Array],
    in_parts: Mapping[int, str] = MappingProxyType({}),
    cut: frozenset[int] = frozenset(),
    order: Order | None = None,
    several: bool = False,
) -> Mapping[str, Array]:
    """The tensors as a shaken run leaves them; of those of which a launch stores `FEW` numbers of f32 or f64 or less,
    each number as the one of `DRAWS` runs leaves it which ends the farthest. One run moves a single number by next to
    nothing now and then, and no neighbours say how far it might have been. several: so with all tensors of floats, in
    `SEVERAL` runs. tensors: as they are before the launch. plain: as the sequential run leaves them. Others as for
    `run_shaken`. Raises UnknownProblem if an address leaves its tensor for other roundings."""

    def drawn(draw: int) -> dict[str, Array]:
        arrays = {name: array.copy() for name, array in tensors.items()}
        try:
            run_shaken(program, grid, arrays, scalars, narrowed, in_parts, cut, order, draw)
        except OutsideOfTensor as outside:
            raise UnknownProblem(
                f"an address of `{program.kernel}` is computed from floats, and with other roundings it is outside of "
                f"its tensor: {outside}",
                file=program.file,
                hint="offsets and counts of integers, as *i32",
            ) from None
        return arrays

    found = drawn(0)
    few = [
        name
        for name, array in found.items()
        if (several and array.dtype.kind == "f") or is_few(array, tensors[name], plain[name])
    ]
    for other in map(drawn, range(1, SEVERAL if several else DRAWS if few else 1)):
        for name in few:
            with np.errstate(all="ignore"):  # infinities
                farther = np.abs(other[name] - plain[name]) > np.abs(found[name] - plain[name])
            found[name] = np.where(farther, other[name], found[name])
    return found


def is_few(shaken: Array, before: Array, plain: Array) -> bool:
    """Whether a tensor of f32 or f64 has a number that roundings move, and few that are stored."""
    if shaken.dtype not in (np.float32, np.float64) or np.array_equal(shaken, before, equal_nan=True):
        return False
    return bool(np.count_nonzero((plain != before) | (shaken != before)) <= FEW)


def run_shaken(
    program: TileProgram,
    grid: Sequence[int],
    tensors: Mapping[str, Array],
    scalars: Mapping[str, int | float],
    narrowed: frozenset[int],
    in_parts: Mapping[int, str] = MappingProxyType({}),
    cut: frozenset[int] = frozenset(),
    order: Order | None = None,
    draw: int = 0,
) -> None:
    """Every program instance, the last one first; what it stores goes to `tensors`. narrowed: conversions whose
    rounding is moved in full (`narrowed_for_products`, or none: then few of them fall on the other side). in_parts:
    lines whose MMAs are computed with another precision of `OF_PARTS` than they ask for. cut: as for `Instance`. order:
    as for `twill.tile.interpret.sequential.run`. draw: another number moves roundings otherwise."""
    noise = Noise(draw)
    with np.errstate(all="ignore"):
        if depends_on_order(program):  # of which another order may mean something else

            def shaken(index: tuple[int, int, int], turns: Alone) -> None:
                for at in walked(program, index, grid, tensors, scalars):
                    one = Shaken(program, index, grid, tensors, scalars, noise, narrowed, in_parts, cut, at)
                    one.turns = turns
                    one.run()

            every = order or one_each(grid)
            run_together([[partial(shaken, index) for index in cta] for cta in every.ctas], every.preempt)
            return
        for index, at in reversed([*visits(program, grid, tensors, scalars)]):
            Shaken(program, index, grid, tensors, scalars, noise, narrowed, in_parts, cut, at).run()


class Noise:
    """Numbers between -1 and 1, the same in each run of a program with the same `draw`."""

    def __init__(self, draw: int = 0) -> None:
        self.pool, behind = _pool()
        self.random = np.random.default_rng((2, draw) if draw else 2)
        if not draw:
            self.random.bit_generator.state = behind

    def __call__(self, shape: tuple[int, ...]) -> Array:
        """An array of them."""
        size = math.prod(shape)
        if size > self.pool.size // 2:
            return self.random.uniform(-1.0, 1.0, shape).astype(np.float32)
        first = int(self.random.integers(self.pool.size - size))
        return self.pool[first : first + size].reshape(shape)


@cache
def _pool() -> tuple[Array, Any]:
    """The first numbers of every run, and the generator's state behind them."""
    random = np.random.default_rng(2)
    pool = random.uniform(-1.0, 1.0, 1 << 18).astype(np.float32)
    pool.flags.writeable = False
    return pool, random.bit_generator.state


class Shaken(Instance):
    """A program instance whose roundings are moved. narrowed, in_parts: as for `run_shaken`."""

    def __init__(
        self,
        program: TileProgram,
        index: Sequence[int],
        grid: Sequence[int],
        tensors: Mapping[str, Array],
        scalars: Mapping[str, int | float],
        noise: Noise,
        narrowed: frozenset[int],
        in_parts: Mapping[int, str],
        cut: frozenset[int] = frozenset(),
        at: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(program, index, grid, tensors, scalars, cut, at=at)
        self.noise, self.narrowed, self.in_parts = noise, narrowed, in_parts

    def evaluate(self, op: Op, operands: list[Any], kind: TileType, attributes: dict[str, Any]) -> Any:
        """As it is, and off by what it may be off."""
        if op.id in self.narrowed:
            factor = np.exp2(np.abs(self.noise(kind.shape)))
            return super().evaluate(op, [operands[0] / factor], kind, attributes) * factor
        value = super().evaluate(op, operands, kind, attributes)
        if op.kind == "dot" and kind.element == "f16":
            return self.moved(value, NARROW_SUM * np.abs(value), "f16")
        if not op.results or kind.element not in UNITS or op.kind in SAME:
            return value
        if op.kind == "dot" and op.line in self.in_parts:
            attributes = {**attributes, "precision": self.in_parts[op.line]}
        size = error(op.kind, operands, value, attributes)
        return value if size is None else self.moved(value, UNITS[kind.element] * size, kind.element)

    def write(self, op: Op, tensor: str, element: str, elements: Elements, value: Array, combine: str) -> None:
        """As it is; where several elements are added to one address, each sum rounded, in that of a few orders which
        ends the farthest from one sum of all."""
        held = seen_as(self.tensors[tensor], element)
        address, inside = np.broadcast_arrays(*elements)
        count = int(np.count_nonzero(inside))
        if combine != "add" or held.dtype.kind != "f" or np.unique(address[inside]).size == count:
            super().write(op, tensor, element, elements, value, combine)
            return
        self.turns.changed()
        plain, first = held.copy(), held.copy()
        scatter(plain, (address, inside), value, combine, element)
        for number in range(ORDERS):
            in_turn(one := first.copy(), elements, value, element, self.noise.random.permutation(count))
            farther = np.abs(one - plain) > np.abs(held - plain)
            held[...] = np.where(farther, one, held) if number else one

    def moved(self, value: Array, size: Array, element: str) -> Array:
        """The value, off by at most `size`, where it is still finite then."""
        found = value + size * self.noise(np.shape(value))
        finite = np.isfinite(found)
        return rounded(found if np.count_nonzero(finite) == finite.size else np.where(finite, found, value), element)


def error(kind: str, operands: Sequence[Array], value: Array, attributes: Mapping[str, Any]) -> Array | None:
    """What an operation of f32 or f64 may be off by, in units of its type; None: nothing."""
    match kind:
        case "dot_scaled":
            left, right = block_scales.operands(operands, attributes)
            return error("dot", (left, right, operands[2]), value, {})
        case "dot":
            a, b = (np.asarray(operand, np.float32) for operand in operands[:2])
            rows, columns = np.sqrt(np.sum(a * a, -1)), np.sqrt(np.sum(b * b, -2))
            before = np.abs(operands[2]) if len(operands) > 2 else 0.0
            parts = left_out(str(attributes.get("precision"))) / SURE
            return (2 + parts) * rows[..., :, None] * columns[..., None, :] + before
        case "reduce" | "scan" if attributes["combine"] == "add":
            norm = np.sqrt(np.sum(np.square(operands[0]), attributes["axis"], keepdims=kind == "scan"))
            return 2 * np.broadcast_to(norm, np.shape(value))
        case "reduce" | "scan" if attributes["combine"] == "mul":
            return operands[0].shape[attributes["axis"]] * np.abs(value)
        case "reduce" | "scan":
            return None
        case "add" | "sub":
            return np.minimum(np.abs(operands[0]) + np.abs(operands[1]), FARTHEST)
        case "fma":
            return 2 * np.minimum(np.abs(operands[0] * operands[1]) + np.abs(operands[2]), FARTHEST)
        case "exp" | "exp2":
            return np.abs(value) * (2 + np.minimum(np.abs(operands[0]), FARTHEST))
    return 2 * np.abs(value)


def left_out(precision: str) -> float:
    """What a sum of MMAs of parts may be off by, for |a| |b| = 1, in units of f32; 0 where MMAs are whole.

    Part i of a number x, of b bits and rounded to nearest, is at most 2^(-b i) |x|, and of parts there are as many as
    hold all `BITS`. So the MMAs of order o that are not there are at most 2^(-b o) |x y| each, and there is one for
    each pair of parts: for bf16x3 3 * 2^-16 + 2 * 2^-24 + 2^-32, for bf16x6 2 * 2^-24 + 2^-32, for tf32x3 3 * 2^-22 +
    2 * 2^-33 + 2^-44. Summed over k that is no more than so many times |a| |b| (Cauchy-Schwarz), the norms that `error`
    is made in. It is the worst case of each element; in the mean the parts are a tenth of that, for they round at
    random. An element may be off by `SURE` times what was made off on purpose and more (`results.WIDE`), so a `SURE`th
    of the bound is.
    """
    if precision not in OF_PARTS:
        return 0.0
    bits, order = OF_PARTS[precision]
    parts = range(-(-BITS // bits))
    return sum(2.0 ** (BITS - 1 - bits * (i + j)) for i in parts for j in parts if i + j > order)


def narrowed_for_mmas(program: TileProgram) -> frozenset[int]:
    """Conversions to narrow floats of what the kernel has computed, for MMAs: which of two numbers each becomes
    depends on the last bits of what it was."""
    makers = program.makers
    computed = inexact(program)
    operands = [operand for op in program.ops() if op.kind in MMA for operand in op.operands[:2]]
    viewed = reach(operands, lambda of: makers[of].operands if of in makers and makers[of].kind in VIEWS else ())
    casts = (makers[one] for one in viewed if one in makers and makers[one].kind == "cast")
    return frozenset(
        op.id for op in casts if program.type_of(op.results[0]).element in NARROW and op.operands[0] in computed
    )


def inexact(program: TileProgram) -> set[int]:
    """Values that depend on what `error` is made in."""
    found: set[int] = set()
    carries = [carry for item in program.body if isinstance(item, Loop) for carry in item.carried]
    known = -1
    while known < len(found):
        known = len(found)
        for op in program.ops():
            floats = any(program.type_of(result).element in UNITS for result in op.results)
            if found.intersection(op.operands) or (floats and op.kind not in SAME):
                found.update(op.results)
        for carry in carries:
            if found.intersection((carry.init, carry.yielded)):
                found.update((carry.argument, carry.result))
    return found
