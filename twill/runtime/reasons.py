"""Why a kernel runs as Triton's: each reason is logged once for a kernel, and kept to be asked for.

With TWILL_JIT_LOG=1 the log also says what runs as the emitted kernel, and every comparison's outcome, on the error
stream.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Mapping

from twill.exc.foreign import one_line
from twill.runtime.forks import renew_after_fork

LOG = logging.getLogger("twill.jit")
MOST = 200  # reasons that are kept of one kernel
SHOW = "TWILL_JIT_LOG"


def show_log(environment: Mapping[str, str]) -> None:
    """Write everything that is logged here to the error stream, if the environment asks for it."""
    if environment.get(SHOW, "") not in ("", "0") and not LOG.handlers:
        handler = logging.StreamHandler()
        handler.setFormatter(logging.Formatter("%(name)s: %(message)s"))
        LOG.addHandler(handler)
        LOG.setLevel(logging.INFO)
        LOG.propagate = False


show_log(os.environ)


class Reasons:
    """Of one kernel. Thread-safe. A reason that begins with a class of error ("MisalignedTensor: ...") is one reason,
    whatever the numbers are that follow."""

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.lock = threading.Lock()
        renew_after_fork(self)
        self.known: dict[tuple[str, str], str] = {}  # variant, kind of reason -> the first that was given

    def after_fork(self) -> None:
        """See `Renewed`."""
        self.lock = threading.Lock()

    def report(self, reason: str, variant: str = "") -> None:
        """A reason, and for which variant of the kernel. Logged if this kernel never had it."""
        kind = reason.partition(": ")[0]
        with self.lock:
            if (variant, kind) in self.known:
                return
            new = all(kind != known for _, known in self.known)
            if len(self.known) < MOST:
                self.known[variant, kind] = reason
        if new:
            LOG.warning("%s runs as Triton's kernel: %s", self.kernel, one_line(reason))

    def tell(self, text: str, variant: str) -> None:
        """What a variant runs as: for those who want to know (TWILL_JIT_LOG)."""
        LOG.info("%s(%s): %s", self.kernel, variant, one_line(text))

    def forget(self, variant: str) -> None:
        """What was said of a variant no longer holds."""
        with self.lock:
            for known in [known for known in self.known if known[0] == variant]:
                del self.known[known]

    def text(self) -> str:
        """All of it for people, one reason a line; "" if there is none."""
        with self.lock:
            known = [(variant, reason) for (variant, _), reason in self.known.items()]
        return "\n".join(f"{self.kernel}{f'({variant})' if variant else ''}: {reason}" for variant, reason in known)


class Notes:
    """What went wrong and did no harm to any one kernel: a service that is down, a store that is damaged."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen: set[str] = set()
        renew_after_fork(self)

    def after_fork(self) -> None:
        """See `Renewed`."""
        self.lock = threading.Lock()

    def report(self, note: str) -> None:
        """Log it, once in this process."""
        with self.lock:
            if note in self.seen:
                return
            self.seen.add(note)
        LOG.warning("%s", one_line(note))


NOTES = Notes()
