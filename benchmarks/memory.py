"""Kernels without products beside Triton and PyTorch: row softmax, RMSNorm, LayerNorm, cross entropy, SwiGLU, RoPE.

    python -m benchmarks.memory build FOLDER     anywhere: solves and emits every row's kernel
    python -m benchmarks.memory run FOLDER       on a GPU: checks and times them, at 8192 x 4096 and 4096 x 32000

`run` takes the contestants of a row in turns (a window of launches each), after each result was compared with float64.
Where a kernel goes through a row by tiles, so does the one that takes the row at once (`NAME.whole` in FOLDER), as do
other kernels of a row (`NAME.suffix`). Triton runs both with 4, 8 and 16 warps. The fastest of either counts.
Bytes are those that the operation has to move, each tensor once.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PEAK = {"H200": 4.8e12, "H100": 3.35e12}  # bytes a second of the memory, NVIDIA's data sheets
FILE = Path(__file__).with_name("memory_kernels.py")
TYPES = {
    **{name: "*bf16:16" for name in ("X", "Y", "A", "B", "C", "weight", "bias", "cos_ptr", "sin_ptr")},
    **{name: "*fp32:16" for name in ("rstd_ptr", "mean_ptr", "loss_ptr")},
    "labels": "*i64:16", "stride": "i32:16", "N": "i32:16", "eps": "fp32",
}  # fmt: skip
NEAR = 1.3  # times Triton's own distance from float64
EPS = 1e-5
HALF = 64
ROUNDS, WINDOW = 9, 20  # of each contestant; launches of one


@dataclass(frozen=True)
class Row:
    """An operation at one size. kernel: of `memory_kernels.py`, with these constexprs. whole: the kernel that takes
    a row at once, if this one does not."""

    operation: str
    kernel: str
    arguments: tuple[str, ...]
    constants: dict[str, int]
    rows: int
    columns: int
    whole: str = ""

    @property
    def name(self) -> str:
        """The folder of its emitted kernel."""
        return f"{self.operation}-{self.rows}x{self.columns}"

    @property
    def forms(self) -> list[tuple[str, str, dict[str, int]]]:
        """(suffix of the folder, kernel, constants) of each way to go through a row."""
        whole = {"BLOCK": 1 << (self.columns - 1).bit_length()}
        return [("", self.kernel, self.constants), *([(".whole", self.whole, whole)] if self.whole else [])]

    @property
    def grid(self) -> tuple[int, ...]:
        """Of the launch."""
        return (self.rows, -(-self.columns // self.constants["BLOCK"])) if self.operation == "swiglu" else (self.rows,)


ARGUMENTS = {
    "softmax": ("X", "Y", "stride", "N"),
    "rms_norm": ("X", "Y", "weight", "rstd_ptr", "stride", "N", "eps"),
    "layer_norm": ("X", "Y", "weight", "bias", "mean_ptr", "rstd_ptr", "stride", "N", "eps"),
    "cross_entropy": ("X", "labels", "loss_ptr", "stride", "N"),
    "swiglu": ("A", "B", "C", "stride", "N"),
    "rope": ("X", "Y", "cos_ptr", "sin_ptr", "stride"),
}


def table() -> list[Row]:
    """Every row."""
    found = []
    for operation, arguments in ARGUMENTS.items():
        if operation == "rope":
            for m, n in ((8192, 4096), (16384, 8192)):
                found.append(Row(operation, operation, arguments, {"HEADS": n // (2 * HALF), "HALF": HALF}, m, n))
            continue
        found.append(Row(operation, operation, arguments, {"BLOCK": 4096}, 8192, 4096))
        if operation in ("softmax", "rms_norm", "layer_norm"):
            found += [Row(operation, operation, arguments, {"BLOCK": n}, 4096, n) for n in (8192, 16384)]
        looped = operation in ("softmax", "rms_norm", "layer_norm")
        long = f"{operation}_loop" if looped else operation
        found.append(Row(operation, long, arguments, {"BLOCK": 4096}, 4096, 32000, operation if looped else ""))
    return found


# -- emitting -------------------------------------------------------------------------------------


def build(folder: Path, only: str, machine: str) -> int:
    """A directory for each row; how many were refused."""
    from twill.cli.entry import main as twill

    failed = 0
    for row in (one for one in table() if only in one.name):
        for suffix, kernel, constants in row.forms:
            sig = [f"--sig={name}={TYPES[name]}" for name in row.arguments]
            const = [f"--const={name}={value}" for name, value in constants.items()]
            out = ["--machine", machine, "--out", str(folder / f"{row.name}{suffix}")]
            code = twill(["emit", f"{FILE}::{kernel}", *out, *sig, *const])
            print(f"{row.name}{suffix}: {'emitted' if code == 0 else f'exit code {code}'}", flush=True)
            failed += code != 0
    return failed


# -- on a GPU -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Work:
    """Tensors and numbers of a row. outputs: what is compared. reference: the outputs in float64. peer: PyTorch's."""

    values: dict[str, Any]
    outputs: tuple[str, ...]
    reference: tuple[Any, ...]
    peer: Callable[[], Any]
    bytes: int


def make(row: Row) -> Work:
    """Random data of a row."""
    import torch
    import torch.nn.functional as F

    torch.manual_seed(0)
    shape = (row.rows, row.columns)

    def matrix(*size: int) -> Any:
        return torch.randn(size or shape, device="cuda", dtype=torch.bfloat16)

    def numbers() -> Any:
        return torch.empty(row.rows, device="cuda", dtype=torch.float32)

    v: dict[str, Any] = {"stride": row.columns, "N": row.columns, "eps": EPS, "Y": matrix()}
    size = 2 * row.rows * row.columns
    if row.operation == "swiglu":
        v |= {"A": matrix(), "B": matrix(), "C": matrix()}
        a, b = v["A"], v["B"]
        return Work(v, ("C",), (F.silu(a.double()) * b.double(),), lambda: F.silu(a) * b, 3 * size)
    x = v["X"] = matrix()
    if row.operation == "softmax":
        return Work(v, ("Y",), (torch.softmax(x.double(), 1),), lambda: torch.softmax(x, 1), 2 * size)
    if row.operation == "cross_entropy":
        labels = v["labels"] = torch.randint(row.columns, (row.rows,), device="cuda")
        v["loss_ptr"] = numbers()
        leaf = x.clone().requires_grad_()
        gradient = torch.softmax(x.double(), 1)
        gradient[torch.arange(row.rows, device="cuda"), labels] -= 1
        loss = F.cross_entropy(x.double(), labels, reduction="none")
        ones = torch.ones(row.rows, device="cuda", dtype=torch.bfloat16)
        peer = lambda: torch.autograd.grad(F.cross_entropy(leaf, labels, reduction="none"), leaf, ones)  # noqa: E731
        return Work(v, ("X", "loss_ptr"), (gradient, loss), peer, 2 * size)
    if row.operation == "rope":
        angle = torch.rand(row.rows, HALF, device="cuda") * 6
        v["cos_ptr"], v["sin_ptr"] = angle.cos().bfloat16(), angle.sin().bfloat16()
        c, s = v["cos_ptr"][:, None, :], v["sin_ptr"][:, None, :]

        def rotated(x: Any, c: Any, s: Any) -> Any:
            one, two = x.view(row.rows, -1, 2, HALF).unbind(2)
            return torch.stack((one * c - two * s, two * c + one * s), 2).view(shape)

        return Work(v, ("Y",), (rotated(x.double(), c.double(), s.double()),), lambda: rotated(x, c, s), 2 * size)
    w, b = matrix(row.columns), matrix(row.columns)
    v |= {"weight": w, "bias": b, "mean_ptr": numbers(), "rstd_ptr": numbers()}
    wide = x.double()
    if row.operation == "rms_norm":
        rstd = (wide.square().mean(1) + EPS).rsqrt()
        wanted = wide * rstd[:, None] * w.double()
        return Work(v, ("Y", "rstd_ptr"), (wanted, rstd), lambda: F.rms_norm(x, (row.columns,), w, EPS), 2 * size)
    mean, rstd = wide.mean(1), (wide.var(1, unbiased=False) + EPS).rsqrt()
    wanted = (wide - mean[:, None]) * rstd[:, None] * w.double() + b.double()
    peer = lambda: F.layer_norm(x, (row.columns,), w, b, EPS)  # noqa: E731
    return Work(v, ("Y", "mean_ptr", "rstd_ptr"), (wanted, mean, rstd), peer, 2 * size)


def distance(work: Work, launch: Callable[[], Any]) -> tuple[float, ...]:
    """Of each output from float64 after one launch, relative in the norm. What is read is as it was afterwards."""
    import torch

    before = {name: work.values[name].clone() for name in work.outputs}
    for name in work.outputs:
        if name != "X":
            work.values[name].fill_(float("nan"))
    launch()
    torch.cuda.synchronize()
    pairs = zip(work.outputs, work.reference, strict=True)
    found = tuple(float((work.values[n].double() - r).norm() / r.norm()) for n, r in pairs)
    for name, tensor in before.items():
        work.values[name].copy_(tensor)
    return found


def window(launch: Callable[[], Any]) -> float:
    """Seconds of one launch, of several back to back."""
    import torch

    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    begin.record()
    for _ in range(WINDOW):
        launch()
    end.record()
    end.synchronize()
    return float(begin.elapsed_time(end)) / 1000 / WINDOW


def measure(row: Row, folder: Path, peak: float) -> bool:
    """Prints the line of a row; whether the emitted kernel is right."""
    from benchmarks import memory_kernels
    from twill.runtime.kernel import EmittedKernel

    work = make(row)
    given = {name: work.values[name] for name in row.arguments}
    contestants: dict[str, Callable[[], Any]] = {"torch": work.peer}
    for _, form, constants in row.forms:
        function = getattr(memory_kernels, form)
        for warps in (4, 8, 16):
            how = f"triton {form} {warps}w"
            contestants[how] = lambda f=function, c=constants, w=warps: f[row.grid](**given, **c, num_warps=w)
    for path in sorted(folder.glob(f"{row.name}*")):
        kernel = EmittedKernel.load(path)
        name = f"twill{path.name.removeprefix(row.name)}"
        constants = {one.name: one.value for one in kernel.manifest.arguments if one.kind == "constant"}
        contestants[name] = lambda k=kernel, c=constants: k[row.grid](**given, **c)
    far = {name: distance(work, launch) for name, launch in contestants.items() if name != "torch"}
    theirs = far[f"triton {row.kernel} 4w"]
    ours = {name: error for name, error in far.items() if name.startswith("twill")}
    right = bool(ours) and all(a <= NEAR * b + 1e-7 for one in ours.values() for a, b in zip(one, theirs, strict=True))
    taken: dict[str, list[float]] = {name: [] for name in contestants}
    for number in range(ROUNDS + 1):
        for name in random.sample(list(contestants), len(contestants)):
            took = window(contestants[name])
            if number:
                taken[name].append(took)
    times = {name: statistics.median(every) for name, every in taken.items()}
    best = min((time, name) for name, time in times.items() if name.startswith("triton"))
    same = min(time for name, time in times.items() if name.startswith(f"triton {row.kernel} "))
    mine, which = min(((times[name], name) for name in ours), default=(float("nan"), "twill"))
    worst = max(far.get(which, (0.0,)))
    others = "".join(f", {name} {times[name] * 1e6:.1f} us" for name in ours if name != which)

    def shown(time: float) -> str:
        return f"{time * 1e6:7.1f} us {work.bytes / time / 1e12:5.2f} TB/s {work.bytes / time / peak:4.0%}"

    print(
        f"{'PASS' if right else 'FAIL'} {row.name:25} {which:12} {shown(mine)} | {best[1]:26} {shown(best[0])} | torch "
        f"{shown(times['torch'])} | of Triton {best[0] / mine:.2f} (same form {same / mine:.2f}), of the best "
        f"{min(best[0], times['torch']) / mine:.2f}, error {worst:.1e} beside "
        f"{max(theirs):.1e}{others}",
        flush=True,
    )
    return right


def run(folder: Path, only: str) -> int:
    """Every row; how many emitted kernels are missing or wrong."""
    import torch

    device = torch.cuda.get_device_name()
    peak = next((rate for name, rate in PEAK.items() if name in device), float("nan"))
    print(f"{device}; share of {peak / 1e12} TB/s")
    return sum(not measure(row, folder, peak) for row in table() if only in row.name)


def main() -> int:
    """See the top of this file."""
    one = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("command", choices=("build", "run"))
    one.add_argument("folder", type=Path)
    one.add_argument("--only", default="", help="rows whose names have this in them")
    one.add_argument("--machine", default="h200", help="for build (default h200)")
    given = one.parse_args()
    failed = (
        build(given.folder, given.only, given.machine) if given.command == "build" else run(given.folder, given.only)
    )
    print("PASS" if not failed else f"FAIL: {failed}")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
