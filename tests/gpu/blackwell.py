"""The first hour on a B200: everything that is emitted for it, in the order of what it relies on.

    python -m tests.gpu.blackwell build DIR           # anywhere: solves, emits, checks, executes nothing
    python -m tests.gpu.blackwell run DIR [STEP ...]  # on a B200, with PyTorch, Triton and cuda-bindings
    python -m tests.gpu.blackwell case DIR STEP       # one step in this process, for a debugger or compute-sanitizer

Nothing that is emitted for the B200 was ever run on one. So `run` begins with a kernel that needs nothing of tensor
memory, goes on with one MMA of one tile, whose inputs say of every element where it came from, and ends with times.
Each step has a process of its own and a limit on its time; after a step that fails stands what it was the first one to
rely on, and where to look. It ends with `N steps hold, N do not`.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from tests.gpu.blackwell_steps import DYNAMIC, MULTICAST, PAIR, STEPS, TILES, Step

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120.0  # of one step
SHOWN = 6  # misplaced elements


def build(folder: Path) -> bool:
    """Every kernel of the steps; whether all were emitted."""
    from tests.gpu.emitting import emit_example
    from twill.codegen.lower.dynamic_scheduler import Order

    done = True
    for name in sorted({step.kernel for step in STEPS} - {""}):
        alone = name.removesuffix(PAIR).removesuffix(MULTICAST).removesuffix(DYNAMIC)
        stem, spec = alone.partition("@")[0].split("-", 1)
        pair = name.endswith(PAIR)
        cluster = 2 if pair or name.endswith(MULTICAST) else 1
        order: Order = "dynamic" if name.endswith(DYNAMIC) else "chosen"
        file = next(f"{room}/{stem}.py" for room in ("examples", "tests") if (ROOT / room / f"{stem}.py").is_file())
        given = (file, spec, folder / name, folder / "schedules", "b200", 60.0, True, False)
        try:
            said = emit_example(*given, cluster, order, *TILES.get(name, ((), ())), pair)
        except Exception as error:  # the rest goes on
            said, done = f"REFUSED {type(error).__name__}: {error}", False
        print(f"{name}: {said}", flush=True)
    return done


# ---------------------------------------------------------------- steps: what is wrong, a line each


def wrong(folder: Path, step: Step) -> Iterator[str]:
    """What does not hold in a step."""
    import torch

    if step.kind == "loads":
        if torch.cuda.get_device_capability() != (10, 0):
            yield f"{torch.cuda.get_device_name()} is none: compute capability {torch.cuda.get_device_capability()}"
            return
        for name in sorted({one.kernel for one in STEPS} - {""}):
            yield from loading(folder / name)
    elif step.kind == "placed":
        yield from placed(folder / step.kernel, step.sizes)
    elif step.kind == "times":
        yield from times(folder / step.kernel, step.sizes)
    else:
        yield from unlike(folder / step.kernel, step.sizes)


def loading(folder: Path) -> Iterator[str]:
    """Why the driver does not take a kernel's code."""
    from twill.exc import TwillError
    from twill.runtime.kernel import EmittedKernel
    from twill.runtime.module import load_module

    kernel = EmittedKernel.load(folder)
    try:
        load_module(kernel.cubin, kernel.manifest.architecture).kernel(kernel.manifest.function, ())
    except TwillError as error:
        yield f"{folder.name}: {error.message}"


def unlike(folder: Path, sizes: Mapping[str, int]) -> Iterator[str]:
    """Checks of `tests.gpu.examples` at one size that do not hold."""
    from tests.gpu.check_examples import module, one, problem_of
    from tests.gpu.examples import EXTENTS
    from tests.gpu.references import EXAMPLES
    from twill.runtime.kernel import EmittedKernel

    kernel = EmittedKernel.load(folder)
    about = kernel.manifest
    constants = {one.name: one.value for one in about.arguments if isinstance(one.value, int)}
    case = problem_of(about.file, about.spec).with_constants(constants).case(dict(sizes))
    original = getattr(module(about.file), about.kernel)
    for row in one(folder.name, kernel, original, EXAMPLES[about.kernel], case, EXTENTS["all"]):
        print(row.text(), flush=True)
        if not row.ok:
            yield f"{row.check}: {row.note or row.emitted}"


def placed(folder: Path, sizes: Mapping[str, int]) -> Iterator[str]:
    """C = A B with the unit matrix as A or as B: which element of the other one is where in C."""
    import torch

    from twill.runtime.kernel import EmittedKernel

    kernel = EmittedKernel.load(folder)
    m, n, k = (sizes[name] for name in "MNK")
    rows, columns = torch.arange(k).float()[:, None].expand(k, n), torch.arange(n).float()[None].expand(k, n)
    unit = torch.eye(m, k)
    found = [product(kernel, unit, numbers)[:k] for numbers in (rows, columns)]
    yield from (f"B: {line}" for line in misplaced(found[0], found[1]))
    rows, columns = torch.arange(m).float()[:, None].expand(m, k), torch.arange(k).float()[None].expand(m, k)
    found = [product(kernel, numbers, torch.eye(k, n))[:, :k] for numbers in (rows, columns)]
    yield from (f"A: {line}" for line in misplaced(found[0], found[1]))


def product(kernel: Any, a: Any, b: Any) -> Any:
    """What a GEMM makes of two small matrices, on the CPU again."""
    import torch

    c = torch.full((a.shape[0], b.shape[1]), -1.0, dtype=torch.bfloat16, device="cuda")
    multiply(kernel, a.bfloat16().cuda(), b.bfloat16().cuda(), c)
    torch.cuda.synchronize()
    return c.float().cpu()


def multiply(kernel: Any, a: Any, b: Any, c: Any) -> None:
    """One launch of `examples/gemm.py`, as emitted."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    known = {one.name: one for one in kernel.manifest.arguments}
    tensors = (("a_desc", a), ("b_desc", b), ("c_desc", c))
    given = {name: TensorDescriptor.from_tensor(one, list(known[name].block)) for name, one in tensors}
    (m, k), n = a.shape, b.shape[1]
    grid = (-(-m // known["BLOCK_M"].value) * -(-n // known["BLOCK_N"].value),)
    kernel[grid](**given, M=m, N=n, K=k)


def misplaced(rows: Any, columns: Any) -> Iterator[str]:
    """Elements that are not where they belong. rows, columns: of the element that lies at each place."""
    height, width = rows.shape
    places = ((i, j) for i in range(height) for j in range(width))
    bad = [(i, j) for i, j in places if (rows[i, j], columns[i, j]) != (i, j)]
    if bad:
        yield f"{len(bad)} of {height * width} elements are not where they belong"
    for i, j in bad[:SHOWN]:
        yield f"at ({i}, {j}) lies what belongs to ({rows[i, j]:g}, {columns[i, j]:g})"


def times(folder: Path, sizes: Mapping[str, int]) -> Iterator[str]:
    """TFLOP/s of a GEMM beside PyTorch's, in turns. What may be wrong is the result."""
    import torch

    from benchmarks.autotuned import microseconds
    from twill.runtime.kernel import EmittedKernel

    kernel = EmittedKernel.load(folder)
    m, n, k = (sizes[name] for name in "MNK")
    a, b = (torch.randn(shape, device="cuda").bfloat16() for shape in ((m, k), (k, n)))
    c = torch.empty(m, n, dtype=torch.bfloat16, device="cuda")
    sides = {"PyTorch": lambda: torch.matmul(a, b, out=c), "emitted": lambda: multiply(kernel, a, b, c)}
    spent: dict[str, list[float]] = {name: [] for name in sides}
    for _ in range(20):
        for name, launch in sides.items():
            spent[name].append(microseconds(launch))
    for name, found in spent.items():
        print(f"{name}: {2 * m * n * k / statistics.median(found) / 1e6:.0f} TFLOP/s", flush=True)
    wanted = a[:256].float() @ b.float()
    if (c[:256].float() - wanted).norm() > 0.01 * wanted.norm():
        yield "the result is wrong"


# ---------------------------------------------------------------- run


def case(folder: Path, step: Step) -> bool:
    """One step in this process; whether it holds."""
    found = list(wrong(folder, step))
    for line in found:
        print(f"WRONG {line}", flush=True)
    return not found


def run(folder: Path, steps: tuple[Step, ...]) -> bool:
    """Every step, each in its process; whether all hold."""
    failed = 0
    for number, step in enumerate(steps, 1):
        words = [sys.executable, "-m", "tests.gpu.blackwell", "case", str(folder), step.name]
        try:
            done = subprocess.run(words, capture_output=True, text=True, timeout=SECONDS, cwd=ROOT)
            ending, said = done.returncode, done.stdout + (done.stderr[-1500:] if done.returncode else "")
        except subprocess.TimeoutExpired as late:
            ending, said = 1, f"{(late.stdout or b'').decode()}WRONG no end after {SECONDS:g} s\n"
        print(f"{number}. {step.name}: {'holds' if not ending else 'DOES NOT HOLD'}\n{said}", end="", flush=True)
        if ending:
            failed += 1
            print(f"   new in this step: {step.new}\n   look at: {step.look}", flush=True)
    print(f"{len(steps) - failed} steps hold, {failed} do not")
    return not failed


def main() -> int:
    """See the top of this file."""
    parser = argparse.ArgumentParser(prog="python -m tests.gpu.blackwell", description=__doc__)
    parser.add_argument("action", choices=("build", "run", "case"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("steps", nargs="*", choices=[*(step.name for step in STEPS), []])
    given = parser.parse_args()
    if given.action == "build":
        return 0 if build(given.folder) else 1
    chosen = tuple(step for step in STEPS if not given.steps or step.name in given.steps)
    if given.action == "run":
        return 0 if run(given.folder, chosen) else 1
    return 0 if all([case(given.folder, step) for step in chosen]) else 1


if __name__ == "__main__":
    sys.exit(main())
