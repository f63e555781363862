"""What a forked process does not have: the threads of its parent, and locks that they held.

Whatever has either is *renewed* in the child, before anything else runs there: it gets locks and queues of its own, and
forgets what a thread of the parent would have brought.
"""

from __future__ import annotations

import os
import weakref
from typing import Protocol


class Renewed(Protocol):
    """Something with threads or locks."""

    def after_fork(self) -> None:
        """Begin anew in the child, where only this thread is."""


_known: weakref.WeakSet[Renewed] = weakref.WeakSet()


def renew_after_fork(one: Renewed) -> None:
    """From now on `one` is renewed in every forked process."""
    _known.add(one)


def _renew() -> None:
    for one in list(_known):
        one.after_fork()


os.register_at_fork(after_in_child=_renew)
