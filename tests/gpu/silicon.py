"""The executor of PTX against a GPU: every kept kernel, the same inputs, bit by bit.

    python -m tests.gpu.silicon prepare DIR [--only NAME]    # no GPU: emits, and runs each kernel's PTX on the CPU
    python -m tests.gpu.silicon run DIR                      # on a GPU: launches each, compares with what was prepared

`prepare` needs the whole compiler; each kernel gets two launches: the least work in which every loop runs, with the
integers of the abstract machine, and the same with normally distributed floats. `run` needs PyTorch, cuda-bindings and
NumPy. It prints, for every tensor that a kernel writes, whether all bits are equal, and else how many elements differ
and by how many units of their type at most; equal bits are expected of all but the order of sums inside an MMA and the
approximate functions (docs/ptx-executor.md).
"""

from __future__ import annotations

import argparse
import json
import pickle
import sys
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

STORED = "launches.pickle"
SEED = 7


# ---------------------------------------------------------------- without a GPU
def prepare(folder: Path, only: str) -> int:
    """Every kept kernel into `folder`."""
    from tests.golden_schedules import examples

    names = [example.name for example in examples() if only in example.name]
    failed = 0
    with ProcessPoolExecutor() as pool:
        for name, said in zip(names, pool.map(_prepared, names, [folder] * len(names)), strict=True):
            print(f"{name}: {said}", flush=True)
            failed += said.startswith("failed")
    return 1 if failed else 0


def _prepared(name: str, folder: Path) -> str:
    from tests.golden_schedules import compiled, examples, kernel
    from twill.kernel.specialization import problem_of
    from twill.trial.execute import execute, smallest

    example = next(one for one in examples() if one.name == name)
    emission = compiled(example)
    (folder / name).mkdir(parents=True, exist_ok=True)
    for file, content in emission.files().items():
        (folder / name / file).write_bytes(content if isinstance(content, bytes) else content.encode())
    program = emission.program
    elements = {a.name: a.type.element.partition(":")[2] for a in program.program.arguments}
    first = smallest(program, problem_of(kernel(example).specialization))
    retained = []
    findings = 0
    for launch in (first, _normal(first, elements)):
        done = execute(emission.build.ptx, emission.manifest, launch, elements)
        findings += len(done.said())
        retained.append(
            (launch.grid, dict(launch.scalars), bits_of(launch.arrays, elements), bits_of(done.arrays, elements))
        )
    (folder / name / STORED).write_bytes(pickle.dumps((elements, retained)))
    return f"failed: {findings} findings" if findings else f"prepared, {first.text}"


def bits_of(arrays: Any, elements: dict[str, str]) -> dict[str, Any]:
    from twill.trial.execute import as_bits

    return {name: as_bits(array, elements[name]) for name, array in arrays.items()}


def _normal(launch: Any, elements: dict[str, str]) -> Any:
    """The launch with normally distributed numbers in place of its floats, as their types hold them."""
    from dataclasses import replace

    import numpy as np

    from twill.trial.execute import as_bits, as_held

    random = np.random.default_rng(SEED)
    arrays = {}
    for name, array in launch.arrays.items():
        made = random.standard_normal(array.size).astype(array.dtype) if array.dtype.kind == "f" else array
        arrays[name] = as_held(as_bits(made, elements[name]), elements[name])
    return replace(launch, arrays=arrays)


# ---------------------------------------------------------------- on a GPU
DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32", "f64": "float64", "f8e4m3": "float8_e4m3fn",
          "f8e5m2": "float8_e5m2", "i32": "int32", "i64": "int64", "i16": "int16", "i8": "int8"}  # fmt: skip
MANTISSA = {"bf16": 7, "f16": 10, "f32": 23, "f64": 52, "f8e4m3": 3, "f8e5m2": 2}


def run(folder: Path) -> int:
    """Every prepared kernel; the table, and its figures as JSON on the last line."""
    rows = []
    for place in sorted(path.parent for path in folder.glob(f"*/{STORED}")):
        for data, tensors in zip(("integers", "normal"), _launched(place), strict=True):
            rows += [{"kernel": place.name, "data": data, **one} for one in tensors]
    for row in rows:
        print(
            "{kernel:34}{data:10}{tensor:12}{size:9} elements, {different:7} differ, {worst:9.3g} units".format(**row)
        )
    equal = sum(row["different"] == 0 for row in rows)
    print(f"{equal} of {len(rows)} tensors have equal bits")
    print(json.dumps(rows))
    return 0


def _launched(place: Path) -> list[list[dict[str, Any]]]:
    import torch

    from twill.runtime.kernel import EmittedKernel

    emitted = EmittedKernel.load(place)
    elements, retained = pickle.loads((place / STORED).read_bytes())
    found = []
    for grid, scalars, given, expected in retained:
        tensors = {name: tensor_of(bits, elements[name]) for name, bits in given.items()}
        values = [argument_of(a, tensors, scalars) for a in emitted.manifest.arguments if a.kind != "constant"]
        emitted[tuple(grid)](**dict(zip(emitted.runtime_names, values, strict=True)))
        torch.cuda.synchronize()
        row = []
        for name, bits in expected.items():
            ours = tensors[name].view(torch.uint8).cpu().numpy().view(bits.dtype)
            if (ours != given[name]).any() or (bits != given[name]).any():
                row.append({"tensor": name, "size": int(bits.size), **compared(ours, bits, elements[name])})
        found.append(row)
    return found


def tensor_of(bits: Any, element: str) -> Any:
    import torch

    return torch.from_numpy(bits.view("uint8").copy()).cuda().view(getattr(torch, DTYPES[element]))


def argument_of(argument: Any, tensors: dict[str, Any], scalars: dict[str, Any]) -> Any:
    from types import SimpleNamespace

    if argument.kind == "number":
        return scalars[argument.name]
    tensor = tensors[argument.name]
    if argument.kind == "pointer":
        return tensor
    axes = range(len(argument.block))
    shape = [int(scalars[f"{argument.name}.shape.{axis}"]) for axis in axes]
    strides = [int(scalars[f"{argument.name}.stride.{axis}"]) for axis in axes]
    # Triton's own class refuses blocks that are no powers of two.
    base = tensor.as_strided(shape, strides)
    return SimpleNamespace(base=base, shape=shape, strides=strides, block_shape=list(argument.block), padding="zero")


def compared(ours: Any, theirs: Any, element: str) -> dict[str, Any]:
    """How many elements differ, and by how many units of the larger one at most."""
    import numpy as np

    different = ours != theirs
    if not different.any() or element not in MANTISSA:
        return {"different": int(different.sum()), "worst": 0.0}
    mine, exact = (tensor_of(bits, element).double().cpu().numpy() for bits in (ours, theirs))
    larger = np.maximum(np.abs(mine), np.abs(exact))
    unit = np.exp2(np.floor(np.log2(np.maximum(larger, 2.0**-100))) - MANTISSA[element])
    return {"different": int(different.sum()), "worst": float(np.nanmax(np.abs(mine - exact) / unit))}


def command_line(about: str, prepare: Callable[[Path, str], int], run: Callable[[Path], int]) -> int:
    """`prepare DIR` without a GPU, `run DIR` with one; the exit code."""
    parser = argparse.ArgumentParser(description=about.splitlines()[0])
    parser.add_argument("command", choices=("prepare", "run"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    given = parser.parse_args()
    return prepare(given.folder, given.only) if given.command == "prepare" else run(given.folder)


if __name__ == "__main__":
    sys.exit(command_line(__doc__ or "", prepare, run))
