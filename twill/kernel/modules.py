"""Files and the modules that they are, found out without importing anything."""

from __future__ import annotations

import importlib.machinery
import re
import sys
from pathlib import Path

MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")


def file_of(name: str) -> str:
    """The file that a user means: a path, or an importable module (`package.module`), of which nothing is executed.

    A name that is neither is given back as it is.
    """
    if Path(name).exists() or not MODULE.fullmatch(name):
        return name
    places: list[str] | None = [str(Path.cwd()), *sys.path]
    head = ""
    spec = None
    for part in name.split("."):
        head = f"{head}.{part}" if head else part
        spec = importlib.machinery.PathFinder.find_spec(head, places)
        if spec is None:
            return name
        places = list(spec.submodule_search_locations or [])
    return spec.origin if spec is not None and spec.origin is not None and spec.origin.endswith(".py") else name


def module_of(path: str) -> tuple[str, str]:
    """The dotted name of a file in its package, and the directory that the package lies in; ("", its directory) for a
    file beside which there is no `__init__.py`.
    """
    file = Path(path)
    parts = [] if file.stem == "__init__" else [file.stem]
    directory = file.parent
    while (directory / "__init__.py").is_file() and directory.name.isidentifier():
        parts.insert(0, directory.name)
        directory = directory.parent
    packaged = directory != file.parent and all(part.isidentifier() for part in parts)
    return (".".join(parts), str(directory)) if packaged else ("", str(file.parent))


def is_installed(path: str) -> bool:
    """Whether a file is of an installed package, and not the user's own."""
    return "site-packages" in path or "dist-packages" in path
