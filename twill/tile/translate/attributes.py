"""What an operation of Triton's IR says about itself, and who reads it: nothing that counts is passed over.

An attribute is either read by the operation's rule, or known to leave what the operation computes as it is. Any other
one, of a later version of Triton, refuses the kernel: what it says would be lost.
"""

from __future__ import annotations

from collections.abc import Mapping

from twill.tile.mlir import Python, RawOp

# Read by the rules of `twill.tile.translate`: operations, memory, and its loops.
READ: Mapping[str, frozenset[str]] = {
    name: frozenset(attributes.split())
    for name, attributes in {
        "arith.cmpf": "predicate", "arith.cmpi": "predicate", "arith.constant": "value",
        "tt.atomic_rmw": "atomic_rmw_op sem scope", "tt.atomic_cas": "sem scope",
        "tt.clampf": "propagateNan", "tt.descriptor_reduce": "kind",
        "tt.dot": "inputPrecision maxNumImpreciseAcc", "tt.expand_dims": "axis", "tt.extern_elementwise": "symbol",
        "tt.dot_scaled": "a_elem_type b_elem_type lhs_k_pack rhs_k_pack",
        "tt.elementwise_inline_asm": "asm_string constraints packed_element",
        "tt.fp_to_fp": "rounding", "tt.gather": "axis", "tt.get_num_programs": "axis", "tt.get_program_id": "axis",
        "tt.load": "isVolatile", "tt.make_range": "start end", "tt.make_tensor_descriptor": "padding",
        "tt.reduce": "axis", "tt.scan": "axis reverse", "tt.trans": "order",
    }.items()
}  # fmt: skip

# Permissions that nobody has to use (to reassociate, to let an integer overflow be anything, to reorder elements that
# are summed), hints about caches and pipelines, and what is said twice.
HARMLESS = frozenset({
    "fastmath", "overflowFlags", "exact", "nonNeg", "allow_reorder", "efficient_layout", "noinline",
    "cache", "cachePolicy", "evict", "operandSegmentSizes", "resultSegmentSizes", "pure", "libname",
    "libpath", "isSigned", "fastMath",
})  # fmt: skip

# Attributes that say what is meant anyway where they have this value.
USUAL: Mapping[str, frozenset[Python]] = {
    "boundaryCheck": frozenset({()}),  # of pointers to blocks, which Triton has rewritten by now
    "roundingmode": frozenset({0}),  # to nearest even
}
HINTS = ("tt.", "ttg.", "llvm.")  # discardable attributes: divisibility, contiguity, numbers of stages, loop hints


def unread(op: RawOp) -> str:
    """The name of an attribute that nothing reads and that may mean something; "" if there is none."""
    read = READ.get(op.name, frozenset())
    for name, value in op.attributes.items():
        if name in read or name in HARMLESS or name.startswith(HINTS):
            continue
        if name not in USUAL or value not in USUAL[name]:
            return name
    return ""
