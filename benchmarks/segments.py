"""Where an iteration of an emitted kernel spends its cycles: the clock at every wait and every product of its loops.

    python -m benchmarks.segments build/examples attention-full [attention-full-d64 ...] [--out FILE]

Needs a GPU, PyTorch and emitted kernels. The emitted text is compiled again with a reading of the clock behind every
statement that may wait and before every product; one thread of each warp group writes them down. One program runs
alone with the long loop of benchmarks/predicted.py. Printed are medians over the iterations in the middle of the run;
the readings cost some per cent.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.predicted import LOOPS

MOST = 1 << 14  # readings of a warp group
PROLOGUE = """
__device__ u64 segment_marks[16][{most}];
#define MARK(ID) if (threadIdx.x % 128 == 0 && marked < {most}) {{ \\
  u64 t; asm volatile("mov.u64 %0, %%clock64;" : "=l"(t) :: "memory"); \\
  segment_marks[threadIdx.x / 128][marked++] = t << 12 | ID; }}
"""
BEHIND = re.compile(r"^\s*(mbar_wait|wgmma_wait|bar_sync|bulk_wait)\w*[<(]")
BEFORE = re.compile(r"^\s*wgmma_fence\(\);")
ENTRY = re.compile(r'^extern "C" __global__')


@dataclass(frozen=True)
class Segment:
    """Cycles of an iteration between two readings, and the statement at the end of it."""

    group: int
    line: int
    text: str
    cycles: float


def marked(source: str) -> str:
    """The text with its readings; a reading is known by its line."""
    found: list[str] = []
    inside = False
    for number, text in enumerate(source.splitlines(), 1):
        if ENTRY.match(text):
            found.append(PROLOGUE.format(most=MOST))
        inside = inside or bool(ENTRY.match(text))
        if inside and BEFORE.match(text):
            found.append(f"MARK({number});")
        found.append(text)
        if inside and BEHIND.match(text):
            found.append(f"MARK({number});")
    whole = "\n".join(found)
    head, entry, body = whole.partition('extern "C" __global__')
    opening = body.index("{")
    return f"{head}{entry}{body[: opening + 1]}\n  u32 marked = 0;{body[opening + 1 :]}\n"


def segments(readings: Sequence[Sequence[int]], source: Sequence[str], iterations: int) -> list[Segment]:
    """Medians by pair of neighbouring readings, of those that most iterations have, in their order."""
    found = []
    for group, marks in enumerate(readings):
        pairs: dict[tuple[int, int], list[int]] = defaultdict(list)
        for before, after in zip(marks, marks[1:], strict=False):
            pairs[before & 4095, after & 4095].append((after >> 12) - (before >> 12))
        for (_, line), cycles in pairs.items():
            if len(cycles) > iterations // 2:
                middle = cycles[len(cycles) // 4 : 3 * len(cycles) // 4]
                found.append(Segment(group, line, source[line - 1].strip(), statistics.median(middle)))
    return found


def trace(folder: Path) -> list[Segment]:
    """The segments of one kernel."""
    import torch

    from tests.gpu.check_examples import problem_of
    from twill.codegen.compile.nvrtc import compile_cubin
    from twill.runtime.driver import call
    from twill.runtime.kernel import EmittedKernel
    from twill.runtime.module import load_module
    from twill.runtime.plan import kernel_parameters
    from twill.trial.data import emitted, make_data

    source = (folder / "kernel.cu").read_text(encoding="utf-8")
    kernel: Any = EmittedKernel.load(folder)
    problem, loop = problem_of(kernel.manifest.file, kernel.manifest.spec), LOOPS[folder.name]
    data = make_data(kernel.manifest, problem.case(loop.sizes[1]))
    cubin = compile_cubin(marked(stripped(source)), kernel.manifest.architecture, accept_slow=True).cubin
    module = load_module(cubin, kernel.manifest.architecture)
    kernel._kernel = module.kernel(kernel.manifest.function, kernel_parameters(kernel.manifest))
    emitted(kernel, replace(data, case=replace(data.case, grid=loop.alone[1])))()
    torch.cuda.synchronize()
    pointer, size = call("cuLibraryGetGlobal", module.handle, b"segment_marks")
    host = torch.empty(size // 8, dtype=torch.int64)
    call("cuMemcpyDtoH", host.data_ptr(), int(pointer), size)
    readings = [[mark for mark in row if mark] for row in host.view(16, -1).tolist()]
    return segments(readings, stripped(source).splitlines(), loop.iterations[1])


def stripped(source: str) -> str:
    """The kernel's own text: the headers before it are put there again by the build, but not the products."""
    start = source.index("#line 1", source.index("wgmma_shapes.cuh") - 40)
    return source[start:]


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.segments", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("kernels", nargs="+")
    parser.add_argument("--out", type=Path, help="write the segments as JSON")
    given = parser.parse_args()
    found = {}
    for name in given.kernels:
        found[name] = [asdict(one) for one in trace(given.folder.resolve() / name)]
        print(name)
        for one in found[name]:
            print(f"  group {one['group']}  {one['cycles']:7.0f}  until {one['line']}: {one['text']}")
    if given.out:
        given.out.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
