"""Inline assembly: what a text of PTX over operands `$0`, `$1`, ... computes of registers, where that is all it does.

Operands are numbered as LLVM numbers them, results first; constraints are LLVM's for NVPTX: "=f,r,h" are a result in a
register of 32 bits for floats, an operand in one for integers and one of 16 bits. An invocation works on `pack`
elements of each tile; elements of fewer than 32 bits lie side by side in a register (Triton,
"inline_asm_elementwise").

A text is known if every instruction of it is known, touches registers alone, runs in order, and reads nothing that was
not written before. Such a text has no effect but its results, whatever its author says of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

from twill.exc import UnsupportedPtx
from twill.ptx import convert, floats, integers, moves
from twill.ptx.arrays import some
from twill.ptx.parse import parse
from twill.ptx.program import DestinationPair, Negated, Nothing, Operand, PtxInstruction, Register, Special, Vector
from twill.ptx.registers import Operands, constant, held, unsupported
from twill.ptx.step import Array, Step

LETTERS = {"h": ("b16", 16), "r": ("b32", 32), "f": ("f32", 32), "l": ("b64", 64), "d": ("f64", 64)}
"""Constraints: the type of the register, and its bits."""
BITS = {"i8": 8, "i16": 16, "i32": 32, "i64": 64, "f8e4m3": 8, "f8e5m2": 8, "f16": 16, "bf16": 16, "f32": 32, "f64": 64}
"""Elements that an operand can have."""
WORD = 32  # bits of a register that shorter elements share
TRIES, SEED = 64, 1  # invocations that show whether elements of a pack are mixed

_CONSTRAINT = re.compile(r"(=&?)?([hrfld]|\d+)")
_REFERENCE = re.compile(r"\$(\$|\d+|)")
_ROOMS: tuple[Callable[[Operands, PtxInstruction], Step | None], ...] = (
    moves.build, convert.build, floats.build, integers.build,
)  # fmt: skip


@dataclass(frozen=True)
class InlineAsm:
    """A text and its operands. results, sources: element types. output: which of the results is meant."""

    text: str
    constraints: str
    pack: int
    results: tuple[str, ...]
    sources: tuple[str, ...]

    def together(self, element: str) -> int:
        """Elements of a tile that share a register."""
        return min(max(WORD // BITS[element], 1), self.pack)

    def registers(self) -> tuple[AsmRegister, ...]:
        """Every `$n`, in order. Raises UnsupportedPtx."""
        return _registers(self)


def of_attributes(attributes: Mapping[str, Any]) -> InlineAsm:
    """The text that an operation `inline_asm` of a tile program has."""
    return InlineAsm(
        str(attributes["text"]),
        str(attributes["constraints"]),
        int(attributes["pack"]),
        tuple(str(attributes["results"]).split(",")),
        tuple(str(attributes["sources"]).split(",")) if attributes["sources"] else (),
    )


@dataclass(frozen=True)
class AsmRegister:
    """An operand of the text. letter: its constraint. early: it is written before all operands are read. tile: which
    result or source; first: of the pack, the first of its `count` elements. tied: of a source, the result whose
    register it has."""

    result: bool
    letter: str
    early: bool
    tile: int
    first: int
    count: int
    tied: int | None = None


@dataclass(frozen=True)
class Assembled:
    """A text as steps. initial: what its registers hold before; numbers: of each `$n`. instructions: what was read."""

    asm: InlineAsm
    instructions: tuple[PtxInstruction, ...]
    steps: tuple[Step, ...]
    initial: tuple[Array, ...]
    numbers: tuple[int, ...]


@dataclass
class _Lanes:
    """`twill.ptx.step.LaneRegisters`."""

    registers: list[Array]
    mask: Array | None = None


def _registers(asm: InlineAsm) -> tuple[AsmRegister, ...]:
    words = [word.strip() for word in asm.constraints.split(",") if word.strip()]
    words = [word for word in words if not word.startswith("~")]  # what else it may change: nothing, as is seen
    wanted = [(True, tile, element) for tile, element in enumerate(asm.results)]
    wanted += [(False, tile, element) for tile, element in enumerate(asm.sources)]
    places = []
    for result, tile, element in wanted:
        if element not in BITS:
            raise UnsupportedPtx(f"an operand of {element}")
        step = asm.together(element)
        if asm.pack % step:
            raise UnsupportedPtx(f"{asm.pack} elements of {element} do not fill registers of {step}")
        places += [(result, tile, element, first, step) for first in range(0, asm.pack, step)]
    if len(words) != len(places):
        raise UnsupportedPtx(f"{len(words)} constraints for {len(places)} registers")
    found: list[AsmRegister] = []
    for word, (result, tile, element, first, step) in zip(words, places, strict=True):
        match = _CONSTRAINT.fullmatch(word)
        if match is None or bool(match[1]) != result or (result and match[2].isdigit()):
            raise UnsupportedPtx(f"the constraint `{word}`")
        tied = int(match[2]) if match[2].isdigit() else None
        if tied is not None and (tied >= len(found) or not found[tied].result):
            raise UnsupportedPtx(f"the constraint `{word}`, which is no result")
        letter = match[2] if tied is None else found[tied].letter
        if LETTERS[letter][1] != BITS[element] * step:
            raise UnsupportedPtx(f"`{word}` for {step} of {element}, which have {BITS[element] * step} bits")
        found.append(AsmRegister(result, letter, match[1] == "=&", tile, first, step, tied))
    return tuple(found)


@lru_cache(maxsize=64)
def assembled(asm: InlineAsm) -> Assembled:
    """The text, ready to run. Raises UnsupportedPtx, naming the instruction, and MalformedPtx."""
    registers = _registers(asm)
    names = [f"%twill_operand{number}" for number in range(len(registers))]
    for number, register in enumerate(registers):
        if register.tied is not None:
            names[number] = names[register.tied]

    def named(match: re.Match[str]) -> str:
        what = match[1]
        if what == "$":
            return "$"
        if not what or int(what) >= len(names):
            raise UnsupportedPtx(f"`{match[0]}` in its text")
        return names[int(what)]

    declared = "".join(f".reg .{LETTERS[r.letter][0]} {name};" for r, name in zip(registers, names, strict=True)
                       if r.tied is None)  # fmt: skip
    body = _REFERENCE.sub(named, asm.text)
    module = parse(f".visible .entry text() {{{declared}{{\n{body}{'' if _ended(body) else ';'}\n}}}}")
    (function,) = module.functions
    numbers = {name: number for number, name in enumerate(function.registers)}
    numbers[""] = len(numbers)
    operands = Operands(numbers, function.registers, {})
    if function.variables or function.labels:
        raise UnsupportedPtx("variables or labels")
    steps = tuple(_step(operands, instruction) for instruction in function.instructions)
    written = {name for register, name in zip(registers, names, strict=True) if not register.result}
    written = _written(function.instructions, written)
    for number, register in enumerate(registers):
        if register.result and names[number] not in written:
            raise UnsupportedPtx(f"`${number}` is not written")
    initial = tuple(constant(0, held(type)) for type in function.registers.values())
    made = Assembled(asm, function.instructions, steps, (*initial, constant(0, np.uint32)),
                     tuple(numbers[name] for name in names))  # fmt: skip
    if asm.pack > 1 and _mixes(made):
        raise UnsupportedPtx("an element gives something else at another place of the pack")
    return made


def _ended(body: str) -> bool:
    """Whether the last statement has its semicolon."""
    plain = re.sub(r"/\*.*?\*/|//[^\n]*", "", body, flags=re.S).rstrip()
    return not plain or plain[-1] in ";}"


def _step(operands: Operands, instruction: PtxInstruction) -> Step:
    if any(isinstance(part, Special) for operand in instruction.operands for part in _parts(operand)):
        raise unsupported(instruction, "a register that tells threads apart")
    found = (build(operands, instruction) for build in _ROOMS)
    step = next((step for step in found if step is not None), None)
    if step is None:
        raise unsupported(instruction)
    if instruction.guard is None:
        return step
    holds = operands.fetch(instruction, instruction.guard, "pred")

    def run(lanes: _Lanes) -> None:
        lanes.mask = holds(lanes)
        step(lanes)
        lanes.mask = None

    return run


def _parts(operand: Operand | None) -> Iterator[Operand]:
    match operand:
        case None:
            return
        case Vector(parts):
            for part in parts:
                yield from _parts(part)
        case DestinationPair(first, second):
            yield from _parts(first)
            yield from _parts(second)
        case Negated(of):
            yield of
        case _:
            yield operand


def _names(operand: Operand | None) -> set[str]:
    return {part.name for part in _parts(operand) if isinstance(part, Register)}


def _written(instructions: Sequence[PtxInstruction], known: set[str]) -> set[str]:
    """Registers that hold something behind all of it, from those that do before. Raises UnsupportedPtx: one is read
    before. What a predicate writes counts once its opposite has written it too."""
    halves: set[tuple[str, str, bool]] = set()
    known = set(known)
    for instruction in instructions:
        target, *sources = instruction.operands or (Nothing(),)
        guard = instruction.guard
        read = set().union(_names(guard), *map(_names, sources))
        negated = isinstance(guard, Negated)
        same = {name for name, by, how in halves if guard is not None and by in _names(guard) and how == negated}
        if missing := read - known - same:
            raise unsupported(instruction, f"{min(missing)} is read before it is written")
        for name in _names(target):
            if guard is None:
                known.add(name)
                continue
            (by,) = _names(guard)
            halves.add((name, by, negated))
            if (name, by, not negated) in halves:
                known.add(name)
        halves = {half for half in halves if half[1] not in _names(target)}
    return known


def evaluate(asm: InlineAsm, tiles: Sequence[Array]) -> tuple[Array, ...]:
    """The results, as bits. tiles: the bits of each source as unsigned numbers, flat and of one size. Which elements
    an invocation gets is not said; here it is those that follow one another. Raises as `assembled`."""
    return _run(assembled(asm), tiles)


def _run(made: Assembled, tiles: Sequence[Array]) -> tuple[Array, ...]:
    asm = made.asm
    size = len(tiles[0]) if tiles else 1
    count = -(-size // asm.pack)
    packs = [np.resize(tile, count * asm.pack).reshape(count, asm.pack) for tile in tiles]
    lanes = _Lanes(list(made.initial))
    for register, number in zip(asm.registers(), made.numbers, strict=True):
        if register.result:
            continue
        part = np.ascontiguousarray(packs[register.tile][:, register.first : register.first + register.count])
        lanes.registers[number] = part.view(held(LETTERS[register.letter][0]))[:, 0]
    with np.errstate(all="ignore"):
        for step in made.steps:
            step(lanes)
    results = [np.empty((count, asm.pack), f"u{BITS[element] // 8}") for element in asm.results]
    for register, number in zip(asm.registers(), made.numbers, strict=True):
        if register.result:
            held_here = np.ascontiguousarray(np.broadcast_to(lanes.registers[number], (count,)))
            into = results[register.tile]
            into[:, register.first : register.first + register.count] = held_here.view(into.dtype).reshape(count, -1)
    return tuple(result.reshape(-1)[:size] for result in results)


def _mixes(made: Assembled) -> bool:
    """Whether an element of random bits gives another result beside other neighbours or at another place."""
    random, pack = np.random.default_rng(SEED), made.asm.pack
    tiles = [random.integers(0, 256, (TRIES, pack, BITS[element] // 8), np.uint8) for element in made.asm.sources]
    flat = [np.ascontiguousarray(tile).view(f"u{tile.shape[-1]}").reshape(-1) for tile in tiles]
    order = random.permutation(TRIES * pack)
    plain, moved = _run(made, flat), _run(made, [tile[order] for tile in flat])
    return any(some(one[order] != other) for one, other in zip(plain, moved, strict=True))


def moves_only(made: Assembled) -> bool:
    """Whether the text does nothing but give its only source as its only result."""
    (*_, last) = made.instructions or (None,)
    if last is None or len(made.instructions) > 1 or len(made.asm.results) != 1 or len(made.asm.sources) != 1:
        return False
    target, *sources = last.operands
    plain = last.name == "mov" and last.guard is None and made.asm.pack == 1 and isinstance(target, Register)
    return plain and len(sources) == 1 and isinstance(sources[0], Register) and target != sources[0]
