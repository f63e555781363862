"""The instructions of Hopper as Gluon calls them: what a printer for another target has in place of this file."""

from __future__ import annotations

import re

MODULE = "triton.experimental.gluon.language.nvidia.hopper"
HOST = "triton.experimental.gluon.nvidia.hopper"
NAMES = ("fence_async_shared", "mbarrier", "tma", "warpgroup_mma", "warpgroup_mma_init", "warpgroup_mma_wait")
"""What the module has of the instructions below."""

MMA, MMA_INIT, MMA_WAIT = "warpgroup_mma", "warpgroup_mma_init", "warpgroup_mma_wait"
FENCED = "async proxy fence"  # sorts in front of the copy that Triton places one for by itself
FENCE = "fence_async_shared()"
PTX_PROXY_FENCE = re.compile(r"fence\.proxy\.async\b")
PTX_MMA = re.compile(r"wgmma\.mma_async\.\S*?(m\d+n\d+k\d+)\.\w+\.(\w+)\.\w+ \{[^}]*\}, *(\{|%)")
"""A product: its shape, the type of operand A, and `{` where that is in registers."""
PTX_WAIT = re.compile(r"wgmma\.wait_group\.sync\.aligned\s+(\d+)")
PTX_FENCE = "wgmma.fence.sync"
PTX_BUDGET = re.compile(r"setmaxnreg\.\w+\.sync\.aligned\.u32\s+(\d+)")
OPERANDS = {"bf16": "bf16", "f16": "f16", "f8e4m3": "e4m3", "f8e5m2": "e5m2"}
"""Elements of products that are printed -> what wgmma calls them. Sums of fp8 are the tensor core's own: where a kernel
asks for more exact ones, `twill.tile.rewrite.precision` has said them before."""

ATOMICS = ("add",)
"""What copies out of shared memory may do with what is there."""
PTX_ATOMIC = re.compile(r"cp\.reduce\.async\.bulk\.tensor\.\S*?\.(add|min|max)\b")

DEPTH_BITS = 256  # of a row of an operand that one instruction contracts (PTX ISA, wgmma)
ARCHITECTURES = {"sm_90a": 90}
WARPS = 4  # of a partition that has products: a warp group (PTX ISA, wgmma)
PAIR = 32  # bits of a register, in which an operand's neighbours lie
ROWS = 64  # of a product of one warp group (PTX ISA, wgmma)
BUDGET_STEP, LEAST_BUDGET = 8, 24  # registers of a thread that a partition may be left (PTX ISA, setmaxnreg)
PARTS = (0, 64, 32)
"""Registers of a thread that accumulators may take together behind their loops, in the order in which it is tried; 0:
any number."""
FIRST_BARRIER = 8
"""Number of the first named barrier: 0 and 1 are Triton's, and one for each partition behind them."""


def instruction_kind(first: int) -> str:
    """What the first half of an instruction of the machine code says: a "product", a "wait" for products, or nothing.

    The lowest nine bits are the operation (read from what nvdisasm prints, which a test compares).
    """
    operation = first & 0x1FF
    if operation == 0x1F0:  # HGMMA
        return "product"
    waits = operation == 0x1C5 and first >> 47 & 1  # WARPGROUP.DEPBAR, as WARPGROUP.ARRIVE is without the bit
    return "wait" if waits else ""


def atomic_fact(combine: str) -> str:
    """What is read back of a copy out of shared memory that combines with what is there."""
    return f"atomic {combine} out of shared memory"


def product_layout(columns: int, element_bits: int) -> str:
    """The registers of a product's result, 64 rows by as many columns as one instruction has."""
    shape = f"[16, {columns}, {DEPTH_BITS // element_bits}]"
    return f"gl.NVMMADistributedLayout(version=[3, 0], warps_per_cta=[{WARPS}, 1], instr_shape={shape})"


def instruction(columns: int, element_bits: int) -> str:
    """The shape of a product as PTX writes it."""
    return f"m{ROWS}n{columns}k{DEPTH_BITS // element_bits}"


def operand_layout(parent: str, element_bits: int) -> str:
    """The registers of operand A of such a product."""
    return f"gl.DotOperandLayout(operand_index=0, parent={parent}, k_width={PAIR // element_bits})"


def shared_layout(swizzle: int, element_bits: int, rank: int, divided: int | None = None) -> str:
    """A tile in shared memory as TMA and products know it. divided: the axis along which two CTAs have halves of it."""
    halves = f", cga_layout=[[{int(divided == 0)}, {int(divided == 1)}]]" if divided is not None else ""
    return f"gl.NVMMASharedLayout(swizzle_byte_width={swizzle}, element_bitwidth={element_bits}, rank={rank}{halves})"
