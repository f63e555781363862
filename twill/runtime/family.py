"""A family of emitted kernels: variants of one Triton kernel, of which every launch takes the best for its sizes.

    family = EmittedFamily.load("out/gemm")  # as `twill tune --out` wrote it
    grid = lambda meta: (triton.cdiv(M, meta["BLOCK_M"]) * triton.cdiv(N, meta["BLOCK_N"]),)
    family[grid](a_desc, b_desc, c_desc, M, N, K)

The grid is a function of the constants, for they differ from member to member. Constants that do need not be given, and
descriptors may have the blocks of any member: each gets them with its own. A member is a variant, with K in a certain
number of parts where it is split.

At the first launch of some sizes members are ranked by their predicted cycles. The next launches go to the best few in
turns, each timed by two events in the program's own stream, until the fastest is known; nothing is launched twice and
nothing waits. From then on a launch costs one look into a table. What was found is kept in the store for this GPU. A
member that cannot be read, or that refuses a launch (a promise that does not hold, memory that cannot be had), is left
out with the reason logged once, and the next best takes its place.
"""

from __future__ import annotations

import json
import logging
import math
import statistics
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from twill import exc
from twill.manifest.document import CallArgument
from twill.manifest.family import MOST_PARTS, MemberCost, read_family
from twill.runtime.arguments import is_descriptor
from twill.runtime.device import device
from twill.runtime.driver import on_device
from twill.runtime.interval import TimedInterval, captures
from twill.runtime.kernel import EmittedKernel, GridLike
from twill.store.interface import ScheduleStore

LOG = logging.getLogger("twill.family")
COMPARED = 4  # members whose launches are timed
SAMPLES = 5  # timed launches of each, behind one that is not
ARTIFACT, SCHEMA = "choices.json", "twill.choices/1"

Key = tuple[Any, ...]


@dataclass(frozen=True)
class FamilyMember:
    """A variant that can be launched. name: its folder, and the parts of K. blocks: of its descriptors, by position and
    name."""

    name: str
    kernel: EmittedKernel
    cost: MemberCost | None
    blocks: tuple[tuple[int, str, list[int]], ...]

    @classmethod
    def of(cls, name: str, kernel: EmittedKernel, cost: MemberCost | None) -> FamilyMember:
        """That of a kernel."""
        arguments = enumerate(kernel.manifest.arguments)
        blocks = tuple((i, a.name, list(a.block)) for i, a in arguments if a.kind == "descriptor")
        return cls(name, kernel, cost, blocks)

    def in_parts(self) -> list[FamilyMember]:
        """It with every number of parts, if K can be split; itself if not."""
        split = self.kernel.manifest.split
        if split is None:
            return [self]
        made = (replace(self.kernel.manifest, split=replace(split, parts=n)) for n in range(1, MOST_PARTS + 1))
        return [
            replace(self, name=f"{self.name}/{number}", kernel=EmittedKernel(manifest, self.kernel.cubin))
            for number, manifest in enumerate(made, 1)
        ]

    def predicted(self, instances: int, sms: int, values: Mapping[str, Any]) -> float:
        """Cycles of a launch; infinite where nothing is known."""
        if self.cost is None:
            return math.inf
        split = self.kernel.manifest.split
        cycles = self.cost.cycles(instances, sms, dict(values), 1 if split is None else split.parts)
        return math.inf if cycles is None else cycles

    def launch(self, grid: GridLike, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """The call with descriptors of its own blocks. Errors: those of the kernel."""
        given, count = list(args), len(args)
        for position, name, block in self.blocks:
            if position < count:
                if getattr(given[position], "block_shape", block) != block:
                    given[position] = Reblocked(given[position], block)
            elif name in kwargs:
                kwargs = {**kwargs, name: with_block(kwargs[name], block)}
        self.kernel[grid](*given, **kwargs)


class Reblocked:
    """A descriptor with another block."""

    __slots__ = ("base", "block_shape", "padding", "shape", "strides")

    def __init__(self, of: Any, block: list[int]) -> None:
        self.base, self.shape, self.strides = of.base, of.shape, of.strides
        self.padding, self.block_shape = getattr(of, "padding", None), block


def with_block(value: Any, block: list[int]) -> Any:
    """A descriptor with that block; itself, if it has it, or is none."""
    try:
        return value if value.block_shape == block else Reblocked(value, block)
    except AttributeError:
        return value


@dataclass
class Choice:
    """Of launches of one size on one GPU. ranked: members that can still be taken, the best first. decided: whether
    only the first has launches. times: of each timed member, microseconds. missed: launches that could not be timed."""

    key: Key
    device: int
    ranked: list[FamilyMember]
    decided: bool = False
    issued: int = 0
    missed: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    pending: list[tuple[str, TimedInterval]] = field(default_factory=list)


class EmittedFamily:
    """See the top of this file. Thread-safe. store: where choices are kept; digest: under what."""

    def __init__(
        self,
        members: Sequence[FamilyMember],
        store: ScheduleStore | None = None,
        digest: str = "",
        compared: int = COMPARED,
    ) -> None:
        self.members = tuple(members)
        self.store, self.digest, self.compared = store, digest, compared
        self.lock = threading.Lock()
        self.choices: dict[Key, Choice] = {}
        self.first = members[0].kernel
        values: dict[str, set[Any]] = {}
        for member in members:
            for argument in member.kernel.manifest.arguments:
                if argument.kind == "constant":
                    values.setdefault(argument.name, set()).add(argument.value)
        self.free = frozenset(name for name, found in values.items() if len(found) > 1)
        self.names = tuple(argument.name for argument in self.first.manifest.arguments)
        self.straight = min((self.names.index(name) for name in self.free), default=len(self.names))

    @classmethod
    def of(cls, *directories: str | Path) -> EmittedFamily:
        """Of kernels that `twill emit` wrote, the one that is preferred first: one with promises, and one without for
        what does not keep them. Errors: FileMissing, MalformedManifest."""
        return cls([FamilyMember.of(str(one), EmittedKernel.load(one), None) for one in directories], compared=1)

    @classmethod
    def load(cls, directory: str | Path, store: ScheduleStore | None = None) -> EmittedFamily:
        """The family in a directory. Members that cannot be read are left out. Errors: FileMissing, MalformedManifest,
        the last member's if none can be read."""
        folder, members = Path(directory), []
        family = read_family(folder)
        last: exc.TwillError = exc.MalformedManifest("has no members", file=str(folder), hint="tune the kernel again")
        for entry in family.members:
            try:
                kernel = EmittedKernel.load(folder / entry.folder)
            except exc.TwillError as error:
                last = error
                LOG.warning("%s is left out: %s", folder / entry.folder, error.message)
                continue
            members += FamilyMember.of(entry.folder, kernel, entry.cost).in_parts()
        if not members:
            raise last
        return cls(members, store, family.digest)

    def __getitem__(self, grid: GridLike) -> Callable[..., None]:
        """The launch on `grid`: call it with the kernel's arguments."""
        return partial(self._run, grid)

    def _run(self, grid: GridLike, /, *args: Any, **kwargs: Any) -> None:
        choice = self.choices.get(key := sizes_of(grid, args, kwargs))
        if len(args) > self.straight:  # constants by position
            kwargs = {**dict(zip(self.names[self.straight :], args[self.straight :], strict=False)), **kwargs}
            args = args[: self.straight]
        if kwargs and self.free:
            kwargs = {name: value for name, value in kwargs.items() if name not in self.free}
        if choice is None:
            choice = self._begin(key, grid, args, kwargs)
        while True:
            member, interval = (choice.ranked[0], None) if choice.decided else self._turn(choice, args, kwargs)
            try:
                member.launch(grid, args, kwargs)
            except exc.TwillError as error:
                self._leave_out(choice, member, error)
                continue
            if interval is not None:
                self._timed(choice, member, interval)
            return

    # -- the first launch of some sizes -------------------------------------------------------

    def _begin(self, key: Key, grid: GridLike, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Choice:
        """The members that come into question. Errors: WrongArgument."""
        if self.free and not callable(grid):
            raise exc.WrongArgument("grid", repr(grid), f"a function of the constants {', '.join(sorted(self.free))}")
        index, _ = self.first.place(args, kwargs)
        gpu = device(index)
        values = numbers_of(self.first.manifest.arguments, args, kwargs)
        known = self._known(key, gpu.name)
        cycles = {}
        for member in self.members:
            sizes = grid(member.kernel.constants(values)) if callable(grid) else grid
            cycles[member.name] = member.predicted(math.prod(sizes), gpu.sms, values)
        ranked = sorted(self.members, key=lambda one: (one.name != known, cycles[one.name]))
        choice = Choice(key, index, ranked, decided=ranked[0].name == known or len(ranked) == 1)
        with self.lock:
            return self.choices.setdefault(key, choice)

    # -- the launches that are timed ----------------------------------------------------------

    def _turn(
        self, choice: Choice, args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[FamilyMember, TimedInterval | None]:
        """Whose launch the next one is before the fastest is known, and the time of it, which begins now."""
        index, stream = self.first.place(args, kwargs)
        if captures(stream):
            return choice.ranked[0], None
        with self.lock:
            self._collect(choice)
            turns = choice.ranked[: self.compared]
            number = choice.issued
            choice.issued += 1
            timed = all(len(choice.times.get(one.name, ())) >= SAMPLES for one in turns)
            decided = timed or choice.missed >= SAMPLES
            if decided:
                best = min(turns, key=lambda one: statistics.median(choice.times[one.name])) if timed else turns[0]
                choice.ranked.sort(key=lambda one: one is not best)
                choice.decided = True
        if timed:
            self._keep(choice, device(index).name)
        if decided:
            return choice.ranked[0], None
        return turns[number % len(turns)], self._interval(choice, stream) if number >= len(turns) else None

    def _interval(self, choice: Choice, stream: int) -> TimedInterval | None:
        """One that begins now; None if the driver does not want to: a launch is not lost because it is not timed."""
        try:
            with on_device(choice.device):
                return TimedInterval(stream, delayed=True)
        except exc.DriverFailed:
            choice.missed += 1
            return None

    def _timed(self, choice: Choice, member: FamilyMember, interval: TimedInterval) -> None:
        """A timed launch was made. It must not be made again, whatever becomes of its time."""
        try:
            with on_device(choice.device):
                interval.close()
        except exc.DriverFailed:
            interval.forget()
            choice.missed += 1
            return
        with self.lock:
            choice.pending.append((member.name, interval))

    def _collect(self, choice: Choice) -> None:
        """Read the times that are there by now."""
        waiting = []
        for name, interval in choice.pending:
            try:
                time = interval.microseconds()
            except exc.DriverFailed:  # as of a stream that was destroyed
                choice.missed += 1
            else:
                if time is None:
                    waiting.append((name, interval))
                    continue
                choice.times.setdefault(name, []).append(time)
            interval.forget()
        choice.pending = waiting

    def _leave_out(self, choice: Choice, member: FamilyMember, error: exc.TwillError) -> None:
        """A member refused a launch: the others from now on. Errors: the error, if there are none."""
        with self.lock:
            if choice.ranked == [member]:
                raise error
            choice.ranked = [one for one in choice.ranked if one is not member]
        LOG.warning("%s is not launched at %s: %s", member.name, choice.key, error.message)

    # -- the store ----------------------------------------------------------------------------

    def _known(self, key: Key, gpu: str) -> str | None:
        """The member that was found to be the fastest on such a GPU."""
        return self._stored().get(gpu, {}).get(repr(key))

    def _stored(self) -> dict[str, dict[str, str]]:
        """By GPU and sizes: the name of a member."""
        data = self.store.get_artifact(self.digest, ARTIFACT) if self.store is not None else None
        try:
            document = json.loads(data) if data is not None else {}
            chosen = document["gpus"] if document.get("schema") == SCHEMA else {}
            return {str(gpu): {str(key): str(name) for key, name in found.items()} for gpu, found in chosen.items()}
        except (ValueError, KeyError, AttributeError):
            return {}

    def _keep(self, choice: Choice, gpu: str) -> None:
        """What was found, beside what is kept already."""
        if self.store is None:
            return
        known = self._stored()
        known.setdefault(gpu, {})[repr(choice.key)] = choice.ranked[0].name
        self.store.put_artifact(self.digest, ARTIFACT, json.dumps({"schema": SCHEMA, "gpus": known}).encode())


def sizes_of(grid: GridLike, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Key:
    """Launches of equal sizes have equal ones: whole numbers, shapes of descriptors, a grid that is no function."""
    key: list[Any] = [] if callable(grid) else [*grid]
    described = DESCRIPTORS
    for value in (*args, *kwargs.values()) if kwargs else args:
        kind = type(value)
        if kind is int:
            key.append(value)
        elif described[kind] if kind in described else _is_descriptor(value):
            key += value.shape
    return tuple(key)


DESCRIPTORS: dict[type, bool] = {}
"""Types of arguments that were seen, and whether they are descriptors: tensors take long to say what they have not."""


def _is_descriptor(value: Any) -> bool:
    return DESCRIPTORS.setdefault(type(value), is_descriptor(value))


def numbers_of(
    arguments: Sequence[CallArgument], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, int | float]:
    """Numbers of a call, by name; sizes of descriptors as "a_desc.shape.0"."""
    found: dict[str, int | float] = {}
    for position, argument in enumerate(arguments):
        value: Any = args[position] if position < len(args) else kwargs.get(argument.name)
        if type(value) is int or type(value) is float:
            found[argument.name] = value
        elif hasattr(value, "block_shape"):
            found.update({f"{argument.name}.shape.{axis}": int(size) for axis, size in enumerate(value.shape)})
    return found
