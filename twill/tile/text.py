"""A tile program as text: one line an operation, loops indented, with types and kernel lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from twill.tile.program import Access, Argument, Axis, Index, Loop, Op, TileProgram, TileType


def program_text(program: TileProgram) -> str:
    """The whole program, which `twill.tile.parse` reads again. Ends with a newline."""
    options = (", strict" if program.strict else "") + ("" if program.fp_fusion else ", no fp fusion")
    if program.split is not None:
        options += f", {program.split.parts} parts along axis {program.split.axis}"
    head = f"kernel {program.kernel} spec {program.spec} file {program.file}{options}"
    arguments = (argument_text(argument) for argument in program.arguments)
    way = program_text(program.walk).splitlines() if program.walk is not None else []
    walks = (f"walk | {line}" for line in way)
    return "\n".join([head, *walks, *arguments, *_Printer(program).block(program.body, "")]) + "\n"


def argument_text(argument: Argument) -> str:
    """`argument %3 N_CTX: i32, multiple of 16`."""
    divisible = f", multiple of {argument.divisibility}" if argument.divisibility > 1 else ""
    positive = ", positive" if argument.positive else ""
    return f"argument %{argument.value} {argument.name}: {type_text(argument.type)}{divisible}{positive}"


def type_text(kind: TileType) -> str:
    """`f32` for a scalar, `128x64 bf16` for a tile."""
    return f"{'x'.join(map(str, kind.shape))} {kind.element}" if kind.shape else kind.element


def attribute_text(value: object) -> str:
    """A number or a word as it is; a text of anything else in quotes."""
    return json.dumps(value) if isinstance(value, str) and not re.fullmatch(r"\w[\w.]*", value) else str(value)


class _Printer:
    def __init__(self, program: TileProgram) -> None:
        self.program = program

    def block(self, items: tuple[Op | Loop, ...], indent: str) -> Iterable[str]:
        for item in items:
            if isinstance(item, Loop):
                yield from self.loop(item, indent)
            else:
                yield indent + self.op(item)

    def loop(self, loop: Loop, indent: str) -> Iterable[str]:
        bounds = ", ".join(map(self.ref, (loop.lower, loop.upper, loop.step)))
        yield f"{indent}for {self.ref(loop.induction)} in range({bounds})  # line {loop.line}"
        for carry in loop.carried:
            kind = type_text(self.program.type_of(carry.argument))
            yield f"{indent}  carry {self.ref(carry.argument)} from {self.ref(carry.init)}: {kind}"
        yield from self.block(loop.body, indent + "  ")
        for carry in loop.carried:
            yield f"{indent}  yield {self.ref(carry.yielded)} -> {self.ref(carry.result)}"

    def op(self, op: Op) -> str:
        results = ", ".join(map(self.ref, op.results))
        kinds = ", ".join(type_text(self.program.type_of(result)) for result in op.results)
        attributes = (f"{name}={attribute_text(value)}" for name, value in op.attributes)
        words = [op.kind, *map(self.ref, op.operands), *attributes]
        text = (f"{results} = " if results else "") + " ".join(words) + (f": {kinds}" if kinds else "")
        access = f" at {self.access(op.access)}" if op.access else ""
        access += f" region {op.region.said()}" if op.region else ""
        return text + access + (f"  # line {op.line}" if op.line else "")

    def access(self, access: Access) -> str:
        names = {value.id: self.ref(value.id) for value in self.program.values}
        axes = ", ".join(self.axis(axis) for axis in access.axes)
        start = f" + {access.constant.text(names)}" if access.constant.terms else ""
        reason = f" ({access.transport_reason})" if access.transport_reason else ""
        picked = "".join(f" + {self.index(index)}" for index in access.indices)
        made = " made" if access.made else ""
        return f"{access.base}{start} [{axes}]{picked} pad {access.pad} {access.transport}{made}{reason}"

    def index(self, index: Index) -> str:
        names = {value.id: self.ref(value.id) for value in self.program.values}
        return f"index along {', '.join(map(str, index.axes))} by {index.scale.text(names)}"

    def axis(self, axis: Axis) -> str:
        names = {value.id: self.ref(value.id) for value in self.program.values}
        text = f"{axis.extent} from {axis.offset.text(names)} by {axis.stride.text(names)}"
        bounds = [bound.text(names) if bound is not None else "" for bound in (axis.lower, axis.upper)]
        return text + (f" in {bounds[0]}..{bounds[1]}" if any(bounds) else "")

    def ref(self, value: int) -> str:
        name = self.program.values[value].name
        return f"%{value}" + (f":{name}" if name else "")
