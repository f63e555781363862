"""Emitted kernels of public packages beside Triton's on a GPU.

    twill coverage PACKAGE --emit 20 --keep FOLDER      anywhere: a directory for each emitted kernel
    python -m benchmarks.wild_gpu gather FOLDER         there: the packages' Python files beside them
    python -m benchmarks.wild_gpu run FOLDER            on a GPU: both kernels on the same tensors

FOLDER is then all that `run` needs besides Triton, PyTorch, NumPy and cuda-bindings. It takes the launches that were
checked, compares outputs with Triton's, looks for writes beside tensors, and launches again for equal bits. An output
that is further from Triton's than roundings explain is held against the tile program: it may be at most 1.2 times as
far from that in float64 as Triton's, or at most 2e-3 from it as it is (of sums in bf16 and what amplifies them, nothing
is as near to them as a program that rounds where they do). Lines begin with `ok`, `far` for such an output, `FAIL`,
`none` where no launch was compared, `open` for a launch whose results nothing defines (instances are in one another's
way, Triton's differ from launch to launch, or the tile program does with its roundings moved), `left` for one that
emitted kernels leave to Triton, or that Triton does not run.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import math
import os
import re
import shutil
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.coverage.keep import DIGITS, LAUNCHES, TILE, package_of
from twill.exc import TwillError
from twill.graph.work import BITS
from twill.kernel.importing import load
from twill.kernel.problem import Case
from twill.runtime.kernel import EmittedKernel
from twill.tile.interpret.arithmetic import HELD
from twill.tile.interpret.sequential import run as run_tiles
from twill.tile.interpret.widen import widened
from twill.tile.parse import parse
from twill.tile.program import POINTEE, TileProgram
from twill.trial.compare import relative, repeats
from twill.trial.data import Data, emitted, make_data, original
from twill.trial.roundings import apart, moved_by_roundings

PACKAGES = "packages"
MOST_AXES, ALIGNED = 5, 16  # of a tensor descriptor: axes; bytes from row to row, a multiple
AGAIN = 20  # launches that must leave equal bits
PATIENCE = 120  # seconds for a kernel, with the import of its package
END = "end of a kernel: "
SCALES = (1.0, 2.0**-3, 2.0**-6, 2.0**-9)  # factors of random floats, the largest that will do
DIFFERS = "Triton's own results are others from launch to launch"
# How far an output may be from Triton's, by the bytes of the narrowest float that it is made with.
NEAR, CLOSE = {2: 2e-2, 1: 1e-1}, 2e-3
RATIO = 1.2  # times Triton's distance from the same in float64, where it is further from Triton's
SAYS = 0.1  # of such distances, at most: of what does not converge at all, two are as far as each other


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
        except (CompilationError, OutOfResources, AttributeError) as error:  # at numbers that Triton takes as constants
            why = f"Triton {triton.__version__} does not run it, {' '.join(str(error).split())[-100:]}"
            print(f"left {folder.name} ({launch['text']}): {why}", flush=True)
            continue
        for name, one in exact.items():
            what = f"{name} has {one.ratio:.2f} of Triton's error, and is {one.apart:.1e} from the tile program"
            print(f"far  {folder.name} ({launch['text']}): {what}", flush=True)
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


def shape_of(name: str, launch: Mapping[str, Any]) -> tuple[int, ...]:
    """Of a tensor: as its descriptor says, if it has one; else flat."""
    sizes = [launch["scalars"].get(f"{name}.shape.{axis}") for axis in range(MOST_AXES)]
    found = tuple(max(1, size) for size in sizes if size is not None)
    return found or (max(1, launch["elements"][name]),)


def odd_rows(kernel: EmittedKernel, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Why a launch can't be made at all; "" if it can: a descriptor's rows begin every 16 bytes."""
    for argument in kernel.manifest.arguments:
        if argument.kind == "descriptor" and shapes[argument.name][-1] * BITS[argument.element] % (8 * ALIGNED):
            return f"`{argument.name}` has rows that no descriptor has, of {shapes[argument.name][-1]} elements"
    return ""


def memory(size: int, align: int, stream: int | None) -> Any:
    """Bytes on the GPU, for the descriptors that Triton's kernels make."""
    import torch

    return torch.empty(size, dtype=torch.int8, device="cuda")


@dataclass(frozen=True)
class Held:
    """What a launch has in its tensors. integers: what tensors of integers hold, which may be indices. scale: a factor
    of random floats."""

    kernel: EmittedKernel
    made: Case
    integers: dict[str, list[int]]
    scale: float = 1.0

    def filled(self) -> Data:
        """Random data of the launch, the same every time."""
        import torch

        data = make_data(self.kernel.manifest, self.made)
        for name in self.kernel.manifest.loads:
            tensor = data.tensor(name)
            if self.integers.get(name):
                start = data.tensor(name + POINTEE).data_ptr() if name + POINTEE in data.held else 0
                tensor.copy_(torch.tensor([number + start for number in self.integers[name]]).view(tensor.shape))
            elif tensor.dtype.is_floating_point and self.scale != 1:
                tensor.copy_(tensor.float() * self.scale)
        return data


def tame(held: Held, function: Any) -> Held:
    """The same with floats so small that Triton's results have the fewest infinities: of kernels that expect small
    numbers, as those that invert a matrix, nothing can be said at larger ones. (What is not written is no number.)"""
    import torch

    found: list[tuple[int, float]] = []
    for scale in SCALES:
        data = replace(held, scale=scale).filled()
        original(function, data, num_warps=4)()
        floats = (tensor.float() for tensor in data.outputs.values() if tensor.dtype.is_floating_point)
        found.append((sum(int((~torch.isfinite(one)).sum()) for one in floats), -scale))
        if not found[-1][0]:
            break
    return replace(held, scale=-min(found)[1])


def differs(held: Held, function: Any) -> bool:
    """Whether Triton's own results are others from launch to launch, of sums that are added to in any order."""
    import torch

    found: list[dict[str, Any]] = []
    for _ in range(AGAIN):
        data = held.filled()
        original(function, data, num_warps=4)()
        found.append({name: tensor.view(torch.uint8).clone() for name, tensor in data.outputs.items()})
    return any(not torch.equal(one[name], found[0][name]) for one in found[1:] for name in one)


def by_roundings(held: Held, folder: Path, computed: int) -> dict[str, float]:
    """Outputs that roundings alone move as far as they may be from Triton's, on the same data (`moved_by_roundings`).
    computed: as for `wrong`."""
    program, data = parse((folder / TILE).read_text(encoding="utf-8")), held.filled()
    kinds = {one.name: one.type.element.partition(":")[2] for one in program.arguments}
    arrays = {name: in_memory(data.counted_from_zero(name), kinds[name]) for name in held.made.shapes}
    launch = CheckedLaunch(held.made.grid, arrays, held.made.scalars)
    moved = moved_by_roundings(program, launch)
    bytes_of = {name: data.tensor(name).element_size() for name in moved}
    return {name: far for name, far in moved.items() if not far <= near(computed, bytes_of[name])}


@dataclass(frozen=True)
class Error:
    """Of an output of what is emitted: its distance from the tile program in float64, and Triton's; its distance from
    the tile program as it is."""

    exact: float
    theirs: float
    apart: float

    @property
    def ratio(self) -> float:
        """Of the first two."""
        return self.exact / self.theirs if self.theirs else math.inf if self.exact else 1.0

    @property
    def right(self) -> bool:
        """Whether the ratio is small, of distances that say anything; or the last distance."""
        return (self.ratio <= RATIO and self.exact <= SAYS) or self.apart <= CLOSE


def errors(held: Held, function: Any, folder: Path) -> dict[str, Error]:
    """Of each output of floats, on the same data."""
    import torch

    program, ours, theirs = parse((folder / TILE).read_text(encoding="utf-8")), held.filled(), held.filled()
    exact, plain = (arrays_of(one, held, ours) for one in (widened(program, "f64"), program))
    emitted(held.kernel, ours)()
    original(function, theirs, num_warps=4)()
    torch.cuda.synchronize()
    found: dict[str, Error] = {}
    for name in (name for name, tensor in ours.outputs.items() if tensor.dtype.is_floating_point):
        mine, other = (data.tensor(name).detach().cpu().flatten().double().numpy() for data in (ours, theirs))
        found[name] = Error(apart(mine, exact[name]), apart(other, exact[name]), apart(mine, plain[name]))
    return found


def arrays_of(program: TileProgram, held: Held, data: Data) -> dict[str, Any]:
    """The tensors as a tile program leaves them that begins with `data`."""
    kinds = {one.name: one.type.element.partition(":")[2] for one in program.arguments}
    arrays = {name: in_memory(data.counted_from_zero(name), kinds[name]) for name in held.made.shapes}
    run_tiles(program, held.made.grid, arrays, held.made.scalars)
    return arrays


def in_memory(tensor: Any, element: str) -> Any:
    """A flat tensor as tile programs hold it."""
    array = tensor.detach().cpu().flatten()
    return (array.float() if array.dtype.is_floating_point else array).numpy().astype(HELD[element])


def near(computed: int, size: int) -> float:
    """How far an output with elements of `size` bytes may be. computed: as for `wrong`."""
    return NEAR.get(min(computed, size), CLOSE)


def wrong(held: Held, function: Any, computed: int) -> Iterator[tuple[str, str]]:
    """What differs at one launch: an output, and in words; "" for what no data explains. computed: bytes of the
    narrowest float that the kernel computes in."""
    import torch

    kernel, data, theirs = held.kernel, held.filled(), held.filled()
    emitted(kernel, data)()
    original(function, theirs, num_warps=4)()
    for name, tensor in data.outputs.items():
        other = theirs.tensor(name)
        if torch.equal(tensor.view(torch.uint8), other.view(torch.uint8)):
            continue
        both = torch.isnan(tensor.float()) & torch.isnan(other.float())
        both |= torch.isinf(other.float()) & (tensor.float() == other.float())
        ours, wanted = (torch.where(both, 0.0, one.double()) for one in (tensor, other))
        far = relative(ours, wanted)
        if not far <= near(computed, tensor.element_size()):
            yield name, f"{name} is {far:.2e} from Triton's"
    yield from (("", f"bytes beside {name} were written") for name in data.outside())
    if set(kernel.manifest.stores) & set(kernel.manifest.loads):
        return  # a second launch would read what the first one wrote
    again = repeats(data, emitted(kernel, data), AGAIN)
    yield from (("", f"{name} differs in {count} of {AGAIN} launches") for name, count in again.items() if count)


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
