"""Specialization -> tile program with raw accesses: Triton's IR, operation by operation.

What each MLIR operation becomes is in the tables of `twill.tile.translate.operations` (elementwise
operations and views) and `twill.tile.translate.memory` (pointers and descriptors); what has no
entry is refused by `twill.tile.translate.refusals` with the kernel line and what to write instead.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from twill.exc import KernelDoesNotCompile, NestedLoop, UnsupportedOperation
from twill.kernel.specialization import Specialization
from twill.kernel.ttir import ttir
from twill.tile.mlir import RawBlock, RawOp, every, parse
from twill.tile.program import Argument, Carry, Loop, TileProgram
from twill.tile.tile_instances import of_tiles
from twill.tile.translate.attributes import unread
from twill.tile.translate.branches import blocks_without_loops, call, conditional
from twill.tile.translate.builder import Literal, ProgramBuilder
from twill.tile.translate.constant_nests import constant_nest, write_nest
from twill.tile.translate.contraction import contract
from twill.tile.translate.counted_while import count_whiles
from twill.tile.translate.elected import observes
from twill.tile.translate.folds import fold
from twill.tile.translate.memory import MEMORY
from twill.tile.translate.operations import OPERATIONS
from twill.tile.translate.pointer_choices import distribute_choices
from twill.tile.translate.refusals import refuse, refuse_attribute, refuse_loop
from twill.tile.translate.scalar_loops import while_loop
from twill.tile.translate.scalar_stores import elect_stores
from twill.tile.translate.scalar_sums import look_up_sums
from twill.tile.walks import of_walk

# Hints, terminators (read by what they end), and barriers: a tile program is sequential as it stands. Waits for the
# grid in front, and leave for the one behind to begin: every emitted kernel waits before it touches global memory
# (`twill.codegen.passes.early_launch`), or begins when that grid has ended.
IGNORED = frozenset({"llvm.intr.assume", "gpu.barrier", "ttg.barrier", "tt.return", "scf.yield", "cf.br",
                     "cf.cond_br", "tt.grid_dependency_wait", "tt.grid_dependency_launch_dependents"})  # fmt: skip
TABLE = {**OPERATIONS, **MEMORY}
MOST_OPERATIONS = 8_000
OPERATION = re.compile(r'^\s+(?:%\S+ = )?"[a-z]+\.', re.MULTILINE)
WRITTEN_OUT = 16  # iterations of a loop in a loop, or around one
COPIES = 64  # of a loop within several that are written out


def tile_program(spec: Specialization) -> TileProgram:
    """The tile program of a specialization, its accesses as Triton spells them.

    Raises `KernelDoesNotCompile`, `UnsupportedOperation`, `DataDependentControlFlow`, `NestedLoop`.
    """
    text = ttir(spec)
    operations = sum(1 for _ in OPERATION.finditer(text))
    if operations > MOST_OPERATIONS:
        raise UnsupportedOperation(
            f"{spec.kernel} has {operations} operations once its loops over constants are written out, and at most "
            f"{MOST_OPERATIONS} can be scheduled",
            file=spec.file,
            hint="`range` for `tl.static_range`, or a smaller constant",
        )
    return from_mlir(text, spec)


def from_mlir(text: str, spec: Specialization) -> TileProgram:
    """The tile program of the kernel in a TTIR module in generic form."""
    module = parse(text, str(Path(spec.file).resolve()))
    functions = [op for op in module.regions[0][0].operations if op.name == "tt.func"]
    kernel = next((op for op in functions if op.attributes.get("sym_name") == spec.kernel), None)
    if kernel is None:
        raise KernelDoesNotCompile(f"Triton's module has no function {spec.kernel}", file=spec.file)
    blocks = elect_stores(count_whiles(kernel.regions[0]))
    called = {str(op.attributes["sym_name"]): count_whiles(op.regions[0]) for op in functions if op is not kernel}
    strided = _strided(blocks)
    program = of_tiles(_program(spec, blocks, called, (strided,))) if strided else None
    if program is not None:
        return program
    around, everything = _around(blocks), [*blocks, *(block for one in called.values() for block in one)]
    if around and observes(everything, _read(everything)):  # in a loop in a loop there are no such operations
        walked = of_walk(_program(spec, blocks, called, around))
        if walked is not None:
            return walked
    try:
        return _program(spec, blocks, called)
    except NestedLoop:
        walked = of_walk(_program(spec, blocks, called, around)) if around else None
        if walked is None:
            raise
        return walked


def _program(
    spec: Specialization, blocks: tuple[RawBlock, ...], called: Mapping[str, tuple[RawBlock, ...]],
    around: Sequence[RawOp] = (),
) -> TileProgram:  # fmt: skip
    """The program of a function's blocks. called: functions by name. around: loops that may have loops in them."""
    everything = [*blocks, *(block for one in called.values() for block in one)]
    read = _read(everything)
    emitter = ProgramBuilder(spec.file, around, read, observes(everything, read), called)
    arguments = _arguments(spec, blocks[0], emitter)
    blocks_without_loops(spec.file, blocks, emitter, _translate)
    return look_up_sums(contract(distribute_choices(emitter.program(spec, arguments))))


def _strided(blocks: Sequence[RawBlock]) -> RawOp | None:
    """The first loop of a kernel that begins with a grid index and has loops in it."""
    made = {op.results[0].id: op for block in blocks for op in block.operations if op.results}
    for op in (op for block in blocks for op in block.operations if op.name == "scf.for"):
        begin = made.get(op.operands[0])
        if begin is not None and begin.name == "tt.get_program_id" and _has_loop(op):
            return op
    return None


def _around(blocks: Sequence[RawBlock]) -> tuple[RawOp, ...]:
    """The loops of a kernel's last loop, itself included, that have a loop in them, be it under a condition."""
    found = []
    loops = list(_loops(blocks))
    while loops and _has_loop(loops[-1]):
        found.append(loops[-1])
        loops = list(_loops(loops[-1].regions[-1]))
    return tuple(found)


def _loops(blocks: Sequence[RawBlock]) -> Iterator[RawOp]:
    """The loops that are in no other."""
    for op in (op for block in blocks for op in block.operations):
        if op.name == "scf.for" or (op.name == "scf.while" and _has_loop(op)):
            yield op
        elif op.name == "scf.if":
            for region in op.regions:
                yield from _loops(region)


def _has_loop(op: RawOp) -> bool:
    """Whether a loop is in an operation."""
    return any(one.name == "scf.for" for region in op.regions for one in every(region))


def _read(blocks: Sequence[RawBlock]) -> frozenset[int]:
    """Every value that an operation reads."""
    return frozenset(operand for op in every(blocks) for operand in op.operands)


def _arguments(spec: Specialization, block: RawBlock, emitter: ProgramBuilder) -> tuple[Argument, ...]:
    """The runtime arguments: a host descriptor comes with the shape and strides of its tensor."""
    names: list[tuple[str, int]] = []
    divisors = dict(spec.divisibility)
    for name, kind in spec.signature:
        names.append((name, divisors.get(name, 1)))
        if kind.startswith("tensordesc"):
            names[-1] = (name, 16)  # a tensor map's base address is a multiple of 16 bytes ...
            names.extend(_descriptor_fields(name, kind))
    if len(names) != len(block.arguments):
        raise KernelDoesNotCompile(
            f"Triton passes {len(block.arguments)} arguments where {len(names)} were expected",
            file=spec.file,
            hint="a Triton version between 3.6 and 3.9",
        )
    values = [emitter.define(raw, name) for raw, (name, _) in zip(block.arguments, names, strict=True)]
    emitter.parameters.update((value, name) for value, (name, _) in zip(values, names, strict=True) if "." not in name)
    return tuple(
        Argument(name, value, raw.type, divisor, name in spec.positive)
        for raw, value, (name, divisor) in zip(block.arguments, values, names, strict=True)
    )


def _descriptor_fields(name: str, kind: str) -> list[tuple[str, int]]:
    rank = kind.count(",") + 1
    bits = int((re.search(r"\d+", kind) or [8])[0])
    outer = max(1, 16 * 8 // bits)  # ... and so are its strides, but for the last, which is 1
    shape = [(f"{name}.shape.{axis}", 1) for axis in range(rank)]
    return [*shape, *((f"{name}.stride.{axis}", outer if axis < rank - 1 else 1) for axis in range(rank))]


def _translate(op: RawOp, emitter: ProgramBuilder) -> None:
    if op.name in IGNORED:
        return
    file, emitter.line = emitter.file, op.line
    if op.name == "scf.for":
        _loop(file, op, emitter)
        return
    if op.name == "scf.while":
        while_loop(op, emitter, _translate)
        return
    if op.name == "scf.if":
        conditional(op, emitter, _translate)
        return
    if op.name == "tt.call":
        call(op, emitter, _translate)
        return
    rule = TABLE.get(op.name)
    if rule and unread(op):
        refuse_attribute(file, op, unread(op))
    made = rule(op, emitter) if rule else None
    if made is None and op.name in ("tt.reduce", "tt.scan"):
        made = fold(op, emitter, _translate)
    if made is None:
        refuse(file, op)
    for raw, value in zip(op.results, made, strict=True):
        emitter.bind(raw, value)


def _loop(file: str, op: RawOp, emitter: ProgramBuilder) -> None:
    """`scf.for lower upper step inits` with a block of (induction, carried values)."""
    if unread(op):
        refuse_attribute(file, op, unread(op))
    over_tiles = emitter.is_over_tiles(op)
    nest = None if over_tiles or emitter.in_loop else constant_nest(op, emitter, _counts)
    if nest is not None:
        write_nest(nest, emitter, lambda inner: _translate(inner, emitter))
        return
    counts = None if over_tiles else _counts(op, emitter)
    if counts is not None and (emitter.in_loop or _has_loops(op)):
        _unrolled(op, counts, emitter)
        return
    if emitter.nested or emitter.in_scalar_loop:
        refuse_loop(file, op)
    block = op.regions[0][0]
    lower, upper, step, *inits = (emitter.value(operand) for operand in op.operands)
    guard = emitter.guard(op)
    if guard is not None:  # no iteration where the loop is not reached
        upper = emitter.emit(op, "select", (guard, upper, lower), [emitter.type_of(op.operands[1])])[0]
    induction = emitter.define(block.arguments[0], block.arguments[0].name)
    arguments = [emitter.define(raw, raw.name) for raw in block.arguments[1:]]
    emitter.open_loop(over_tiles)
    for inner in block.operations:
        _translate(inner, emitter)
    yielded = [emitter.value(operand) for operand in block.operations[-1].operands]
    body = emitter.close_loop()
    names = [raw.name or result.name for raw, result in zip(block.arguments[1:], op.results, strict=True)]
    results = [emitter.define(raw, name) for raw, name in zip(op.results, names, strict=True)]
    carried = tuple(map(Carry, names, inits, arguments, yielded, results))
    emitter.append(Loop(emitter.next_id(), induction, lower, upper, step, carried, body, op.line))


def _counts(op: RawOp, emitter: ProgramBuilder) -> range | None:
    """The values of a loop's induction variable, if they are known now and not too many to be written out; where there
    are loops in it, as often as it is written out itself."""
    bounds = [emitter.literal(operand) for operand in op.operands[:3]]
    numbers = [int(bound.number) for bound in bounds if bound is not None]
    if len(numbers) < 3 or numbers[2] <= 0:
        return None
    counts = range(*numbers)
    copies = len(counts) * emitter.copies if _has_loops(op) else 1
    return counts if len(counts) <= WRITTEN_OUT and copies <= COPIES else None


def _has_loops(op: RawOp) -> bool:
    return any(inner.name == "scf.for" for inner in op.regions[0][0].operations)


def _unrolled(op: RawOp, counts: range, emitter: ProgramBuilder) -> None:
    """The iterations of a loop one after the other: what a nest of loops needs to be a loop."""
    block = op.regions[0][0]
    induction, *arguments = block.arguments
    carried = [emitter.made(operand) for operand in op.operands[3:]]
    around, emitter.copies = emitter.copies, emitter.copies * max(1, len(counts))
    for number in counts:
        emitter.bind(induction, Literal(number, induction.type))
        for raw, made in zip(arguments, carried, strict=True):
            emitter.bind(raw, made)
        for inner in block.operations:
            _translate(inner, emitter)
        carried = [emitter.made(operand) for operand in block.operations[-1].operands]
    emitter.copies = around
    for raw, made in zip(op.results, carried, strict=True):
        emitter.bind(raw, made)
