"""Integer arithmetic, comparisons and selections: of each instruction, a function that changes a state.

NotKnownError says that something it needs is not known.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twill.codegen.targets.hopper.timing.instruction import SassInstruction
from twill.codegen.targets.hopper.timing.operands import (
    CONSTANT_REGISTERS,
    MASK,
    P,
    Ports,
    State,
    Step,
    as_signed,
    is_predicate,
    known,
    pair,
    reader,
    register,
)  # fmt: skip


def add3(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """Up to three numbers, with carries out and in."""
    if "64" in one.modifiers:
        wide = [pair(token, constants) for token in place.tokens[:3]]
        low, high = place.writes[:2]

        def run64(state: State) -> None:
            total = sum(known(read(state)) for read in wide)
            state[low], state[high] = total & MASK, total >> 32 & MASK

        return run64
    numbers = [token for token in place.tokens if not is_predicate(register(token))]
    flags = [reader(t, constants) for t in place.tokens if is_predicate(register(t))] if "X" in one.modifiers else []
    plain = [reader(token.lstrip("-"), constants) for token in numbers]
    minus = [token.startswith("-") and register(token) is not None for token in numbers]
    values = [
        read if negative else reader(token, constants)
        for read, negative, token in zip(plain, minus, numbers, strict=True)
    ]
    target = [number for number in place.writes if number < P]
    carries = [number for number in place.writes if number >= P]

    def run(state: State) -> None:
        total = sum((read(state) or 0) for read in flags)
        for read, negative in zip(values, minus, strict=True):
            total += (known(read(state)) ^ MASK) + 1 if negative else known(read(state))
        for number in target:
            state[number] = total & MASK
        for number in carries:
            state[number] = total >> 32 & 1

    return run


def multiply_add(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """a * b + c; WIDE: 64 bits, HI: the upper half of them."""
    signed = "U32" not in one.modifiers
    wide, high = "WIDE" in one.modifiers, "HI" in one.modifiers
    a, b = (reader(token, constants) for token in place.tokens[:2])
    third = place.tokens[2] if len(place.tokens) > 2 else "RZ"
    c = pair(third, constants) if wide or high else reader(third, constants)
    carry = reader(place.tokens[3], constants) if "X" in one.modifiers and len(place.tokens) > 3 else None
    target = [number for number in place.writes if number < P]

    def run(state: State) -> None:
        x, y, z = known(a(state)), known(b(state)), known(c(state))
        product = as_signed(x) * as_signed(y) if signed else x * y
        total = product + z + ((carry(state) or 0) if carry else 0)
        if high:
            total >>= 32
        for number in target:
            state[number] = total & MASK
            total >>= 32

    return run


def lea(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """(a << s) + b; HI: the upper half of the shifted (c:a)."""
    numbers = [token for token in place.tokens if not is_predicate(register(token))]
    reads = [reader(token, constants) for token in numbers]
    flags = [reader(t, constants) for t in place.tokens if is_predicate(register(t))] if "X" in one.modifiers else []
    extend, upper = "SX32" in one.modifiers, "HI" in one.modifiers
    target = [number for number in place.writes if number < P]
    carries = [number for number in place.writes if number >= P]

    def run(state: State) -> None:
        values = [known(read(state)) for read in reads]
        a, b, shift = values[0], values[1], values[-1]
        if upper:
            wide = as_signed(a) if extend else a | (values[2] << 32)
            shifted = (wide << shift) >> 32 & MASK
        else:
            shifted = a << shift & MASK
        total = shifted + b + sum((read(state) or 0) for read in flags)
        for number in target:
            state[number] = total & MASK
        for number in carries:
            state[number] = total >> 32 & 1

    return run


def shift(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """A funnel shift of (c:a) by s."""
    left, upper = "L" in one.modifiers, "HI" in one.modifiers
    signed = "S32" in one.modifiers or "S64" in one.modifiers
    a, s, c = (reader(token, constants) for token in place.tokens[:3])
    (target,) = place.writes

    def run(state: State) -> None:
        low, shift, top = known(a(state)), known(s(state)) & 63, known(c(state))
        wide = low | (as_signed(top) if signed else top) << 32
        moved = wide << shift if left else wide >> shift
        state[target] = (moved >> 32 if upper else moved) & MASK

    return run


def logic(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """A table of eight rows for the bits of three numbers."""
    a, b, c = (reader(token, constants) for token in place.tokens[:3])
    table = int(place.tokens[3], 0)

    def run(state: State) -> None:
        value = _lookup(table, known(a(state)), known(b(state)), known(c(state)), MASK)
        for number in place.writes:
            state[number] = int(value != 0) if number >= P else value

    return run


def _lookup(table: int, a: int, b: int, c: int, mask: int) -> int:
    value = 0
    for row in range(8):
        if table >> row & 1:
            value |= (a if row & 4 else ~a) & (b if row & 2 else ~b) & (c if row & 1 else ~c)
    return value & mask


def predicate_logic(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """The same for predicates, with a table for each of two results."""
    reads = [reader(token, constants) for token in place.tokens[:3]]
    tables = [int(token, 0) for token in place.tokens[3:]]
    targets = [register(token) for token in one.operands[:2]]

    def run(state: State) -> None:
        a, b, c = ((read(state) or 0) for read in reads)
        for target, table in zip(targets, tables, strict=False):
            if target is not None and target not in CONSTANT_REGISTERS:
                state[target] = _lookup(table, a, b, c, 1)

    return run


_COMPARE: Mapping[str, Callable[[int, int], bool]] = {
    "GE": lambda a, b: a >= b, "GT": lambda a, b: a > b, "LE": lambda a, b: a <= b, "LT": lambda a, b: a < b,
    "EQ": lambda a, b: a == b, "NE": lambda a, b: a != b, "T": lambda a, b: True, "F": lambda a, b: False,
}  # fmt: skip


def compare(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """Sets its first predicate; EX: the upper halves, where the last predicate is what the lower ones said."""
    words = one.opcode.split(".")[1:]
    name = words[0]
    holds, signed = _COMPARE[name], "U32" not in words
    both = "AND" in words
    a, b = (reader(token, constants) for token in place.tokens[:2])
    third = reader(place.tokens[2], constants) if len(place.tokens) > 2 else None
    lower = reader(place.tokens[3], constants) if "EX" in words and len(place.tokens) > 3 else None
    first, second = (register(token) for token in one.operands[:2])

    def run(state: State) -> None:
        x, y = known(a(state)), known(b(state))
        found = holds(as_signed(x), as_signed(y)) if signed else holds(x, y)
        if lower is not None and x == y and name not in ("EQ", "NE"):
            found = bool(lower(state))
        elif lower is not None and name in ("EQ", "NE"):
            found = (found and bool(lower(state))) if name == "EQ" else (found or bool(lower(state)))
        other = bool(third(state)) if third is not None else both
        if first is not None and first not in CONSTANT_REGISTERS:
            state[first] = int(found and other) if both else int(found or other)
        if second is not None and second not in CONSTANT_REGISTERS:
            state[second] = int(not found and other) if both else int(not found or other)

    return run


def select(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """The first number if the predicate holds, else the second."""
    a, b, flag = (reader(token, constants) for token in place.tokens[:3])
    (target,) = place.writes or (None,)

    def run(state: State) -> None:
        if target is not None:
            state[target] = a(state) if flag(state) else b(state)

    return run


def extreme(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """The minimum if its predicate holds, else the maximum; VIADDMNMX: of a + b and c; with 3: of three."""
    signed = "U32" not in one.modifiers
    numbers = [reader(t, constants) for t in place.tokens if not is_predicate(register(t))]
    flag = next((reader(t, constants) for t in place.tokens if is_predicate(register(t))), None)
    adds = one.name == "VIADDMNMX"
    (target,) = place.writes

    def run(state: State) -> None:
        values = [known(read(state)) for read in numbers]
        if adds:
            values = [values[0] + values[1] & MASK, values[2]]
        pick = min if flag is None or flag(state) else max
        state[target] = (pick(as_signed(v) for v in values) if signed else pick(values)) & MASK

    return run
