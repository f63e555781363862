"""Kernels for the B200 whose program instances share loads by twos, and multiply each for itself."""

from __future__ import annotations

from collections.abc import Callable

from tests.blackwell import machine
from tests.run_cache import once
from twill.codegen.emission import Extracted
from twill.codegen.emit import Emission, build_kernel
from twill.codegen.lowering import lower
from twill.codegen.warp.program import WarpProgram
from twill.schedule.document import Schedule


def lowered(kernel: Callable[[], Extracted], schedule: Callable[[], Schedule]) -> WarpProgram:
    """The warp program. schedule: that of one CTA."""
    return lower(kernel().wired, schedule(), machine(), cluster=2)


def compiled(name: str, kernel: Callable[[], Extracted], schedule: Callable[[], Schedule]) -> Emission:
    """Lowered and compiled; neither checked nor executed. name: of the kernel, among those of a run."""
    made = (lowered(kernel, schedule), kernel().specialization, schedule(), machine())
    return once(f"b200-multicast-{name.replace(' ', '-')}", lambda: build_kernel(*made))
