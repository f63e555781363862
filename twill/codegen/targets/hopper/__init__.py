"""Hopper (H100, H200): wgmma, TMA, mbarriers, setmaxnreg."""

from twill.codegen.targets.base import MmaShapes, Target

# A warp has 16 rows of each 64 (PTX ISA, "Register Fragments").
# PTX ISA, "wgmma.mma_async": m64nNkK by the four warps of a warp group, N in 8s up to 256, K = 16 of 16 bits.
_MMA = MmaShapes(rows=64, columns=8, depth=16, padded=16, padded_columns=256)
TARGET = Target("Hopper", ("sm_90a",), warps=4, mma=_MMA, early=True)
