"""The constraints of the paper's own form (arXiv 2512.18134, figures 4 to 6), one function each, named as there.

The form is the printed one: literals for every iteration of the straight-line program, dependences as implications over
pairs of cycles, units, memories and registers added up cycle by cycle, liveness propagated backwards cycle by cycle.
The meaning is that of docs/model.md, so that all encodings have the same valid schedules. Where the printed formulas
say something else, the function tells what and why. Where there was a choice, it is the one easier on the solver:

- sums of literals are pseudo-Boolean terms, which the solver has a theory for;
- literals that completion and consistency make false are left out;
- "no ... at any of these cycles" is one term for each conclusion, as it is printed, and not a clause for each pair;
- "in different warp groups", printed for each pair of warps, is one literal for each pair of instructions;
- the concurrency of spills, which the paper mentions without a formula, is stated over the steady state alone, with one
  literal for each cycle.
"""

from __future__ import annotations

from itertools import combinations

from twill.graph.costed import CostedValue
from twill.smt.boolean_groups import register_budgets, register_values
from twill.smt.encoding import negated, read_end
from twill.smt.grid import Grid
from twill.zlp.bound import resident_bytes


def uniqueness(w: Grid) -> None:
    """Σ_t op(v, i, t) = 1: every iteration issues every instruction at exactly one cycle."""
    for instruction in w.graph.instructions:
        for i in range(w.copies):
            ops = [w.declare(w.op(instruction.id, i, t)) for t in w.issues(instruction.id, i)]
            w.clause(*ops)
            w.at_most_one(ops)


def consistency(w: Grid) -> None:
    """op(v, 0, t) ⇔ op(v, i, t + i·I): the program is that of a modulo schedule."""
    for instruction in w.graph.instructions:
        for i in range(1, w.copies):
            for t in w.issues(instruction.id, 0):
                first, later = w.op(instruction.id, 0, t), w.op(instruction.id, i, t + i * w.ii)
                w.clause(negated(first), later)
                w.clause(first, negated(later))


def completion(w: Grid) -> None:
    """Every instruction completes by T: what cannot has no literal (`Grid.op`)."""
    if any(w.latest(instruction.id) < 0 for instruction in w.graph.instructions):
        w.clause()


def dependence(w: Grid) -> None:
    """op(u, i, t) ⇒ ¬op(v, i + δ, t') for all t' < t + delay.

    Printed, an edge whose δ is ⌈L/I⌉ or more says nothing, because the program has no two such iterations; here it
    holds between iteration 0 and what iteration δ would be.
    """
    for edge in w.graph.edges:
        if edge.src == edge.dst:
            w.clause("true" if edge.delay <= edge.distance * w.ii else "false")
            continue
        for i, j in w.pairs(edge.distance):
            targets = w.issues(edge.dst, j)
            for t in w.issues(edge.src, i):
                issued = w.op(edge.src, i, t)
                early = range(targets.start, min(targets.stop, t + edge.delay))
                w.none([w.op(edge.dst, j, other) for other in early], issued)


def cross_warp_spills(w: Grid) -> None:
    """op(u, i, t) ⇒ ¬op(v, i + δ, t + delay + s) for all s in [0, crossing) unless u and v are in one warp group."""
    for edge in w.graph.edges:
        same = w.same(edge.src, edge.dst)
        if same == "true":
            continue
        for i, j in w.pairs(edge.distance):
            targets = w.issues(edge.dst, j)
            for t in w.issues(edge.src, i):
                ready, issued = t + edge.delay, w.op(edge.src, i, t)
                early = range(max(targets.start, ready), min(targets.stop, ready + edge.crossing))
                w.none([w.op(edge.dst, j, other) for other in early], issued, negated(same))


def capacity(w: Grid) -> None:
    """Σ op(v, i, t - c)·RRT_v(f, c) over v, i, c is at most 1 at every cycle t of every unit f.

    Of an interleaved unit only the sum counts.
    """
    users: dict[str, list[tuple[int, int, int]]] = {}
    for instruction in w.graph.instructions:
        for use in instruction.uses:
            users.setdefault(use.unit, []).append((instruction.id, use.start, use.cycles))
    for unit, uses in users.items():
        if sum(cycles for _, _, cycles in uses) > w.ii:
            w.clause()
        if unit in w.graph.interleaved:
            continue
        for t in range(max(w.cycles, w.steady.stop)):
            lowest = (
                None if t in w.steady else 0
            )  # an earlier iteration can be there only if a use outlasts its latency
            busy = [w.issued(v, t - start - cycles + 1, t - start, lowest) for v, start, cycles in uses]
            w.at_most_one([op for literals in busy for op in literals])


def memory_capacity(w: Grid) -> None:
    """Rings, storages and invariants of each memory fit it.

    Printed, what is live at a cycle counts at that cycle. A ring keeps all of its slots all the time: there are as many
    as values are ever live at once, and their sum must fit.
    """
    for memory in w.machine.memories:
        terms = [(resident_bytes(w.graph, memory.name), "true")]
        for x in w.graph.values:
            if x.space != memory.name or x.storage is not None:
                continue
            alive = liveness(w, x)
            most = max(len(literals) for literals in alive)
            deeper = [w.declare(f"depth{x.id}_{k}") for k in range(2, most + 1)]
            for literals in alive:
                w.at_most([*((1, live) for live in literals), *((1, negated(d)) for d in deeper)], most)
            terms += [(x.bytes, "true"), *((x.bytes, literal) for literal in deeper)]
        w.at_most(terms, int(memory.bytes.value))


def liveness(w: Grid, x: CostedValue) -> list[list[str]]:
    """By cycle of prologue and steady state: the literals "x of iteration i is live", one for each i.

    As printed, backwards from the end of the program: what is live at t is live at t - 1 unless born at t, what is
    dead at t is dead at t - 1 unless a use ends at t. Birth and end of use are those of docs/model.md; the paper takes
    issue for both. Printed, only what the last iteration hands on is live at the end, and nothing at the beginning;
    here also what others hand on past the end, and values of iterations before the first that are read in the program.
    """
    producer = w.graph.instructions[x.producer]
    birth = 0 if producer.asynchronous or x.space != "register" else producer.hold
    ends = [(r.reader, r.distance, read_end(w.graph.instructions[r.reader])) for r in x.reads]
    if not ends and x.space != "register":
        ends = [(x.producer, 0, producer.latency)]
    events = [(x.producer, birth), *((v, end) for v, _, end in ends)]
    last = max(w.cycles, *(w.cycles - w.graph.instructions[v].latency + offset for v, offset in events))
    before = max([distance for _, distance, _ in ends], default=0) + -(-(last - w.cycles) // w.ii)
    by_cycle: list[list[str]] = [[] for _ in range(min(last + 1, w.steady.stop))]
    for i in range(-before, w.copies):
        name = f"live{x.id}_{i + before}"
        live = [w.declare(f"{name}_{t}") for t in range(last + 1)]
        w.clause(live[last] if any(i + distance >= w.copies for _, distance, _ in ends) else negated(live[last]))
        for t in range(1, last + 1):
            born, now, earlier = w.op(x.producer, i, t - birth), live[t], live[t - 1]
            uses = {w.op(v, i + distance, t - end) for v, distance, end in ends if i + distance < w.copies} - {"false"}
            w.clause(negated(now), born, earlier)
            w.clause(negated(now), negated(born), negated(earlier))
            for use in sorted(uses):
                w.clause(now, negated(use), earlier, *_unborn(w, x, i, t - birth))
            w.clause(now, *sorted(uses), negated(earlier))
        for t, literals in enumerate(by_cycle):
            literals.append(live[t])
    return by_cycle


def _unborn(w: Grid, x: CostedValue, i: int, t: int) -> list[str]:
    """The literals "x of iteration i is made at t or later", where dependences do not make sure of an earlier birth."""
    producer = w.graph.instructions[x.producer]
    birth = 0 if producer.asynchronous or x.space != "register" else producer.hold
    edges = [(e.dst, e.distance, e.delay) for e in w.graph.edges if e.src == x.producer]

    def sure(reader: int, distance: int) -> bool:
        lasts = read_end(w.graph.instructions[reader])
        if reader == x.producer:
            return distance * w.ii + lasts > birth
        return any(v == reader and d <= distance and delay + lasts > birth for v, d, delay in edges)

    if all(sure(read.reader, read.distance) for read in x.reads):
        return []
    return [w.op(x.producer, i, later) for later in range(max(t, i * w.ii), w.issues(x.producer, i).stop)]


def concurrency(w: Grid) -> None:
    """op(v, i, t) ⇒ ¬op(o, i', t') for all i', t' in [t - hold(o) + 1, t] and all other o of its warp group.

    Printed, the window is cycles(o), and only instructions that wait for a result have one: a warp group is blocked
    while its asynchronous instructions are in flight, and synchronous ones overlap. Here an instruction blocks for its
    hold.
    """
    held = [instruction for instruction in w.graph.instructions if instruction.hold]
    if any(instruction.hold > w.ii for instruction in held):
        w.clause()
    for a, b in combinations(held, 2):
        same = w.same(a.id, b.id)
        if same == "false":
            continue
        for v, o in ((a, b), (b, a)):
            lowest = min(0, (o.latency - o.hold) // w.ii)
            for i in range(w.copies):
                for t in w.issues(v.id, i):
                    w.none(w.issued(o.id, t - o.hold + 1, t, lowest), w.op(v.id, i, t), same)


def concurrency_of_spills(w: Grid) -> None:
    """While a value moves to another warp group, [t + latency, t + latency + spill), its own does nothing else."""
    moved: list[tuple[int, list[str]]] = []
    for x in w.graph.values:
        if not x.spill or not x.reads:
            continue
        crosses = w.crosses(x)
        if crosses == "false":
            continue
        if x.spill > w.ii:
            w.clause(negated(crosses))
            continue
        ready = w.graph.instructions[x.producer].latency
        moved.append((x.producer, _busy(w, f"move{x.id}", x.producer, ready, x.spill, crosses)))
    held = [o for o in w.graph.instructions if o.hold] if moved else []
    rows = [(o.id, _busy(w, f"hold{o.id}", o.id, 0, o.hold, "true")) for o in held]
    for position, (u, moving) in enumerate(moved):
        for v, busy in [*rows, *moved[position + 1 :]]:
            apart = negated(w.same(u, v))
            for a, b in zip(moving, busy, strict=True):
                w.clause(apart, negated(a), negated(b))


def _busy(w: Grid, name: str, v: int, offset: int, cycles: int, condition: str) -> list[str]:
    """By cycle of the steady state: a literal that is true if, under `condition`, some iteration has the cycle in
    [t_v + offset, t_v + offset + cycles)."""
    rows = []
    for t in w.steady:
        row = w.declare(f"{name}_{t}")
        rows.append(row)
        for issued in w.issued(v, t - offset - cycles + 1, t - offset, lowest=None):
            w.clause(negated(condition), negated(issued), row)
    return rows


def register_limit(w: Grid) -> None:
    """Σ live(x, i, t)·opw(x, w)·registers <= budget at every cycle t of every warp group w; a budget is an unknown.

    Printed, over all of the program. In the epilogue, what iterations hand on to later ones is live and those are not
    there: only cycles of prologue and steady state count.
    """
    alive = {x.id: liveness(w, x) for x in register_values(w)}
    instants = max((len(cycles) for cycles in alive.values()), default=1)
    register_budgets(w, {x: [*c, *[[]] * (instants - len(c))] for x, c in alive.items()}, instants)
