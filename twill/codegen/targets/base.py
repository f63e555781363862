"""What a target is, and which one a machine has.

Lowering asks a target what a warp group is and which products it has; it knows no instruction by itself.

A target is a folder of this room whose `__init__.py` defines `TARGET`. It is found by its folder: nothing else lists
targets. A machine file names an architecture; the target that can emit for it is the machine's.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module

from twill import exc
from twill.codegen.warp.layout import WARP_ROWS
from twill.graph.dependence import SCALED, DependenceGraph, Mma
from twill.graph.nodes import PACKED
from twill.graph.work import BITS
from twill.machine.description import Machine

ROOM = "twill.codegen.targets"
LANES = 32  # threads of a warp (PTX ISA)


@dataclass(frozen=True)
class MmaShapes:
    """The products that a warp group of a target can be given. rows, columns: of the result, of which its tile has
    multiples; padded: or fewer rows, multiples of it, of which the rest is computed and thrown away (0: never), in at
    most padded_columns columns (of one instruction). depth: elements of 16 bits that one instruction contracts, of
    which operand A in registers has multiples. tensor: one thread issues them, and their results, of just so many rows,
    are in tensor memory, from which other warp groups read them. half: or of half as many, in the first half of each
    warp's lanes. most_columns: of a result (0: as many as registers hold). scaled: products with scales of blocks, too.
    integers: of int8, too, summed up as i32."""

    rows: int
    columns: int
    depth: int
    padded: int = 0
    padded_columns: int = 0
    tensor: bool = False
    half: bool = False
    most_columns: int = 0
    scaled: bool = False
    integers: bool = False


@dataclass(frozen=True)
class Target:
    """name: as people call the GPUs. architectures: that its code is compiled for, as machine files name them. warps:
    of a warp group. mma: the products that it has; None if it has none that code is made for. warp_rows: neighbouring
    rows of a product's result that one warp has (`twill.codegen.warp.layout`). unproven: what nobody has seen of its
    kernels, which is said wherever one is emitted; "" if all is well. cancels: whether a CTA can take over the place in
    the grid of one that has not started. packed: whether one instruction computes two f32. early: whether
    launches begin before those in front of them have ended, and wait for them themselves."""

    name: str
    architectures: tuple[str, ...]
    warps: int = 4
    mma: MmaShapes | None = None
    warp_rows: int = WARP_ROWS
    unproven: str = ""
    cancels: bool = False
    packed: bool = False
    early: bool = False

    @property
    def threads(self) -> int:
        """Threads of a warp group."""
        return self.warps * LANES

    @property
    def sizes(self) -> str:
        """Which results of products a warp group can have, in words."""
        if self.mma is None:
            return "no matrix multiply"
        if self.mma.tensor:
            return f"{self._row_words} rows, columns in {self.mma.columns}s up to {self.mma.most_columns}"
        fewer = (
            f" or {self.mma.padded}s below (of at most {self.mma.padded_columns} columns)" if self.mma.padded else ""
        )
        return f"rows in {self.mma.rows}s{fewer}, columns in {self.mma.columns}s"

    @property
    def hint(self) -> str:
        """What to write where a product is none of these."""
        if self.mma is None:
            return "another machine (`--machine`)"
        if self.mma.tensor:
            return f"tiles whose results have {self._row_words} rows and at most {self.mma.most_columns} columns"
        return "other tile sizes"

    def has_result(self, rows: int, columns: int) -> bool:
        """Whether a warp group can have a matrix of that size as the result of a product."""
        return (
            self.mma is not None
            and not columns % self.mma.columns
            and self.has_rows(rows)
            and (not self.mma.most_columns or columns <= self.mma.most_columns)
        )

    @property
    def has_tensor_memory(self) -> bool:
        """Whether products are made by one thread, in tensor memory."""
        return self.mma is not None and self.mma.tensor

    def has_rows(self, rows: int) -> bool:
        """Whether a matrix of so many rows is one of those results."""
        if self.mma is not None and self.mma.tensor:
            return rows in self.tensor_rows
        return self.mma is not None and (not rows % self.mma.rows or self.is_padded(rows))

    @property
    def tensor_rows(self) -> tuple[int, ...]:
        """Rows that results in tensor memory can have, the most first."""
        if self.mma is None or not self.mma.tensor:
            return ()
        return (self.mma.rows, self.mma.rows // 2) if self.mma.half else (self.mma.rows,)

    @property
    def _row_words(self) -> str:
        return " or ".join(map(str, self.tensor_rows))

    def warp_rows_of(self, rows: int) -> int:
        """Neighbouring rows that a warp has of a matrix of so many, which lies as the result of a product."""
        return rows // self.warps if self.has_tensor_memory and self.has_rows(rows) else self.warp_rows

    def is_padded(self, rows: int) -> bool:
        """Whether a warp group computes more rows than the result has."""
        return self.mma is not None and rows < self.mma.rows and bool(self.mma.padded) and not rows % self.mma.padded

    def has_vector(self, extent: int, axis: int) -> bool:
        """Whether a vector of that extent is what is left of such a matrix when `axis` is taken away."""
        return self.mma is not None and (self.has_rows(extent) if axis == 1 else not extent % self.mma.columns)

    def may_have(self, rows: int, columns: int) -> bool:
        """Whether that is such a matrix, or may become some by row blocks."""
        if self.mma is not None and self.is_padded(rows) and columns > self.mma.padded_columns:
            return False
        blocks = self.mma is not None and self.mma.tensor and not rows % self.mma.rows
        return self.has_result(self.mma.rows if blocks and self.mma is not None else rows, columns)

    def refuse(self, graph: DependenceGraph) -> None:
        """Raises UnsupportedInKernel, with the line and the reason, for a product that the target does not have."""
        for node in (node for region in graph.regions for node in region.nodes):
            if node.mma is not None and node.mma.dtype in SCALED and not (self.mma is not None and self.mma.scaled):
                raise exc.UnsupportedInKernel(
                    f"`{node.name or 'tl.dot_scaled'}` is a product with scales of blocks, and {self.name} has none",
                    file=graph.file,
                    line=node.line,
                    hint="a loop over blocks, `acc += tl.dot(a, b) * of_a[:, None] * of_b[None, :]`, with one scale of "
                    "a row in each iteration, as float32; or another machine (`--machine b200`)",
                )
            if node.mma is not None and not self.may_have(node.mma.m, node.mma.n):
                raise exc.UnsupportedInKernel(
                    f"`{node.name or 'tl.dot'}` is a product {_spelled(node.mma)}, and {self.name} has {self.sizes}",
                    file=graph.file,
                    line=node.line,
                    hint=self.hint,
                )
            if node.mma is not None and self.has_tensor_memory and node.mma.k % self.contracted(node.mma.dtype):
                step = self.contracted(node.mma.dtype)
                raise exc.UnsupportedInKernel(
                    f"`{node.name or 'tl.dot'}` is a product over {node.mma.k} of {node.mma.dtype}, and {self.name} has"
                    f" multiples of {step}",
                    file=graph.file,
                    line=node.line,
                    hint=f"tiles whose K is a multiple of {step}",
                )

    def contracted(self, dtype: str) -> int:
        """Elements of a type, as graphs name it, that one instruction contracts."""
        assert self.mma is not None
        return self.mma.depth * 16 // BITS.get(dtype, 4 if dtype in PACKED else 8)


def _spelled(mma: Mma) -> str:
    """of 128 x 128 x 64 in bf16."""
    return f"of {mma.m} x {mma.n} x {mma.k} in {mma.dtype}"


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


def target_for(architecture: str, room: str = ROOM) -> Target | None:
    """The target whose code is compiled for an architecture, as machine files name it."""
    return next((target for target in targets(room) if architecture in target.architectures), None)


def target_of(machine: Machine, room: str = ROOM) -> Target:
    """The target that emits for a machine. Raises NoTarget, NotForEmission."""
    target = target_for(machine.architecture, room)
    if target is not None and machine.emitting:
        return target
    known = [f"{target.name} ({', '.join(target.architectures)})" for target in targets(room)]
    meant = f"{machine.architecture}a"
    raise exc.NoTarget(machine.name, machine.architecture, known, meant if target_for(meant, room) is not None else "")
