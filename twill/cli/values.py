"""Numbers on the command line, refused with a sentence where they are none."""

from __future__ import annotations

import argparse


def natural(text: str) -> int:
    """An integer >= 0."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number >= 0")
    return int(text)


def positive(text: str) -> int:
    """An integer >= 1."""
    if natural(text) == 0:
        raise argparse.ArgumentTypeError("0 is too small; the least is 1")
    return int(text)


def seconds(text: str) -> float:
    """A finite number of seconds > 0."""
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not 0 < value < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds > 0")
    return value
