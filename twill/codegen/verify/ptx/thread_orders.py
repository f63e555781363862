"""What only machine code shows of the order between threads: fences and waits that no statement of a warp program is.

A statement that waits for a ring in tensor memory, or arrives on one, has a fence with it, and one that loads or stores
tensor memory a wait; partial sums are stored, counted and read with fences in between. The abstract machine takes that
for granted. `misordered` holds every path through the PTX of an emission against it: which barriers are those of rings
in tensor memory is all that it is told of the program.

The rules (PTX ISA, "tcgen05 Memory Consistency Model", "Causality Order"):

- no tcgen05 operation comes behind a wait for such a ring without `tcgen05.fence::after_thread_sync` in between;
- no arrival on such a ring comes behind a `tcgen05.ld` or `.st` without its `tcgen05.wait`, and
  `tcgen05.fence::before_thread_sync`;
- no register of a `tcgen05.ld` is used before its wait;
- what is stored to global memory is counted behind a barrier of the threads and a fence, and what is counted is read
  behind a fence and a barrier;
- of a kernel in which one thread does atomic operations for all: one that releases comes behind a barrier of the
  threads that have stored, and they load and store behind a barrier behind one that acquires.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Flag, auto
from functools import reduce
from itertools import product

from twill.codegen.verify.ptx.findings import PtxFinding
from twill.ptx import program as ptx

MOST = 32  # constants that the address of a barrier may have, by the paths that come to it
MOVES = ("mov", "cvt", "cvta", "mapa")
ENDS = ("ret", "exit", "trap")
STORES = ("st", "red", "stmatrix", "bra", "brx", "bar", "barrier", "mbarrier", "cp", "wgmma")
"""Names of instructions whose first operand is none that they make (`tcgen05` but for loads, too)."""


class Since(Flag):
    """What has happened on some path to a place, and nothing that answers it since."""

    NOTHING = 0
    WAITED = auto()  # for a ring in tensor memory
    LOADED = auto()  # from tensor memory
    STORED = auto()  # to tensor memory
    USED = auto()  # loads and stores of tensor memory, and no fence
    LEFT = auto()  # stores to global memory
    LEFT_BY_ALL = auto()  # the same, and a barrier of the threads
    COUNTED = auto()  # an atomic operation
    COUNT_SEEN = auto()  # the same, and a fence
    ACQUIRED = auto()  # an atomic operation that acquires


@dataclass(frozen=True)
class BarrierPlaces:
    """Bytes of shared memory. tensor: of the barriers of rings in tensor memory; first: where barriers begin."""

    tensor: tuple[range, ...]
    first: int


@dataclass
class Constants:
    """The part of a register's value that is a constant of the text: of an address, where it begins, whatever slot is
    meant. A register that is counted up has what it begins with."""

    made: Mapping[str, Sequence[ptx.PtxInstruction]]
    known: dict[str, frozenset[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, function: ptx.Function) -> Constants:
        """Those of a function."""
        made: dict[str, list[ptx.PtxInstruction]] = {}
        for instruction in function.instructions:
            if instruction.operands and isinstance(first := instruction.operands[0], ptx.Register):
                made.setdefault(first.name, []).append(instruction)
        return cls(made)

    def operand(self, operand: ptx.Operand) -> frozenset[int]:
        """Of an operand."""
        match operand:
            case ptx.Immediate(value):
                return frozenset((value,))
            case ptx.Register(name):
                return self.register(name)
            case ptx.AddressOperand(base, offset):
                return frozenset(constant + offset for constant in self.operand(base))
        return frozenset((0,))

    def register(self, name: str) -> frozenset[int]:
        """Of a register."""
        if name not in self.known:
            self.known[name] = frozenset()  # while it is looked for
            found = [self.result(instruction) for instruction in self.made.get(name, ())]
            every = reduce(frozenset.union, found, frozenset[int]())
            self.known[name] = every if every and len(every) <= MOST else frozenset((0,))
        return self.known[name]

    def result(self, instruction: ptx.PtxInstruction) -> frozenset[int]:
        """Of what an instruction makes."""
        of = instruction.operands[1:]
        match instruction.name, of:
            case name, [one, *_] if name in MOVES:
                return self.operand(one)
            case "selp", [one, other, _]:
                return self.operand(one) | self.operand(other)
            case "add" | "or", [one, other]:  # `or` of bits that the other has not
                return self._each(one, other, 1)
            case "sub", [one, other]:
                return self._each(one, other, -1)
            case "shl", [one, ptx.Immediate(by)]:
                return frozenset(constant << by for constant in self.operand(one))
            case "mul", [one, ptx.Immediate(by)]:
                return frozenset(constant * by for constant in self.operand(one))
            case "mad", [one, ptx.Immediate(by), other]:
                pairs = product(self.operand(one), self.operand(other))
                return frozenset(constant * by + more for constant, more in pairs)
        return frozenset((0,))

    def _each(self, one: ptx.Operand, other: ptx.Operand, sign: int) -> frozenset[int]:
        return frozenset(a + sign * b for a, b in product(self.operand(one), self.operand(other)))


@dataclass(frozen=True)
class ControlFlow:
    """The instructions of a function, and where each goes on. loaded: registers that tensor memory is loaded into."""

    instructions: tuple[ptx.PtxInstruction, ...]
    labels: Mapping[str, int]
    loaded: frozenset[str]

    @classmethod
    def of(cls, function: ptx.Function) -> ControlFlow:
        """That of a function."""
        loads = (one for one in function.instructions if one.name == "tcgen05" and one.modifiers[0] == "ld")
        loaded = frozenset(name for one in loads for name in registers(one.operands[:1]))
        return cls(function.instructions, function.labels, loaded)

    def after(self, at: int) -> Iterator[int]:
        """Where an instruction goes on."""
        one = self.instructions[at]
        if one.name in ("bra", "brx"):
            for operand in one.operands:
                if isinstance(operand, ptx.PtxSymbol) and operand.name in self.labels:
                    yield self.labels[operand.name]
        if (one.name not in ("bra", "brx", *ENDS) or one.guard is not None) and at + 1 < len(self.instructions):
            yield at + 1


def registers(operands: Iterable[ptx.Operand]) -> Iterator[str]:
    """The registers that operands name."""
    for operand in operands:
        match operand:
            case ptx.Register(name):
                yield name
            case ptx.Negated(of):
                yield of.name
            case ptx.Vector(parts):
                yield from registers(parts)
            case ptx.DestinationPair(first, second):
                yield from registers((first, second))
            case ptx.AddressOperand(base, _, coordinates):
                yield from registers((base, *coordinates))


def used(one: ptx.PtxInstruction) -> Iterator[str]:
    """The registers that an instruction reads."""
    first = one.operands[:1]
    made = one.name not in STORES and not (one.name == "tcgen05" and one.modifiers[0] != "ld")
    sources = (operand for operand in first if not made or isinstance(operand, ptx.AddressOperand))
    yield from registers((*sources, *one.operands[1:]))


@dataclass
class Paths:
    """All paths through a function."""

    flow: ControlFlow
    places: BarrierPlaces
    constants: Constants
    elects: bool = False  # whether one thread does atomic operations for all

    def before(self) -> dict[int, Since]:
        """By instruction, what may have happened in front of it."""
        flow = self.flow
        known, open_ = {0: Since.NOTHING}, [0]
        while open_:
            at = open_.pop()
            behind = self.behind(flow.instructions[at], known[at])
            for onward in flow.after(at):
                joined = known.get(onward, Since.NOTHING) | behind
                if onward not in known or joined != known[onward]:
                    known[onward] = joined
                    open_.append(onward)
        return known

    def behind(self, one: ptx.PtxInstruction, since: Since) -> Since:
        """What has happened behind an instruction."""
        if one.guard is not None:  # some threads go past it
            return since | self._behind(one, since)
        return self._behind(one, since)

    def _behind(self, one: ptx.PtxInstruction, since: Since) -> Since:
        kind = one.modifiers[0] if one.modifiers else ""
        match one.name, kind:
            case "mbarrier", "try_wait" | "test_wait" if self.of_tensor(one):
                return since | Since.WAITED
            case "tcgen05", "fence::after_thread_sync":
                return since & ~Since.WAITED
            case "tcgen05", "fence::before_thread_sync":
                return since & ~Since.USED
            case "tcgen05", "ld":
                return since | Since.LOADED | Since.USED
            case "tcgen05", "st":
                return since | Since.STORED | Since.USED
            case "tcgen05", "wait::ld":
                return since & ~Since.LOADED
            case "tcgen05", "wait::st":
                return since & ~Since.STORED
            case "st", _ if "global" in one.modifiers and not (self.elects and "relaxed" in one.modifiers):
                return since | Since.LEFT
            case "atom", _ if self.elects:
                return since | Since.ACQUIRED if kind in ("acquire", "acq_rel") else since
            case "atom", _ if "global" in one.modifiers:
                return since | Since.COUNTED
            case "fence" | "membar", _ if "gpu" in one.modifiers or "gl" in one.modifiers:
                seen = Since.COUNT_SEEN if Since.COUNTED in since else Since.NOTHING
                return since & ~(Since.LEFT_BY_ALL | Since.COUNTED) | seen
            case "bar" | "barrier", _ if "sync" in one.modifiers and "warp" not in one.modifiers:
                by_all = Since.LEFT_BY_ALL if Since.LEFT in since else Since.NOTHING
                return since & ~(Since.LEFT | Since.COUNT_SEEN | Since.ACQUIRED) | by_all
        return since

    def wrong(self, one: ptx.PtxInstruction, since: Since) -> Iterator[tuple[str, str]]:
        """(rule, what) of an instruction behind what may have happened."""
        kind = one.modifiers[0] if one.modifiers else ""
        if Since.LOADED in since and not self.flow.loaded.isdisjoint(used(one)):
            yield "tcgen05-wait", "a register of tcgen05.ld is used before tcgen05.wait::ld"
        match one.name, kind:
            case "tcgen05", "mma" | "cp" | "ld" | "st" if Since.WAITED in since:
                yield "tcgen05-fence", f"{one.name}.{kind} behind a wait without tcgen05.fence::after_thread_sync"
            case "mbarrier", "arrive" if self.of_tensor(one):
                if Since.USED in since:
                    yield "tcgen05-fence", "an arrival behind its use without tcgen05.fence::before_thread_sync"
                for flag, word in ((Since.LOADED, "ld"), (Since.STORED, "st")):
                    if flag in since:
                        yield "tcgen05-wait", f"an arrival behind tcgen05.{word} without tcgen05.wait::{word}"
            case "atom", "release" | "acq_rel" if self.elects and Since.LEFT in since:
                yield "elected", "an atomic operation releases what was stored without a barrier behind it"
            case "ld" | "st", _ if self.elects and {"global", "relaxed"} & {*one.modifiers} == {"global"}:
                if Since.ACQUIRED in since:
                    yield "elected", "memory is accessed without a barrier behind an operation that acquires"
            case "atom" | "ld", _ if self.elects:
                pass
            case "atom", _ if "global" in one.modifiers and since & (Since.LEFT | Since.LEFT_BY_ALL):
                yield "partial-sums", "stores to global memory are counted without a barrier and a fence behind them"
            case "ld", _ if {"relaxed", "gpu", "global"} <= {*one.modifiers}:
                if since & (Since.COUNTED | Since.COUNT_SEEN):
                    yield (
                        "partial-sums",
                        "what others counted is read without a fence and a barrier behind the count",
                    )

    def of_tensor(self, one: ptx.PtxInstruction) -> bool:
        """Whether a barrier is of a ring in tensor memory. One whose place is not known is taken for one."""
        address = next(operand for operand in one.operands if isinstance(operand, ptx.AddressOperand))
        found = [constant for constant in self.constants.operand(address) if constant >= self.places.first]
        return not found or any(constant in place for constant in found for place in self.places.tensor)


def misordered(function: ptx.Function, places: BarrierPlaces, elects: bool = False) -> tuple[PtxFinding, ...]:
    """Every rule above that some path breaks, in the order of the text. elects: whether one thread does atomic
    operations for all."""
    flow = ControlFlow.of(function)
    paths = Paths(flow, places, Constants.of(function), elects)
    found = (
        PtxFinding(rule, what, flow.instructions[at].place)
        for at, since in sorted(paths.before().items())
        for rule, what in paths.wrong(flow.instructions[at], since)
    )
    return tuple(dict.fromkeys(found))
