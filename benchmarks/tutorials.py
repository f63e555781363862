"""Triton's own tutorials under `twill.jit` beside the same without it, in one process, on a GPU.

    python -m benchmarks.tutorials FOLDER [--only 06] [--wait S] [--prepare]

FOLDER has the files 02-fused-softmax.py, 03-matrix-multiplication.py, 05-layer-norm.py, 06-fused-attention.py,
08-grouped-gemm.py and 09-persistent-matmul.py of `python/tutorials` in Triton's repository, of the Triton that is
installed. Each is imported twice as it is, with its own autotune lists, once under `twill run`'s policy "solve"; its
plots are not drawn. Every function runs until what it launches is prepared (at most S seconds for all of a tutorial)
and compared; then results are compared, and both take turns. Lines begin with ok or FAIL; a ratio above 1 is faster
than without. --prepare: launch and wait, no more, so that several processes fill a store side by side (TWILL_STORE).
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from benchmarks.autotuned import microseconds

NEAR = 2e-2  # relative distance of results that are sums in another order, rounded to 16 bits
TURNS, ROUNDS = 9, 120
PAUSE = 3.0  # seconds in which what recognizes launches is compiled (docs/jit.md)
SCALE = 0.5  # of attention

Outputs = tuple[Any, ...]
Runs = Iterator[tuple[str, Callable[[Any], Callable[[], Outputs]]]]
"""A name, and what makes the launch of a module's function: its results, new ones at every call."""


class NoPlot:
    """In the place of what draws a benchmark's plots."""

    def __init__(self, *_: Any) -> None: ...

    def run(self, **_: Any) -> None:
        """Nothing."""


def imported(path: Path, name: str) -> Any:
    """A tutorial, without its plots."""
    import triton

    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    with mock.patch.object(triton.testing, "perf_report", lambda _: NoPlot):
        spec.loader.exec_module(module)
    return module


def half(*size: int) -> Any:
    """Random numbers of 16 bits on the GPU."""
    import torch

    return torch.randn(size, device="cuda", dtype=torch.float16)


# ---------------------------------------------------------------- what is run of each
def softmax() -> Runs:
    """Rows of ordinary and odd lengths."""
    import torch

    for rows, columns in ((1823, 781), (4096, 4096)):
        x = torch.randn(rows, columns, device="cuda")
        yield f"softmax {rows} x {columns}", lambda m, x=x: lambda: (m.softmax(x),)


def multiply() -> Runs:
    """Squares, a ragged one, and one with its activation."""
    for size, activation in (((4096, 4096, 4096), ""), ((1000, 776, 520), ""), ((2048, 2048, 2048), "leaky_relu")):
        a, b = half(size[0], size[2]), half(size[2], size[1])
        name = f"matmul {' x '.join(map(str, size))} {activation}".strip()
        yield name, lambda m, a=a, b=b, act=activation: lambda: (m.matmul(a, b, activation=act),)


def layer_norm() -> Runs:
    """Forward, and forward with backward."""
    import torch

    for rows, columns in ((1151, 8192), (4096, 4096)):
        x, w, b = half(rows, columns), half(columns), half(columns)
        dy = 0.1 * half(rows, columns)

        def both(m: Any, x: Any = x, w: Any = w, b: Any = b, dy: Any = dy) -> Callable[[], Outputs]:
            def run() -> Outputs:
                leaves = [one.detach().requires_grad_() for one in (x, w, b)]
                y = m.layer_norm(leaves[0], (leaves[0].shape[1],), leaves[1], leaves[2], 1e-5)
                return (y, *torch.autograd.grad(y, leaves, dy))

            return run

        shape = f"{rows} x {columns}"
        forward = lambda m, x=x, w=w, b=b: lambda: (m.layer_norm(x, (x.shape[1],), w, b, 1e-5),)  # noqa: E731
        yield f"layer norm {shape} forward", forward
        yield f"layer norm {shape} forward and backward", both


def attention() -> Runs:
    """Forward, and forward with backward; full and causal; D = 64 and 128."""
    import torch

    for causal in (False, True):
        for d in (64, 128):
            q, k, v, do = (half(4, 16, 4096, d) for _ in range(4))

            def both(m: Any, given: Any = (q, k, v), do: Any = do, c: bool = causal) -> Callable[[], Outputs]:
                def run() -> Outputs:
                    leaves = [one.detach().requires_grad_() for one in given]
                    o = m.attention(*leaves, c, SCALE, False)
                    return (o, *torch.autograd.grad(o, leaves, do))

                return run

            words = f"attention {'causal' if causal else 'full'} D = {d}"
            forward = lambda m, q=q, k=k, v=v, c=causal: lambda: (m.attention(q, k, v, c, SCALE, False),)  # noqa: E731
            yield f"{words} forward", forward
            yield f"{words} forward and backward", both


def grouped() -> Runs:
    """Groups of one shape and of several."""
    shapes = {"1024": [(1024, 1024, 1024)] * 4, "mixed": [(1024, 512, 768), (128, 1024, 512), (512, 512, 1024)]}
    for words, sizes in shapes.items():
        group_a, group_b = [half(m, k) for m, _, k in sizes], [half(k, n) for _, n, k in sizes]
        yield f"grouped {words}", lambda m, a=group_a, b=group_b: lambda: tuple(m.group_gemm_fn(a, b))
        turned = [one.T.contiguous() for one in group_b]
        yield f"grouped {words}, descriptors", lambda m, a=group_a, b=turned: lambda: tuple(m.group_gemm_tma_fn(a, b))


def persistent() -> Runs:
    """All kernels of the tutorial."""
    for size in ((8192, 8192, 1024), (1000, 1032, 528)):
        a, b = half(size[0], size[2]), half(size[1], size[2])
        for name in ("matmul", "matmul_persistent"):
            words = f"{name} {' x '.join(map(str, size))}"
            yield words, lambda m, n=name, a=a, b=b: lambda: (getattr(m, n)(a, b.T),)
        for name in ("matmul_tma", "matmul_tma_persistent", "matmul_descriptor_persistent"):
            words = f"{name} {' x '.join(map(str, size))}"
            yield words, lambda m, n=name, a=a, b=b: lambda: (getattr(m, n)(a, b, False),)


TUTORIALS = {"02": softmax, "03": multiply, "05": layer_norm, "06": attention, "08": grouped, "09": persistent}


# ---------------------------------------------------------------- under twill.jit and without
def settled(made: list[Any]) -> bool:
    """Whether everything that was launched is prepared, or refused."""
    known = [
        one
        for kernel in made
        if kernel.twill_dispatch.launched and kernel.twill_dispatch.variants is not None
        for one in kernel.twill_dispatch.variants.known.values()
    ]
    return all(one.reason or (one.shelf is not None and one.shelf.state != "preparing") for one in known)


def compared(name: str, plain: Callable[[], Outputs], under: Callable[[], Outputs]) -> bool:
    """Prints the line of one function; whether its results are those of Triton."""
    import torch

    far = []
    for one, other in zip(under(), plain(), strict=True):
        ours, theirs = one.detach(), other.detach()
        far.append(float((ours.double() - theirs.double()).norm() / theirs.double().norm()))
    torch.cuda.synchronize()
    times: tuple[list[float], list[float]] = ([], [])
    for turn in range(TURNS + 1):
        for which in random.sample((0, 1), 2):
            took = microseconds((plain, under)[which])
            if turn:
                times[which].append(took)
    before, after = (statistics.median(one) for one in times)
    good = all(one <= NEAR for one in far)
    print(
        f"{'ok  ' if good else 'FAIL'} {name:48} without {before:8.1f} us, under twill {after:8.1f} us "
        f"x{before / after:.3f}, apart {max(far):.1e}",
        flush=True,
    )
    return good


def tutorial(path: Path, wait: float, prepare: bool) -> int:
    """One file, in this process; how many functions are wrong. prepare: no more than that."""
    import torch

    import twill
    from twill.runtime.policy import settings
    from twill.runtime.script import every_kernel

    plain = imported(path, "plain")
    made: list[Any] = []
    failed = 0
    with ExitStack() as stack:
        stack.enter_context(every_kernel(settings("solve", solve_seconds=30), made))
        wrapped = imported(path, "wrapped")
        runs = list(TUTORIALS[path.name[:2]]())
        for name, make in runs:  # everything is asked for at once, and prepared side by side
            try:
                make(wrapped)()
            except Exception as error:
                print(f"FAIL {name}: {type(error).__name__}: {str(error)[:300]}", flush=True)
        end = time.monotonic() + wait
        torch.cuda.synchronize()
        while not settled(made) and time.monotonic() < end:
            time.sleep(0.5)
        for name, make in () if prepare else runs:
            for pause in (PAUSE, 0.0):
                for _ in range(ROUNDS):  # comparisons find their verdicts
                    make(wrapped)()
                torch.cuda.synchronize()
                time.sleep(pause)
            failed += not compared(f"{path.name[:2]} {name}", make(plain), make(wrapped))
    for kernel in made:
        if kernel.twill_dispatch.launched:
            print("\n".join(f"    {line[:300]}" for line in twill.explain(kernel).splitlines()), flush=True)
    return failed


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="tutorials whose names begin with this")
    parser.add_argument("--wait", type=float, default=120.0, help="seconds for preparing the kernels of one (120)")
    parser.add_argument("--seconds", type=float, default=400.0, help="limit of one tutorial's process (400)")
    parser.add_argument("--prepare", action="store_true", help="fill the store, and no more")
    asked = parser.parse_args()
    if asked.folder.is_file():
        return tutorial(asked.folder, asked.wait, asked.prepare)
    failed = 0
    for path in sorted(asked.folder.glob("0*.py")):
        if path.name[:2] in TUTORIALS and path.name.startswith(asked.only):
            command = [sys.executable, "-m", "benchmarks.tutorials", str(path), "--wait", str(asked.wait)]
            command += ["--prepare"] if asked.prepare else []
            run = partial(subprocess.run, command, check=False, timeout=asked.seconds)
            try:
                failed += run().returncode != 0
            except subprocess.TimeoutExpired:
                print(f"FAIL {path.name}: no end after {asked.seconds:g} s", flush=True)
                failed += 1
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
