"""`twill tune --from DIR`: what an earlier `twill tune --out DIR` emitted, measured on the GPU of this machine.

Exploring wants processors and a solver, measuring wants a GPU: they may be done on different machines.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from twill.cli import codes, tune_store
from twill.cli import tune as tuning

if TYPE_CHECKING:
    from twill.codegen.emission import Extracted
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule
    from twill.tune.evidence import Tried, Tuning
    from twill.tune.measure import CandidateTimes


def tune(arguments: Namespace) -> int:
    """`twill tune`, of a kernel or of what an earlier one left."""
    return tuning.tune(arguments) if arguments.earlier is None else again(arguments)


def again(arguments: Namespace) -> int:
    """Measure, keep the winner, complete the evidence in the folder, say by how much the winner wins."""
    from twill.cli.output import write_all
    from twill.cli.solve import options_of
    from twill.machine.file import load_machine
    from twill.manifest.family import FAMILY, read_family
    from twill.tune.candidate import Tiles, read

    folder, machine = Path(arguments.earlier), load_machine(arguments.machine)
    kernel = read(arguments.kernel, arguments.spec, Tiles({}, {}), arguments.sig, arguments.const)
    found = opened(folder, kernel, machine)
    if tuning.gpu_here(machine):
        found = completed(found, folder, measured_here(found, folder, kernel, arguments))
        options = options_of(arguments).unfused()
        default = schedule_in(folder, found.tried[0])
        tune_store.keep(found, kernel.graph, default, machine, options, arguments)
        family = read_family(folder).without(tuning.wrong_ones(found))
        write_all({folder / "tuning.json": found.canonical() + "\n", folder / FAMILY: family.text()})
    tuning.show(found, arguments)
    return codes.SOLVED


def opened(folder: Path, kernel: Extracted, machine: Machine) -> Tuning:
    """The evidence in a folder. Errors: ForeignTuning."""
    from pydantic import ValidationError

    from twill import exc
    from twill.tune.evidence import Tuning

    graph = kernel.graph
    try:
        found = Tuning.parse((folder / "tuning.json").read_bytes())
    except (OSError, ValidationError) as error:
        raise exc.ForeignTuning(str(folder), "no tuning.json that can be read", file=graph.file) from error
    theirs, ours = (found.kernel, found.spec, found.machine_digest), (graph.kernel, graph.spec, machine.digest())
    if theirs != ours or not found.tried[0].folder:
        words = f"a tuning of {found.kernel} ({found.spec}) for {found.machine}"
        raise exc.ForeignTuning(str(folder), f"{words}, not of this kernel and machine as they are", file=graph.file)
    return found


def schedule_in(folder: Path, one: Tried) -> Schedule:
    """What a candidate was emitted with."""
    from twill.schedule.file import load_schedule

    return load_schedule(folder / one.folder / "schedule.json")


def measured_here(found: Tuning, folder: Path, kernel: Extracted, arguments: Namespace) -> CandidateTimes:
    """Times of everything that was emitted, at the sizes that were explored."""
    from twill.cli.run_and_bench import triton_kernel
    from twill.kernel.specialization import resolve
    from twill.tune.candidate import cases
    from twill.tune.measure import measure

    emitted = [one for one in found.tried if one.folder]
    launches = {}
    for one in emitted:
        sig, const = (*arguments.sig, *one.sig), (*arguments.const, *one.const)
        launches[one.name] = cases(resolve(arguments.kernel, spec=arguments.spec, sig=sig, const=const), found.sizes)
    folders = {one.name: folder / one.folder for one in emitted}
    return measure(folders, launches, found.tried[0].name, triton_kernel(kernel))


def completed(found: Tuning, folder: Path, measured: CandidateTimes) -> Tuning:
    """The evidence with what was measured."""
    default = found.tried[0].name
    names = [one.name for one in found.tried]
    winner = names.index(measured.best(default))
    return found.model_copy(
        update={
            "tried": tuple(timed(one, measured.times, measured.wrong) for one in found.tried),
            "winner": winner,
            "gain": measured.gain(names[winner], default),
            "schedule": schedule_in(folder, found.tried[winner]),
            "date": datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
            "device": tuning.device_name(),
        }
    )


def timed(one: Tried, times: Mapping[str, list[float]], wrong: Mapping[str, str]) -> Tried:
    """A line of the evidence with its times, or with what was wrong."""
    if one.name in wrong:
        return one.model_copy(update={"measured": (), "note": wrong[one.name]})
    return one.model_copy(update={"measured": tuple(times.get(one.name, ()))})
