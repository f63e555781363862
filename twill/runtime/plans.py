"""The launches of one kernel that are prepared: by all that they rely on, and by all of that but the addresses."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol, TypeVar

MOST_PLANS = 512  # that are remembered

Key = tuple[Any, ...]
Value = TypeVar("Value")


class PreparedLaunch(Protocol):
    """What a call like an earlier one finds."""

    @property
    def start(self) -> Callable[[Sequence[Any], int], Any]:
        """(values, stream) -> True: launched; False: that takes a careful look; None: the launch is Triton's; `STALE`;
        anything else: what Triton gave back for its launch, which was made."""

    def moved(self, values: Sequence[Any], stream: int) -> PreparedLaunch | None:
        """The same for values that differ in where tensors are; None if that takes a careful look."""


class RefusedLaunch:
    """Stands for a launch that the emitted kernel cannot do, such as one with a misaligned tensor."""

    def start(self, values: Sequence[Any], stream: int) -> None:
        """Nothing was launched."""

    def moved(self, values: Sequence[Any], stream: int) -> RefusedLaunch:
        """The same for tensors elsewhere."""
        return self


REFUSED = RefusedLaunch()


class Stale:
    """What a plan gives back that holds no more: what there is for calls like this one is to be found anew."""


STALE = Stale()


class Call(NamedTuple):
    """A call as it is recognized. key: all that a prepared launch relies on. layout: that without the addresses of its
    tensors, of which it has only whether 16 divides them."""

    key: Key
    layout: Key


@dataclass
class Plans:
    """Thread-safe. by_key is read without a lock, at every launch."""

    by_key: dict[Key, PreparedLaunch] = field(default_factory=dict)
    by_layout: dict[Key, PreparedLaunch] = field(default_factory=dict)

    def add(self, call: Call, plan: PreparedLaunch) -> None:
        """For the next call like this one; a refusal may be because of the addresses."""
        _put(self.by_key, call.key, plan)
        if plan is not REFUSED:
            _put(self.by_layout, call.layout, plan)

    def refuse(self, call: Call) -> None:
        """The next call like this one is Triton's, wherever its tensors lie."""
        _put(self.by_key, call.key, REFUSED)
        _put(self.by_layout, call.layout, REFUSED)

    def moved(self, call: Call, values: Sequence[Any], stream: int) -> PreparedLaunch | None:
        """The launch for a call that differs from an earlier one in its addresses alone, from now on remembered."""
        alike = self.by_layout.get(call.layout)
        plan = None if alike is None else alike.moved(values, stream)
        if plan is not None:
            _put(self.by_key, call.key, plan)
        return plan


def _put(there: dict[Key, Value], key: Key, value: Value) -> None:
    """The oldest makes room."""
    try:
        while len(there) >= MOST_PLANS:
            there.pop(next(iter(there)), None)
    except (RuntimeError, StopIteration):  # another thread makes room, too
        return
    there[key] = value
