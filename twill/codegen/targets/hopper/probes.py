"""Every microbenchmark, by name. Steps are what its kernel in microbenchmarks/ does in a round (see there)."""

from __future__ import annotations

from collections.abc import Iterator

from twill.codegen.targets.probe import Probe

WARPS, CHAINS, WIDE, CHAIN = 16, 8, 32, 128  # pipes.cu: warps and chains of _wide; instructions unrolled
KIB = 1024
TENSOR_ROW = 128  # bytes of a row of a box of tensors.cu

# Kernel of pipes.cu: instructions of a step, and what they are.
PIPES = {
    "fma_f32": (1, "FFMA"), "add_f32": (1, "FADD"), "mul_f32": (1, "FMUL"), "max_f32": (1, "FMNMX"),
    "select_f32": (2, "FSETP and SEL"), "shift_i32": (1, "SHF"), "max_i32": (2, "VIMNMX twice"), "mad_i32": (1, "IMAD"),
    "exp2_f32": (1, "MUFU.EX2"), "log2_fast_f32": (1, "MUFU.LG2"), "rsqrt_f32": (1, "MUFU.RSQ"),
    "sqrt_f32": (1, "MUFU.SQRT"), "tanh_fast_f32": (1, "MUFU.TANH"), "floor_f32": (1, "FRND.FLOOR"),
    "f32_to_i32": (1, "F2I"), "i32_to_f32": (1, "I2FP"), "pack_bf16": (1, "F2FP.BF16"), "pack_f16": (1, "F2FP.F16"),
    "pack_e4m3": (2, "F2FP.E4M3 twice, one word"), "fma_f16": (1, "HFMA2"), "fma_bf16": (1, "HFMA2.BF16"),
    "max_f16": (2, "HMNMX2 twice"), "shuffle": (1, "SHFL.BFLY"), "fma_f64": (1, "DFMA"), "add_f64": (1, "DADD"),
    "f64_to_f32": (1, "F2F.F32.F64"),
}  # fmt: skip

COLUMNS = (8, 16, 32, 64, 128, 256)  # n of the wgmma shapes
CROSSED = (2, 4, 8, 16, 32)  # KiB that cross with a turn
MMA_PROBES = (("bf16", 16), ("e4m3", 32))  # operand types in every shape, with the k of one instruction
OTHER_MMA_PROBES = (("f16", 16), ("tf32", 8), ("e5m2", 32))  # in the two widest


def pipes() -> Iterator[Probe]:
    """Throughput of a warp's instruction by a full SM, latency of one."""
    for kernel, (instructions, what) in PIPES.items():
        name = kernel.replace("_", ".")
        steps = WIDE * CHAINS * WARPS * instructions
        yield Probe(
            f"{name}.throughput", "pipes.cu", f"{kernel}_wide", f"{what}: a warp's, by 16 warps of 8 chains", steps,
            (4, 36), threads=32 * WARPS,
        )  # fmt: skip
        yield Probe(
            f"{name}.latency", "pipes.cu", f"{kernel}_chain", f"{what}: one warp's chain", CHAIN * instructions,
            (4, 36), threads=32,
        )  # fmt: skip


def memory() -> Iterator[Probe]:
    """Ordinary accesses of shared memory and L2, cp.async. A step is a warp's 512 bytes."""
    for name, kernel, what in (
        ("shared.load", "shared_load", "ld.shared of 16 bytes a lane"),
        ("shared.store", "shared_store", "st.shared of 16 bytes a lane"),
        ("shared.ldmatrix", "matrix_load", "ldmatrix x4"),
        ("shared.stmatrix", "matrix_store", "stmatrix x4"),
    ):
        yield Probe(name, "shared.cu", kernel, f"{what} by 16 warps", 8 * WARPS, (8, 72), 512, shared=64 * KIB)
    yield Probe("shared.latency", "shared.cu", "shared_chase", "dependent ld.shared", 32, (4, 36), 32, shared=64 * KIB)
    yield Probe(
        "shared.roundtrip", "shared.cu", "shared_roundtrip", "st.shared, then ld.shared of the neighbour's", 32,
        (4, 36), 32, shared=64 * KIB,
    )  # fmt: skip
    yield Probe("global.latency", "global.cu", "global_chase", "dependent loads from L2", 8, (16, 80), 32, spread=0.15)
    for name, kernel, what in (
        ("global.load", "global_load", "ld.global from L2"), ("global.store", "global_store", "st.global"),
        ("copy.load", "copy_stream", "cp.async from L2"),
    ):  # fmt: skip
        for ctas, where in (("one", "one SM"), ("all", "all SMs, each its own 64 KiB")):
            yield Probe(
                f"{name}.{ctas}", "global.cu", kernel, f"{what}, 16 bytes a lane, {where}", 8 * WARPS, (8, 72), 512,
                "all" if ctas == "all" else "one", 128 * KIB, (64 * KIB,), spread=0.3,
            )  # fmt: skip
    yield Probe(
        "copy.latency", "global.cu", "copy_latency", "one cp.async of a warp and its wait", 1, (32, 160), 32,
        shared=64 * KIB, spread=0.15,
    )  # fmt: skip


def tensor(name: str, kernel: str, what: str, rows: int, depth: int, *, ctas: str = "one", sharers: int = 1,
           element: str = "bf16", spread: float = 0.15, warps: int = 1) -> Probe:  # fmt: skip
    """A probe of tensors.cu; a step is a box of `rows` rows of 128 bytes, each CTA works on 8 boxes.

    warps: that issue, each with `depth` boxes in flight.
    """
    return Probe(
        name, "tensors.cu", kernel, what, warps, (64, 320), 32 * warps, "all" if ctas == "all" else "one", 136 * KIB,
        (rows, 8, sharers, depth), "f32" if element == "f32" else "bf16", spread,
    )  # fmt: skip


def tensors() -> Iterator[Probe]:
    """Bulk copies by tensor maps: boxes of 16 KiB for throughput, 1 KiB for latency."""
    yield tensor("tma.load.one", "tensor_load", "one SM, 8 boxes of 16 KiB in flight", 128, 2, warps=4)
    for sharers in (1, 2, 4, 12):
        what = f"all SMs, {sharers} with the same data, 8 boxes of 16 KiB in flight"
        yield tensor(
            f"tma.load.all.{sharers}", "tensor_load", what, 128, 2, ctas="all", sharers=sharers, spread=0.3, warps=4
        )
    yield tensor("tma.load.latency", "tensor_load", "one SM, one box of 1 KiB and its wait", 8, 1)
    yield tensor("tma.load.latency.16k", "tensor_load", "one SM, one box of 16 KiB and its wait", 128, 1)
    yield tensor(
        "tma.load.latency.loaded", "tensor_load", "one box of 16 KiB and its wait, all SMs at it, 4 with the same data",
        128, 1, ctas="all", sharers=4, spread=0.3,
    )  # fmt: skip
    yield tensor("tma.load.issue.1", "tensor_load_issue", "expect_tx and a load, with two clock readings", 8, 1)
    yield tensor("tma.load.issue.2", "tensor_load_issue", "expect_tx and two loads, with two clock readings", 8, 2)
    yield tensor("tma.store.one", "tensor_store", "one SM, 4 boxes of 16 KiB in flight", 128, 4)
    yield tensor(
        "tma.store.all", "tensor_store", "all SMs, 4 boxes of 16 KiB in flight", 128, 4, ctas="all", spread=0.3
    )
    yield tensor("tma.store.latency", "tensor_store", "one box of 1 KiB until it was read", 8, 1)
    yield tensor("tma.store.issue", "tensor_store_issue", "proxy fence, store, commit, with two clock readings", 8, 1)
    yield tensor("tma.reduce.one", "tensor_reduce", "float32 addition, one SM", 128, 4, element="f32")
    yield tensor(
        "tma.reduce.all", "tensor_reduce", "float32 addition, all SMs", 128, 4, ctas="all", element="f32", spread=0.3
    )
    yield tensor(
        "tma.reduce.latency", "tensor_reduce", "float32 addition of 1 KiB until it was read", 8, 1, element="f32"
    )
    yield Probe("clock", "tensors.cu", "clock_pair", "two readings of the clock", 1, (64, 320), 32)


def barriers() -> Iterator[Probe]:
    """Crossings between two warp groups of 128 threads: two a round."""
    for kib in (0, *CROSSED):
        what = f"a turn by mbarrier to another warp group, with {kib} KiB through shared memory"
        yield Probe(f"crossing.mbarrier.{kib}", "barriers.cu", f"mbarrier_{kib}", what, 2, (100, 600), 256,
                    shared=40 * KIB, spread=0.1)  # fmt: skip
    for kib in (0, 8, 32):
        what = f"a turn by named barrier to another warp group, with {kib} KiB through shared memory"
        yield Probe(f"crossing.named.{kib}", "barriers.cu", f"named_{kib}", what, 2, (100, 600), 256,
                    shared=40 * KIB, spread=0.1)  # fmt: skip
    yield Probe("mbarrier.alone", "barriers.cu", "mbarrier_alone", "arrive and wait in one thread", 1, (100, 600), 32)
    yield Probe("named.alone", "barriers.cu", "named_alone", "bar.sync of a warp group alone", 1, (100, 600))


def mma(dtype: str, k: int, n: int, place: str) -> Probe:
    """The tensor core's time of one wgmma; two warp groups of 8 instructions in flight each."""
    where = "registers" if place == "rs" else "shared memory"
    return Probe(
        f"wgmma.{dtype}.n{n}.{place}", "products.cu", f"{dtype}_{n}_{place}", f"m64n{n}k{k}, A in {where}", 16, (8, 40),
        256, shared=64 * KIB,
    )  # fmt: skip


def mmas() -> Iterator[Probe]:
    """wgmma by shape, type and place of A; from fence to wait; issue."""
    for dtype, k in MMA_PROBES:
        for n in COLUMNS:
            yield mma(dtype, k, n, "ss")
            yield mma(dtype, k, n, "rs")
    for dtype, k in OTHER_MMA_PROBES:
        for n in COLUMNS[-2:]:
            yield mma(dtype, k, n, "ss")
    for count in (1, 2, 4, 8):
        what = f"{count} of m64n128k16 bf16, from the fence to the return of the wait"
        yield Probe(f"wgmma.alone.{count}", "products.cu", f"alone_{count}", what, 1, (32, 160), shared=64 * KIB)
        what = f"{count} of m64n128k16 bf16, from the fence to the commit, with two clock readings"
        yield Probe(f"wgmma.issue.{count}", "products.cu", f"issue_{count}", what, 1, (32, 160), shared=64 * KIB,
                    spread=0.15)  # fmt: skip
    yield Probe("wgmma.wait", "products.cu", "empty_wait", "commit and wait of an empty group", 1, (100, 600))


PROBES: dict[str, Probe] = {probe.name: probe for part in (pipes, memory, tensors, barriers, mmas) for probe in part()}
CLOCK = Probe("clock.at.work", "products.cu", "clock_at_work", "all SMs at m64n256k16 bf16", 1, (0, 20000), 256, "all",
              64 * KIB)  # fmt: skip
