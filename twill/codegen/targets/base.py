"""What a target is, and which one a machine has.

A target is a folder of this room whose `__init__.py` defines `TARGET`. It is found by its folder: nothing else lists
targets. A machine file names an architecture (`sm_90a`); the target that can emit for it is the machine's.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from twill import exc
from twill.machine.description import Machine

ROOM = "twill.codegen.targets"


@dataclass(frozen=True)
class Target:
    """name: as people call the GPUs. architectures: that its code is compiled for, as machine files name them."""

    name: str
    architectures: tuple[str, ...]


@cache
def targets(room: str = ROOM) -> tuple[Target, ...]:
    """Every target, by the folders of `room`."""
    return tuple(_found(room))


def _found(room: str) -> Iterator[Target]:
    for module in pkgutil.iter_modules(import_module(room).__path__, f"{room}."):
        if module.ispkg:
            target = import_module(module.name).TARGET
            assert isinstance(target, Target), f"{module.name}.TARGET"
            yield target


def target_of(machine: Machine, room: str = ROOM) -> Target:
    """The target that emits for a machine. Raises NoTarget, NotForEmission."""
    for target in targets(room):
        if machine.architecture in target.architectures and machine.emitting:
            return target
    known = [f"{target.name} ({', '.join(target.architectures)})" for target in targets(room)]
    raise exc.NoTarget(machine.name, machine.architecture, known)
