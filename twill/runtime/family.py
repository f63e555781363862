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

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from twill import exc
from twill.runtime.arguments import is_descriptor
from twill.runtime.choices import COMPARED, Choice, Key, MemberChoices
from twill.runtime.chosen import Chosen, chosen_document, read_chosen
from twill.runtime.device import device
from twill.runtime.kernel import EmittedKernel, GridLike
from twill.runtime.member import FamilyMember, free_constants, numbers_of
from twill.runtime.shipped import read_members
from twill.store.interface import ScheduleStore

ARTIFACT, SCHEMA = "choices.json", "twill.choices/1"


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
        self.store, self.digest = store, digest
        self.of_members = MemberChoices(members, self._known, self._keep, compared)
        self.choices = self.of_members.by_key
        self.first = members[0].kernel
        self.free = free_constants(members)
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
        members, digest = read_members(Path(directory))
        return cls(members, store, digest)

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
            if choice.decided:
                member, interval = choice.ranked[0], None
            else:
                member, interval = self.of_members.turn(choice, self.first.place(args, kwargs)[1])
            try:
                member.launch(grid, args, kwargs)
            except exc.TwillError as error:
                self.of_members.leave_out(choice, member, error)
                continue
            if interval is not None:
                self.of_members.timed(choice, member, interval)
            return

    # -- the first launch of some sizes -------------------------------------------------------

    def _begin(self, key: Key, grid: GridLike, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Choice:
        """The members that come into question. Errors: WrongArgument."""
        if self.free and not callable(grid):
            raise exc.WrongArgument("grid", repr(grid), f"a function of the constants {', '.join(sorted(self.free))}")
        index, _ = self.first.place(args, kwargs)
        gpu = device(index)
        values = numbers_of(self.first.manifest.arguments, args, kwargs)
        cycles = {}
        for member in self.members:
            sizes = grid(member.kernel.constants(values)) if callable(grid) else grid
            cycles[member.name] = member.predicted(math.prod(sizes), gpu.sms, values)
        return self.of_members.begin(key, index, gpu.name, cycles)

    # -- the store ----------------------------------------------------------------------------

    def _known(self, gpu: str, key: Key) -> str | None:
        """The member that was found to be the fastest on such a GPU."""
        return self._stored().get(gpu, {}).get(repr(key))

    def _stored(self) -> Chosen:
        """By GPU and sizes: the name of a member."""
        try:
            return read_chosen(None if self.store is None else self.store.get_artifact(self.digest, ARTIFACT), SCHEMA)
        except ValueError:
            return {}

    def _keep(self, gpu: str, choice: Choice) -> None:
        """What was found, beside what is kept already."""
        if self.store is None:
            return
        known = self._stored()
        known.setdefault(gpu, {})[repr(choice.key)] = choice.ranked[0].name
        self.store.put_artifact(self.digest, ARTIFACT, chosen_document(known, SCHEMA))


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
