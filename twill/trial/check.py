"""`twill run`: an emitted kernel at every size of its sidecar, against the Triton kernel and its float32 meaning."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twill.kernel.problem import Case
from twill.runtime.kernel import EmittedKernel
from twill.tile.program import TileProgram
from twill.trial.compare import LIMIT, Difference, differences, relative, repeats
from twill.trial.data import emitted, make_data, original
from twill.trial.reference import reference

WARPS = 8  # of the Triton kernel, if it does not say


@dataclass(frozen=True)
class Checked:
    """One size. differences: of each output from the reference (from the Triton kernel if `against_triton`).
    unequal: launches that differed from the first, by output. outside: tensors beside which something was written."""

    case: Case
    differences: tuple[Difference, ...]
    against_triton: bool
    launches: int
    unequal: dict[str, int]
    outside: tuple[str, ...]
    note: str = ""
    allowed: float = math.inf  # difference from Triton

    @property
    def ok(self) -> bool:
        """Whether everything is as it should be."""
        if self.against_triton:
            near = all(difference.emitted <= self.allowed for difference in self.differences)
        else:
            near = all(difference.ok for difference in self.differences)
        return near and not self.outside and not any(self.unequal.values())


def check(
    kernel: EmittedKernel,
    triton_kernel: Any,
    program: TileProgram,
    cases: Sequence[Case],
    launches: int = 100,
    seconds: float = 60.0,
) -> Iterator[Checked]:
    """Every size, small ones first. seconds: for the references together; sizes beyond are compared with Triton alone,
    within what two kernels of the errors seen before may differ."""
    begun = time.monotonic()
    largest = 0.0  # error of the Triton kernel so far
    for case in sorted(cases, key=work):
        referenced = time.monotonic() - begun < seconds
        checked = _one(kernel, triton_kernel, program, case, launches, referenced, (1 + LIMIT) * largest)
        if referenced:
            largest = max([largest, *(d.original for d in checked.differences if d.original is not None)])
        yield checked


def _one(
    kernel: EmittedKernel, triton_kernel: Any, program: TileProgram, case: Case, launches: int, referenced: bool,
    allowed: float,
) -> Checked:  # fmt: skip
    data = make_data(kernel.manifest, case)
    launch = emitted(kernel, data)
    triton_launch, note = _runs(original(triton_kernel, data, num_warps=WARPS))
    if referenced:
        data.clear()
        found = differences(data, launch, triton_launch, reference(program, data))
    else:
        found = _against_triton(data, launch, triton_launch) if triton_launch else []
    unequal = repeats(data, launch, launches)
    return Checked(case, tuple(found), not referenced, launches, unequal, tuple(data.outside()), note, allowed)


def _against_triton(data: Any, launch: Callable[[], None], triton_launch: Callable[[], None]) -> list[Difference]:
    data.clear()
    triton_launch()
    wanted = {name: tensor.clone() for name, tensor in data.outputs.items()}
    data.clear()
    launch()
    return [Difference(name, relative(tensor, wanted[name]), None) for name, tensor in data.outputs.items()]


def _runs(launch: Callable[[], None]) -> tuple[Callable[[], None] | None, str]:
    """The launch, or None and why it cannot be made."""
    import torch

    try:
        launch()
        torch.cuda.synchronize()
    except Exception as error:  # Triton's own, or the driver's
        return (
            None,
            f"the Triton kernel does not run: {str(error).splitlines()[0] if str(error) else type(error).__name__}",
        )
    return launch, ""


def work(case: Case) -> int:
    """Something that grows with a case."""
    return math.prod(case.grid) * max(case.sizes.values(), default=1)
