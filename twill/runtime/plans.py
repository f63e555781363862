"""The launches of one kernel that are prepared, by all that they rely on."""

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
        """(values, stream) -> True: launched; False: that takes a careful look; a `RefusedLaunch`: the launch is
        Triton's; `STALE`; anything else: what Triton gave back for its launch, which was made."""


class RefusedLaunch:
    """Stands for launches that the emitted kernel cannot do, such as one with a misaligned tensor, or should not.

    triton: the plan of Triton's own launch of them, once one was made and if there can be one; tries: how often there
    was none.
    """

    def __init__(self) -> None:
        self.triton: PreparedLaunch | None = None
        self.tries = 0

    def start(self, values: Sequence[Any], stream: int) -> Any:
        """Triton's launch, if it is prepared; else this: nothing was launched."""
        return self if self.triton is None else self.triton.start(values, stream)


class Stale:
    """What a plan gives back that holds no more: what there is for calls like this one is to be found anew."""


STALE = Stale()


class Call(NamedTuple):
    """A call as it is recognized. key: all that a prepared launch relies on."""

    key: Key


@dataclass
class Plans:
    """Thread-safe. by_key is read without a lock, at every launch."""

    by_key: dict[Key, PreparedLaunch] = field(default_factory=dict)

    def add(self, call: Call, plan: PreparedLaunch) -> None:
        """For the next call like this one."""
        _put(self.by_key, call.key, plan)


def _put(there: dict[Key, Value], key: Key, value: Value) -> None:
    """The oldest makes room."""
    try:
        while len(there) >= MOST_PLANS:
            there.pop(next(iter(there)), None)
    except (RuntimeError, StopIteration):  # another thread makes room, too
        return
    there[key] = value
