"""Cost normalization, the paper's ZLP: cycle counts become small integers in nearly the same ratios.

The distinct cycle counts c_i of a graph (uses, latencies, holds, delays, crossings, spills) become
integers n_i ≥ 1 with Σ n_i ≤ U, one unit standing for F cycles. Every n_i is a neighbour of c_i / F and
keeps the order of the c_i; among these the largest relative error |n_i F − c_i| / c_i is minimized, then
the sum of the rounding errors. (The paper's absolute error lets small costs vanish; a count of less
than one unit becomes one unit here, and `worst_error` says by how much that is too long.)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pyscipopt import Model, quicksum

from twill.exc import NormalizeTooCoarse
from twill.graph.costed import CostedEdge, CostedGraph, CostedValue, Instruction, Normalization, Use

_NODE_LIMIT = 20_000  # of one integer program: a deterministic budget; what it has found by then is used
_SETTLED = 1e-6  # an improvement of the relative error below this is none


@dataclass(frozen=True)
class Scale:
    """The chosen integers: `units[c]` for every count c > 0, and F, the cycles of one unit."""

    units: dict[int, int]
    cycles_per_unit: float

    @property
    def worst_error(self) -> float:
        """The largest |n F − c| / c."""
        return max((abs(n * self.cycles_per_unit - c) / c for c, n in self.units.items()), default=0.0)

    def of(self, cycles: int) -> int:
        """A count in units: 0 stays 0, the sign of a negative delay stays."""
        if cycles == 0:
            return 0
        return self.units[cycles] if cycles > 0 else -self.units[-cycles]


def normalize(graph: CostedGraph, bound: int) -> CostedGraph:
    """`graph` in units instead of cycles, the sum of its distinct counts at most `bound` (U).

    Raises NormalizeTooCoarse if the graph has more distinct counts than that.
    """
    counts = cycle_counts(graph)
    if bound < len(counts):
        raise NormalizeTooCoarse(bound, len(counts), line=graph.line)
    scale = choose_scale(counts, bound)
    return graph.model_copy(
        update={
            "instructions": tuple(_instruction(i, scale) for i in graph.instructions),
            "edges": tuple(_edge(e, scale) for e in graph.edges),
            "values": tuple(_value(v, scale) for v in graph.values),
            "normalization": Normalization(
                bound=bound, cycles_per_unit=scale.cycles_per_unit, worst_error=scale.worst_error
            ),
        }
    )


def cycle_counts(graph: CostedGraph) -> tuple[int, ...]:
    """Every distinct number of cycles > 0 in the graph, ascending; of a use, where it starts and ends."""
    counts: set[int] = set()
    for instruction in graph.instructions:
        counts.update((instruction.latency, instruction.hold))
        counts.update(end for use in instruction.uses for end in (use.start, use.start + use.cycles))
    for edge in graph.edges:
        counts.update((abs(edge.delay), edge.crossing))
    counts.update(value.spill for value in graph.values)
    return tuple(sorted(counts - {0}))


def choose_scale(counts: Sequence[int], bound: int) -> Scale:
    """The integers for distinct ascending counts > 0, at most `bound` of them; their sum is at most `bound`.

    For a fixed error e the constraint |n_i − c_i s| ≤ e c_i s with s = 1 / F is linear, so the least e
    is found as Dinkelbach does: minimize the slack at e, take the error of the solution as the next e,
    until it no longer falls. A last program minimizes Σ |n_i − c_i s| at that e.
    """
    if not counts or sum(counts) <= bound:
        return Scale({c: c for c in counts}, 1.0)
    best = _rounded_down(counts, bound)
    while (found := _program(counts, bound, best.worst_error, slack=True)) is not None:
        if found.worst_error > best.worst_error - _SETTLED:
            break
        best = found
    return _program(counts, bound, best.worst_error + _SETTLED, slack=False) or best


def _rounded_down(counts: Sequence[int], bound: int) -> Scale:
    """The finest F at which rounding every count down, but not below 1, keeps to the bound."""
    low, high = 0.0, 1.0  # units per cycle
    for _ in range(60):
        middle = (low + high) / 2
        if sum(max(1, int(c * middle)) for c in counts) <= bound:
            low = middle
        else:
            high = middle
    # With low = 0 every count is one unit; the longest then is that unit.
    per_cycle = low or 1.0 / counts[-1]
    return Scale({c: max(1, int(c * per_cycle)) for c in counts}, 1.0 / per_cycle)


def _program(counts: Sequence[int], bound: int, error: float, *, slack: bool) -> Scale | None:
    """One integer program: minimize the slack at `error`, or Σ |n_i − c_i s| subject to `error`."""
    model = Model("normalize")
    model.hideOutput()
    model.setParam("limits/nodes", _NODE_LIMIT)
    last = counts[-1]
    longest = model.addVar("longest", lb=last / (2 * sum(counts)), ub=min(last, bound + 1))  # the last count in units
    units = [model.addVar(f"n{c}", vtype="I", lb=1, ub=bound) for c in counts]
    worst = model.addVar("z", lb=-2.0 * bound, ub=1.0) if slack else None
    misses = []
    model.addCons(quicksum(units) <= bound)
    for smaller, larger in zip(units, units[1:], strict=False):
        model.addCons(smaller <= larger)
    for count, unit in zip(counts, units, strict=True):
        exact = count / last * longest
        model.addCons(unit <= exact + 1)  # the neighbour above, also of a count of less than one unit
        model.addCons(unit >= exact - 1)
        miss = model.addVar(f"d{count}", lb=0.0)
        model.addCons(miss >= unit - exact)
        model.addCons(miss >= exact - unit)
        misses.append(miss)
        model.addCons(miss - error * exact <= (count / last * worst if worst is not None else 0.0))
    model.setObjective(worst if worst is not None else quicksum(misses), "minimize")
    model.optimize()
    if model.getStatus() == "userinterrupt":
        raise KeyboardInterrupt  # SCIP takes Ctrl-C for itself
    if model.getNSols() == 0:
        return None
    chosen = {c: round(model.getVal(unit)) for c, unit in zip(counts, units, strict=True)}
    return Scale(chosen, last / model.getVal(longest))


def _instruction(instruction: Instruction, scale: Scale) -> Instruction:
    uses = _uses(instruction.uses, scale)
    return instruction.model_copy(
        update={"uses": uses, "latency": scale.of(instruction.latency), "hold": scale.of(instruction.hold)}
    )


def _uses(uses: Sequence[Use], scale: Scale) -> tuple[Use, ...]:
    """Uses from unit to unit; those of one unit that rounding made overlap become one."""
    made: list[Use] = []
    for use in sorted(uses, key=lambda use: use.start):
        start, end = scale.of(use.start), scale.of(use.start + use.cycles)
        end = max(end, start + min(1, use.cycles))
        before = next((i for i, m in enumerate(made) if m.unit == use.unit and m.start + m.cycles > start), None)
        if before is not None and use.cycles:
            start = made[before].start
            end = max(end, start + made[before].cycles)
            del made[before]
        made.append(Use(unit=use.unit, start=start, cycles=end - start))
    order = {use.unit: index for index, use in reversed(list(enumerate(uses)))}
    return tuple(sorted(made, key=lambda use: (order[use.unit], use.start)))


def _edge(edge: CostedEdge, scale: Scale) -> CostedEdge:
    return edge.model_copy(update={"delay": scale.of(edge.delay), "crossing": scale.of(edge.crossing)})


def _value(value: CostedValue, scale: Scale) -> CostedValue:
    return value.model_copy(update={"spill": scale.of(value.spill)})
