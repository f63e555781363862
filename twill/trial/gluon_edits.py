"""A module of Gluon that somebody may have edited, held to the schedule that it was emitted with.

`gluon.json` beside the module has what the warp program asks for. The module is compiled by the installed Triton, and
what Triton made of it is read back.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from twill import exc
from twill.codegen.compile.gluon.read_back import ModuleDifference, differences
from twill.codegen.compile.gluon.triton import CompiledModule, compile_kernel, load
from twill.codegen.gluon import MANIFEST, MOST_LOCAL, SCHEMA
from twill.codegen.print.gluon.facts import BUDGETS, ModuleFact
from twill.codegen.print.gluon.shared import FILE, shared_text
from twill.manifest.document import sha256


@dataclass(frozen=True)
class Edited:
    """edited: whether the file, or the one that modules share, is another than was emitted. facts: how many were
    compared. ptx: what Triton made of it."""

    kernel: str
    schedule: str
    edited: bool
    facts: int
    differences: tuple[ModuleDifference, ...]
    ptx: str


def compared(path: Path) -> Edited:
    """What is left of the schedule in a module. Errors: ModuleNotReadable (no module, no manifest beside it, no
    Python), NoGluon, GluonRejected."""
    try:
        text = path.read_text(encoding="utf-8")
        place = path.parent / FILE
        beside = place.read_text(encoding="utf-8") if place.exists() else shared_text()
        said: dict[str, Any] = json.loads((path.parent / MANIFEST).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise exc.ModuleNotReadable(str(path), str(error)) from None
    if not isinstance(said, dict) or said.get("schema") != SCHEMA:
        raise exc.ModuleNotReadable(str(path), f"{MANIFEST} is not of {SCHEMA}")
    facts = [ModuleFact(line, fact, kernel) for line, fact, kernel in said["facts"]]
    for file, content in ((path, text), (place, beside)):
        try:
            compile(content, str(file), "exec")
        except SyntaxError as error:
            raise exc.ModuleNotReadable(str(file), f"line {error.lineno}: {error.msg}") from None
    try:
        function = getattr(load(path), said["entry"])
    except exc.TwillError:
        raise
    except Exception as error:
        raise exc.ModuleNotReadable(str(path), f"{type(error).__name__}: {error}") from None
    asked = (said["multiples"], said["capability"], said["fused"], said["ctas"])
    made = compile_kernel(function, dict(said["signature"]), *asked)
    edited = (sha256(text.encode()), sha256(beside.encode())) != (said["module"], said["beside"])
    found = (*differences(text, made.ptx, facts, beside), *_without_room(made, facts))
    return Edited(said["kernel"], said["schedule"], edited, len(facts), found, made.ptx)


def _without_room(made: CompiledModule, facts: list[ModuleFact]) -> Iterator[ModuleDifference]:
    """That partitions have too few registers, told where they are budgeted."""
    line = next((fact.line for fact in facts if fact.said.startswith(BUDGETS)), 1)
    if made.local > MOST_LOCAL:
        most = f"at most {MOST_LOCAL} bytes a thread in local memory"
        yield ModuleDifference(line, most, f"{made.local}: registers are spilled", 0)
    if made.waits:
        yield ModuleDifference(line, "no waits for products but the module's", f"{made.waits} that ptxas adds", 0)
