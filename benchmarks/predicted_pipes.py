"""How busy an iteration keeps each pipe: by its schedule, and by the instructions that the emitted kernel executes.

    python -m benchmarks.predicted_pipes build/examples [--only NAME] [--out FILE]

Needs a GPU, PyTorch, emitted kernels (benchmarks/predicted.py) and NVIDIA's profiler `ncu`, which counts the warp
instructions of one program with a short and with a long loop; clocks are left alone. Where an emitted kernel takes more
cycles than its schedule says, this shows whether it does more work (instructions that the schedule does not know of)
or the same work later.
"""

from __future__ import annotations

import argparse
import csv
import json
import math
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.predicted import LOOPS, ROOT, Loop, line

# Unit of a machine file: what ncu counts, and warp instructions that an SM executes in a cycle.
PIPES = {
    "issue": ("smsp__inst_executed.sum", 4.0),
    "alu": ("sm__inst_executed_pipe_alu.sum", 2.0),
    "fma": ("sm__inst_executed_pipe_fma.sum", 4.0),
    "mufu": ("sm__inst_executed_pipe_xu.sum", 0.5),
    "lsu": ("sm__inst_executed_pipe_lsu.sum", 1.0),
}
SECONDS = 240.0


@dataclass(frozen=True)
class Row:
    """Busy cycles of an iteration by unit. predicted: the initiation interval."""

    kernel: str
    predicted: int
    scheduled: Mapping[str, int]
    executed: Mapping[str, float]


def launches(folder: Path, only: str) -> None:
    """Every kernel alone with a short loop, then with a long one; run under ncu."""
    import torch

    from tests.gpu.check_examples import problem_of
    from twill.runtime.kernel import EmittedKernel
    from twill.trial.data import emitted, make_data

    for name, loop in present(folder, only):
        kernel = EmittedKernel.load(folder / name)
        problem = problem_of(kernel.manifest.file, kernel.manifest.spec)
        for sizes, grid in zip(loop.sizes, loop.alone, strict=True):
            data = make_data(kernel.manifest, problem.case(sizes))
            emitted(kernel, replace(data, case=replace(data.case, grid=grid)))()
            torch.cuda.synchronize()


def present(folder: Path, only: str) -> Iterator[tuple[str, Loop]]:
    """Kernels of LOOPS that are there and can be launched with one program."""
    for name, loop in LOOPS.items():
        one = all(math.prod(grid) == 1 for grid in loop.alone)
        if one and only in name and (folder / name / "manifest.json").exists():
            yield name, loop


def counted(folder: Path, only: str) -> Iterator[Row]:
    """What ncu counts of `launches`. Raises RuntimeError with what ncu says if it does not."""
    names = {json.loads((folder / name / "manifest.json").read_text())["function"] for name, _ in present(folder, only)}
    command = [
        "ncu", "--csv", "--page", "raw", "--print-units", "base", "--clock-control", "none", "--cache-control", "none",
        "--kernel-name", f"regex:^({'|'.join(sorted(names))})$",
        "--metrics", ",".join(metric for metric, _ in PIPES.values()),
        sys.executable, "-m", "benchmarks.predicted_pipes", str(folder), "--only", only, "--launch",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=SECONDS)
    profiles = read(done.stdout)
    kernels = list(present(folder, only))
    if done.returncode or len(profiles) != 2 * len(kernels):
        raise RuntimeError(
            f"ncu: {len(profiles)} launches of {2 * len(kernels)}\n{done.stdout[-800:]}{done.stderr[-800:]}"
        )
    for (name, loop), short, long in zip(kernels, profiles[::2], profiles[1::2], strict=True):
        yield row(folder / name, loop, short, long)


def read(text: str) -> list[dict[str, float]]:
    """The launches of ncu's raw page: metrics by name. The line under the head has units."""
    lines = [part for part in text.splitlines() if part.startswith('"')]
    wanted = [metric for metric, _ in PIPES.values()]
    table = list(csv.DictReader(lines))[1:]
    return [{metric: float(entry[metric].replace(",", "")) for metric in wanted} for entry in table]


def row(folder: Path, loop: Loop, short: Mapping[str, float], long: Mapping[str, float]) -> Row:
    """Of the difference of two launches."""
    schedule = json.loads((folder / "schedule.json").read_text(encoding="utf-8"))
    iterations = loop.iterations[1] - loop.iterations[0]
    executed = {unit: (long[metric] - short[metric]) / iterations / rate for unit, (metric, rate) in PIPES.items()}
    main = [one for one in schedule["loops"] if loop.loops == "all" or one["ii"] == schedule["ii"]]
    main = main if loop.loops == "all" else main[:1]
    return Row(folder.name, sum(one["ii"] for one in main), scheduled(main), executed)


def scheduled(loops: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Busy cycles by unit that the schedule counts on."""
    busy = dict.fromkeys(PIPES, 0)
    for one in loops:
        for instruction in one["graph"]["instructions"]:
            for use in instruction["uses"]:
                if use["unit"] in busy:
                    busy[use["unit"]] += use["cycles"]
    return busy


def markdown(rows: Sequence[Mapping[str, Any]]) -> str:
    """Busy cycles of an iteration, scheduled and executed."""
    head = ("kernel", "I", *(f"{unit}: scheduled, executed" for unit in PIPES))
    table = [line(head), line(["---"] * len(head))]
    for one in rows:
        pairs = (f"{one['scheduled'][unit]}, {one['executed'][unit]:.0f}" for unit in PIPES)
        table.append(line([one["kernel"], str(one["predicted"]), *pairs]))
    return "\n".join(table) + "\n"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predicted_pipes", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--out", type=Path, help="write the counts as JSON")
    parser.add_argument("--launch", action="store_true", help="only launch: what ncu looks at")
    given = parser.parse_args()
    if given.launch:
        launches(given.folder.resolve(), given.only)
        return 0
    rows = [asdict(one) for one in counted(given.folder.resolve(), given.only)]
    print(markdown(rows))
    if given.out:
        given.out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
