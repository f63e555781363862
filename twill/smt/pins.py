"""Pins: what a user fixes before the solve.

Grammar (one pin an option)::

    NAME[.BLOCK]@group=K      the instruction is in warp group slot K
    NAME[.BLOCK]@stage=K      its stage
    NAME[.BLOCK]@start=K      its start, in cycles
    A[.B]<C[.D]               A starts before C, in the same iteration
    A[.B]~C[.D]               A and C are in one warp group
    A[.B]!~C[.D]              they are in different ones

NAME is the kernel's variable, or `line:N` for the instructions of a kernel line. Without BLOCK a
pin holds for every row block (pairwise within a block where both sides have blocks).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from twill.exc import BadPin
from twill.graph.costed import CostedGraph, Instruction
from twill.smt.encoding import Encoding, RuleOrigin

_OPERAND = r"(?P<{0}>[A-Za-z_]\w*|line:\d+)(?:\.(?P<{0}b>\d+))?"
_UNARY = re.compile(_OPERAND.format("a") + r"@(?P<key>group|stage|start)=(?P<value>\d+)$")
_BINARY = re.compile(_OPERAND.format("a") + r"(?P<op><|~|!~)" + _OPERAND.format("c") + "$")


@dataclass(frozen=True)
class Pin:
    """One parsed pin; `second` is None for the @ forms."""

    text: str
    first: tuple[str, int | None]
    key: str
    value: int = 0
    second: tuple[str, int | None] | None = None

    @property
    def names_time(self) -> bool:
        """Whether the pin speaks of a time counted from the earliest start."""
        return self.key in ("stage", "start")

    @property
    def names_group(self) -> bool:
        """Whether the pin speaks of a numbered warp group."""
        return self.key == "group"


def parse_pin(text: str) -> Pin:
    """Parse one pin; raises BadPin with the grammar."""
    compact = text.replace(" ", "")
    unary = _UNARY.match(compact)
    if unary:
        return Pin(text, (unary["a"], _block(unary["ab"])), unary["key"], int(unary["value"]))
    binary = _BINARY.match(compact)
    if binary:
        second = (binary["c"], _block(binary["cb"]))
        return Pin(text, (binary["a"], _block(binary["ab"])), binary["op"], second=second)
    raise BadPin(
        f"the pin {text!r} is not understood",
        hint="NAME[.BLOCK]@group=K, @stage=K or @start=K; A<B (order), A~B (one warp group), A!~B (different ones)",
    )


def assert_pins(e: Encoding, pins: tuple[Pin, ...]) -> None:
    """Assert every pin; raises BadPin if it names no instruction of the graph.

    With a pinned stage or start, time counts from the earliest start, as it does in a schedule.
    """
    if any(pin.names_time for pin in pins):
        e.rotates = False
        starts = [e.start(i.id) for i in e.graph.instructions]
        e.add(f"(or {' '.join(f'(and (= {p.row} 0) (= {p.stage} 0))' for p in starts)})", RuleOrigin("uniqueness"))
    for pin in pins:
        firsts = select(e.graph, pin.first, pin.text)
        if pin.second is None:
            for i in firsts:
                e.add(_unary(e, pin, i), RuleOrigin(f"pin {pin.text}", (i.id,)))
            continue
        pairs = _pairs(pin, firsts, select(e.graph, pin.second, pin.text))
        if not pairs:
            raise BadPin(f"the pin {pin.text!r} compares an instruction with itself", hint="two different instructions")
        for a, b in pairs:
            e.add(_binary(e, pin, a, b), RuleOrigin(f"pin {pin.text}", (a.id, b.id)))


def _pairs(pin: Pin, firsts: list[Instruction], seconds: list[Instruction]) -> list[tuple[Instruction, Instruction]]:
    """Each with each, but within one row block where neither side says which and both have one."""
    free = pin.first[1] is None and (pin.second is None or pin.second[1] is None)
    return [
        (a, b)
        for a in firsts
        for b in seconds
        if a.id != b.id and not (free and min(a.block, b.block) >= 0 and a.block != b.block)
    ]


def select(graph: CostedGraph, operand: tuple[str, int | None], text: str) -> list[Instruction]:
    """The instructions that an operand of a pin names."""
    name, block = operand
    if name.startswith("line:"):
        found = [i for i in graph.instructions if i.line == int(name[5:])]
    else:
        found = [i for i in graph.instructions if i.name == name]
    if block is not None:
        found = [i for i in found if i.block == block]
    if not found:
        names = ", ".join(sorted({i.name for i in graph.instructions if i.name}))
        raise BadPin(f"the pin {text!r} names no instruction of the loop at line {graph.line}", hint=f"one of {names}")
    return found


def _unary(e: Encoding, pin: Pin, i: Instruction) -> str:
    p = e.start(i.id)
    if pin.key == "stage":
        return f"(= {p.stage} {pin.value})"
    if pin.key == "start":
        low, high = e.ii
        cases = [
            f"(and (= {p.stage} {k}) (= {p.row} (- {pin.value} {e.times(k)})))"
            for k in range(pin.value // high, pin.value // low + 1)
        ]
        return f"(or {' '.join(cases)})" if len(cases) > 1 else cases[0]
    able = {s.id for s in e.slots_of(i.id)}
    if pin.value not in able:
        raise BadPin(
            f"the pin {pin.text!r} asks for warp group {pin.value}, which cannot issue {i.name or i.op}",
            line=i.line,
            hint=f"one of warp groups {', '.join(str(s) for s in sorted(able))}",
        )
    return e.member(i.id, e.slots[pin.value])


def _binary(e: Encoding, pin: Pin, a: Instruction, b: Instruction) -> str:
    if pin.key == "<":
        return e.gap(e.start(a.id), e.start(b.id), 1, 0)
    same = e.same(a.id, b.id)
    return same if pin.key == "~" else f"(not {same})"


def _block(text: str | None) -> int | None:
    return None if text is None else int(text)
