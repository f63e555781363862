"""Inline assembly of the kernel's own as `asm` statements: operands packed into registers as Triton packs them.

CUDA writes `%0` where LLVM writes `$0`, and `%%` for `%`. The statements are not volatile: a text is emitted only if
it has no effect but its results.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import TYPE_CHECKING, Any

from twill.codegen.print.cuda.elements import SMALL, is_packed, to_memory
from twill.codegen.print.cuda.places import register as register_of
from twill.codegen.warp.layout import Layout, elements_of
from twill.codegen.warp.program import Compute, Operand, Reg
from twill.ptx.inline import BITS, AsmRegister, InlineAsm, of_attributes

if TYPE_CHECKING:
    from twill.codegen.print.cuda.context import PrintContext

VARIABLES = {"h": "u16", "r": "u32", "f": "float", "l": "u64", "d": "double"}  # constraint -> C type
_TO_WORD = {"float": "__float_as_uint", "double": "(u64)__double_as_longlong"}
_FROM_WORD = {"float": "__uint_as_float", "double": "__longlong_as_double"}
_TEXT = re.compile(r"%|\$\$|\$(?=\d)")
_DECLARES = re.compile(r"^\s*(?!\{).*\.reg\b", re.S)


def print_assembly(stmt: Compute, operands: Sequence[Operand], ctx: PrintContext) -> None:
    """A statement for each pack of elements of a thread; for each element, if they do not fill packs."""
    asm, result = of_attributes(dict(stmt.attributes)), ctx.fragment(stmt.result)
    size, name = elements_of(result.layout), ctx.fragments[stmt.result]
    pairs = is_packed(result.element, result.layout)
    together = asm.pack if size % asm.pack == 0 and not (pairs and asm.pack % 2) else 1
    step = max(together, 2) if pairs else together
    if step == 1 and size > 1:
        loop = ctx.out.elementwise(f"i32 i = 0; i < {size}; ++i", result.layout)
    else:
        loop = ctx.out.unrolled(f"i32 i = 0; i < {size}; i += {step}")
    with loop, ctx.out.block():
        packs = [_Pack(asm, operands, result.layout, first, together, ctx) for first in range(0, step, together)]
        made = [pack.print(int(str(dict(stmt.attributes)["output"]))) for pack in packs]
        if not pairs:
            for place, value in enumerate(value for pack in made for word in pack for value in word.elements):
                if place < step:
                    ctx.out.line(f"{name}[{_at(place)}] = {value};")
            return
        words = [word.pair for pack in made for word in pack] if together > 1 else []
        if not words:
            low, high = (pack[0].elements[0] for pack in made)
            words = [f"pack_{SMALL[result.element]}({low}, {high})"]
        for place, word in enumerate(words):
            ctx.out.line(f"{name}[{_at(2 * place)} / 2] = {word};")


def _at(place: int) -> str:
    return f"(i + {place})" if place else "i"


@dataclass(frozen=True)
class _Made:
    """A register of a result, in C. elements: what it holds; pair: two short floats as one word."""

    elements: list[str]
    pair: str


@dataclass(frozen=True)
class _Pack:
    """One statement: elements i + first of the result and those behind it. together: how many of the pack there are;
    the last one stands for the rest."""

    asm: InlineAsm
    operands: Sequence[Operand]
    layout: Layout
    first: int
    together: int
    ctx: PrintContext

    def print(self, output: int) -> list[_Made]:
        """Writes it; the registers of the result that is meant."""
        lines, made = _statement(self.asm, output, self.word, self.ctx.names.fresh)
        for line in lines:
            self.ctx.out.line(line)
        return made

    def word(self, register: AsmRegister, kind: str) -> str:
        """C of what a register of an operand holds."""
        operand, element = self.operands[register.tile], self.asm.sources[register.tile]
        places = [min(register.first + place, self.together - 1) for place in range(register.count)]
        at = [_at(self.first + place) for place in places]
        neighbours = register.count == 2 and places[1] > places[0] and (self.first + places[0]) % 2 == 0
        if neighbours and (pair := self.pair(operand, at[0])) is not None:
            return pair
        return _word([self.ctx.operand(operand, self.layout, one) for one in at], element, kind)

    def pair(self, operand: Operand, at: str) -> str | None:
        """C of two neighbours that an operand has in one word as they are; None if it has not."""
        if not isinstance(operand, Reg) or operand.fragment in self.ctx.indices:
            return None
        source = self.ctx.fragment(operand.fragment)
        same = register_of(self.layout, source.layout, operand.axes, at) == at
        packed = same and is_packed(source.element, source.layout)
        return f"{self.ctx.fragments[operand.fragment]}[{at} / 2]" if packed else None


def assembly_expression(attributes: Mapping[str, Any], operands: Sequence[str]) -> str:
    """C of the result of one element, a scalar, whose operands are C."""
    asm, names = of_attributes(attributes), count()

    def word(register: AsmRegister, kind: str) -> str:
        text = operands[register.tile]
        return _word([text] * register.count, asm.sources[register.tile], kind)

    lines, made = _statement(asm, int(attributes["output"]), word, lambda name: f"{name}{next(names)}")
    return f"[&] {{ {' '.join(lines)} return {made[0].elements[0]}; }}()"


def _statement(
    asm: InlineAsm, output: int, word: Callable[[AsmRegister, str], str], fresh: Callable[[str], str]
) -> tuple[list[str], list[_Made]]:
    """Lines of C, and the registers of the result that is meant. word: C of what a register of an operand holds, as a
    C type."""
    lines: list[str] = []
    results: list[str] = []
    inputs: list[str] = []
    made: list[_Made] = []
    for register in asm.registers():
        kind = VARIABLES[register.letter]
        if register.result:
            variable = fresh("made")
            lines.append(f"{kind} {variable};")
            results.append(f'"={"&" if register.early else ""}{register.letter}"({variable})')
            if register.tile == output:
                made.append(_made(variable, register, asm.results[output]))
            continue
        constraint = register.letter if register.tied is None else str(register.tied)
        inputs.append(f'"{constraint}"({word(register, kind)})')
    given = f" : {', '.join(inputs)}" if inputs else ""
    lines.append(f"asm({json.dumps(cuda_text(asm.text), ensure_ascii=False)} : {', '.join(results)}{given});")
    return lines, made


def cuda_text(text: str) -> str:
    """LLVM's way to write the operands as CUDA's; registers that the text declares in braces of their own."""
    spelled: Mapping[str, str] = {"%": "%%", "$$": "$", "$": "%"}
    made = _TEXT.sub(lambda match: spelled[match[0]], text)
    return f"{{\n{made}\n}}" if _DECLARES.match(text) else made


def _word(texts: Sequence[str], element: str, kind: str) -> str:
    """C of elements that share a register of a C type."""
    if element in ("f32", "f64"):
        own = "float" if element == "f32" else "double"
        return texts[0] if kind == own else f"{_TO_WORD[own]}({texts[0]})"
    if element in ("f16", "bf16") and len(texts) == 2:
        word = f"pack_{SMALL[element]}({texts[0]}, {texts[1]})"
    elif element in SMALL and len(texts) == 4:
        word = f"pack_{SMALL[element]}x4({', '.join(texts)})"
    else:
        bits = BITS[element]
        unsigned: Callable[[str], str] = lambda text: f"(u{bits}){to_memory(element, text)}"  # noqa: E731
        wide = "u64" if bits == 64 else "u32"
        parts = [f"({wide}){unsigned(text)}" + (f" << {bits * place}" if place else "")
                 for place, text in enumerate(texts)]  # fmt: skip
        word = " | ".join(f"({part})" for part in parts)
    return f"{_FROM_WORD[kind]}({word})" if kind in _FROM_WORD else f"({kind})({word})"


def _made(variable: str, register: AsmRegister, element: str) -> _Made:
    """What a result's register holds."""
    kind = VARIABLES[register.letter]
    word = f"{_TO_WORD[kind]}({variable})" if kind in _TO_WORD else variable
    if element in ("f32", "f64"):
        own = "float" if element == "f32" else "double"
        return _Made([variable if kind == own else f"{_FROM_WORD[own]}({variable})"], word)
    if element in ("f16", "bf16") and register.count == 2:
        return _Made([f"{half}_{SMALL[element]}({word})" for half in ("low", "high")], word)
    bits = BITS[element]
    parts = [f"(u{bits})({word} >> {bits * place})" if place else f"(u{bits})({word})"
             for place in range(register.count)]  # fmt: skip
    if element in SMALL:
        return _Made([f"from_bits_{SMALL[element]}({part})" for part in parts], word)
    return _Made([f"(i{bits}){part}" for part in parts], word)
