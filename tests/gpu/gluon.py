"""Emitted modules of Gluon on a Hopper GPU: right beside float32, equal bits from launch to launch, timed.

    python -m tests.gpu.gluon build DIR [--tutorials FOLDER] [--only NAME]     # anywhere
    python -m tests.gpu.gluon run DIR [--only NAME] [--seconds S]              # on a GPU

`build` emits each workload of `tests.gpu.gluon_workloads` with the installed Triton, as Gluon and as CUDA. FOLDER is
`python/tutorials/gluon` of a copy of that Triton; without it nothing is compared with its persistent matmul. `run`
needs PyTorch, Triton, NumPy and cuda-bindings, and nothing of the solver. Each workload runs in a process of its own,
with a limit on its time. Exit code 1: something is wrong, or slower beside Triton than it should be.
"""

from __future__ import annotations

import argparse
import importlib.util
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.gpu import gluon_tutorial
from tests.gpu.gluon_workloads import WORKLOADS, Build, Workload

if TYPE_CHECKING:
    import torch

ROOT = Path(__file__).resolve().parents[2]
FORMS = ("gluon", "cuda")
LAUNCHES = 20
ROUNDS, BURST = 11, 10  # a time is the median of so many rounds of so many launches
ALLOWED = 1.2  # times the error of Triton's own kernel


# ---------------------------------------------------------------- build


def build(place: Path, only: str, tutorials: Path | None) -> bool:
    """Solves and emits, in both forms; whether everything was."""
    if tutorials is not None:
        gluon_tutorial.take(tutorials, place)
    failed = 0
    for name, workload in WORKLOADS.items():
        for one in workload.builds if only in name else ():
            for form in FORMS:
                command = ["-m", "twill", "emit", f"examples/{workload.kernel}.py", "--spec", one.spec]
                command += ["--machine", one.machine, "--as", form, "--out", str(folder(place, workload, one, form))]
                done = subprocess.run([sys.executable, *command], capture_output=True, text=True, check=False, cwd=ROOT)
                failed += done.returncode != 0
                said = done.stdout if done.returncode == 0 else done.stderr
                print(f"{name} {one.spec} {one.machine} {form}: {said.strip()}", flush=True)
    return not failed


def folder(place: Path, workload: Workload, one: Build, form: str) -> Path:
    """Where one form of one build is."""
    return place.absolute() / f"{workload.kernel}-{one.spec}-{one.machine}-{form}"


# ---------------------------------------------------------------- run


def run(place: Path, only: str, seconds: float) -> bool:
    """Every workload, each in its process; whether everything holds."""
    failed = []
    for name in [name for name in WORKLOADS if only in name]:
        command = [sys.executable, "-m", "tests.gpu.gluon", "case", str(place.absolute()), "--only", name]
        try:
            ended = subprocess.run(command, check=False, cwd=ROOT, timeout=seconds).returncode
        except subprocess.TimeoutExpired:
            ended = -1
            print(f"{name}: no end after {seconds:g} s", flush=True)
        failed += [name] if ended else []
    print(f"not as it should be: {', '.join(failed)}" if failed else "all as it should be", flush=True)
    return not failed


@dataclass(frozen=True)
class Contestant:
    """Who may be timed. out: what a launch writes. kind: gluon, cuda, Triton or tutorial."""

    name: str
    kind: str
    launch: Callable[[], Any]
    out: torch.Tensor


def case(place: Path, name: str) -> bool:
    """One workload in this process."""
    import torch
    import triton

    workload = WORKLOADS[name]
    print(
        f"{name}: {torch.cuda.get_device_name()}, Triton {triton.__version__}, PyTorch {torch.__version__}", flush=True
    )
    failed = 0
    for size in (*workload.awkward, *workload.timed):
        right, wrong = checked(place, workload, size)
        failed += wrong
        if size in workload.timed:
            failed += not compared(name, size, right, workload.least if size == workload.timed[0] else 0.0)
        del right
        torch.cuda.empty_cache()
    return not failed


def checked(place: Path, workload: Workload, size: tuple[int, ...]) -> tuple[list[Contestant], int]:
    """Those that are right at this size, and how many of our own are not. Triton's own need not be: their tiles may not
    divide the size."""
    import torch

    wanted = workload.call(size, {}).wanted()
    allowed, right, wrong = 0.0, [], 0
    for one in contestants(place, workload, size):
        ours = one.kind in FORMS
        try:
            error, same = launched(one, wanted, LAUNCHES if ours else 1)
        except Exception as refused:  # of Triton's, or of ours: it is said, and the rest goes on
            wrong += ours
            print(f"{workload.kernel} {size} {one.name}: {type(refused).__name__}: {str(refused)[:200]}", flush=True)
            torch.cuda.synchronize()
            continue
        allowed = allowed or ALLOWED * error  # of the first, which is Triton's
        good = same and error <= allowed
        wrong += ours and not good
        right += [one] if good else []
        said = "ok" if good else "WRONG" if ours else "wrong, left out"
        print(f"{workload.kernel} {size} {one.name}: {said}, error {error:.2e}", end="", flush=True)
        print("" if not ours else f", {LAUNCHES} launches {'equal' if same else 'DIFFER'}", flush=True)
    return right, wrong


def contestants(place: Path, workload: Workload, size: tuple[int, ...]) -> Iterator[Contestant]:
    """Triton's kernel, the modules and the CUDA forms, and where this is a GEMM the tutorial's. Each has an output of
    its own."""
    from tests.gpu import jit_calls
    from twill.runtime.kernel import EmittedKernel

    timed = size in workload.timed
    for tiles in workload.stock if timed else workload.stock[:1]:
        call = workload.call(size, tiles)
        launch = partial(call.launch, jit_calls.kernel(workload.kernel))
        yield Contestant("Triton " + " ".join(map(str, tiles.values())), "Triton", launch, call.out)
    for one in workload.builds:
        for form in FORMS:
            at = folder(place, workload, one, form)
            call = workload.call(size, dict(one.tiles))
            fast = EmittedKernel.load(at) if form == "cuda" else module(at, workload.kernel)
            yield Contestant(f"{form} {one.spec} {one.machine}", form, partial(call.launch, fast), call.out)
    if timed and workload.kernel == "gemm":
        call = workload.call(size, {})
        a, b = call.inputs
        for name, persistent in gluon_tutorial.launches(place, a, b, call.out):
            yield Contestant(name, "tutorial", persistent, call.out)


def module(at: Path, kernel: str) -> Any:
    """The launcher of an emitted module. The file that modules share is the same beside each."""
    sys.path.insert(0, str(at))
    spec = importlib.util.spec_from_file_location(at.name.replace("-", "_"), at / f"{kernel}_gluon.py")
    assert spec is not None and spec.loader is not None
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return getattr(made, kernel)


def launched(one: Contestant, wanted: torch.Tensor, times: int) -> tuple[float, bool]:
    """The relative error, and whether all launches gave equal bits."""
    import torch

    first, same = torch.empty(0), True
    for at in range(times):
        one.out.fill_(float("nan"))
        one.launch()
        torch.cuda.synchronize()
        first = one.out.clone() if at == 0 else first
        same = same and torch.equal(first, one.out)
    return float((first.float() - wanted).norm() / wanted.norm()), same


def compared(name: str, size: tuple[int, ...], those: list[Contestant], least: float) -> bool:
    """Prints times; whether the fastest module is as much faster than Triton as it should be."""
    times = timed({one.name: one.launch for one in those})
    fastest: dict[str, float] = {}
    for one in sorted(those, key=lambda one: times[one.name]):
        fastest.setdefault(one.kind, times[one.name])
        print(f"{name} {size} | {times[one.name]:8.1f} us | {one.name}", flush=True)
    if not {"gluon", "Triton"} <= fastest.keys():
        return False
    ratio = fastest["Triton"] / fastest["gluon"]
    others = ", ".join(f"{kind} {time / fastest['gluon']:.2f}" for kind, time in fastest.items() if kind != "gluon")
    wanted = f" (wanted: {least})" if least else ""
    print(f"{name} {size} | over the module's time: {others} | Triton / Gluon {ratio:.2f}{wanted}", flush=True)
    return ratio >= least


def timed(launches: dict[str, Callable[[], Any]]) -> dict[str, float]:
    """Microseconds of each, in turns, from a CUDA graph: what a launch costs the host is not in it."""
    import torch

    bursts = {who: burst(who, launch) for who, launch in launches.items()}
    times: dict[str, list[float]] = {who: [] for who in launches}
    for _ in range(ROUNDS):
        for who, start in bursts.items():
            event: Any = torch.cuda.Event
            begin, end = event(enable_timing=True), event(enable_timing=True)
            begin.record()
            start()
            end.record()
            torch.cuda.synchronize()
            times[who].append(float(begin.elapsed_time(end)) * 1000 / BURST)
    return {who: statistics.median(taken) for who, taken in times.items()}


def burst(who: str, launch: Callable[[], Any]) -> Callable[[], Any]:
    """So many launches as one graph; one after the other where they can't be captured, which is said."""
    import torch

    graph = torch.cuda.CUDAGraph()
    try:
        with torch.cuda.graph(graph):
            for _ in range(BURST):
                launch()
    except Exception as refused:
        torch.cuda.synchronize()
        print(f"{who}: launched by the host: {type(refused).__name__}: {str(refused)[:100]}", flush=True)
        return lambda: [launch() for _ in range(BURST)]
    graph.replay()
    torch.cuda.synchronize()
    return graph.replay


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.gluon", description=__doc__)
    parser.add_argument("action", choices=("build", "run", "case"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="workloads whose name contains this")
    parser.add_argument("--tutorials", type=Path, help="python/tutorials/gluon of a copy of Triton")
    parser.add_argument("--seconds", type=float, default=240.0, help="limit of each workload's process")
    given = parser.parse_args()
    if given.action == "build":
        return 0 if build(given.folder, given.only, given.tutorials) else 1
    if given.action == "run":
        return 0 if run(given.folder, given.only, given.seconds) else 1
    return 0 if case(given.folder, given.only) else 1


if __name__ == "__main__":
    sys.exit(main())
