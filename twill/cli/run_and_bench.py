"""`twill run` and `twill bench`: the emitted kernel on the GPU that is here, beside the Triton kernel."""

from __future__ import annotations

import json
import tempfile
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twill.cli import codes

if TYPE_CHECKING:
    from twill.codegen.emission import Extracted
    from twill.kernel.problem import Case
    from twill.runtime.kernel import EmittedKernel
    from twill.trial.bench import BenchTimes
    from twill.trial.check import Checked


def run(arguments: Namespace) -> int:
    """Compare results at every size; one line each, and exit code 6 if one is not as it should be."""
    from twill.trial.check import check

    kernel = extracted(arguments)
    cases = chosen(kernel, arguments, "run")
    with ready(kernel, arguments) as emitted:
        good = True
        for one in check(emitted, triton_kernel(kernel), kernel.program, cases, arguments.launches, arguments.seconds):
            good = good and one.ok
            print(checked_text(one), flush=True)
    return codes.SOLVED if good else codes.NOT_GOOD


def bench(arguments: Namespace) -> int:
    """Time both at every size."""
    from twill.trial.bench import bench as measure

    kernel = extracted(arguments)
    cases = chosen(kernel, arguments, "bench")
    found = []
    with ready(kernel, arguments) as emitted:
        for one in measure(emitted, triton_kernel(kernel), cases):
            found.append(one)
            if not arguments.json:
                print(timed_text(one), flush=True)
    if arguments.json:
        print(json.dumps([{**asdict(one), "speedup": one.speedup} for one in found]))
    return codes.SOLVED


def extracted(arguments: Namespace) -> Extracted:
    """The kernel, once it is known that it could run here."""
    from twill import exc
    from twill.cli.emit import extracted_as
    from twill.runtime.driver import bindings

    try:
        import torch
    except ImportError as error:
        raise exc.TorchMissing(str(error)) from error
    bindings()
    if not torch.cuda.is_available():
        raise exc.TorchMissing("PyTorch has no CUDA here")
    return extracted_as(arguments)


def chosen(kernel: Extracted, arguments: Namespace, which: str) -> list[Case]:
    """The sizes asked for, else those of the sidecar."""
    from twill import exc
    from twill.kernel.specialization import problem_of

    given = kernel.specialization
    problem = problem_of(given)
    if problem is None:
        raise exc.NoSizes(given.kernel, given.spec, file=given.file)
    sizes = [parsed(text) for text in arguments.size] or [
        dict(row) for row in (problem.run if which == "run" else problem.bench)
    ]
    if not sizes:
        raise exc.NoSizes(given.kernel, given.spec, file=given.file)
    return [problem.case(size) for size in sizes]


def parsed(text: str) -> dict[str, int]:
    """`M=256,N=384` as sizes."""
    from twill.exc import MalformedFlag

    sizes = {}
    for part in text.replace(",", " ").split():
        name, equals, value = part.partition("=")
        if not equals or not value.isdigit():
            raise MalformedFlag(f"--size {text}: {part!r} is no size", hint="--size M=256,N=384,K=80")
        sizes[name] = int(value)
    return sizes


@contextmanager
def ready(kernel: Extracted, arguments: Namespace) -> Iterator[EmittedKernel]:
    """The emitted kernel of --dir, or one that is emitted now."""
    from twill import exc
    from twill.cli.emit import emitted, write
    from twill.machine.file import load_machine
    from twill.runtime.kernel import EmittedKernel

    if arguments.dir is not None:
        loaded = EmittedKernel.load(arguments.dir)
        theirs = (loaded.manifest.kernel, loaded.manifest.spec)
        if theirs != (kernel.specialization.kernel, kernel.specialization.spec):
            found, wanted = " ".join(theirs), f"{kernel.specialization.kernel} {kernel.specialization.spec}"
            raise exc.WrongArgument("--dir", f"the directory of {found}", f"that of {wanted}")
        yield loaded
        return
    machine = load_machine(arguments.machine)
    with tempfile.TemporaryDirectory(prefix="twill-") as directory:
        write(emitted(kernel, machine, arguments), Path(directory))
        yield EmittedKernel.load(directory)


def triton_kernel(kernel: Extracted) -> Any:
    """The original, for the GPU: imported once more, without what stands for a GPU while it is read."""
    import importlib.util

    given = kernel.specialization
    spec = importlib.util.spec_from_file_location(Path(given.file).stem, given.file)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    from twill.kernel.importing import unwrap

    return unwrap(getattr(module, given.kernel))


def checked_text(one: Checked) -> str:
    """`ok  M=128 N=128 K=64   c_desc 1.6e-03 (Triton 1.6e-03)   100 launches equal`."""
    parts = []
    for difference in one.differences:
        beside = "" if difference.original is None else f" (Triton {difference.original:.2e})"
        against = " from Triton" if one.against_triton else ""
        parts.append(f"{difference.output} {difference.emitted:.2e}{against}{beside}")
    unequal = [f"{name} differs in {count} of {one.launches} launches" for name, count in one.unequal.items() if count]
    outside = [f"something was written beside {name}" for name in one.outside]
    repeated = unequal or [f"{one.launches} launches equal"]
    listed = "; ".join(filter(None, [*parts, *repeated, *outside, one.note]))
    return f"{'ok  ' if one.ok else 'FAIL'} {sizes_text(one.case)}  {listed}"


def timed_text(one: BenchTimes) -> str:
    """`M=8192 ...  0.512 ms, Triton 0.640 ms (num_warps=8 num_stages=3): 1.25x; host 9.1 and 14.8 us`."""
    times = f"{one.emitted_ms:.4f} ms, Triton {one.triton_ms:.4f} ms ({one.options}): {one.speedup:.2f}x"
    return f"{sizes_text(one.case)}  {times}; host {one.emitted_host_us:.1f} and {one.triton_host_us:.1f} us a launch"


def sizes_text(case: Case) -> str:
    """M=128 N=128 K=64."""
    return " ".join(f"{name}={size}" for name, size in case.sizes.items())
