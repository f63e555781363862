"""Steps of the first hour on a B200 (`tests.gpu.blackwell`), in the order of what they rely on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

PAIR = "-pair"  # behind the name of a kernel of two CTAs that multiply together
MULTICAST = "-multicast"  # the same, of those that load together, and multiply each for itself
DYNAMIC = "-dynamic"  # behind that of a kernel whose CTAs take over the places of others


def attention(rows: int, keys: int, depth: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What a signature and the constants are instead of the sidecar's."""
    tiles = {"q_desc": rows, "o_desc": rows, "k_desc": keys, "v_desc": keys}
    signature = (f"{name}=tensordesc<bf16[{each},{depth}]>" for name, each in tiles.items())
    return tuple(signature), (f"BLOCK_M={rows}", f"BLOCK_N={keys}")


def backward(queries: int, keys: int, depth: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same of attention backward."""
    rows = {"q_desc": queries, "do_desc": queries, "k_desc": keys, "v_desc": keys, "dk_desc": keys, "dv_desc": keys}
    types = [f"{name}=tensordesc<bf16[{each},{depth}]>" for name, each in rows.items()]
    signature = (*types, f"dq_desc=tensordesc<fp32[{queries},{depth}]>")
    return signature, (f"HEAD_DIM={depth}", f"BLOCK_M={queries}", f"BLOCK_N={keys}")


def any_length(rows: int, depth: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """The same of attention at any length."""
    names = ("q_desc", "k_desc", "v_desc", "o_desc")
    signature = (f"{name}=tensordesc<bf16[1,{rows},{depth}]>" for name in names)
    return tuple(signature), (f"BLOCK_M={rows}", f"BLOCK_N={rows}")


TILES = {
    "attention-full@256": attention(256, 128, 128), "attention-causal@256": attention(256, 128, 128),
    "attention-full-d256@32": attention(128, 32, 256), "attention-causal-d256@32": attention(128, 32, 256),
    "attention_any_length-full@d128": any_length(128, 128), "attention_any_length-causal@d128": any_length(128, 128),
    "attention_backward-full@d64": backward(64, 128, 64), "attention_backward-causal@d64": backward(64, 128, 64),
}  # fmt: skip
"""Kernels of other tiles than their sidecars have."""


@dataclass(frozen=True)
class Step:
    """kernel: example and specialization, PAIR, MULTICAST or DYNAMIC behind it; "" for none. sizes: of its launch. new:
    what no step before relied on. look: where, if it fails. kind: `right`: equal to the reference, 100 launches with
    equal bits; `placed`: every element where it belongs; `times`: beside PyTorch; `loads`: code only."""

    name: str
    kernel: str
    sizes: Mapping[str, int]
    new: str
    look: str
    kind: str = "right"


STEPS = (
    Step(
        "board", "", {}, "the GPU is an sm_100 and its driver takes the code",
        "nvidia-smi (a driver for CUDA 13 or newer); cuobjdump --dump-sass DIR/gemm-bf16/kernel.cubin shows sm_100a",
        "loads",
    ),
    Step(
        "rows", "layer_norm-bf16", {"M": 4, "N": 8208}, "the TMA, mbarriers and named barriers, without tensor memory",
        "what Hopper and Blackwell share: twill/codegen/print/cuda/ptx.cuh; the registers that setmaxnreg asks for",
    ),
    Step(
        "one MMA", "gemm-bf16", {"M": 128, "N": 128, "K": 64},
        "tcgen05.alloc, descriptors of A, B and the instruction, one commit, tcgen05.ld",
        "rows that moved: a descriptor's stride, or a warp's quarter of the lanes; columns that moved: the leading"
        " offset, or the form of tcgen05.ld; zeros: the instruction descriptor; no end: the commit's barrier", "placed",
    ),
    Step(
        "steps of K", "gemm-bf16", {"M": 128, "N": 128, "K": 528}, "rings that come round, slots given back by commits",
        "phases: twill/codegen/print/cuda/print_tcgen05.py beside DIR/gemm-bf16/program.txt",
    ),
    Step(
        "ragged", "gemm-bf16", {"M": 144, "N": 144, "K": 528}, "boxes that end outside of their tensors",
        "tensor maps, and the mask of the store",
    ),
    Step(
        "instances", "gemm-bf16", {"M": 4096, "N": 4096, "K": 128}, "accumulators in turns, an epilogue beside MMAs",
        "the ring of accumulators: tcgen05.wait::ld, its fence, the arrival that gives a slot back, in that order",
    ),
    Step(
        "e4m3", "gemm_fp8-e4m3", {"M": 144, "N": 144, "K": 528}, "kind::f8f6f4 with 32 of K an instruction",
        "the formats in the instruction descriptor",
    ),
    Step(
        "tf32", "format_kernels-tf32", {"M": 144, "N": 140, "K": 268}, "kind::tf32 with 8 of K an instruction",
        "the formats in the instruction descriptor; right to ten digits alone is as it should be",
    ),
    Step(
        "int8", "format_kernels-int8", {"M": 144, "N": 140, "K": 1040}, "kind::i8 with sums of i32, exactly",
        "the formats in the instruction descriptor: s8, and s32 of the sums",
    ),
    Step(
        "mxfp8", "gemm_mxfp8-e4m3", {"M": 144, "N": 144, "K": 848},
        "tcgen05.cp of scales, kind::mxf8f6f4 with scales in tensor memory, tensor maps of five axes",
        "all wrong by powers of two: scales of other rows or blocks, the byte that the instruction descriptor names"
        " (twill/codegen/print/cuda/print_scales.py); wrong in three quarters of the rows: warpx4; wrong now and then:"
        " the order of copies and products",
    ),
    Step(
        "nvfp4", "gemm_nvfp4-nvfp4", {"M": 144, "N": 144, "K": 1312},
        "kind::mxf4nvf4: two elements a byte, scales of type e4m3",
        "zeros or NaN: the type of scales in the instruction descriptor; else the halves of bytes",
    ),
    Step(
        "mxfp4", "gemm_nvfp4-mxfp4", {"M": 144, "N": 144, "K": 1312}, "kind::mxf4: two scales an instruction",
        "the first byte of two that the instruction descriptor names: 0 or 2",
    ),
    Step(
        "nvfp4, 256 columns", "gemm_nvfp4-nvfp4-wide", {"M": 144, "N": 272, "K": 1312}, "scales of 256 rows of B",
        "columns from 128 on: the four columns of tensor memory behind those of the first 128 rows",
    ),
    Step(
        "e4m3 x e2m1", "format_kernels-fp8-fp4", {"M": 144, "N": 144, "K": 1152},
        "kind::mxf8f6f4 with types that differ, a tensor map that unpacks 4 bits (16U4_ALIGN16B)",
        "no end: the bytes that such a copy counts (half of those in shared memory); wrong numbers: the type of B in"
        " the instruction descriptor, where 16 elements lie in 16 bytes",
    ),
    Step(
        "scales by threads", "format_kernels-plain-mxfp8", {"M": 144, "N": 144, "K": 848},
        "scales that threads load and put into chunks, with a proxy fence before tcgen05.cp",
        "all wrong by powers of two: scale_place (twill/codegen/print/cuda/tcgen05_scales.cuh); wrong now and then: the"
        " proxy fence, the four arrivals of the warps that load",
    ),
    Step(
        "scales by threads, nvfp4", "format_kernels-plain-nvfp4", {"M": 144, "N": 144, "K": 1312},
        "16 scales of a row in a tile, of type e4m3", "the step before, and nvfp4",
    ),
    Step(
        "epilogue", "gemm_bias_gelu-bf16", {"M": 144, "N": 144, "K": 272}, "a vector of columns beside an accumulator",
        "the layout that tcgen05.ld gives",
    ),
    Step(
        "pointers", "gemm_pointers-bf16", {"M": 144, "N": 144, "K": 272}, "tensor maps of pointers and strides",
        "DIR/gemm_pointers-bf16/manifest.json",
    ),
    Step(
        "operands by threads", "format_kernels-by-threads", {"M": 135, "N": 131, "K": 397},
        "tiles that threads load and store where the TMA would leave them, with a proxy fence before tcgen05.mma",
        "elements that moved by 16 bytes: the swizzle of twill/codegen/print/cuda/tile.cuh; wrong now and then: the"
        " proxy fence, the four arrivals of the warps that load",
    ),
    Step(
        "parts", "gemm_bias_gelu-bf16-wide", {"M": 144, "N": 272, "K": 272},
        "256 columns an MMA, all 512 columns of tensor memory, an accumulator read in parts of columns",
        "right columns in each part of 64: the column that is added to the address of tcgen05.ld",
    ),
    Step(
        "256 columns", "gemm-bf16-wide", {"M": 144, "N": 272, "K": 528}, "256 columns an MMA, and a plain epilogue",
        "columns from 128 on: the second box of B",
    ),
    Step(
        "e4m3, 256 columns", "gemm_fp8-e4m3-wide", {"M": 144, "N": 272, "K": 784}, "both of the steps before",
        "the steps before",
    ),
    Step(
        "mxfp8, 256 columns", "gemm_mxfp8-e4m3-wide", {"M": 144, "N": 272, "K": 848}, "scales of 256 rows of B, mxfp8",
        "columns from 128 on: the second copy of B's scales",
    ),
    Step(
        "tf32, 256 columns", "format_kernels-tf32-wide", {"M": 144, "N": 268, "K": 204}, "tf32 and 256 columns",
        "the steps before",
    ),
    Step(
        "int8, 256 columns", "format_kernels-int8-scaled", {"M": 144, "N": 272, "K": 592},
        "sums of i32 that threads convert and scale", "the steps before",
    ),
    Step(
        "e2m1 x e5m2, 256 columns", "format_kernels-fp4-fp8-wide", {"M": 144, "N": 272, "K": 640},
        "A of 4 bits beside B of 8", "the step before it, with A and B exchanged",
    ),
    Step(
        "scales by threads, 256 columns", "format_kernels-plain-mxfp8-wide", {"M": 144, "N": 272, "K": 592},
        "scales of 256 rows by threads, e5m2", "columns from 128 on: the second chunk of B's scales",
    ),
    Step(
        "parts, by threads", "gemm_pointers-bf16-wide", {"M": 144, "N": 272, "K": 272}, "parts stored without the TMA",
        "DIR/gemm_pointers-bf16-wide/program.txt",
    ),
    Step(
        "two accumulators", "dual_gemm-bf16", {"M": 144, "N": 144, "K": 336}, "two MMAs that read one tile of A",
        "columns from 256 on are the second accumulator's",
    ),
    Step(
        "pair", "gemm_bias_gelu-bf16-pair", {"M": 272, "N": 144, "K": 592},
        "clusters, cta_group::2: an MMA of 256 rows in two CTAs, their bytes on one barrier, arrivals in both",
        "no end: the barrier that tma_load_pair counts on, the mask of tensor_commit_pair; wrong columns: halves of B"
        " that changed places; wrong rows from 128 on: the rows of the instruction descriptor",
    ),
    Step(
        "pair, 512 columns", "dual_gemm-bf16-pair", {"M": 272, "N": 144, "K": 400}, "all of tensor memory of both CTAs",
        "what the step before does not do: two accumulators",
    ),
    Step(
        "pairs of one tile", "gemm-bf16-pair", {"M": 272, "N": 144, "K": 136},
        "pairs whose instances multiply by different tiles, each with a turn", "tiles of the second CTA alone: turns",
    ),
    Step(
        "pair, 256 columns", "gemm_bias_gelu-bf16-wide-pair", {"M": 400, "N": 272, "K": 592},
        "parts of columns in both CTAs", "columns from 128 on: halves of B, 128 columns each",
    ),
    Step(
        "pair, tf32", "format_kernels-tf32-pair", {"M": 272, "N": 140, "K": 268}, "tf32 by pairs", "the steps before",
    ),
    Step(
        "pair, int8", "format_kernels-int8-pair", {"M": 272, "N": 140, "K": 1040}, "int8 by pairs", "the steps before",
    ),
    Step(
        "pair with scales", "gemm_mxfp8-e4m3-pair", {"M": 272, "N": 144, "K": 848},
        "tcgen05.cp in both CTAs, each with the scales of its rows of A and all of B's",
        "rows from 128 on: scales of the second CTA's A; everything: whether B's scales are in both",
    ),
    Step(
        "pair, e4m3 x e2m1", "format_kernels-fp8-fp4-pair", {"M": 272, "N": 144, "K": 1152},
        "halves of a B of 4 bits", "the steps before",
    ),
    Step(
        "pair with scales of 256 columns", "gemm_nvfp4-nvfp4-wide-pair", {"M": 400, "N": 264, "K": 1312},
        "scales of 256 rows of B in both CTAs, nvfp4", "the step before, and nvfp4 with 256 columns",
    ),
    Step(
        "multicast", "gemm_bias_gelu-bf16-multicast", {"M": 272, "N": 144, "K": 592},
        "halves of B that each CTA sends to both, slots that go back to both by one commit",
        "no end: the mask of tensor_commit_multicast; half of the columns wrong: the sender of a box",
    ),
    Step(
        "multicast of one tile", "gemm-bf16-multicast", {"M": 272, "N": 144, "K": 528},
        "instances that want different tiles of B, each with a turn", "tiles of the second CTA alone: turns",
    ),
    Step(
        "scheduler", "gemm-bf16-dynamic", {"M": 4096, "N": 4096, "K": 128},
        "clusterlaunchcontrol: a launch has a CTA for each tile, and those that run take over the others",
        "tiles that are missing: where the answer lies, and its 16 bytes on the barrier; no end: the barrier's parity",
    ),
    Step(
        "one block of keys", "attention-full", {"Z": 1, "H": 1, "N_CTX": 128},
        "tcgen05.st, P over S, an operand A in tensor memory, registers that move between warp groups (setmaxnreg)",
        "rows that moved in O: the form of tcgen05.st (16x128b for P, 16x256b for O); O of another scale: who stores"
        " the first O; no end: the budget of the warp group of those that issue",
    ),
    Step(
        "blocks of keys", "attention-full", {"Z": 1, "H": 2, "N_CTX": 640},
        "O rescaled in tensor memory between MMAs, S in turns with P over it",
        "wrong from the second block on: the arrival of correction behind tcgen05.wait::st, the commit it waits for"
        "; DIR/attention-full/program.txt says who waits for whom",
    ),
    Step(
        "causal", "attention-causal", {"Z": 1, "H": 2, "N_CTX": 640}, "masks of S, unequal instances",
        "masked elements that are not: the columns of a thread",
    ),
    Step(
        "D = 64", "attention-full-d64", {"Z": 1, "H": 2, "N_CTX": 640}, "boxes of 64 columns", "columns of O",
    ),
    Step(
        "D = 64, causal", "attention-causal-d64", {"Z": 1, "H": 2, "N_CTX": 640}, "the same with a mask",
        "the step before, and causal",
    ),
    Step(
        "D = 256", "attention-full-d256@32", {"Z": 1, "H": 2, "N_CTX": 640},
        "O of 256 columns, read in parts behind the loop", "columns of O in 64s",
    ),
    Step(
        "D = 256, causal", "attention-causal-d256@32", {"Z": 1, "H": 2, "N_CTX": 640}, "the same with a mask",
        "the step before, and causal",
    ),
    Step(
        "attention by pointers", "attention_pointers-full", {"Z": 1, "H": 2, "N_CTX": 656},
        "O and the last rows stored by threads", "rows from 640 on: their masks",
    ),
    Step(
        "any length", "attention_any_length-full@d128", {"Z": 1, "H": 2, "N_CTX": 657},
        "boxes of three axes that end within a head, keys that do not exist", "keys from 640 on: their mask",
    ),
    Step(
        "any length, causal", "attention_any_length-causal@d128", {"Z": 1, "H": 2, "N_CTX": 657},
        "the same with a mask", "the step before, and causal",
    ),
    Step(
        "last keys first", "attention_descending-causal", {"Z": 1, "H": 2, "N_CTX": 656},
        "masks in the first iterations of an instance", "the step `causal`",
    ),
    Step(
        "window", "sliding_window_attention-bf16", {"Z": 1, "H": 2, "N_CTX": 2048},
        "loops that begin behind a window, tanh by exponentials, masks at both ends", "which keys a row sees",
    ),
    Step(
        "two row blocks", "attention-full@256", {"Z": 1, "H": 2, "N_CTX": 1024},
        "two softmax groups, one correction, P through shared memory, O out through the slot of P",
        "rows from 128 on: the second softmax group; no end: budgets of 192, 64 and 64 registers, which are all",
    ),
    Step(
        "two row blocks, causal", "attention-causal@256", {"Z": 1, "H": 2, "N_CTX": 1024}, "the same with a mask",
        "the step before, and causal",
    ),
    Step(
        "64 rows", "linear_attention-bf16", {"Z": 1, "H": 1, "T": 64, "HEAD_V": 64},
        "results of 64 rows, in 16 lanes of each quarter; products that add to one another; a computed operand B",
        "rows that moved in 16s: which lanes a product of 64 rows writes; O without its first part: the order of MMAs",
    ),
    Step(
        "state", "linear_attention-bf16", {"Z": 1, "H": 2, "T": 640, "HEAD_V": 128},
        "a sum in tensor memory that threads read in every iteration",
        "wrong from the second chunk on: the arrival of those who read the state, the first product that overwrites it",
    ),
    Step(
        "backward", "attention_backward-full", {"Z": 1, "H": 2, "N_CTX": 640},
        "an operand that two products read, one of them transposed; reductions of the TMA; all columns by five rings",
        "dV wrong: P over S; dK and dQ wrong: dS in shared memory; dQ alone: its 64 rows, then the reductions",
    ),
    Step(
        "backward, causal", "attention_backward-causal", {"Z": 1, "H": 2, "N_CTX": 640},
        "unequal instances with reductions", "the first block of queries of an instance",
    ),
    Step(
        "backward, D = 64", "attention_backward-full@d64", {"Z": 1, "H": 2, "N_CTX": 640},
        "dS through tensor memory and shared memory, an accumulator of 64 columns", "the step `backward`",
    ),
    Step(
        "backward, D = 64, causal", "attention_backward-causal@d64", {"Z": 1, "H": 2, "N_CTX": 640},
        "the same with a mask", "the step before, and causal",
    ),
    Step(
        "blocks of keys, multicast", "attention-full-multicast", {"Z": 1, "H": 2, "N_CTX": 640},
        "K and V that two blocks of queries load together", "the steps `blocks of keys` and `multicast`",
    ),
    Step(
        "backward, multicast", "attention_backward-full-multicast", {"Z": 1, "H": 2, "N_CTX": 640},
        "Q and dO that two blocks of keys load together", "the steps `backward` and `multicast`",
    ),
    Step(
        "large", "gemm-bf16", {"M": 8192, "N": 8192, "K": 1024}, "all SMs, with many instances each",
        "a race that hides: compute-sanitizer --tool racecheck python -m tests.gpu.blackwell case DIR ragged",
    ),
    Step(
        "times", "gemm-bf16", {"M": 8192, "N": 8192, "K": 8192}, "nothing",
        "the TMA, which the machine file predicts to take 512 cycles for 64 of K, twice the tensor core", "times",
    ),
)  # fmt: skip
