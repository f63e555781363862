"""Fragments in registers, and the groups of MMAs that use them behind the back of their warp group."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from twill.codegen.verify.abstract.memory import undefined
from twill.codegen.verify.abstract.violation import Findings
from twill.codegen.warp.layout import shape_of
from twill.codegen.warp.program import Fragment, WarpGroup
from twill.tile.interpret.arithmetic import Array


class Fragments:
    """The fragments of one warp group, and the rules about touching them."""

    def __init__(self, group: WarpGroup, findings: Findings) -> None:
        self.role, self.findings = group.role, findings
        self.of = {fragment.id: fragment for fragment in group.fragments}
        self.values: dict[int, Array] = {}
        # Written, or touched at all, by threads since the last Fence that covers them; used by a group of MMAs.
        self.written: set[int] = set()
        self.touched: set[int] = set()
        self.accumulating: dict[int, int] = {}
        self.multiplying: dict[int, int] = {}
        self.complete = 0  # groups of MMAs that a WaitGroups covered
        self.fenced = False

    def forget(self) -> None:
        """A new program instance: nothing has a value yet."""
        self.values.clear()

    def shape(self, number: int) -> tuple[int, ...]:
        """The tile's shape."""
        return shape_of(self.of[number].layout)

    def read(self, number: int, line: int) -> Array:
        """The value, read by threads."""
        self.touched.add(number)
        self._in_flight(number, line, "reads", (self.accumulating,))
        return self.value(number, line)

    def value(self, number: int, line: int) -> Array:
        """The value, whoever reads it."""
        if number not in self.values:
            fragment = self.of[number]
            self._report("undefined", f"{self.role} reads `{self.name(number)}` before anything is written to it", line)
            self.values[number] = undefined(self.shape(number), fragment.element)
        return self.values[number]

    def write(self, number: int, value: Array, line: int) -> None:
        """Threads write the whole fragment."""
        self.written.add(number)
        self.touched.add(number)
        self._in_flight(number, line, "writes", (self.accumulating, self.multiplying))
        self.values[number] = value

    def name(self, number: int) -> str:
        """What people call it."""
        fragment: Fragment = self.of[number]
        return fragment.name or f"%{number}"

    def fence(self, numbers: tuple[int, ...]) -> None:
        """Register writes of these fragments before, an MMA after; reads of all."""
        self.fenced = True
        self.written -= set(numbers)
        self.touched = {number for number in self.touched if number in self.written}

    def use(self, number: int, index: int, line: int, *, accumulator: bool) -> None:
        """A Multiply of group of MMAs `index` uses a fragment."""
        if number in self.written:
            self._report("mma-fence", f"{self.role} multiplies with `{self.name(number)}`, which its threads wrote "
                                        "since the last Fence that names it", line)  # fmt: skip
        elif number in self.touched and accumulator:
            self._report("mma-fence", f"{self.role} multiplies into `{self.name(number)}`, which its threads read "
                                        "since the last Fence", line)  # fmt: skip
        elif not self.fenced:
            self._report("mma-fence", f"{self.role} multiplies before any Fence", line)
        if accumulator:
            self._in_flight(number, line, "multiplies into", (self.multiplying,))
        else:
            self._in_flight(number, line, "multiplies with", (self.accumulating,))
        (self.accumulating if accumulator else self.multiplying)[number] = index

    def accumulating_now(self, number: int) -> bool:
        """Whether a group of MMAs that may be unfinished writes a fragment."""
        return self.accumulating.get(number, 0) > self.complete

    def ready(self, numbers: tuple[int, ...], line: int) -> None:
        """A WaitGroups says that these are free."""
        for number in numbers:
            if max(self.accumulating.get(number, 0), self.multiplying.get(number, 0)) > self.complete:
                self._report("mma-wait", f"WaitGroups of {self.role} says that `{self.name(number)}` is ready, but a "
                                           "younger group of MMAs that uses it may be unfinished", line)  # fmt: skip

    def _in_flight(self, number: int, line: int, verb: str, uses: tuple[dict[int, int], ...]) -> None:
        if any(use.get(number, 0) > self.complete for use in uses):
            self._report("mma-wait", f"{self.role} {verb} `{self.name(number)}` while a group of MMAs uses it: no "
                                       "WaitGroups covers that group", line)  # fmt: skip

    def _report(self, rule: str, message: str, line: int) -> None:
        self.findings.add(rule, message, line, self.role)


@dataclass
class Multiplies:
    """The groups of MMAs of a warp group: each is a list of what its multiplies do when they are over."""

    open: list[Callable[[], None]] = field(default_factory=list)
    groups: list[list[Callable[[], None]]] = field(default_factory=list)
    complete: int = 0

    @property
    def index(self) -> int:
        """The number, from 1, of the group that a multiply issued now will be in."""
        return len(self.groups) + 1

    def commit(self) -> None:
        """The open multiplies become a group, maybe an empty one."""
        self.groups.append(self.open)
        self.open = []

    def wait(self, pending: int) -> int:
        """At most `pending` groups stay unfinished; how many are complete."""
        while self.complete < len(self.groups) - pending:
            for multiply in self.groups[self.complete]:
                multiply()
            self.groups[self.complete] = []
            self.complete += 1
        return self.complete
