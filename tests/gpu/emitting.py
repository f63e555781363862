"""Solving and emitting the examples for the GPU checks; needs the whole compiler, no GPU."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from twill import exc
from twill.cli.output import write_all
from twill.codegen.emit import Emission, build_kernel, emit
from twill.codegen.lower import lower
from twill.graph.access import resolve_accesses
from twill.graph.build import dependence_graph
from twill.graph.specialization import list_specializations, resolve
from twill.graph.translate import tile_program
from twill.machine_file import load_machine
from twill.options import SolveOptions
from twill.pipeline import solve
from twill.schedule import Schedule
from twill.schedule_file import load_schedule


def specializations() -> Iterator[tuple[str, str]]:
    """File and specialization of every example."""
    for path in sorted(Path("examples").glob("*.py")):
        for spec in list_specializations(str(path)):
            yield str(path), spec


def emit_example(
    file: str,
    spec: str,
    folder: Path,
    schedules: Path,
    machine_name: str,
    budget: float,
    verified: bool,
    slow: bool,
) -> str:
    """Writes the kernel's directory; says what was made. Errors: those of the compiler."""
    machine = load_machine(machine_name)
    specialization = resolve(file, spec=spec)
    program = resolve_accesses(tile_program(specialization))
    graph = dependence_graph(program)
    schedules.mkdir(parents=True, exist_ok=True)
    stored = schedules / f"{Path(file).stem}-{spec}-{machine.name}.json"
    schedule = _stored(stored, machine.digest())
    if schedule is None:
        try:
            schedule = solve(graph, machine, SolveOptions(budget=budget))
        except exc.BudgetExhausted as ended:
            if not isinstance(ended.schedule, Schedule):
                raise
            schedule = ended.schedule
        write_all({stored: schedule.canonical() + "\n"})
    if verified and not slow:
        emission = emit(program, specialization, schedule, machine)
    else:
        warp_program = lower(program, schedule, machine)
        emission = build_kernel(warp_program, specialization, schedule, machine, slow)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    write_all({folder / name: content for name, content in emission.files().items()})
    return _said(emission)


def _stored(path: Path, digest: str) -> Schedule | None:
    """A schedule of an earlier build, if it is for the machine as it is now."""
    if not path.is_file():
        return None
    schedule = load_schedule(path)
    return schedule if schedule.machine_digest == digest else None


def _said(emission: Emission) -> str:
    facts, schedule = emission.facts, emission.schedule
    groups = ", ".join(f"{g.role} {g.registers}" for g in emission.program.groups)
    loops = "; ".join(str(dict(loop.counts)) for loop in facts.wgmma_loops)
    return (
        f"I = {schedule.ii}, {len(emission.printed.text.splitlines())} lines, {emission.program.shared} bytes, "
        f"registers {facts.registers} ({groups}), wgmma {loops or 'none'}"
        + "".join(f"; {remark.text}" for remark in facts.remarks)
    )
