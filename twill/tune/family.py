"""What candidates that were emitted become together: a family, with what each member is predicted to take."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import fields, replace

from twill.codegen.emission import Extracted
from twill.graph.price import price_transfer
from twill.graph.work import BITS
from twill.machine.description import Machine
from twill.manifest.evaluate import Scalar, ScalarOperation, evaluable
from twill.manifest.family import SCHEMA, Family, LaunchRates, Member, MemberCost, MemberLoad
from twill.schedule.document import Schedule
from twill.tile.program import Loop, Op, TileProgram
from twill.tune.predict import straight_cycles
from twill.tune.split import size_of_sums

Emitted = tuple[str, Extracted, Schedule, int]
"""The folder of a candidate, its kernel, the schedule that it was emitted with, and CTAs of a cluster."""
SUM_BYTES = 4  # of a partial sum


def family_of(emitted: Sequence[Emitted], machine: Machine) -> Family:
    """The family of these candidates, the default first."""
    members = tuple(
        Member(folder, cost_of(kernel, schedule, machine, ctas)) for folder, kernel, schedule, ctas in emitted
    )
    return Family(SCHEMA, emitted[0][1].program.kernel, members)


def cost_of(kernel: Extracted, schedule: Schedule, machine: Machine, cluster: int = 1) -> MemberCost | None:
    """Of a kernel with one loop, whose iterations follow from the arguments of a launch; None of any other. cluster:
    CTAs that load tiles together."""
    written = kernel.program.original or kernel.program
    loops = [item for item in written.body if isinstance(item, Loop)]
    if len(loops) != 1 or len(schedule.loops) != 1:
        return None
    iterations = iterations_of(written, loops[0])
    to, back = 0, 0
    if kernel.program.split is not None:
        store, load = (price_transfer(machine.transfer(name), size_of_sums(kernel))
                       for name in ("plain_store", "plain_load"))  # fmt: skip
        to, back = store.latency, load.uses[0].cycles
    straight, loop = straight_cycles(kernel, schedule, machine), schedule.loops[0]
    return MemberCost(
        float(loop.ii), float(loop.length), float(straight), iterations, float(to), float(back),
        size_of_sums(kernel) / SUM_BYTES, loads_of(written, loops[0], machine, cluster), rates_of(machine),
    )  # fmt: skip


def loads_of(program: TileProgram, loop: Loop, machine: Machine, cluster: int) -> tuple[MemberLoad, ...]:
    """The tiles that an iteration loads; of the largest the CTAs of a cluster load their parts."""
    if machine.launches is None:
        return ()
    line, found = machine.launches.line_bytes.value, []
    for op in loop.body:
        if not isinstance(op, Op) or op.kind != "tile_load" or op.access is None:
            continue
        shape = program.type_of(op.results[0]).shape
        size = math.prod(shape) * BITS[op.access.element] / 8
        row = (shape[-1] if shape else 1) * BITS[op.access.element] / 8
        found.append(MemberLoad(op.access.base, size / row * math.ceil(row / line), size))
    if cluster > 1 and found:
        shared = max(range(len(found)), key=lambda place: found[place].bytes)
        most = found[shared]
        found[shared] = replace(most, lines=most.lines / cluster, bytes=most.bytes / cluster)
    return tuple(found)


def rates_of(machine: Machine) -> LaunchRates | None:
    """As a launch has them."""
    figures = machine.launches
    if figures is None:
        return None
    return LaunchRates(**{field.name: float(getattr(figures, field.name).value) for field in fields(LaunchRates)})


def iterations_of(program: TileProgram, loop: Loop) -> Scalar | None:
    """How often a loop runs, from the arguments; None where that depends on more than those."""
    lower, upper, step = (scalar_of(program, value) for value in (loop.lower, loop.upper, loop.step))
    if lower is None or upper is None or not isinstance(step, int):
        return None
    span = upper if lower == 0 else ScalarOperation("sub", "i64", (upper, lower), ())
    up = ScalarOperation("add", "i64", (span, step - 1), ())
    return upper if (lower, step) == (0, 1) else ScalarOperation("div", "i64", (up, step), (("signed", 1),))


def scalar_of(program: TileProgram, value: int) -> Scalar | None:
    """A scalar of a tile program over its arguments; None for any that is made of more."""
    for argument in program.arguments:
        if argument.value == value:
            return argument.name
    maker = next((op for op in program.ops() if value in op.results), None)
    if maker is None:
        return None
    if maker.kind == "constant":
        number = maker.attribute("value")
        return number if isinstance(number, int | float) else None
    operands = [scalar_of(program, operand) for operand in maker.operands]
    if not evaluable(maker.kind) or any(operand is None for operand in operands):
        return None
    known = tuple(operand for operand in operands if operand is not None)
    attributes = tuple((name, given) for name, given in maker.attributes if not isinstance(given, tuple))
    return ScalarOperation(maker.kind, program.type_of(value).element, known, attributes)
