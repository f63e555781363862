"""What the read-only registers of a thread hold: PTX ISA, "Special Registers"."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from twill.codegen.verify.ptx.threads import WARP, Array, Gang
from twill.ptx.registers import constant

SPECIALS: dict[str, Callable[[Gang], Array]] = {
    "%tid.x": lambda g: (g.first + g.lane).astype(np.uint32),
    "%ntid.x": lambda g: constant(g.cta.threads, np.uint32),
    "%ctaid.x": lambda g: constant(g.cta.index[0], np.uint32),
    "%ctaid.y": lambda g: constant(g.cta.index[1], np.uint32),
    "%ctaid.z": lambda g: constant(g.cta.index[2], np.uint32),
    "%nctaid.x": lambda g: constant(g.cta.world.grid[0], np.uint32),
    "%nctaid.y": lambda g: constant(g.cta.world.grid[1], np.uint32),
    "%nctaid.z": lambda g: constant(g.cta.world.grid[2], np.uint32),
    "%laneid": lambda g: (g.lane % WARP).astype(np.uint32),
    "%warpid": lambda g: ((g.first + g.lane) // WARP).astype(np.uint32),
    "%cluster_ctarank": lambda g: constant(g.cta.rank, np.uint32),
    "%cluster_ctaid.x": lambda g: constant(g.cta.rank, np.uint32),
    "%cluster_nctarank": lambda g: constant(len(g.cta.world.ctas), np.uint32),
    "%cluster_nctaid.x": lambda g: constant(len(g.cta.world.ctas), np.uint32),
    "%nclusterid.x": lambda g: constant(g.cta.world.grid[0] // len(g.cta.world.ctas), np.uint32),
    "%clusterid.x": lambda g: constant(g.cta.index[0] // len(g.cta.world.ctas), np.uint32),
    "%lanemask_eq": lambda g: (1 << (g.lane % WARP)).astype(np.uint32),
    "%lanemask_lt": lambda g: ((1 << (g.lane % WARP)) - 1).astype(np.uint32),
    "%lanemask_le": lambda g: ((2 << (g.lane % WARP)) - 1).astype(np.uint32),
    "%lanemask_gt": lambda g: (0xFFFFFFFF - ((2 << (g.lane % WARP)) - 1)).astype(np.uint32),
    "%lanemask_ge": lambda g: (0xFFFFFFFF - ((1 << (g.lane % WARP)) - 1)).astype(np.uint32),
    "%clock": lambda g: constant(g.cta.world.blocks, np.uint32),
    "%clock64": lambda g: constant(g.cta.world.blocks, np.uint64),
    "%globaltimer": lambda g: constant(g.cta.world.blocks, np.uint64),
    "%nsmid": lambda g: constant(math.prod(g.cta.world.grid), np.uint32),  # every CTA has an SM
    "%smid": lambda g: constant(g.cta.index[0], np.uint32),
    **dict.fromkeys(("%tid.y", "%tid.z", "%cluster_ctaid.y", "%cluster_ctaid.z"), lambda g: constant(0, np.uint32)),
    **dict.fromkeys(("%ntid.y", "%ntid.z", "%cluster_nctaid.y", "%cluster_nctaid.z"), lambda g: constant(1, np.uint32)),
}  # fmt: skip
