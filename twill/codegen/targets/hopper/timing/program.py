"""A kernel's instructions as the simulated SM wants them: what each occupies, and what is to be computed."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto

from twill.codegen.targets.hopper.timing.constants import PARAMETERS_AT
from twill.codegen.targets.hopper.timing.instruction import SassCode, SassInstruction
from twill.codegen.targets.hopper.timing.needed import needed
from twill.codegen.targets.hopper.timing.operands import RZ, Read, State, Step, address, reader, register
from twill.codegen.targets.hopper.timing.scalar import guard_of, step
from twill.machine.description import SimulationFigures

Access = Callable[[dict[int, int | None], State], None]
Special = Callable[[State, int, tuple[int, int, int]], None]


class Occupied(Enum):
    """What an instruction occupies."""

    ALU = auto()
    FMA = auto()  # of either half of the FMA pipe
    HEAVY = auto()  # of the half that multiplies integers
    SPECIAL = auto()  # MUFU and conversions
    DOUBLE = auto()
    UNIFORM = auto()
    SHARED = auto()
    SHUFFLE = auto()
    GLOBAL = auto()
    MULTIPLY = auto()
    WAIT_MULTIPLY = auto()
    BULK = auto()
    FLUSH = auto()
    WAIT_COPIES = auto()
    SYNCS = auto()
    BARRIER = auto()
    BRANCH = auto()
    EXIT = auto()
    OTHER = auto()


KINDS: Mapping[Occupied, str] = {
    Occupied.FMA: "FFMA FMUL FADD HFMA2 HADD2 HMUL2",
    Occupied.HEAVY: "IMAD",
    Occupied.SPECIAL: "MUFU F2I I2F FRND F2F",
    Occupied.DOUBLE: "DADD DMUL DFMA DSETP",
    Occupied.SHARED: "LDS STS LDSM STSM ATOMS",
    Occupied.SHUFFLE: "SHFL",
    Occupied.GLOBAL: "LDG STG LD ST ATOMG ATOM RED REDG LDGSTS LDL STL",
    Occupied.MULTIPLY: "HGMMA QGMMA IGMMA",
    Occupied.UNIFORM: "R2UR",
    Occupied.BULK: "UTMALDG UTMASTG UTMAREDG",
    Occupied.FLUSH: "UTMACMDFLUSH",
    Occupied.WAIT_COPIES: "DEPBAR",
    Occupied.SYNCS: "SYNCS",
    Occupied.BARRIER: "BAR",
    Occupied.BRANCH: "BRA",
    Occupied.EXIT: "EXIT",
    Occupied.OTHER: "NOP BSSY BSYNC WARPSYNC YIELD S2R S2UR CS2R LDC FENCE MEMBAR CCTL UTMACCTL USETMAXREG "
    "ENDCOLLECTIVE ERRBAR",
}
_KIND = {name: kind for kind, names in KINDS.items() for name in names.split()}


@dataclass
class Timed:
    """One instruction. text: as it is printed.

    target, condition: of a branch, beside its guard. cycles: of the tensor cores. commits: wgmma groups. count: cycles
    of the shared port, or how many groups may be open. bytes, rate: beyond the SM. makes, arrives, predicate: of an
    mbarrier, where the answer of a wait goes. waits_there, latency: of a named barrier. address, value: of either.
    loads, adds: of a bulk copy; destination, map: the first registers that say where it goes and by which map.
    constant: whether it waits for the constant bank. fences: whether it is a fence between proxies. access: what it
    does to words of shared memory on which control may depend; local: of the memory of each thread. special: to
    registers."""

    kind: Occupied
    text: str
    stall: int
    waits: tuple[int, ...]
    writes: int
    reads: int
    guard: Read | None
    step: Step | None = None
    target: int = -1
    condition: Read | None = None
    cycles: float = 0.0
    commits: int = 0
    count: int = 0
    bytes: int = 0
    rate: float = 1.0
    makes: bool = False
    arrives: bool = False
    predicate: int = 0
    waits_there: bool = False
    latency: int = 0
    loads: bool = False
    adds: bool = False
    destination: int = 0
    map: int = 0
    address: Read = field(default=lambda state: None)
    value: Read = field(default=lambda state: 0)
    constant: bool = False
    fences: bool = False
    access: Access | None = None
    local: bool = False
    special: Special | None = None


@dataclass(frozen=True)
class TimedProgram:
    """A kernel for one launch. boxes: bytes of a copy by each tensor map, by the map's offset in the constant bank."""

    body: tuple[Timed, ...]
    threads: int
    boxes: Mapping[int, int]

    def bytes_of(self, state: State, one: Timed) -> int:
        """Of a bulk copy, by its tensor map."""
        low, high = state[one.map], state[one.map + 1]
        assert low is not None and high is not None, f"the map of a copy is not known: {one.text}"
        return self.boxes[(high << 32 | low) - PARAMETERS_AT]


def timed_program(
    code: SassCode, constants: Mapping[int, int], threads: int, boxes: Mapping[int, int], figures: SimulationFigures
) -> TimedProgram:
    """The instructions with the launch's constants in them. boxes: see Program."""
    wanted = needed(code)
    body = tuple(_timed(one, at in wanted, constants, figures) for at, one in enumerate(code.instructions))
    return TimedProgram(body, threads, boxes)


def kind_of(one: SassInstruction) -> Occupied:
    """The unit that it occupies: the ALU, or the uniform one, unless it is known for another."""
    if one.name == "WARPGROUP":
        return Occupied.WAIT_MULTIPLY if "DEPBAR" in one.modifiers else Occupied.OTHER
    return _KIND.get(one.name, Occupied.UNIFORM if one.name.startswith("U") else Occupied.ALU)


def _timed(one: SassInstruction, wanted: bool, constants: Mapping[int, int], figures: SimulationFigures) -> Timed:
    kind, control = kind_of(one), one.control
    timed = Timed(
        kind, f"/*{one.address:04x}*/ {one.guard} {one.opcode} {', '.join(one.operands)}", max(control.stall, 1),
        tuple(i for i in range(6) if control.waits >> i & 1), control.writes, control.reads, guard_of(one),
        target=one.target,
    )  # fmt: skip
    if fill := _FILL.get(kind):
        fill(timed, one, constants, figures)
    if wanted and kind not in _DONE_APART and timed.access is None and timed.special is None:
        timed.step = step(one, constants)
    return timed


# What is no change of registers, or one that the units make.
_DONE_APART = frozenset((
    Occupied.BRANCH, Occupied.EXIT, Occupied.SYNCS, Occupied.BULK, Occupied.MULTIPLY, Occupied.BARRIER,
    Occupied.WAIT_MULTIPLY, Occupied.WAIT_COPIES,
))  # fmt: skip


def _branch(timed: Timed, one: SassInstruction, constants: Mapping[int, int], figures: SimulationFigures) -> None:
    """BRA P0, target has a condition beside its guard. BRA.DIV is taken where lanes diverge: never here."""
    if "DIV" in one.modifiers:
        timed.condition = lambda state: 0
    elif len(one.operands) > 1:
        timed.condition = reader(one.operands[0], constants)


_SHAPE = re.compile(r"64x(\d+)x(\d+)")
_ROWS, _DEPTH = 64, 32  # of the left operand of one wgmma: rows, and bytes of each


def _multiply(timed: Timed, one: SassInstruction, constants: Mapping[int, int], figures: SimulationFigures) -> None:
    """Cycles: what the tensor cores or the operands in shared memory take. An empty group has the result RZ."""
    shape = _SHAPE.search(one.opcode)
    assert shape is not None, timed.text
    columns, depth = int(shape.group(1)), int(shape.group(2))
    in_registers = one.operands[1].startswith("R") and not one.operands[1].startswith("RZ")
    operands = _DEPTH * (columns + (0 if in_registers else _ROWS)) / figures.port_bytes.whole
    elements = _DEPTH / depth  # bytes of an element: half as many multiply-adds a cycle where they are twice as wide
    products = _ROWS * columns * depth * elements / 2 / figures.multiply_rate.whole
    timed.cycles = 0.0 if one.operands[0] == "RZ" else max(products, operands, figures.multiply_least.whole)
    timed.commits = int("gsb0" in one.operands)


def _count(timed: Timed, one: SassInstruction, constants: Mapping[int, int], figures: SimulationFigures) -> None:
    """WARPGROUP.DEPBAR.LE gsb0, 1 and DEPBAR.LE SB0, 1: what may be open."""
    timed.count = int(one.operands[1], 0) if len(one.operands) > 1 else 0


def _syncs(timed: Timed, one: SassInstruction, constants: Mapping[int, int], figures: SimulationFigures) -> None:
    timed.address = address(one.operands[1], constants)
    timed.makes, timed.arrives = "EXCH" in one.modifiers, "ARRIVE" in one.modifiers
    if "A1T0" not in one.modifiers:  # that arrives without bytes
        timed.value = reader(one.operands[2], constants)
    if "TRYWAIT" in one.modifiers:
        timed.predicate = register(one.operands[0]) or 0


def _barrier(timed: Timed, one: SassInstruction, constants: Mapping[int, int], figures: SimulationFigures) -> None:
    timed.address = reader(one.operands[0], constants)
    if len(one.operands) > 1:
        timed.value = reader(one.operands[1], constants)
    timed.waits_there = "SYNC" in one.modifiers
    timed.latency = figures.barrier_latency.whole
    if one.operands[0].startswith("R"):
        timed.latency += figures.barrier_register.whole


def _bulk(timed: Timed, one: SassInstruction, constants: Mapping[int, int], figures: SimulationFigures) -> None:
    timed.loads, timed.adds = one.name == "UTMALDG", one.name == "UTMAREDG"
    timed.destination, timed.map = (register(token.strip("[]")) or 0 for token in one.operands[:2])


_WORDS = {"64": 2, "128": 4, "M88": 4}


def _words(one: SassInstruction) -> int:
    """Words of 32 bits of each lane."""
    return max((_WORDS.get(modifier, 1) for modifier in one.modifiers), default=1)


def _shared(timed: Timed, one: SassInstruction, constants: Mapping[int, int], figures: SimulationFigures) -> None:
    """Cycles of the port, without conflicts of banks."""
    words = 1 if one.name == "SHFL" else _words(one)
    timed.count = max(1, 32 * 4 * words // figures.port_bytes.whole)
    if one.name in ("LDS", "STS"):
        _known(timed, one, constants)


def _known(timed: Timed, one: SassInstruction, constants: Mapping[int, int]) -> None:
    """Whole words that are loaded or stored are known, as far as they were."""
    if not one.modifiers & {"U8", "S8", "U16", "S16"}:
        stores = one.name.startswith("ST")
        place, held = one.operands[:2] if stores else one.operands[::-1]
        timed.access = _access(address(place, constants), register(held), _words(one), stores)


def _access(place: Read, first: int | None, words: int, stores: bool) -> Access:
    """Loads and stores of registers, as far as shared memory is known."""
    registers = [RZ if first is None or first == RZ else first + i for i in range(words)]

    def load(memory: dict[int, int | None], state: State) -> None:
        where = place(state)
        for i, number in enumerate(registers):
            state[number] = None if where is None else memory.get(where + 4 * i)

    def store(memory: dict[int, int | None], state: State) -> None:
        where = place(state)
        if where is not None:
            memory.update({where + 4 * i: state[number] for i, number in enumerate(registers)})

    return store if stores else load


def _global(timed: Timed, one: SassInstruction, constants: Mapping[int, int], figures: SimulationFigures) -> None:
    timed.count = _words(one)
    timed.bytes = 32 * 4 * timed.count
    timed.rate = figures.global_store_bytes.whole if one.name in ("STG", "ST", "STL") else figures.global_bytes.whole
    if one.name in ("LDL", "STL"):
        timed.local = True
        _known(timed, one, constants)
    if one.name == "ATOMG" and "INC" in one.modifiers:  # a tile scheduler's counter, of which nobody took anything yet
        target = register(one.operands[1]) or 0

        def count(memory: dict[int, int | None], state: State) -> None:
            state[target] = 0

        timed.access = count


def _other(timed: Timed, one: SassInstruction, constants: Mapping[int, int], figures: SimulationFigures) -> None:
    """Special registers of the first lane of a warp, alone in its cluster."""
    timed.constant, timed.fences = one.name == "LDC", one.name == "FENCE"
    if one.name not in ("S2R", "S2UR"):
        return
    target, name = register(one.operands[0]) or 0, one.operands[1]

    def special(state: State, warp: int, cta: tuple[int, int, int]) -> None:
        known = {"SR_TID.X": 32 * warp, "SR_TID.Y": 0, "SR_TID.Z": 0, "SR_CgaCtaId": 0}
        known |= dict(zip(("SR_CTAID.X", "SR_CTAID.Y", "SR_CTAID.Z"), cta, strict=True))
        state[target] = known.get(name)

    timed.special = special


_FILL = {
    Occupied.BRANCH: _branch,
    Occupied.MULTIPLY: _multiply,
    Occupied.WAIT_MULTIPLY: _count,
    Occupied.WAIT_COPIES: _count,
    Occupied.SYNCS: _syncs,
    Occupied.BARRIER: _barrier,
    Occupied.BULK: _bulk,
    Occupied.SHARED: _shared,
    Occupied.SHUFFLE: _shared,
    Occupied.GLOBAL: _global,
    Occupied.OTHER: _other,
}
