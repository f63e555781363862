"""What a launch that stays with Triton costs the host more under `twill.jit`. Needs no GPU.

    python benchmarks/jit_host.py [--launches 20000] [--out FILE]

Triton's binder, caches and hooks are its own; the driver is one that notes a launch and returns. Plain and wrapped
kernels are launched in turns of 50; a row is the median of the turns' means, in microseconds of the launching thread's
own time, and of their differences.
"""

from __future__ import annotations

import argparse
import importlib.util
import platform
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also where twill is not installed

import torch
import triton

import twill
from tests.fake_triton import installed
from twill.runtime import library
from twill.runtime.request import Prepared, PrepareRequest

TURN = 50  # launches of one kind before it is another's turn
COUNTS = (3, 8, 15, 30)  # arguments: half of them tensors, the rest numbers and one constant
STATES = ("stays", "being prepared", "new addresses", "autotuned", "off")

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def plain({parameters}, BLOCK: tl.constexpr):
    tl.store(t0 + tl.arange(0, BLOCK), n0)
"""


class Stand:
    """A helper that refuses, or never answers."""

    answers = True

    def ask(self, request: PrepareRequest, notify: Callable[[Prepared], None], launches: Callable[[], int]) -> None:
        """See `twill.runtime.helper.Helper`."""
        if self.answers:
            notify(Prepared(request.key, "unsupported", "nothing is emitted here"))


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


def rows(launches: int) -> list[tuple[str, int, float, float, float]]:
    """Every state with every number of arguments."""
    found = []
    with tempfile.TemporaryDirectory(prefix="twill-host-") as place, installed():
        vars(library)["Helper"] = Stand
        for count in COUNTS:
            kernel = kernel_of(count, Path(place))
            for state in STATES:
                Stand.answers = state != "being prepared"
                policy = "off" if state == "off" else "solve"
                plain, wrapped = (
                    kernel,
                    twill.jit(kernel, policy=policy, machine="h200", store=f"{place}/{state}{count}"),
                )
                if state == "autotuned":
                    plain, wrapped = tuned(plain), tuned(wrapped)
                calls = [arguments_of(count) for _ in range(400 if state == "new addresses" else 1)]
                for _ in range(3):
                    wrapped[(1,)](*calls[0])
                    time.sleep(0.2)  # for the look-up and the helper
                check(wrapped, state)
                found.append((state, count, *measure(plain, wrapped, calls, launches)))
    return found


def check(wrapped: Any, state: str) -> None:
    """That launches are in the state that a row names."""
    said = twill.explain_fallback(wrapped)
    expected = {"being prepared": "being prepared", "off": "off"}.get(state, "nothing is emitted here")
    if expected not in said:
        raise SystemExit(f"{state}: {said}")


def tuned(kernel: Any) -> Any:
    """Under an autotuner that has made its choice."""
    made = triton.autotune([triton.Config({}, num_warps=4)], key=[])(kernel)
    made.do_bench = lambda call, quantiles: [1.0] * 3
    return made


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
