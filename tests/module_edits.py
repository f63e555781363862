"""Edits of modules of Gluon, of one place each, and modules of small tiles to edit.

Triton's compilers follow every byte of shared memory through every statement, so a module of an example's tiles takes
them seconds. What an edit does wrong, a module of small tiles shows as well, whose rings come round in fewer steps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from tests.as_far_as_ptx import as_far_as_ptx
from tests.conftest import ROOT
from tests.narrow import with_room
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import GluonEmission, compile_module, emit_gluon
from twill.codegen.lower.dynamic_scheduler import Order
from twill.codegen.print.gluon.shared import FILE
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed


@dataclass(frozen=True)
class SmallGemm:
    """`examples/gemm.py` of tiles of A of rows x depth and of B of depth x columns. gelu: with that and a bias. slots:
    of a ring, where its copies take no longer. blocks, cluster: as a solve is asked for them."""

    machine: str
    rows: int
    columns: int
    depth: int
    gelu: bool = False
    slots: int = 2
    blocks: int | None = None
    cluster: int = 1
    order: Order = "static"


@cache
def extracted(one: SmallGemm) -> Extracted:
    """The kernel."""
    tiles = {"a": (one.rows, one.depth), "b": (one.depth, one.columns), "c": (one.rows, one.columns)}
    types = [f"{name}_desc=tensordesc<bf16[{','.join(map(str, tile))}]>" for name, tile in tiles.items()]
    constants = [f"BLOCK_M={one.rows}", f"BLOCK_N={one.columns}", f"BLOCK_K={one.depth}"]
    file = str(ROOT / "examples" / ("gemm_bias_gelu.py" if one.gelu else "gemm.py"))
    return extract(file, "bf16", types, constants, Allowed(conditional=False), one.order)


@cache
def machine(one: SmallGemm) -> Machine:
    """Its machine, as far as rings go."""
    on = load_machine(one.machine)
    tensor = on.capacity("tmem") if any(memory.name == "tmem" for memory in on.memories) else 0
    return with_room(on, one.slots, on.emitting.spare_shared.whole, tensor)


@cache
def emitted(one: SmallGemm) -> GluonEmission:
    """Its module."""
    options = SolveOptions.model_validate({"fuse": False, "blocks": one.blocks, "cluster": one.cluster})
    return emit_gluon(extracted(one), machine(one), lambda graph, on: solve(graph, on, options))


def written(files: Mapping[str, str], before: str, after: str, folder: Path) -> str:
    """The files with an edit of one place; the name of the one that has it."""
    (name,) = [name for name in (FILE, *files) if before in files[name] and name.endswith(".py")][:1]
    for file, content in files.items():
        (folder / file).write_text(content.replace(before, after, 1) if file == name else content, encoding="utf-8")
    return name


def edited(right: GluonEmission, before: str, after: str, folder: Path) -> GluonEmission:
    """The module with an edit of one place of it, or of the file that modules share, compiled as far as PTX."""
    written(right.files(), before, after, folder)
    path = folder / right.name
    module = replace(right.module, text=path.read_text(encoding="utf-8"))
    with as_far_as_ptx():
        compiled = compile_module(path, module.entry, right.signature, right.asked)
    return replace(right, module=module, compiled=compiled)
