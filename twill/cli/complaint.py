"""What a command says beside its output."""

from __future__ import annotations

import sys

from twill.exc.foreign import printable


def complain(text: str) -> None:
    """One message to the standard error stream, whoever wrote parts of it."""
    print(printable(text), file=sys.stderr, flush=True)


def say_more(step: str) -> None:
    """What is being done, for somebody who watches."""
    if sys.stderr.isatty():
        print(f"twill: {step}", file=sys.stderr, flush=True)
