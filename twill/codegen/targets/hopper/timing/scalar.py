"""What instructions compute, for one lane of a warp, as far as branches, barriers and addresses depend on it.

A comparison with a number that is not known does not hold: running maxima do not move, which is what an iteration in
the middle of a loop mostly does.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping

from twill.codegen.targets.hopper.timing import arithmetic
from twill.codegen.targets.hopper.timing.instruction import SassInstruction
from twill.codegen.targets.hopper.timing.operands import (
    MASK,
    NotKnownError,
    P,
    Ports,
    Read,
    State,
    Step,
    as_signed,
    known,
    literal,
    pair,
    ports,
    reader,
)  # fmt: skip


def step(one: SassInstruction, constants: Mapping[int, int]) -> Step:
    """The instruction as a function that changes a state. What nobody has described makes what is not known."""
    place = ports(one)
    builder = _BUILDERS.get(one.name)
    if builder is None:
        return unknown(place)
    made = builder(one, place, constants)
    guard = guard_of(one)

    def run(state: State) -> None:
        if guard is not None and not guard(state):
            return
        try:
            made(state)
        except NotKnownError:
            for number in place.writes:
                state[number] = 0 if number >= P else None

    return run


def unknown(place: Ports) -> Step:
    """What it writes is not known."""
    numbers, flags = [n for n in place.writes if n < P], [n for n in place.writes if n >= P]

    def run(state: State) -> None:
        for number in numbers:
            state[number] = None
        for flag in flags:
            state[flag] = 0

    return run


def guard_of(one: SassInstruction) -> Read | None:
    """Whether it is executed; None if it always is."""
    return reader(one.guard[1:], {}) if one.guard else None


Builder = Callable[[SassInstruction, Ports, Mapping[int, int]], Step]


def _absolute(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    read = reader(place.tokens[0], constants)
    (target,) = place.writes

    def run(state: State) -> None:
        state[target] = abs(as_signed(known(read(state))))

    return run


def _copy(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """What it reads, as wide as what it writes."""
    token = place.tokens[0] if place.tokens else "RZ"
    if len(place.writes) == 2:
        wide = pair(token, constants)
        low, high = place.writes

        def both(state: State) -> None:
            value = wide(state)
            state[low], state[high] = (None, None) if value is None else (value & MASK, value >> 32)

        return both
    read = reader(token, constants)

    def run(state: State) -> None:
        for number in place.writes:
            state[number] = read(state) if number < P else 1

    return run


def _zero(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    if "SRZ" not in one.operands:
        return unknown(place)

    def run(state: State) -> None:
        for number in place.writes:
            state[number] = 0

    return run


def _vote(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """Of one lane: what it says."""
    read = reader(place.tokens[-1], constants)

    def run(state: State) -> None:
        for number in place.writes:
            state[number] = (read(state) or 0) if number >= P else None

    return run


def _elect(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """The lane that is followed is the one."""

    def run(state: State) -> None:
        for number in place.writes:
            state[number] = 1 if number >= P else 0

    return run


def _flags(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """P2R: the predicates of a mask as bits."""
    mask = literal(place.tokens[-1]) or 0
    (target,) = place.writes

    def run(state: State) -> None:
        state[target] = sum((state[P + bit] or 0) << bit for bit in range(7) if mask >> bit & 1)

    return run


def _float(bits: int) -> float:
    found: float = struct.unpack("<f", struct.pack("<I", bits & MASK))[0]
    return found


def _bits(value: float) -> int:
    found: int = struct.unpack("<I", struct.pack("<f", value))[0]
    return found


def _to_float(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    signed, up = not any(m.startswith("U32") for m in one.modifiers), "RP" in one.modifiers
    read = reader(place.tokens[0], constants)
    (target,) = place.writes

    def run(state: State) -> None:
        value = known(read(state))
        number = as_signed(value) if signed else value
        bits = _bits(float(number))
        state[target] = bits + 1 if up and _float(bits) < number else bits

    return run


def _to_integer(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    read = reader(place.tokens[0], constants)
    (target,) = place.writes

    def run(state: State) -> None:
        value = _float(known(read(state)))
        state[target] = 0 if math.isnan(value) else min(max(math.trunc(value), 0), MASK) if value >= 0 else MASK
        if value < 0:
            state[target] = math.trunc(value) & MASK

    return run


def _special(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """MUFU.RCP, which divisions of integers use; whatever else is data."""
    if "RCP" not in one.modifiers:
        return unknown(place)
    read = reader(place.tokens[0], constants)
    (target,) = place.writes

    def run(state: State) -> None:
        value = _float(known(read(state)))
        state[target] = _bits(1.0 / value if value else math.inf)

    return run


def _permute(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    a, chosen, b = (reader(token, constants) for token in place.tokens[:3])
    (target,) = place.writes

    def run(state: State) -> None:
        both = known(a(state)) | known(b(state)) << 32
        selector = known(chosen(state))
        value = 0
        for place_ in range(4):
            nibble = selector >> 4 * place_ & 15
            byte = both >> 8 * (nibble & 7) & 255
            value |= (0xFF if nibble & 8 and byte >> 7 else 0 if nibble & 8 else byte) << 8 * place_
        state[target] = value

    return run


def _shuffle(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """What the lane itself has: what control depends on is the same in all."""
    read = reader(place.tokens[0], constants)
    targets = [number for number in place.writes if number < P]

    def run(state: State) -> None:
        for number in targets:
            state[number] = read(state)

    return run


def _halves(one: SassInstruction, place: Ports, constants: Mapping[int, int]) -> Step:
    """HFMA2 R0, -RZ, RZ, 1, 0 is how two halves are made of nothing; whatever else it makes is data."""
    if one.operands[1:3] != ("-RZ", "RZ"):
        return unknown(place)
    high, low = (struct.unpack("<H", struct.pack("<e", float(token)))[0] for token in one.operands[3:5])
    (target,) = place.writes

    def run(state: State) -> None:
        state[target] = high << 16 | low

    return run


_BUILDERS: Mapping[str, Builder] = {
    **dict.fromkeys(("IADD3", "UIADD3", "VIADD"), arithmetic.add3),
    **dict.fromkeys(("IMAD", "UIMAD"), arithmetic.multiply_add),
    **dict.fromkeys(("LEA", "ULEA"), arithmetic.lea),
    **dict.fromkeys(("SHF", "USHF"), arithmetic.shift),
    **dict.fromkeys(("LOP3", "ULOP3"), arithmetic.logic),
    **dict.fromkeys(("PLOP3", "UPLOP3"), arithmetic.predicate_logic),
    **dict.fromkeys(("ISETP", "UISETP"), arithmetic.compare),
    **dict.fromkeys(("SEL", "USEL"), arithmetic.select),
    **dict.fromkeys(("VIMNMX", "VIMNMX3", "VIADDMNMX", "IMNMX"), arithmetic.extreme),
    **dict.fromkeys(("MOV", "UMOV", "R2UR", "LDC", "ULDC"), _copy),
    **dict.fromkeys(("VOTE", "VOTEU"), _vote),
    **dict.fromkeys(("ELECT", "USETMAXREG"), _elect),
    **dict.fromkeys(("I2F", "I2FP"), _to_float),
    "IABS": _absolute, "CS2R": _zero, "P2R": _flags, "F2I": _to_integer, "MUFU": _special, "PRMT": _permute,
    "SHFL": _shuffle, "HFMA2": _halves,
}  # fmt: skip
