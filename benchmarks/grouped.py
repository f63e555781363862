"""Several products in one launch, and one product by persistent programs, beside plain launches of the same tiles.

    python -m benchmarks.grouped build FOLDER [--machine h200]   anywhere: emits the kernels
    python -m benchmarks.grouped run FOLDER                      on a GPU: checks and times them

Rows: products of fp16, tiles of 128 x 256 x 64. Contestants of a row are the emitted grouped kernel, the emitted plain
and persistent kernels (a launch for each product; plain ones also in the order of the grouped kernel's tiles), Triton's
grouped kernel and cuBLAS. The L2 is cold: other memory is written through it between two measurements, and launches
wait behind it until all of them are queued. Results are compared with products in float32, and with those of 19 more
launches, bit by bit.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.paged import in_turns

FILE = Path(__file__).with_name("grouped_kernels.py")
TILES = {"BM": 128, "BN": 256, "BK": 64}
PROGRAMS, GROUP = 132, 8
ROUNDS, AGAIN = 15, 19
NEAR = 2e-3  # relative distance from float32: results are rounded to fp16
AHEAD = 400_000  # cycles of a wait in front of each measurement
L2 = 1 << 27  # bytes written between two
TRITON = ((8, 3), (8, 2))  # warps and stages
KERNELS: dict[str, tuple[str, dict[str, int]]] = {
    "plain": ("plain", {**TILES, "GROUP": GROUP}),
    "plain by rows": ("plain", {**TILES, "GROUP": 1}),  # the order of the grouped kernel's tiles
    "persistent": ("persistent", {**TILES, "GROUP": GROUP, "PROGRAMS": PROGRAMS}),
    "grouped": ("grouped", {**TILES, "PROGRAMS": PROGRAMS}),
}
Size = tuple[int, int, int]
ROWS: dict[str, tuple[Size, ...]] = {
    "four of 1024^3": ((1024, 1024, 1024),) * 4,
    "four of 2048^3": ((2048, 2048, 2048),) * 4,
    "four of 4096^3": ((4096, 4096, 4096),) * 4,
    "one of 4096^3": ((4096, 4096, 4096),),
    "one of 8192^3": ((8192, 8192, 8192),),
    "ragged": ((4000, 3008, 2000), (200, 4096, 1024), (3333, 1040, 4112), (1, 512, 512), (2050, 2064, 528)),
}


def build(folder: Path, machine: str) -> int:
    """A directory for each kernel; how many were refused."""
    from twill.cli.entry import main as twill

    failed = 0
    sizes = ["M=i32", "N=i32:16", "K=i32:16"]
    tensors = [f"{name}=*fp16:16" for name in ("a_ptr", "b_ptr", "c_ptr")]
    words = [word for one in (*tensors, *sizes) for word in ("--sig", one)]
    for name, (kernel, constants) in KERNELS.items():
        said = [] if kernel == "grouped" else words  # which has a sidecar, for its tables
        said = [*said, *(word for one, n in constants.items() for word in ("--const", f"{one}={n}") if said)]
        code = twill(["emit", f"{FILE}::{kernel}", "--machine", machine, "--out", str(folder / name), *said])
        print(f"{name}: {'emitted' if code == 0 else f'exit code {code}'}", flush=True)
        failed += code != 0
    return failed


@dataclass(frozen=True)
class Products:
    """Operands and results of a row. tables: addresses and sizes, as the grouped kernel looks them up."""

    sizes: tuple[Size, ...]
    lefts: list[Any]
    rights: list[Any]
    results: list[Any]
    wanted: list[Any]
    tables: tuple[Any, ...]

    def distance(self) -> float:
        """The largest relative distance of a result from float32."""
        pairs = zip(self.results, self.wanted, strict=True)
        return max(float((one.float() - other).norm() / other.norm()) for one, other in pairs)

    def clear(self) -> None:
        """No result that is there already passes."""
        for one in self.results:
            one.fill_(float("nan"))


def products(sizes: tuple[Size, ...]) -> Products:
    """Random operands."""
    import torch

    def tensor(rows: int, columns: int) -> Any:
        return torch.randn(rows, columns, device="cuda", dtype=torch.float16)

    lefts = [tensor(m, k) for m, _, k in sizes]
    rights = [tensor(k, n) for _, n, k in sizes]
    results = [tensor(m, n) for m, n, _ in sizes]
    wanted = [a.float() @ b.float() for a, b in zip(lefts, rights, strict=True)]
    addresses = [torch.tensor([x.data_ptr() for x in some], device="cuda") for some in (lefts, rights, results)]
    numbers = torch.tensor(sizes, device="cuda", dtype=torch.int32).flatten()
    return Products(sizes, lefts, rights, results, wanted, (*addresses, numbers))


def contestants(row: Products, folder: Path) -> dict[str, Callable[[], None]]:
    """Those of a row, by name."""
    import torch

    from benchmarks import grouped_kernels
    from twill.runtime.kernel import EmittedKernel

    emitted = {name: EmittedKernel.load(folder / name) for name in KERNELS}
    theirs: Any = grouped_kernels.grouped
    each = list(zip(row.sizes, row.lefts, row.rights, row.results, strict=True))
    constants = KERNELS["grouped"][1]

    def one_by_one(name: str) -> None:
        options = KERNELS[name][1]
        for (m, n, k), a, b, c in each:
            tiles = math.ceil(m / TILES["BM"]) * math.ceil(n / TILES["BN"])
            emitted[name][(min(tiles, options.get("PROGRAMS", tiles)),)](a, b, c, m, n, k, **options)

    def libraries() -> None:
        for _, a, b, c in each:
            torch.matmul(a, b, out=c)

    found: dict[str, Callable[[], None]] = {"cuBLAS": libraries}
    for name, (kernel, _) in KERNELS.items():
        found[name] = partial(one_by_one, name)
        if kernel == "grouped":
            found[name] = partial(emitted[name][(PROGRAMS,)], *row.tables, len(row.sizes), **constants)
    for warps, stages in TRITON:
        options = {**constants, "num_warps": warps, "num_stages": stages}
        found[f"Triton {warps}w {stages}s"] = partial(theirs[(PROGRAMS,)], *row.tables, len(row.sizes), **options)
    return found


def measure(name: str, folder: Path, spoil: Any) -> int:
    """Prints a row; how many emitted kernels are wrong in it."""
    import torch

    row = products(ROWS[name])
    good: dict[str, Callable[[], None]] = {}
    wrong = 0
    for who, launch in contestants(row, folder).items():
        row.clear()
        try:
            launch()
            torch.cuda.synchronize()
        except Exception as error:  # Triton's, of shared memory that there is not
            if who in KERNELS:
                raise
            print(f"  {who}: {type(error).__name__}", flush=True)
            continue
        far = row.distance()
        if who in KERNELS and not (far <= NEAR and repeats(row, launch)):
            wrong += 1
            print(f"  WRONG {who}: {far:.1e} from float32, or other bits in another launch", flush=True)
            continue
        good[who] = launch
    times = in_turns(good, spoil, ROUNDS, AHEAD)
    work = 2 * sum(math.prod(size) for size in row.sizes)
    for who, took in sorted(times.items(), key=lambda one: one[1]):
        print(f"  {who:14} {took * 1e6:8.1f} us {work / took / 1e12:6.0f} TFLOP/s", flush=True)
    pairs = (("persistent", "plain"), ("grouped", "plain by rows"), ("grouped", "plain"))
    ratios = [f"{one} {times[other] / times[one]:.3f} of {other}" for one, other in pairs if {one, other} <= set(times)]
    print(f"{name}: {', '.join(ratios)}", flush=True)
    return wrong


def repeats(row: Products, launch: Callable[[], None]) -> bool:
    """Whether more launches give the same bits."""
    import torch

    first = [one.clone() for one in row.results]
    for _ in range(AGAIN):
        row.clear()
        launch()
        torch.cuda.synchronize()
        if not all(torch.equal(a, b) for a, b in zip(first, row.results, strict=True)):
            return False
    return True


def run(folder: Path) -> int:
    """Every row; how many results are wrong."""
    import torch
    import triton

    print(f"{torch.cuda.get_device_name()}, fp16, tiles of {' x '.join(map(str, TILES.values()))}", flush=True)
    torch.manual_seed(0)
    triton.set_allocator(lambda size, align, stream: torch.empty(size, device="cuda", dtype=torch.int8))
    spoil = torch.empty(L2, device="cuda", dtype=torch.int8)
    wrong = sum(measure(name, folder, spoil) for name in ROWS)
    print("FAIL" if wrong else "PASS", flush=True)
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """See the top of this file."""
    one = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("command", choices=("build", "run"))
    one.add_argument("folder", type=Path)
    one.add_argument("--machine", default="h200", help="for build (default h200)")
    given = one.parse_args(arguments)
    return build(given.folder, given.machine) if given.command == "build" else run(given.folder)


if __name__ == "__main__":
    sys.exit(bool(main()))
