"""One emitted example against Triton and PyTorch on a GPU, size by size."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import torch

from tests.gpu.check_overlap import overlap
from tests.gpu.examples import EXTENTS, ROOT, Extent, Row
from tests.gpu.references import EXAMPLES, Example
from twill.exc import MalformedSidecar, TwillError
from twill.kernel.problem import Case, ProblemTable
from twill.kernel.sidecar import read_sidecar
from twill.runtime.kernel import EmittedKernel
from twill.trial.compare import differences, repeats
from twill.trial.data import Data, emitted, make_data, original

DOUBLE = 1 << 33  # products up to this size are checked in float64


def rows(folder: Path, extent: Extent) -> Iterator[Row]:
    """Every check of the kernel in `folder`."""
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.allow_tf32 = False
    kernel = EmittedKernel.load(folder)
    name = folder.name
    example = EXAMPLES[kernel.manifest.kernel]
    triton_kernel = getattr(module(kernel.manifest.file), kernel.manifest.kernel)
    for case in cases(kernel.manifest.file, kernel.manifest.spec, example, extent):
        print(f"next: {words(case)}", flush=True)
        try:
            yield from one(name, kernel, triton_kernel, example, case, extent)
        except TwillError as refused:  # before anything ran: the other sizes can be tried
            yield Row(name, "launches", words(case), False, note=str(refused))
    if not extent.alone:
        first = cases(kernel.manifest.file, kernel.manifest.spec, example, EXTENTS["quick"])[-1]
        yield overlap(name, kernel, example, first, words(first))


def one(
    name: str, kernel: EmittedKernel, triton_kernel: Any, example: Example, case: Case, extent: Extent
) -> Iterator[Row]:
    """The checks at one size."""
    made = make_data(kernel.manifest, case, device="cpu" if extent.alone else "cuda")
    if example.prepare:
        example.prepare(made)
    reference = example.reference(made, torch.float64 if work(case) <= DOUBLE else torch.float32)
    data = on_gpu(made) if extent.alone else made
    launch = emitted(kernel, data)
    reference = {
        output: wanted.to(data.tensor(output).device).view(data.tensor(output).shape)
        for output, wanted in reference.items()
    }
    triton_launch = None if extent.alone else original(triton_kernel, data, num_warps=example.warps)
    note, launches = "", extent.launches
    try:
        if triton_launch is not None:
            triton_launch()
        torch.cuda.synchronize()
    except Exception as error:  # then there is nothing to compare with but the reference
        triton_launch, note = None, f"Triton: {type(error).__name__}"
    for difference in differences(data, launch, triton_launch, reference):
        yield Row(name, difference.output, words(case), difference.ok, difference.emitted, difference.original, note)
    for output, count in repeats(data, launch, launches).items():
        if count:
            yield Row(name, "repeats", words(case), False, note=f"{output} differs in {count} of {launches} launches")
    yield Row(name, "repeats", words(case), True, note=f"{launches} launches, equal bits")
    outside = data.outside()
    yield Row(name, "in bounds", words(case), not outside, note=", ".join(outside))


def on_gpu(made: Data) -> Data:
    """The same inputs there."""
    data = make_data(made.manifest, made.case)
    for argument in made.manifest.loads:
        data.tensor(argument).copy_(made.tensor(argument))
    return data


def cases(file: str, spec: str, example: Example, extent: Extent) -> list[Case]:
    """The sizes of the sidecar and those of the example that the specialization can have, small ones first."""
    problem = problem_of(file, spec)
    found: list[Case] = []
    for sizes in (*problem.run, *example.more):
        try:
            found.append(problem.case(sizes))
        except MalformedSidecar:  # not a multiple of this specialization's tile
            continue
    found.sort(key=work)
    return found[: extent.sizes]


def problem_of(file: str, spec: str) -> ProblemTable:
    """The problem table of a specialization."""
    sidecar = read_sidecar(str(ROOT / file))
    assert sidecar is not None
    problem = next(table.problem for table in sidecar.tables if table.name == spec)
    assert problem is not None, f"{file} {spec} has no sizes"
    return problem


def module(file: str) -> Any:
    """The example, imported."""
    spec = importlib.util.spec_from_file_location(Path(file).stem, ROOT / file)
    assert spec is not None and spec.loader is not None
    found = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(found)
    return found


def work(case: Case) -> int:
    """Something that grows with a case."""
    product = 1
    for size in case.sizes.values():
        product *= size
    return product * case.sizes.get("N_CTX", 1)


def words(case: Case) -> str:
    """M=128 N=128 K=64."""
    return _words(case.sizes)


def _words(sizes: Mapping[str, int]) -> str:
    return " ".join(f"{name}={size}" for name, size in sizes.items())
