"""Matrices between registers and shared memory, conversions, fast functions, warps that talk."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from tests.gpu.builds import FRAGMENTS, GpuBuild
from tests.gpu.run import Row
from twill.runtime.launch import LaunchShape, launch
from twill.runtime.module import LoadedModule

ONE = (1, 1, 1)


def rows(load: Callable[[GpuBuild], LoadedModule]) -> Iterator[Row]:
    """All of them."""
    module = load(FRAGMENTS)
    yield from _matrices(module)
    yield from _functions(module)
    yield from _talk(module)


def _exact(name: str, case: str, out: torch.Tensor, expected: torch.Tensor) -> Row:
    wrong = int((out != expected).sum())
    return Row(name, case, wrong, wrong == 0, "elements differ" if wrong else "exact")


def _matrices(module: LoadedModule) -> Iterator[Row]:
    source = torch.randint(-30000, 30000, (4, 8, 8), device="cuda", dtype=torch.int16)
    out = torch.full((8, 8, 8), -1, device="cuda", dtype=torch.int16)
    kernel = module.kernel("matrices", FRAGMENTS.kernels["matrices"])
    words = [source.view(torch.int32), out.view(torch.int32)]
    launch(kernel, LaunchShape(ONE, (32, 1, 1)), words)
    torch.cuda.synchronize()
    yield _exact("ldmatrix, stmatrix", "x4", out[:4], source)
    yield _exact("ldmatrix.trans, stmatrix", "x4, x2", out[4:6], source[:2].mT)
    yield _exact("ldmatrix.trans, stmatrix", "x4, x1", out[6], source[2].mT)
    yield _exact("ldmatrix.trans, stmatrix.trans", "x4, x1", out[7], source[3])


def _functions(module: LoadedModule) -> Iterator[Row]:
    n = 4096
    x = torch.rand(n, device="cuda") * 3 + 0.01
    y = torch.full((8, n), float("nan"), device="cuda")
    packed = torch.zeros((8, n), device="cuda", dtype=torch.int32)
    kernel = module.kernel("functions", FRAGMENTS.kernels["functions"])
    launch(kernel, LaunchShape((n // 128, 1, 1), (128, 1, 1)), [x, y, packed, n])
    torch.cuda.synchronize()
    v, w = x.double(), x.roll(-1)
    expected = [torch.exp2(v), torch.log2(v), 1 / v, v.rsqrt(), v.sqrt(), v.sin(), v.cos(), v.tanh()]
    for name, got, want in zip(("ex2", "lg2", "rcp", "rsqrt", "sqrt", "sin", "cos", "tanh"), y, expected, strict=True):
        error = float(((got.double() - want).abs() / want.abs().clamp(min=1)).max())
        yield Row(f"{name}.approx", "0.01 to 3.01, max error", error, error < (6e-4 if name == "tanh" else 1e-5))
    pairs = torch.stack([x, w], 1)
    for row, dtype in ((0, torch.bfloat16), (1, torch.float16)):
        yield _exact(f"pack {dtype}".replace("torch.", ""), "", packed[row], pairs.to(dtype).view(torch.int32)[:, 0])
    for row, dtype in ((2, torch.float8_e4m3fn), (3, torch.float8_e5m2)):
        quads = torch.stack([x, w, w, x], 1).to(dtype)
        yield _exact(f"pack {dtype}".replace("torch.", ""), "", packed[row], quads.view(torch.int32)[:, 0])
        halves = pairs.to(dtype).to(torch.float16).view(torch.int32)[:, 0]
        yield _exact(f"unpack {dtype}".replace("torch.", ""), "", packed[row + 2], halves)
    for row, dtype in ((6, torch.bfloat16), (7, torch.float16)):
        both = x.to(dtype).float() + w.to(dtype).float()
        yield _exact(f"unpack {dtype}".replace("torch.", ""), "", packed[row].view(torch.float32), both)


def _talk(module: LoadedModule) -> Iterator[Row]:
    counts = torch.zeros(4, device="cuda", dtype=torch.int32)
    sums = torch.zeros(1, device="cuda")
    pair = torch.zeros(2, device="cuda", dtype=torch.bfloat16)
    wide = torch.zeros(1, device="cuda", dtype=torch.float64)
    kernel = module.kernel("talk", FRAGMENTS.kernels["talk"])
    launch(kernel, LaunchShape((4, 1, 1), (128, 1, 1)), [counts, sums, pair, wide])
    torch.cuda.synchronize()
    wanted = torch.tensor([16, 4 * 6, 4 * 36, 0], device="cuda", dtype=torch.int32)
    yield _exact("elect, named barriers, atomics", "4 CTAs of 4 warps", counts, wanted)
    yield _exact("shuffles, float atomics", "", sums, torch.full_like(sums, 16 * 496))
    yield _exact("packed bf16 reduction", "", pair, torch.full_like(pair, 256))  # the largest count that bf16 holds
    yield _exact("double atomics", "", wide, torch.full_like(wide, 256))
