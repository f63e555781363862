"""The file that modules share, `twill_gluon.py`: it is emitted beside each of them.

It has what would stand in every module: rings, the instructions that Gluon has no words for, the launcher, and the
names in which versions of Triton differ.
"""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

NAME = "twill_gluon"
FILE = f"{NAME}.py"
PATH = Path(__file__).parent / FILE
RING = "TileRing"  # the class
MAKERS = (
    "ring",
    "ring_beside",
    "ring_of_pair",
    "tensor_ring",
    "tensor_ring_of_pair",
    "tensor_ring_over",
)  # the functions that make one


@cache
def shared_text() -> str:
    """The file."""
    return PATH.read_text(encoding="utf-8")


@cache
def shared_names() -> frozenset[str]:
    """What a module may import of it."""
    tree = ast.parse(shared_text())
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.ClassDef)}
    given = {node.targets[0] for node in tree.body if isinstance(node, ast.Assign)}
    return frozenset(defined | {target.id for target in given if isinstance(target, ast.Name)})
