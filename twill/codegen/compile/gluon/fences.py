"""Registers of products that are written behind the fence in front of the product.

Threads order their writes of a product's registers (the accumulator, and operand A where that is in registers) in front
of the product by a fence; what other products write is ordered already (PTX ISA, "Asynchronous Warpgroup Level Matrix
Multiply-Accumulate"). Triton places its fences, but its compiler may write a register behind one, such as a constant
that is only needed there. Here every path through the PTX is walked.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from twill.codegen.print.gluon import hopper

_REGISTER = re.compile(r"%\w+")
_LABEL = re.compile(r"\s*(\$?\w+):")
_BRANCH = re.compile(r"\s*(@!?%\w+\s+)?(bra|brx\.idx)\S*\s+(?:%\w+,\s*)?(\$?\w+)")
_TABLE = re.compile(r"(\$?\w+):\s*\.branchtargets([^;]*);")
_END = re.compile(r"\s*(ret|exit|trap)\b")
_WRITE = re.compile(r"\s*(?:@!?%\w+\s+)?[\w.:]+\s+(\{[^}]*\}|%\w+(?:\|%\w+)?)\s*,")
_FUNCTION = re.compile(r"\s*(\.visible|\.weak|\.entry|\.func)\b")


@dataclass
class _Block:
    """A run of instructions. steps: a fence, registers that are written, or registers of a product and its line of the
    PTX, in order. to: labels of the blocks that may follow; falls: the next one may, too."""

    label: str
    steps: list[tuple[str, frozenset[str], int]] = field(default_factory=list)
    to: set[str] = field(default_factory=set)
    falls: bool = True


def unfenced(ptx: str) -> dict[int, int]:
    """Lines of the PTX, from 0, of products that may use registers written since the last fence -> how many."""
    found: dict[int, int] = {}
    for blocks in _functions(ptx.splitlines(), _tables(ptx)):
        for line, number in _of_function(blocks):
            found[line] = max(number, found.get(line, 0))
    return found


def _of_function(blocks: list[_Block]) -> Iterator[tuple[int, int]]:
    """What is found in one function: the registers written since the last fence, followed until nothing is new."""
    places = {block.label: place for place, block in enumerate(blocks)}
    coming: list[set[str] | None] = [set(), *([None] * (len(blocks) - 1))]
    todo = [0]
    while todo:
        place = todo.pop()
        block, written = blocks[place], set(coming[place] or ())
        for kind, registers, line in block.steps:
            if kind == "fence":
                written = set()
            elif kind == "write":
                written |= registers
            elif bare := written & registers:
                yield line, len(bare)
        after = [places[label] for label in block.to if label in places]
        for to in (*after, *([place + 1] if block.falls and place + 1 < len(blocks) else [])):
            before = coming[to]
            if before is None or not written <= before:
                coming[to] = written | (before or set())
                todo.append(to)


def _functions(lines: list[str], tables: dict[str, set[str]]) -> Iterator[list[_Block]]:
    """The blocks of each function; of their instructions what concerns registers of products."""
    used = frozenset(register for text in lines if hopper.PTX_MMA.search(text) for register in _of_product(text))
    blocks: list[_Block] = [_Block("")]
    for number, text in enumerate(lines):
        if _FUNCTION.match(text):
            yield blocks
            blocks = [_Block("")]
        elif (label := _LABEL.match(text)) and "branchtargets" not in text:
            blocks.append(_Block(label.group(1)))
        elif branch := _BRANCH.match(text):
            always, target = not branch.group(1), branch.group(3)
            blocks[-1].to |= tables.get(target, {target})
            blocks[-1].falls = not always
            blocks.append(_Block(f"behind line {number}"))
        elif _END.match(text):
            blocks[-1].falls = False
            blocks.append(_Block(f"behind line {number}"))
        elif hopper.PTX_FENCE in text:
            blocks[-1].steps.append(("fence", frozenset(), number))
        elif hopper.PTX_MMA.search(text):
            blocks[-1].steps.append(("product", frozenset(_of_product(text)), number))
        elif (write := _WRITE.match(text)) and (written := used.intersection(_REGISTER.findall(write.group(1)))):
            blocks[-1].steps.append(("write", written, number))
    yield blocks


def _of_product(text: str) -> list[str]:
    """Registers of the accumulator and of operand A, where it is in registers."""
    return [register for braces in re.findall(r"\{([^}]*)\}", text) for register in _REGISTER.findall(braces)]


def _tables(ptx: str) -> dict[str, set[str]]:
    """Labels of tables of branches -> what may follow."""
    return {name: set(re.findall(r"\$?\w+", targets)) for name, targets in _TABLE.findall(ptx)}
