"""NumPy, which only those parts need that run programs on the CPU: an error that says how to get it."""

from __future__ import annotations

from twill.exc import NumpyMissing

try:
    import numpy as np
except ImportError as error:
    raise NumpyMissing(str(error)) from error

__all__ = ["np"]
