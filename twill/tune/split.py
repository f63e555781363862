"""Into how many parts a split of K is worth it, by prediction (docs/emitted-kernels.md, "Split of K").

The code is the same for any number of parts, so one schedule answers for all. What parts cost beside their iterations
is their way through the workspace: each writes its sums, and the last one reads those of all.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from twill.codegen.emission import Extracted
from twill.graph.price import price_transfer
from twill.kernel.problem import Case
from twill.machine.description import Machine
from twill.manifest.family import MOST_PARTS
from twill.schedule.document import Schedule
from twill.tile.program import Op
from twill.tune.predict import predicted_cycles

WAVES = 12  # of program instances that parts make of a launch at most: behind so many, the last one matters little
FULL = 0.9  # of the SMs busy, on an average over the waves of a launch: no split gains much


def fills(case: Case, machine: Machine) -> bool:
    """Whether the program instances of a launch keep the SMs busy."""
    instances, sms = math.prod(case.grid), machine.sms.value
    return instances >= FULL * sms * math.ceil(instances / sms)


def in_parts(kernel: Extracted, case: Case, parts: int) -> Case:
    """The launch of a split kernel in so many parts."""
    split = kernel.program.split
    assert split is not None
    return replace(case, grid=(*(*case.grid, 1, 1)[: split.axis], parts))


def launch_cycles(kernel: Extracted, schedule: Schedule, machine: Machine, case: Case) -> float:
    """Cycles of one launch, in as many parts as the kernel says."""
    split = kernel.program.split
    if split is None:
        return predicted_cycles(kernel, schedule, machine, case)
    return split_cycles(kernel, schedule, machine, case, split.parts)


def split_cycles(kernel: Extracted, schedule: Schedule, machine: Machine, case: Case, parts: int) -> float:
    """Cycles of one launch in so many parts. kernel: with a split."""
    cycles = predicted_cycles(kernel, schedule, machine, in_parts(kernel, case, parts))
    if parts == 1:
        return cycles
    tiles = math.ceil(math.prod(case.grid) / machine.sms.value)
    waves = math.ceil(math.prod(case.grid) * parts / machine.sms.value)
    written, read = (price_transfer(machine.transfer(name), size_of_sums(kernel))
                     for name in ("plain_store", "plain_load"))  # fmt: skip
    return cycles + waves * written.latency + (tiles * parts - 1) * read.uses[0].cycles + read.latency


def size_of_sums(kernel: Extracted) -> int:
    """Bytes of the sums that one part has of a tile."""
    sums = (op for op in kernel.program.body if isinstance(op, Op) and op.kind == "sum_parts")
    return sum(4 * math.prod(kernel.program.type_of(op.results[0]).shape) for op in sums)


def best_parts(
    kernel: Extracted, schedule: Schedule, machine: Machine, launches: Sequence[Case]
) -> tuple[int, tuple[float, ...]]:
    """The number of parts with the least cycles, in the geometric mean over the launches, and its cycles at each."""
    waves = max(math.prod(case.grid) / machine.sms.value for case in launches)
    tried = [
        (parts, tuple(split_cycles(kernel, schedule, machine, case, parts) for case in launches))
        for parts in range(1, MOST_PARTS + 1)
        if parts == 1 or parts * waves <= WAVES
    ]
    return min(tried, key=lambda one: sum(math.log(max(1.0, cycles)) for cycles in one[1]))
