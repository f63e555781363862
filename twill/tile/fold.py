"""Integer arithmetic on what is known when the kernel is translated.

Only integers: a float folded here would be rounded in another format than on the GPU.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

Number = int | float


def fold(kind: str, operands: Sequence[Number], attributes: Mapping[str, object], element: str) -> int | None:
    """The result of an elementwise operation on known integers; None if it is not folded.

    `element` is the result's type ("i32"); results wrap around as the hardware's do.
    """
    if not all(isinstance(operand, int) for operand in operands) or element[0] != "i":
        return None
    rule = _RULES.get(kind)
    if rule is None or (attributes.get("signed") == 0 and kind not in _SIGNLESS):
        return None
    if kind in ("div", "rem") and operands[1] == 0:
        return None
    return wrap(rule(*operands), int(element[1:]))


# Operations that leave one operand as it is: kind -> (the other one's value, on the right only).
_IDENTITIES = {
    "add": (0, False), "or": (0, False), "xor": (0, False), "mul": (1, False),
    "sub": (0, True), "shl": (0, True), "shr": (0, True), "div": (1, True),
}  # fmt: skip


def identity(kind: str, operands: Sequence[Number | None], element: str) -> int | None:
    """Which operand an integer operation with one known operand (the others None) returns unchanged, if any."""
    if kind not in _IDENTITIES or element[0] != "i" or len(operands) != 2:
        return None
    neutral, right_only = _IDENTITIES[kind]
    if operands[1] == neutral and operands[0] is None:
        return 0
    return 1 if operands[0] == neutral and operands[1] is None and not right_only else None


def wrap(value: int, bits: int) -> int:
    """The value as a signed integer of so many bits (a single bit is 0 or 1)."""
    low = value & ((1 << bits) - 1)
    return low - (1 << bits) if bits > 1 and low >> (bits - 1) else low


def _divide(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_SIGNLESS = frozenset({"add", "sub", "mul", "and", "or", "xor"})

_RULES: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "div": _divide,  # towards zero, as the hardware does
    "rem": lambda a, b: a - b * _divide(a, b),
    "max": max,
    "min": min,
    "cast": lambda a: a,
}
