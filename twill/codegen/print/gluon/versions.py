"""What versions of Triton call the parts of Gluon that Twill uses: the one place that knows it.

Triton 3.6 to 3.9 compile modules under the same names (`COMPILING`); of the names that a module itself uses some were
changed (`RENAMED`), so the module asks for the new one first and runs on all of them.
"""

from __future__ import annotations

OLDEST, NEWEST = "3.6", "3.9"
OLDEST_BLACKWELL = "3.8"  # whose partitions and products in tensor memory modules are printed for

COMPILING = (
    ("triton", "compile"),
    ("triton.backends.compiler", "GPUTarget"),
    ("triton.experimental.gluon", "jit"),
    ("triton.experimental.gluon._runtime", "GluonASTSource"),
    ("triton.experimental.gluon.language", "warp_specialize"),
    ("triton.experimental.gluon.language.nvidia.hopper", "warpgroup_mma"),
)
"""Modules and names without which nothing is compiled."""

RENAMED = {
    "tma_load": ("tma", "async_load", "async_copy_global_to_shared"),
    "tma_store": ("tma", "async_store", "async_copy_shared_to_global"),
    "tensor_memory_as": ("tensor_memory_descriptor", "reinterpret", "_reinterpret"),
}
"""Name in an emitted module -> where it is found, what newer versions of Triton call it, and older ones."""

LONG = 16  # characters of a place, of which a line has room for two

ELEMENTS = {"f16": "fp16", "f32": "fp32", "f64": "fp64", "f8e4m3": "fp8e4nv", "f8e5m2": "fp8e5"}
"""Elements that a kernel's signature spells otherwise than Triton's IR does."""


def settled(name: str) -> str:
    """The line of a module that gives a renamed function its one name."""
    place, new, old = RENAMED[name]
    if len(place) > LONG:
        return f'{name} = getattr({place}, "{new}", None) or {place}.{old}'
    return f'{name} = {place}.{new} if hasattr({place}, "{new}") else {place}.{old}'
