"""Emitted kernels of public packages beside Triton's on a GPU.

    twill coverage PACKAGE --emit 20 --keep FOLDER      anywhere: a directory for each emitted kernel
    python -m benchmarks.wild_gpu gather FOLDER         there: the packages' Python files beside them
    python -m benchmarks.wild_gpu run FOLDER            on a GPU: both kernels on the same tensors

FOLDER is then all that `run` needs besides Triton, PyTorch, NumPy and cuda-bindings. `run` takes the launches that the
abstract machine checked, compares each output with the Triton kernel's, looks for writes beside tensors, and launches
again for equal bits.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from twill.coverage.keep import LAUNCHES, package_of
from twill.exc import TwillError
from twill.kernel.problem import Case
from twill.runtime.kernel import EmittedKernel
from twill.trial.compare import relative, repeats
from twill.trial.data import Data, emitted, make_data, original

PACKAGES = "packages"
AGAIN = 20  # launches that must leave equal bits
# How far an output may be from Triton's, by the bytes of the narrowest float that it is made with.
NEAR, CLOSE = {2: 2e-2, 1: 1e-1}, 2e-3


def gather(folder: Path) -> None:
    """Copies the Python files of the packages that the kernels are of beside them."""
    for path in folder.glob(f"*/{LAUNCHES}"):
        root = package_of(Path(json.loads(path.read_text(encoding="utf-8"))["file"]))
        if not (folder / PACKAGES / root.name).exists():
            shutil.copytree(root, folder / PACKAGES / root.name, ignore=_no_sources)


def _no_sources(directory: str, names: list[str]) -> list[str]:
    """What of a package is not copied: all but Python files."""
    return [name for name in names if not name.endswith(".py") and not (Path(directory) / name).is_dir()]


def run(folder: Path, only: str) -> int:
    """Every kernel in a process of its own, as many together as there are cores for; how many failed."""
    ahead = [path.parent for path in sorted(folder.glob(f"*/{LAUNCHES}")) if only in path.parent.name]
    with ThreadPoolExecutor(max(1, (os.cpu_count() or 2) // 2)) as pool:
        return sum(pool.map(_alone, ahead))


def _alone(folder: Path) -> bool:
    """Whether a kernel, in a process of its own, failed."""
    command = [sys.executable, "-m", "benchmarks.wild_gpu", "case", str(folder)]
    try:
        done = subprocess.run(command, timeout=120, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        print(f"FAIL {folder.name}: no end within 120 seconds", flush=True)
        return True
    print(done.stdout.decode(errors="replace"), end="", flush=True)
    return done.returncode != 0


def case(folder: Path) -> int:
    """One kernel at all of its launches; how many failed."""
    import torch
    import triton
    from triton.compiler.errors import CompilationError

    sys.path.insert(0, str(folder.parent / PACKAGES))
    kernel = EmittedKernel.load(folder)
    given = json.loads((folder / LAUNCHES).read_text(encoding="utf-8"))
    module = importlib.import_module(given["module"])
    function = getattr(module, kernel.manifest.kernel)
    while not hasattr(function, "cache_key") and hasattr(function, "fn"):  # autotuners and heuristics
        function = function.fn
    failed = compared = 0
    for launch in given["launches"]:
        shapes = {name: (max(1, count),) for name, count in launch["elements"].items()}
        made = Case({}, tuple(launch["grid"]), shapes, launch["scalars"])
        try:
            if undefined(kernel, function, made, launch["integers"]):
                continue
            found = list(wrong(kernel, function, made, launch["integers"], given["narrowest"]))
        except TwillError as refused:  # before anything was launched: under twill.jit, Triton's kernel runs
            print(f"left {folder.name} ({launch['text']}): {refused.message}", flush=True)
            continue
        except (CompilationError, AttributeError) as error:  # it was emitted with another Triton
            print(f"none {folder.name}: Triton {triton.__version__} does not compile it, {error!r:.100}", flush=True)
            return 0
        compared += 1
        failed += len(found)
        for words in found:
            print(f"FAIL {folder.name} ({launch['text']}): {words}", flush=True)
        torch.cuda.synchronize()
    words = "FAIL" if failed else "ok  " if compared else "none"
    print(f"{words} {folder.name}: {compared} of {len(given['launches'])} launches", flush=True)
    return failed


def filled(kernel: EmittedKernel, made: Case, integers: dict[str, list[int]]) -> Data:
    """Random data of a launch. integers: what tensors of integers hold, which may be indices."""
    import torch

    data = make_data(kernel.manifest, made)
    for name, numbers in integers.items():
        if name in kernel.manifest.loads and numbers:
            data.tensor(name).copy_(torch.tensor(numbers))
    return data


def undefined(kernel: EmittedKernel, function: Any, made: Case, integers: dict[str, list[int]]) -> bool:
    """Whether Triton's own results are others from launch to launch: sizes that were made up may let elements of a
    result lie on top of each other, and then no result is the right one."""
    import torch

    found: list[dict[str, Any]] = []
    for _ in range(AGAIN):
        data = filled(kernel, made, integers)
        original(function, data, num_warps=4)()
        found.append({name: tensor.view(torch.uint8).clone() for name, tensor in data.outputs.items()})
    return any(not torch.equal(one[name], found[0][name]) for one in found[1:] for name in one)


def wrong(
    kernel: EmittedKernel, function: Any, made: Case, integers: dict[str, list[int]], computed: int
) -> Iterator[str]:
    """What differs at one launch. integers: what tensors of integers hold, which may be indices. computed: bytes of the
    narrowest float that the kernel computes in."""
    import torch

    data, theirs = filled(kernel, made, integers), filled(kernel, made, integers)
    emitted(kernel, data)()
    original(function, theirs, num_warps=4)()
    for name, tensor in data.outputs.items():
        other = theirs.tensor(name)
        if torch.equal(tensor.view(torch.uint8), other.view(torch.uint8)):
            continue
        both = torch.isnan(tensor.float()) & torch.isnan(other.float())
        ours, wanted = (torch.where(both, 0.0, one.double()) for one in (tensor, other))
        far = relative(ours, wanted)
        if not far <= NEAR.get(min(computed, tensor.element_size()), CLOSE):
            yield f"{name} is {far:.2e} from Triton's"
    yield from (f"bytes beside {name} were written" for name in data.outside())
    if set(kernel.manifest.stores) & set(kernel.manifest.loads):
        return  # a second launch would read what the first one wrote
    again = repeats(data, emitted(kernel, data), AGAIN)
    yield from (f"{name} differs in {count} of {AGAIN} launches" for name, count in again.items() if count)


def main() -> None:
    """See the top of this file."""
    one = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("command", choices=("gather", "run", "case"))
    one.add_argument("folder", type=Path)
    one.add_argument("--only", default="", help="kernels whose names have this in them, for run")
    given = one.parse_args()
    if given.command == "gather":
        gather(given.folder)
        return
    sys.exit(bool(run(given.folder, given.only) if given.command == "run" else case(given.folder)))


if __name__ == "__main__":
    main()
