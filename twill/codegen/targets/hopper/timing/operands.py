"""Operands of instructions: registers that are written and read, and what is read from them.

Registers are numbers of 32 bits in one list: R0 to R255, UR0 to UR63, P0 to P7, UP0 to UP7. None is a number that is
not known: data, and whatever is made of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from twill.codegen.targets.hopper.timing.instruction import SassInstruction

State = list[int | None]
Read = Callable[[State], int | None]
Step = Callable[[State], None]

MASK = 0xFFFFFFFF
R, UR, P, UP = 0, 256, 320, 328  # where the registers of a kind begin in a state
COUNT = 336
RZ, URZ, PT, UPT = 255, UR + 63, P + 7, UP + 7
CONSTANT_REGISTERS = frozenset((RZ, URZ, PT, UPT))

_REGISTER = re.compile(r"(UR|UP|R|P)(\d+|Z|T)")
_FIRST = {"R": (R, RZ), "UR": (UR, URZ), "P": (P, PT), "UP": (UP, UPT)}


def start_state() -> State:
    """All unknown but the registers that are constants."""
    state: State = [None] * COUNT
    state[RZ] = state[URZ] = 0
    state[PT] = state[UPT] = 1
    return state


def register(text: str) -> int | None:
    """The register that an operand names, without its modifiers; None if it names none."""
    found = _REGISTER.fullmatch(text.lstrip("-!~|").split(".", 1)[0].rstrip("|"))
    if not found:
        return None
    kind, number = found.groups()
    first, last = _FIRST[kind]
    return first + int(number) if number.isdigit() else last


def is_predicate(number: int | None) -> bool:
    """Whether it is one of P and UP."""
    return number is not None and number >= P


@dataclass(frozen=True)
class Ports:
    """Registers that an instruction writes and reads. tokens: its operands that are read, in order."""

    writes: tuple[int, ...]
    reads: tuple[int, ...]
    tokens: tuple[str, ...]


_SETS_TWO = frozenset(("ISETP", "FSETP", "UISETP", "PLOP3", "UPLOP3", "DSETP", "HSETP2"))
_SETS_PREDICATES = _SETS_TWO | {"VOTE", "VOTEU", "ELECT", "USETMAXREG", "R2P", "FCHK"}
_WRITES_NOTHING = frozenset((
    "ST", "STS", "STG", "STSM", "STL", "RED", "REDG", "BRA", "EXIT", "BSSY", "BSYNC", "BREAK", "BRX", "CALL", "RET",
    "WARPSYNC", "ENDCOLLECTIVE", "BAR", "DEPBAR", "WARPGROUP", "FENCE", "MEMBAR", "CCTL", "ERRBAR", "NOP", "YIELD",
    "NANOSLEEP", "UTMALDG", "UTMASTG", "UTMAREDG", "UTMACCTL", "UTMACMDFLUSH", "LDGSTS", "LDGDEPBAR",
))  # fmt: skip
_CARRIES = frozenset(("IADD3", "UIADD3", "LEA", "ULEA", "IMAD", "UIMAD"))
_WIDTH = {"64": 2, "WIDE": 2, "128": 4}


def ports(one: SassInstruction) -> Ports:
    """Which registers it reads and writes."""
    tokens = list(one.operands)
    guard = (register(one.guard[1:]),) if one.guard else ()
    writes: list[int] = []
    if one.name == "SYNCS" and "TRYWAIT" not in one.modifiers:
        tokens = tokens[1:]
    elif one.name not in _WRITES_NOTHING:
        leading = 0
        most = 2 if one.name in _SETS_TWO else 1
        while leading < min(most, len(tokens)) and is_predicate(register(tokens[leading])):
            leading += 1
        writes += [found for token in tokens[:leading] if (found := register(token)) is not None]
        tokens = tokens[leading:]
        if one.name not in _SETS_PREDICATES and one.name != "SYNCS" and tokens:
            writes += _wide(register(tokens[0]), _written_width(one))
            tokens = tokens[1:]
            while one.name in _CARRIES and tokens and is_predicate(register(tokens[0])) and len(tokens) > 3:
                writes += [found for found in (register(tokens[0]),) if found is not None]
                tokens = tokens[1:]
    reads = [found for token in tokens for found in _read(token, one)]
    known = [number for number in (*guard, *reads) if number is not None]
    return Ports(
        tuple(n for n in writes if n not in CONSTANT_REGISTERS), tuple(n for n in known if n not in CONSTANT_REGISTERS),
        tuple(tokens),
    )  # fmt: skip


def _written_width(one: SassInstruction) -> int:
    if one.name == "CS2R" and "32" not in one.modifiers:
        return 2
    if one.name in ("I2F", "F2I", "IMNMX", "SHF", "USHF"):
        return 1
    return max((_WIDTH.get(modifier, 1) for modifier in one.modifiers), default=1)


def _wide(first: int | None, width: int) -> list[int]:
    return [] if first is None else [first + i for i in range(width)] if first not in CONSTANT_REGISTERS else []


_NAMED = re.compile(r"U?R\d+|U?P\d+")


def _read(token: str, one: SassInstruction) -> list[int]:
    """Registers in an operand; addresses and wide sources count with the register behind them."""
    found = [number for name in _NAMED.findall(token) if (number := register(name)) is not None]
    wide = bool({"64", "WIDE", "HI", "U64"} & one.modifiers) or "[" in token
    if "[" in token and one.name.startswith("UTMA"):
        return [n + i for n in found for i in range(8) if n + i < COUNT]
    return [n + i for n in found for i in range(2 if wide and n < P else 1)]


# ---------------------------------------------------------------- operands


def reader(token: str, constants: Mapping[int, int]) -> Read:
    """What an operand is worth. constants: words of the constant bank by offset."""
    text = token.strip()
    if text.startswith("c["):
        value = constant(text, constants)
        return lambda state: value
    if text[:3] in ("-c[", "~c["):
        inner = reader(text[1:], constants)
        return _negated(inner, text[0])
    number = register(text)
    if number is None:
        value = literal(text)
        return lambda state: value
    plain: Read = lambda state: state[number]  # noqa: E731
    if is_predicate(number):
        return (lambda state: 1 - (state[number] or 0)) if text.startswith("!") else plain
    if text[0] in "-~":
        return _negated(plain, text[0])
    if text.startswith("|"):
        return lambda state: None if (v := state[number]) is None else abs(as_signed(v)) & MASK
    return plain


_CONSTANT = re.compile(r"c\[0x0\]\[(0x[0-9a-f]+|U?RZ)\]")


def constant(text: str, constants: Mapping[int, int], further: int = 0) -> int | None:
    """A word of the launch's bank; words of others, and those at an offset in a register, are not known."""
    found = _CONSTANT.match(text.strip())
    if not found:
        return None
    return constants.get((0 if found.group(1).endswith("RZ") else int(found.group(1), 16)) + further)


def _negated(inner: Read, sign: str) -> Read:
    if sign == "~":
        return lambda state: None if (v := inner(state)) is None else v ^ MASK
    return lambda state: None if (v := inner(state)) is None else -v & MASK


def literal(text: str) -> int | None:
    """A number that is written out; None for floats and names."""
    negative, digits = text.startswith("-"), text.lstrip("-")
    if re.fullmatch(r"0x[0-9a-f]+|\d+", digits):
        value = int(digits, 0)
        return (-value if negative else value) & MASK
    return None


def as_signed(value: int) -> int:
    """A word as a signed number."""
    return value - (1 << 32) if value >> 31 else value


class NotKnownError(Exception):
    """A number that is needed is not known."""


def known(value: int | None) -> int:
    """NotKnownError if it is not."""
    if value is None:
        raise NotKnownError
    return value


def pair(token: str, constants: Mapping[int, int]) -> Read:
    """A source of 64 bits."""
    if token.strip().startswith("c["):
        low, high = constant(token, constants), constant(token, constants, 4)
        return lambda state: None if low is None or high is None else low | high << 32
    number = register(token)
    if number is None:
        value = literal(token)
        above = MASK << 32 if token.strip().startswith("-") else 0
        return lambda state: None if value is None else value | above
    if number in CONSTANT_REGISTERS:
        return lambda state: 0
    return lambda state: None if (a := state[number]) is None or (b := state[number + 1]) is None else a | b << 32


_ADDRESS = re.compile(r"\[(.*)\]$")


def address(token: str, constants: Mapping[int, int]) -> Read:
    """[UR8+0x38000], [R8+URZ+0x38028], [UR30+-0x78]: a sum."""
    found = _ADDRESS.search(token)
    assert found is not None, token
    parts = [reader(part, constants) for part in found.group(1).split("+")]

    def run(state: State) -> int | None:
        total = 0
        for part in parts:
            value = part(state)
            if value is None:
                return None
            total += value
        return total & MASK

    return run
