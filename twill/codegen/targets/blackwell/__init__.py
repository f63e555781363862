"""Blackwell (B200): tcgen05, whose MMAs one thread issues into tensor memory."""

from twill.codegen.targets.base import MmaShapes, Target

# PTX ISA, "tcgen05.mma", cta_group::1: 128 or 64 rows, N in 16s up to 256, K = 16 for 16 bits; D in tensor memory.
# A warp reads the 32 lanes of tensor memory of its own quarter (PTX ISA, "tcgen05.ld").
_SHAPES = MmaShapes(
    rows=128, columns=16, depth=16, tensor=True, half=True, most_columns=256, scaled=True, integers=True
)
_UNPROVEN = "not run on hardware: code for sm_100a was checked and executed on the CPU alone"
# PTX ISA, "add", "sub", "mul", "fma": .f32x2 from sm_100 on.
TARGET = Target(
    "Blackwell", ("sm_100a",), warps=4, mma=_SHAPES, warp_rows=32, unproven=_UNPROVEN, cancels=True, packed=True
)
