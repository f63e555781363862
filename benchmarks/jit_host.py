"""What a launch costs the host more, or less, under `twill.jit`: one that stays with Triton, and an emitted one. Needs
no GPU.

    python benchmarks/jit_host.py [--launches 20000] [--out FILE]

Triton's binder, caches and hooks are its own; the driver is one that notes a launch and returns. Plain and wrapped
kernels are launched in turns of 50; a row is the median of the turns' means, in microseconds of the launching thread's
own time, and of their differences.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib
import importlib.util
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also where twill is not installed

import pytest
import torch
import triton

import twill
from tests.fake_driver import FakeDriver, install
from tests.fake_triton import installed
from twill.manifest.document import SCHEMA, CallArgument, KernelParameter, Manifest, Promise, sha256
from twill.runtime import library
from twill.runtime.artifact import artifact, to_text
from twill.runtime.native import EntryPoints
from twill.runtime.request import Prepared, PrepareRequest

tensor_module = importlib.import_module("twill.runtime.tensor")

TURN = 50  # launches of one kind before it is another's turn
COUNTS = (3, 8, 15, 30)  # arguments: half of them tensors, the rest numbers and one constant
STATES = ("stays", "being prepared", "new addresses", "autotuned", "off", "emitted", "emitted, new addresses",
          "emitted, tuned")  # fmt: skip
WORDS = {"being prepared": "being prepared", "off": "off"}
CODE = b"the cubin"

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def plain({parameters}, BLOCK: tl.constexpr):
    tl.store(t0 + tl.arange(0, BLOCK), n0)
"""


class Stand:
    """A helper that refuses, or never answers, or emits `emits`."""

    answers = True
    emits: Manifest | None = None

    def ask(self, request: PrepareRequest, notify: Callable[[Prepared], None], launches: Callable[[], int]) -> None:
        """See `twill.runtime.helper.Helper`."""
        if self.emits is not None:
            made = artifact(request.key, self.emits.text(), CODE)
            notify(Prepared(request.key, "emitted", artifact=to_text(made)))
        elif self.answers:
            notify(Prepared(request.key, "unsupported", "nothing is emitted here"))


class Driver(FakeDriver):
    """Notes nothing."""

    def entry_points(self) -> EntryPoints:
        """A function of the C library that only compares its arguments stands for the launch, as quick as a driver that
        returns at once."""

        def current(cell: Any) -> int:
            cell._obj.value = 0
            return 0

        return EntryPoints(ctypes.CDLL(None).pthread_equal, current)


def manifest_of(count: int) -> Manifest:
    """As if the kernel with that many arguments had been emitted."""
    tensors = max(1, count // 2)
    pointers, numbers = [f"t{i}" for i in range(tensors)], [f"n{i}" for i in range(count - tensors - 1)]
    return Manifest(
        schema=SCHEMA, kernel=f"plain{count}", spec="launch", file="", machine="h200", architecture="sm_90a",
        function="plain", threads=128, shared=0,
        arguments=(
            *(CallArgument(name, "pointer", "*fp32", "f32") for name in pointers),
            *(CallArgument(name, "number", "i32") for name in numbers),
            CallArgument("BLOCK", "constant", value=64),
        ),
        promises=tuple(Promise(name, 16) for name in pointers),
        parameters=(
            *(KernelParameter("pointer", name, "f32", i) for i, name in enumerate(pointers)),
            *(KernelParameter("scalar", name, "i32", tensors + i) for i, name in enumerate(numbers)),
            *(KernelParameter("grid", f"grid{axis}", "u32", axis) for axis in range(3)),
        ),
        maps=(), grid=(), loads=(), stores=("t0",), reduces=(), apart=(), changes=(), strict=False, fp_fusion=True,
        schedule="key", cubin=sha256(CODE),
    )  # fmt: skip


def fake_cuda(manifest: Manifest, stack: ExitStack) -> None:
    """Tensors of the CPU pass for a GPU's, and the driver is `tests.fake_driver`."""
    sizes = {"pointer": 8, "scalar": 4, "grid": 4}
    fake = Driver([sizes[parameter.kind] for parameter in manifest.parameters])
    patch = pytest.MonkeyPatch()
    stack.callback(patch.undo)
    install(patch, fake)
    patch.setattr(torch.Tensor, "get_device", lambda tensor: 0)

    def seen(value: Any, name: str, stream: int = 0) -> Any:
        kind = tensor_module._TORCH[str(value.dtype)]
        return tensor_module.TensorView(value.data_ptr(), kind, tuple(value.shape), value.stride(), 0, value)

    for user in ("tensor", "arguments", "launch", "kernel"):
        patch.setattr(f"twill.runtime.{user}.view", seen)


def kernel_of(count: int, place: Path) -> Any:
    """A kernel with that many arguments, from a file of its own, as Triton wants to read its source."""
    tensors = max(1, count // 2)
    names = [f"t{i}" for i in range(tensors)] + [f"n{i}" for i in range(count - tensors - 1)]
    path = place / f"plain{count}.py"
    path.write_text(KERNEL.format(parameters=", ".join(names)))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.plain


def arguments_of(count: int) -> list[Any]:
    """Tensors, then numbers, then the constant."""
    tensors = max(1, count // 2)
    return [torch.zeros(64) for _ in range(tensors)] + [64 + i for i in range(count - tensors - 1)] + [64]


def measure(plain: Any, wrapped: Any, calls: Sequence[Sequence[Any]], launches: int) -> tuple[float, float, float]:
    """Medians: plain, wrapped, and the difference of neighbouring turns."""
    for kernel in (plain, wrapped) * 200:
        kernel[(1,)](*calls[0])
    taken: list[tuple[float, float]] = []
    for number in range(launches // TURN):
        pair = []
        order = (plain, wrapped) if number % 2 else (wrapped, plain)
        for kernel in order:
            begun = time.thread_time_ns()
            for turn in range(TURN):
                kernel[(1,)](*calls[(number * TURN + turn) % len(calls)])
            pair.append((time.thread_time_ns() - begun) / 1000 / TURN)
        taken.append((pair[0], pair[1]) if number % 2 else (pair[1], pair[0]))
    first, second = (statistics.median(column) for column in zip(*taken, strict=True))
    return first, second, statistics.median(b - a for a, b in taken)


def rows(launches: int, counts: Sequence[int] = COUNTS) -> list[tuple[str, int, float, float, float]]:
    """Every state with every number of arguments."""
    with tempfile.TemporaryDirectory(prefix="twill-host-") as place, installed():
        vars(library)["Helper"] = Stand
        return [row for count in counts for row in rows_of(count, Path(place), launches)]


def rows_of(count: int, place: Path, launches: int) -> Iterator[tuple[str, int, float, float, float]]:
    """Every state of a kernel with so many arguments."""
    kernel = kernel_of(count, place)
    with ExitStack() as stack:
        fake_cuda(manifest_of(count), stack)
        for state in STATES:
            emitted = state.startswith("emitted")
            if emitted and Stand.emits is None:
                Stand.emits = manifest_of(count)
                stack.callback(setattr, Stand, "emits", None)
            Stand.answers = state != "being prepared"
            options = {"policy": "off" if state == "off" else "solve", "prefer": "emitted" if emitted else "faster"}
            plain, wrapped = kernel, twill.jit(kernel, machine="h200", store=f"{place}/{state}{count}", **options)
            if state == "autotuned":
                plain, wrapped = tuned(plain), tuned(wrapped)
            calls = [arguments_of(count) for _ in range(400 if "new addresses" in state else 1)]
            if state == "emitted, tuned":
                plain, wrapped = judged(kernel), twill.jit(judged(kernel), store=f"{place}/{state}{count}",
                                                           machine="h200", **options)  # fmt: skip
                calls = [call[:-1] for call in calls]
            for _ in range(3):
                wrapped[(1,)](*calls[0])
                time.sleep(0.2)  # for the look-up and the helper
            check(wrapped, state)
            yield (state, count, *measure(plain, wrapped, calls, launches))


def check(wrapped: Any, state: str) -> None:
    """That launches are in the state that a row names."""
    said = twill.explain_fallback(wrapped)
    inner = wrapped
    while hasattr(inner, "fn") and not hasattr(inner, "twill_dispatch"):
        inner = inner.fn
    if state.startswith("emitted"):
        wrong = said or not inner.twill_dispatch.used
    else:
        wrong = WORDS.get(state, "nothing is emitted here") not in said
    if wrong:
        raise SystemExit(f"{state}: {said}")


def tuned(kernel: Any) -> Any:
    """Under an autotuner that has made its choice."""
    made = triton.autotune([triton.Config({}, num_warps=4)], key=[])(kernel)
    made.do_bench = lambda call, quantiles: [1.0] * 3
    return made


def judged(kernel: Any) -> Any:
    """Under an autotuner that has a choice, and that under heuristics, as fla-core's kernels are."""
    made = triton.autotune([triton.Config({}, num_warps=4), triton.Config({}, num_warps=8)], key=["n0"])(kernel)
    made.do_bench = lambda call, quantiles: [1.0] * 3
    return triton.heuristics({"BLOCK": lambda given: 64 if given["t0"] is not None else 1})(made)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 1 if a launch that stays with Triton costs more than a microsecond more."""
    made = argparse.ArgumentParser(prog="benchmarks/jit_host.py", description=__doc__, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--launches", type=int, default=20000, help="of each kind (default 20,000)")
    made.add_argument("--out", type=Path, help="the page of results")
    options = made.parse_args(arguments)
    found = rows(options.launches)
    lines = [
        f"Python {platform.python_version()}, Triton {triton.__version__}, {options.launches} launches of each kind.",
        "",
        "| launch | arguments | Triton, µs | under twill.jit, µs | more, µs |",
        "| --- | ---: | ---: | ---: | ---: |",
        *(f"| {state} | {count} | {a:.2f} | {b:.2f} | {more:.2f} |" for state, count, a, b, more in found),
    ]
    page = "\n".join(lines) + "\n"
    sys.stdout.write(page)
    if options.out is not None:
        options.out.write_text(page, encoding="utf-8")
    return int(any(more > 1.0 for *_, more in found))


if __name__ == "__main__":
    raise SystemExit(main())
