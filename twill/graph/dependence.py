"""The dependence graph: what a kernel's loops do, with nothing about hardware.

Grammar::

    DependenceGraph ::= kernel spec digest Dim* Region*          (regions in program order)
    Region          ::= "loop" trip Input* Node* Edge*           (one counted loop)
                      | "straight" Input* Node* Edge*            (code between, before, after loops)
    Node            ::= op name line dims Work result? transport?
    Edge            ::= src dst distance kind operand            (src, dst in the same region)
    Input           ::= a tile made before the region that the region reads and does not change

A node is a *tile instruction*: one MMA, one load or store of a tile, or one fused
chain of elementwise operations and reductions. Views and address arithmetic have been folded
into their users. Numbers count work for the kernel's own tile, before it is split or fused
along a data-parallel dimension; `twill.graph.cost` does that for a machine.

Lines and names are for people: `DependenceGraph.canonical_shape` leaves them out, so that two
spellings of one kernel have one key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from twill.document import Document
from twill.tile.trip import Trip

if TYPE_CHECKING:
    import networkx as nx

Space = Literal["register", "shared", "tmem"]
EdgeKind = Literal["value", "memory", "anti"]
NodeKind = Literal["mma", "elementwise", "load", "store", "reduce_store"]
Transport = Literal["tma", "copy", "plain"]
SCALED = ("mxf8e4m3", "mxf8e5m2", "mxf4", "nvf4")
"""Types of operands of products with scales of blocks, as machine files name them."""


class Dim(Document):
    """A class of tile dimensions that dataflow forces to be the same index (e.g. a GEMM's m).

    `parallel`: never contracted, reduced or scanned, so tiles may be split along it; or only summed
    over by sums that are added to memory, of which each part may add its own (`twill.graph.dims`).
    `fusable`: moreover its origin is `size * s + const` for a scalar s of the launch grid that
    no loop bound and no other dimension depends on, so neighbouring program instances may be
    fused along it.
    """

    id: int
    name: str
    size: int
    parallel: bool
    fusable: bool


class Tile(Document):
    """The type of a tile: extent and dimension class of each axis; `dtype` as in "f16"."""

    shape: tuple[int, ...]
    dims: tuple[int, ...]  # Dim.id of each axis, -1 for an axis of extent 1
    dtype: str  # f32 f16 bf16 f8e4m3 f8e5m2 i1 i8 i16 i32 i64


class Count(Document):
    """`elements` applications of one operation class, e.g. ("exp2.f32", 16384), per tile."""

    operation: str  # a key of the machine file's [operations] table
    elements: int


class Mma(Document):
    """A MMA A[m,k] B[k,n] (+ C[m,n]); extents and the dimension class of each.

    a_transposed, b_transposed: the operand is the transpose of the tile that its producer makes
    (a loaded tile lies as in memory, so a transposed B is K-major if its rows are contiguous).
    """

    m: int
    n: int
    k: int
    m_dim: int
    n_dim: int
    k_dim: int
    dtype: str  # of A and B
    accumulator: str  # of C and of the result
    a_transposed: bool = False
    b_transposed: bool = False


class Node(Document):
    """One tile instruction. `dims` is its iteration space (a reduction includes the reduced axis).

    `name` is the Python variable that the kernel gives the result, `line` its source line.
    `operations` lists the fused operations in order, for people ("mul sub exp2").
    For loads and stores, `bytes` counts one tile and `transport` how it can be fed: "tma" when
    strides, alignment and bounds allow a tensor map, "copy" for asynchronous 16-byte copies,
    "plain" otherwise; `transport_reason` says why not "tma"; `varies` lists the indices of the
    loop and grid symbols the address depends on (for people).
    """

    id: int
    kind: NodeKind
    name: str
    line: int
    operations: tuple[str, ...]
    dims: tuple[int, ...]
    result: Tile | None
    counts: tuple[Count, ...] = ()
    mma: Mma | None = None
    bytes: int = 0
    transport: Transport | None = None
    transport_reason: str = ""
    tensor: str = ""  # name of the kernel argument that a load or store addresses

    @property
    def op_text(self) -> str:
        """The operation in a word or a few, for tables: "exp2", "mul add", "tma load", "dot"."""
        if self.kind in ("load", "store", "reduce_store"):
            return f"{self.transport} {self.kind.replace('_', ' ')}"
        return " ".join(self.operations) or self.kind


class Edge(Document):
    """`dst` of iteration i depends on `src` of iteration i - distance (δ in the paper).

    kind "value": dst reads src's result, as operand ("a", "b", "c" of an MMA; "in" else;
    "data" for the tile that a store writes, "mask" for a mask that bounds do not say, "address" for
    a scalar that an address needs). "memory": ordered through global memory.
    "anti": dst overwrites what src reads.
    """

    src: int
    dst: int
    distance: int
    kind: EdgeKind
    operand: str = "in"


class Carried(Document):
    """A value that enters the loop as `init` and is replaced each iteration by node `producer`.

    Its readers are the value edges out of `producer` with distance >= 1. `result_of` names the
    (region, node) whose value initialises it, or None for a constant.
    """

    name: str
    producer: int
    tile: Tile
    result_of: tuple[int, int] | None


class Input(Document):
    """A tile made before the region by (region, node) and read by `readers` (node, operand)."""

    name: str
    tile: Tile
    made_by: tuple[int, int]
    readers: tuple[tuple[int, str], ...]


class Region(Document):
    """A counted loop or a straight-line stretch between loops, in program order."""

    id: int
    kind: Literal["loop", "straight"]
    line: int
    trip: Trip | None
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    carried: tuple[Carried, ...] = ()
    inputs: tuple[Input, ...] = ()


class DependenceGraph(Document):
    """All regions of one specialized kernel. See the grammar at the top of this file."""

    schema_version: Literal["twill.graph/1"] = Field(default="twill.graph/1", alias="schema")
    kernel: str
    spec: str
    file: str
    dims: tuple[Dim, ...]
    regions: tuple[Region, ...]

    def to_networkx(self) -> nx.MultiDiGraph:
        """All regions in one graph; see `twill.graph.networks`."""
        from twill.graph.networks import to_networkx

        return to_networkx(self)

    def homeless(self) -> DependenceGraph:
        """The graph with the base name of its file in place of the path. The key does not change."""
        return self.model_copy(update={"file": self.file.replace("\\", "/").rpartition("/")[2]})
