"""A function and its module's variables -> code that runs: where variables lie, registers by number, blocks."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import cache

import numpy as np

from twill.codegen.verify.ptx import (
    accesses,
    addresses,
    cluster_launch,
    control,
    copies,
    exchange,
    made_maps,
    matrix_accesses,
    packed_floats,
    synchronize,
    tcgen05_allocation,
    thread_copies,
    wgmma_in_flight,
)
from twill.codegen.verify.ptx.batches import Touched, batched
from twill.codegen.verify.ptx.code import Block, Code, End, Step, VariableLayout
from twill.codegen.verify.ptx.findings import Stopped
from twill.codegen.verify.ptx.grain import grain_of
from twill.codegen.verify.ptx.memory import RANK, RANK_0, RESERVED, GlobalMemory
from twill.codegen.verify.ptx.special_registers import SPECIALS
from twill.codegen.verify.ptx.threads import Array, Gang, Strand
from twill.ptx import convert, floats, integers, moves
from twill.ptx import program as ptx
from twill.ptx.arrays import some
from twill.ptx.computed import Computation, ComputedRegister, form_of
from twill.ptx.registers import Operands, constant, held, unsupported

_ROOMS: tuple[Callable[[Operands, ptx.PtxInstruction], Step | None], ...] = (
    moves.build, addresses.build, convert.build, packed_floats.build, floats.build, integers.build, accesses.build,
    matrix_accesses.build, copies.build, thread_copies.build, made_maps.build, synchronize.build, exchange.build,
    tcgen05_allocation.build, cluster_launch.build,
)  # fmt: skip
_SOURCES_ONLY = {"st", "red", "stmatrix", "cp", "bar", "barrier", "fence", "prefetch", "bra", "brx", "wgmma"}
_LONGEST = 256  # steps of a block: gangs take turns between blocks


class Failed(Exception):
    """`Stopped` at an instruction."""

    def __init__(self, stopped: Stopped, place: ptx.InstructionPlace, threads: str) -> None:
        super().__init__(stopped.message)
        self.stopped, self.place, self.threads = stopped, place, threads


def build(module: ptx.PtxModule, function: ptx.Function, memory: GlobalMemory, clusters: bool = False) -> Code:
    """The code of an entry. memory: gets the module's global variables. clusters: whether of several CTAs.

    Errors: UnsupportedPtx.
    """
    layout = _layout(module, function, memory)
    for of, several, code in _built:
        if of is function and several == clusters and code.layout == layout:
            return code
    code = _code(function, layout, clusters)
    _built.append((function, clusters, code))
    return code


_built = deque[tuple[ptx.Function, bool, Code]](maxlen=4)
"""The last ones: a kernel is executed in several launches."""


def _code(function: ptx.Function, layout: VariableLayout, clusters: bool) -> Code:
    registers = {name: number for number, name in enumerate(function.registers)}
    registers[""] = len(registers)  # what no register is
    ranked = {name: _own_rank for name, space in layout.spaces.items() if clusters and space == "shared"}
    operands = Operands(registers, function.registers, layout.addresses, ranked, SPECIALS)
    made = _instructions(function, layout, clusters)
    initial = [_undefined(type) for type in function.registers.values()]
    starts = _starts(function)
    block_at = {start: number for number, start in enumerate(starts)}
    labels = {name: block_at[at] for name, at in function.labels.items() if at in block_at}
    touched = [made.touched(operands, instruction) for instruction in function.instructions]
    related = _related(function, operands, touched)
    blocks = [
        _block(operands, made, function.instructions[start:end], touched[start:end], number + 1, labels, related)
        for number, (start, end) in enumerate(zip(starts, [*starts[1:], len(function.instructions)], strict=True))
    ]
    return Code(
        function, layout, registers, (*initial, constant(0, np.uint32)), tuple(blocks), grain_of(function.instructions)
    )


class _Instructions:
    """Steps and registers of instructions, by the object: what texts have in common (`twill.ptx.parse`) is made once.
    The instructions are kept, so that no other object gets the number of one."""

    def __init__(self) -> None:
        self._steps: dict[int, tuple[ptx.PtxInstruction, Step]] = {}
        self._touched: dict[int, tuple[ptx.PtxInstruction, Touched]] = {}
        self._batched: dict[tuple[int, ...], tuple[Step, ...]] = {}
        self._forms: dict[Hashable, Computation] = {}  # by which a step is found quicker than by asking who reads it

    def step(self, operands: Operands, instruction: ptx.PtxInstruction) -> Step:
        """What it does."""
        found = self._steps.get(id(instruction))
        if found is None:
            found = self._steps[id(instruction)] = instruction, _step(operands, instruction, self._forms)
        return found[1]

    def batched(self, steps: tuple[Step, ...], touched: tuple[Touched, ...]) -> tuple[Step, ...]:
        """What steps of `step` do, with equal ones together."""
        key = tuple(map(id, steps))
        found = self._batched.get(key)
        if found is None:
            found = self._batched[key] = batched(steps, touched)
        return found

    def touched(self, operands: Operands, instruction: ptx.PtxInstruction) -> Touched:
        """What it reads and writes."""
        found = self._touched.get(id(instruction))
        if found is None:
            found = self._touched[id(instruction)] = instruction, _touched(operands, instruction)
        return found[1]


def _instructions(function: ptx.Function, layout: VariableLayout, clusters: bool) -> _Instructions:
    """Those of functions with the same registers and variables."""
    variables = (*layout.addresses.items(), *layout.spaces.items())
    key = (tuple(function.registers.items()), variables, clusters)
    made = _known.pop(key, None) or _Instructions()
    _known[key] = made  # the last one
    if len(_known) > _KERNELS:
        _known.popitem(last=False)
    return made


_known: OrderedDict[Hashable, _Instructions] = OrderedDict()
_KERNELS = 8


def _own_rank(g: Gang) -> int:
    """What the addresses of a CTA's own shared memory have set in a cluster."""
    return g.cta.rank + RANK_0 << RANK


@cache
def _undefined(type: str) -> Array:
    """All ones: a NaN, a large number, true."""
    if type == "pred":
        return constant(True, np.bool_)
    dtype = np.dtype(held(type))
    made = np.full(1, 0xFF, np.uint8).repeat(dtype.itemsize).view(dtype)
    made.flags.writeable = False
    return made


# ---------------------------------------------------------------- variables


def _layout(module: ptx.PtxModule, function: ptx.Function, memory: GlobalMemory) -> VariableLayout:
    addresses: dict[str, int] = {}
    spaces: dict[str, str] = {}
    shared, local, parameter, dynamic, alignment = RESERVED, 0, 0, [], 1
    for variable in (*module.variables, *function.variables, *function.parameters):
        spaces[variable.name] = variable.space
        if variable.space == "shared" and not variable.size:
            dynamic.append(variable.name)
            alignment = max(alignment, variable.alignment)
        elif variable.space == "shared":
            shared = addresses[variable.name] = _up(shared, variable.alignment)
            shared += variable.size
        elif variable.space == "local":
            local = addresses[variable.name] = _up(local, variable.alignment)
            local += variable.size
        elif variable.space == "param":
            parameter = addresses[variable.name] = _up(parameter, variable.alignment)
            parameter += variable.size
        else:
            addresses[variable.name] = memory.add(variable.name, variable.initial.ljust(variable.size, b"\0"))
    start = _up(shared, alignment)
    addresses.update(dict.fromkeys(dynamic, start))
    return VariableLayout(addresses, spaces, start, local)


def _up(at: int, alignment: int) -> int:
    return -(-at // alignment) * alignment


# ---------------------------------------------------------------- blocks


def _starts(function: ptx.Function) -> list[int]:
    """Of the blocks: labels, what follows an end, and ends at which lanes may wait: what stands before is done once."""
    starts = {0, *function.labels.values()}
    for number, instruction in enumerate(function.instructions):
        if control.ends_block(instruction):
            starts.add(number + 1)
            if control.may_wait(instruction):
                starts.add(number)
    count = len(function.instructions)
    found = sorted(start for start in starts if start < count)
    return [at for start, end in zip(found, [*found[1:], count], strict=True) for at in range(start, end, _LONGEST)]


def _block(
    operands: Operands,
    made: _Instructions,
    given: Sequence[ptx.PtxInstruction],
    touched: Sequence[Touched],
    following: int,
    labels: dict[str, int],
    related: set[int],
) -> Block:
    last = given[-1] if control.ends_block(given[-1]) else None
    body = given[:-1] if last else given
    end = control.falls_through(following) if last is None else control.build(operands, last, following, labels)
    each = tuple(touched[: len(body)])
    steps = tuple([made.step(operands, instruction) for instruction in body])
    # What a multiply does to its accumulators is its own business.
    writing = each if last is None or last.name == "wgmma" else touched
    return Block(
        steps=steps,
        batches=made.batched(steps, each),
        instructions=tuple(body),
        end=end if last is None else _placed_end(end, last),
        last=last,
        touched=frozenset().union(*(numbers for reads, writes, _ in each for numbers in (reads, writes))),
        each=each,
        last_touched=frozenset() if last is None else touched[-1][0] | touched[-1][1],
        written=tuple((w, moved) for _, writes, moved in writing for w in writes if w in related),
    )


def _step(operands: Operands, instruction: ptx.PtxInstruction, forms: dict[Hashable, Computation]) -> Step:
    form = form_of(operands, instruction)
    known = forms.get(form) if instruction.guard is None else None
    step: Step | None = known.of(operands, instruction) if known is not None else None
    if step is not None:
        return step
    for build in _ROOMS:
        step = build(operands, instruction)
        if step is not None:
            break
    else:
        raise unsupported(instruction)
    if isinstance(step, ComputedRegister):
        forms[form] = step.of
    if instruction.guard is not None:
        step = _guarded(step, operands, instruction)
    if instruction.name in (
        "ld",
        "ldu",
        "st",
        "atom",
        "red",
        "mbarrier",
        "cp",
        "fence",
        "tcgen05",
        "clusterlaunchcontrol",
        "tensormap",
    ):
        return _placed(step, instruction)
    return step


def _guarded(step: Step, operands: Operands, instruction: ptx.PtxInstruction) -> Step:
    assert instruction.guard is not None
    holds = control.predicate(operands, instruction.guard)

    def run(g: Gang) -> None:
        taken = holds(g)
        if len(taken) == 1:
            if taken[0]:
                step(g)
            return
        outer = g.mask
        lanes = taken & g.running()
        if not some(lanes):
            return
        g.mask = lanes
        step(g)
        g.mask = outer

    return run


def _placed(step: Step, instruction: ptx.PtxInstruction) -> Step:
    def run(g: Gang) -> None:
        try:
            step(g)
        except Stopped as stopped:
            raise Failed(stopped, instruction.place, g.who()) from None
        except ValueError as error:
            raise Failed(Stopped("form", str(error)), instruction.place, g.who()) from error

    return run


def _placed_end(end: End, instruction: ptx.PtxInstruction) -> End:
    def run(g: Gang, strand: Strand) -> None:
        try:
            end(g, strand)
        except Stopped as stopped:
            raise Failed(stopped, instruction.place, g.who(strand.lanes)) from None
        except ValueError as error:
            raise Failed(Stopped("form", str(error)), instruction.place, g.who(strand.lanes)) from error

    return run


# ---------------------------------------------------------------- registers


def _collect(registers: Mapping[str, int], operand: ptx.Operand | None, into: list[int]) -> None:
    """The registers that an operand names."""
    if isinstance(operand, ptx.Register):
        number = registers.get(operand.name)
        if number is not None:
            into.append(number)
        return
    for part in _parts(operand):
        _collect(registers, part, into)


def _parts(operand: ptx.Operand | None) -> tuple[ptx.Operand, ...]:
    """What an operand is made of."""
    match operand:
        case ptx.Negated(of):
            return (of,)
        case ptx.Vector(parts):
            return parts
        case ptx.DestinationPair(first, second):
            return first, second
        case ptx.AddressOperand(base, _, coordinates):
            return base, *coordinates
    return ()


def _touched(operands: Operands, instruction: ptx.PtxInstruction) -> Touched:
    given, registers = instruction.operands, operands.registers
    stores = instruction.name in _SOURCES_ONLY or (bool(given) and isinstance(given[0], ptx.AddressOperand))
    reads: list[int] = []
    writes: list[int] = []
    for place, operand in enumerate(given):
        _collect(registers, operand, reads if stores or place else writes)
    _collect(registers, instruction.guard, reads)
    plain = instruction.name == "mov" and instruction.guard is None and len(given) == 2
    moved = reads[0] if plain and isinstance(given[1], ptx.Register) and isinstance(given[0], ptx.Register) else -1
    return frozenset(reads), frozenset(writes), moved


def _related(function: ptx.Function, operands: Operands, touched: Sequence[Touched]) -> set[int]:
    """Registers of multiplies, and those that are moved into them, however often."""
    related: set[int] = set()
    sources: dict[int, set[int]] = {}
    for instruction, (_, writes, moved) in zip(function.instructions, touched, strict=True):
        if instruction.name == "wgmma" and "mma_async" in instruction.modifiers:
            related |= wgmma_in_flight.registers_used(operands, instruction)
        elif moved >= 0:
            for target in writes:
                sources.setdefault(target, set()).add(moved)
    ahead = list(related)
    while ahead:
        for source in sources.get(ahead.pop(), ()):
            if source not in related:
                related.add(source)
                ahead.append(source)
    return related
