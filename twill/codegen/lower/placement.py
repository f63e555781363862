"""Where tiles are in shared memory: the rings of a plan. What `twill.codegen.lower.place` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from twill.codegen.lower.load_order import LoadOrder
from twill.codegen.lower.multicast import Sharing
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.store_order import StoreOrder
from twill.codegen.lower.task import Place
from twill.codegen.lower.tensor_use import TensorUse
from twill.codegen.warp.program import Aref, Buffer


@dataclass(frozen=True)
class Ring:
    """A tile that travels through shared memory. key: the place that fills it; held: made in straight-line code and
    read by whole loops."""

    key: Place
    aref: Aref
    buffer: Buffer
    held: bool
    readers: tuple[Place, ...]
    multiplied: bool  # some reader is a product
    use: TensorUse | None = None  # of an accumulator that a product makes there, in tensor memory
    scales: Buffer | None = None  # in tensor memory, of a ring of scales


@dataclass(frozen=True)
class Placement:
    """Rings by the place that fills them, with their final depth. panels: of a tile that is stored, which have a buffer
    each (0: `twill.codegen.lower.staging.hosts`). sharing: between the CTAs of a cluster, if there are clusters.
    buffers, arefs: of all rings, by number. bytes: of shared memory that they take. orders: where groups wait for what
    others have stored; arriving: for what others load where they store."""

    plan: LoweringPlan
    sharing: Sharing | None
    by_place: Mapping[Place, Ring]
    panels: int
    buffers: tuple[Buffer, ...]
    arefs: tuple[Aref, ...]
    bytes: int
    orders: tuple[StoreOrder, ...] = ()
    arriving: Mapping[Place, tuple[LoadOrder, ...]] = field(default_factory=dict)
