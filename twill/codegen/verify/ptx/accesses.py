"""Loads, stores and atomic operations by threads: PTX ISA, "ld", "st", "atom", "red".

Caches, scopes and orders of single accesses make no difference here: threads see memory as it is. What barriers order
is kept beside it (`twill.codegen.verify.ptx.order`), for shared memory.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from twill.codegen.verify.ptx.code import Step
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.memory import LOCAL, PARAMETERS, RANK, RANK_0, RESERVED, SHARED, WINDOW
from twill.codegen.verify.ptx.threads import WARP, Array, Cta, Gang
from twill.ptx import program as ptx
from twill.ptx.arrays import every, highest, lowest, some
from twill.ptx.floats import on_halves
from twill.ptx.registers import TYPES, WORD_128, Fetch, Operands, types_of, unsupported

_SPACES = {"global": "global", "const": "global", "shared": "shared", "shared::cta": "shared", "param": "param",
           "shared::cluster": "shared", "local": "local", "param::entry": "param"}  # fmt: skip
_WORDS: dict[int, Any] = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: WORD_128}


def build(operands: Operands, instruction: ptx.PtxInstruction) -> Step | None:
    """The step of an access; None if it is none."""
    maker = _TABLE.get(instruction.name)
    return maker(operands, instruction) if maker else None


def address_of(operands: Operands, instruction: ptx.PtxInstruction, operand: ptx.Operand) -> Fetch:
    """Reads an address operand: uint64, offset included."""
    if not isinstance(operand, ptx.AddressOperand):
        raise unsupported(instruction, f"operand {operand} is no address")
    wide = (
        isinstance(operand.base, ptx.PtxSymbol)
        or operands.types.get(getattr(operand.base, "name", ""), "b64")[1:] == "64"
    )
    base = operands.fetch(instruction, operand.base, "u64" if wide else "u32")
    offset = np.array([operand.offset & (1 << 64) - 1], np.uint64)
    if not operand.offset:
        return base if wide else lambda g: base(g).astype(np.uint64)
    if wide:
        return lambda g: base(g) + offset
    return lambda g: (base(g).astype(np.uint64) + offset) & np.uint64(0xFFFFFFFF)


def space_of(instruction: ptx.PtxInstruction) -> str:
    """Of an access; "" for generic addresses."""
    return next((_SPACES[m] for m in instruction.modifiers if m in _SPACES), "")


def shared_place(g: Gang, addresses: Array, size: int) -> tuple[Cta, Array]:
    """The CTA and the offsets of accesses of `size` bytes, a power of two, to shared memory. Stopped: bounds,
    alignment."""
    offsets = addresses.astype(np.int64)
    cta, low, high = g.cta, lowest(offsets), highest(offsets)
    if low < 0 or high >> RANK:
        ranks = offsets >> RANK & 0xFF
        if some(ranks != ranks[0]):
            raise Stopped("form", "one access of several CTAs' shared memory")
        if ranks[0]:
            cta = other_cta(g, int(ranks[0]) - RANK_0)
        offsets = offsets & (1 << RANK) - 1
        low, high = lowest(offsets), highest(offsets)
    high += size
    if low < RESERVED or high > len(cta.shared):
        raise Stopped(
            "bounds", f"shared addresses {low:#x} to {high:#x} are not inside {RESERVED:#x} to {len(cta.shared):#x}"
        )
    if size > 1 and some(offsets & size - 1):
        raise Stopped(
            "alignment", f"shared address {int(offsets[offsets & size - 1 != 0][0]):#x} is no multiple of {size}"
        )
    return cta, offsets


def other_cta(g: Gang, rank: int) -> Cta:
    """Of the cluster. Stopped: bounds."""
    if not 0 <= rank < len(g.cta.world.ctas):
        raise Stopped("bounds", f"CTA {rank} of a cluster of {len(g.cta.world.ctas)}")
    return g.cta.world.ctas[rank]


def into_space(addresses: Array) -> tuple[str, Array]:
    """The space of generic addresses, and the addresses there. Stopped: several spaces."""
    high = addresses >= np.uint64(SHARED)
    if not some(high):
        return "global", addresses
    for space, start in (("shared", SHARED), ("param", PARAMETERS), ("local", LOCAL)):
        if every((addresses >= np.uint64(start)) & (addresses < np.uint64(start + WINDOW))):
            return space, addresses - np.uint64(start)
    raise Stopped("form", "one generic access of several state spaces")


def noted(g: Gang, said: str, place: ptx.InstructionPlace) -> None:
    """What the order of accesses says, as a finding."""
    if said:
        rule, _, message = said.partition(":")
        g.cta.world.findings.add(rule, message, place, g.who())


def _bytes(offsets: Array, size: int) -> Array:
    return offsets[:, None] + np.arange(size)


# ---------------------------------------------------------------- loads and stores


def _load(operands: Operands, instruction: ptx.PtxInstruction) -> Step:
    type = types_of(instruction)[-1]
    target = instruction.operands[0]
    parts = target.parts if isinstance(target, ptx.Vector) else (target,)
    puts = [operands.put(instruction, part, type) for part in parts]
    fetch = address_of(operands, instruction, instruction.operands[1])
    size, count, space, dtype = ptx.width(type), len(parts), space_of(instruction), TYPES[type]
    place = instruction.place

    def step(g: Gang) -> None:
        given = fetch(g)
        lanes = g.lanes()
        uniform = len(given) == 1
        addresses = given if uniform else g.of_lanes(given, lanes)
        where, addresses = (space, addresses) if space else into_space(addresses)
        if where == "local" and uniform:  # one address, and a memory for each lane
            uniform, addresses = False, g.of_lanes(addresses, lanes)
        words = _read(g, where, addresses, size, count, lanes, place)
        for number, put in enumerate(puts):
            values = words[number].view(dtype)
            if not uniform and len(lanes) != g.size:
                whole = np.zeros(g.size, dtype)
                whole[lanes] = values
                values = whole
            put(g, values)

    return step


def _read(
    g: Gang, space: str, addresses: Array, size: int, count: int, lanes: Array, place: ptx.InstructionPlace
) -> list[Array]:
    """The words of each lane's address (or of one address for all lanes), one array for each of `count`."""
    if space == "shared":
        cta, offsets = shared_place(g, addresses, size * count)
        warps = g.warps[lanes]
        at = _bytes(offsets, size * count)
        if len(offsets) != len(lanes):
            warps = np.array(g.warps_of(g.running()))
            at = np.broadcast_to(at, (len(warps), at.shape[1]))
        noted(g, cta.shadow.read(at, warps), place)
        cta.shadow.clocks.accessed(g.warps[lanes], lanes % WARP)
        words = cta.shared.view(_WORDS[size])
        return [words[offsets // size + number] for number in range(count)]
    if space == "global":
        if some(addresses & np.uint64(size * count - 1)):
            raise Stopped("alignment", f"a global address is no multiple of {size * count}")
        memory = g.cta.world.memory
        return [memory.load(addresses + np.uint64(size * number), size) for number in range(count)]
    rows = (
        _param_bytes(g, addresses, size * count)
        if space == "param"
        else _local_bytes(g, addresses, size * count, lanes)
    )
    words = np.ascontiguousarray(rows).view(_WORDS[size])
    return [np.ascontiguousarray(words[:, number]) for number in range(count)]


def _param_bytes(g: Gang, addresses: Array, size: int) -> Array:
    parameters = g.cta.world.parameters
    if highest(addresses) + size > len(parameters):
        raise Stopped("bounds", f"parameter bytes up to {highest(addresses) + size} of {len(parameters)}")
    return parameters[_bytes(addresses.astype(np.int64), size)]


def _local_bytes(g: Gang, addresses: Array, size: int, lanes: Array) -> Array:
    local = _local(g, addresses, size)
    found: Array = local[lanes[:, None], _bytes(addresses.astype(np.int64), size)]
    return found


def _local(g: Gang, addresses: Array, size: int) -> Array:
    have = g.code.layout.local
    if highest(addresses) + size > have:
        raise Stopped("bounds", f"local bytes up to {highest(addresses) + size} of {have}")
    return g.cta.local.setdefault(g.first, np.zeros((g.size, have), np.uint8))


def _store(operands: Operands, instruction: ptx.PtxInstruction) -> Step:
    type = types_of(instruction)[-1]
    if type == "b128" or "async" in instruction.modifiers:
        raise unsupported(instruction)
    source = instruction.operands[1]
    parts = source.parts if isinstance(source, ptx.Vector) else (source,)
    bits = f"b{8 * ptx.width(type)}"
    fetches = [operands.fetch(instruction, part, bits) for part in parts]
    fetch = address_of(operands, instruction, instruction.operands[0])
    size, count, space = ptx.width(type), len(parts), space_of(instruction)
    place = instruction.place

    def step(g: Gang) -> None:
        lanes = g.lanes()
        addresses = g.of_lanes(fetch(g), lanes)
        where, addresses = (space, addresses) if space else into_space(addresses)
        values = [g.of_lanes(one(g), lanes) for one in fetches]
        g.cta.world.progress += 1
        if where == "shared":
            cta, offsets = shared_place(g, addresses, size * count)
            written(g, cta, _bytes(offsets, size * count), lanes, place)
            words = cta.shared.view(_WORDS[size])
            for number, value in enumerate(values):
                words[offsets // size + number] = value
        elif where == "global":
            if some(addresses & np.uint64(size * count - 1)):
                raise Stopped("alignment", f"a global address is no multiple of {size * count}")
            if g.cta.world.made_maps is not None:
                g.cta.world.made_maps.store(g, addresses, size * count, lanes, place)
            for number, value in enumerate(values):
                g.cta.world.memory.store(addresses + np.uint64(size * number), size, value)
        elif where == "local":
            local = _local(g, addresses, size * count)
            for number, value in enumerate(values):
                at = _bytes(addresses.astype(np.int64) + size * number, size)
                local[lanes[:, None], at] = np.ascontiguousarray(value).view(np.uint8).reshape(-1, size)
        else:
            raise Stopped("form", f"a store to {where} memory")

    return step


def written(g: Gang, cta: Cta, at: Array, lanes: Array, place: ptx.InstructionPlace) -> None:
    """Threads write bytes of shared memory: what is wrong with it."""
    noted(g, cta.shadow.write(at, g.warps[lanes], lanes % WARP), place)
    low, high = lowest(at), highest(at)
    for address in cta.barriers.objects:
        if low < address + 8 and address <= high and some((at >= address) & (at < address + 8)):
            raise Stopped("mbarrier", f"a store to the mbarrier at {address:#x}")


# ---------------------------------------------------------------- atomic operations

Combine = Callable[[Array, Array, Array], Array]


def _atomic(operands: Operands, instruction: ptx.PtxInstruction) -> Step:
    """Lane after lane."""
    returns = instruction.name == "atom"
    type = types_of(instruction)[-1]
    given = instruction.operands if returns else (None, *instruction.operands)
    name = next((m for m in instruction.modifiers if m in _COMBINE), None)
    if name is None or "async" in instruction.modifiers or isinstance(given[2], ptx.Vector):
        raise unsupported(instruction)
    combine = _combine(name, type)
    put = operands.put(instruction, given[0], type) if given[0] is not None else None
    if not isinstance(given[1], ptx.AddressOperand):
        raise unsupported(instruction)
    fetch = address_of(operands, instruction, given[1])
    values = [operands.fetch(instruction, operand, type) for operand in given[2:4] if operand is not None]
    size, space, dtype = ptx.width(type), space_of(instruction), np.dtype(TYPES[type])
    bits = _WORDS[size]

    def step(g: Gang) -> None:
        lanes = g.lanes()
        addresses = g.of_lanes(fetch(g), lanes)
        where, addresses = (space, addresses) if space else into_space(addresses)
        arguments = [g.of_lanes(value(g), lanes) for value in values]
        before = np.zeros(g.size, bits)
        words = _words_at(g, where, addresses, size, lanes)
        for i, (memory, at) in enumerate(words):
            old = memory[at : at + 1].view(dtype)
            before[lanes[i]] = memory[at]
            memory[at : at + 1] = combine(old, *(a[i : i + 1] for a in arguments)).astype(dtype).view(bits)
            g.cta.world.memory.changes += bool(memory[at] != before[lanes[i]])
        g.cta.world.progress += 1
        if put is not None:
            put(g, before.view(dtype))

    return step


def _words_at(g: Gang, space: str, addresses: Array, size: int, lanes: Array) -> list[tuple[Array, int]]:
    """Of each lane the memory as words, and its word."""
    if space == "shared":
        cta, offsets = shared_place(g, addresses, size)
        cta.shadow.combined(_bytes(offsets, size), g.warps[lanes], lanes % WARP)
        words = cta.shared.view(_WORDS[size])
        return [(words, int(offset) // size) for offset in offsets]
    if space != "global":
        raise Stopped("form", f"an atomic operation on {space} memory")
    if some(addresses & np.uint64(size - 1)):
        raise Stopped("alignment", f"a global address is no multiple of {size}")
    found = []
    for address in addresses.tolist():
        buffer = g.cta.world.memory.holding(address)
        if address + size > buffer.start + buffer.size:
            raise Stopped("bounds", f"{address:#x} is beyond `{buffer.name}`")
        found.append((buffer.words(size), (address - buffer.start) // size))
    return found


def _increment(old: Array, limit: Array) -> Array:
    return np.where(old >= limit, old.dtype.type(0), old + old.dtype.type(1))


def _decrement(old: Array, limit: Array) -> Array:
    return np.where((old == 0) | (old > limit), limit, old - old.dtype.type(1))


_COMBINE: dict[str, Callable[..., Array]] = {
    "add": np.add, "min": np.minimum, "max": np.maximum, "and": np.bitwise_and, "or": np.bitwise_or,
    "xor": np.bitwise_xor, "exch": lambda old, new: new,
    "cas": lambda old, wanted, new: np.where(old == wanted, new, old),
    "inc": _increment, "dec": _decrement,
}  # fmt: skip


def _combine(name: str, type: str) -> Callable[..., Array]:
    function = _COMBINE[name]
    if type in ("f16", "bf16", "f16x2", "bf16x2") and name not in ("exch", "cas"):
        return on_halves(function, type.removesuffix("x2"), type.endswith("x2"))
    if type[0] == "b" and name in ("min", "max", "add"):
        raise ValueError(f"no atomic {name} of {type}")
    return function


_TABLE: dict[str, Callable[[Operands, ptx.PtxInstruction], Step]] = {
    "ld": _load, "ldu": _load, "st": _store, "atom": _atomic, "red": _atomic,
}  # fmt: skip
