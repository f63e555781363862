"""Fragments are called as the kernel's variables are.

In the warp program every operation of a line has the name of the variable that the line assigns: in
`acc = tl.dot(p.to(tl.bfloat16), v, acc)` the conversion is an `acc`, too. In a module it is `p_bf16`, after what is
converted. And what a variable was one iteration before is called as the kernel calls it where that has a name of its
own: `m_i`, where `m_i = m_ij` ends the loop's body.
"""

from __future__ import annotations

import re
from dataclasses import replace

from twill.codegen.print.gluon.role_names import identifier
from twill.codegen.warp.program import Compute, LoadShared, Range, Reg, SlotRef, TmaLoad, WarpGroup, WarpProgram
from twill.tile.program import Items, Loop, TileProgram

_NUMBERED = re.compile(r"(_\d+)+$")
_BEFORE = re.compile(r"^(.*?)(_\d+)?_before")
CONVERSION = "cast"
LEFT = "_left"  # of what a conversion has left out of a number (`twill.tile.rewrite`)
_OF_BLOCK = re.compile(r"\.\d+\b")  # ".0": of the first row block


def with_names_of_the_kernel(program: WarpProgram) -> WarpProgram:
    """The program with such names."""
    carried, ends = _carried(program.program.body), _ends(program.program)
    copied = {s.target.buffer for group in program.groups for s in group.stmts if isinstance(s, TmaLoad)}
    tiles = {buffer.id: identifier(_OF_BLOCK.sub("", buffer.name)) for buffer in program.buffers if buffer.id in copied}
    return replace(program, groups=tuple(_renamed(group, carried, ends, tiles) for group in program.groups))


def _renamed(
    group: WarpGroup, carried: dict[str, str], ends: dict[tuple[str, int], tuple[str, int]], tiles: dict[int, str]
) -> WarpGroup:
    """tiles: what the tiles of a tensor are called, by buffer."""
    names = {fragment.id: fragment.name for fragment in group.fragments}
    for number, name in names.items():
        if (before := _BEFORE.match(name)) and before[1] in carried:
            names[number] = carried[before[1]]
    for stmt in group.stmts:
        match stmt:
            case Compute(kind, (Reg(source),), result=result, line=line) if kind == CONVERSION:
                if ends.get((_base(names[result]), line), (CONVERSION, 0))[0] != CONVERSION:
                    names[result] = f"{_base(names[source])}_{group.fragment(result).element}"
            case Compute("sub", (Reg(source), Reg()), result=result) if _base(names[result]).endswith(LEFT):
                names[result] = _base(names[source]) + LEFT
            case LoadShared(source=SlotRef(buffer), result=result) if buffer in tiles:
                names[result] = tiles[buffer]
            case Range(result, line=line) if ends.get((_base(names[result]), line), ("", 1))[1] != 1:
                along = getattr(group.fragment(result).layout, "axis", 0)
                names[result] = "rows" if along == 1 else "columns"
    return replace(group, fragments=tuple(replace(one, name=names[one.id]) for one in group.fragments))


def _base(name: str) -> str:
    return _NUMBERED.sub("", name)


def _carried(items: Items) -> dict[str, str]:
    """What a loop carries: the name of what replaces it -> its own, where they differ."""
    made: dict[str, str] = {}
    for item in items:
        if not isinstance(item, Loop):
            continue
        makers = {result: op.name for op in item.body if not isinstance(op, Loop) for result in op.results}
        for carry in item.carried:
            name = makers.get(carry.yielded, "")
            if name and carry.name.isidentifier() and carry.name != name:
                made[name] = carry.name
        made |= _carried(item.body)
    return made


def _ends(program: TileProgram) -> dict[tuple[str, int], tuple[str, int]]:
    """The last operation of each line that assigns a variable: (name, line) -> its kind, and how many axes its result
    has."""
    found = (op for op in program.ops() if op.name)
    return {
        (op.name, op.line): (op.kind, max((len(program.type_of(r).shape) for r in op.results), default=0))
        for op in found
    }
