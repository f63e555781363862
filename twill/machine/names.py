"""Which machines are described, and where: all that can be said without reading their files in full."""

from __future__ import annotations

import importlib.resources
import tomllib
from pathlib import Path


def machine_directory() -> Path:
    """Where the described machines are: `machines/` of the checkout that this code is of, or the package
    `twill.machines`."""
    checkout = Path(__file__).resolve().parents[2] / "machines"
    if (checkout.parent / "pyproject.toml").is_file() and checkout.is_dir():
        return checkout
    try:
        package = importlib.resources.files("twill.machines")
    except ModuleNotFoundError:
        return checkout
    return package if isinstance(package, Path) else checkout


def list_machines() -> tuple[str, ...]:
    """Names of the described machines, sorted."""
    return tuple(sorted(path.stem for path in machine_directory().glob("*.toml")))


def machine_title(name: str) -> str:
    """The title of a described machine. The rest of its file is not looked at."""
    return str(tomllib.loads((machine_directory() / f"{name}.toml").read_text(encoding="utf-8"))["title"])
