"""Solving and emitting the examples for the GPU checks; needs the whole compiler, no GPU."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from tests.golden_schedules import BLACKWELL_ALONE
from twill import exc
from twill.cli.output import write_all
from twill.codegen.emission import emit_solved, extract
from twill.codegen.emit import Emission, build_kernel
from twill.codegen.lower.dynamic_scheduler import Order
from twill.codegen.lowering import lower
from twill.graph.dependence import DependenceGraph
from twill.kernel.specialization import list_specializations
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve


def specializations() -> Iterator[tuple[str, str]]:
    """File and specialization of every example that Hopper has."""
    for path in sorted(Path("examples").glob("*.py")):
        if path.stem in BLACKWELL_ALONE:
            continue
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
    cluster: int = 1,
    order: Order = "chosen",
    sig: Sequence[str] = (),
    const: Sequence[str] = (),
    pair: bool = False,
) -> str:
    """Writes the kernel's directory; says what was made. cluster: CTAs that load together, or multiply together where
    it is a pair. order: of program instances. sig, const: of other tiles than the sidecar's.

    Errors: those of the compiler."""
    machine = load_machine(machine_name)
    kernel = replace(extract(file, spec, sig, const), order=order)
    schedules.mkdir(parents=True, exist_ok=True)

    def solved(graph: DependenceGraph, on: Machine) -> Schedule:
        """As an earlier build had it, or solved now."""
        name = "-".join((Path(file).stem, spec, *const, *(["pair"] if pair else []), on.name, on.digest()[:8]))
        stored = schedules / f"{name}.json"
        if stored.is_file():
            return load_schedule(stored)
        try:
            schedule = solve(graph, on, SolveOptions(budget=budget, fuse=False, cluster=2 if pair else 1))
        except exc.BudgetExhausted as ended:
            if not isinstance(ended.schedule, Schedule):
                raise
            schedule = ended.schedule
        write_all({stored: schedule.canonical() + "\n"})
        return schedule

    if verified and not slow:
        emission = emit_solved(kernel, machine, solved, lambda step: print(f"  {step}", flush=True), cluster)
    else:
        schedule = solved(kernel.graph, machine)
        warp_program = lower(kernel.program, schedule, machine, order=order, cluster=cluster)
        emission = build_kernel(warp_program, kernel.specialization, schedule, machine, slow)
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.iterdir():
        old.unlink()
    write_all({folder / name: content for name, content in emission.files().items()})
    return _said(emission)


def _said(emission: Emission) -> str:
    facts, schedule = emission.facts, emission.schedule
    groups = ", ".join(f"{g.role} {g.registers}" for g in emission.program.groups)
    loops = "; ".join(str(dict(counts)) for counts in facts.mma_loops)
    return (
        f"I = {schedule.ii}, {len(emission.printed.text.splitlines())} lines, {emission.program.shared} bytes, "
        f"registers {facts.registers} ({groups}), wgmma {loops or 'none'}"
        + "".join(f"; {remark.text}" for remark in facts.remarks)
    )
