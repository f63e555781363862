"""Loops in which instructions that follow from one another are one: what a product in parts is made of.

`twill.tile.rewrite.precision` makes several products and conversions of one `tl.dot`. They are many alike instructions,
of which a solver tries every order, and almost all of them are best issued one right behind the other. Here such
a run becomes one instruction, with the reservation tables of its members one behind the other:

    %p = dot %a.mid %b.mid;  %p = dot %a.lo %b.hi %p;  ...     products that add to one another: in `pieces` runs
    hi = bf16(x);  left = x - hi;  mid = bf16(left);  ...      conversions of one tile: one run

Every schedule of the joined loop is one of the loop itself, if registers suffice: a member starts some cycles behind
its run (`Joined.starts`). The converse is not so. The registers in which a run works count as taken all the time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from twill.graph.costed import CostedEdge, CostedGraph, CostedValue, Instruction, Invariant, Read, Use, is_lent
from twill.graph.mma_hazards import is_mma
from twill.reach import reach

NEVER = 1 << 40  # cycles of a spill that no schedule has time for


@dataclass(frozen=True)
class Joined:
    """graph: the loop with runs as instructions. run: which of them each instruction of the loop itself is in. behind:
    how many cycles behind the run's start it starts."""

    graph: CostedGraph
    run: tuple[int, ...]
    behind: tuple[int, ...]

    def starts(self, start: Sequence[int]) -> tuple[int, ...]:
        """The starts of the loop's instructions, from those of the runs."""
        return tuple(start[run] + behind for run, behind in zip(self.run, self.behind, strict=True))

    def slots(self, slot: Sequence[int]) -> tuple[int, ...]:
        """Their warp groups."""
        return tuple(slot[run] for run in self.run)


def joined(graph: CostedGraph, pieces: int) -> Joined | None:
    """The loop with each sum of products in `pieces` runs (the first ones are the longest); None if no product adds to
    another one, or there is nothing to join."""
    sums = _sums(graph)
    if not sums:
        return None
    runs = [run for products in sums for run in _cut(products, pieces) if len(run) > 1]
    runs += _conversions(graph, {v for products in sums for v in products})
    return _join(graph, runs) if runs else None


def _cut(products: Sequence[int], pieces: int) -> Iterable[Sequence[int]]:
    each = -(-len(products) // pieces)
    return (products[at : at + each] for at in range(0, len(products), each))


def _sums(graph: CostedGraph) -> list[list[int]]:
    """Products of one iteration of which each adds to the one before and nothing else reads that, in order; two at
    least."""
    into = {v.producer: after for v in graph.values if (after := _handed_on_to(graph, v)) is not None}
    firsts = into.keys() - set(into.values())
    found = []
    for first in sorted(firsts):
        run = [first]
        while run[-1] in into:
            run.append(into[run[-1]])
        found.append(run)
    return found


def _handed_on_to(graph: CostedGraph, value: CostedValue) -> int | None:
    """The product of the iteration that adds to a product's result, which nothing else reads: one whose own result is
    in the same storage, or in the registers of the sum's first value."""
    if not is_mma(graph.instructions[value.producer]):
        return None
    made = {v.producer: v for v in graph.values if is_mma(graph.instructions[v.producer])}
    readers = sorted(r.reader for r in value.reads if not r.distance and r.reader in made)
    if value.storage is not None:
        alone = len(value.reads) == 1 and readers and made[readers[0]].storage == value.storage
        return readers[0] if alone else None
    return next((v for v in readers if v > value.producer and is_lent(made[v])), None)


def _conversions(graph: CostedGraph, products: set[int]) -> list[list[int]]:
    """What threads make for those products of one loaded tile: synchronous instructions that values connect, of one
    statement, none behind a product, and none of variable latency, which has a warp group of its own."""
    behind = _behind(graph, products)
    free = [i.id for i in graph.instructions if not (i.asynchronous or i.variable_latency or i.id in behind)]
    root = {v: v for v in free}
    for e in graph.edges:
        same = e.src in root and e.dst in root and not e.distance and e.kind == "value"
        if same and graph.instructions[e.src].line == graph.instructions[e.dst].line:
            low, high = sorted((root[e.src], root[e.dst]))
            root = {v: low if r == high else r for v, r in root.items()}
    runs = [[v for v in free if root[v] == r] for r in sorted(set(root.values()))]
    return [_ordered(graph, run) for run in runs if len(run) > 1]


def _behind(graph: CostedGraph, products: set[int]) -> set[int]:
    """Instructions that the products of an iteration, or of an earlier one, reach."""
    values = [e for e in graph.edges if e.kind == "value"]
    return reach((e.dst for e in values if e.src in products), lambda v: (e.dst for e in values if e.src == v))


def _ordered(graph: CostedGraph, run: Sequence[int]) -> list[int]:
    """The run, what is needed first in front; else in the order given."""
    left, order = list(run), list[int]()
    while left:
        ready = next(v for v in left if not any(e.dst == v and e.src in left and not e.distance for e in graph.edges))
        left.remove(ready)
        order.append(ready)
    return order


# -- joining ------------------------------------------------------------------------------------


def _join(graph: CostedGraph, runs: Sequence[Sequence[int]]) -> Joined:
    of = {v: number for number, run in enumerate(runs) for v in run}
    behind = {v: at for run in runs for v, at in _offsets(graph, run).items()}
    placed: dict[int, int] = {}  # run -> its instruction
    instructions: list[Instruction] = []
    new: list[int] = []
    for i in graph.instructions:
        number = of.get(i.id)
        if number is not None and number in placed:
            new.append(placed[number])
            continue
        members = [i.id] if number is None else runs[number]
        new.append(len(instructions))
        if number is not None:
            placed[number] = len(instructions)
        instructions.append(_one(graph, members, behind, len(instructions)))
    at = tuple(behind.get(v, 0) for v in range(len(new)))
    inner = [v for v in graph.values if v.producer in of and {new[r.reader] for r in v.reads} == {new[v.producer]}]
    dropped = {v.id for v in inner if not any(r.distance for r in v.reads)}
    made = graph.model_copy(
        update={
            "instructions": tuple(instructions),
            "edges": tuple(_edges(graph, new, at)),
            "values": tuple(_value(v, instructions, new, at, graph) for v in graph.values if v.id not in dropped),
            "invariants": (*(_invariant(i, new) for i in graph.invariants), *_workspaces(graph, dropped, new)),
        }
    )
    return Joined(made, tuple(new), at)


def _offsets(graph: CostedGraph, run: Sequence[int]) -> dict[int, int]:
    """Cycles from a run's start to that of each member: as soon as units, warp group and values allow."""
    found: dict[int, int] = {}
    for v in run:
        one = graph.instructions[v]
        waits = [found[e.src] + e.delay for e in graph.edges if e.dst == v and e.src in found and not e.distance]
        for u, at in found.items():
            other = graph.instructions[u]
            waits.append(at + other.hold)
            ends = {use.unit: at + use.start + use.cycles for use in other.uses if use.unit not in graph.interleaved}
            waits += [ends[use.unit] - use.start for use in one.uses if use.unit in ends]
        found[v] = max(waits, default=0)
    return found


def _one(graph: CostedGraph, members: Sequence[int], behind: Mapping[int, int], number: int) -> Instruction:
    """A run as an instruction: its warp group is held from its first member's issue to its last one's."""
    first, last = graph.instructions[members[0]], graph.instructions[members[-1]]
    at = {v: behind.get(v, 0) for v in members}
    uses = [use.model_copy(update={"start": at[v] + use.start}) for v in members for use in graph.instructions[v].uses]
    return first.model_copy(
        update={
            "id": number,
            "uses": tuple(_merged(uses)),
            "latency": max(at[v] + graph.instructions[v].latency for v in members),
            "hold": max(at[v] + graph.instructions[v].hold for v in members),
            "asynchronous": last.asynchronous,
            "variable_latency": any(graph.instructions[v].variable_latency for v in members),
            "contexts": tuple(c for c in first.contexts if all(c in graph.instructions[v].contexts for v in members)),
        }
    )


def _merged(uses: Sequence[Use]) -> list[Use]:
    """The uses, those of one unit that follow one another without a gap as one."""
    found: list[Use] = []
    for use in sorted(uses, key=lambda u: (u.unit, u.start)):
        last = found[-1] if found else None
        if last is not None and last.unit == use.unit and last.start + last.cycles == use.start:
            found[-1] = last.model_copy(update={"cycles": last.cycles + use.cycles})
        else:
            found.append(use)
    return found


def _edges(graph: CostedGraph, new: Sequence[int], at: Sequence[int]) -> Iterable[CostedEdge]:
    """Between runs, as if from start to start; what a run keeps within an iteration is left out."""
    strictest: dict[tuple[int, int, int, str], CostedEdge] = {}
    for e in graph.edges:
        src, dst = new[e.src], new[e.dst]
        if src == dst and not e.distance:
            continue
        moved = e.model_copy(update={"src": src, "dst": dst, "delay": at[e.src] + e.delay - at[e.dst]})
        key = src, dst, e.distance, e.kind
        known = strictest.get(key)
        if known is not None:
            delay, crossing = max(known.delay, moved.delay), max(known.crossing, moved.crossing)
            moved = moved.model_copy(update={"delay": delay, "crossing": crossing})
        strictest[key] = moved
    return strictest.values()


def _value(
    value: CostedValue, runs: Sequence[Instruction], new: Sequence[int], at: Sequence[int], graph: CostedGraph
) -> CostedValue:
    """The value of a run. What is there before the run's end cannot be moved out of its warp group then: no spill ends
    within any I."""
    reads = dict.fromkeys((new[r.reader], r.distance) for r in value.reads)
    described = tuple(Read(reader=reader, distance=distance) for reader, distance in reads)
    producer, run = graph.instructions[value.producer], runs[new[value.producer]]
    early = value.spill and at[producer.id] + producer.latency < run.latency
    spill = NEVER if early else value.spill
    return value.model_copy(update={"producer": run.id, "reads": described, "spill": spill})


def _invariant(invariant: Invariant, new: Sequence[int]) -> Invariant:
    return invariant.model_copy(update={"readers": tuple(sorted({new[r] for r in invariant.readers}))})


def _workspaces(graph: CostedGraph, dropped: set[int], new: Sequence[int]) -> Iterable[Invariant]:
    """The registers of values that a run makes for itself."""
    first = 1 + max((i.id for i in graph.invariants), default=-1)
    inner = (v for v in graph.values if v.id in dropped and v.space == "register" and v.storage is None)
    for number, v in enumerate(inner, first):
        yield Invariant(id=number, name=f"{v.name} in work", line=v.line, block=v.block, space="register", bytes=0,
                        registers=v.registers, readers=(new[v.producer],))  # fmt: skip
