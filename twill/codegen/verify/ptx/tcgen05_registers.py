"""`tcgen05.ld`, `.st` and their waits: registers and tensor memory, asynchronously and by whole warps.

A load reads tensor memory at the `wait::ld` that covers it, the latest that is allowed, or when a register of it is
used before, which is found. A store takes its registers when it is issued, and writes at its `wait::st`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby

import numpy as np

from twill.codegen.verify.ptx.accesses import address_of, noted
from twill.codegen.verify.ptx.code import Block, Step
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.tcgen05_memory import Cells, TensorMemory
from twill.codegen.verify.ptx.threads import WARP, Array, Gang
from twill.codegen.verify.ptx.units.tensor_memory import HALF, QUARTER, is_shape, moved
from twill.ptx.arrays import some
from twill.ptx.program import Immediate, InstructionPlace, PtxInstruction, Vector
from twill.ptx.registers import Operands, constant, unsupported

POISON = {
    np.dtype(np.float32): constant(float("nan"), np.float32),
    np.dtype(np.uint32): constant(0x7FFFFFFF, np.uint32),
}


@dataclass
class Move:
    """What one warp's load or store moves. lanes, columns: of tensor memory, [32, registers]. values: of a store, in
    the same shape. arrived: whether the registers of a load have their values."""

    warp: int
    registers: tuple[int, ...]
    lanes: Array
    columns: Array
    cells: Cells
    place: InstructionPlace
    values: Array | None = None
    arrived: bool = False


@dataclass
class TensorMoves:
    """Those of one gang that are in flight. flying: registers of loads."""

    loads: list[Move] = field(default_factory=list)
    stores: list[Move] = field(default_factory=list)
    flying: set[int] = field(default_factory=set)

    def check(self, g: Gang, block: Block) -> None:
        """A block is run that may touch registers in flight. Those that it touches are as if they had arrived: ptxas
        makes whoever uses a register wait for it, though the ISA promises nothing before `wait::ld`."""
        touched = block.touched | block.last_touched
        running = g.warps_of(g.running())
        for move in self.loads:
            if move.warp in running and not move.arrived and not touched.isdisjoint(move.registers):
                said = "a register of this load is used before the wait::ld that covers it"
                g.cta.world.findings.add("tcgen05-registers", said, move.place, g.who())
                self._arrive(g, [move])

    def _arrive(self, g: Gang, moves: list[Move]) -> None:
        """Registers of loads get their values."""
        cells = memory_of(g).cells
        for registers, alike in groupby(moves, key=lambda move: move.registers):
            values = {move.warp: cells[move.lanes, move.columns].T for move in alike}
            whole = np.empty((len(registers), g.size), np.uint32)
            if len(values) < len(g.own_warps):
                whole = _whole(g, registers)
            for warp, found in values.items():
                whole[:, _lanes(g, warp)] = found
            for register, row in zip(registers, whole, strict=True):
                g.registers[register] = row.view(g.registers[register].dtype)
        for move in moves:
            move.arrived = True
        self.flying = {register for move in self.loads if not move.arrived for register in move.registers}

    def finish_loads(self, g: Gang) -> None:
        """`wait::ld` of the warps that run."""
        memory, running = memory_of(g), g.warps_of(g.running())
        over = [move for move in self.loads if move.warp in running]
        for move in over:
            self.loads.remove(move)
            order = memory.order
            order.loading[move.cells.at] -= 1
            order.was_read(move.cells, move.warp, int(order.clocks.known[move.warp, move.warp]))
        self._arrive(g, [move for move in over if not move.arrived])

    def finish_stores(self, g: Gang) -> None:
        """`wait::st` of the warps that run."""
        memory, running = memory_of(g), g.warps_of(g.running())
        for move in [move for move in self.stores if move.warp in running]:
            self.stores.remove(move)
            order = memory.order
            order.storing[move.cells.at] -= 1
            order.wrote(move.cells, move.warp, int(order.clocks.known[move.warp, move.warp]))
            assert move.values is not None
            memory.cells[move.lanes, move.columns] = move.values


def memory_of(g: Gang) -> TensorMemory:
    """Tensor memory of the gang's CTA."""
    assert g.cta.tensor is not None
    return g.cta.tensor


def _lanes(g: Gang, warp: int) -> slice:
    """Those of a warp."""
    first = WARP * (warp - g.own_warps[0])
    return slice(first, first + WARP)


def _whole(g: Gang, registers: tuple[int, ...]) -> Array:
    """Registers of all lanes as uint32 [registers, lanes]."""
    return np.stack([g.full(g.registers[register]).view(np.uint32) for register in registers])


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of one of these; None if it is none. Complete warps run it."""
    kind = instruction.modifiers[0]
    if kind == "wait::ld":
        return lambda g: g.tensor.finish_loads(g)
    if kind == "wait::st":
        return lambda g: g.tensor.finish_stores(g)
    if kind == "ld":
        return _load(operands, instruction)
    return _store(operands, instruction) if kind == "st" else None


def _load(operands: Operands, instruction: PtxInstruction) -> Step:
    target, _, *rest = instruction.operands
    registers, moves = _moves(operands, instruction, target, instruction.operands[1], rest)
    place = instruction.place

    def step(g: Gang) -> None:
        order = memory_of(g).order
        for move in moves(g):
            noted(g, order.read(move.cells, order.known(move.warp)), place)
            order.loading[move.cells.at] += 1
            g.tensor.loads.append(move)
        running = g.running()
        for register in registers:
            poison = POISON[g.registers[register].dtype]
            g.registers[register] = np.where(running, poison, g.registers[register])
        g.tensor.flying.update(registers)

    return step


def _store(operands: Operands, instruction: PtxInstruction) -> Step:
    target, *rest = instruction.operands
    registers, moves = _moves(operands, instruction, rest[-1], target, rest[:-1])
    place = instruction.place

    def step(g: Gang) -> None:
        order, given = memory_of(g).order, _whole(g, registers)
        for move in moves(g):
            noted(g, order.overwrite(move.cells, order.known(move.warp)), place)
            order.storing[move.cells.at] += 1
            move.values = given[:, _lanes(g, move.warp)].T
            g.tensor.stores.append(move)

    return step


def _moves(
    operands: Operands, instruction: PtxInstruction, vector: object, address: object, split: object
) -> tuple[tuple[int, ...], Callable[[Gang], list[Move]]]:
    """The registers of a load or store, and what says what the warps that run move."""
    modifiers = instruction.modifiers
    shape = next((m for m in modifiers if is_shape(m)), "")
    count = next((int(m[1:]) for m in modifiers if m[0] == "x" and m[1:].isdigit()), 0)
    unknown = {"pack::16b", "unpack::16b", "red", "spcompress"}.intersection(modifiers)
    if not shape or not count or unknown or not isinstance(vector, Vector) or not isinstance(split, list):
        raise unsupported(instruction)
    halves = split[0] if split else Immediate(0)
    if len(split) > 1 or not isinstance(halves, Immediate) or bool(split) != (shape == "16x32bx2"):
        raise unsupported(instruction)
    lanes, columns = moved(shape, count, halves.value)
    registers = tuple(operands.number(part) for part in vector.parts)
    if len(registers) != lanes.shape[1]:
        raise unsupported(instruction, f"{len(registers)} registers, not {lanes.shape[1]}")
    at = address_of(operands, instruction, address)  # type: ignore[arg-type]
    place = instruction.place

    def moves(g: Gang) -> list[Move]:
        given, found = g.full(at(g)), []
        for warp in g.warps_of(g.running()):
            own = given[g.alone(warp)]
            if len(own) != WARP or some(own != own[0]):
                raise Stopped("form", "tensor memory is moved by a part of a warp, or with several addresses")
            lane, wanted = memory_of(g).place(int(own[0]), columns)
            quarter = (warp - g.cta.warp) % 4 * QUARTER
            if lane not in ((quarter,) if shape == "32x32b" else (quarter, quarter + HALF)):
                reached = f"lanes {quarter} to {quarter + QUARTER - 1}"
                raise Stopped("form", f"warp {warp} moves tensor memory from lane {lane} on; it reaches {reached}")
            cells = Cells.of(lane + lanes, wanted)
            found.append(Move(warp, registers, lane + lanes, wanted, cells, place))
        return found

    return registers, moves
