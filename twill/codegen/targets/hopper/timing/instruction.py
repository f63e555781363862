"""Machine code as it is printed by `nvdisasm -c -hex`, with the control fields of each instruction.

Hopper does not interlock instructions of fixed latency: the compiler writes into each instruction how long its warp
must not issue the next one, and which of six scoreboards it waits for and sets. They are bits 105 to 125 of the 128
(Huerta et al., "Analyzing Modern NVIDIA GPU cores", arXiv 2503.20481, section 4).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

NO_SCOREBOARD = 7


@dataclass(frozen=True)
class Control:
    """stall: cycles until the warp's next instruction may issue, at least. yields: another warp is preferred then.
    writes, reads: the scoreboard that is released when the result is written, when operands in registers have been
    read (7: none). waits: a mask of the scoreboards that must be free."""

    stall: int
    yields: bool
    writes: int
    reads: int
    waits: int


@dataclass(frozen=True)
class SassInstruction:
    """guard: such as "@!P0", or "". opcode: with its modifiers, such as "IMAD.WIDE.U32". target: index of the
    instruction that a branch goes to, -1 for others."""

    address: int
    guard: str
    opcode: str
    operands: tuple[str, ...]
    control: Control
    target: int = -1

    @cached_property
    def name(self) -> str:
        """The opcode without modifiers."""
        return self.opcode.split(".", 1)[0]

    @cached_property
    def modifiers(self) -> frozenset[str]:
        """What follows the opcode."""
        return frozenset(self.opcode.split(".")[1:])


@dataclass(frozen=True)
class SassCode:
    """The instructions of one function in order."""

    function: str
    instructions: tuple[SassInstruction, ...]


_SECTION = re.compile(r"\s*\.section\s+\.text\.([\w$.]+)")
_LABEL = re.compile(r"\s*(\.L_\w+):")
_FIRST = re.compile(r"\s*/\*([0-9a-f]{4,})\*/\s+(?:(@!?U?P\w+)\s+)?([A-Z][\w.]*)\s*([^;]*);\s+/\* 0x[0-9a-f]{16} \*/")
_SECOND = re.compile(r"\s*/\* 0x([0-9a-f]{16}) \*/")
_REMARK = re.compile(r"\(\*.*?\*\)")  # such as (*"SpillRefill"*)
_TARGET = re.compile(r"`\((\.L_\w+)\)")
_CONTROL = 105 - 64  # the first bit of the control fields in the second half


def read_code(text: str) -> tuple[SassCode, ...]:
    """The functions of a disassembly."""
    return tuple(_function(name, lines) for name, lines in _sections(text.splitlines()))


def _sections(lines: list[str]) -> Iterator[tuple[str, list[str]]]:
    starts = [(found.group(1), at) for at, text in enumerate(lines) if (found := _SECTION.match(text))]
    ends = [*(at for _, at in starts[1:]), len(lines)]
    for (name, start), end in zip(starts, ends, strict=True):
        yield name, lines[start:end]


def _function(name: str, lines: list[str]) -> SassCode:
    labels: dict[str, int] = {}
    raw: list[tuple[re.Match[str], int]] = []
    for text, after in zip(lines, [*lines[1:], ""], strict=True):
        if label := _LABEL.match(text):
            labels[label.group(1)] = len(raw)
        elif (first := _FIRST.match(text)) and (second := _SECOND.match(after)):
            raw.append((first, int(second.group(1), 16)))
    return SassCode(name, tuple(_instruction(first, bits, labels) for first, bits in raw))


def _instruction(first: re.Match[str], bits: int, labels: dict[str, int]) -> SassInstruction:
    address, guard, opcode, operands = first.groups()
    operands = _REMARK.sub("", operands)
    label = _TARGET.search(operands)
    return SassInstruction(
        int(address, 16), guard or "", opcode, tuple(one.strip() for one in operands.split(",") if one.strip()),
        _control(bits >> _CONTROL), labels.get(label.group(1), -1) if label else -1,
    )  # fmt: skip


def _control(bits: int) -> Control:
    """Four bits stall, one yield (0: yield), three bits each scoreboard, six bits waits."""
    return Control(bits & 15, not bits >> 4 & 1, bits >> 5 & 7, bits >> 8 & 7, bits >> 11 & 63)
