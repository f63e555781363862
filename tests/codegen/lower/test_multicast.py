"""Promises of `twill.codegen.lower.multicast`: tiles that neighbours load alike are shared, others are not, and why
not."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.golden_schedules import Example, kernel, machine, schedule
from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import attention, gemm
from twill import exc
from twill.codegen.emission import extract
from twill.codegen.lower.multicast import seldom
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.expression import Apply, Expr, Local, Number, ProgramId, Symbol
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import NEIGHBOUR, Cluster, If, Let, TmaLoad, WarpProgram, walk
from twill.kernel.specialization import problem_of

pytestmark = pytest.mark.usefixtures("at_root")


def clustered(file: str, spec: str) -> WarpProgram:
    example = Example(f"examples/{file}.py", spec)
    return lower(kernel(example).program, schedule(example), machine(), cluster=2)


def shared(program: WarpProgram) -> list[str]:
    return [aref.name for aref in program.arefs if aref.shared]


@pytest.mark.parametrize(
    ("file", "spec", "names"),
    [
        ("gemm", "bf16", ["b"]),
        ("dual_gemm", "bf16", ["w_gate", "w_up"]),
        ("attention", "full", ["k", "v"]),
        ("attention_backward", "full", ["q", "do"]),
        ("linear_attention", "bf16", ["q", "k"]),
    ],
)
def test_tiles_that_neighbours_load_alike_are_shared(file: str, spec: str, names: list[str]) -> None:
    program = clustered(file, spec)
    assert program.cluster is not None and program.cluster.axis == 0
    assert shared(program) == names
    for group in program.groups:
        cursors = {cursor.id: program.arefs[cursor.aref] for cursor in group.cursors}
        loads = [stmt for stmt in group.stmts if isinstance(stmt, TmaLoad)]
        for ring in {cursors[load.cursor] for load in loads}:
            senders = [load.sender for load in loads if cursors[load.cursor] == ring and load.sender >= 0]
            assert senders.count(0) == senders.count(1) and bool(senders) == ring.shared


def test_the_larger_operand_says_along_which_axis() -> None:
    for rows, columns, axis, name in ((128, 256, 0, "b"), (256, 128, 1, "a")):
        tile = gemm(rows, columns)
        program = lower(tile, scheduled(tile, 2), H100, cluster=2)
        assert program.cluster is not None and program.cluster.axis == axis
        assert shared(program) and all(ring.startswith(name) for ring in shared(program))


def test_rows_that_are_shared_are_right_too() -> None:
    types = ("a_desc=tensordesc<bf16[256, 64]>", "c_desc=tensordesc<bf16[256, 128]>")
    read = extract("examples/gemm_bias_gelu.py", "bf16", sig=types, const=("BLOCK_M=256",))
    program = lower(read.program, scheduled(read.program, 2), H100, cluster=2)
    assert program.cluster == Cluster(1) and shared(program) == ["a.0", "a.1"]
    assert verify(program, problem_of(read.specialization)) == ()


def test_instances_that_order_tiles_themselves_share_where_they_agree() -> None:
    program = clustered("gemm", "bf16")
    load = next(group for group in program.groups if group.issuer)
    (same,) = (stmt for stmt in load.body if isinstance(stmt, Let) and Local(NEIGHBOUR) in nodes(stmt.value))
    (guard,) = (stmt for stmt in walk(load.body) if isinstance(stmt, If))
    assert guard.condition == Local(same.name, "i1")
    halves = [stmt for stmt in guard.body if isinstance(stmt, TmaLoad)]
    assert [load.sender for load in halves] == [0, 1]
    assert guard.otherwise == tuple(replace(load, sender=-1) for load in halves)


def test_neighbours_in_a_row_of_tiles_share_what_the_row_reads() -> None:
    read = extract("examples/gemm.py", "bf16", const=("GROUP_M=1",))
    program = lower(read.program, scheduled(read.program, 2), H100, cluster=2)
    assert shared(program) and all(ring.startswith("a") for ring in shared(program))
    assert verify(program, problem_of(read.specialization)) == ()


def test_kernels_with_nothing_in_common_are_refused_with_every_reason() -> None:
    tile = attention()
    with pytest.raises(exc.UnsupportedInKernel) as raised:
        clustered("attention", "causal")
    for reason in ("`k` along axis 0: the bounds of its loop are others", "`k` along axis 1: its address is another"):
        assert reason in raised.value.message
    with pytest.raises(exc.UnsupportedInKernel, match="no matrix is loaded by the TMA") as raised:
        clustered("layer_norm", "bf16")
    assert raised.value.hint == "emit without --cluster"
    assert shared(lower(tile, scheduled(tile, 2), H100, cluster=2)) == ["k", "v"]


PID, TILES, WIDTH = ProgramId(0), Symbol(0, "tiles", "i32"), Symbol(1, "width", "i32")


def apply(kind: str, *operands: Expr) -> Apply:
    return Apply(kind, operands, "i32")


@pytest.mark.parametrize(
    ("expr", "rare"),
    [
        (PID, False),
        (ProgramId(1), True),
        (TILES, True),
        (apply("div", PID, TILES), True),
        (apply("div", PID, Number(1)), False),
        (apply("rem", PID, TILES), False),
        (apply("div", apply("rem", PID, TILES), WIDTH), True),
        (apply("div", TILES, PID), False),
        (apply("add", apply("div", PID, TILES), apply("rem", PID, TILES)), False),
        (apply("rem", PID, apply("min", TILES, Number(1))), True),
        (apply("rem", PID, apply("min", TILES, Number(8))), False),
        (apply("div", PID, apply("min", TILES, Number(1))), False),
    ],
)
def test_quotients_of_an_index_change_seldom(expr: Expr, rare: bool) -> None:
    assert seldom(expr, 0) == rare
