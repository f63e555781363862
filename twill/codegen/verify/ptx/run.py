"""Launches: CTAs one after the other, those of a cluster together, each thread to its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import product
from typing import Any

import numpy as np

from twill.codegen.verify.ptx.barriers import Barriers, ClusterBarrier
from twill.codegen.verify.ptx.build import Failed, build
from twill.codegen.verify.ptx.cluster_exit import check_exits
from twill.codegen.verify.ptx.code import Code
from twill.codegen.verify.ptx.copies import Copies
from twill.codegen.verify.ptx.findings import PtxFinding, PtxFindings
from twill.codegen.verify.ptx.made_maps import AcquiredMaps
from twill.codegen.verify.ptx.memory import GlobalMemory
from twill.codegen.verify.ptx.order import Clocks, Shadow
from twill.codegen.verify.ptx.tcgen05_allocation import check_end
from twill.codegen.verify.ptx.tcgen05_memory import TensorMemory
from twill.codegen.verify.ptx.tcgen05_registers import TensorMoves
from twill.codegen.verify.ptx.threads import GANG, MANY, WARP, Array, Cta, Gang, Index, Strand, World
from twill.codegen.verify.ptx.units.tensor_map import TensorMapModel
from twill.codegen.verify.ptx.units.tensor_map_bytes import encoded
from twill.codegen.verify.ptx.wgmma_in_flight import MmasInFlight
from twill.ptx.program import InstructionPlace, PtxModule

REGISTERS = 65536  # of an SM
MOST = 255  # of a thread
GRANULE = 8
PATIENCE = 256  # blocks of code without a change of global memory, behind which others have their turn
LONG = 4096  # the same where a turn of all CTAs changed nothing
IDLE = 3  # such turns behind which nothing will change any more
ENOUGH = 20  # findings after which no further CTA is started


@dataclass(frozen=True)
class PointerArgument:
    """An argument: the address of a tensor that is passed by name, `offset` bytes into it."""

    tensor: str
    offset: int = 0


@dataclass(frozen=True)
class MapOf:
    """An argument: a tensor map by value. tensor: whose address it gets, `offset` bytes into it."""

    tensor: str
    dtype: str
    dims: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: Any = 0
    fill: Any = "zero"
    offset: int = 0


Argument = int | float | PointerArgument | MapOf


@dataclass(frozen=True)
class PtxLaunch:
    """arguments: in the order of the kernel's parameters. tensors: global memory by name, any dtype. grid: CTAs.
    shared: dynamic bytes. threads: of a CTA, along x. cluster: CTAs of one along x. registers: of a thread at the
    launch (0: what the function says, else as many as the threads can have). blocks: of code that may run before a
    program is taken for endless. scattered_budgets: warps of a warp group may be at different `setmaxnreg`s of the
    same number, as the idle warps are with which Triton fills a warp group up; PTX asks for one instruction. answers:
    to requests to cancel a cluster, in order: which of those that have not started, counted around; -1: none. Behind
    the last one: the first that has not started. tolerated: rules whose findings do not stop the launch. together: a
    cluster that goes round in a loop while memory stays as it is gives way to the others, which may change it."""

    arguments: Sequence[Argument]
    tensors: Mapping[str, Array]
    grid: tuple[int, int, int]
    threads: int
    shared: int = 0
    cluster: int = 1
    registers: int = 0
    blocks: int = 400_000
    scattered_budgets: bool = False
    answers: tuple[int, ...] = ()
    tolerated: frozenset[str] = frozenset()
    together: bool = False


@dataclass(frozen=True)
class Result:
    """The tensors as the kernel leaves them, in dtype and shape as given; what was found; how many blocks of code ran.
    unreached: lines of the PTX with those that no lane came to."""

    tensors: Mapping[str, Array]
    findings: tuple[PtxFinding, ...]
    blocks: int = field(compare=False, default=0)
    unreached: frozenset[int] = field(compare=False, default=frozenset())


def execute(module: PtxModule, entry: str, launch: PtxLaunch) -> Result:
    """One launch of an entry.

    Errors: MalformedPtx and UnsupportedPtx before anything runs; KeyError, no such entry or tensor. What goes wrong
    while it runs is a finding, and the tensors are as far as it came.
    """
    memory, findings = GlobalMemory(), PtxFindings()
    code = build(module, module.function(entry), memory, launch.cluster > 1)
    addresses = {name: memory.add(name, tensor) for name, tensor in launch.tensors.items()}
    parameters, maps = _parameters(code, launch, addresses)
    blocks = 0
    visited: set[int] = set()
    indices = [(x, y, z) for z, y, x in product(*(range(extent) for extent in launch.grid[::-1]))]
    with np.errstate(all="ignore"):  # infinities are values like others
        pending: list[Sequence[Index]] = [
            indices[first : first + launch.cluster] for first in range(0, len(indices), launch.cluster)
        ]
        answers = list(launch.answers)

        def begun(cluster: Sequence[Index]) -> World:
            world = _world(code, launch, memory, findings, cluster)
            world.parameters, world.maps, world.visited = parameters, maps, visited
            world.pending, world.answers = pending, answers
            return world

        if launch.together:
            blocks = _run_together([begun(one) for one in pending], findings, launch.blocks)
            pending = []
        while pending:
            world = begun(pending.pop(0))
            finished = _run(world, findings, launch.blocks - blocks)
            blocks += world.blocks
            if not finished or sum(rule not in launch.tolerated for rule, _ in findings.found) >= ENOUGH:
                break
    tensors = {name: _back(memory, addresses[name], tensor) for name, tensor in launch.tensors.items()}
    every = [(*block.instructions, *((block.last,) if block.last is not None else ())) for block in code.blocks]
    unreached = {one.place.line for block, inside in enumerate(every) if block not in visited for one in inside}
    return Result(tensors, findings.all(), blocks, frozenset(unreached))


def _back(memory: GlobalMemory, address: int, tensor: Array) -> Array:
    buffer = memory.holding(address) if tensor.nbytes else None
    if buffer is None:
        return tensor.copy()
    return buffer.bytes[: buffer.size].view(tensor.dtype).reshape(tensor.shape).copy()


def _parameters(code: Code, launch: PtxLaunch, addresses: Mapping[str, int]) -> tuple[Array, dict[int, TensorMapModel]]:
    """The bytes of all parameters, and the tensor maps among them by offset."""
    declared = code.function.parameters
    if len(launch.arguments) > len(declared):
        raise ValueError(f"{len(launch.arguments)} arguments for {len(declared)} parameters")
    size = max((code.layout.addresses[p.name] + p.size for p in declared), default=0)
    made = np.zeros(size, np.uint8)
    maps = {}
    for parameter, argument in zip(declared, launch.arguments, strict=False):
        at = code.layout.addresses[parameter.name]
        if isinstance(argument, MapOf):
            start = addresses[argument.tensor] + argument.offset
            maps[at] = TensorMapModel(
                start, argument.dtype, argument.dims, argument.strides, argument.box, swizzle=argument.swizzle,
                fill=argument.fill,
            )  # fmt: skip
            made[at : at + parameter.size] = encoded(maps[at])
            continue
        value = addresses[argument.tensor] + argument.offset if isinstance(argument, PointerArgument) else argument
        dtype = np.dtype(f"f{parameter.size}" if isinstance(value, float) else f"u{parameter.size}")
        number = value if isinstance(value, float) else value & (1 << 8 * parameter.size) - 1
        made[at : at + parameter.size] = np.array([number], dtype).view(np.uint8)
    return made, maps


def _world(
    code: Code, launch: PtxLaunch, memory: GlobalMemory, findings: PtxFindings, indices: Sequence[Index]
) -> World:
    warps = -(-launch.threads // WARP)
    tensor = any(instruction.name == "tcgen05" for instruction in code.function.instructions)
    clocks = Clocks(warps * len(indices), tensor)
    world = World(memory, clocks, findings, ClusterBarrier(set(range(warps * len(indices)))), launch.grid)
    world.scattered_budgets = launch.scattered_budgets
    if any(instruction.name == "tensormap" for instruction in code.function.instructions):
        world.made_maps = AcquiredMaps()
    size = -(-(code.layout.dynamic + launch.shared) // 16) * 16
    registers = launch.registers or code.function.limit or min(MOST, REGISTERS // launch.threads) // GRANULE * GRANULE
    for rank, index in enumerate(indices):
        shared = np.full(size, 0xFF, np.uint8)
        cta = Cta(
            world,
            index,
            rank,
            rank * warps,
            launch.threads,
            shared,
            Shadow(size, clocks, code.grain),
            Barriers(clocks),
            Copies(),
        )
        cta.tensor = TensorMemory(clocks) if tensor else None
        for start in range(0, launch.threads, GANG):
            gang = Gang(cta, code, start, min(GANG, launch.threads - start), MmasInFlight(), TensorMoves())
            gang.budget = registers
            cta.gangs.append(gang)
        world.ctas.append(cta)
    return world


# ---------------------------------------------------------------- running


def _run_together(worlds: Sequence[World], findings: PtxFindings, most: int) -> int:
    """Clusters that wait for one another in loops; the blocks of code that ran. Each goes on until it ends or waits for
    memory to change, and then the next one that can go on does."""
    running, seen, idle = list(worlds), dict[int, int](), 0
    while running and idle <= IDLE:
        moved = False
        for world in list(running):
            changes = world.memory.changes
            if seen.get(id(world)) == changes and not idle:
                continue
            finished = _run(world, findings, most, LONG if idle else PATIENCE)
            moved |= finished is not None or world.memory.changes != changes
            seen[id(world)] = world.memory.changes
            if finished is not None:
                running.remove(world)
            if finished is False or len(findings.found) >= ENOUGH:
                return sum(one.blocks for one in worlds)
        idle = 0 if moved else idle + 1
    if running:
        gangs = [gang for world in running for cta in world.ctas for gang in cta.gangs]
        _stuck(findings, gangs, "deadlock", "all CTAs wait for memory to change")
    return sum(one.blocks for one in worlds)


def _run(world: World, findings: PtxFindings, most: int, patience: int = 0) -> bool | None:
    """All threads to their end; whether they got there. patience: None where they go round for so many blocks of code
    while global memory stays as it is."""
    gangs = [gang for cta in world.ctas for gang in cta.gangs]
    since, changes = world.blocks, world.memory.changes
    try:
        while any(gang.strands for gang in gangs):
            moved = False
            for gang in gangs:
                moved = gang.advance(patience or MANY) or moved
            if not moved and not _helped(world, gangs):
                _stuck(findings, gangs, "deadlock", "nobody can go on")
                return False
            if patience and world.memory.changes != changes:
                since, changes = world.blocks, world.memory.changes
            elif patience and world.blocks - since >= patience:
                return None
            if world.blocks > most:
                _stuck(findings, gangs, "endless", f"no end after {world.blocks} blocks of code")
                return False
    except Failed as failed:
        findings.add(failed.stopped.rule, failed.stopped.message, failed.place, failed.threads)
        return False
    for cta in world.ctas:
        for load in cta.copies.loads:
            findings.add("leftover", f"nobody waited for a copy to {load.barrier}", load.place)
    check_end(world, findings)
    check_exits(world, findings)
    return True


def _helped(world: World, gangs: Sequence[Gang]) -> bool:
    """Nobody can go on: the first copy or commit that somebody waits for lands; else any; else a wait gives up."""
    waiting = [strand for gang in gangs for strand in gang.strands if strand.wait is not None]
    awaited = {id(barrier) for strand in waiting if strand.wait for barrier in strand.wait.barriers}
    flying: list[tuple[Any, Callable[[], None]]] = [
        (load.barrier, partial(cta.copies.land, load, world)) for cta in world.ctas for load in cta.copies.loads
    ]
    flying += [(commit.barrier, partial(commit.land, world)) for commit in world.commits]
    for _, land in sorted(flying, key=lambda one: id(one[0]) not in awaited):
        land()
        return True
    given = [
        strand for strand in waiting
        if strand.wait is not None and strand.wait.polls and strand.refused != (strand.block, world.progress)
    ]  # fmt: skip
    for strand in given:
        strand.gave_up = True
    return bool(given)


def _stuck(findings: PtxFindings, gangs: Sequence[Gang], rule: str, message: str) -> None:
    """Who waits for what, or runs where."""
    strands = [(gang, strand) for gang in gangs for strand in gang.strands]
    parts = [f"{gang.who(strand.lanes)} at {_place(gang, strand)}{_what(strand)}" for gang, strand in strands]
    findings.add(rule, f"{message}: {'; '.join(parts)}", _place(*strands[0]))


def _place(gang: Gang, strand: Strand) -> InstructionPlace:
    block = gang.code.blocks[min(strand.block, len(gang.code.blocks) - 1)]
    if block.last is not None and not block.instructions:
        return block.last.place
    previous = gang.code.blocks[strand.block - 1].last if strand.block else None
    waits_behind = strand.wait is not None and not strand.wait.polls and previous is not None
    if waits_behind and previous is not None:
        return previous.place
    last = block.last or block.instructions[-1]
    return last.place


def _what(strand: Strand) -> str:
    if strand.meeting:
        return ", for other threads of the same warps"
    return f", for {strand.wait.what}" if strand.wait else ""
