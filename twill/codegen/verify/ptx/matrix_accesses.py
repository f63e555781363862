"""Matrices of 8 x 8 in shared memory, which a warp reads or writes at once: PTX ISA, "ldmatrix", "stmatrix"."""

from __future__ import annotations

import numpy as np

from twill.codegen.verify.ptx.accesses import address_of, into_space, noted, shared_place, space_of
from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.threads import WARP, Array, Cta, Gang
from twill.codegen.verify.ptx.units.matrix import ldmatrix, stmatrix
from twill.ptx.program import PtxInstruction, Vector
from twill.ptx.registers import Operands, unsupported


def build(operands: Operands, instruction: PtxInstruction) -> Step | None:
    """The step of an access to matrices; None if it is none."""
    return _matrix(operands, instruction) if instruction.name in ("ldmatrix", "stmatrix") else None


def _matrix(operands: Operands, instruction: PtxInstruction) -> Step:
    if "b16" not in instruction.modifiers or "m8n8" not in instruction.modifiers:
        raise unsupported(instruction)
    count = next(int(m[1]) for m in instruction.modifiers if m in ("x1", "x2", "x4"))
    trans, place = "trans" in instruction.modifiers, instruction.place
    loads = instruction.name == "ldmatrix"
    vector, address = instruction.operands if loads else instruction.operands[::-1]
    if not isinstance(vector, Vector):
        raise unsupported(instruction)
    fetch = address_of(operands, instruction, address)
    space = space_of(instruction)

    def rows(g: Gang, lanes: Array) -> tuple[Cta, Array]:
        given = g.of_lanes(fetch(g), lanes)
        where, given = (space, given) if space else into_space(given)
        used = np.tile(np.arange(WARP) < 8 * count, len(lanes) // WARP)
        if where != "shared":
            raise Stopped("form", f"a matrix in {where} memory")
        cta, offsets = shared_place(g, given[used], 16)
        whole = np.zeros(len(lanes), np.int64)
        whole[used] = offsets
        return cta, whole.reshape(-1, WARP)

    if loads:
        puts = [operands.put(instruction, part, "b32") for part in vector.parts]

        def load(g: Gang) -> None:
            lanes = _whole_warps(g)
            cta, at = rows(g, lanes)
            bytes_at = (at[:, : 8 * count, None] + np.arange(16)).reshape(-1, 16)
            noted(g, cta.shadow.read(bytes_at, np.repeat(g.warps[lanes].reshape(-1, WARP)[:, 0], 8 * count)), place)
            cta.shadow.clocks.accessed(g.warps[lanes], lanes % WARP)
            found = ldmatrix(count, at, cta.shared, trans).reshape(-1, count)
            for number, put in enumerate(puts):
                whole = np.zeros(g.size, np.uint32)
                whole[lanes] = found[:, number]
                put(g, whole)

        return load
    fetches = [operands.fetch(instruction, part, "b32") for part in vector.parts]

    def store(g: Gang) -> None:
        lanes = _whole_warps(g)
        cta, at = rows(g, lanes)
        registers = np.stack([g.of_lanes(one(g), lanes) for one in fetches], axis=-1).reshape(-1, WARP, count)
        places, values = stmatrix(count, at, np.ascontiguousarray(registers), trans)
        places, values = places.reshape(-1, 16), values.reshape(-1, 16)
        warps = np.repeat(g.warps[lanes].reshape(-1, WARP)[:, 0], 8 * count)
        # Every lane has a part of every row: all of them must fence.
        noted(g, cta.shadow.write(places, warps, np.zeros(len(places), np.int64)), place)
        cta.shadow.clocks.unfenced[warps[:, None], np.arange(WARP)] = True
        cta.shadow.clocks.accessed(g.warps[lanes], lanes % WARP)
        cta.shared[places] = values
        g.cta.world.progress += 1

    return store


def _whole_warps(g: Gang) -> Array:
    lanes = g.lanes()
    if len(lanes) % WARP:
        raise Stopped("form", "an aligned instruction by a part of a warp")
    return lanes
