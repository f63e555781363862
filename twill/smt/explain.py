"""Why a request is impossible: a minimal set of rules that exclude each other, in words.

Every constraint carries its origin (rule and instructions). The solver is asked under all origins;
an unsatisfiable core is shrunk until each member is needed, and is then told rule by rule.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from twill.graph.costed import CostedGraph, Instruction
from twill.machine.description import Machine
from twill.smt.assignment import read_assignment
from twill.smt.backend import Z3Session
from twill.smt.encoding import Encoding, RuleOrigin
from twill.smt.lazy import LazyRules
from twill.smt.objectives import length_at_most
from twill.smt.pins import Pin, assert_pins
from twill.smt.rules import assert_rules

SHRINK_SECONDS = 5.0  # of one question whether an origin is needed


@dataclass(frozen=True)
class ExplainRequest:
    """What is asked for: exactly this I, at most so many copies and warp groups (None: any)."""

    ii: int
    copies: int | None = None
    groups: int | None = None
    pins: tuple[Pin, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """A minimal unsatisfiable core as sentences. minimal: False if the time ran out before it was shrunk."""

    origins: tuple[RuleOrigin, ...]
    sentences: tuple[str, ...]
    minimal: bool


def explain(
    graph: CostedGraph,
    machine: Machine,
    request: ExplainRequest,
    seconds: float = 60.0,
    dropped: frozenset[RuleOrigin] = frozenset(),
) -> Explanation | None:
    """Why `request` is impossible; None if it is possible. `dropped` origins are not asserted.

    Raises TimeoutError if the solver could not decide in `seconds`; shrinking the core has as long again.
    """
    session = Z3Session()
    e = Encoding(graph, machine, session, (request.ii, request.ii), explain=True, pinned=bool(request.pins),
                 named_slots=any(p.names_group for p in request.pins), dropped=dropped)  # fmt: skip
    assert_rules(e)
    assert_pins(e, request.pins)
    if request.copies is not None:
        e.add(length_at_most(e, request.copies * request.ii), RuleOrigin(f"at most {request.copies} copies"))
    if request.groups is not None:
        count = " ".join(f"(ite used{s.id} 1 0)" for s in e.slots)
        e.add(f"(<= (+ 0 {count}) {request.groups})", RuleOrigin(f"at most {request.groups} warp groups"))
    core = _core(e, LazyRules(e), seconds)
    if core is None:
        return None
    core, minimal = _shrink(e, core, seconds)
    origins = tuple(sorted((e.origins[c] for c in core), key=lambda o: (o.rule, o.instructions)))
    return Explanation(origins, tuple(sentences_of(graph, machine, request, origins)), minimal)


def _core(e: Encoding, lazy: LazyRules, seconds: float) -> list[str] | None:
    """An unsatisfiable core over all origins, or None if a model passes every rule."""
    deadline = time.perf_counter() + seconds
    while True:
        e.flush()
        answer = e.session.check(assuming=sorted(e.origins), seconds=deadline - time.perf_counter())
        if answer.outcome == "unknown":
            raise TimeoutError
        if answer.outcome == "unsat":
            return sorted(answer.core)
        a = read_assignment(e, answer.values)
        granule = e.machine.register_file.granule
        before = e.asserted
        broken = lazy.refine(a, {s.id: granule * answer.values.get(f"b{s.id}", 0) for s in a.used})
        if not broken or e.asserted == before:  # what it breaks may have been dropped
            return None


def _shrink(e: Encoding, core: list[str], seconds: float) -> tuple[list[str], bool]:
    """Leave out one origin after another as long as the rest stays unsatisfiable."""
    deadline = time.perf_counter() + seconds
    retained: list[str] = []
    rest = list(core)
    while rest:
        candidate, rest = rest[0], rest[1:]
        left = min(deadline - time.perf_counter(), SHRINK_SECONDS)
        answer = e.session.check(assuming=[*retained, *rest], seconds=left)
        if answer.outcome == "unsat":
            rest = [c for c in rest if c in answer.core]
            retained = [c for c in retained if c in answer.core]
            continue
        if answer.outcome == "unknown":
            return [*retained, candidate, *rest], False
        retained.append(candidate)
    return retained, True


BACKGROUND = ("warp uniqueness",)  # true of every schedule, and told only if nothing else is


def sentences_of(
    graph: CostedGraph, machine: Machine, request: ExplainRequest, origins: Sequence[RuleOrigin]
) -> list[str]:
    """The core as sentences, one for each rule that takes part."""
    by_rule: dict[str, list[RuleOrigin]] = {}
    for o in origins:
        by_rule.setdefault(o.rule, []).append(o)
    apart = _apart(graph, by_rule.get("warp uniqueness", ()))
    listed = [rule for rule in by_rule if rule not in BACKGROUND] or ([] if apart else list(by_rule))
    sentences = [_TELLERS.get(rule.split(" (")[0], _plain)(graph, machine, request, by_rule[rule]) for rule in listed]
    return sentences + apart


def _apart(graph: CostedGraph, origins: Sequence[RuleOrigin]) -> list[str]:
    """That instructions of the core need warp groups of different kinds, where they do."""
    found = [graph.instructions[v] for o in origins for v in o.instructions]
    for i, j in combinations(found, 2):
        if not set(i.contexts) & set(j.contexts):
            return [f"{_needs(graph, i)}, and {_needs(graph, j)}"]
    return []


def _needs(graph: CostedGraph, i: Instruction) -> str:
    return f"{_label(graph, i)} needs a warp group for {' or '.join(i.contexts)}"


def _capacity(graph: CostedGraph, machine: Machine, request: ExplainRequest, origins: Sequence[RuleOrigin]) -> str:
    ids = sorted({v for o in origins for v in o.instructions})
    busy: dict[str, int] = {}
    users: dict[str, set[int]] = {}
    for o in origins:
        units = set.intersection(*({u.unit for u in graph.instructions[v].uses} for v in o.instructions))
        for unit in units:
            users.setdefault(unit, set()).update(o.instructions)
    for unit, members in users.items():
        busy[unit] = sum(u.cycles for v in members for u in graph.instructions[v].uses if u.unit == unit)
    if not busy:
        return f"{_named(graph, ids)} do not fit on their unit"
    unit = max(busy, key=lambda u: busy[u])
    verb = "more than" if busy[unit] > request.ii else "of"
    holds = "hold" if len(users[unit]) > 1 else "holds"
    named = _named(graph, sorted(users[unit]))
    return f"{named} {holds} the {unit} unit for {busy[unit]} cycles, {verb} I = {request.ii}"


def _concurrency(graph: CostedGraph, machine: Machine, request: ExplainRequest, origins: Sequence[RuleOrigin]) -> str:
    ids = sorted({v for o in origins for v in o.instructions})
    held = sum(graph.instructions[v].hold for v in ids)
    return (
        f"a warp group issues in order: {_named(graph, ids)} would hold one warp group for "
        f"{held} cycles an iteration, and an iteration has I = {request.ii}"
    )


def _dependence(graph: CostedGraph, machine: Machine, request: ExplainRequest, origins: Sequence[RuleOrigin]) -> str:
    steps: dict[tuple[str, str, int, int], list[int]] = {}
    for o in origins:
        u, v = (graph.instructions[x] for x in o.instructions)
        edge = max((e for e in graph.edges if (e.src, e.dst) == o.instructions), key=lambda e: e.delay)
        steps.setdefault((_label(graph, u), _label(graph, v), edge.delay, edge.distance), []).append(v.block)
    listed = []
    for (u_name, v_name, delay, distance), blocks in steps.items():
        later = f" of {distance} iteration{'s' if distance > 1 else ''} later" if distance else ""
        listed.append(f"{v_name}{later} waits {delay} cycles for {u_name}{_in_blocks(blocks)}")
    return "; ".join(listed)


def _registers(graph: CostedGraph, machine: Machine, request: ExplainRequest, origins: Sequence[RuleOrigin]) -> str:
    ids = sorted({v for o in origins for v in o.instructions})
    made = [v for v in graph.values if v.producer in ids and v.registers and v.storage is None]
    if not made:
        return _resident(graph, machine)
    total = sum(v.registers for v in made)
    names = ", ".join(sorted({v.name for v in made}))
    return f"the values {names} take {total} registers a thread where they are alive together"


def _resident(graph: CostedGraph, machine: Machine) -> str:
    """What warp groups keep in registers all the time, and the largest budget that one can have."""
    retained: dict[str, list[int]] = {}
    held = [(f"{x.name} (line {x.line})", x.registers) for x in graph.storages]
    held += [(f"{x.name} (line {x.line})", x.registers) for x in graph.invariants]
    held += [(f"{x.name} (line {x.line}) where it is read in another warp group", x.registers) for x in graph.values
             if x.storage is None]  # fmt: skip
    for name, registers in held:
        if registers:
            retained.setdefault(name, []).append(registers)
    parts = [f"{name} {n[0]}" + (f" for each of {len(n)}" if len(n) > 1 else "") for name, n in retained.items()]
    limits = ", ".join(
        f"{c.max_registers} for {c.name} less {int(c.overhead.value)} of its own" for c in machine.contexts
    )
    return (
        f"registers a thread that are taken all the time: {'; '.join(parts)}; "
        f"and a warp group has at most {limits}, {int(machine.register_file.registers.value)} in all threads together"
    )


def _plain(graph: CostedGraph, machine: Machine, request: ExplainRequest, origins: Sequence[RuleOrigin]) -> str:
    ids = sorted({v for o in origins for v in o.instructions})
    rule = origins[0].rule
    return f"{rule}: {_named(graph, ids)}" if ids else rule


def _memory(graph: CostedGraph, machine: Machine, request: ExplainRequest, origins: Sequence[RuleOrigin]) -> str:
    return slots_of_tiles(graph, machine, origins[0].rule.split("(")[-1].rstrip(")"))[0]


def slots_of_tiles(graph: CostedGraph, machine: Machine, space: str) -> tuple[str, bool]:
    """What one slot of each tile takes of a memory, in words, and whether that alone is more than there is."""
    held = [(v.name, v.bytes) for v in graph.values if v.space == space and v.storage is None]
    held += [(s.name, s.bytes) for s in graph.storages if s.space == space]
    held += [(i.name, i.bytes) for i in graph.invariants if i.space == space]
    sizes: dict[str, int] = {}
    for name, size in held:
        sizes[name] = sizes.get(name, 0) + size
    listed = ", ".join(f"{name} {_spelled_bytes(size)}" for name, size in sizes.items() if size)
    total, room = sum(sizes.values()), machine.capacity(space)
    taken = f"one slot for each tile in {space} memory takes {_spelled_bytes(total)} ({listed})"
    if total > room:
        return f"{taken}, and there are {_spelled_bytes(room)}", True
    return f"{taken}, and with the further slots that lifetimes need that is more than there is", False


def _spelled_bytes(size: int) -> str:
    return f"{size / 1024:g} KiB" if size >= 1024 else f"{size} bytes"


_TELLERS = {
    "memory capacity": _memory,
    "capacity": _capacity,
    "concurrency": _concurrency,
    "dependence": _dependence,
    "register limit": _registers,
}


def _label(graph: CostedGraph, i: Instruction) -> str:
    """Variable and kernel line; with the operation if the kernel gives several results that name."""
    twins = {j.op for j in graph.instructions if j.name == i.name}
    what = f"{i.name}:{i.op.split()[-1]}" if i.name and len(twins) > 1 else i.name or i.op
    return f"{what} (line {i.line})"


def _in_blocks(blocks: Sequence[int]) -> str:
    own = sorted({b for b in blocks if b >= 0})
    if not own:
        return ""
    return f", in row block{'s' if len(own) > 1 else ''} {' and '.join(str(b) for b in own)}"


def _named(graph: CostedGraph, ids: Sequence[int]) -> str:
    """Instructions by name and kernel line, those of several row blocks together."""
    blocks: dict[str, list[int]] = {}
    for v in ids:
        i = graph.instructions[v]
        blocks.setdefault(_label(graph, i), []).append(i.block)
    parts = []
    for label, found in blocks.items():
        own = sorted({b for b in found if b >= 0})
        parts.append(label + (f" x {len(own)} row blocks" if len(own) > 1 else ""))
    return ", ".join(parts[:-1]) + f" and {parts[-1]}" if len(parts) > 1 else "".join(parts)
