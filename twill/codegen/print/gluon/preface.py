"""What stands at the top of the module: what was found and why, the imports, the names that versions differ in."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from twill.codegen.print.gluon import barriers, blackwell, columns, constants, error_function, hopper
from twill.codegen.print.gluon.tensor_rings import REINTERPRETED, hosted
from twill.codegen.print.gluon.versions import settled
from twill.codegen.print.gluon.writer import WIDTH
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
    interval = f"An iteration of the main loop begins every I = {schedule.ii} cycles"
    groups = "".join(f"\n- {group.role}: {_on(schedule, group.id)}." for group in schedule.warp_groups)
    text = (
        f'"""{tile.kernel} ({specialization.spec}) of {Path(tile.file).name} for {program.machine}, in Gluon. '
        f"Emitted by Twill.\n\n{interval} ({proven}: {bounds.witness}). What each warp group begins at which cycle of "
        f"an iteration (and how many iterations later):{groups}\n\n{_RINGS}\n\n"
    )
    said = [wrap(part, WIDTH, subsequent_indent="  " * part.startswith("- "), break_long_words=False) or [""]
            for part in text.splitlines()]  # fmt: skip
    return "\n".join(line for part in said for line in part).rstrip() + '\n"""'


_RINGS = (
    "A ring holds what one partition makes and others read. Its counters say how many slots were passed: the next is "
    "the count modulo the depth, and the parity of its full and empty barrier is the count divided by the depth."
)


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


def helpers(features: set[str]) -> list[str]:
    """The functions that the roles use for what Gluon has no words for."""
    kinds = {"sync": "Wait on a", "arrive": "Arrive, without waiting, on a"}
    used = [kind for kind in kinds if f"named_barrier_{kind}" in features]
    texts = (_NAMED_BARRIER.format(kind=kind, what=kinds[kind], variable="PTX") for kind in used)
    own = (module.helper() for module in (constants, columns, blackwell, barriers) if module.HELPER in features)
    hidden = [constants.indices_helper()] if constants.INDICES in features else []
    tails = (error_function.helper(name) for name in error_function.HELPERS if name in features)
    return "".join((*texts, *own, *hidden, *tails)).removeprefix("\n\n").splitlines()


def imports(features: set[str], program: WarpProgram) -> list[str]:
    """Imports, and the names of copies in the version of Triton that is installed."""
    tensor = blackwell.has_tensor_memory(program)
    lies_over = any(hosted(program, buffer) for buffer in program.buffers)
    more = ["tensor_memory_descriptor"] if lies_over else []
    products = [] if tensor else [hopper.MMA, hopper.MMA_WAIT]
    used = [name for name in hopper.NAMES if name not in (hopper.MMA, hopper.MMA_WAIT) or name in products]
    used = [name for name in used if name != "fence_async_shared" or "fence" in features]
    lines = [
        "import functools",
        "",
        "import triton",
        "from triton.experimental import gluon",
        "from triton.experimental.gluon import language as gl",
        *(_imported(blackwell.MODULE, sorted([*blackwell.NAMES, *more])) if tensor else []),
        *_imported(hopper.MODULE, used),
        f"from {hopper.HOST} import TensorDescriptor",
        "",
    ]
    lines += [settled(f"tma_{kind}") for kind in ("load", "store") if kind in features]
    lines += [settled(REINTERPRETED)] if lies_over else []
    return lines


def _imported(module: str, names: list[str]) -> list[str]:
    """An import as ruff breaks it."""
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]
