"""GEMMs and operand layouts against float32."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch

from tests.gpu.builds import BYTES, GEMMS, LAYOUTS, Gemm, GpuBuild, Layout
from tests.gpu.run import Row
from twill.runtime.launch import LaunchShape, launch
from twill.runtime.module import Kernel, LoadedModule
from twill.runtime.tensor import view
from twill.runtime.tensor_map import TensorMap, TileBox, tensor_map

TYPES = {"bf16": torch.bfloat16, "f16": torch.float16, "e4m3": torch.float8_e4m3fn, "tf32": torch.float32}
GROUPS = 2  # of gemm.cu
SIZES = ((128, 256, 64), (256, 512, 256), (1000, 1032, 464), (2304, 2560, 320), (4096, 4096, 4096))


def rows(load: Callable[[GpuBuild], LoadedModule], small: bool) -> Iterator[Row]:
    """All of them; small: without large GEMMs."""
    torch.backends.cuda.matmul.allow_tf32 = False
    for layout in LAYOUTS:
        yield _layout(layout, load(layout.build))
    for gemm in GEMMS:
        yield from _gemm(gemm, load(gemm.build), SIZES[:3] if small else SIZES)


def relative(out: torch.Tensor, reference: torch.Tensor) -> float:
    """‖out − reference‖ / ‖reference‖."""
    return float((out.double() - reference.double()).norm() / reference.double().norm())


def _random(*shape: int, dtype: torch.dtype) -> torch.Tensor:
    return torch.randn(*shape, device="cuda").to(dtype)


def _map(tensor: torch.Tensor, name: str, *box: int, swizzle: Any = 128) -> TensorMap:
    return tensor_map(view(tensor, name), TileBox(box, swizzle), name)


def _layout(case: Layout, module: LoadedModule) -> Row:
    dtype, es = TYPES[case.operand], BYTES[case.operand]
    a, b = _random(64, case.depth, dtype=dtype), _random(case.columns, case.depth, dtype=dtype)
    out = torch.full((64, case.columns), float("nan"), device="cuda")
    width = case.swizzle // es
    stored = [x.t().contiguous() if mn else x for x, mn in ((a, case.a_mn), (b, case.b_mn))]
    maps = [_map(x, name, x.shape[0], width, swizzle=case.swizzle) for x, name in zip(stored, "AB", strict=True)]
    kernel = module.kernel("operand_layouts", case.build.kernels["operand_layouts"])
    shared = (64 + case.columns) * case.depth * es + 16
    launch(kernel, LaunchShape((1, 1, 1), (128, 1, 1), shared), [*maps, out])
    torch.cuda.synchronize()
    error = relative(out, a.float() @ b.float().t())
    major = f"A {'M' if case.a_mn else 'K'}-major, B {'N' if case.b_mn else 'K'}-major"
    ok = error < _bound(case.operand)
    return Row(f"wgmma {case.operand} n={case.columns}", f"{major}, {case.swizzle} bytes", error, ok)


def _bound(operand: str) -> float:
    return {"tf32": 1e-3, "e4m3": 2e-3}.get(operand, 1e-5)  # products of 8-bit floats are summed with fewer bits


def _gemm(case: Gemm, module: LoadedModule, sizes: Sequence[tuple[int, int, int]]) -> Iterator[Row]:
    kernel = module.kernel("gemm", case.build.kernels["gemm"])
    for m, n, k in sizes:
        a = _random(m, k, dtype=TYPES[case.operand])
        b = _random(n, k, dtype=TYPES[case.operand])
        stored = b.t().contiguous() if case.b_mn else b
        out = torch.full((m, n), float("nan"), device="cuda", dtype=torch.bfloat16)
        start = _start(case, kernel, a, stored, out)
        start()
        torch.cuda.synchronize()
        error, first = relative(out, a.float() @ b.float().t()), out.clone()
        out.fill_(float("nan"))
        start()
        torch.cuda.synchronize()
        same = torch.equal(first, out)
        note = _speed(start, 2 * m * n * k) if (m, n, k) == SIZES[-1] else ""
        note += "" if same else " moves between launches"
        yield Row(case.build.name, f"{m} x {n} x {k}", error, same and error < 4e-3, note)


def _start(case: Gemm, kernel: Kernel, a: torch.Tensor, b: torch.Tensor, out: torch.Tensor) -> Callable[[], None]:
    (m, k), n = a.shape, out.shape[1]
    deep, tall = 128 // BYTES[case.operand], 64 * GROUPS
    b_map = _map(b, "B", 64, 64) if case.b_mn else _map(b, "B", case.columns, deep)
    maps = [_map(a, "A", tall, deep), b_map, _map(out, "C", 64, 64)]
    counts = [-(-m // tall), -(-n // case.columns), -(-k // deep)]
    shared = case.slots * ((tall + case.columns) * 128 + 16) + GROUPS * 64 * case.columns * 2
    shape = LaunchShape((min(132, counts[0] * counts[1]), 1, 1), ((GROUPS + 1) * 128, 1, 1), shared)
    return lambda: launch(kernel, shape, [*maps, *counts], torch.cuda.current_stream())


def _speed(start: Callable[[], None], flops: int, rounds: int = 20) -> str:
    """Of a few launches in a row, to see that nothing is serialized; no benchmark."""
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
    for _ in range(3):
        start()
    begin.record()
    for _ in range(rounds):
        start()
    end.record()
    end.synchronize()
    return f"{flops * rounds / begin.elapsed_time(end) / 1e9:.0f} TFLOP/s"
