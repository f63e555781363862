"""Predicted and measured cycles of an iteration, for every emitted example. Needs a GPU, PyTorch and emitted kernels.

    python -m tests.gpu.examples build build/examples
    python -m benchmarks.predicted build/examples [--only NAME] [--repeats N] [--out FILE]
    python -m benchmarks.predicted build/examples --simulate RECORD.json   # without a GPU: predicted_simulated.py

Every kernel is launched with a short and a long loop, alone (the programs of one SM) and with every SM at work; the
difference in cycles over the difference in iterations is what an iteration takes, and whatever happens once cancels.
Cycles are those of the clock of the SM on which the deciding program runs (an SM at work may be clocked lower than the
others), read by a small kernel before and after in the same stream, so that the frequency does not matter. Results go
to benchmarks/results/predicted-<date>.json and the page beside it.
"""

from __future__ import annotations

import argparse
import json
import math
import random
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
HOLD = 400  # microseconds: longer than the host needs to queue three launches
SHARED = 200 << 10  # bytes of a stamp: one CTA an SM
REPEATS = 15

Sizes = dict[str, int]
Grid = tuple[int, ...]


@dataclass(frozen=True)
class Loop:
    """How long an example's loop is: sizes of the short and the long launch, and the iterations of each.

    alone: the grids of one SM's programs; full: of all SMs' (None: its SMs would not end together). A program that
    takes longest decides. loops: "main", or "all" if every loop of the kernel grows.
    """

    sizes: tuple[Sizes, Sizes]
    iterations: tuple[int, int]
    alone: tuple[Grid, Grid]
    full: tuple[Grid, Grid] | None
    loops: str = "main"


def product(columns: int = 128, step: int = 64) -> Loop:
    """A tile of 128 rows; K in steps of `step`."""
    iterations = (64, 192)
    programs = (11, 12)  # tiles of M and N: one for each of 132 SMs
    sizes = tuple({"M": 128 * programs[0], "N": columns * programs[1], "K": step * i} for i in iterations)
    return Loop((sizes[0], sizes[1]), iterations, ((1, 1), (1, 1)), (programs, programs))


def flat(loop: Loop) -> Loop:
    """The same with one axis of the grid."""
    assert loop.full is not None
    programs = loop.full[0][0] * loop.full[0][1]
    return replace(loop, alone=((1,), (1,)), full=((programs,), (programs,)))


def attention(step: int, heads: int = 4) -> Loop:
    """Every query block sees all keys, in steps of `step`."""
    short, long = 4096, 12288
    sizes = tuple({"Z": 1, "H": heads, "N_CTX": n} for n in (short, long))
    full = (32, 4)
    return Loop((sizes[0], sizes[1]), (short // step, long // step), ((1, 1), (1, 1)), (full, full))


def any_length(step: int) -> Loop:
    """The same in query blocks of 192 rows."""
    short, long, heads = 3840, 11520, 6
    sizes = tuple({"Z": 1, "H": heads, "N_CTX": n} for n in (short, long))
    full = (20, heads)
    return Loop((sizes[0], sizes[1]), (short // step, long // step), ((1, 1), (1, 1)), (full, full))


def causal(step: int) -> Loop:
    """The last query block decides: it has an unmasked loop over all keys before it."""
    short, long = 32, 96  # query blocks
    sizes = tuple({"Z": 1, "H": 1, "N_CTX": 128 * blocks} for blocks in (short, long))
    iterations = tuple((blocks - 1) * 128 // step for blocks in (short, long))
    return Loop((sizes[0], sizes[1]), (iterations[0], iterations[1]), ((short, 1), (long, 1)), None)


def rows_of(step: int) -> Loop:
    """A row a program, in steps of `step`, three times over."""
    iterations = (64, 192)
    sizes = tuple({"M": 132, "N": step * i} for i in iterations)
    return Loop((sizes[0], sizes[1]), iterations, ((1,), (1,)), ((132,), (132,)), "all")


LOOPS: Mapping[str, Loop] = {
    "gemm-bf16": flat(product()),
    "gemm-bf16-wide": flat(product(256)),
    "gemm-bf16-192": flat(product(192)),
    "gemm_fp8-e4m3": flat(product(step=128)),
    "gemm_fp8-e4m3-wide": flat(product(256, step=128)),
    "gemm_fp8-e4m3-192": flat(product(192, step=128)),
    "gemm_pointers-bf16": flat(product()),
    "gemm_pointers-bf16-wide": flat(product(256)),
    "gemm_bias_gelu-bf16": product(),
    "gemm_bias_gelu-bf16-wide": product(256),
    "dual_gemm-bf16": product(),
    "attention-full": attention(128),
    "attention-full-d64": attention(128),
    "attention-full-d256": attention(64),
    "attention_any_length-full": any_length(80),
    "attention_any_length-full-d64": any_length(128),
    "attention_pointers-full": attention(128),
    "attention-causal": causal(128),
    "attention-causal-d64": causal(128),
    "attention-causal-d256": causal(64),
    "attention_backward-full": attention(64),
    "attention_backward-causal": replace(attention(64), full=None),  # the first key block sees all queries
    # Blocks inside the first window see all keys before them.
    "sliding_window_attention-bf16": Loop(
        ({"Z": 1, "H": 1, "N_CTX": 1024},) * 2, (2, 8), ((2, 1), (8, 1)), None
    ),
    "linear_attention-bf16": Loop(
        ({"Z": 1, "H": 66, "T": 4096, "HEAD_V": 128}, {"Z": 1, "H": 66, "T": 12288, "HEAD_V": 128}),
        (64, 192), ((1, 1), (1, 1)), ((2, 66), (2, 66)),
    ),
    "layer_norm-bf16": rows_of(1024),
    "layer_norm-bf16-wide": rows_of(2048),
    "layer_norm-bf16-widest": rows_of(4096),
}  # fmt: skip


@dataclass(frozen=True)
class Measured:
    """Cycles of an iteration and their quartiles over the repeats; megahertz of the SMs in the long launches."""

    cycles: float
    low: float
    high: float
    megahertz: float


@dataclass(frozen=True)
class Row:
    """One example. predicted: cycles of an iteration in its schedule."""

    kernel: str
    predicted: int
    alone: Measured
    full: Measured | None


class Clock:
    """Cycles of the SMs between a point before and a point behind a launch."""

    def __init__(self) -> None:
        import torch

        from twill.codegen.compile.nvrtc import compile_cubin
        from twill.runtime.device import device
        from twill.runtime.module import LaunchParameter, load_module

        self.sms = device(0).sms
        built = compile_cubin(Path(__file__).with_suffix(".cu").read_text(encoding="utf-8"), "sm_90a")
        module = load_module(built.cubin, "sm_90a")
        self.stamp = module.kernel("stamp", (LaunchParameter("readings", "pointer"), LaunchParameter("sms", "i32")))
        self.where = module.kernel("where", (LaunchParameter("sm", "pointer"),))
        self.hold = module.kernel("hold", (LaunchParameter("microseconds", "i32"),))
        self.readings = torch.zeros((2, self.sms, 2), dtype=torch.int64, device="cuda")
        self.place = torch.zeros((1,), dtype=torch.int32, device="cuda")

    def sm(self, grid: Grid) -> int:
        """The SM of the last program of a launch of so many, if there is one for each SM at most."""
        from twill.runtime.launch import LaunchShape, launch

        ctas = min(self.sms, math.prod(grid))
        launch(self.where, LaunchShape((ctas, 1, 1), (384, 1, 1), SHARED), [self.place])
        return int(self.place.item())

    def time(self, launch: Callable[[], None], sm: int) -> tuple[float, float]:
        """Cycles of SM `sm` and its megahertz during a launch, with what the stamps themselves take."""
        import torch

        from twill.runtime.launch import LaunchShape
        from twill.runtime.launch import launch as start

        shape = LaunchShape((self.sms, 1, 1), (32, 1, 1), SHARED)
        start(self.hold, LaunchShape((1, 1, 1), (1, 1, 1)), [HOLD], stream=0)
        start(self.stamp, shape, [self.readings[0], self.sms])
        launch()
        start(self.stamp, shape, [self.readings[1], self.sms])
        torch.cuda.synchronize()
        difference = self.readings[1] - self.readings[0]
        cycles, nanoseconds = difference[sm].tolist()
        return cycles, 1000 * cycles / nanoseconds


def rows(folder: Path, only: str, repeats: int) -> Iterator[Row]:
    """Every kernel in `folder` that LOOPS has."""
    clock = Clock()
    for name, loop in LOOPS.items():
        if only in name and (folder / name / "manifest.json").exists():
            yield row(folder / name, loop, clock, repeats)


def row(folder: Path, loop: Loop, clock: Clock, repeats: int) -> Row:
    """One kernel, alone and with all SMs."""
    from tests.gpu.check_examples import problem_of
    from twill.runtime.kernel import EmittedKernel
    from twill.trial.data import make_data

    kernel = EmittedKernel.load(folder)
    problem = problem_of(kernel.manifest.file, kernel.manifest.spec)
    data = tuple(make_data(kernel.manifest, problem.case(sizes)) for sizes in loop.sizes)
    alone = measured(kernel, data, loop.alone, loop.iterations, clock, repeats)
    full = measured(kernel, data, loop.full, loop.iterations, clock, repeats) if loop.full else None
    schedule = json.loads((folder / "schedule.json").read_text(encoding="utf-8"))
    return Row(folder.name, predicted(schedule, loop), alone, full)


def predicted(schedule: Mapping[str, Any], loop: Loop) -> int:
    """Cycles of an iteration of one program instance."""
    cycles: int = sum(one["ii"] for one in schedule["loops"]) if loop.loops == "all" else schedule["ii"]
    fuse: int = schedule["cooperation"]["fuse"]
    return round(cycles / fuse)


def measured(
    kernel: Any, data: tuple[Any, ...], grids: tuple[Grid, Grid], iterations: tuple[int, int], clock: Clock,
    repeats: int,
) -> Measured:  # fmt: skip
    """The short and the long launch in turns."""
    from twill.trial.data import emitted

    launches = [
        emitted(kernel, replace(one, case=replace(one.case, grid=grid))) for one, grid in zip(data, grids, strict=True)
    ]
    found: list[list[tuple[float, float]]] = [[], []]
    chance = random.Random(0)
    sms = [clock.sm(grid) for grid in grids]
    for launch in launches:
        launch()  # tensor maps, code, first touch of the memory
    for _ in range(repeats):
        for which in chance.sample((0, 1), 2):
            found[which].append(clock.time(launches[which], sms[which]))
    differences = [(long[0] - short[0]) / (iterations[1] - iterations[0]) for short, long in zip(*found, strict=True)]
    quartiles = statistics.quantiles(differences, n=4)
    megahertz = statistics.median(one[1] for one in found[1])
    return Measured(statistics.median(differences), quartiles[0], quartiles[2], megahertz)


# ---------------------------------------------------------------- the page

HEAD = ("kernel", "predicted", "one SM", "quartiles", "/ predicted", "all SMs", "quartiles", "/ predicted", "MHz")


def markdown(document: Mapping[str, Any]) -> str:
    """The page of a document that `main` wrote."""
    about = (
        f"{document['date']}; {document['device']}. Cycles of an iteration: the schedule's initiation interval beside "
        "the difference of a long and a short launch over their difference in iterations, in cycles of the SMs' own "
        f"clocks, medians of {document['repeats']} pairs with their quartiles. `one SM`: the programs of one SM alone "
        "(causal and windowed attention: one program on each of as many SMs, the longest decides); `all SMs`: one "
        "program on every SM, or nearly."
    )
    table = [line(HEAD), line(["---"] * len(HEAD)), *(line(cells(one)) for one in document["rows"])]
    return "\n".join(["# Predicted and measured cycles of an iteration", "", about, "", *table]) + "\n"


def cells(one: Mapping[str, Any]) -> list[str]:
    """One row."""
    found = [one["kernel"], str(one["predicted"])]
    for part in (one["alone"], one["full"]):
        if part is None:
            found += ["", "", ""]
            continue
        quartiles = f"{part['low']:.0f} to {part['high']:.0f}"
        found += [f"{part['cycles']:.0f}", quartiles, f"{part['cycles'] / one['predicted']:.2f}"]
    return [*found, f"{(one['full'] or one['alone'])['megahertz']:.0f}"]


def line(texts: Any) -> str:
    """A line of the table."""
    return "| " + " | ".join(texts) + " |"


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.predicted", description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--repeats", type=int, default=REPEATS)
    now = datetime.now(UTC)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--simulate", type=Path, metavar="RECORD", help="simulate, beside what was measured before")
    given = parser.parse_args()
    if given.simulate:
        from benchmarks.predicted_simulated import simulate

        simulate(given.folder, given.only, given.simulate, given.out)
        return 0
    import torch

    out = given.out or ROOT / f"benchmarks/results/predicted-{now:%Y-%m-%d}.json"
    found = []
    for one in rows(given.folder, given.only, given.repeats):
        found.append(asdict(one))
        print(line(cells(found[-1])), flush=True)
        document = {
            "date": f"{now:%Y-%m-%d %H:%M} UTC", "device": torch.cuda.get_device_name(), "repeats": given.repeats,
            "rows": found,
        }  # fmt: skip
        out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
        out.with_suffix(".md").write_text(markdown(document), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
