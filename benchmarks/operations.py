"""Operations of liger-kernel and fla-core under `twill.jit` beside the same without it, in one process.

    python -m benchmarks.operations prepare FOLDER [--only WORD]   anywhere: emits what they launch, into FOLDER
    python -m benchmarks.operations fill FOLDER [--fill S]         on a GPU: the same there, from an empty store
    python -m benchmarks.operations run FOLDER [--only WORD]       on a GPU, without a network

The packages are imported twice from FOLDER/packages, once as they are and once as `twill run` has them. Each operation
runs in a process of its own: results are compared; the program runs until every comparison of kernels has its verdict;
then both sides take turns, forward alone and forward with backward, in single launches (from an idle GPU to an idle
GPU, the host included) and back to back. Autotuners are held to `--configurations` of their configurations, the same
for both sides, as each is a kernel to emit beforehand.

`prepare` needs no GPU: launches go to a driver that is none, and the helper of `twill.jit` emits every variant. `run`
takes the kernels of the version that emitted them, whatever the version is that runs. `fill` launches every operation
under the policy "solve", all at once, and gives helpers S seconds; FOLDER/packages has to be there.
"""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import math
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.operations_table import OPERATIONS, Maker, Operation, no_gpu

LEAST = 0.98  # of the speed without Twill
SAME = 2e-2  # relative distance of results, which are sums of bf16
SETTLE = 60  # rounds in which every comparison finds its verdict
TURNS, WINDOW, SINGLES = 41, 10, 151
READY, PATIENCE = "READY", 60
ROWS, RATIO = 2, re.compile(r"x\d+\.\d+")  # printed for an operation, at least
STORE, SAID, PACKAGES = "store.sqlite3", "emitted.json", "packages"


@dataclass(frozen=True)
class Sides:
    """One operation twice. made: the kernels that are under `twill.jit`."""

    plain: Any
    wrapped: Any
    made: list[Any]


def imported(operation: Operation, chosen: Any) -> Sides:
    """The operation's module, as it is and with every kernel under `twill.jit`."""
    from twill.runtime.script import every_kernel

    plain = importlib.import_module(operation.module)
    for name in [name for name in sys.modules if name.partition(".")[0] == operation.package]:
        del sys.modules[name]
    made: list[Any] = []
    with every_kernel(chosen, made):
        wrapped = importlib.import_module(operation.module)
    return Sides(plain, wrapped, made)


def named(only: str) -> list[Operation]:
    """The operations whose names have one of these words in them, which commas separate."""
    return [one for one in OPERATIONS if any(word in one.name for word in only.split(","))]


@contextmanager
def held(count: int, bench: bool) -> Iterator[None]:
    """Autotuners choose among `count` of their configurations; without `bench`, they run each and take the first."""
    from triton.runtime.autotuner import Autotuner

    pruned = Autotuner.prune_configs

    def few(self: Any, kwargs: Any) -> list[Any]:
        found = pruned(self, kwargs)
        step = len(found) / (count + 1)
        return [found[int(step * (number + 1))] for number in range(min(count, len(found)))]

    def untimed(self: Any, *args: Any, config: Any, **meta: Any) -> float:
        if count > 1:
            self.fn.run(*args, **{**meta, **config.all_kwargs()})
        return 1.0

    with ExitStack() as stack:
        stack.enter_context(mock.patch.object(Autotuner, "prune_configs", few))
        if not bench:
            stack.enter_context(mock.patch.object(Autotuner, "_bench", untimed))
        yield


def step(operation: Operation, module: Any, inputs: Sequence[Any], backward: bool) -> list[Any]:
    """One round of the operation: its results, and the gradients if they are asked for."""
    import torch

    results = operation.call(module, *inputs)
    results = list(results) if isinstance(results, tuple) else [results]
    if not backward:
        return results
    wanted = [inputs[index] for index in operation.gradients]
    gradients = torch.autograd.grad(results, wanted, [upstream(one.shape, one.dtype, one.device) for one in results])
    return [*results, *gradients]


@cache
def upstream(shape: Any, dtype: Any, device: Any) -> Any:
    """The gradient of a result: random, as that of a softmax is nothing but rounding where all of it is equal."""
    import torch

    return torch.randn(shape, device=device).to(dtype)


def inputs_of(operation: Operation, make: Maker) -> list[Any]:
    """New inputs."""
    made = operation.inputs(make)
    for index in operation.gradients:
        made[index].requires_grad_()
    return made


# -- emitting -------------------------------------------------------------------------------------


def prepare(folder: Path, only: str, machine: str, seconds: float, count: int) -> int:
    """Emit every variant that the operations launch; how many operations have none at all."""
    import torch
    import triton

    from benchmarks.wild import CACHE, CORPORA, download
    from twill.runtime.policy import settings
    from twill.runtime.variant import compiler

    for corpus in CORPORA:
        source = download(corpus, CACHE)
        ignored = shutil.ignore_patterns("*.pyc", "*.so", "results.jsonl", "__pycache__")
        shutil.copytree(source, folder / PACKAGES, dirs_exist_ok=True, ignore=ignored)
    sys.path.insert(0, str(folder / PACKAGES))
    store = folder / STORE
    said = {"compiler": compiler(triton.__version__), "machine": machine, "configurations": count}
    (folder / SAID).write_text(json.dumps(said), encoding="utf-8")
    chosen = settings("solve", store=str(store), machine=machine, solve_seconds=seconds)
    failed = 0
    with no_gpu(), held(count, bench=False):
        for operation in named(only):
            module = imported(operation, chosen)
            begun = time.monotonic()
            try:
                step(operation, module.wrapped, inputs_of(operation, Maker(torch, "cpu", empty=True)), backward=True)
            except Exception as error:
                failed += 1
                print(f"{operation.name}: {type(error).__name__}: {error}", flush=True)
            for line in emitted(module.made):
                print(f"{operation.name}: {line}", flush=True)
            print(f"{operation.name}: {time.monotonic() - begun:.0f} s", flush=True)
    return failed


def emitted(made: Sequence[Any]) -> Iterator[str]:
    """Wait for every variant of these kernels; what became of each."""
    for kernel in made:
        dispatch = kernel.twill_dispatch
        for known in list(dispatch.variants.known.values()) if dispatch.variants is not None else ():
            known.inquiry.over.wait()
            shelf = known.shelf
            if shelf is not None:
                no_launch: Any = None  # read only where a kernel looks its work up, which is refused then
                dispatch.variants.prepare(known, lambda kernel=kernel: compiled_of(kernel), no_launch)
                shelf.settled.wait(600)
                yield f"{kernel.__name__}: {shelf.state} {shelf.reason} ({known.text()})"


def compiled_of(kernel: Any) -> Any:
    """A compiled kernel of Triton's, the only one there is."""
    cache, *_ = kernel.device_caches[0]
    return next(iter(cache.values()))


# -- on a GPU -------------------------------------------------------------------------------------


def run(folder: Path, only: str, where: bool = False) -> int:
    """Every operation in a process of its own: all of them compile at once, then one after the other measures. How many
    rows are slower than without Twill, or wrong."""
    import torch

    print(f"{torch.cuda.get_device_name()}, PyTorch {torch.__version__}", flush=True)
    waiting = [Contestant(folder, one.name, where) for one in named(only)]
    for one in waiting:
        one.wait()
    outputs = []
    for one in waiting:
        outputs.append(one.finish())
        print(outputs[-1], flush=True)
    ratios = [float(word.removeprefix("x")) for text in outputs for word in text.split() if RATIO.fullmatch(word)]
    slow = sum(ratio < LEAST for ratio in ratios)
    wrong = sum("FAIL" in text for text in outputs)
    if ratios:
        mean = math.exp(statistics.fmean(map(math.log, ratios)))
        print(f"{len(ratios)} rows, geometric mean {mean:.3f}, least {min(ratios):.3f}, {slow} below {LEAST}")
    print("FAIL" if slow or wrong or len(ratios) < ROWS * len(waiting) else "PASS", flush=True)
    return slow + wrong


class Contestant:
    """One operation's process, which says READY when everything is compiled and measures when it is told to."""

    def __init__(self, folder: Path, name: str, where: bool = False) -> None:
        self.name = name
        command = [sys.executable, "-m", "benchmarks.operations", "case", str(folder), "--only", name]
        command += ["--where"] if where else []
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self.said: list[str] = []

    def wait(self) -> None:
        """Until it is ready, or has ended."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            if line.strip() == READY:
                return
            self.said.append(line)

    def finish(self) -> str:
        """Let it measure; what it prints."""
        try:
            more, _ = self.process.communicate("\n", timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            return f"FAIL {self.name}: no end within {PATIENCE} seconds"
        except BrokenPipeError:
            more = ""
        if not self.process.wait():
            return (more or "").strip()
        return f"FAIL {self.name}: exit code {self.process.returncode}: {(''.join(self.said) + (more or ''))[-1500:]}"


def case(folder: Path, name: str, where: bool = False) -> None:
    """One operation; prints READY, waits for a line, and prints a line for each way to launch it."""
    import torch

    from twill.runtime import library, variants
    from twill.runtime.policy import settings

    operation = next(one for one in OPERATIONS if one.name == name)
    sys.path.insert(0, str(folder / PACKAGES))
    said = json.loads((folder / SAID).read_text(encoding="utf-8"))
    with ExitStack() as stack:
        for module in (library, variants):
            stack.enter_context(mock.patch.object(module, "compiler", lambda _: said["compiler"]))
        stack.enter_context(held(said["configurations"], bench=said["configurations"] > 1))
        chosen = settings("lookup", store=str(folder / STORE), machine=said["machine"])
        sides = imported(operation, chosen)
        make = Maker(torch, "cuda")
        refused = without_backward(operation, sides.plain, make)
        step(operation, sides.wrapped, inputs_of(operation, make), backward=not refused)
        torch.cuda.synchronize()
        print(READY, flush=True)
        sys.stdin.readline()
        if refused:
            print(f"{operation.name}: without backward: {refused[:160]}")
        for line in measured(operation, sides, make, (False,) if refused else (False, True), where):
            print(line, flush=True)


def without_backward(operation: Operation, module: Any, make: Maker) -> str:
    """Why the package refuses the operation's backward here; "" if it does not."""
    try:
        step(operation, module, inputs_of(operation, make), backward=True)
    except RuntimeError as error:
        step(operation, module, inputs_of(operation, make), backward=False)
        return str(error)
    return ""


def measured(
    operation: Operation, sides: Sides, make: Maker, ways: Sequence[bool], where: bool = False
) -> Iterator[str]:
    """The lines of one operation. ways: whether with backward. where: with what `benchmarks.operations_where` says."""
    import torch

    far = distance(operation, sides, make, ways[-1])
    for _ in range(SETTLE):
        step(operation, sides.wrapped, inputs_of(operation, make), ways[-1])
        torch.cuda.synchronize()
    far = max(far, distance(operation, sides, make, ways[-1]))
    inputs = inputs_of(operation, make)
    for backward in ways:

        def launch(module: Any, backward: bool = backward) -> Callable[[], Any]:
            return lambda: step(operation, module, inputs, backward)

        pair = (launch(sides.plain), launch(sides.wrapped))
        what = "forward+backward" if backward else "forward"
        for kind, timer, rounds in (("single", single, SINGLES), ("back to back", window, TURNS)):
            plain, wrapped = in_turns(pair, timer, rounds)
            yield (f"{operation.name:22} {what:16} {kind:12} without {plain:8.1f} us, under twill {wrapped:8.1f} us "
                   f"x{plain / wrapped:.3f}{'  SLOW' if plain / wrapped < LEAST else ''}")  # fmt: skip
        if where:
            from benchmarks.operations_where import accounted, alone

            yield from accounted(pair, what)
            yield from alone(pair) if backward is ways[-1] else ()
    yield f"{'ok  ' if far <= SAME else 'FAIL'} {operation.name}: results are {far:.1e} from those without Twill"
    for kernel in sides.made:
        if kernel.twill_dispatch.launched:
            yield from (f"    {line}" for line in shortened(kernel.twill_dispatch.account()))


def shortened(text: str) -> Iterator[str]:
    """Lines of an account without the variant, which is long."""
    for line in text.splitlines():
        name, _, rest = line.partition("(")
        text = rest.partition(")")[2].lstrip(",: ")
        yield f"{name}: {text[:230]}" if text else line[:230]


def distance(operation: Operation, sides: Sides, make: Maker, backward: bool) -> float:
    """The largest relative distance of any result."""
    import torch

    found = []
    for module in (sides.plain, sides.wrapped):
        torch.manual_seed(0)
        found.append([one.detach().double() for one in step(operation, module, inputs_of(operation, make), backward)])
    return max(
        float((ours - wanted).norm() / wanted.norm().clamp_min(1e-30)) for wanted, ours in zip(*found, strict=True)
    )


def single(launch: Callable[[], Any]) -> float:
    """Microseconds of one round, from an idle GPU to an idle GPU."""
    import torch

    torch.cuda.synchronize()
    begun = time.perf_counter()
    launch()
    torch.cuda.synchronize()
    return (time.perf_counter() - begun) * 1e6


def window(launch: Callable[[], Any]) -> float:
    """Microseconds of one of many rounds."""
    return single(lambda: [launch() for _ in range(WINDOW)]) / WINDOW


def in_turns(
    pair: Sequence[Callable[[], Any]], timer: Callable[[Callable[[], Any]], float], rounds: int
) -> tuple[float, float]:
    """Medians of both."""
    times: tuple[list[float], list[float]] = ([], [])
    gc.collect()
    gc.disable()  # it would stop the one or the other
    for number in range(rounds + 2):
        for which in (0, 1) if number % 2 else (1, 0):
            taken = timer(pair[which])
            if number >= 2:
                times[which].append(taken)
    gc.enable()
    return statistics.median(times[0]), statistics.median(times[1])


def main() -> int:
    """See the top of this file."""
    one = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    one.add_argument("command", choices=("prepare", "fill", "filling", "run", "case"))
    one.add_argument("folder", type=Path)
    one.add_argument("--only", default="", help="operations whose names have one of these words in them (a,b)")
    one.add_argument("--machine", default="h200")
    one.add_argument("--seconds", type=float, default=20.0, help="for each solve, for prepare")
    one.add_argument("--configurations", type=int, default=1, help="of each autotuner, for prepare (default 1)")
    one.add_argument("--where", action="store_true", help="for run: where the time goes (benchmarks.operations_where)")
    one.add_argument("--fill", type=float, default=60.0, help="seconds, for fill (default 60)")
    given = one.parse_args()
    from benchmarks import operations_fill

    if given.command == "fill":
        return operations_fill.fill(given.folder, given.only, given.machine, given.fill, given.configurations)
    if given.command == "filling":
        operations_fill.filling(given.folder, given.only, given.machine, given.fill)
        return 0
    if given.command == "prepare":
        return prepare(given.folder, given.only, given.machine, given.seconds, given.configurations)
    if given.command == "run":
        return int(bool(run(given.folder, given.only, given.where)))
    case(given.folder, given.only, given.where)
    return 0


if __name__ == "__main__":
    sys.exit(main())
