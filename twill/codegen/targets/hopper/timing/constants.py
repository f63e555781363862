"""The constant bank of a launch: grid, block and parameters where the cubin says that the kernel expects them."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

# Where code for sm_90 by ptxas 13 finds three words each, and the address of the parameters, for their tensor maps.
BLOCK, GRID, PARAMETERS = 0x0, 0xC, 0x198
STACK, STACK_AT = 0x28, 1 << 24  # where local memory of a thread ends, which goes down from there: as PARAMETERS_AT
PARAMETERS_AT = 0x7F00_0000_0000  # the address of the constant bank: any that nothing else has

_KPARAM_INFO, _PARAM_CBANK = 0x17, 0x0A  # attributes of .nv.info
_SIZED = 4  # format of an attribute whose size follows


@dataclass(frozen=True)
class Layout:
    """base: offset of the parameters in the constant bank. offsets: of each, from there."""

    base: int
    offsets: tuple[int, ...]


def read_layout(cubin: bytes, function: str) -> Layout:
    """From the cubin's attributes. KeyError: it has none for the function."""
    section = _section(cubin, f".nv.info.{function}")
    base, offsets = 0, {}
    for attribute, value in _attributes(section):
        if attribute == _PARAM_CBANK:
            base = struct.unpack_from("<IHH", value)[1]
        elif attribute == _KPARAM_INFO:
            _, ordinal, offset = struct.unpack_from("<IHH", value)
            offsets[ordinal] = offset
    return Layout(base, tuple(offsets[i] for i in sorted(offsets)))


def _section(cubin: bytes, name: str) -> bytes:
    """ELF64: the contents of a section."""
    table = struct.unpack_from("<Q", cubin, 0x28)[0]
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    headers = [struct.unpack_from("<IIQQQQ", cubin, table + i * size) for i in range(count)]
    strings = headers[names][4]
    for header in headers:
        start = strings + header[0]
        if cubin[start : cubin.index(b"\0", start)].decode() == name:
            return cubin[header[4] : header[4] + header[5]]
    raise KeyError(name)


def _attributes(section: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 4 <= len(section):
        form, attribute, value = struct.unpack_from("<BBH", section, at)
        at += 4
        if form == _SIZED:
            yield attribute, section[at : at + value]
            at += value


def constant_bank(
    layout: Layout, values: Sequence[bytes | None], grid: tuple[int, int, int], threads: int
) -> Mapping[int, int]:
    """Words by offset. values: of each parameter, None for a tensor map, whose contents nobody reads."""
    bank: dict[int, int] = {GRID + 4 * i: n for i, n in enumerate(grid)}
    bank.update({BLOCK + 4 * i: n for i, n in enumerate((threads, 1, 1))})
    bank[STACK] = STACK_AT
    address = PARAMETERS_AT + layout.base
    bank[PARAMETERS], bank[PARAMETERS + 4] = address & 0xFFFFFFFF, address >> 32
    for offset, value in zip(layout.offsets, values, strict=True):
        for i in range(0, len(value or b""), 4):
            word = (value or b"")[i : i + 4]
            bank[layout.base + offset + i] = int.from_bytes(word, "little")
    return bank
