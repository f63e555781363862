"""What a command says beside its output."""

from __future__ import annotations

import sys


def complain(text: str) -> None:
    """One message to the standard error stream."""
    print(text, file=sys.stderr, flush=True)
