"""Whether two costed graphs are one loop: the same, or the second with its cycles in units of the first's.

The solver of the normalization is not asked again (it is not imported here): what is checked is that
the units are what docs/model.md says, one function of the cycles that grows with them and errs by no
more than the schedule says.
"""

from __future__ import annotations

from collections.abc import Iterator

from twill.graph.costed import CostedGraph, Instruction, Normalization

SLACK = 1e-6  # of a relative error


def same_graph(exact: CostedGraph, given: CostedGraph) -> bool:
    """Whether `given` is `exact`, in its own units if it is normalized."""
    scale = given.normalization
    if scale is None:
        return exact == given
    if timeless(exact) != timeless(given):
        return False
    units: dict[int, int] = {}
    for cycles, unit in zip(numbers(exact), numbers(given), strict=True):
        if sign(cycles) != sign(unit) or units.setdefault(abs(cycles), abs(unit)) != abs(unit):
            return False
    grows = [units[cycles] for cycles in sorted(units)]
    error = scale.worst_error + SLACK
    in_units = all(abs(unit * scale.cycles_per_unit - cycles) <= error * cycles for cycles, unit in units.items())
    return grows == sorted(grows) and in_units and all(same_uses(i, j, scale) for i, j in pairs(exact, given))


def pairs(exact: CostedGraph, given: CostedGraph) -> Iterator[tuple[Instruction, Instruction]]:
    """The instructions of both graphs, side by side."""
    return zip(exact.instructions, given.instructions, strict=True)


def same_uses(exact: Instruction, given: Instruction, scale: Normalization) -> bool:
    """Whether an instruction keeps every unit busy as long as before, up to what rounding both ends of each use,
    joining uses that then overlap, and making every use one unit long at least, can change."""
    for unit in {use.unit for use in exact.uses}:
        before = [use for use in exact.uses if use.unit == unit]
        after = sum(use.cycles for use in given.uses if use.unit == unit) * scale.cycles_per_unit
        ends = sum(2 * use.start + use.cycles for use in before)
        allowed = (scale.worst_error + SLACK) * ends + scale.cycles_per_unit * len(before)
        if abs(after - sum(use.cycles for use in before)) > allowed:
            return False
    return True


def sign(number: int) -> int:
    """-1, 0 or 1."""
    return (number > 0) - (number < 0)


def timeless(graph: CostedGraph) -> CostedGraph:
    """The graph without its cycles; of a reservation table, the units in it (rounding can join its rows)."""
    return graph.model_copy(
        update={
            "normalization": None,
            "instructions": tuple(
                i.model_copy(
                    update={
                        "uses": tuple(sorted({use.unit for use in i.uses})),
                        "latency": 0,
                        "hold": 0,
                    }
                )
                for i in graph.instructions
            ),
            "edges": tuple(e.model_copy(update={"delay": 0, "crossing": 0}) for e in graph.edges),
            "values": tuple(v.model_copy(update={"spill": 0}) for v in graph.values),
        }
    )


def numbers(graph: CostedGraph) -> Iterator[int]:
    """Every number of cycles of a graph in order, but for those in reservation tables."""
    for i in graph.instructions:
        yield from (i.latency, i.hold)
    for edge in graph.edges:
        yield from (edge.delay, edge.crossing)
    for value in graph.values:
        yield value.spill
