"""Promises of `twill.tile.access.resolve`: the same program, and a tile access is one thing whatever its spelling."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import triton

from tests.access_kernels import KERNELS
from tests.access_numpy import run
from tests.conftest import ROOT
from twill.exc import AddressNotAffine, AtomicResultUsed
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Loop, Op, TileProgram
from twill.tile.translate.translate import tile_program

FILE = str(ROOT / "tests" / "access_kernels.py")
SIG = ("X=*fp32:16", "Y=*fp32:16", "N=i32", "first=i32")
RESOLVED = ("tile_load", "tile_store", "tile_reduce")
SPELLINGS = KERNELS if triton.__version__ >= "3.9" else (*KERNELS, "block_pointers")


@functools.cache
def raw(kernel: str) -> TileProgram:
    return tile_program(resolve(f"{FILE}::{kernel}", sig=SIG))


def accesses(program: TileProgram) -> list[Access]:
    return [op.access for op in program.ops() if op.access]


@pytest.mark.parametrize("kernel", SPELLINGS)
def test_the_resolved_program_computes_the_same(kernel: str) -> None:
    program = raw(kernel)
    resolved = resolve_accesses(program)
    for count, first in ((1, 0), (7, 1), (10, 2), (16, 5), (2, 10)):
        memory = np.random.default_rng(count).integers(0, 40, 512).astype(np.float32)
        before, after = ({"X": memory.copy(), "Y": np.zeros(512, np.float32)} for _ in range(2))
        run(program, (3,), before, {"N": count, "first": first})
        run(resolved, (3,), after, {"N": count, "first": first})
        assert before["Y"].any() or count < first
        np.testing.assert_array_equal(after["Y"], before["Y"])


@pytest.mark.parametrize("kernel", SPELLINGS)
def test_no_raw_access_or_address_is_left(kernel: str) -> None:
    resolved = resolve_accesses(raw(kernel))
    assert accesses(resolved)
    for op in resolved.ops():
        assert (op.access is not None) == (op.kind in RESOLVED)
        assert op.kind not in ("load", "store", "atomic_add", "add_pointer", "make_descriptor")


@pytest.mark.parametrize("kernel", SPELLINGS)
def test_every_symbol_is_available_where_it_is_used(kernel: str) -> None:
    program = resolve_accesses(raw(kernel))

    def check(items: tuple[Op | Loop, ...], known: set[int]) -> None:
        for item in items:
            if isinstance(item, Loop):
                check(item.body, known | {item.induction, *(carry.argument for carry in item.carried)})
                known |= {carry.result for carry in item.carried}
                continue
            assert symbols(item.access) | set(item.operands) <= known
            known |= set(item.results)

    check(program.body, {argument.value for argument in program.arguments})


def symbols(access: Access | None) -> frozenset[int]:
    if access is None:
        return frozenset()
    found = access.constant.symbols()
    for axis in access.axes:
        for polynomial in (axis.stride, axis.offset, axis.lower, axis.upper):
            found |= polynomial.symbols() if polynomial else frozenset()
    return found


def spelling_free(program: TileProgram) -> list[object]:
    """What of the accesses does not depend on their spelling: extents, offsets per loop level, and
    which axes are bounded; grid scalars by their names."""
    loops = {item.induction for item in program.body if isinstance(item, Loop)}

    def moves(offset: Polynomial) -> object:
        by_loop = [offset.coefficient_of(symbol).text({}) for symbol in sorted(loops & offset.symbols())]
        other = offset
        for symbol in loops:
            other = other.without(symbol)
        return by_loop, sorted(coefficient for _, coefficient in other.terms)

    return [
        (op.kind, op.line > 0, op.access.transport, op.access.element, op.access.pad, op.access.constant,
         [(axis.extent, moves(axis.offset), axis.upper is not None) for axis in op.access.axes])
        for op in program.ops()
        if op.access
    ]  # fmt: skip


def test_descriptors_and_pointer_arithmetic_of_a_gemm_are_the_same_accesses(at_root: Path) -> None:
    by_descriptor, by_pointer = (
        resolve_accesses(tile_program(resolve(f"examples/{name}.py"))) for name in ("gemm", "gemm_pointers")
    )
    assert spelling_free(by_descriptor) == spelling_free(by_pointer)
    assert [access.transport for access in accesses(by_pointer)] == ["tma"] * 3
    loops = [item for item in by_pointer.body if isinstance(item, Loop)]
    assert [len(loop.carried) for loop in loops] == [1]  # the accumulator; no pointers


def test_masks_of_pointers_become_the_extents_of_the_tensor(at_root: Path) -> None:
    program = resolve_accesses(tile_program(resolve("examples/gemm_pointers.py")))
    names = {argument.value: argument.name for argument in program.arguments}
    bounds = [[axis.upper.text(names) for axis in access.axes if axis.upper] for access in accesses(program)]
    assert bounds == [["M", "K"], ["K", "N"], ["M", "N"]]


def test_rows_of_one_head_are_bounded_by_the_rows_of_one_head(at_root: Path) -> None:
    program = resolve_accesses(tile_program(resolve("examples/attention_pointers.py")))
    names = {value.id: value.name for value in program.values}
    k = next(op.access for op in program.ops() if op.access and op.name == "k")
    assert k.axes[0].offset.text(names) == "start_n"
    assert k.axes[0].upper is not None and k.axes[0].upper.text(names) == "N_CTX"
    assert k.constant.text(names) == "N_CTX*stride*head_row"
    assert k.transport == "tma"


def resolved_source(kernel_file: Callable[..., str], body: str, *sig: str) -> TileProgram:
    source = "@triton.jit\ndef kernel(X, Y, N, S, IDX):\n" + "".join(f"    {line}\n" for line in body.splitlines())
    default = ("X=*bf16:16", "Y=*bf16:16", "N=i32:16", "S=i32:16", "IDX=*i32:16")
    return resolve_accesses(tile_program(resolve(kernel_file(source), sig=(*default, *sig))))


GATHER = "i = tl.arange(0, 64)\nrow = tl.load(IDX + i)\nx = tl.load(X + row)\ntl.store(Y + i, x)"
ROW_GATHER = (
    "i = tl.arange(0, 64)\nj = tl.arange(0, 32)\nrow = tl.load(IDX + i)\n"
    "x = tl.load(X + row[:, None] * S + j[None, :] + 5)\ntl.store(Y + i[:, None] * 32 + j[None, :], x)"
)
WRAPPED = "i = tl.arange(0, 64)\noffs = (tl.program_id(0) * 64 + i) % N\nx = tl.load(X + offs)\ntl.store(Y + i, x)"
SCATTER = "i = tl.arange(0, 64)\nrow = tl.load(IDX + i)\nx = tl.load(X + i)\ntl.store(Y + row * 2 + 1, x, mask=row < N)"
HALVED = "i = tl.arange(0, 64)\nx = tl.load(X + i // 3 * 4 + i)\ntl.store(Y + i, x)"
PRODUCT = "i = tl.arange(0, 64)\nx = tl.load(X + i * i)\ntl.store(Y + i, x)"
IRREGULAR = (
    "i = tl.arange(0, 64)\np = X + i\nfor k in range(0, N):\n    x = tl.load(p)\n    tl.store(Y + i, x)\n    p += k"
)


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (GATHER, ("tile_load", "X", ["64 0 0"], "0", [((0,), "1")], False)),
        (ROW_GATHER, ("tile_load", "X", ["64 0 0", "32 1 5"], "0", [((0,), "S")], False)),
        (WRAPPED, ("tile_load", "X", ["64 0 0"], "0", [((0,), "1")], False)),
        (HALVED, ("tile_load", "X", ["64 1 0"], "0", [((0,), "4")], False)),
        (PRODUCT, ("tile_load", "X", ["64 0 0"], "0", [((0,), "1")], False)),
        (SCATTER, ("tile_store", "Y", ["64 0 0"], "1", [((0,), "2")], True)),
    ],
)
def test_what_is_not_affine_in_an_address_is_an_index_of_the_access(
    kernel_file: Callable[..., str], body: str, said: tuple[object, ...]
) -> None:
    program = resolved_source(kernel_file, body)
    names = {argument.value: argument.name for argument in program.arguments}
    (op,) = [op for op in program.ops() if op.index_operands]
    assert op.access is not None and op.access.transport == "plain"
    axes = [f"{a.extent} {a.stride.text(names)} {a.offset.text(names)}" for a in op.access.axes]
    indices = [(index.axes, index.scale.text(names)) for index in op.access.indices]
    constant = op.access.constant.text(names)
    assert (op.kind, op.access.base, axes, constant, indices, op.mask_operand is not None) == said
    assert all(program.type_of(op.operands[n]).shape == (64,) for n in op.index_operands)


def test_an_address_that_changes_by_another_amount_in_every_iteration_is_refused(
    kernel_file: Callable[..., str],
) -> None:
    with pytest.raises(AddressNotAffine) as error:
        resolved_source(kernel_file, IRREGULAR)
    assert error.value.line == 8
    assert error.value.file.endswith("kernel.py")
    assert "the address of `x` is not affine: `p` (line 6) changes by another amount" in error.value.message
    assert "loop variable" in error.value.hint


def test_what_an_atomic_addition_returns_is_the_result_of_the_access(kernel_file: Callable[..., str]) -> None:
    program = resolved_source(kernel_file, "old = tl.atomic_add(IDX + tl.arange(0, 16), 1)\ntl.store(Y + old, 1.0)")
    (op,) = (op for op in program.ops() if op.kind == "tile_reduce")
    assert [program.type_of(result).shape for result in op.results] == [(16,)]
    assert op.access is not None and op.access.transport == "plain"
    assert dict(op.attributes) == {"combine": "add", "order": "acq_rel"}


def test_fail_old_values_of_a_tile_whose_rows_are_columns_in_memory(kernel_file: Callable[..., str]) -> None:
    lines = "r, c = tl.arange(0, 16), tl.arange(0, 32)\n"
    lines += "old = tl.atomic_add(IDX + r[:, None] + c[None, :] * 16, 1)\ntl.store(Y + tl.sum(old, 1), 1.0)"
    with pytest.raises(AtomicResultUsed, match=r"kernel.py:6: the old values .* rows that are columns in memory"):
        resolved_source(kernel_file, lines)


ROWS = "i = tl.arange(0, 64)\nj = tl.arange(0, 32)\n"
LOAD = "x = tl.load(X + i[:, None] * {stride} + j[None, :]{more})\n"
KEEP = "tl.store(Y + i[:, None] * 32 + j[None, :], x.to(tl.bfloat16))"


@pytest.mark.parametrize(
    ("load", "sig", "transport", "reason"),
    [
        (LOAD.format(stride="S", more=""), (), "tma", ""),
        (LOAD.format(stride="S", more=""), ("S=i32",), "plain", "its stride S is not known to be a multiple of 16"),
        (LOAD.format(stride="S", more=""), ("X=*bf16",), "plain", "X is not known to be aligned to 16 bytes"),
        (LOAD.format(stride="S * 2", more=""), ("S=i32",), "copy", "its stride 2*S is not known to be a multiple"),
        (LOAD.format(stride="1", more=""), (), "plain", "its stride 1 is not known to be a multiple of 16 bytes"),
        (LOAD.format(stride="S", more=" * 2"), (), "plain", "its innermost stride is 2, not 1"),
        (LOAD.format(stride="(-64)", more=""), (), "copy", "its stride -64 is not known to be positive"),
        (LOAD.format(stride="S", more=" + 8"), (), "tma", ""),
        (LOAD.format(stride="S", more=" + 4"), (), "copy", "its index 4 is not known to be a multiple of 16 bytes"),
        (LOAD.format(stride="S", more=" + N"), ("N=i32",), "plain", "its start N is not known to be a multiple of 16"),
        (LOAD.format(stride="S", more=", mask=i[:, None] < N, other=0.0"), (), "tma", ""),
        (LOAD.format(stride="S", more=", mask=i[:, None] < N, other=1.0"), (), "plain", "masked elements read as 1.0"),
        (LOAD.format(stride="S", more=", mask=i[:, None] >= 3, other=0.0"), (), "copy", "its lower bound is 3, not 0"),
        (LOAD.format(stride="S", more=", mask=i[:, None] < tl.load(IDX), other=0.0"), (), "copy",
         "differs between program instances"),
        (LOAD.format(stride="S", more=", mask=i[:, None] < j[None, :], other=0.0"), (), "plain",
         "its mask is not only bounds on its indices"),
        (LOAD.format(stride="S", more=", mask=N > 3, other=0.0"), (), "plain", "its mask is not only bounds"),
        ("x = tl.load(X)\n", (), "plain", "it is a single element"),
        ("x = tl.load(IDX + i[:, None] * S + tl.arange(0, 2)[None, :]).sum(1)[:, None] + j\n", (), "copy",
         "its innermost extent is 8 bytes, under 16"),
    ],
)  # fmt: skip
def test_the_transport_and_why_it_is_no_tensor_map(
    kernel_file: Callable[..., str], load: str, sig: tuple[str, ...], transport: str, reason: str
) -> None:
    keep = KEEP if load.startswith("x = tl.load(X +") or "IDX +" in load else "tl.store(Y, x)"
    program = resolved_source(kernel_file, ROWS + load + keep, *sig)
    access = next(a for a in reversed(accesses(program)[:-1]))
    assert (access.transport, reason in access.transport_reason) == (transport, True)
    assert bool(access.transport_reason) == (transport != "tma")


def test_a_transposed_tile_is_loaded_as_it_lies_in_memory(kernel_file: Callable[..., str]) -> None:
    body = ROWS + "x = tl.load(X + i[None, :] * S + j[:, None])\ntl.store(Y + i[None, :] * 32 + j[:, None], x)"
    program = resolved_source(kernel_file, body)
    assert [[axis.extent for axis in access.axes] for access in accesses(program)] == [[64, 32], [64, 32]]
    assert [op.kind for op in program.ops() if op.results and program.type_of(op.results[0]).shape] == [
        "tile_load", "transpose", "transpose",
    ]  # fmt: skip


def test_a_bool_tensor_is_one_of_bytes(kernel_file: Callable[..., str]) -> None:
    body = "i = tl.arange(0, 64)\nx = tl.load(X + i)\ntl.store(Y + i, x)"
    program = resolved_source(kernel_file, body, "X=*i1:16")
    assert (accesses(program)[0].base, accesses(program)[0].element) == ("X", "i8")


def test_pointers_carried_through_two_loops_go_on_where_the_first_stopped(kernel_file: Callable[..., str]) -> None:
    body = """
i = tl.arange(0, 64)
p = X + i
x = tl.zeros([64], tl.float32)
for k in range(0, tl.program_id(0) * 128, 64):
    x += tl.load(p)
    p += 64
for k in range(0, N, 64):
    x += tl.load(p)
    p += 64
tl.store(Y + i, x.to(tl.bfloat16))""".lstrip()
    program = resolved_source(kernel_file, body)
    first, second = [item for item in program.body if isinstance(item, Loop)]
    grid = next(op.results[0] for op in program.ops() if op.kind == "program_id")
    offsets = [access.axes[0].offset for access in accesses(program)]
    assert offsets[0] == Polynomial.symbol(first.induction)
    assert offsets[1] == Polynomial.symbol(grid) * 128 + Polynomial.symbol(second.induction)
    assert [len(loop.carried) for loop in (first, second)] == [1, 1]


def test_a_mask_that_is_made_of_bounds_and_of_data_holds_under_a_condition_on_data(
    kernel_file: Callable[..., str],
) -> None:
    """As in an early return where a sequence ends: what is left of the mask is a value that the kernel did not have."""
    body = """
begin, end = tl.load(IDX), tl.load(IDX + 1)
if begin + tl.program_id(0) >= end:
    return
i, j = begin + tl.program_id(0) + tl.arange(0, 1), tl.arange(0, 64)
mask = (i[:, None] < end) & (j[None, :] < 48)
at = tl.load(IDX + i[:, None] * 64 + j[None, :], mask=mask, other=-1)
x = tl.load(X + at, mask=mask & (at >= 0), other=0.0)
tl.store(Y + i[:, None] * 64 + j[None, :], x, mask=mask)""".lstrip()
    *_, gathered, stored = accesses(resolved_source(kernel_file, body))
    assert (gathered.base, stored.base) == ("X", "Y") and stored.transport == "plain"


def test_what_only_an_address_needs_is_kept(kernel_file: Callable[..., str]) -> None:
    program = resolved_source(kernel_file, "tl.store(Y + tl.program_id(0) * 64 + tl.arange(0, 64), 1.0)")
    grid = next(op.results[0] for op in program.ops() if op.kind == "program_id")
    assert accesses(program)[0].axes[0].offset == Polynomial.symbol(grid) * 64
