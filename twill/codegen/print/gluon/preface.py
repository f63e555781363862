"""What stands at the top of the module: what was found and why, the imports, the names that versions differ in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twill.codegen.print.gluon import hopper
from twill.codegen.warp.program import WarpProgram

if TYPE_CHECKING:
    from twill.kernel.specialization import Specialization
    from twill.schedule.document import Schedule


def docstring(program: WarpProgram, specialization: Specialization, schedule: Schedule) -> str:
    """The module's docstring."""
    bounds, tile = schedule.certificate.bounds, program.program
    proven = (
        "proven optimal" if schedule.certificate.optimal else f"at least {schedule.certificate.lower_bound} is needed"
    )
    lines = [
        f'"""{tile.kernel} ({specialization.spec}) for {program.machine}, in Gluon. Emitted by Twill.',
        "",
        f"What was found: an iteration of the main loop begins every I = {schedule.ii} cycles ({proven}: {bounds.witness}).",
        *(f"  {group.role}: {_on(schedule, group.id)}" for group in schedule.warp_groups),
        "Rings hold what one role makes and others read; slot n of a ring is n modulo its depth, and the parity of its two",
        "barriers is n divided by it. `# line N` of the Triton kernel: see the schedule beside this file.",
        '"""',
    ]
    return "\n".join(lines)


def _on(schedule: Schedule, group: int) -> str:
    """What a warp group does and when."""
    ops = sorted((op for op in schedule.ops if op.warp_group == group), key=lambda op: (op.loop, op.start))
    if not ops:
        return "what stands outside of loops"
    return ", ".join(f"{op.name} at {op.row}{f' (stage {op.stage})' if op.stage else ''}" for op in ops)


_NAMED_BARRIER = """

@gluon.jit
def named_barrier_{kind}(barrier: gl.constexpr, threads: gl.constexpr):
    \"\"\"{what} barrier of the hardware, between partitions. Numbers below 8 are Triton's.\"\"\"
    {variable}: gl.constexpr = f"bar.{kind} {{barrier}}, {{threads}}; mov.u32 $0, 0;"
    gl.inline_asm_elementwise({variable}, "=r,r", [threads], gl.int32, False, 1)
"""


def named_barriers(features: set[str]) -> list[str]:
    """The helpers for named barriers that the roles use."""
    kinds = {"sync": "Wait on a", "arrive": "Arrive, without waiting, on a"}
    used = [kind for kind in kinds if f"named_barrier_{kind}" in features]
    texts = (_NAMED_BARRIER.format(kind=kind, what=kinds[kind], variable="PTX") for kind in used)
    return "".join(texts).removeprefix("\n\n").splitlines()


def imports(features: set[str], program: WarpProgram) -> list[str]:
    """Imports, and the names of copies in the version of Triton that is installed."""
    used = [name for name in hopper.NAMES if name != "fence_async_shared" or "fence" in features]
    lines = [
        "import math",
        "",
        "import triton",
        "from triton.experimental import gluon",
        "from triton.experimental.gluon import language as gl",
        f"from {hopper.MODULE} import {', '.join(used)}",
        f"from {hopper.HOST} import TensorDescriptor",
        "",
    ]
    if "load" in features:
        lines.append('tma_load = tma.async_load if hasattr(tma, "async_load") else tma.async_copy_global_to_shared')
    if "store" in features:
        lines.append('tma_store = tma.async_store if hasattr(tma, "async_store") else tma.async_copy_shared_to_global')
    return lines
