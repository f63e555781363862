"""What the tile program has no place for: each operation in Triton's words, and what to write instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

from twill.exc import DataDependentControlFlow, NestedLoop, UnsupportedOperation
from twill.tile.mlir import RawBlock, RawOp, RawValue

BACKWARD = ("a loop with an exit inside", "`for i in range(n)` with a trip count known before the loop, and masks")
CONTROL_FLOW = {
    "scf.while": (
        "a `while` loop whose condition depends on tiles, or on what the loop does to memory",
        "a condition of scalars and of numbers from tensors that the kernel does not write, or `for i in range(n)`",
    ),
    "cf.cond_br": BACKWARD,
    "cf.br": BACKWARD,
}
LOCK = (
    "a `while` loop that waits for what an atomic operation gives, as for a lock",
    "a loop that does nothing but wait, in front of the tiles, and nothing with tiles in it",
)
TAKES = (
    "a `while` loop with tiles in it whose next turn depends on what an atomic operation gives",
    "a tile for each program of the launch grid, or `for i in range(n)`",
)

# MLIR operation -> (Triton's words, hint).
REFUSALS: dict[str, tuple[str, str]] = {
    "tt.print": ("tl.device_print", "leave the debugging output out"),
    "tt.assert": ("tl.device_assert", "tl.assume, or a check on the host"),
    "tt.cat": ("tl.cat", "tl.join and tl.reshape, which keep the order of the elements"),
    "tt.dot": (
        "tl.dot of more than 16 matrices at once, or with another precision than tf32, tf32x3, bf16x3, bf16x6 or ieee",
        "tl.dot of matrices with one of these precisions, with the batch in the launch grid",
    ),
    "tt.make_tensor_descriptor": ("a tensor descriptor with this padding", 'padding_option="zero" or "nan"'),
    "tt.descriptor_reduce": ("this atomic of a tensor descriptor", "atomic_add, atomic_min, atomic_max, and, or, xor"),
    "tt.descriptor_gather": ("gather through a tensor descriptor", "a block of rows that lie next to each other"),
    "tt.descriptor_scatter": ("scatter through a tensor descriptor", "a block of rows that lie next to each other"),
    "tt.map_elementwise": ("tl.map_elementwise", "operations on whole tiles, with tl.where"),
    "tt.mulhiui": ("tl.umulhi of 64-bit integers", "products of their halves, as tl.int64"),
    "tt.int_to_ptr": (
        "a pointer made from an integer that is not loaded from one tensor of addresses, or a tile of such pointers",
        "`tl.load(addresses + i).to(tl.pointer_type(...))`, one element type for each tensor of addresses",
    ),
    "tt.ptr_to_int": ("the integer value of a pointer", "offsets from a pointer argument"),
    "tt.call": ("a call of a function that calls itself", "a loop"),
    "tt.load": ("a volatile tl.load", "tl.load without volatile=True"),
    "arith.constant": ("a constant tile with differing elements", "tl.arange and arithmetic"),
    "arith.cmpf": ("a test for NaN", "`x != x`"),
    "tt.bitcast": (
        "a pointer of one type used as one of another, but for i32 and f32, i64 and f64, i1 and i8",
        "a load and then .to(dtype, bitcast=True)",
    ),
    "tt.fp_to_fp": (
        'fp_downcast_rounding="rtz" other than from float32 to bfloat16, float16 or float8e5',
        'a conversion to float32 before it, or "rtne", which saturates in fp8',
    ),
    "tt.make_tensor_ptr": ("tl.make_block_ptr", "a tensor descriptor (tl.make_tensor_descriptor)"),
}  # fmt: skip

REDUCTION = "a function of arithmetic and tl.where"


def refuse(file: str, op: RawOp) -> NoReturn:
    """The error for an operation that has no translation."""
    if op.name in CONTROL_FLOW:
        what, hint = CONTROL_FLOW[op.name]
        if op.name == "scf.while":
            what, hint = LOCK if _atomic(op.regions[0]) else TAKES if _atomic(op.regions[1]) else (what, hint)
        raise DataDependentControlFlow(f"data-dependent control flow: {what}", file=file, line=op.line, hint=hint)
    if op.name in ("tt.reduce", "tt.scan"):
        word = "reduction" if op.name == "tt.reduce" else "scan"
        raise UnsupportedOperation(
            f"unsupported {word}: its function has control flow",
            file=file,
            line=op.line,
            hint=REDUCTION,
        )
    if op.name == "tt.extern_elementwise":
        symbol = op.attributes.get("symbol")
        raise UnsupportedOperation(
            f"unsupported function of libdevice: {symbol}", file=file, line=op.line, hint="tl.math, or arithmetic"
        )
    what, hint = REFUSALS.get(op.name, (op.name, "the operations of Twill's vocabulary (twill/tile/vocabulary.py)"))
    raise UnsupportedOperation(f"unsupported operation: {what}", file=file, line=op.line, hint=hint)


def _atomic(blocks: Sequence[RawBlock]) -> bool:
    """Whether an operation of a part of a loop is atomic."""
    return any(inner.name.startswith("tt.atomic") for block in blocks for inner in block.operations)


def refuse_choice(file: str, op: RawOp, chosen: RawValue) -> NoReturn:
    """The error for a branch whose sides give different pointers."""
    what = f"`{chosen.name}`" if chosen.name else "a pointer"
    raise DataDependentControlFlow(
        f"data-dependent control flow: an `if` chooses which tensor {what} points into",
        file=file,
        line=op.line,
        hint="the loads and stores themselves under the `if`, or an offset that it chooses",
    )


def refuse_attribute(file: str, op: RawOp, name: str) -> NoReturn:
    """The error for an operation that says more about itself than Twill understands."""
    raise UnsupportedOperation(
        f"unsupported operation: {op.name} with {name} = {op.attributes[name]}",
        file=file,
        line=op.line,
        hint="the operation without it, or a version of Triton between 3.6 and 3.9",
    )


def refuse_order(file: str, op: RawOp, what: str, instead: str) -> NoReturn:
    """The error for an atomic operation whose order or scope would be lost."""
    hint = f"{instead}; other programs see everything that a kernel wrote when it has ended"
    raise UnsupportedOperation(f"unsupported operation: {what}", file=file, line=op.line, hint=hint)


def refuse_loop(file: str, op: RawOp) -> NoReturn:
    """The error for a loop in a loop."""
    hint = "the outer loop in the launch grid, one loop over both ranges, or tl.static_range for a short inner one"
    raise NestedLoop("a loop inside a loop", file=file, line=op.line, hint=hint)
