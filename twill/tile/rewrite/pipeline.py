"""The rewrites that a tile program goes through before its dependence graph is made, in order.

A rewrite takes a tile program and gives one that computes the same: in real numbers, and in floating point as closely
as `twill.codegen.numerics` lists. What a rewrite needs is what an earlier one, or `twill.tile.access.resolve`,
promises; the order below is the only one that is run. Each is a function of a file of this room.

`twill emit --passes` prints this table, `--dump-after PASS` the program behind one of them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

from twill.kernel.specialization import Specialization
from twill.tile.program import Split, TileProgram
from twill.tile.rewrite.carried_loads import copy_carried_loads
from twill.tile.rewrite.computed_operands import transpose_computed
from twill.tile.rewrite.conditional_rescale import rescale_conditionally
from twill.tile.rewrite.constant_operands import compute_constants
from twill.tile.rewrite.loop_fusion import fuse_loops
from twill.tile.rewrite.precision import split_mmas
from twill.tile.rewrite.predicate import predicate_masks
from twill.tile.rewrite.rearrange import rearrange_tiles
from twill.tile.rewrite.scale_chunks import read_chunks
from twill.tile.rewrite.split_k import split_k
from twill.tile.rewrite.uniform_factors import collect_factors
from twill.tile.rewrite.unpacked_operands import unpack_operands
from twill.tile.rewrite.vector_factors import multiply_vectors
from twill.tile.rewrite.vector_products import sum_vector_products
from twill.tile.rewrite.vector_sides import separate_sides
from twill.tile.rewrite.whole_reductions import reduce_axis_by_axis

EXTRACTED = "extracted"  # what the program is called in front of the first rewrite
Watcher = Callable[[str, TileProgram], None]
Rewriting = Literal["none", "masks", "all"]
"""How much is rewritten that need not be. all: everything below; masks: everything but loop-fusion; none: neither of
loop-fusion, uniform-factors, vector-factors and predicated-masks."""
DEFAULT: Rewriting = "all"


@dataclass(frozen=True)
class Allowed:
    """What a user allows. conditional: running maxima may be left behind (`conditional-rescale`). transposed: products
    may be transposed (`computed-operands`). split: asks for `split-k`."""

    rewriting: Rewriting = DEFAULT
    conditional: bool = True
    transposed: bool = True
    split: Split | None = None


EVERYTHING = Allowed()


def in_parts(allowed: Allowed, specialization: Specialization, parts: int | None = None) -> Allowed:
    """With K in so many parts (None: as the specialization says), along the axis behind those of its launch grid."""
    parts = specialization.split if parts is None else parts
    return allowed if parts < 2 else replace(allowed, split=Split(max(1, len(specialization.grid)), parts))


@dataclass(frozen=True)
class Rewrite:
    """needs: what must hold of the program it gets. promises: what holds of the one it gives, beside its meaning; it
    gives the program itself where it finds nothing to do. applies: whether it is run."""

    name: str
    needs: str
    promises: str
    run: Callable[[TileProgram], TileProgram]
    applies: Callable[[TileProgram, Allowed], bool] = lambda program, allowed: True


def may_round_elsewhere(program: TileProgram, allowed: Allowed) -> bool:
    """Whether roundings of products and sums may move."""
    return allowed.rewriting != "none" and program.fp_fusion and not program.strict


PIPELINE = (
    Rewrite("loop-fusion", "accesses are resolved to tiles",
            "consecutive loops of which each goes on with the last are one; what some iterations need alone is guarded",
            fuse_loops, lambda program, allowed: allowed.rewriting == "all"),
    Rewrite("uniform-factors", "rounding of products and sums may move (neither strict nor without fp fusion)",
            "factors and summands that a tile has in common are applied once, where that saves instructions",
            collect_factors, may_round_elsewhere),
    Rewrite("vector-factors", "rounding of products may move (neither strict nor without fp fusion)",
            "factors that a tile has in common multiply a vector that is spread over it",
            multiply_vectors, may_round_elsewhere),
    Rewrite("predicated-masks", "loops that go on with one another are fused",
            "masks that only the first or last iterations need are computed in those alone",
            predicate_masks, lambda program, allowed: allowed.rewriting != "none"),
    Rewrite("carried-loads", "accesses are resolved to tiles",
            "no loop carries on a tile that it loads, but a copy of it", copy_carried_loads),
    Rewrite("scale-chunks", "views of any kind",
            "products with block scales read scales that are loaded in chunks as they are in memory", read_chunks),
    Rewrite("unpacked-operands", "accesses are resolved to tiles",
            "elements of 4 bits that are multiplied by others of 8 are loaded with a place of 8 bits for each",
            unpack_operands),
    Rewrite("vector-products", "MMAs of any shape that Triton has",
            "no result of an MMA has one row or one column", sum_vector_products),
    Rewrite("whole-reductions", "views of any kind",
            "no tile is flattened to be reduced to one number", reduce_axis_by_axis),
    Rewrite("rearrangements", "views of any kind",
            "views leave out or repeat axes, or exchange those of a matrix; an operation moves elements else",
            rearrange_tiles),
    Rewrite("mma-precision", "MMAs of any type and precision that Triton has",
            "only MMAs of types and operands that tensor cores multiply, with accumulators of f32", split_mmas),
    Rewrite("constant-operands", "MMAs are those of the tensor core",
            "no operand of an MMA is a constant, or one number everywhere", compute_constants),
    Rewrite("computed-operands", "MMAs are those of the tensor core",
            "no MMA of a loop has a computed tile on the right and a loaded one on the left, nor two loaded ones whose"
            " columns alone have as many rows as an instruction", transpose_computed,
            lambda program, allowed: allowed.transposed),
    Rewrite("vector-sides", "MMAs are those of the tensor core",
            "no vector that is cheap to make twice is used along both rows and columns", separate_sides),
    Rewrite("conditional-rescale", "elementwise work is where it stays; rounding may move (not strict)",
            "running maxima that are only shifts move only when they must; factors that are often 1 are marked",
            rescale_conditionally, lambda program, allowed: allowed.conditional and not program.strict),
    Rewrite("split-k", "one loop, whose only carried value is the accumulator of an MMA, and stores behind it",
            "program instances along one more axis of the launch grid have a part of its iterations each; the last one"
            " adds their sums in order, and alone stores", split_k),
)  # fmt: skip


def rewrite(
    program: TileProgram, allowed: Allowed = EVERYTHING, watch: Watcher = lambda name, made: None
) -> TileProgram:
    """The program behind the last rewrite; its `original` is the one given, where a rewrite changed anything. watch:
    gets the program given (as "extracted"), then each rewrite's name and the program behind it.

    Raises NestedLoop, UnsupportedMma.
    """
    watch(EXTRACTED, program)
    made = program if allowed.split is None else replace(program, split=allowed.split)
    for step in PIPELINE:
        if step.applies(made, allowed):
            made = step.run(made)
        watch(step.name, made)
    return made if made is program else replace(made, original=program.original or program)
