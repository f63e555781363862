"""Reading `<stem>.twill.toml`; its grammar is at the top of `twill.kernel.specialization`."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from twill.exc import MalformedFlag, MalformedSidecar
from twill.kernel.argument_types import parse_type
from twill.kernel.modules import module_of
from twill.kernel.problem import ProblemTable, read_problem
from twill.kernel.tuning_space import Space, read_space
from twill.toml.table import Table, describe, read_toml, read_toml_text

Constant = int | float | bool | str | None

FOLDER = "TWILL_SIDECARS"  # a folder of sidecars, for kernels of installed packages
SUFFIX = ".twill.toml"


@dataclass(frozen=True)
class SidecarTable:
    """One `[[specialization]]`; `kernel` is "" if neither the table nor the file names one.

    fp_fusion: Triton's option `enable_fp_fusion`, None if the table does not say. strict_math: likewise. split: into
    how many parts K is split (`twill.tile.rewrite.split_k`).
    """

    name: str
    kernel: str
    default: bool
    signature: Mapping[str, str]
    constexprs: Mapping[str, Constant]
    grid: tuple[str, ...]
    problem: ProblemTable | None = None  # the sizes it is run at, see `twill.kernel.problem`
    space: Space | None = None  # the tiles it may be tried with, see `twill.kernel.tuning_space`
    fp_fusion: bool | None = None
    strict_math: bool | None = None
    split: int = 1


@dataclass(frozen=True)
class Sidecar:
    """A whole sidecar, its tables in file order."""

    kernel: str
    tables: tuple[SidecarTable, ...]


def table_of(file: str, kernel: str, spec: str) -> SidecarTable | None:
    """The table of a specialization; None if its file has no such one. Raises as `read_sidecar`."""
    sidecar = read_sidecar(file)
    tables = sidecar.tables if sidecar else ()
    return next((table for table in tables if table.name == spec and table.kernel in ("", kernel)), None)


def sidecar_path(file: str) -> str:
    """Where the sidecar of a kernel file is, if there is one: in the folder TWILL_SIDECARS, or beside the file."""
    folder = os.environ.get(FOLDER)
    retained = Path(folder) / sidecar_name(file) if folder else None
    return str(retained if retained is not None and retained.is_file() else Path(file).with_suffix(SUFFIX))


def sidecar_name(file: str) -> str:
    """What a sidecar is called in a folder of sidecars: by the module that its file is, `package.module.twill.toml`."""
    path = Path(file).resolve()
    module, _ = module_of(str(path))
    return f"{module or path.stem}{SUFFIX}"


def read_sidecar(file: str) -> Sidecar | None:
    """The sidecar of a kernel file, None if it has none.

    Raises `MalformedSidecar` and the errors of `twill.toml.table`, with file and line.
    """
    path = Path(sidecar_path(file))
    return read_sidecar_at(path) if path.is_file() else None


def read_sidecar_at(path: Path) -> Sidecar:
    """A sidecar, wherever it lies. Raises as `read_sidecar`."""
    return _sidecar(read_toml(path))


def read_sidecar_text(text: str, file: str) -> Sidecar:
    """A sidecar that is no file. file: what errors call it. Raises as `read_sidecar`."""
    return _sidecar(read_toml_text(text, file))


def _sidecar(top: Table) -> Sidecar:
    kernel = top.string("kernel", 'kernel = "gemm"') if top.has("kernel") else ""
    tables = top.tables("specialization", "[[specialization]]") if top.has("specialization") else ()
    top.finish()
    read: list[SidecarTable] = []
    for table in tables:
        one = _specialization(table, kernel)
        if one.name in (other.name for other in read if other.kernel == one.kernel):
            raise _malformed(table, "name", f'a second specialization is called "{one.name}"', "give it another name")
        if one.default and any(other.default for other in read if other.kernel == one.kernel):
            raise _malformed(table, "default", "a second specialization is the default", "one default for each kernel")
        read.append(one)
    return Sidecar(kernel, tuple(read))


def _specialization(table: Table, kernel: str) -> SidecarTable:
    constexprs = _constexprs(table.table("constexprs", "BLOCK = 128")) if table.has("constexprs") else {}
    grid = table.expressions("grid", 'grid = ["cdiv(M, BLOCK_M)"]') if table.has("grid") else ()
    problem = table.table("problem", "units = { M = 16 }") if table.has("problem") else None
    tune = table.table("tune", "tiles = { BLOCK_M = [64, 128] }") if table.has("tune") else None
    read = SidecarTable(
        name=table.string("name", 'name = "bf16"'),
        kernel=table.string("kernel", 'kernel = "gemm"') if table.has("kernel") else kernel,
        default=table.flag("default", "default = true") if table.has("default") else False,
        signature=_signature(table.table("signature", 'N = "i32"')) if table.has("signature") else {},
        constexprs=constexprs,
        grid=grid,
        problem=read_problem(problem, grid, constexprs) if problem else None,
        space=read_space(tune, constexprs) if tune else None,
        fp_fusion=(
            table.flag("enable_fp_fusion", "enable_fp_fusion = false") if table.has("enable_fp_fusion") else None
        ),
        strict_math=table.flag("strict_math", "strict_math = true") if table.has("strict_math") else None,
        split=table.whole("split", "split = 4") if table.has("split") else 1,
    )
    table.finish()
    if read.split < 1:
        raise _malformed(table, "split", f"K cannot be split into {read.split} parts", "split = 2, or more")
    if len(read.grid) > 3:
        raise _malformed(table, "grid", "the grid has more than three dimensions", "at most three expressions")
    if read.problem is not None:
        read.problem.check(read.signature)
    return read


def _signature(table: Table) -> dict[str, str]:
    types = {name: table.string(name, f'{name} = "i32"') for name in table.names()}
    for name, text in types.items():
        try:
            parse_type(name, text)
        except MalformedFlag as wrong:
            raise _malformed(table, name, wrong.message, wrong.hint) from None
    return types


def _constexprs(table: Table) -> dict[str, Constant]:
    constants: dict[str, Constant] = {}
    for name, value in table.data.items():
        if not isinstance(value, int | float | str):
            raise _malformed(table, name, f"constexpr {name} is {describe(value)}", "a number, a truth value or a text")
        constants[name] = None if value == "None" else value  # TOML has no word for it
    return constants


def _malformed(table: Table, key: str, message: str, hint: str) -> MalformedSidecar:
    return MalformedSidecar(message, file=table.text.file, line=table.line(key), hint=hint)
