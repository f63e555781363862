"""Promises of addresses that are loaded or computed element by element: right by the interpreter, by the abstract
machine, and in machine code; neighbours in one access; nothing is touched that a mask leaves out."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from tests.conftest import ROOT
from tests.generated.kernels import held
from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.emit import Emission, emit
from twill.codegen.emittable import refuse_unemittable
from twill.codegen.warp.expression import Lookup
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.parse import parse
from twill.codegen.warp.program import LoadGlobal, StoreGlobal, TmaLoad
from twill.codegen.warp.text import text
from twill.graph.build import wire
from twill.kernel.problem import Case
from twill.kernel.specialization import resolve
from twill.trial import execute

FILE = str(ROOT / "tests" / "gather_kernels.py")
ROWS, TABLE = {"x_ptr": (8 * 128,), "rows_ptr": (48,), "y_ptr": (48 * 128,)}, "table_ptr"
CASES = {
    "gather_rows": Case({}, (3,), ROWS, {"n": 41, "stride": 128}),
    "gather_rows-wide": Case({}, (2,), ROWS, {"n": 37, "stride": 72}),
    "scatter_rows": Case({}, (2,), {"x_ptr": (4096,), "rows_ptr": (64,), "y_ptr": (64 * 64,)}, {"n": 0, "stride": 64}),
    "add_rows": Case({}, (2,), {"x_ptr": (4096,), "rows_ptr": (32,), "y_ptr": (8 * 64,)}, {"n": 50}),
    "combined": Case({}, (2,), {"x_ptr": (128,), "rows_ptr": (128,), "y_ptr": (128,)}, {"n": 100}),
    "halves": Case({}, (2,), {"x_ptr": (2048,), "y_ptr": (512,)}, {}),
    "table": Case({}, (2,), {"x_ptr": (256,), "y_ptr": (256,)}, {}),
    "pages": Case({}, (2,), {"k_ptr": (8 * 4096,), "table_ptr": (8,), "scale_ptr": (8,), "y_ptr": (8192,)},
                  {"n": 3, "stride": 4096}),
    "slots": Case({}, (2,), {"k_ptr": (8 * 64,), "table_ptr": (300,), "y_ptr": (8192,)}, {"n": 3, "N_SLOTS": 150}),
    "routed_gemm": Case({}, (2, 1), {"a_ptr": (64 * 80,), "b_ptr": (8 * 80 * 64,), "c_ptr": (128 * 64,),
                                     "token_ptr": (128,), "expert_ptr": (2,)},
                        {"n": 100, "K": 80, "sa": 80, "sbe": 80 * 64, "sbk": 64, "sc": 64}),
}  # fmt: skip
ONCE = {"scatter_rows": "rows_ptr", "routed_gemm": "token_ptr"}  # no two program instances store to one row


@cache
def emission(name: str) -> Emission:
    specialization = resolve(FILE, spec=name)
    kernel = extract(FILE, spec=name)
    refuse_unemittable(kernel.program)
    return emit(wire(kernel.program), specialization, scheduled(kernel.program), H100)


def indices(name: str) -> dict[str, np.ndarray]:
    """Numbers to look up for a case, from 0 to 7, or each once."""
    rng = np.random.default_rng(3)
    spec = resolve(FILE, spec=name)
    tables = [n for n, kind in spec.signature if kind.startswith("*i") and n != "y_ptr"]
    made = {table: rng.integers(0, 8, CASES[name].shapes[table][0]) for table in tables}
    if name in ONCE:
        made[ONCE[name]] = rng.permutation(CASES[name].shapes[ONCE[name]][0])
    wide = {n: "int64" if kind.startswith("*i64") else "int32" for n, kind in spec.signature}
    return {table: array.astype(wide[table]) for table, array in made.items()}


@pytest.mark.parametrize("name", CASES)
def test_the_tile_program_computes_what_tritons_interpreter_does(name: str) -> None:
    for one in held(resolve(FILE, spec=name), CASES[name], given=indices(name)):
        assert one.furthest <= 2, one


@pytest.mark.parametrize("name", CASES)
def test_machine_code_computes_what_the_tile_program_does(name: str) -> None:
    """The abstract machine has agreed before."""
    execute.checked(emission(name))


@pytest.mark.parametrize("name", CASES)
def test_its_warp_program_is_read_back_as_it_is_written(name: str) -> None:
    program = emission(name).program
    assert parse(text(program), program.program) == program


@pytest.mark.parametrize(("name", "bytes_each"), [("gather_rows", 16), ("routed_gemm", 16), ("slots", 16)])
def test_rows_that_are_looked_up_are_moved_by_many_neighbours_at_once(name: str, bytes_each: int) -> None:
    source = emission(name).printed.text
    assert f"(const Vector<u32, {bytes_each // 4}>*)(at + (i64)" in source


def test_a_page_of_a_table_is_brought_by_the_tma() -> None:
    """The address of a tile is affine but for a number that is looked up in each iteration, once for all its boxes."""
    program = emission("pages").program
    loads = [stmt for group in program.groups for stmt in group.stmts if isinstance(stmt, TmaLoad)]
    assert loads and not any(isinstance(node, Lookup) for stmt in loads for node in nodes(stmt))
    assert any(isinstance(node, Lookup) for group in program.groups for node in nodes(group.body))


def test_what_a_mask_leaves_out_is_masked_where_it_is_touched() -> None:
    for name, kind in (("scatter_rows", StoreGlobal), ("slots", LoadGlobal)):
        groups = emission(name).program.groups
        picked = [s for g in groups for s in g.stmts if isinstance(s, StoreGlobal | LoadGlobal) and s.window.indices]
        assert picked and all(isinstance(stmt, kind) and stmt.window.where for stmt in picked)
