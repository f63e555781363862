"""The manifest of a kernel as if it had been emitted, with everything that a manifest can have."""

from __future__ import annotations

from dataclasses import replace

from twill.manifest.document import SCHEMA, CallArgument, KernelParameter, Manifest, MapEntry, Promise, sha256
from twill.manifest.evaluate import ScalarOperation

CODE = b"the cubin"
KERNEL = Manifest(
    schema=SCHEMA, kernel="scale", spec="bf16", file="scale.py", machine="h200", architecture="sm_90a",
    function="twill_scale", threads=384, shared=1024,
    arguments=(
        CallArgument("a_desc", "descriptor", "tensordesc<bf16[128, 64]>", "bf16", (128, 64)),
        CallArgument("x", "pointer", "*fp32", "f32"),
        CallArgument("M", "number", "i32"),
        CallArgument("N", "number", "i32"),
        CallArgument("scale", "number", "fp32", optional=True, default=0.5),
        CallArgument("BLOCK", "constant", value=128),
        CallArgument("dtype", "constant", value="tl.bfloat16", optional=True, default="tl.bfloat16"),
    ),
    promises=(Promise("a_desc", 16), Promise("a_desc.stride.0", 8), Promise("x", 16), Promise("N", 16)),
    parameters=(
        KernelParameter("map", "map0", "bf16", 0), KernelParameter("map", "map1", "f32", 1),
        KernelParameter("scalar", "M", "i32", 6), KernelParameter("pointer", "x", "f32", 5),
        KernelParameter("scalar", "scale", "f32", 8), KernelParameter("scalar", "a_desc.stride.0", "i64", 3),
        *(KernelParameter("grid", f"grid{axis}", "u32", axis) for axis in range(3)),
    ),
    maps=(
        MapEntry("a_desc", "bf16", ("a_desc.shape.0", "a_desc.shape.1"), ("a_desc.stride.0", 1), 0, (64, 64), 128),
        MapEntry("x", "f32", (None, "N"), (ScalarOperation("mul", "i32", ("N", 2)), 1), "N", (64, 32), 128),
    ),
    grid=("cdiv(M, BLOCK)",), loads=("a_desc",), stores=("x",), reduces=(),
    apart=(), changes=(), strict=False, fp_fusion=True, schedule="key", cubin=sha256(CODE),
)  # fmt: skip
SIZES = [128, 128, 4, 8, 4, 8, 4, 4, 4]
# The same with a counter of program instances.
COUNTING = replace(
    KERNEL, parameters=(*KERNEL.parameters, KernelParameter("workspace", "claims", "u32", 0)), workspace=4
)
