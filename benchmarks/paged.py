"""Decoding with paged keys and values beside Triton: 16 query heads to each head of keys, D = 128, bf16.

    python -m benchmarks.paged build FOLDER      anywhere: emits a kernel for each size of page
    python -m benchmarks.paged run FOLDER        on a GPU: checks and times them

Rows: pages of 16, 32, 64 and 128 positions; 3 sequences of 1 to 300, 64 of 4096, 64 of 512 to 8192, 16 of 16384. The
L2 is cold: other memory is written through it between two launches. Contestants take
turns, launches one by one; Triton's same kernel has 4 and 8 warps and 1 to 4 stages. Results are compared with
attention in float32 over the gathered pages, and with those of 9 more launches, bit by bit.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("paged_kernels.py")
GROUP, D = 16, 128
PAGES = (16, 32, 64, 128)
TYPES = {
    **{name: "*bf16:16" for name in ("q_ptr", "k_ptr", "v_ptr")}, "table_ptr": "*i32:16", "length_ptr": "*i32:16",
    "o_ptr": "*bf16:16", "scale": "fp32", "most": "i32:16", "page_stride": "i32:16", "row_stride": "i32:16",
}  # fmt: skip
CONFIGURATIONS = [(warps, stages) for warps in (4, 8) for stages in (1, 2, 3, 4)]
NEAR, FLOOR = 1.2, 2e-2  # times Triton's own distance, or this: bf16 rounds p
ROUNDS, AGAIN = 31, 9
ROUNDS_SHORT, SHORT = 151, 10_000  # of rows with so few positions: medians of 31 launches of some 15 us differ by 3 %
L2 = 1 << 27  # bytes written between launches
AHEAD = 200_000  # cycles of a wait in front of each launch


@dataclass(frozen=True)
class Row:
    """Sequences with lengths from `least` to `most`, and heads of keys."""

    sequences: int
    heads: int
    least: int
    most: int

    @property
    def name(self) -> str:
        return f"{self.sequences} of {self.least}..{self.most}, {self.heads} heads of keys"

    @property
    def rounds(self) -> int:
        """Launches of each contestant."""
        return ROUNDS_SHORT if self.sequences * self.heads * self.most < SHORT else ROUNDS


ROWS = (Row(3, 2, 1, 300), Row(64, 8, 4096, 4096), Row(64, 8, 512, 8192), Row(16, 8, 16384, 16384))


def build(folder: Path, machine: str) -> int:
    """A directory for each size of page; how many were refused."""
    from twill.cli.entry import main as twill

    failed = 0
    for page in PAGES:
        sig = [word for name, kind in TYPES.items() for word in ("--sig", f"{name}={kind}")]
        const = [word for name, value in constants(page).items() for word in ("--const", f"{name}={value}")]
        out = ["--machine", machine, "--out", str(folder / f"paged-{page}")]
        code = twill(["emit", f"{FILE}::paged_decode", *out, *sig, *const])
        print(f"paged-{page}: {'emitted' if code == 0 else f'exit code {code}'}", flush=True)
        failed += code != 0
    return failed


def constants(page: int) -> dict[str, int]:
    """Constexprs of the kernel."""
    return {"GROUP": GROUP, "D": D, "PAGE": page}


@dataclass(frozen=True)
class Work:
    """Arguments of a row, its result in float32 and the bytes of keys and values that are read."""

    given: dict[str, Any]
    wanted: Any
    bytes: int


def make(row: Row, page: int) -> Work:
    """Random data of a row; pages of a sequence are anywhere in the cache."""
    import torch

    torch.manual_seed(0)
    at: dict[str, Any] = {"device": "cuda"}
    lengths = torch.randint(row.least, row.most + 1, (row.sequences,), **at, dtype=torch.int32)
    most = -(-row.most // page)
    most += -most % 16
    table = torch.randperm(row.sequences * most, **at, dtype=torch.int32).view(row.sequences, most)
    shape = (row.sequences * most, page, row.heads, D)
    k, v = (torch.randn(shape, **at, dtype=torch.bfloat16) for _ in range(2))
    q = torch.randn((row.sequences, row.heads, GROUP, D), **at, dtype=torch.bfloat16)
    scale = 1.4426950408889634 / D**0.5
    wanted = torch.empty(q.shape, **at)
    for one in range(row.sequences):
        length = int(lengths[one])
        keys, values = (x[table[one]].flatten(0, 1)[:length].float().transpose(0, 1) for x in (k, v))
        scores = q[one].float() @ keys.mT * scale
        wanted[one] = torch.softmax(scores * 0.6931471805599453, -1) @ values
    given = {
        "q_ptr": q, "k_ptr": k, "v_ptr": v, "table_ptr": table, "length_ptr": lengths, "o_ptr": torch.empty_like(q),
        "scale": scale, "most": most, "page_stride": page * row.heads * D, "row_stride": row.heads * D,
    }  # fmt: skip
    return Work(given, wanted, int(lengths.sum()) * row.heads * D * 4)


def contestants(row: Row, page: int, work: Work, folder: Path) -> dict[str, Callable[[], Any]]:
    """Of a row, by name."""
    from benchmarks import paged_kernels
    from twill.runtime.kernel import EmittedKernel

    grid = (row.sequences, row.heads)
    found: dict[str, Callable[[], Any]] = {}
    theirs: Any = paged_kernels.paged_decode
    for warps, stages in CONFIGURATIONS:
        options = {**constants(page), "num_warps": warps, "num_stages": stages}
        found[f"triton {warps}w {stages}s"] = partial(theirs[grid], **work.given, **options)
    for path in sorted(folder.glob(f"paged-{page}*")):
        kernel = EmittedKernel.load(path)
        name = f"twill{path.name.removeprefix(f'paged-{page}')}"
        found[name] = partial(kernel[grid], **work.given, **constants(page))
    return found


def measure(row: Row, page: int, folder: Path, spoil: Any) -> int:
    """Prints the line of a row; how many emitted kernels are wrong."""
    import torch

    work = make(row, page)
    out = work.given["o_ptr"]
    good: dict[str, Callable[[], Any]] = {}
    far: dict[str, float] = {}
    wrong = 0
    for name, launch in contestants(row, page, work, folder).items():
        try:
            out.fill_(float("nan"))
            launch()
            torch.cuda.synchronize()
        except Exception as error:  # Triton's, of shared memory that there is not
            if name.startswith("twill"):
                raise
            print(f"  {name}: {type(error).__name__}", flush=True)
            continue
        far[name] = float((out.float() - work.wanted).norm() / work.wanted.norm())
        first, repeats = out.clone(), True
        for _ in range(AGAIN if name.startswith("twill") else 0):
            launch()
            repeats = repeats and torch.equal(first, out)
        theirs = min((d for n, d in far.items() if n.startswith("triton")), default=0.0)
        if name.startswith("twill") and not (repeats and far[name] <= max(NEAR * theirs, FLOOR)):
            wrong += 1
            print(f"  WRONG {name}: {far[name]:.1e} beside {theirs:.1e}, equal bits {repeats}", flush=True)
            continue
        good[name] = launch
    times = in_turns(good, spoil, row.rounds)
    best = min((time, name) for name, time in times.items() if name.startswith("triton"))
    ours = sorted((time, name) for name, time in times.items() if name.startswith("twill"))
    shown = ", ".join(f"{name} {time * 1e6:.1f} us ({best[0] / time:.3f}, {far[name]:.1e})" for time, name in ours)
    speed = work.bytes / best[0] / 1e12
    print(f"page {page:3} {row.name}: {best[1]} {best[0] * 1e6:.1f} us ({speed:.2f} TB/s) | {shown}", flush=True)
    return wrong


def in_turns(
    launches: Mapping[str, Callable[[], object]], spoil: Any, rounds: int = ROUNDS, ahead: int = AHEAD
) -> dict[str, float]:
    """Seconds of a launch of each, the median; between two launches something else is written through the L2. ahead:
    cycles that each waits for, so that it is queued before the GPU comes to it, however slow the host is."""
    import torch

    event: Any = torch.cuda.Event
    events: dict[str, list[tuple[Any, Any]]] = {name: [] for name in launches}
    for turn in range(rounds + 1):
        for name in random.sample(list(launches), len(launches)):
            begin, end = (event(enable_timing=True) for _ in range(2))
            spoil.zero_()
            torch.cuda._sleep(ahead)
            begin.record()
            launches[name]()
            end.record()
            if turn:
                events[name].append((begin, end))
    torch.cuda.synchronize()
    return {name: statistics.median(a.elapsed_time(b) for a, b in pairs) / 1000 for name, pairs in events.items()}


def run(folder: Path) -> int:
    """Every row; how many emitted kernels are wrong."""
    import torch

    print(torch.cuda.get_device_name(), flush=True)
    spoil = torch.empty(L2, device="cuda", dtype=torch.int8)
    return sum(measure(row, page, folder, spoil) for page in PAGES for row in ROWS)


def main() -> int:
    """See the top of this file."""
    one = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("command", choices=("build", "run"))
    one.add_argument("folder", type=Path)
    one.add_argument("--machine", default="h100", help="for build (default h100)")
    given = one.parse_args()
    failed = build(given.folder, given.machine) if given.command == "build" else run(given.folder)
    print("PASS" if not failed else f"FAIL: {failed}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
