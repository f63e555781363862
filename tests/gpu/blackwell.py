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
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 120.0  # of one step
PAIR = "-pair"  # behind the name of a kernel of two CTAs that multiply together
DYNAMIC = "-dynamic"  # behind that of a kernel whose CTAs take over the places of others
SHOWN = 6  # misplaced elements


@dataclass(frozen=True)
class Step:
    """kernel: example and specialization, PAIR or DYNAMIC behind it; "" for none. sizes: of its launch. new: what no
    step before relied on. look: where, if it fails. kind: `right`: equal to the reference, 100 launches with equal
    bits; `placed`: every element where it belongs; `times`: beside PyTorch; `loads`: code only."""

    name: str
    kernel: str
    sizes: Mapping[str, int]
    new: str
    look: str
    kind: str = "right"


STEPS = (
    Step(
        "board", "", {}, "the GPU is an sm_100 and its driver takes the code",
        "nvidia-smi (a driver for CUDA 13 or newer); cuobjdump --dump-sass DIR/gemm-bf16/kernel.cubin shows sm_100a",
        "loads",
    ),
    Step(
        "rows", "layer_norm-bf16", {"M": 4, "N": 8208}, "the TMA, mbarriers and named barriers, without tensor memory",
        "what Hopper and Blackwell share: twill/codegen/print/cuda/ptx.cuh; the registers that setmaxnreg asks for",
    ),
    Step(
        "one MMA", "gemm-bf16", {"M": 128, "N": 128, "K": 64},
        "tcgen05.alloc, descriptors of A, B and the instruction, one commit, tcgen05.ld",
        "rows that moved: a descriptor's stride, or a warp's quarter of the lanes; columns that moved: the leading"
        " offset, or the form of tcgen05.ld; zeros: the instruction descriptor; no end: the commit's barrier", "placed",
    ),
    Step(
        "steps of K", "gemm-bf16", {"M": 128, "N": 128, "K": 528}, "rings that come round, slots given back by commits",
        "phases: twill/codegen/print/cuda/print_tcgen05.py beside DIR/gemm-bf16/program.txt",
    ),
    Step(
        "ragged", "gemm-bf16", {"M": 144, "N": 144, "K": 528}, "boxes that end outside of their tensors",
        "tensor maps, and the mask of the store",
    ),
    Step(
        "instances", "gemm-bf16", {"M": 4096, "N": 4096, "K": 128}, "accumulators in turns, an epilogue beside MMAs",
        "the ring of accumulators: tcgen05.wait::ld, its fence, the arrival that gives a slot back, in that order",
    ),
    Step(
        "e4m3", "gemm_fp8-e4m3", {"M": 144, "N": 144, "K": 528}, "kind::f8f6f4 with 32 of K an instruction",
        "the formats in the instruction descriptor",
    ),
    Step(
        "mxfp8", "gemm_mxfp8-e4m3", {"M": 144, "N": 144, "K": 848},
        "tcgen05.cp of scales, kind::mxf8f6f4 with scales in tensor memory, tensor maps of five axes",
        "all wrong by powers of two: scales of other rows or blocks, the byte that the instruction descriptor names"
        " (twill/codegen/print/cuda/print_scales.py); wrong in three quarters of the rows: warpx4; wrong now and then:"
        " the order of copies and products",
    ),
    Step(
        "nvfp4", "gemm_nvfp4-nvfp4", {"M": 144, "N": 144, "K": 1312},
        "kind::mxf4nvf4: two elements a byte, scales of type e4m3",
        "zeros or NaN: the type of scales in the instruction descriptor; else the halves of bytes",
    ),
    Step(
        "mxfp4", "gemm_nvfp4-mxfp4", {"M": 144, "N": 144, "K": 1312}, "kind::mxf4: two scales an instruction",
        "the first byte of two that the instruction descriptor names: 0 or 2",
    ),
    Step(
        "nvfp4, 256 columns", "gemm_nvfp4-nvfp4-wide", {"M": 144, "N": 272, "K": 1312}, "scales of 256 rows of B",
        "columns from 128 on: the four columns of tensor memory behind those of the first 128 rows",
    ),
    Step(
        "epilogue", "gemm_bias_gelu-bf16", {"M": 144, "N": 144, "K": 272}, "a vector of columns beside an accumulator",
        "the layout that tcgen05.ld gives",
    ),
    Step(
        "pointers", "gemm_pointers-bf16", {"M": 144, "N": 144, "K": 272}, "tensor maps of pointers and strides",
        "DIR/gemm_pointers-bf16/manifest.json",
    ),
    Step(
        "parts", "gemm_bias_gelu-bf16-wide", {"M": 144, "N": 272, "K": 272},
        "256 columns an MMA, all 512 columns of tensor memory, an accumulator read in parts of columns",
        "right columns in each part of 64: the column that is added to the address of tcgen05.ld",
    ),
    Step(
        "parts, by threads", "gemm_pointers-bf16-wide", {"M": 144, "N": 272, "K": 272}, "parts stored without the TMA",
        "DIR/gemm_pointers-bf16-wide/program.txt",
    ),
    Step(
        "two accumulators", "dual_gemm-bf16", {"M": 144, "N": 144, "K": 336}, "two MMAs that read one tile of A",
        "columns from 256 on are the second accumulator's",
    ),
    Step(
        "pair", "gemm_bias_gelu-bf16-pair", {"M": 272, "N": 144, "K": 592},
        "clusters, cta_group::2: an MMA of 256 rows in two CTAs, their bytes on one barrier, arrivals in both",
        "no end: the barrier that tma_load_pair counts on, the mask of tensor_commit_pair; wrong columns: halves of B"
        " that changed places; wrong rows from 128 on: the rows of the instruction descriptor",
    ),
    Step(
        "pair, 512 columns", "dual_gemm-bf16-pair", {"M": 272, "N": 144, "K": 400}, "all of tensor memory of both CTAs",
        "what the step before does not do: two accumulators",
    ),
    Step(
        "pair with scales", "gemm_mxfp8-e4m3-pair", {"M": 272, "N": 144, "K": 848},
        "tcgen05.cp in both CTAs, each with the scales of its rows of A and all of B's",
        "rows from 128 on: scales of the second CTA's A; everything: whether B's scales are in both",
    ),
    Step(
        "scheduler", "gemm-bf16-dynamic", {"M": 4096, "N": 4096, "K": 128},
        "clusterlaunchcontrol: a launch has a CTA for each tile, and those that run take over the others",
        "tiles that are missing: where the answer lies, and its 16 bytes on the barrier; no end: the barrier's parity",
    ),
    Step(
        "one block of keys", "attention-full", {"Z": 1, "H": 1, "N_CTX": 128},
        "tcgen05.st, P over S, an operand A in tensor memory, registers that move between warp groups (setmaxnreg)",
        "rows that moved in O: the form of tcgen05.st (16x128b for P, 16x256b for O); O of another scale: who stores"
        " the first O; no end: the budget of the warp group of those that issue",
    ),
    Step(
        "blocks of keys", "attention-full", {"Z": 1, "H": 2, "N_CTX": 640},
        "O rescaled in tensor memory between MMAs, S in turns with P over it",
        "wrong from the second block on: the arrival of correction behind tcgen05.wait::st, the commit it waits for"
        "; DIR/attention-full/program.txt says who waits for whom",
    ),
    Step(
        "causal", "attention-causal", {"Z": 1, "H": 2, "N_CTX": 640}, "masks of S, unequal instances",
        "masked elements that are not: the columns of a thread",
    ),
    Step(
        "64 rows", "linear_attention-bf16", {"Z": 1, "H": 1, "T": 64, "HEAD_V": 64},
        "results of 64 rows, in 16 lanes of each quarter; products that add to one another; a computed operand B",
        "rows that moved in 16s: which lanes a product of 64 rows writes; O without its first part: the order of MMAs",
    ),
    Step(
        "state", "linear_attention-bf16", {"Z": 1, "H": 2, "T": 640, "HEAD_V": 128},
        "a sum in tensor memory that threads read in every iteration",
        "wrong from the second chunk on: the arrival of those who read the state, the first product that overwrites it",
    ),
    Step(
        "backward", "attention_backward-full", {"Z": 1, "H": 2, "N_CTX": 640},
        "an operand that two products read, one of them transposed; reductions of the TMA; all columns by five rings",
        "dV wrong: P over S; dK and dQ wrong: dS in shared memory; dQ alone: its 64 rows, then the reductions",
    ),
    Step(
        "backward, causal", "attention_backward-causal", {"Z": 1, "H": 2, "N_CTX": 640},
        "unequal instances with reductions", "the first block of queries of an instance",
    ),
    Step(
        "large", "gemm-bf16", {"M": 8192, "N": 8192, "K": 1024}, "all SMs, with many instances each",
        "a race that hides: compute-sanitizer --tool racecheck python -m tests.gpu.blackwell case DIR ragged",
    ),
    Step(
        "times", "gemm-bf16", {"M": 8192, "N": 8192, "K": 8192}, "nothing",
        "the TMA, which the machine file predicts to take 512 cycles for 64 of K, twice the tensor core", "times",
    ),
)  # fmt: skip


def build(folder: Path) -> bool:
    """Every kernel of the steps; whether all were emitted."""
    from tests.gpu.emitting import emit_example
    from twill.codegen.lower.dynamic_scheduler import Order

    done = True
    for name in sorted({step.kernel for step in STEPS} - {""}):
        stem, spec = name.removesuffix(PAIR).removesuffix(DYNAMIC).split("-", 1)
        cluster = 2 if name.endswith(PAIR) else 1
        order: Order = "dynamic" if name.endswith(DYNAMIC) else "chosen"
        given = (f"examples/{stem}.py", spec, folder / name, folder / "schedules", "b200", 60.0, True, False)
        try:
            said = emit_example(*given, cluster, order)
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
    case = problem_of(about.file, about.spec).case(dict(sizes))
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
