"""What one process of a test run made, for the other processes of the same run: kernels that were read, builds.

Nothing outlives the run, so nothing that is taken from here was made by other code.
"""

from __future__ import annotations

import os
import pickle
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
FOLDER = "TWILL_TEST_RUN"  # the variable that names it


def begin() -> None:
    """In the process that a run begins with, before it starts others."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="twill-tests-")


def end() -> None:
    """In the same process, when the others are done."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)


def once(name: str, make: Callable[[], T]) -> T:
    """What `make` gives, which is called in the process that asks first; outside of a run in every one."""
    if FOLDER not in os.environ:
        return make()
    path = Path(os.environ[FOLDER]) / f"{name}.pickle"
    if path.is_file():
        found: T = pickle.loads(path.read_bytes())
        return found
    made = make()
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(pickle.dumps(made))
    partial.replace(path)
    return made
