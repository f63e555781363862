"""A warp group's asynchronous multiplies: what is in flight, which registers belong to it, and when it is done.

A multiply takes its registers when it is issued and reads shared memory when a wait_group makes it be over, the latest
that is allowed. Until then its registers hold NaN, and whoever touches one of them is found. A plain move of an
accumulator in flight renames it: compilers print such moves where ptxas needs no instruction.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.threads import GANG, Array, Gang
from twill.codegen.verify.ptx.units.wgmma import chunks, multiply
from twill.ptx.arrays import every, highest, some
from twill.ptx.program import Immediate, InstructionPlace, Operand, PtxInstruction, Register, Vector
from twill.ptx.registers import Operands, constant, unsupported

if TYPE_CHECKING:
    from twill.codegen.verify.ptx.code import Block

Sign = Literal[1, -1]
_POISON = {
    np.dtype(np.float32): constant(float("nan"), np.float32),
    np.dtype(np.uint32): constant(0x7FFFFFFF, np.uint32),
}
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")
_KINDS = ("f32", "f16", "bf16", "tf32", "e4m3", "e5m2", "s32", "s8", "u8")


@dataclass(eq=False)
class MmaInFlight:
    """One multiply in flight. inputs: of each accumulator its value, or whose result it is. reads: bytes of shared
    memory. result: [registers, 128] when it is done."""

    run: Callable[[Array], Array]
    inputs: list[Any]
    reads: list[Array]
    place: InstructionPlace
    result: Array | None = None


class MmaRegister(NamedTuple):
    """A register of a product in flight: accumulator `number`, or -1, a register of A."""

    product: MmaInFlight
    number: int


@dataclass
class MmasInFlight:
    """Those of one gang. flying: registers in flight. unfenced: operands that threads wrote since a wgmma.fence."""

    flying: dict[int, MmaRegister] = field(default_factory=dict)
    unfenced: set[int] = field(default_factory=set)
    open: list[MmaInFlight] = field(default_factory=list)
    groups: list[list[MmaInFlight]] = field(default_factory=list)

    def wrote(self, written: tuple[tuple[int, int], ...]) -> None:
        """A block wrote operands; a move from one that is fenced leaves the other fenced."""
        for register, source in written:
            if source >= 0 and source not in self.unfenced:
                self.unfenced.discard(register)
            else:
                self.unfenced.add(register)

    def run_carefully(self, g: Gang, block: Block) -> None:
        """A block that touches registers in flight."""
        for step, instruction, (reads, writes, moved) in zip(block.steps, block.instructions, block.each, strict=True):
            if moved >= 0 and moved in self.flying and self.flying[moved].number >= 0 and g.mask is None:
                (target,) = writes
                self._overwritten(g, target, instruction)
                self.flying[target] = self.flying[moved]
                g.registers[target] = g.registers[moved]
                continue
            self.read(g, reads, instruction)
            for register in writes:
                self._overwritten(g, register, instruction)
            step(g)

    def read(self, g: Gang, registers: Iterable[int], instruction: PtxInstruction) -> None:
        """Registers are read, results that are not there yet among them."""
        for register in registers:
            if register in self.flying and self.flying[register].number >= 0:
                self._found(g, "reads the result of", self.flying[register], instruction)

    def _overwritten(self, g: Gang, register: int, instruction: PtxInstruction) -> None:
        cell = self.flying.pop(register, None)
        if cell is None or cell in self.flying.values():
            return  # not in flight, or known by another name
        self._found(g, "overwrites a register of", cell, instruction)

    def _found(self, g: Gang, does: str, cell: MmaRegister, instruction: PtxInstruction) -> None:
        message = (
            f"`{instruction.text[:60]}` {does} the multiply at {cell.product.place}, which no wait_group covers yet"
        )
        g.cta.world.findings.add("wgmma-wait", message, instruction.place, g.who())

    # ------------------------------------------------------------ groups

    def fence(self) -> None:
        """`wgmma.fence`."""
        self.unfenced.clear()

    def commit(self) -> None:
        """`wgmma.commit_group`."""
        self.groups.append(self.open)
        self.open = []

    def wait(self, g: Gang, left: int) -> None:
        """`wgmma.wait_group`: at most `left` groups stay in flight."""
        while len(self.groups) > left:
            for mma in self.groups.pop(0):
                self._finish(g, mma)

    def _finish(self, g: Gang, mma: MmaInFlight) -> None:
        result = mma.run(_accumulators(g, mma.inputs).T)
        mma.result = np.ascontiguousarray(result.T)
        mma.inputs = []
        for at in mma.reads:
            g.cta.shadow.end(at, g.own_warps)
        for register, cell in list(self.flying.items()):
            if cell.product is not mma:
                continue
            del self.flying[register]
            if cell.number >= 0:
                g.registers[register] = mma.result[cell.number].view(g.code.initial[register].dtype)


def _accumulators(g: Gang, inputs: list[Any]) -> Array:
    """[registers, 128]: those of one multiply before it as they are."""
    first = inputs[0]
    before = first.product if isinstance(first, MmaRegister) else None
    if before is not None and before.result is not None and inputs == _cells(before, len(inputs)):
        return before.result
    return np.stack([_value(g, one) for one in inputs])


@lru_cache(maxsize=1)
def _cells(mma: MmaInFlight, count: int) -> list[MmaRegister]:
    return [MmaRegister(mma, index) for index in range(count)]


def _value(g: Gang, given: Any) -> Array:
    if isinstance(given, MmaRegister):
        assert given.product.result is not None
        return given.product.result[given.number]
    return np.asarray(g.full(given)).view(np.uint32)


# ---------------------------------------------------------------- the instruction


@lru_cache(maxsize=512)
def _read(descriptor: int, rows: int, mn_major: bool) -> Array:
    """Bytes that a descriptor's matrix takes."""
    found: Array = (chunks(descriptor, rows, mn_major)[..., None] + np.arange(16)).reshape(-1, 16)
    found.flags.writeable = False
    return found


def issue(operands: Operands, instruction: PtxInstruction) -> Callable[[Gang], None]:
    """`wgmma.mma_async`, by all threads of a warp group."""
    shape, kinds = _form(instruction)
    given = instruction.operands
    accumulator, a, b, *rest = given
    if not isinstance(accumulator, Vector):
        raise unsupported(instruction)
    numbers = [operands.number(part) for part in accumulator.parts]
    left = [operands.number(part) for part in a.parts] if isinstance(a, Vector) else []
    a_at = None if left else operands.fetch(instruction, a, "u64")
    b_at = operands.fetch(instruction, b, "u64")
    scale = operands.fetch(instruction, rest[0], "pred") if rest and isinstance(rest[0], Register) else None
    always = scale is None and (not rest or _integer(rest[0]) != 0)
    signs = [_integer(one) for one in rest[1:3]] or [1, 1]
    majors = [_integer(one) != 0 for one in rest[3:]]
    trans_a, trans_b = (False, False) if not majors else (False, majors[-1]) if left else (majors[0], majors[-1])
    sign_a, sign_b = (_sign(instruction, one) for one in signs)
    saturate = "satfinite" in instruction.modifiers
    place = instruction.place

    def step(g: Gang) -> None:
        if g.size != GANG or not every(g.alive):
            raise Stopped("form", f"a multiply by {int(g.alive.sum())} threads, not the {GANG} of a warp group")
        mmas = g.products
        bare = mmas.unfenced.intersection(numbers + left)
        if bare:
            message = f"{len(bare)} registers of a multiply were written since the last wgmma.fence"
            g.cta.world.findings.add("wgmma-fence", message, place, g.who())
        warps = g.own_warps
        desc_b = _uniform(g, b_at(g), "descriptor of B")
        reads = [_read(desc_b, shape[1], trans_b)]
        if a_at is not None:
            source: Any = _uniform(g, a_at(g), "descriptor of A")
            reads.append(_read(source, 64, trans_a))
        else:
            mmas.read(g, left, instruction)
            source = np.stack([np.asarray(g.full(g.registers[r])).view(np.uint32) for r in left], axis=-1)
        for at in reads:
            last = highest(at[:, -1])
            if last >= len(g.cta.shared):
                raise Stopped("bounds", f"a multiply reads shared address {last:#x} of {len(g.cta.shared):#x}")
            said = g.cta.shadow.begin(at, warps)
            if said:
                rule, _, message = said.partition(":")
                g.cta.world.findings.add(rule, message, place, g.who())
        adds = always if scale is None else bool(_uniform(g, scale(g), "scale-d"))
        shared = g.cta.shared

        def run(d: Array) -> Array:
            return multiply(shape, kinds, source, desc_b, shared, d, adds, sign_a, sign_b, trans_a, trans_b, saturate)

        inputs = [mmas.flying.get(r) or g.registers[r] for r in numbers]
        if any(isinstance(one, MmaRegister) and one.number < 0 for one in inputs):
            raise Stopped("wgmma-wait", "an accumulator is a register of A of a multiply in flight")
        mma = MmaInFlight(run, inputs, reads, place)
        mmas.open.append(mma)
        mmas.flying.update(dict.fromkeys(left, MmaRegister(mma, -1)))
        mmas.flying.update(zip(numbers, _cells(mma, len(numbers)), strict=True))
        for register in numbers:
            g.registers[register] = _POISON[g.registers[register].dtype]

    return step


def registers_used(operands: Operands, instruction: PtxInstruction) -> set[int]:
    """Registers of accumulators and A."""
    vectors = [operand for operand in instruction.operands if isinstance(operand, Vector)]
    return {operands.number(part) for vector in vectors for part in vector.parts}


def _form(instruction: PtxInstruction) -> tuple[tuple[int, int, int], tuple[str, str, str]]:
    shape = next((found for m in instruction.modifiers if (found := _SHAPE.fullmatch(m))), None)
    kinds = [m for m in instruction.modifiers if m in _KINDS]
    if shape is None or len(kinds) != 3 or "sp" in instruction.modifiers:
        raise unsupported(instruction)
    m, n, k = map(int, shape.groups())
    return (m, n, k), (kinds[0], kinds[1], kinds[2])


def _integer(operand: Operand) -> int:
    return operand.value if isinstance(operand, Immediate) else 1


def _sign(instruction: PtxInstruction, value: int) -> Sign:
    if value == 1:
        return 1
    if value == -1:
        return -1
    raise unsupported(instruction, f"a scale of {value}")


def _uniform(g: Gang, value: Array, what: str) -> int:
    if len(value) > 1 and some(value != value[0]):
        raise Stopped("form", f"the {what} of a multiply differs between threads")
    return int(value[0])
