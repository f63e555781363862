"""What `twill coverage --keep DIR` leaves of each emitted kernel: its files, and the launches it was checked with."""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from twill.graph.work import BITS
from twill.tile.text import program_text
from twill.tile.vocabulary import ELEMENTWISE, REDUCE, SCAN

if TYPE_CHECKING:
    from twill.codegen.emit import Emission
    from twill.codegen.verify.abstract.inputs import CheckedLaunch
    from twill.coverage.kernels import FoundKernel
    from twill.tile.program import TileProgram

LAUNCHES = "launches.json"
TILE = "tile.txt"  # the tile program as it was written
DIGITS = 6  # of the hash that tells kernels of one name apart


def keep(folder: Path, found: FoundKernel, program: TileProgram, emission: Emission) -> Path:
    """A directory of its own for the kernel, whole or not at all: what `twill emit --out` writes, LAUNCHES and TILE.
    Raises OSError."""
    place = folder / name_of(found)
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder, prefix=".") as made:
        for name, content in emission.files().items():
            (Path(made) / name).write_bytes(content if isinstance(content, bytes) else content.encode())
        (Path(made) / LAUNCHES).write_text(json.dumps(launched(found, program, emission)), encoding="utf-8")
        (Path(made) / TILE).write_text(program_text(program.original or program), encoding="utf-8")
        place.mkdir(exist_ok=True)
        for path in Path(made).iterdir():
            os.replace(path, place / path.name)
    return place


def name_of(found: FoundKernel) -> str:
    """Of a kernel's directory: its name, its specialization's, and a hash of its place, as many files have a kernel of
    the same name."""
    place = hashlib.sha256(f"{found.file}:{found.line}".encode()).hexdigest()[:DIGITS]
    return ".".join(part for part in (found.kernel, found.spec, place) if part)


def launched(found: FoundKernel, program: TileProgram, emission: Emission) -> dict[str, object]:
    """The launches that the abstract machine checked, as a GPU can repeat them. file: the kernel's; module: as which it
    is imported; alone: it is in no package; narrowest: bytes (`narrowest`). Of a launch: grid, scalars, elements of
    each tensor, what tensors of integers hold, and why nothing says what comes of it
    (`twill.tile.interpret.conflicts`), "" where something does."""
    from twill.codegen.verify.abstract.inputs import launches

    made = [
        {
            "grid": list(one.grid),
            "scalars": dict(one.scalars),
            "elements": {name: array.size for name, array in one.arrays.items()},
            "integers": {name: array.tolist() for name, array in one.arrays.items() if array.dtype.kind in "iu"},
            "text": one.text,
            "undefined": why,
        }
        for one, why in (defined(emission.program.program, each) for each in launches(emission.program))
    ]
    root = package_of(Path(found.file))
    module = ".".join(Path(found.file).relative_to(root.parent).with_suffix("").parts)
    alone = root == Path(found.file)
    return {"file": found.file, "module": module, "alone": alone, "launches": made, "narrowest": narrowest(program)}


def defined(program: TileProgram, launch: CheckedLaunch) -> tuple[CheckedLaunch, str]:
    """The launch, or its first program instance where instances are in one another's way; and why even the results of
    that one are not defined."""
    from twill.codegen.verify.abstract_machine import alone
    from twill.tile.interpret.conflicts import conflicts

    written = program.original or program
    found = conflicts(written, launch.grid, launch.arrays, launch.scalars)
    if found.between:
        launch = alone(launch)
        found = conflicts(written, launch.grid, launch.arrays, launch.scalars)
    return launch, found.text


def narrowest(program: TileProgram) -> int:
    """Bytes of the narrowest float that a program computes in: sums of bf16 are as far apart as their orders are, and
    products of tf32, which has the digits of f16, as its ways to round (Triton cuts digits off, and so loses more)."""
    products = (op for op in program.ops() if op.kind == "dot" and op.attribute("precision") == "tf32")
    if any(program.type_of(op.operands[0]).element == "f32" for op in products):
        return 2
    computed = (op for op in program.ops() if op.kind in {*ELEMENTWISE, *REDUCE, *SCAN} - {"cast", "bitcast", "select"})
    kinds = (program.type_of(result).element for op in computed for result in op.results)
    return min((BITS[kind] // 8 for kind in kinds if kind.startswith(("f", "b"))), default=8)


def package_of(file: Path) -> Path:
    """The topmost package that a file is in, if only in a folder of it that is none itself; the file if in none."""
    root = next((folder for folder in file.parents if (folder / "__init__.py").is_file()), None)
    if root is None:
        return file
    while (root.parent / "__init__.py").is_file():
        root = root.parent
    return root
