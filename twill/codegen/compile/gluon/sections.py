"""Sections of a cubin, which is an ELF file."""

from __future__ import annotations

import struct
from collections.abc import Iterator

_HEADER = "<IIQQQQIIQQ"  # of a section: name, type, flags, address, offset, size, and what nobody asks for


def sections(cubin: bytes, name: str, more: bool = False) -> Iterator[bytes]:
    """What is in the section of that name. more: in all whose names begin so."""
    (headers,) = struct.unpack_from("<Q", cubin, 0x28)
    count, names = struct.unpack_from("<HH", cubin, 0x3C)
    each = struct.calcsize(_HEADER)
    found = [struct.unpack_from(_HEADER, cubin, headers + each * number) for number in range(count)]
    for place, _, _, _, at, size, *_ in found:
        begin = found[names][4] + place
        said = cubin[begin : cubin.index(b"\0", begin)].decode()
        if said == name or more and said.startswith(name):
            yield cubin[at : at + size]
