"""Asynchronous copies of every kind: tensor copies of every rank, bulk copies, cp.async, multicast in a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch

from tests.gpu.builds import COPIES, GpuBuild
from tests.gpu.run import Row
from twill.manifest.document import Swizzle
from twill.runtime.launch import LaunchShape, launch
from twill.runtime.module import LoadedModule
from twill.runtime.tensor import view
from twill.runtime.tensor_map import TileBox, tensor_map

# rank -> shape of the tensor, box, element type, swizzle; sizes are ragged, so boundary boxes are clipped
RANKS: dict[int, tuple[tuple[int, ...], tuple[int, ...], torch.dtype, Swizzle]] = {
    1: ((1000,), (128,), torch.float32, 0),
    2: ((77, 200), (16, 32), torch.bfloat16, 64),
    3: ((5, 40, 72), (1, 16, 64), torch.float16, 128),
    4: ((3, 4, 33, 64), (1, 2, 16, 16), torch.bfloat16, 32),
    5: ((2, 3, 4, 20, 40), (1, 2, 1, 8, 32), torch.float32, 128),
}


def rows(load: Callable[[GpuBuild], LoadedModule]) -> Iterator[Row]:
    """All of them."""
    module = load(COPIES)
    for rank in RANKS:
        yield from _rank(module, rank)
    yield from _rows(module)
    yield _multicast(module)


def _wrong(out: torch.Tensor, expected: torch.Tensor, name: str, case: str) -> Row:
    wrong = int((out != expected).sum())
    return Row(name, case, wrong, wrong == 0, "elements differ" if wrong else "exact")


def _rank(module: LoadedModule, rank: int) -> Iterator[Row]:
    shape, box, dtype, swizzle = RANKS[rank]
    source = torch.randint(-64, 64, shape, device="cuda").to(dtype)  # sums of two are exact in every type
    out, total = torch.full_like(source, float("nan")), torch.ones_like(source)
    maps = [tensor_map(view(t, n), TileBox(box, swizzle), n) for t, n in ((source, "in"), (out, "out"), (total, "sum"))]
    fixed = {3: 1, 4: 0}  # coordinates x3 and x4 of the kernel, in elements
    counts = [-(-shape[-1 - d] // box[-1 - d]) if d < rank and d < 3 else 1 for d in range(3)]
    edge = [box[-1 - d] if d < rank else 1 for d in range(3)]
    if rank > 2:
        counts[2], edge[2] = shape[-3] - box[-3] + 1, 1  # x2 steps by one element: keep boxes disjoint
        if box[-3] > 1:
            counts[2] = 1
    size = torch.tensor(box).prod().item() * source.element_size()
    kernel = module.kernel(f"copy{rank}", COPIES.kernels[f"copy{rank}"])
    grid = (counts[0] * counts[1] * counts[2], 1, 1)
    launch(kernel, LaunchShape(grid, (32, 1, 1), 32768), [*maps, edge[0], counts[0], edge[1], counts[1], int(size)])
    torch.cuda.synchronize()
    touched = torch.zeros(shape, dtype=torch.bool, device="cuda")
    where: list[slice] = [slice(None)] * rank
    for d in range(2, rank):
        start = 0 if d == 2 else fixed[d]
        stop = start + (counts[2] if d == 2 and box[-3] == 1 else box[-1 - d])
        where[-1 - d] = slice(start, stop)
    touched[tuple(where)] = True
    expected = torch.where(touched, source, torch.full_like(source, float("nan")))
    yield _wrong(out.nan_to_num(999), expected.nan_to_num(999), f"tensor copy, rank {rank}", f"{shape} by {box}")
    added = torch.where(touched, 1 + 2 * source, torch.ones_like(source))
    case = f"{str(dtype).removeprefix('torch.')}, swizzle {swizzle}"
    yield _wrong(total, added, f"tensor reduce-add, rank {rank}", case)


def _rows(module: LoadedModule) -> Iterator[Row]:
    kernel = module.kernel("copy_rows", COPIES.kernels["copy_rows"])
    source = torch.randn(32, 64, device="cuda").bfloat16()
    for count in (0, 19, 32):
        out, again = torch.full_like(source, float("nan")), torch.full_like(source, float("nan"))
        launch(kernel, LaunchShape((1, 1, 1), (64, 1, 1), 8192), [source, out, again, count])
        torch.cuda.synchronize()
        expected = source.clone()
        expected[count:] = 0
        yield _wrong(out, expected, "cp.async on an mbarrier", f"{count} of 32 rows")
        yield _wrong(again, source, "bulk copy there and back", "4096 bytes")


def _multicast(module: LoadedModule) -> Row:
    tiles = 5
    source = torch.randn(tiles * 64, 32, device="cuda")
    out = torch.full((2, tiles * 64, 32), float("nan"), device="cuda")
    kernel = module.kernel("multicast", COPIES.kernels["multicast"])
    shape = LaunchShape((2, 1, 1), (128, 1, 1), 16384)
    launch(kernel, shape, [tensor_map(view(source, "in"), TileBox((32, 32), 0), "in"), out, tiles])
    torch.cuda.synchronize()
    return _wrong(out, source.expand_as(out), "multicast in a cluster", f"2 CTAs, {tiles} tiles")
