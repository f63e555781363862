"""`twill tune`: tiles, row blocks and schedules of one kernel, ranked by prediction, the best few measured."""

from __future__ import annotations

import tempfile
from argparse import Namespace
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from twill.cli import codes, tune_store
from twill.cli.complaint import say_more

if TYPE_CHECKING:
    from twill.graph.dependence import DependenceGraph
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule
    from twill.tune.candidate import Candidate
    from twill.tune.evidence import Tried, Tuning
    from twill.tune.explore import Explored, ExploreRequest
    from twill.tune.measure import CandidateTimes


@dataclass(frozen=True)
class Built:
    """An emitted candidate. schedule: what was emitted, the candidate's unless that one ran out of registers."""

    folder: Path
    schedule: Schedule


def tune(arguments: Namespace) -> int:
    """Explore, emit the best few, measure them if there is a GPU, keep the winner, say by how much it wins."""
    from twill.cli.output import refuse_directory
    from twill.machine.file import load_machine
    from twill.tune.explore import explore

    if arguments.out is not None:
        refuse_directory(Path(arguments.out))
    machine = load_machine(arguments.machine)
    asked = asked_of(arguments)
    explored = explore(asked, machine, say_more)
    with folder_of(arguments) as folder:
        built, notes = emit_best(explored, machine, asked, arguments.measure, folder)
        measured = measured_here(explored, {name: one.folder for name, one in built.items()}, machine)
        tuning = tuning_of(explored, built, notes, measured, machine)
        default = explored.candidates[0]
        tune_store.keep(tuning, default.kernel.graph, default.schedule, machine, asked.options, arguments)
        if arguments.out is not None:
            from twill.cli.output import write_all
            from twill.manifest.family import FAMILY

            folder = Path(arguments.out)
            texts = {"tuning.json": tuning.canonical() + "\n", FAMILY: family_text(explored, built, tuning, machine)}
            write_all({folder / name: text for name, text in texts.items()})
    show(tuning, arguments)
    return codes.SOLVED


def family_text(explored: Explored, built: Mapping[str, Built], found: Tuning, machine: Machine) -> str:
    """The document of the candidates that were emitted and are right, for launches (`twill.runtime.family`)."""
    from twill.tune.family import family_of

    emitted = [
        (built[one.name].folder.name, one.kernel, built[one.name].schedule, one.cluster)
        for one in explored.candidates
        if one.name in built
    ]
    return family_of(emitted, machine).without(wrong_ones(found)).text()


def wrong_ones(found: Tuning) -> frozenset[str]:
    """Folders of candidates that were emitted and found to be wrong."""
    return frozenset(one.folder for one in found.tried if one.folder and one.note)


def show(tuning: Tuning, arguments: Namespace) -> None:
    """As a document or for people."""
    if arguments.json:
        print(tuning.canonical())
    else:
        print("\n".join(result_lines(tuning)))


def asked_of(arguments: Namespace) -> ExploreRequest:
    """What the words ask for."""
    from twill.cli.run_and_bench import parsed
    from twill.cli.solve import options_of
    from twill.tune.explore import ExploreRequest

    return ExploreRequest(
        arguments.kernel,
        arguments.spec,
        tuple(arguments.sig),
        tuple(arguments.const),
        dict(values_of(text) for text in arguments.tile),
        tuple(parsed(text) for text in arguments.size),
        arguments.top,
        options_of(arguments).unfused(),  # few launches have instances to spare
        arguments.strict_math,
    )


def values_of(text: str) -> tuple[str, tuple[int, ...]]:
    """`BLOCK_M=64,128` as a name and its values."""
    from twill.exc import MalformedFlag

    name, equals, values = text.partition("=")
    parts = values.replace(",", " ").split()
    if not equals or not name.strip() or not parts or not all(part.isdigit() and int(part) for part in parts):
        raise MalformedFlag(f"--tile {text}: not of the form NAME=VALUE,VALUE", hint="--tile BLOCK_M=64,128")
    return name.strip(), tuple(int(part) for part in parts)


@contextmanager
def folder_of(arguments: Namespace) -> Iterator[Path]:
    """Where candidates are emitted: --out, or a place that goes away."""
    if arguments.out is not None:
        yield Path(arguments.out)
        return
    with tempfile.TemporaryDirectory(prefix="twill-") as directory:
        yield Path(directory)


def emit_best(
    explored: Explored, machine: Machine, asked: ExploreRequest, count: int, folder: Path
) -> tuple[dict[str, Built], dict[str, str]]:
    """The default and the `count` most promising others that can be built: where each was emitted; why others not."""
    from twill import exc
    from twill.cli.emit import write
    from twill.codegen.emission import emit_solved
    from twill.solve.pipeline import solve

    built: dict[str, Built] = {}
    notes: dict[str, str] = {}
    fixed = asked.options.ii is not None or bool(asked.options.pins)
    for candidate in explored.candidates:
        if len(built) > count:
            break

        def schedule(graph: DependenceGraph, on: Machine, given: Schedule = candidate.schedule) -> Schedule:
            """The candidate's; another one only if that one ran out of registers."""
            return given if on.digest() == machine.digest() else solve(graph, on, asked.options)

        say_more(f"emitting {candidate.name}")
        try:
            emission = emit_solved(candidate.kernel, machine, schedule, cluster=candidate.cluster, fixed=fixed)
        except exc.TwillError as refused:
            if candidate.default:
                raise
            notes[candidate.name] = f"not emitted: {refused.message}"
            continue
        built[candidate.name] = Built(folder / f"{len(built):02d}", emission.schedule)
        write(emission, built[candidate.name].folder)
    return built, notes


def measured_here(explored: Explored, emitted: Mapping[str, Path], machine: Machine) -> CandidateTimes | None:
    """Times on the GPU of this machine; None if it has none, or another one."""
    from twill.cli.run_and_bench import triton_kernel
    from twill.tune.candidate import cases
    from twill.tune.measure import measure

    default = explored.candidates[0]
    if not gpu_here(machine):
        return None
    launches = {
        one.name: cases(one.kernel.specialization, explored.sizes) for one in explored.candidates if one.name in emitted
    }
    return measure(emitted, launches, default.name, triton_kernel(default.kernel))


def gpu_here(machine: Machine) -> bool:
    """Whether there is a GPU that the emitted code can run on."""
    try:
        import torch
    except ImportError:
        return False
    if not torch.cuda.is_available():
        return False
    major, minor = torch.cuda.get_device_capability()
    return machine.architecture.rstrip("af") == f"sm_{major}{minor}"


def tuning_of(
    explored: Explored,
    built: Mapping[str, Built],
    notes: Mapping[str, str],
    measured: CandidateTimes | None,
    machine: Machine,
) -> Tuning:
    """The evidence. Nothing measured: the winner is the default, with no gain."""
    from twill.tune.evidence import Tuning

    default = explored.candidates[0]
    names = [one.name for one in explored.candidates]
    best = measured.best(default.name) if measured else default.name
    graph = default.kernel.graph
    return Tuning(
        kernel=graph.kernel,
        spec=graph.spec,
        machine=machine.name,
        machine_digest=machine.digest(),
        sizes=tuple(dict(one) for one in explored.sizes),
        tried=tuple(tried(one, built, notes, measured) for one in explored.candidates),
        refused=tuple((one.name, one.why) for one in explored.refused),
        winner=names.index(best),
        gain=measured.gain(best, default.name) if measured else None,
        schedule=built[best].schedule,
        date=datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC"),
        device=device_name() if measured else "",
    )


def tried(
    candidate: Candidate, built: Mapping[str, Built], notes: Mapping[str, str], measured: CandidateTimes | None
) -> Tried:
    """A line of the evidence."""
    from twill.tune.evidence import Tried

    name = candidate.name
    wrong = measured.wrong.get(name, "") if measured else ""
    times = tuple(measured.times.get(name, ())) if measured and not wrong else ()
    return Tried(
        name=name,
        const=candidate.tiles.const,
        sig=candidate.tiles.sig,
        blocks=candidate.schedule.cooperation.blocks,
        ii=candidate.schedule.ii,
        predicted=candidate.predicted,
        measured=times,
        note=wrong or notes.get(name, ""),
        folder=built[name].folder.name if name in built else "",
        cluster=candidate.cluster,
        split=candidate.split,
    )


def device_name() -> str:
    """The GPU of this machine."""
    import torch

    return str(torch.cuda.get_device_name())


def result_lines(tuning: Tuning) -> Iterator[str]:
    """For people."""
    yield f"{tuning.kernel} ({tuning.spec}) for {tuning.machine}: {len(tuning.tried)} candidates"
    wide = max(len(one.name) for one in tuning.tried)
    yield f"  {'candidate':{wide}}  {'I':>6}  predicted, cycles (of the default)  measured, ms (speed)"
    default = tuning.tried[0]
    for one in tuning.tried:
        predicted = " ".join(f"{cycles:.4g}" for cycles in one.predicted)
        less = ratio(default.predicted, one.predicted)
        times = " ".join(f"{time:.4f}" for time in one.measured)
        speed = f" ({ratio(default.measured, one.measured):.3f})" if one.measured and default.measured else ""
        yield f"  {one.name:{wide}}  {one.ii:>6}  {predicted} ({1 / less:.2f})  {times}{speed}{one.note}"
    for name, why in tuning.refused:
        yield f"  {name}: {why}"
    if tuning.gain is None:
        yield "nothing was measured: no GPU here that this code runs on"
    elif tuning.winner == 0:
        yield "the default is the fastest of those measured"
    else:
        yield f"{tuning.won.name} is {tuning.gain:.3f} times as fast as the default; `twill emit --tuned` takes it"


def ratio(theirs: tuple[float, ...], mine: tuple[float, ...]) -> float:
    """Geometric mean of theirs over mine."""
    import math

    pairs = [(a, b) for a, b in zip(theirs, mine, strict=True) if a and b]
    return math.exp(sum(math.log(a / b) for a, b in pairs) / len(pairs)) if pairs else 1.0
