"""Launches of a family's members in the place of their Triton kernel.

A call that the matcher recognizes says nothing of the grid that a member has: that is the grid function's answer for
the member's constants. It is asked at every launch, and a launch with another answer is prepared anew.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from twill.exc import TwillError
from twill.runtime.choices import Choice
from twill.runtime.member import FamilyMember
from twill.runtime.plans import STALE, Call, PreparedLaunch, RefusedLaunch
from twill.runtime.tilings import TileFamily


class MemberLaunch:
    """A prepared launch of a member. sizes: its grid. names: of the values of a matched call, in order. constants: the
    member's, where they are not the program's. asked: arguments that a grid was seen to ask for."""

    def __init__(
        self, inner: PreparedLaunch, call: Call, sizes: tuple[int, ...], names: Sequence[str],
        constants: Mapping[str, Any], asked: frozenset[str] = frozenset(),
    ) -> None:  # fmt: skip
        self.inner, self.call, self.sizes = inner, call, sizes
        self.names, self.constants = tuple(names), dict(constants)
        self.asked = tuple((n, place) for place, n in enumerate(names) if n in asked and n not in constants)

    def start(self, values: Sequence[Any], stream: int) -> Any:
        """A launch that wants to see the grid; Triton's, which has its own, as `PreparedLaunch.start`."""
        inner = self.inner
        if inner.__class__ is RefusedLaunch:
            return inner.start(values, stream)
        return MemberStart(self, values, stream)

    def grid(self, grid: Callable[[Mapping[str, Any]], Sequence[int]], values: Sequence[Any]) -> tuple[int, ...]:
        """What a grid is for the member."""
        given = self.constants.copy()
        for name, place in self.asked:
            given[name] = values[place]
        try:
            return tuple(grid(given))
        except KeyError:  # another function, which asks for more
            return tuple(grid({**dict(zip(self.names, values, strict=False)), **self.constants}))


class MemberStart(NamedTuple):
    """A matched call of a member's launch, before its grid was looked at."""

    launch: MemberLaunch
    values: Sequence[Any]
    stream: int

    def on(self, grid: Callable[[Mapping[str, Any]], Sequence[int]]) -> Any:
        """As `PreparedLaunch.start`; the call itself, if its launch is to be prepared anew."""
        launch, values, stream = self
        if launch.grid(grid, values) != launch.sizes:
            return launch.call
        result = launch.inner.start(values, stream)
        return launch.call if result is STALE else result


@dataclass(frozen=True)
class MemberCall:
    """What a call has to do with its family. family: ready. grid: a function. index, stream: where it is launched."""

    family: TileFamily
    bound: Mapping[str, Any]
    grid: Callable[[Mapping[str, Any]], Sequence[int]]
    index: int
    stream: int

    def choice(self) -> Choice:
        """Which member has launches of these sizes, as far as that is known."""
        return self.family.choice(self.bound, self.grid, self.index)

    def take_turns(self, choice: Choice) -> None:
        """Launch the member whose turn it is, timed. One that refuses is left out, and the next is launched.
        Errors: the last member's."""
        choices = self.family.choices
        assert choices is not None
        while True:
            member, interval = choices.turn(choice, self.stream)
            try:
                self.start(member)
            except TwillError as error:
                if interval is not None:
                    interval.forget()
                choices.leave_out(choice, member, error)
                continue
            if interval is not None:
                choices.timed(choice, member, interval)
            return

    def start(self, member: FamilyMember) -> None:
        """One launch. Errors: those of the kernel."""
        given = self.family.given(member, self.bound)
        sizes = tuple(self.grid(given))
        if 0 in sizes:
            return
        plan = member.kernel.plan(given, sizes, self.stream)
        if plan.overlapping is not None:
            raise plan.overlapping
        plan.launch(self.stream)

    def leave_out(self, choice: Choice, member: FamilyMember, reason: str) -> bool:
        """The chosen member refuses; whether there is another."""
        choices = self.family.choices
        assert choices is not None
        try:
            choices.leave_out(choice, member, TwillError(reason))
        except TwillError:
            return False
        return True
