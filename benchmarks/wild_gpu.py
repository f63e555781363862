"""Emitted kernels of public packages beside Triton's on a GPU.

    twill coverage PACKAGE --emit 20 --keep FOLDER      anywhere: a directory for each emitted kernel
    python -m benchmarks.wild_gpu gather FOLDER         there: the packages' Python files beside them
    python -m benchmarks.wild_gpu run FOLDER            on a GPU: both kernels on the same tensors

FOLDER is then all that `run` needs besides Triton, PyTorch, NumPy and cuda-bindings. It takes the launches that were
checked, compares outputs with Triton's, looks for writes beside tensors, and launches again for equal bits. An output
that is further from Triton's than roundings explain is held against the tile program, with twelve draws of data (36,
where twelve say no): in the mean it may be at most 1.2 times as far from that in float64 as Triton's, or at most 2e-3
from it as it is (of sums in bf16 and what amplifies them, nothing is as near to them as a program that rounds where
they do). Lines begin with `ok`, `far` for such an output, `FAIL`, `none` where no launch was compared, `open` for a
launch whose results nothing defines (instances are in one another's way, Triton's differ from launch to launch, or the
tile program does with its roundings moved), `left` for one that emitted kernels leave to Triton, or that Triton does
not run.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import os
import re
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from benchmarks.wild_launch import Held, by_roundings, differs, errors, odd_rows, shape_of, tame, wrong
from twill.coverage.keep import DIGITS, LAUNCHES, package_of
from twill.exc import TwillError
from twill.kernel.importing import load
from twill.kernel.problem import Case
from twill.runtime.kernel import EmittedKernel

PACKAGES = "packages"
PATIENCE = 900  # seconds for a kernel, with the import of its package
END = "end of a kernel: "
PASSES = "PassManager::run failed"  # what Triton's compiler says of its own passes
DIFFERS = "Triton's own results are others from launch to launch"


def gather(folder: Path) -> None:
    """Copies the Python files of the packages that the kernels are of beside them; files that are in none into a folder
    each."""
    for path in folder.glob(f"*/{LAUNCHES}"):
        given = json.loads(path.read_text(encoding="utf-8"))
        root = package_of(Path(given["file"]))
        place = home(folder, given) / root.name
        if place.exists():
            continue
        place.parent.mkdir(parents=True, exist_ok=True)
        if root.is_dir():
            shutil.copytree(root, place, ignore=_no_sources)
        else:
            shutil.copy(root, place)


def home(folder: Path, given: Mapping[str, Any]) -> Path:
    """Where a kernel's package is imported from: many files without a package have the same name. given: what is kept
    with it."""
    if not given["alone"]:
        return folder / PACKAGES
    return folder / PACKAGES / hashlib.sha256(given["file"].encode()).hexdigest()[:DIGITS]


def _no_sources(directory: str, names: list[str]) -> list[str]:
    """What of a package is not copied: all but Python files."""
    return [name for name in names if not name.endswith(".py") and not (Path(directory) / name).is_dir()]


def run(folder: Path, only: str) -> int:
    """Every kernel, by as many processes as there are cores, which share the GPUs; how many kernels failed."""
    ahead: SimpleQueue[Path] = SimpleQueue()
    for path in sorted(folder.glob(f"*/{LAUNCHES}")):
        if re.search(only, path.parent.name):
            ahead.put(path.parent)
    count = min(os.cpu_count() or 1, max(1, ahead.qsize()))
    with ThreadPoolExecutor(count) as pool:
        return sum(pool.map(_serve, [ahead] * count, range(count)))


def gpus() -> list[str]:
    """The GPUs that may be used, as CUDA_VISIBLE_DEVICES names them."""
    given = os.environ.get("CUDA_VISIBLE_DEVICES")
    if given is not None:
        return given.split(",")
    listed = subprocess.run(["nvidia-smi", "-L"], check=False, capture_output=True, text=True).stdout
    return [str(number) for number in range(len(listed.splitlines()))] or ["0"]


def _serve(ahead: SimpleQueue[Path], number: int) -> int:
    """Kernels of the queue, one after the other, in a process that lives as long as its CUDA context is sound; how many
    failed."""
    devices = gpus()
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": devices[number % len(devices)]}
    worker: subprocess.Popen[str] | None = None
    failed = 0
    while True:
        try:
            folder = ahead.get_nowait()
        except Empty:
            break
        if worker is None:
            command = [sys.executable, "-u", "-m", "benchmarks.wild_gpu", "cases", "-"]
            worker = subprocess.Popen(
                command, env=environment, text=True, errors="replace",
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        end = asked(worker, folder)
        failed += end != "right"
        if end not in ("right", "wrong"):
            print(f"FAIL {folder.name}: {end}", flush=True)
            worker.kill()
            worker.wait()
            worker = None
    if worker is not None:
        worker.communicate("")
    return failed


def asked(worker: subprocess.Popen[str], folder: Path) -> str:
    """What a worker says at the end of a kernel, "right" or "wrong"; in words how else it ended. Every line that it
    prints before is printed, and names the kernel."""
    assert worker.stdin is not None and worker.stdout is not None
    late = threading.Event()

    def give_up() -> None:
        late.set()
        worker.kill()

    patience = threading.Timer(PATIENCE, give_up)
    patience.start()
    try:
        worker.stdin.write(f"{folder}\n")
        worker.stdin.flush()
        for line in worker.stdout:
            if line.startswith(END):
                return line.removeprefix(END).strip()
            named = line if folder.name in line else f"     {folder.name}: {line}"
            print(named, end="" if line.endswith("\n") else "\n", flush=True)
    except BrokenPipeError:
        pass
    finally:
        patience.cancel()
    return f"no end within {PATIENCE} seconds" if late.is_set() else "its process ended"


def cases() -> None:
    """Answers for the folders on standard input. A process in which something failed that is none of the comparisons
    ends, as its CUDA context may be lost."""
    import torch  # noqa: F401, before the packages: some ask it at import what GPU there is
    import triton

    triton.set_allocator(memory)
    for line in sys.stdin:
        folder = Path(line.strip())
        try:
            failed = case(folder)
        except BaseException as error:
            traceback.print_exc(file=sys.stdout)
            print(f"{END}{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}", flush=True)
            return
        print(f"{END}{'wrong' if failed else 'right'}", flush=True)


def case(folder: Path) -> int:
    """One kernel at all of its launches; how many failed."""
    import torch
    import triton
    from triton.compiler.errors import CompilationError
    from triton.runtime.errors import OutOfResources

    kernel = EmittedKernel.load(folder)
    given = json.loads((folder / LAUNCHES).read_text(encoding="utf-8"))
    function = imported(home(folder.parent, given), given["module"], kernel.manifest.kernel, given["alone"])
    failed = compared = 0
    for launch in given["launches"]:
        shapes = {name: shape_of(name, launch) for name in launch["elements"]}
        made = Case({}, tuple(launch["grid"]), shapes, launch["scalars"])
        why = launch["undefined"]
        odd = odd_rows(kernel, shapes)
        if odd:
            print(f"left {folder.name} ({launch['text']}): {odd}", flush=True)
            continue
        try:
            held = Held(kernel, made, launch["integers"])
            held = held if why else tame(held, function)
            if why or differs(held, function):
                print(f"open {folder.name} ({launch['text']}): {why or DIFFERS}", flush=True)
                continue
            found = list(wrong(held, function, given["narrowest"]))
            exact = errors(held, function, folder) if any(name for name, _ in found) else {}
            found = [(name, words) for name, words in found if name not in exact or not exact[name].right]
            moved = by_roundings(held, folder, given["narrowest"]) if any(name for name, _ in found) else {}
        except TwillError as refused:  # before anything was launched: under twill.jit, Triton's kernel runs
            print(f"left {folder.name} ({launch['text']}): {refused.message}", flush=True)
            continue
        except (CompilationError, OutOfResources, AttributeError, RuntimeError) as error:
            if type(error) is RuntimeError and PASSES not in str(error):
                raise  # else it does not compile, at numbers that it takes as constants, or with these constants at all
            why = f"Triton {triton.__version__} does not run it, {' '.join(str(error).split())[-100:]}"
            print(f"left {folder.name} ({launch['text']}): {why}", flush=True)
            continue
        for name, one in exact.items():
            print(f"far  {folder.name} ({launch['text']}): {name} has {one.text()}", flush=True)
        for name, far in moved.items():
            what = f"roundings alone move {name} by {far:.2e}"
            print(f"open {folder.name} ({launch['text']}): {what}", flush=True)
        compared += not moved or set(moved) < set(kernel.manifest.stores)
        differing = [words for name, words in found if name not in moved]
        failed += len(differing)
        for words in differing:
            print(f"FAIL {folder.name} ({launch['text']}): {words}", flush=True)
        torch.cuda.synchronize()
    words = "FAIL" if failed else "ok  " if compared else "none"
    print(f"{words} {folder.name}: {compared} of {len(given['launches'])} launches", flush=True)
    return failed


def imported(place: Path, module: str, name: str, alone: bool) -> Any:
    """Triton's function. alone: of a file that is no package's, a script: its own launches and plots are not made."""
    if alone:
        return load(str(place / f"{module}.py")).functions[name]
    if str(place) not in sys.path:
        sys.path.insert(0, str(place))
    function = getattr(importlib.import_module(module), name)
    while not hasattr(function, "cache_key") and hasattr(function, "fn"):  # autotuners and heuristics
        function = function.fn
    return function


def memory(size: int, align: int, stream: int | None) -> Any:
    """Bytes on the GPU, for the descriptors that Triton's kernels make."""
    import torch

    return torch.empty(size, dtype=torch.int8, device="cuda")


def main() -> None:
    """See the top of this file."""
    one = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("command", choices=("gather", "run", "case", "cases"))
    one.add_argument("folder", type=Path)
    one.add_argument("--only", default="", help="kernels in whose names this expression is found, for run")
    given = one.parse_args()
    if given.command == "gather":
        gather(given.folder)
        return
    if given.command == "cases":
        cases()
        return
    sys.exit(bool(run(given.folder, given.only) if given.command == "run" else case(given.folder)))


if __name__ == "__main__":
    main()
