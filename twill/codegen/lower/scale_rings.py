"""Columns of tensor memory for scales, behind those of accumulators: for each slot of a ring of scales as many.

How deep such a ring is, shared memory says; so columns are given when that is known.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from twill import exc
from twill.codegen.lower.block_scales import Scales, scales_of
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.placement import Ring
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.task import Place
from twill.codegen.lower.tensor_rings import most_columns


@dataclass
class ScaleColumns:
    """tiles: what is loaded as scales, by its place."""

    plan: LoweringPlan
    memory: SharedMemoryPlan
    tiles: dict[Place, Scales] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.plan.tiles.target.has_tensor_memory:
            found = ((place, scales_of(self.plan, task)) for place, task in sorted(self.plan.tasks.items()))
            self.tiles = {place: scales for place, scales in found if scales is not None}

    def taken(self, depths: Mapping[Place, int]) -> int:
        """Columns of rings of these depths."""
        return sum(scales.columns * depths[place] for place, scales in self.tiles.items())

    @property
    def first(self) -> int:
        """The first column behind accumulators."""
        return max((b.offset + b.slots * b.stride for b in self.memory.buffers if b.tensor), default=0)

    def fits(self, rings: Mapping[Place, Ring], depths: Mapping[int, int]) -> bool:
        """Whether there are columns for rings of these depths, by aref."""
        if not self.tiles:
            return True
        known = {place: depths.get(rings[place].aref.id, rings[place].aref.depth) for place in self.tiles}
        return self.first + self.taken(known) <= self.most

    @property
    def lanes(self) -> int:
        """Of tensor memory."""
        assert self.plan.tiles.target.mma is not None
        return self.plan.tiles.target.mma.rows

    @property
    def most(self) -> int:
        """Columns of tensor memory."""
        return most_columns(self.plan.machine, self.lanes)

    def lay(self, rings: dict[Place, Ring]) -> None:
        """Gives rings of scales their slots in tensor memory. Raises UnsupportedInKernel."""
        if not self.fits(rings, {}):
            depths = {place: rings[place].aref.depth for place in self.tiles}
            raise exc.UnsupportedInKernel(
                f"accumulators of {self.first} columns and scales of {self.taken(depths)} are more than tensor memory "
                f"has, {self.most}", file=self.plan.wired.program.file, hint="smaller tiles",
            )  # fmt: skip
        first, made = self.first, dict[int, Ring]()
        for place, scales in self.tiles.items():
            ring = rings[place]
            if ring.aref.id not in made:  # loads of several loops may fill one ring
                name = f"{ring.buffer.name} copied"
                slots, element = ring.aref.depth, ring.buffer.element
                buffer = self.memory.tensor_buffer(
                    name, scales.shape(self.lanes), element, slots, first, scales.columns
                )
                first += slots * scales.columns
                aref = replace(ring.aref, buffers=(*ring.aref.buffers, buffer.id))
                self.memory.arefs[aref.id] = aref
                made[aref.id] = replace(ring, aref=aref, scales=buffer)
            known = made[ring.aref.id]
            rings[place] = replace(ring, aref=known.aref, scales=known.scales)
