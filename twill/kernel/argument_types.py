"""Triton's types of arguments, as signatures spell them, with what they promise of the argument.

parse_type("a_ptr", "*bf16:16") == ("*bf16", "16")
"""

from __future__ import annotations

import re

from twill.exc import MalformedFlag

SCALARS = ("i1", "i8", "i16", "i32", "i64", "u1", "u8", "u16", "u32", "u64", "fp16", "bf16", "fp32", "fp64")
FLOATS = ("fp16", "bf16", "fp32", "fp64")
POINTEES = (*SCALARS, "fp8e4nv", "fp8e5")
_DTYPE = "|".join(POINTEES)
_TYPE = re.compile(
    rf"(?P<type>\*({_DTYPE})|{'|'.join(SCALARS)}|tensordesc<({_DTYPE})\[\s*\d+\s*(,\s*\d+\s*)*\]>)(:(?P<hint>16|positive))?"
)
TYPE_HELP = (
    '"i32", "fp32", "*bf16" (a pointer), "tensordesc<bf16[128, 64]>", each with ":16" if divisible by 16; '
    '"fp32:positive" if greater than 0'
)


def parse_type(name: str, text: str, file: str = "") -> tuple[str, str]:
    """Triton's type string without its hint, and the hint: "16" promises divisibility, "positive" a sign, or ""."""
    match = _TYPE.fullmatch(text.strip())
    if match is None:
        raise MalformedFlag(f'"{text}" is no type for argument {name}', file=file, hint=f"one of {TYPE_HELP}")
    if match["hint"] == "positive" and match["type"] not in FLOATS:
        hint = "the promise only for a float, as in fp32:positive"
        raise MalformedFlag(f'"{text}" for argument {name}: {match["type"]} is no float', file=file, hint=hint)
    return match["type"], match["hint"] or ""
