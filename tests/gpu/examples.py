"""The examples on a GPU: emitted kernels against the original Triton kernels and PyTorch in float32 or float64.

    python -m tests.gpu.examples build DIR [--only NAME] [--machine h200] [--budget S] [--unverified] [--slow]
    python -m tests.gpu.examples run DIR [--only NAME] [--quick | --smallest] [--seconds S]
    python -m tests.gpu.examples case DIR --only NAME [--quick | --smallest]

`build` needs no GPU: it solves and emits every specialization of every example into DIR/<example>-<spec>, and says
which were refused and why. Schedules are kept in DIR/schedules and used again. `run` needs a GPU, PyTorch, Triton and
cuda-bindings, nothing of the solver; each kernel runs in a process of its own with a limit on its time, so that one
that hangs does not stop the rest. It prints one line a check and ends with `N passed, N failed`. `case` checks one
kernel in this process: with --smallest, what compute-sanitizer can follow in seconds. Times are those of
`python -m benchmarks.kernels` (docs/benchmarks.md).
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import traceback
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
REFUSED = "refused.txt"


@dataclass(frozen=True)
class Extent:
    """How much is checked. sizes: so many of the smallest (None: all). launches: of which each must give the same bits.
    alone: compared with the reference alone, which is computed on the CPU, and not launched in several streams."""

    sizes: int | None
    launches: int
    alone: bool = False


EXTENTS = {"all": Extent(None, 100), "quick": Extent(3, 10), "smallest": Extent(2, 2, alone=True)}


@dataclass(frozen=True)
class Row:
    """A line of the table. errors are relative (Frobenius); original: of the Triton kernel."""

    kernel: str
    check: str
    case: str
    ok: bool
    emitted: float | None = None
    original: float | None = None
    note: str = ""

    def text(self) -> str:
        """For people."""
        errors = "" if self.emitted is None else f"{self.emitted:9.2e}"
        if self.original is not None and self.emitted is not None:
            errors += f" / {self.original:8.2e} = {self.emitted / max(self.original, 1e-12):6.3f}"
        return (
            f"{'ok  ' if self.ok else 'FAIL'} {self.kernel:34s} {self.check:12s} {self.case:34s} {errors} {self.note}"
        )


# ---------------------------------------------------------------- build


def build(folder: Path, only: str, machine: str, budget: float, verified: bool, slow: bool) -> bool:
    """Every specialization into `folder`; whether all were emitted."""
    from tests.gpu.emitting import emit_example, specializations

    refused = 0
    for file, spec in specializations():
        name = f"{Path(file).stem}-{spec}"
        if only and only not in name:
            continue
        begin = time.perf_counter()
        try:
            said = emit_example(file, spec, folder / name, folder / "schedules", machine, budget, verified, slow)
        except Exception as error:  # what is refused is recorded, the rest goes on
            refused += 1
            (folder / name).mkdir(parents=True, exist_ok=True)
            said = f"REFUSED {type(error).__name__}: {str(error)[:600]}"
            whole = "".join(traceback.format_exception(error))
            (folder / name / REFUSED).write_text(f"{said}\n\n{whole}", encoding="utf-8")
        print(f"{name:34s} {time.perf_counter() - begin:6.1f} s  {said}", flush=True)
    print(f"{refused} refused" if refused else "all emitted")
    return not refused


# ---------------------------------------------------------------- run


def run(folder: Path, only: str, extent: str, seconds: float) -> bool:
    """Every kernel in `folder`, each in its process; prints the table; whether everything holds."""
    passed = failed = 0
    for kernel in kernels(folder, only):
        for row in isolated(folder, kernel, extent, seconds):
            passed, failed = passed + row.ok, failed + (not row.ok)
            print(row.text(), flush=True)
    for path in sorted(folder.glob(f"*/{REFUSED}")):
        print(f"not emitted: {path.parent.name}: {path.read_text(encoding='utf-8').splitlines()[0]}")
    print(f"{passed} passed, {failed} failed")
    return not failed


def kernels(folder: Path, only: str) -> list[str]:
    """Names of the emitted kernels."""
    found = (path.parent.name for path in sorted(folder.glob("*/manifest.json")))
    return [name for name in found if only in name]


def isolated(folder: Path, kernel: str, extent: str, seconds: float) -> Iterator[Row]:
    """The rows of one kernel, checked in a process that is ended when its time is over."""
    words = [sys.executable, "-m", "tests.gpu.examples", "case", str(folder), "--only", kernel]
    words += [] if extent == "all" else [f"--{extent}"]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    try:
        out, err = process.communicate(timeout=seconds)
        ending = "" if process.returncode == 0 else f"exit code {process.returncode}: {err.strip()[-400:]}"
    except subprocess.TimeoutExpired:
        process.kill()
        out, err = process.communicate()
        ending = f"no end after {seconds:g} s"
    last = "the start"
    for line in out.splitlines():
        if line.startswith("{"):
            row = Row(**json.loads(line))
            yield row
            last = f"{row.check} {row.case}"
        elif line.startswith("next: "):
            last = line.removeprefix("next: ")
    if ending:
        yield Row(kernel, "ends well", "", False, note=f"{ending} (at: {last})")


def case(folder: Path, kernel: str, extent: str) -> None:
    """One kernel in this process; one JSON line a row."""
    from tests.gpu.check_examples import rows

    for row in rows(folder / kernel, EXTENTS[extent]):
        print(json.dumps(asdict(row)), flush=True)


def main() -> int:
    """See the module."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.examples", description=__doc__)
    parser.add_argument("action", choices=("build", "run", "case"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--machine", default="h200")
    parser.add_argument("--budget", type=float, default=60.0, help="seconds of each solve")
    parser.add_argument("--unverified", action="store_true", help="without the abstract machine")
    parser.add_argument("--slow", action="store_true", help="keep builds that are refused for their speed; unverified")
    parser.set_defaults(extent="all")
    less = parser.add_mutually_exclusive_group()
    words = "the three smallest sizes and ten launches of each"
    less.add_argument("--quick", action="store_const", dest="extent", const="quick", help=words)
    words = "the two smallest sizes, two launches of each, compared with PyTorch on the CPU (for compute-sanitizer)"
    less.add_argument("--smallest", action="store_const", dest="extent", const="smallest", help=words)
    parser.add_argument("--seconds", type=float, default=180.0, help="limit of each kernel's process")
    given = parser.parse_args()
    if given.action == "build":
        return (
            0 if build(given.folder, given.only, given.machine, given.budget, not given.unverified, given.slow) else 1
        )
    if given.action == "run":
        return 0 if run(given.folder, given.only, given.extent, given.seconds) else 1
    case(given.folder, given.only, given.extent)
    return 0


if __name__ == "__main__":
    sys.exit(main())
