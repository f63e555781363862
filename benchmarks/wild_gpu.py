"""Emitted kernels of public packages beside Triton's on a GPU.

    python -m benchmarks.wild_gpu build FOLDER --results results.jsonl     anywhere: emits what `twill coverage` emitted
    python -m benchmarks.wild_gpu run FOLDER                               on a GPU: both kernels on the same tensors

`build` writes a directory for each kernel (what `twill emit` writes, and `launches.json`: grids, scalars and sizes of
tensors, the ones that the abstract machine checked) and copies the package's Python files beside them, so that the
folder is all that `run` needs besides Triton, PyTorch, NumPy and cuda-bindings. `run` compares each output of each
launch with the Triton kernel's, looks for writes beside tensors, and launches again for equal bits.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from twill.exc import TwillError
from twill.graph.work import BITS
from twill.kernel.problem import Case
from twill.runtime.kernel import EmittedKernel
from twill.tile.program import TileProgram
from twill.tile.vocabulary import ELEMENTWISE, REDUCE, SCAN
from twill.trial.compare import relative, repeats
from twill.trial.data import Data, emitted, make_data, original

LAUNCHES, PACKAGES = "launches.json", "packages"
AGAIN = 20  # launches that must leave equal bits
# How far an output may be from Triton's, by the bytes of the narrowest float that it is made with.
NEAR, CLOSE = {2: 2e-2, 1: 1e-1}, 2e-3
SCALARS = ("i1", "i8", "i16", "i32", "i64", "u32", "fp16", "bf16", "fp32", "fp64")


def build(folder: Path, results: Path, budget: float) -> None:
    """A directory for every kernel that `results` says was emitted."""
    lines = [json.loads(line) for line in results.read_text(encoding="utf-8").splitlines()]
    latest = {(one["file"], one["kernel"], one["line"]): one for one in lines}  # a kernel that was asked again is one
    outcomes = [one for one in latest.values() if one["stage"] == "emitted"]
    for outcome, name in zip(outcomes, names_of(outcomes), strict=True):
        root = package_of(Path(outcome["file"]))
        sys.path.append(str(root.parent))
        shutil.copytree(root, folder / PACKAGES / root.name, dirs_exist_ok=True, ignore=_no_sources)
        target, flags = f"{outcome['file']}::{outcome['kernel']}", outcome["guessed"]
        try:
            write(folder / name, target, flags, budget, Path(outcome["file"]).relative_to(root.parent))
        except TwillError as refused:
            print(f"{name}: {refused.message}", flush=True)
        else:
            print(f"{name}: emitted", flush=True)


def names_of(outcomes: Sequence[Mapping[str, Any]]) -> list[str]:
    """A name for each kernel: its own, and with a number behind it where files have kernels of one name."""
    seen: Counter[str] = Counter()
    found = []
    for outcome in outcomes:
        seen[outcome["kernel"]] += 1
        times = seen[outcome["kernel"]]
        found.append(outcome["kernel"] if times == 1 else f"{outcome['kernel']}.{times}")
    return found


def _no_sources(directory: str, names: list[str]) -> list[str]:
    """What of a package is not copied: all but Python files."""
    return [name for name in names if not name.endswith(".py") and not (Path(directory) / name).is_dir()]


def package_of(file: Path) -> Path:
    """The topmost package that a file is in."""
    root = file.parent
    while (root.parent / "__init__.py").is_file():
        root = root.parent
    return root


def write(folder: Path, target: str, flags: list[str], budget: float, file: Path) -> None:
    """The files of one kernel. Errors: those of a solve and an emission."""
    from twill.codegen.emission import emit_solved, extract
    from twill.codegen.verify.abstract.inputs import launches
    from twill.coverage.attempt import _solved
    from twill.machine.file import load_machine

    sig = [flag for flag in flags if is_type(flag.partition("=")[2])]
    kernel = extract(target, sig=sig, const=[flag for flag in flags if flag not in sig])
    emission = emit_solved(kernel, load_machine("h100"), lambda graph, on: _solved(graph, on, budget))
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in emission.files().items():
        (folder / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    made = [
        {
            "grid": list(one.grid),
            "scalars": dict(one.scalars),
            "elements": {name: array.size for name, array in one.arrays.items()},
            "integers": {name: array.tolist() for name, array in one.arrays.items() if array.dtype.kind in "iu"},
            "text": one.text,
        }
        for one in launches(emission.program)
    ]
    said = {"file": str(file), "launches": made, "narrowest": narrowest(kernel.program)}
    (folder / LAUNCHES).write_text(json.dumps(said), encoding="utf-8")


def narrowest(program: TileProgram) -> int:
    """Bytes of the narrowest float that a program computes in: sums of bf16 are as far apart as their orders are."""
    computed = (op for op in program.ops() if op.kind in {*ELEMENTWISE, *REDUCE, *SCAN} - {"cast", "bitcast", "select"})
    kinds = (program.type_of(result).element for op in computed for result in op.results)
    return min((BITS[kind] // 8 for kind in kinds if kind.startswith(("f", "b"))), default=8)


def is_type(text: str) -> bool:
    """Whether what a flag gives a parameter is a type, not a constant."""
    return text.startswith(("*", "tensordesc")) or text.partition(":")[0] in SCALARS


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
    module = importlib.import_module(".".join(Path(given["file"]).with_suffix("").parts))
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
    one.add_argument("command", choices=("build", "run", "case"))
    one.add_argument("folder", type=Path)
    one.add_argument("--results", type=Path, help="of `twill coverage --emit`, for build")
    one.add_argument("--budget", type=float, default=20.0, help="seconds for each solve")
    one.add_argument("--only", default="", help="kernels whose names have this in them, for run")
    given = one.parse_args()
    if given.command == "build":
        build(given.folder, given.results, given.budget)
        return
    sys.exit(bool(run(given.folder, given.only) if given.command == "run" else case(given.folder)))


if __name__ == "__main__":
    main()
