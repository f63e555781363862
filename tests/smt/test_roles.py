"""A warp group's role is read off what it issues."""

from __future__ import annotations

from collections.abc import Callable

from tests.kernels import B200, H100, costed_example
from twill.graph.costed import CostedGraph, Instruction
from twill.machine.description import Machine
from twill.smt.roles import roles


def named(g: CostedGraph, machine: Machine, group: Callable[[Instruction], int]) -> dict[int, str]:
    """Roles when every instruction is where `group` puts it."""
    return roles(g, [group(i) for i in g.instructions], machine)


def is_load(i: Instruction) -> bool:
    return i.variable_latency


def test_consumers_and_a_load_group_on_hopper() -> None:
    g = costed_example("attention", "full", split=2)
    assert named(g, H100, lambda i: 2 if is_load(i) else i.block) == {0: "consumer 0", 1: "consumer 1", 2: "load"}


def test_a_single_consumer_has_no_number() -> None:
    g = costed_example("gemm")
    assert named(g, H100, lambda i: 5 if is_load(i) else 3) == {3: "consumer", 5: "load"}


def test_softmax_correction_mma_and_load_on_blackwell() -> None:
    g = costed_example("attention", "full", B200, fuse=2)
    held_in_place = {v.producer for v in g.values if v.storage is not None}

    def group(i: Instruction) -> int:
        if is_load(i):
            return 3
        if i.unit == "tensor":
            return 4
        return 2 if i.id in held_in_place else i.block

    assert named(g, B200, group) == {0: "softmax 0", 1: "softmax 1", 2: "correction", 3: "load", 4: "mma"}


def test_an_issuer_of_products_with_other_work_is_a_consumer() -> None:
    g = costed_example("attention", "full", B200)
    assert named(g, B200, lambda i: 1 if is_load(i) else 0) == {0: "consumer", 1: "load"}


def test_stores_alone_are_a_store_group_and_other_work_computes() -> None:
    g = costed_example("attention_backward", "full")

    def group(i: Instruction) -> int:
        if is_load(i):
            return 3
        if "store" in i.op:
            return 2
        return 0 if i.unit == "tensor" else 1

    assert named(g, H100, group) == {0: "consumer", 1: "compute", 2: "store", 3: "load"}
