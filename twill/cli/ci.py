"""`twill ci`: the schedules of all kernels of a repository, held against its lock file (docs/ci.md)."""

from __future__ import annotations

import os
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from twill.cli import codes, store_lookup

if TYPE_CHECKING:
    from twill.ci.lock_diff import Found, Left, MissingSchedule, ScheduleChange
    from twill.ci.lock_file import Lock
    from twill.graph.dependence import DependenceGraph
    from twill.machine.description import Machine
    from twill.schedule.document import Schedule
    from twill.solve.pipeline import SolveOptions
    from twill.store.layered import LayeredStore
    from twill.tile.program import TileProgram

DEFAULT_MACHINE = "h100"
UNPROVEN = ("BudgetExhausted", "TimeLimit")  # a service's job that proves nothing of the kernel

Name = tuple[str, str, str, str]
"""File, kernel, specialization and machine of a schedule."""


@dataclass(frozen=True)
class WantedSchedule:
    """One specialization of a kernel file. kernel: "" if its sidecar leaves it to the file."""

    path: Path
    kernel: str
    spec: str

    @property
    def target(self) -> str:
        """As `twill solve` takes it."""
        return f"{self.path}::{self.kernel}" if self.kernel else str(self.path)


def ci(arguments: Namespace) -> int:
    """Solve or fetch everything, compare, report; exit code NOT_GOOD if a schedule is worse or missing (or new,
    where the lock file is frozen)."""
    from twill.ci.lock_diff import changes
    from twill.ci.lock_file import load_lock
    from twill.cli.ci_report import junit, report, workflow_commands
    from twill.cli.output import refuse_file, write_all
    from twill.exc import MalformedLock

    path = Path(arguments.lock)
    for file in (path, *([Path(arguments.junit)] if arguments.junit else [])):
        refuse_file(file)
    lock = load_lock(path)
    machines = machines_of(arguments, lock)
    wanted = kernels(arguments.paths)
    if arguments.frozen and lock is None:
        raise MalformedLock("there is no lock file", file=str(path), hint="`twill ci` without --frozen writes one")
    with store_lookup.opened(arguments) as store:
        results = CiRun(arguments, path.parent, machines, store, lock).results(wanted)
    past = tuple(one for one in lock.schedules if inside(path.parent / one.file, arguments.paths)) if lock else ()
    found = changes(tuple(one for one in past if one.machine in machines), results, arguments.frozen)
    for line in report(found):
        print(line)
    if annotated(arguments):
        for line in workflow_commands(found, path):
            print(line)
    if arguments.junit:
        write_all({Path(arguments.junit): junit(found)})
    return conclude(arguments, lock, found, path)


def conclude(arguments: Namespace, lock: Lock | None, found: Sequence[ScheduleChange], path: Path) -> int:
    """Write the lock file if there is none or it is to be updated, and say how it ended."""
    from twill.ci.lock_file import Lock
    from twill.cli.output import write_all

    failed = any(change.verdict == "failed" for change in found)
    if (arguments.update or lock is None) and not failed:
        here = {change.name for change in found}
        others = tuple(one for one in lock.schedules if one.name not in here) if lock else ()
        now = tuple(change.now.figures for change in found if change.now is not None)
        excluded = lock.excluded if lock else ()
        text = Lock(schedules=tuple(sorted((*others, *now), key=lambda one: one.name)), excluded=excluded).text()
        write_all({path: text})
        print(f"{path}: {len(others) + len(now)} schedules written")
        return codes.SOLVED
    if any(change.bad for change in found):
        return codes.NOT_GOOD
    if any(change.verdict not in ("same", "excluded") for change in found):
        print(f"{path} is not up to date; `twill ci --update` writes it")
    return codes.SOLVED


def machines_of(arguments: Namespace, lock: Lock | None) -> dict[str, Machine]:
    """The machines asked for, else those of the lock file, else the default one, by the name they have in it."""
    from twill.machine.file import load_machine

    named = arguments.machine or sorted({one.machine for one in lock.schedules} if lock else ()) or [DEFAULT_MACHINE]
    machines = [load_machine(name) for name in named]
    return {machine.name: machine for machine in machines}


def kernels(paths: Sequence[str]) -> tuple[WantedSchedule, ...]:
    """Every specialization of every sidecar under `paths` (directories, or kernel files), by name."""
    from twill.exc import NoKernels
    from twill.kernel.sidecar import read_sidecar

    files = sorted({file for path in paths for file in kernel_files(Path(path))})
    found = []
    for file in files:
        sidecar = read_sidecar(str(file))
        found += [WantedSchedule(file, table.kernel, table.name) for table in sidecar.tables] if sidecar else []
    if not found:
        hint = "a directory with kernel files that have a sidecar, <stem>.twill.toml (docs/ci.md)"
        raise NoKernels(f"no specialization of a kernel in {', '.join(paths)}", hint=hint)
    return tuple(found)


def kernel_files(path: Path) -> Iterator[Path]:
    """The kernel files with a sidecar in a directory and below (hidden ones left out), or the file itself."""
    from twill.exc import FileMissing

    if path.is_file():
        yield path
        return
    if not path.is_dir():
        raise FileMissing(str(path), "no such file or directory", "a directory, or a kernel file")
    for sidecar in path.rglob("*.twill.toml"):
        file = sidecar.with_name(sidecar.name.removesuffix(".twill.toml") + ".py")
        if file.is_file() and not any(part.startswith(".") for part in sidecar.relative_to(path).parts):
            yield file


def inside(file: Path, paths: Sequence[str]) -> bool:
    """Whether a kernel file is one of those that were asked about."""
    return any(file.resolve().is_relative_to(Path(path).resolve()) for path in paths)


def annotated(arguments: Namespace) -> bool:
    """Whether annotations are asked for: by --annotations, or by running in a workflow of GitHub."""
    return bool(arguments.annotations) or os.environ.get("GITHUB_ACTIONS") == "true"


@dataclass(frozen=True)
class SolvedKernel:
    """A kernel whose schedules are asked for."""

    program: TileProgram
    graph: DependenceGraph

    def on(self, machine: Machine) -> DependenceGraph:
        """The graph that is solved for a machine."""
        from twill.codegen.targets.programs import graph_on

        return graph_on(self.program, self.graph, machine)


@dataclass(frozen=True)
class CiRun:
    """The solves of one run. base: what files are named relative to."""

    arguments: Namespace
    base: Path
    machines: dict[str, Machine]
    store: LayeredStore | None
    lock: Lock | None = None

    def results(self, wanted: Sequence[WantedSchedule]) -> dict[Name, Found | MissingSchedule | Left]:
        """A schedule, or why there is none, for every kernel and machine."""
        from twill.ci.lock_diff import Left, MissingSchedule
        from twill.exc import TwillError

        kernels: dict[WantedSchedule, SolvedKernel] = {}
        found: dict[Name, Found | MissingSchedule | Left] = {}
        for one in wanted:
            left = {name: self.excluded(one, name) for name in self.machines}
            names = {name: (self.file(one), self.kernel(one), one.spec, name) for name in self.machines}
            found |= {names[name]: Left(reason) for name, reason in left.items() if reason}
            if all(left.values()):
                continue
            begun = time.perf_counter()
            try:
                kernels[one] = self.read(one)
            except TwillError as error:
                problem = MissingSchedule(error.message + hinted(error), error.line, time.perf_counter() - begun)
                found |= {names[name]: problem for name, reason in left.items() if not reason}
        self.announce(kernels)
        for one, kernel in kernels.items():
            for machine in self.machines.values():
                if self.excluded(one, machine.name):
                    continue
                graph = kernel.on(machine)
                self.progress(f"{one.path} {graph.kernel}[{graph.spec}] on {machine.name}")
                found[self.file(one), graph.kernel, graph.spec, machine.name] = self.result(one, graph, machine)
        return found

    def excluded(self, one: WantedSchedule, machine: str) -> str:
        """Why the lock file leaves a specialization out on a machine; "" if it does not."""
        return self.lock.why_excluded(self.file(one), one.spec, machine) if self.lock else ""

    def read(self, one: WantedSchedule) -> SolvedKernel:
        """A specialization, read."""
        from twill.graph.extract import extract

        return SolvedKernel(*extract(one.target, spec=one.spec))

    def announce(self, kernels: dict[WantedSchedule, SolvedKernel]) -> None:
        """Submit everything that nobody has to the service at once, so that it can solve several at a time."""
        from twill.exc import TwillError
        from twill.schedule.key import schedule_key

        if self.store is None or self.store.http is None:
            return
        options = self.options()
        for one, kernel in kernels.items():
            for machine in self.machines.values():
                self.store.know(machine)
                if self.excluded(one, machine.name):
                    continue
                graph = kernel.on(machine)
                if self.store.get(schedule_key(graph, machine.digest(), options.asked)) is None:
                    try:
                        self.store.http.client.submit(graph, machine, store_lookup.request_of(options))
                    except TwillError:
                        return  # each is submitted once more when its turn comes, and then the reason is said

    def result(self, one: WantedSchedule, graph: DependenceGraph, machine: Machine) -> Found | MissingSchedule:
        """The schedule of one kernel for one machine, or why there is none."""
        from twill.ci.lock_diff import Found, MissingSchedule
        from twill.ci.lock_file import locked
        from twill.exc import TwillError

        begun = time.perf_counter()
        try:
            schedule, origin = self.schedule(graph, machine)
        except TwillError as error:
            return MissingSchedule(error.message + hinted(error), error.line, time.perf_counter() - begun)
        main = next((loop.line for loop in schedule.loops if loop.certificate == schedule.certificate), 0)
        return Found(locked(self.file(one), schedule), main, time.perf_counter() - begun, origin)

    def schedule(self, graph: DependenceGraph, machine: Machine) -> tuple[Schedule, str]:
        """The schedule, and where it is from."""
        from twill.exc import BudgetExhausted, JobFailed
        from twill.solve import pipeline

        options = self.options()
        notes: list[str] = []
        try:
            schedule = store_lookup.answer(self.store, graph, machine, options, notes.append)
        except JobFailed as error:
            if error.kind not in UNPROVEN:
                raise
            notes.append(f"{error.message}; the kernel is solved here")
            schedule = None
        if schedule is not None:
            return schedule, "service" if any("the service" in note for note in notes) else "store"
        for note in notes:
            store_lookup.say(note)
        try:
            schedule = pipeline.solve(graph, machine, options)
        except BudgetExhausted as ended:
            return pipeline.best_known(ended), "best known"
        store_lookup.keep(self.store, schedule, graph, machine, options, store_lookup.say)
        return schedule, "solved"

    def options(self) -> SolveOptions:
        """The options of every solve."""
        from twill.solve.pipeline import SolveOptions

        return SolveOptions(budget=self.arguments.budget, seed=self.arguments.seed)

    def file(self, one: WantedSchedule) -> str:
        """A kernel file as the lock file names it."""
        return Path(os.path.relpath(one.path, self.base or ".")).as_posix()

    def kernel(self, one: WantedSchedule) -> str:
        """The name of a kernel that cannot be read: the sidecar's, or the one that the lock file has for it."""
        known = self.lock.schedules if self.lock else ()
        mine = (past.kernel for past in known if (past.file, past.spec) == (self.file(one), one.spec))
        return one.kernel or next(mine, "")

    def progress(self, text: str) -> None:
        """Say what is being worked on, to whoever watches."""
        if sys.stderr.isatty():
            store_lookup.say(text)


def hinted(error: Exception) -> str:
    """An error's hint, to be added to its message."""
    hint = getattr(error, "hint", "")
    return f" (instead: {hint})" if hint else ""
