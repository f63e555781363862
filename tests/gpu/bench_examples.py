"""Times of the emitted examples beside the best configuration of the Triton kernel and PyTorch, in turns."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import torch

from tests.gpu.check_examples import module, problem_of, words
from tests.gpu.examples import ROOT
from tests.gpu.peers import Configuration, configurations, flops, moved, vendor
from tests.gpu.references import EXAMPLES
from twill.graph.problem import Case
from twill.runtime.kernel import EmittedKernel
from twill.trial.data import Data, emitted, make_data, original
from twill.trial.timing import host_microseconds, interleaved, milliseconds

SECONDS = 150.0  # of one kernel's process


@dataclass(frozen=True)
class Timing:
    """Medians of one kernel at one size. Times in milliseconds; rates in TFLOP/s, or TB/s if there is no product."""

    kernel: str
    case: str
    unit: str
    emitted_ms: float
    triton_ms: float
    vendor_ms: float | None
    emitted: float
    triton: float
    vendor: float | None
    vendor_name: str
    configuration: str
    emitted_host_us: float
    triton_host_us: float

    @property
    def speedup(self) -> float:
        """Over the Triton kernel."""
        return self.triton_ms / self.emitted_ms

    def text(self) -> str:
        """For people."""
        vendor = "" if self.vendor is None else f"  {self.vendor_name} {self.vendor:7.1f}"
        rates = f"{self.emitted:7.1f} {self.unit}  Triton {self.triton:7.1f}{vendor}"
        host = f"host {self.emitted_host_us:.1f} / {self.triton_host_us:.1f} us"
        return f"{self.kernel:34s} {self.case:28s} {rates}  x{self.speedup:.2f}  {host}  [{self.configuration}]"


def bench(folder: Path, kernels: list[str], out: Path) -> bool:
    """Every kernel in a process of its own; the table into `out`; whether all could be timed."""
    timings: list[dict[str, Any]] = []
    failed = 0
    for kernel in kernels:
        words = [sys.executable, "-m", "tests.gpu.bench_examples", str(folder), kernel]
        try:
            done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=SECONDS)
            output, ending = done.stdout, "" if done.returncode == 0 else done.stderr.strip()[-300:]
        except subprocess.TimeoutExpired as late:
            output = late.stdout.decode() if isinstance(late.stdout, bytes) else late.stdout or ""
            ending = f"no end after {SECONDS:g} s"
        for line in output.splitlines():
            if line.startswith("{"):
                timing = Timing(**json.loads(line))
                timings.append({**asdict(timing), "speedup": timing.speedup})
                print(timing.text(), flush=True)
        if ending:
            failed += 1
            print(f"{kernel:34s} not timed: {ending}", flush=True)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps({**environment(), "timings": timings}, indent=1) + "\n", encoding="utf-8")
    return not failed


def environment() -> dict[str, str]:
    """Where and when."""
    import triton

    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU"
    date = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return {"date": date, "device": device, "torch": torch.__version__, "triton": triton.__version__}


def timings(folder: Path) -> Iterator[Timing]:
    """One kernel at every size of its sidecar's `bench`."""
    kernel = EmittedKernel.load(folder)
    manifest = kernel.manifest
    triton_kernel = getattr(module(manifest.file), manifest.kernel)
    problem = problem_of(manifest.file, manifest.spec)
    for sizes in problem.bench:
        yield _timing(folder.name, kernel, triton_kernel, problem.case(sizes))


def _timing(name: str, kernel: EmittedKernel, triton_kernel: Any, case: Case) -> Timing:
    data = make_data(kernel.manifest, case)
    if prepare := EXAMPLES[kernel.manifest.kernel].prepare:
        prepare(data)
    best, triton_launch = tuned(triton_kernel, data)
    launches: dict[str, Any] = {"emitted": emitted(kernel, data), "triton": triton_launch}
    peer = vendor(data)
    if peer is not None:
        launches["vendor"] = peer[1]
    times = interleaved(launches)
    work, unit = (flops(data) / 1e9, "TFLOP/s") if flops(data) else (moved(data) / 1e9, "TB/s")
    vendor_ms = times.get("vendor")
    return Timing(
        kernel=name,
        case=words(case),
        unit=unit,
        emitted_ms=times["emitted"],
        triton_ms=times["triton"],
        vendor_ms=vendor_ms,
        emitted=work / times["emitted"],
        triton=work / times["triton"],
        vendor=work / vendor_ms if vendor_ms else None,
        vendor_name=peer[0] if peer else "",
        configuration=best.text(),
        emitted_host_us=host_microseconds(launches["emitted"], 200),
        triton_host_us=host_microseconds(launches["triton"], 200),
    )


def tuned(triton_kernel: Any, data: Data) -> tuple[Configuration, Any]:
    """The fastest configuration of the Triton kernel that runs."""
    found: list[tuple[float, Configuration, Any]] = []
    for configuration in configurations(data):
        fitting = _regrid(data, configuration)
        launch = original(
            triton_kernel, fitting, configuration.constants, configuration.blocks, **configuration.options
        )
        try:
            launch()
            torch.cuda.synchronize()
            found.append((milliseconds(launch, 0.02), configuration, launch))
        except Exception as error:  # too much shared memory, or a size that this tile does not divide
            if "illegal" in str(error) or "launch failure" in str(error):
                raise
    _, best, launch = min(found, key=lambda entry: entry[0])
    return best, launch


def _regrid(data: Data, configuration: Configuration) -> Data:
    """The same data on the grid that other tiles need."""
    problem = problem_of(data.manifest.file, data.manifest.spec)
    known = {**problem.constants, **configuration.constants}
    retiled = type(problem)(**{**vars(problem), "constants": known})
    return Data(data.manifest, retiled.case(data.case.sizes), data.held)


if __name__ == "__main__":
    for timing in timings(Path(sys.argv[1]) / sys.argv[2]):
        print(json.dumps(asdict(timing)), flush=True)
