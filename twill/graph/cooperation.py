"""Which cooperations of row blocks are worth a solve: splits and fusions along parallel dimensions.

A tile is split along a data-parallel dimension, or neighbouring program instances are fused along
it, so that every row block is a multiple of the tensor core instruction's rows. The machine caps
the number of blocks: each needs a share of its compute warp groups' registers.

Where no dimension is the rows of every MMA (a loop that carries a state, say), instances may be
fused along one that is the columns of every MMA it takes part in: what they have in common is
then made once, and each has columns of its own.
"""

from __future__ import annotations

from twill.graph.by_columns import by_columns
from twill.graph.costed import Cooperation
from twill.graph.dependence import DependenceGraph, Dim, Region, Space
from twill.machine.description import Machine

MAX_FUSE = 3


def cooperations(graph: DependenceGraph, region: Region, machine: Machine) -> tuple[Cooperation, ...]:
    """Every cooperation of `region` that could fit, fewest blocks first; never empty."""
    spaces = operand_spaces(region, machine)
    plain = [Cooperation(dim="", split=1, fuse=1, operand_a=space) for space in spaces]
    if machine.mma is None or not any(n.mma for n in region.nodes):
        return tuple(plain)
    rows = machine.mma.row_block
    most = 2 * sum(c.max_groups for c in machine.contexts if c.name == "compute")
    found = list(plain)
    for dim in row_dims(graph, region):
        for split in range(1, dim.size // rows + 1):
            if dim.size % (split * rows):
                continue
            for fuse in range(1, MAX_FUSE + 1 if dim.fusable else 2):
                if 1 < split * fuse <= most:
                    found += [Cooperation(dim=dim.name, split=split, fuse=fuse, operand_a=s) for s in spaces]
    if found == plain:
        wide = (dim for dim in column_dims(graph, region) if dim.fusable)
        found += [
            Cooperation(dim=dim.name, split=1, fuse=fuse, operand_a=space)
            for dim in wide for fuse in range(2, min(MAX_FUSE, most) + 1) for space in spaces
        ]  # fmt: skip
    found += [in_columns(one) for one in found if may_be_in_columns(one, graph, region, machine)]
    return tuple(sorted(found, key=lambda c: (c.blocks, c.fuse, c.dim, not c.columns)))


def in_columns(one: Cooperation) -> Cooperation:
    """The cooperation, in which what joins its row blocks is made in parts of its columns, a share each."""
    return one.model_copy(update={"columns": True})


def may_be_in_columns(one: Cooperation, graph: DependenceGraph, region: Region, machine: Machine) -> bool:
    """Whether that can be: of tiles that are split, not of instances that are fused, where the tensor core adds up in
    registers."""
    if machine.mma is None or machine.mma.accumulator != "register" or one.fuse > 1 or not one.dim:
        return False
    return bool(by_columns(graph, region, next(dim.id for dim in graph.dims if dim.name == one.dim), one.split))


def row_dims(graph: DependenceGraph, region: Region) -> tuple[Dim, ...]:
    """Parallel dimensions that are the rows (m) of every MMA of the region they take part in."""
    mmas = [n.mma for n in region.nodes if n.mma]
    found = []
    for dim in graph.dims:
        uses = [m for m in mmas if dim.id in (m.m_dim, m.n_dim, m.k_dim)]
        if dim.parallel and any(m.m_dim == dim.id for m in uses) and all(m.n_dim != dim.id for m in uses):
            found.append(dim)
    return tuple(found)


def column_dims(graph: DependenceGraph, region: Region) -> tuple[Dim, ...]:
    """Parallel dimensions that are the columns (n) of every MMA of the region they take part in."""
    mmas = [n.mma for n in region.nodes if n.mma]
    found = []
    for dim in graph.dims:
        uses = [m for m in mmas if dim.id in (m.m_dim, m.n_dim, m.k_dim)]
        if dim.parallel and uses and all(m.n_dim == dim.id for m in uses):
            found.append(dim)
    return tuple(found)


def operand_spaces(region: Region, machine: Machine) -> tuple[Space, ...]:
    """Where operand A of an MMA may be put when it was just computed; only the machine's
    first choice if the region computes none, or if that choice is to leave it in registers."""
    if machine.mma is None:
        return ("register",)
    preferred = machine.mma.a_spaces
    computed = {n.id for n in region.nodes if n.kind in ("elementwise", "mma")}
    mmas = {n.id for n in region.nodes if n.kind == "mma"}
    needed = any(e.kind == "value" and e.operand == "a" and e.src in computed and e.dst in mmas for e in region.edges)
    if not needed or preferred[0] == "register":
        return preferred[:1]
    return preferred
