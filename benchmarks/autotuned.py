"""Autotuned Triton programs under `twill.jit` beside the same without it, in one process, on a GPU.

    python -m benchmarks.autotuned [--wait S] [--only gemm|attention] [--free]

Each program is a kernel of `examples/` under `@triton.autotune` with a list of configurations. The first launches tune
Triton's kernels; the helper of `twill.jit` prepares the emitted ones meanwhile; the launches that follow choose among
configurations anew (docs/jit.md). Then both take turns, and a line says what each takes and which configuration it has.
--free: tiles that are in no configuration take part, too.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

TURNS = 40
CHOOSING = 400  # launches in which every configuration finds its verdict


@dataclass(frozen=True)
class TunedProgram:
    """name, size: for people. run: launches a kernel (it or the one under `twill.jit`); its result. work: of one
    launch, floating-point operations."""

    name: str
    size: str
    run: Callable[[Any], Any]
    work: float


def gemm(size: tuple[int, int, int]) -> TunedProgram:
    """C = A B in bf16, through pointers."""
    import torch
    import triton

    m, n, k = size
    a, b = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (k, n)))
    c = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")

    def grid(meta: dict[str, int]) -> tuple[int]:
        return (triton.cdiv(m, meta["BLOCK_M"]) * triton.cdiv(n, meta["BLOCK_N"]),)

    def run(kernel: Any) -> Any:
        kernel[grid](a, b, c, m, n, k, a.stride(0), 1, b.stride(0), 1, c.stride(0), 1)
        return c

    return TunedProgram("gemm", f"{m} x {n} x {k}", run, 2.0 * m * n * k)


def attention(length: int) -> TunedProgram:
    """Attention forward with 4 x 16 heads of 128, through pointers."""
    import torch
    import triton

    heads, width = 64, 128
    q, k, v, out = (torch.randn(heads * length, width, device="cuda").bfloat16() for _ in range(4))
    lse = torch.empty(heads * length, device="cuda")

    def grid(meta: dict[str, int]) -> tuple[int, int]:
        return triton.cdiv(length, meta["BLOCK_M"]), heads

    def run(kernel: Any) -> Any:
        kernel[grid](q, k, v, out, lse, 0.0883883, length, width, width)
        return out

    return TunedProgram("attention", f"4 x 16 heads, {length}", run, 4.0 * heads * length * length * width)


def tuned(name: str, free: bool) -> tuple[Any, Any]:
    """A program's kernel under the autotuner, and that under `twill.jit`, whose tiles may be free."""
    import triton

    import twill

    if name == "gemm":
        kernel = importlib.import_module("examples.gemm_pointers").gemm_pointers
        tiles = [(128, 256, 64, 3, 8), (128, 128, 64, 4, 4), (128, 128, 32, 4, 4), (64, 256, 32, 4, 4),
                 (128, 64, 32, 4, 4), (256, 128, 64, 3, 8), (64, 128, 64, 4, 4)]  # fmt: skip
        configs = [
            triton.Config({"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": 8}, num_stages=s, num_warps=w)
            for m, n, k, s, w in tiles
        ]
        key = ["M", "N", "K"]
    else:
        kernel = importlib.import_module("examples.attention_pointers").attention_pointers
        configs = [
            triton.Config({"BLOCK_M": m, "BLOCK_N": n}, num_stages=s, num_warps=w)
            for m in (64, 128) for n in (32, 64, 128) for s in (3,) for w in (4, 8)
        ]  # fmt: skip
        key = ["N_CTX"]
    free_ones = [name for name in configs[0].kwargs if name.startswith("BLOCK")] if free else []
    return triton.autotune(configs, key=key)(kernel), twill.jit(
        triton.autotune(configs, key=key)(kernel), free=free_ones
    )


def wait(fast: Any, seconds: float) -> None:
    """Until nothing of a kernel is being prepared any more, at most so long."""
    dispatch = fast.fn.twill_dispatch
    tilings = getattr(dispatch, "tilings", None)
    end = time.monotonic() + seconds
    while time.monotonic() < end and (
        any(
            one.shelf is None or one.shelf.state == "preparing"
            for one in dispatch.variants.known.values()
            if not one.reason
        )
        or not all(one.over.is_set() for one in (tilings.families.values() if tilings is not None else ()))
    ):
        time.sleep(0.5)


def microseconds(launch: Callable[[], Any], count: int = 10) -> float:
    """Of one launch among `count` back to back."""
    import torch

    event: Any = torch.cuda.Event
    begun, ended = event(enable_timing=True), event(enable_timing=True)
    begun.record()
    for _ in range(count):
        launch()
    ended.record()
    ended.synchronize()
    return 1000 * float(begun.elapsed_time(ended)) / count


def compared(program: TunedProgram, plain: Any, fast: Any) -> str:
    """Both in turns. Results are compared first."""
    for _ in range(CHOOSING):
        program.run(fast)
    want = program.run(plain).clone()
    got = program.run(fast)
    apart = float((got.float() - want.float()).norm() / want.float().norm())
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS):
        for side in (0, 1) if turn % 2 else (1, 0):
            times[side].append(microseconds(lambda side=side: program.run((plain, fast)[side])))  # type: ignore[misc]
    ours, theirs = statistics.median(times[1]), statistics.median(times[0])
    speeds = [program.work / one / 1e6 for one in (theirs, ours)]
    chosen = [" ".join(f"{k}={v}" for k, v in one.best_config.kwargs.items()) for one in (plain, fast)]
    return (
        f"{program.name}, {program.size}: Triton {speeds[0]:.0f} TFLOP/s ({chosen[0]}), under twill.jit {speeds[1]:.0f}"
        f" ({chosen[1]}): {theirs / ours:.3f} x; apart {apart:.1e}"
    )


def main() -> None:
    """See the top of this file."""
    import twill

    parser = argparse.ArgumentParser(prog="python -m benchmarks.autotuned")
    parser.add_argument("--wait", type=float, default=150.0, help="seconds for preparing the kernels of one program")
    parser.add_argument("--only", choices=("gemm", "attention"))
    parser.add_argument("--free", action="store_true", help="tiles are free")
    asked = parser.parse_args()
    sizes: dict[str, list[TunedProgram]] = {}
    if asked.only in (None, "gemm"):
        sizes["gemm"] = [gemm(size) for size in ((8192, 8192, 1024), (4096, 4096, 4096))]
    if asked.only in (None, "attention"):
        sizes["attention"] = [attention(length) for length in (2048, 8192)]
    for name, programs in sizes.items():
        plain, fast = tuned(name, asked.free)
        for program in programs:
            program.run(plain)
            for _ in range(3):  # the third looks for tiles near the configuration that was chosen
                program.run(fast)
        wait(fast, asked.wait)
        for program in programs:
            print(compared(program, plain, fast), flush=True)
        print("\n".join(f"  {line}" for line in twill.explain(fast).splitlines()), flush=True)


if __name__ == "__main__":
    main()
