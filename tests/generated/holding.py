"""Programs, by Triton's interpreter and by the interpreter of tile programs: what differs."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from triton.runtime.jit import JITFunction

from tests import triton_interpreter
from tests.generated.values import inputs
from tests.generated.writer import Output, Program
from tests.triton_differences import decode
from tests.triton_interpreter import NUMPY
from twill.kernel.importing import load
from twill.kernel.specialization import Specialization
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret import sequential
from twill.tile.interpret.arithmetic import HELD
from twill.tile.program import TileProgram
from twill.tile.text import program_text
from twill.tile.translate.translate import tile_program

Array = Any
Arrays = dict[str, Array]
DIGITS = {"fp64": 52, "fp32": 23, "fp16": 10, "bf16": 7, "fp8e5": 2, "fp8e4nv": 3}


@dataclass
class Mismatch(Exception):
    """An output that differs. form: of the tile program, "raw" or "accesses"."""

    program: Program
    tile_program: TileProgram
    form: str
    output: str
    found: Array
    wanted: Array
    where: Array

    def __str__(self) -> str:
        first = self.where[:6].tolist()
        pairs = "\n".join(f"  [{i}] Twill {self.found[i]!r}, Triton {self.wanted[i]!r}" for i in first)
        return (
            f"{self.output} differs in {len(self.where)} of {len(self.wanted)} elements ({self.form}):\n{pairs}\n"
            f"{self.program.source}\n{self.program.scalars}\n{program_text(self.tile_program)}"
        )


def hold(programs: Sequence[Program], directory: Path) -> None:
    """Raises `Mismatch`, or whatever either of the two raises. The kernels lie in one file: a file is read and imported
    once, and Triton's language is made its interpreter's once."""
    text = "".join([*dict.fromkeys(one.before for one in programs), *map(kernel, range(len(programs)), programs)])
    path = directory / f"k{hashlib.sha256(text.encode()).hexdigest()[:16]}.py"
    path.write_text(text, encoding="utf-8")
    try:
        raw = [tile_program(specialization(path, number, one)) for number, one in enumerate(programs)]
        functions = load(str(path)).functions
        with triton_interpreter.interpreting():
            wanted = [by_triton(one, functions[f"k{number}"]) for number, one in enumerate(programs)]
    finally:
        path.unlink()
    for one, tiles, results in zip(programs, raw, wanted, strict=True):
        compare(one, tiles, results)


def kernel(number: int, program: Program) -> str:
    """The text of the kernel, with a name of its own."""
    return program.source.removeprefix(program.before).replace("def k(", f"def k{number}(", 1)


def specialization(path: Path, number: int, program: Program) -> Specialization:
    """The kernel of that number in the file."""
    return Specialization(str(path), f"k{number}", "generated", tuple(program.signature.items()), ())


def compare(program: Program, raw: TileProgram, wanted: Arrays) -> None:
    """Raises `Mismatch` where the tile program, as it was read or with its accesses resolved, computes something
    else."""
    data = arrays_of(program)
    for form, tiles in (("raw", raw), ("accesses", resolve_accesses(raw))):
        found = by_twill(program, tiles, data)
        for name, output in program.outputs.items():
            where = differing(found[name], wanted[name], output)
            if where.size:
                raise Mismatch(program, tiles, form, name, found[name], wanted[name], where)


def arrays_of(program: Program) -> Arrays:
    """Its inputs, made from its text, and outputs of zeros."""
    seed = int.from_bytes(hashlib.sha256(program.source.encode()).digest()[:8], "little")
    rng = np.random.default_rng(seed)
    data = {name: inputs(array.dtype, array.kind, array.size, rng) for name, array in program.inputs.items()}
    return {**data, **{name: np.zeros(one.size, NUMPY[one.dtype]) for name, one in program.outputs.items()}}


def by_triton(program: Program, kernel: JITFunction) -> Arrays:
    """The outputs as Triton's interpreter has them, as numbers; within `interpreting()`."""
    given = arrays_of(program)
    scalars = {name: value for name, (_, value) in program.scalars.items()}
    triton_interpreter.run(kernel, program.grid, program.signature, {**given, **scalars}, {})
    return {name: numbers(given[name], one.dtype) for name, one in program.outputs.items()}


def numbers(bits: Array, dtype: str) -> Array:
    """An array as it is interpreted -> as the interpreter of tile programs holds it."""
    if dtype == "bf16":
        return (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    if dtype == "fp8e5":
        return (bits.astype(np.uint16) << np.uint16(8)).view(np.float16).astype(np.float32)
    if dtype == "fp8e4nv":
        return decode(bits, dtype)
    if dtype == "fp16":
        return bits.astype(np.float32)
    if dtype[0] == "u":
        return bits.view(f"int{bits.itemsize * 8}")
    return bits


def by_twill(program: Program, tiles: TileProgram, data: Arrays) -> Arrays:
    """The outputs as the tile program has them."""
    dtypes = {name: kind[1:] for name, kind in program.signature.items()}
    held = {name: numbers(array, dtypes[name]).copy() for name, array in data.items()}
    elements = {one.name: one.type.element.partition(":")[2] for one in tiles.arguments}
    for name, array in held.items():
        assert array.dtype == HELD[elements[name]], (name, array.dtype)
    scalars = {name: value for name, (_, value) in program.scalars.items()}
    sequential.run(tiles, program.grid, held, scalars)
    return {name: held[name] for name in program.outputs}


def differing(found: Array, wanted: Array, output: Output) -> Array:
    """Where they differ by more than the output may."""
    if found.dtype.kind != "f":
        return np.flatnonzero(found != wanted)
    same = (found == wanted) & (np.signbit(found) == np.signbit(wanted)) | np.isnan(found) & np.isnan(wanted)
    if not output.ulps and not output.scale:
        return np.flatnonzero(~same)
    left, right = found.astype(np.longdouble), wanted.astype(np.longdouble)
    digits = DIGITS[output.dtype]
    with np.errstate(all="ignore"):
        if output.scale:
            near = np.abs(left - right) <= output.scale * 2.0**-digits * np.maximum(1, np.abs(right))
        else:
            grain = np.maximum(np.abs(right), np.finfo(np.float32).tiny if digits < 52 else 5e-324) * 2.0**-digits
            near = np.abs(left - right) <= output.ulps * grain
    return np.flatnonzero(~(same | near))
