"""Which member of a family has a launch: the best by prediction at first, the fastest once the best few were timed.

At the first launch of some sizes members are ranked by their predicted cycles. The next launches go to the best few in
turns, timed by two events in the program's own stream, then to the best of these, until the fastest is known; nothing
is launched twice and nothing waits. A turn is a few launches, of which the first is not timed: once the fastest is
known no other member is launched, so its code is where the launch before left it. What was found is kept by whoever
made the choices, with the kind of GPU that it was found on. Once a few sizes of one class (numbers of as many bits)
were timed, others of that class are not: what each timed member took of its prediction says which is the fastest. A
member that refuses a launch is left out.
"""

from __future__ import annotations

import logging
import statistics
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twill import exc
from twill.runtime.driver import on_device
from twill.runtime.interval import TimedInterval, captures
from twill.runtime.member import FamilyMember

LOG = logging.getLogger("twill.family")
COMPARED = 12  # members whose launches are timed
ROUNDS = ((COMPARED, 3), (4, 6), (2, 10))  # members that have a turn, the fastest so far; launches of a turn
MISSED = 5  # launches that could not be timed, after which none is
STARVED = 8  # launches for which the GPU waited, and that do not count; if there are more, the host is always too slow
TIMED_SIZES = 3  # of a class, whose launches are timed; for the others their times tell

Key = tuple[Any, ...]


@dataclass
class Choice:
    """Of launches of one size on one GPU. ranked: members that can still be taken, the best first. decided: whether
    only the first has launches. cycles: that each member is predicted to take. round: which of `ROUNDS`; issued:
    launches in it. times: of each timed member, microseconds. missed: launches that could not be timed; starved: those
    for which the GPU waited for the host."""

    key: Key
    device: int
    ranked: list[FamilyMember]
    cycles: Mapping[str, float] = field(default_factory=dict)
    decided: bool = False
    round: int = 0
    issued: int = 0
    missed: int = 0
    starved: int = 0
    times: dict[str, list[float]] = field(default_factory=dict)
    pending: list[tuple[str, TimedInterval]] = field(default_factory=list)

    def text(self) -> str:
        """For people."""
        best = self.ranked[0].name
        if not self.decided:
            return f"{best} first, by prediction; the fastest is being found out"
        took = {name: statistics.median(times) for name, times in self.times.items() if times}
        others = ", ".join(f"{name} {us:.1f} µs" for name, us in sorted(took.items(), key=lambda one: one[1]))
        return best + (f" ({others})" if others else "")


class MemberChoices:
    """Of one family. Thread-safe.

    known: the member's name that is kept for a GPU and sizes, if there is one. keep: told what was found, with the GPU.
    compared: members that are timed.
    """

    def __init__(
        self,
        members: Sequence[FamilyMember],
        known: Callable[[str, Key], str | None],
        keep: Callable[[str, Choice], None],
        compared: int = COMPARED,
    ) -> None:
        self.members = tuple(members)
        self.known, self.keep, self.compared = known, keep, compared
        self.lock = threading.Lock()
        self.by_key: dict[Key, Choice] = {}
        self.gpus: dict[int, str] = {}

    def begin(self, key: Key, index: int, gpu: str, cycles: Mapping[str, float]) -> Choice:
        """Of launches of a size that was not seen before. gpu: the kind of GPU `index`. cycles: by name of a member."""
        self.gpus[index] = gpu
        known = self.known(gpu, key)
        expected = self.expected(key, index, cycles) if known is None else {}
        ranked = sorted(self.members, key=lambda one: (one.name != known, expected.get(one.name, _NEVER)
                                                       if expected else cycles[one.name]))  # fmt: skip
        decided = ranked[0].name == known or bool(expected) or len(ranked) == 1
        choice = Choice(key, index, ranked, cycles, decided)
        with self.lock:
            return self.by_key.setdefault(key, choice)

    def expected(self, key: Key, index: int, cycles: Mapping[str, float]) -> dict[str, float]:
        """Microseconds of the members that were timed at other sizes of the class; none, if too few sizes were."""
        measured = [one for one in self.by_key.values() if one.decided and one.times and one.device == index]
        like = [one for one in measured if class_of(one.key) == class_of(key)]
        if len(like) < TIMED_SIZES:
            return {}
        shares: dict[str, list[float]] = {}
        for one in like:
            for name, times in one.times.items():
                if times and 0 < one.cycles.get(name, 0) < _NEVER:
                    shares.setdefault(name, []).append(statistics.median(times) / one.cycles[name])
        return {name: statistics.median(found) * cycles[name] for name, found in shares.items()}

    # -- the launches that are timed

    def turn(self, choice: Choice, stream: int) -> tuple[FamilyMember, TimedInterval | None]:
        """Whose launch the next one in `stream` is, and the time of it, which begins now."""
        if choice.decided or captures(stream):
            return choice.ranked[0], None
        with self.lock:
            if choice.decided:  # by another thread
                return choice.ranked[0], None
            self._collect(choice)
            timed = self._advance(choice)
            choice.decided = timed or choice.missed >= MISSED
            number = choice.issued
            choice.issued += 1
        if timed:
            self.keep(self.gpus[choice.device], choice)
        if choice.decided:
            return choice.ranked[0], None
        turns, run = self._turns(choice)
        return turns[number // run % len(turns)], self._interval(choice, stream) if number % run else None

    def _turns(self, choice: Choice) -> tuple[list[FamilyMember], int]:
        """Who has one in this round, and how many launches."""
        count, run = ROUNDS[choice.round]
        return choice.ranked[: min(count, self.compared)], run

    def _advance(self, choice: Choice) -> bool:
        """The next round, with the fastest of this one in front, if all of it is timed; whether that was the last."""
        turns, _ = self._turns(choice)
        wanted = sum(run - 1 for _, run in ROUNDS[: choice.round + 1])
        if any(len(choice.times.get(one.name, ())) < wanted for one in turns):
            return False
        turns.sort(key=lambda one: statistics.median(choice.times[one.name]))
        choice.ranked[: len(turns)] = turns
        if choice.round + 1 == len(ROUNDS) or len(turns) == 1:
            return True
        choice.round, choice.issued = choice.round + 1, 0
        return False

    def timed(self, choice: Choice, member: FamilyMember, interval: TimedInterval) -> None:
        """A timed launch was made. It must not be made again, whatever becomes of its time."""
        try:
            with on_device(choice.device):
                interval.close()
        except exc.DriverFailed:
            interval.forget()
            choice.missed += 1
            return
        with self.lock:
            if interval.fed or choice.starved >= STARVED:
                choice.pending.append((member.name, interval))
                return
            choice.starved += 1
            choice.issued -= 1
        interval.forget()

    def leave_out(self, choice: Choice, member: FamilyMember, error: exc.TwillError) -> None:
        """A member refused a launch: the others from now on. Errors: the error, if there are none."""
        with self.lock:
            if choice.ranked == [member]:
                raise error
            choice.ranked = [one for one in choice.ranked if one is not member]
        LOG.warning("%s is not launched at %s: %s", member.name, choice.key, error.message)

    def _interval(self, choice: Choice, stream: int) -> TimedInterval | None:
        """One that begins now; None if the driver does not want to: a launch is not lost because it is not timed."""
        try:
            with on_device(choice.device):
                return TimedInterval(stream, delayed=True)
        except exc.DriverFailed:
            choice.missed += 1
            return None

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


_NEVER = float("inf")


def class_of(key: Key) -> Key:
    """Equal for sizes whose numbers have as many bits."""

    def bits(one: Any) -> Any:
        return class_of(one) if type(one) is tuple else one.bit_length() if type(one) is int else one

    return tuple(map(bits, key))
