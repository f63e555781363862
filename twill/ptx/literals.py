"""Numbers as PTX text writes them: PTX ISA, "Constants"."""

from __future__ import annotations

import re
import struct

from twill.ptx.program import FloatImmediate, Immediate


def literal(text: str) -> Immediate | FloatImmediate:
    """The number that an operand says. Raises ValueError."""
    if re.match(r"-?0[fF][0-9a-fA-F]{8}$", text):
        value = struct.unpack(">f", bytes.fromhex(text[-8:]))[0]
        return FloatImmediate(-value if text[0] == "-" else value, 32)
    if re.match(r"-?0[dD][0-9a-fA-F]{16}$", text):
        value = struct.unpack(">d", bytes.fromhex(text[-16:]))[0]
        return FloatImmediate(-value if text[0] == "-" else value, 64)
    whole = text.rstrip("Uu")
    if re.fullmatch(r"-?0[0-7]+", whole):
        return Immediate(int(whole, 8))
    try:
        return Immediate(int(whole, 0))
    except ValueError:
        return FloatImmediate(float(text), 64)


def bytes_of(text: str, type: str, size: int) -> bytes:
    """What a variable of `type` and `size` bytes has in memory that begins with this number. Raises ValueError."""
    said = literal(text)
    if isinstance(said, FloatImmediate) or type in ("f32", "f64"):
        return struct.pack("<f" if size == 4 else "<d", float(said.value))
    return (said.value & (1 << 8 * size) - 1).to_bytes(size, "little")
