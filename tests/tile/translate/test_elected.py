"""Promises of `twill.tile.translate.elected`: which atomic operations one thread does for all, and what they are."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.elected_kernels import BLOCK, KERNELS, ElectedKernel
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.parse import parse
from twill.tile.program import Op, TileProgram
from twill.tile.text import program_text
from twill.tile.translate.translate import tile_program
from twill.tile.vocabulary import ELECTED

Files = Callable[..., str]


def read(kernel_file: Files, kernel: ElectedKernel) -> TileProgram:
    return tile_program(resolve(f"{kernel_file(kernel.text)}::k", sig=kernel.sig, const=["B=256"]))


def elected(program: TileProgram) -> list[Op]:
    return [op for op in program.ops() if op.kind == ELECTED]


def said(op: Op) -> list[tuple[object, ...]]:
    """Of each atomic operation: what it combines, in which tensor, its order, and whether it has a mask."""
    assert op.region is not None
    values = {"load": 0, "cas": 2}
    return [
        (one.attribute("combine"), one.attribute("base"), one.attribute("order"),
         len(one.operands) > 1 + values.get(str(one.attribute("combine")), 1))
        for one in op.region.atomics()
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("slots of a compaction", [[("add", "s", "acq_rel", False)]]),
        ("a sum under a lock", [[("cas", "s", "acq_rel", False)], [("xchg", "s", "acq_rel", False)]]),
        (
            "the first one stores",
            [[("cas", "s", "acq_rel", False)], [("xchg", "s", "acq_rel", True)], [("xchg", "s", "acq_rel", False)]],
        ),
        ("the largest by compare and swap", [[("cas", "y", "acq_rel", False)]]),
        ("relaxed, and nobody is ordered", [[("add", "s", "relaxed", False)]]),
        (
            "a flag that is read",
            [[("xchg", "s", "acq_rel", False)], [("load", "s", "relaxed", True)], [("or", "s", "acq_rel", False)]],
        ),
    ],
)
def test_what_one_thread_does_for_all(kernel_file: Files, name: str, wanted: list[list[tuple[object, ...]]]) -> None:
    assert [said(op) for op in elected(read(kernel_file, KERNELS[name]))] == wanted


@pytest.mark.parametrize("name", KERNELS)
def test_programs_are_read_back_from_their_text(kernel_file: Files, name: str) -> None:
    program = read(kernel_file, KERNELS[name])
    for text in (program_text(program), program_text(resolve_accesses(program))):
        assert program_text(parse(text)) == text


def test_an_exchange_is_a_store_where_nobody_in_the_kernel_could_tell(kernel_file: Files) -> None:
    """That it gives a lock back says the kernel itself: it takes one."""
    alone = ElectedKernel("    tl.atomic_xchg(s, 0)\n    tl.store(y + at, v)\n")
    assert [op.kind for op in read(kernel_file, alone).ops() if op.kind in (ELECTED, "store")] == ["store", "store"]
    assert len(elected(read(kernel_file, KERNELS["a sum under a lock"]))) == 2


@pytest.mark.parametrize(("order", "count"), [("relaxed", 0), ("acq_rel", 0), ("release", 1), ("acquire", 1)])
def test_an_order_that_the_kernel_names_is_kept(kernel_file: Files, order: str, count: int) -> None:
    kernel = ElectedKernel(f'    tl.atomic_add(s, 1, sem="{order}")\n    tl.store(y + at, v)\n')
    found = elected(read(kernel_file, kernel))
    assert [said(op)[0][2] for op in found] == [order] * count


def test_a_loop_that_only_searches_is_still_everybodys(kernel_file: Files) -> None:
    kernel = ElectedKernel("    while n > 7:\n        n = n // 2\n    tl.store(y + at, v + n)\n")
    assert [op.kind for op in read(kernel_file, kernel).ops() if op.region is not None] == ["scalar_loop"]


def test_loads_behind_a_lock_are_no_numbers_that_are_looked_up_ahead(kernel_file: Files) -> None:
    """What atomic operations change is written by the kernel."""
    from twill.tile.uniformity import classify

    program = resolve_accesses(read(kernel_file, KERNELS["the first one stores"]))
    loads = [op for op in program.ops() if op.kind == "tile_load" and op.access is not None and op.access.base == "s"]
    assert len(loads) == 1
    assert not classify(program).lookups.intersection(loads[0].results)
    assert BLOCK in KERNELS["the first one stores"].text
