"""Kernels of `--strict-math` against their tile programs on a GPU: which tensors have equal bits.

    python -m tests.gpu.strict prepare DIR [--only NAME]     # no GPU: emits, and runs each tile program on the CPU
    python -m tests.gpu.strict run DIR                       # on a GPU: launches each; exit code 1: bits differ

`prepare` needs the whole compiler; it emits every kept kernel strictly and stores, beside it, launches (`0.npz`,
`1.npz`, ...): the tensors before, and after the sequential tile program ran. Data of two are integers from -2 to 2, so
that sums of rows, inside products and of atomic additions, whose order is the hardware's, are exact where nothing but
additions and products are concerned: every bit of such a tensor must be equal. A third has whole exponents, if the
kernel has exponentials and nothing else that is approximate: it must be equal, too. Of tensors with approximate
functions (exponentials, roots, divisions) behind them the table says how many elements differ, and by how many units of
their type (`tests.exactness`). `run` needs PyTorch, cuda-bindings and NumPy.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.gpu.silicon import argument_of, bits_of, command_line, compared, tensor_of

WORDS = "strict.json"  # element types of the tensors, launches, in each what is approximate behind which tensor
SEED = 11


# ---------------------------------------------------------------- without a GPU
def prepare(folder: Path, only: str) -> int:
    """Every kept kernel into `folder`, one after the other."""
    from tests.golden_schedules import examples
    from twill.exc import TwillError

    failed = 0
    for example in examples():
        if only not in example.name:
            continue
        try:
            said = prepared(example, folder / example.name)
        except TwillError as error:
            failed, said = failed + 1, f"failed: {error.describe()}"
        print(f"{example.name}: {said}", flush=True)
    return 1 if failed else 0


def prepared(example: Any, place: Path) -> str:
    """One of them; in words. Errors: TwillError."""
    import numpy as np

    from tests.exactness import functions_behind, inexact, integers, whole
    from tests.golden_schedules import machine, schedule
    from twill import exc
    from twill.codegen.emission import extract, refuse_foreign
    from twill.codegen.emit import build_kernel
    from twill.codegen.lowering import lower
    from twill.kernel.specialization import problem_of
    from twill.schedule.options import SolveOptions
    from twill.solve.pipeline import solve
    from twill.trial.execute import small

    kernel = extract(example.file, example.spec, strict=True)
    found, words = schedule(example), "the kept schedule"
    try:
        refuse_foreign(found, kernel.graph, machine())
    except exc.ScheduleMismatch:  # nothing is collected in a strict kernel
        found, words = (
            solve(kernel.graph, machine(), SolveOptions(strategy="heuristic", fuse=False)),
            "a quick schedule",
        )
    program = lower(kernel.program, found, machine(), order=kernel.order)
    made = build_kernel(program, kernel.specialization, found, machine(), accept_slow=True)
    place.mkdir(parents=True, exist_ok=True)
    for file, content in made.files().items():
        (place / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    written = program.program.original or program.program
    elements = {a.name: a.type.element.partition(":")[2] for a in written.arguments}
    behind, random = functions_behind(written), np.random.default_rng(SEED)
    made_up = small(program, 2, problem_of(kernel.specialization))
    launches = [integers(launch, random) for launch in made_up]
    if {"exp2"} in behind.values():
        launches += [whole(written, launch, random) for launch in made_up[:1]]
    rows = []
    for number, launch in enumerate(launches):
        after, kinds = inexact(written, launch)
        both = {"before": bits_of(dict(launch.arrays), elements), "after": bits_of(after, elements)}
        np.savez(place / f"{number}.npz", **{f"{w}.{n}": b for w, tensors in both.items() for n, b in tensors.items()})
        approximate = {name: sorted(functions & kinds) for name, functions in behind.items()}
        scalars = {n: _plain(v) for n, v in launch.scalars.items()}
        rows.append({"grid": launch.grid, "scalars": scalars, "approximate": approximate})
    (place / WORDS).write_text(json.dumps({"elements": elements, "launches": rows}), encoding="utf-8")
    approximated = [f"{name} ({', '.join(sorted(functions))})" for name, functions in behind.items() if functions]
    return f"prepared with {words}; approximate: {', '.join(approximated) or 'none'}"


def _plain(value: Any) -> int | float:
    return float(value) if isinstance(value, float) else int(value)


# ---------------------------------------------------------------- on a GPU
def run(folder: Path) -> int:
    """Every prepared kernel: a line for each tensor that it writes."""
    equal = rows = broken = 0
    for place in sorted(path.parent for path in folder.glob(f"*/{WORDS}")):
        document = json.loads((place / WORDS).read_text(encoding="utf-8"))
        for number, launch in enumerate(document["launches"]):
            for tensor, size, found in launched(place, number, launch, document["elements"]):
                behind = launch["approximate"][tensor]
                good = bool(behind) or not found["different"]
                rows, equal, broken = rows + 1, equal + (not found["different"]), broken + (not good)
                word = "equal" if not found["different"] else f"{found['different']} differ, {found['worst']:.3g} units"
                word += f" (behind {', '.join(behind)})" if behind else ""
                print(f"{place.name:36}{number:2} {tensor:12}{size:9} elements: {word}{'' if good else '  BROKEN'}")
    print(f"{equal} of {rows} tensors have equal bits, {broken} have not, and no approximation")
    return 1 if broken or not rows else 0


def launched(
    place: Path, number: int, launch: dict[str, Any], elements: dict[str, str]
) -> list[tuple[str, int, dict[str, Any]]]:
    """What one launch wrote: tensor, size, difference from what the tile program wrote."""
    import numpy as np
    import torch

    from twill.runtime.kernel import EmittedKernel

    emitted = EmittedKernel.load(place)
    with np.load(place / f"{number}.npz") as stored:
        arrays = {name: stored[name] for name in stored.files}
    before = {n.partition(".")[2]: a for n, a in arrays.items() if n.startswith("before.")}
    tensors = {name: tensor_of(bits, elements[name]) for name, bits in before.items()}
    scalars = launch["scalars"]
    values = [argument_of(a, tensors, scalars) for a in emitted.manifest.arguments if a.kind != "constant"]
    emitted[tuple(launch["grid"])](**dict(zip(emitted.runtime_names, values, strict=True)))
    torch.cuda.synchronize()
    found = []
    for name, given in before.items():
        wanted = arrays[f"after.{name}"]
        ours = tensors[name].view(torch.uint8).cpu().numpy().view(wanted.dtype)
        if (ours != given).any() or (wanted != given).any():
            found.append((name, int(wanted.size), compared(ours, wanted, elements[name])))
    return found


if __name__ == "__main__":
    sys.exit(command_line(__doc__ or "", prepare, run))
