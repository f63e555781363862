"""What a kernel says about alignment (`tl.multiple_of`) of pointers into memory that is looked up.

`tl.multiple_of(pointers, [16, 16])` says that the first pointer of each run is a multiple of 16 bytes: so are the
addresses of all rows, and with them the distance between rows and where the tile begins. Where that is one loaded
number (a stride, an address), it is written as a multiple, `number / 8 * 8`, which is the number itself wherever the
kernel keeps what it says; every pass behind this one sees it in the arithmetic.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace

from twill.tile.access.analysis import Analysis
from twill.tile.access.transport import BYTES
from twill.tile.access.value import ONE, AffineTile
from twill.tile.affine import Polynomial
from twill.tile.program import Loop, Op, TileProgram, TileType, Value
from twill.tile.tile_instances import renamed

DIVISIBLE = "divisible"  # an attribute of add_pointer: bytes


def with_promises(program: TileProgram) -> TileProgram:
    """The program with promised numbers as multiples, a power of two each."""
    if not any(dict(op.attributes).get(DIVISIBLE) for op in program.ops()):
        return program
    analysis = Analysis(program, frozenset()).run()
    found: dict[int, int] = {}
    for op in (item for item in program.body if isinstance(item, Op)):  # what holds wherever its numbers are known
        for symbol, divisor in _promised(analysis, op):
            found[symbol] = max(found.get(symbol, 1), divisor)
    makers = {result: op for op in program.body if isinstance(op, Op) for result in op.results}
    wanted = {symbol: divisor for symbol, divisor in found.items() if symbol in makers}
    return _as_multiples(program, wanted) if wanted else program


def _promised(analysis: Analysis, op: Op) -> Iterator[tuple[int, int]]:
    """The symbols that a pointer's alignment says something about, each with what it is a multiple of."""
    said = dict(op.attributes).get(DIVISIBLE)
    tile = analysis.forms.get(op.results[0]) if said else None
    own = {argument.name for argument in analysis.program.arguments if not argument.is_pointee}
    if not isinstance(tile, AffineTile) or not tile.base or tile.base in own or tile.terms:
        return
    size = BYTES[analysis.type_of(op.results[0]).element.partition(":")[2]]
    elements = int(str(said)) // size
    if elements < 2:
        return
    divisors = dict(analysis.scalars.divisors())
    for polynomial in (*(step for step in tile.steps if step != ONE), tile.origin):
        for symbol, divisor in _single(polynomial, elements, divisors):
            divisors[symbol] = math.lcm(divisors.get(symbol, 1), divisor)
            yield symbol, divisor


def _single(polynomial: Polynomial, elements: int, divisors: Mapping[int, int]) -> Iterator[tuple[int, int]]:
    """The one symbol of a multiple of `elements` whose term is not known to be one."""
    left = [
        (monomial, coefficient)
        for monomial, coefficient in polynomial.terms
        if Polynomial(((monomial, coefficient),)).divisor(divisors) % elements
    ]
    if len(left) == 1 and len(left[0][0]) == 1 and left[0][0][0][1] == 1:
        divisor = elements // math.gcd(elements, abs(left[0][1]))
        if divisor > 1:
            yield left[0][0][0][0], divisor


def _as_multiples(program: TileProgram, wanted: Mapping[int, int]) -> TileProgram:
    """The program in which each of these values is divided and multiplied, for all that reads it."""
    values, body = list(program.values), list[Op | Loop]()
    ids = max((op.id for op in program.ops()), default=0) + len(values) + len(program.body) + 1
    stands_for: dict[int, int] = {}

    def made(like: Op, kind: str, operands: tuple[int, ...], of: TileType, **attributes: int) -> int:
        nonlocal ids
        values.append(Value(len(values), of, like.name, like.line))
        ids += 1
        body.append(Op(ids, kind, operands, (values[-1].id,), tuple(attributes.items()), like.line, like.name))
        return values[-1].id

    for item in program.body:
        body += renamed((item,), stands_for)
        for value in (result for result in item.results if result in wanted) if isinstance(item, Op) else ():
            assert isinstance(item, Op)
            kind = program.type_of(value)
            divisor = made(item, "constant", (), kind, value=wanted[value])
            stands_for[value] = made(item, "mul", (made(item, "div", (value, divisor), kind, signed=1), divisor), kind)
    return replace(program, body=tuple(body), values=tuple(values))
