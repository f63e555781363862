"""Fragments are called as the kernel's variables are.

In the warp program every operation of a line has the name of the variable that the line assigns: in
`acc = tl.dot(p.to(tl.bfloat16), v, acc)` the conversion is an `acc`, too. In a module it is `p_bf16`, after what is
converted. And what a variable was one iteration before is called as the kernel calls it where that has a name of its
own: `m_i`, where `m_i = m_ij` ends the loop's body.
"""

from __future__ import annotations

import re
from dataclasses import replace

from twill.codegen.warp.program import Compute, Reg, WarpGroup, WarpProgram
from twill.tile.program import Items, Loop, TileProgram

_NUMBERED = re.compile(r"(_\d+)+$")
_BEFORE = re.compile(r"^(.*?)(_\d+)?_before")
CONVERSION = "cast"


def with_names_of_the_kernel(program: WarpProgram) -> WarpProgram:
    """The program with such names."""
    carried, ends = _carried(program.program.body), _ends(program.program)
    return replace(program, groups=tuple(_renamed(group, carried, ends) for group in program.groups))


def _renamed(group: WarpGroup, carried: dict[str, str], ends: dict[tuple[str, int], str]) -> WarpGroup:
    names = {fragment.id: fragment.name for fragment in group.fragments}
    for number, name in names.items():
        if (before := _BEFORE.match(name)) and before[1] in carried:
            names[number] = carried[before[1]]
    for stmt in group.stmts:
        match stmt:
            case Compute(kind, (Reg(source),), result=result, line=line) if kind == CONVERSION:
                if ends.get((_base(names[result]), line), CONVERSION) != CONVERSION:
                    names[result] = f"{_base(names[source])}_{group.fragment(result).element}"
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


def _ends(program: TileProgram) -> dict[tuple[str, int], str]:
    """The last operation of each line that assigns a variable: (name, line) -> kind."""
    return {(op.name, op.line): op.kind for op in program.ops() if op.name}
