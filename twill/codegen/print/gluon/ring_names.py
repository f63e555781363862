"""Names of rings and buffers: each its own, and rings called after what is in them.

A ring of operands that threads compute is named as the product's result in the warp program, as is the product's own
ring. In a module it is called after the variable that threads put there: `p`, not `acc 2`; and after its element, too,
where the variable itself is in a ring.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from twill.codegen.warp import program as ir

_OF_BLOCK = re.compile(r"\.\d+\b")  # ".0": of the first row block
_NUMBERS = re.compile(r"(_\d+)+$")
_POINTER = re.compile(r"_(desc|ptr)$")
ORDINALS = ("second", "third", "fourth", "fifth", "sixth", "seventh", "eighth")


def with_distinct_buffers(program: ir.WarpProgram) -> ir.WarpProgram:
    """The program no two of whose buffers have one name, by which a module tells them apart; a ring is called as its
    buffer is. Tiles of `dot(a.load(...), b.load(...))`, which have no variables in the kernel and are called as the
    product, get the names of the tensors that they are of."""
    loaded = _loaded(program)
    taken = {buffer.name for buffer in program.buffers if buffer.id not in loaded}
    names: list[str] = []
    for buffer in program.buffers:
        name = loaded.get(buffer.id, buffer.name) if buffer.name in taken else buffer.name
        names.append(next(n for n in (name, *another(name)) if n not in names))
    buffers = tuple(replace(buffer, name=name) for buffer, name in zip(program.buffers, names, strict=True))
    renamed = {b.id for b, name in zip(program.buffers, names, strict=True) if b.name != name}
    arefs = (replace(a, name=names[a.buffers[0]]) if renamed.intersection(a.buffers[:1]) else a for a in program.arefs)
    return replace(program, buffers=buffers, arefs=tuple(arefs))


def another(name: str) -> Iterator[str]:
    """What a second buffer of that name is called, and those behind it."""
    yield from (f"{ordinal} {name}" for ordinal in ORDINALS)
    yield from (f"{name} {number}" for number in range(len(ORDINALS) + 2, 999))


def _loaded(program: ir.WarpProgram) -> dict[int, str]:
    """Buffers that copies fill -> what the tensor is called that is copied."""
    made: dict[int, str] = {}
    for stmt in (stmt for group in program.groups for stmt in group.stmts):
        if isinstance(stmt, ir.TmaLoad):
            name, block = program.maps[stmt.map].argument, _OF_BLOCK.search(program.buffers[stmt.target.buffer].name)
            made[stmt.target.buffer] = _POINTER.sub("", name) + (block[0] if block else "")
    return made


def with_own_names(program: ir.WarpProgram) -> ir.WarpProgram:
    """The program whose rings of operands have names of their own."""
    stmts = [stmt for group in program.groups for stmt in group.stmts]
    products = [stmt for stmt in stmts if isinstance(stmt, ir.Multiply | ir.TensorMultiply)]
    operands = {ref.buffer for stmt in products for ref in (stmt.a, stmt.b) if isinstance(ref, ir.SlotRef)}
    names = {aref.id: aref.name for aref in program.arefs}
    of_buffers = {buffer.id: buffer.name for buffer in program.buffers}
    for aref in program.arefs:
        if aref.transport != "registers" or not operands.intersection(aref.buffers):
            continue
        (buffer,) = aref.buffers
        taken = {*(n for number, n in names.items() if number != aref.id), *of_buffers.values()}
        if (variable := _stored(program, buffer)) is None:
            continue
        block = _OF_BLOCK.search(aref.name)
        base = variable + (block[0] if block else "")
        converted = f"{base} {program.buffers[buffer].element}"
        more = (f"{converted} {number}" for number in range(2, 99))
        name = next(n for n in (base, converted, *more) if n not in taken)
        names[aref.id] = of_buffers[buffer] = name
    arefs = tuple(replace(aref, name=names[aref.id]) for aref in program.arefs)
    return replace(program, arefs=arefs, buffers=tuple(replace(b, name=of_buffers[b.id]) for b in program.buffers))


def _stored(program: ir.WarpProgram, buffer: int) -> str | None:
    """The kernel's variable that threads store to a buffer, before it was converted."""
    for group in program.groups:
        for stmt in group.stmts:
            if isinstance(stmt, ir.StoreShared | ir.StoreAccumulator) and stmt.target.buffer == buffer:
                return _NUMBERS.sub("", group.fragment(_converted(group, stmt.operand)).name)
    return None


def _converted(group: ir.WarpGroup, fragment: int) -> int:
    for stmt in group.stmts:
        match stmt:
            case ir.Compute("cast", (ir.Reg(source),), result=result) if result == fragment:
                return source
    return fragment
