"""What sequential runs of a launch left, for the next warp program of the same tile program.

Candidates for one kernel, and a warp program with one fault after the other, are compared with the same runs.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field

from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.warp.by_identity import by_identity
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np

LIMIT = 1 << 26  # bytes

Arrays = Mapping[str, Array]


def launch_key(launch: CheckedLaunch) -> Hashable:
    """What a run depends on beside the program: two launches with equal keys leave the same."""
    arrays = [
        (name, _constant(one) if not one.flags.writeable else _digest(one)) for name, one in launch.arrays.items()
    ]
    scalars = [(name, type(value), repr(value)) for name, value in sorted(launch.scalars.items())]
    return launch.grid, tuple(scalars), tuple(sorted(arrays))


def _digest(array: Array) -> tuple[str, tuple[int, ...], bytes]:
    """What an array holds. SHA-256, for which processors have instructions."""
    return str(array.dtype), array.shape, hashlib.sha256(np.ascontiguousarray(array).data).digest()


_constant = by_identity(_digest)
"""The same of an array that nobody writes to, as `launches` gives them: it is read once."""


@dataclass
class Remembered:
    """Tensors by what made them, read-only; beyond `limit` bytes the least recently used ones are forgotten."""

    limit: int = LIMIT
    _known: dict[Hashable, Arrays] = field(default_factory=dict)
    _bytes: int = 0  # that are held

    def __call__(self, key: Hashable, make: Callable[[], Arrays]) -> Arrays:
        """What `make` gives, or gave for this key."""
        found = self._known.pop(key, None)
        if found is None:
            found = make()
            for array in found.values():
                array.flags.writeable = False
            self._bytes += _bytes_of(found)
        self._known[key] = found
        while len(self._known) > 1 and self._bytes > self.limit:
            self._bytes -= _bytes_of(self._known.pop(next(iter(self._known))))
        return found

    def size(self) -> int:
        """Bytes that are held."""
        return self._bytes


def _bytes_of(arrays: Arrays) -> int:
    return sum(array.nbytes for array in arrays.values())
