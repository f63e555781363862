"""What stands at the top of the module: what was found and why, the imports, the names that versions differ in."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING

from twill.codegen.print.gluon import blackwell, error_function, hopper, shared
from twill.codegen.print.gluon.shared import shared_names
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
    interval = f"An iteration of the main loop begins every I = {schedule.ii} cycles, its initiation interval"
    groups = "".join(f"\n- {group.role}: {_on(schedule, group.id)}." for group in schedule.warp_groups)
    text = (
        f'"""{tile.kernel} ({specialization.spec}) of {Path(tile.file).name} for {program.machine}, in Gluon. '
        f"Emitted by Twill.\n\n{interval} ({proven}: {bounds.witness}). Of an iteration that begins at cycle 0, "
        f"operations begin at these cycles:{groups}\n\n{_SHARED}\n"
    )
    said = [wrap(part, WIDTH, subsequent_indent="  " * part.startswith("- "), break_long_words=False) or [""]
            for part in text.splitlines()]  # fmt: skip
    return "\n".join(line for part in said for line in part).rstrip() + '\n"""'


_SHARED = f"The class of rings, and what else modules have in common, is in {shared.FILE} beside this file."


def _on(schedule: Schedule, group: int) -> str:
    """What a warp group does and when."""
    ops = sorted((op for op in schedule.ops if op.warp_group == group), key=lambda op: (op.loop, op.start))
    if not ops:
        return "what stands outside of loops"
    cycles: dict[tuple[int, str, int], list[str]] = {}
    for op in ops:
        cycles.setdefault((op.loop, op.name, op.line), []).append(str(op.start))
    return ", ".join(f"{name} (line {line}) {' and '.join(at)}" for (_, name, line), at in cycles.items())


def helpers(names: frozenset[str]) -> list[str]:
    """The functions of arithmetic that a module has of its own. names: that stand in it."""
    tails = (error_function.helper(name) for name in error_function.HELPERS if name in names)
    return "".join(tails).removeprefix("\n\n").splitlines()


def imports(names: frozenset[str]) -> list[str]:
    """Imports. names: that stand in the module."""
    lines = [
        "from triton.experimental import gluon",
        "from triton.experimental.gluon import language as gl",
        *_imported(blackwell.MODULE, sorted(names.intersection(blackwell.NAMES))),
        *_imported(hopper.MODULE, sorted(names.intersection(hopper.NAMES))),
        *_imported(hopper.HOST, sorted(names.intersection({"TensorDescriptor"}))),
        *_imported(shared.NAME, sorted(names & shared_names(), key=lambda name: (name[0].islower(), name))),
        "",
    ]
    return lines


def _imported(module: str, names: list[str]) -> list[str]:
    """An import as ruff breaks it; nothing for no names."""
    if not names:
        return []
    line = f"from {module} import {', '.join(names)}"
    if len(line) <= WIDTH:
        return [line]
    return [f"from {module} import (", *(f"    {name}," for name in names), ")"]
