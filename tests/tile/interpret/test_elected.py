"""What programs with locks, tickets and flags leave, in which order of their instances, and when that is defined."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

from tests.elected_kernels import ADD, KERNELS, LOCK, UNLOCK, ElectedKernel
from twill.codegen.verify.abstract.inputs import launch
from twill.exc import UnknownProblem
from twill.kernel.specialization import resolve
from twill.tile.access.resolve import resolve_accesses
from twill.tile.interpret.atomics import old_values
from twill.tile.interpret.conflicts import conflicts
from twill.tile.interpret.sequential import Order, instances, one_each, run
from twill.tile.program import TileProgram
from twill.tile.scalar_region import Endless
from twill.tile.translate.translate import tile_program

Files = Callable[..., str]
COUNT = 5


def program_of(kernel_file: Files, kernel: ElectedKernel) -> TileProgram:
    return resolve_accesses(tile_program(resolve(f"{kernel_file(kernel.text)}::k", sig=kernel.sig, const=["B=256"])))


def left(program: TileProgram, kernel: ElectedKernel, order: Order | None = None) -> tuple[Any, Mapping[str, Any]]:
    """The blocks of x, with zeros behind their end, and the tensors behind a launch with zeros in y."""
    made = launch(program, kernel.case(COUNT))
    made.arrays["y"][...] = 0
    run(program, made.grid, dict(made.arrays), made.scalars, order=order)
    blocks = made.arrays["x"].copy()
    blocks[int(made.scalars["n"]) :] = 0
    return blocks.reshape(COUNT, 256), made.arrays


def test_slots_are_given_in_the_order_of_instances(kernel_file: Files) -> None:
    kernel = KERNELS["slots of a compaction"]
    program = program_of(kernel_file, kernel)
    for order in (None, Order([[(3, 0, 0), (1, 0, 0)], [(4, 0, 0), (0, 0, 0), (2, 0, 0)]])):
        blocks, arrays = left(program, kernel, order)
        in_turn = (0, 1, 2, 3, 4) if order is None else (3, 1, 4, 0, 2)
        wanted = np.concatenate([block[block > 0] for block in blocks[[*in_turn]]])
        assert np.array_equal(arrays["y"][: wanted.size], wanted)
        assert arrays["s"][0] == wanted.size


@pytest.mark.parametrize("preempt", [False, True])
@pytest.mark.parametrize("name", ["a sum under a lock", "a lock for each of two", "the first one stores"])
def test_locks_lose_no_summand_and_are_given_back(kernel_file: Files, name: str, preempt: bool) -> None:
    kernel = KERNELS[name]
    blocks, arrays = left(program_of(kernel_file, kernel), kernel, one_each((COUNT,), preempt))
    if name == "a lock for each of two":
        assert np.allclose(arrays["y"][:256], blocks[::2].sum(0), atol=1e-5)
        assert np.allclose(arrays["y"][256:], blocks[1::2].sum(0), atol=1e-5)
    else:
        assert np.allclose(arrays["y"], blocks.sum(0), atol=1e-5)
    assert arrays["s"][0] == 0


@pytest.mark.parametrize("name", ["in the order of their numbers", "in the opposite order"])
def test_instances_wait_for_earlier_and_for_later_ones(kernel_file: Files, name: str) -> None:
    kernel = KERNELS[name]
    blocks, arrays = left(program_of(kernel_file, kernel), kernel)
    wanted = np.zeros(256, np.float32)
    for block in blocks[:: -1 if "opposite" in name else 1]:
        wanted = wanted * np.float32(0.5) + block
    assert np.array_equal(arrays["y"], wanted)


def test_fail_instances_of_one_cta_that_wait_for_what_comes_later(kernel_file: Files) -> None:
    kernel = KERNELS["in the opposite order"]
    with pytest.raises(Endless):
        left(program_of(kernel_file, kernel), kernel, Order([list(instances((COUNT,)))]))


def test_fail_a_lock_that_is_not_given_back(kernel_file: Files) -> None:
    kernel = ElectedKernel(LOCK + ADD)
    with pytest.raises(UnknownProblem, match="waits for ever"):
        left(program_of(kernel_file, kernel), kernel)


@pytest.mark.parametrize("name", KERNELS)
def test_what_atomic_operations_order_is_no_conflict(kernel_file: Files, name: str) -> None:
    kernel = KERNELS[name]
    program = program_of(kernel_file, kernel)
    made = launch(program, kernel.case(COUNT))
    found = conflicts(program, made.grid, made.arrays, made.scalars).between
    assert found == ""


def test_each_of_several_elements_at_one_address_finds_what_the_one_before_it_leaves() -> None:
    tensor, at = np.array([10, 20, 30], np.int32), np.array([2, 0, 2, 2, 1])
    inside = np.array([True, True, True, False, True])
    value = np.array([1, 2, 3, 4, 5], np.int32)
    assert old_values(tensor, (at, inside), value, "add", "i32").tolist() == [30, 10, 31, 0, 20]
    assert old_values(tensor, (at, inside), value, "xchg", "i32").tolist() == [30, 10, 1, 0, 20]
    assert tensor.tolist() == [10, 20, 30]


RELAXED = ', sem="relaxed")'
UNORDERED = {
    "no lock": ADD + "    tl.store(y + 256, tl.atomic_add(s, 1))\n",
    "a lock that acquires nothing": LOCK.replace("0, 1)", "0, 1" + RELAXED) + ADD + UNLOCK,
    "one that is given back without release": LOCK + ADD + UNLOCK.replace(", 0)", ", 0" + RELAXED),
    "one that is given back too early": LOCK + UNLOCK + ADD,
    "a load in front of it":
        "    o = tl.arange(0, B)\n    v += tl.load(y + o)\n" + LOCK + "    tl.store(y + o, v)\n" + UNLOCK,
}  # fmt: skip


@pytest.mark.parametrize("name", UNORDERED)
def test_what_they_do_not_order_is_a_conflict(kernel_file: Files, name: str) -> None:
    kernel = ElectedKernel(UNORDERED[name], y=257)
    program = program_of(kernel_file, kernel)
    made = launch(program, kernel.case(COUNT))
    assert "in the same launch" in conflicts(program, made.grid, made.arrays, made.scalars).between
