"""What versions of Triton call the parts of Gluon that Twill uses, as far as a compilation asks.

Triton 3.6 to 3.9 compile modules under the same names (`COMPILING`). Of the names that a module itself uses some were
changed: the file that modules share (`twill_gluon.py`) asks for the new one first, so that they run on all.
"""

from __future__ import annotations

OLDEST, NEWEST = "3.6", "3.9"
OLDEST_BLACKWELL = "3.8"  # whose partitions and products in tensor memory modules are printed for
OLDEST_ATOMICS = "3.8"  # whose copies out of shared memory may add to what is there
OLDEST_PAIRS = "3.9"
"""Where both CTAs of a pair have started before either allocates tensor memory: before, nothing makes one wait for the
other (triton-lang/triton, pull request 10735)."""

COMPILING = (
    ("triton", "compile"),
    ("triton.backends.compiler", "GPUTarget"),
    ("triton.experimental.gluon", "jit"),
    ("triton.experimental.gluon._runtime", "GluonASTSource"),
    ("triton.experimental.gluon.language", "warp_specialize"),
    ("triton.experimental.gluon.language.nvidia.hopper", "warpgroup_mma"),
)
"""Modules and names without which nothing is compiled."""

ELEMENTS = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5"}
"""Elements that a kernel's signature spells otherwise than Triton's IR does."""
