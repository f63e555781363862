"""What one tile instruction costs: who is busy, when its result is there, how long its warp group is held."""

from __future__ import annotations

import math
from typing import Literal

import pytest

from tests.kernels import B200, H100
from twill.graph.costed import Use
from twill.graph.dependence import Count, Mma, Node
from twill.graph.price import Price, price_elementwise, price_mma, price_move, price_node, price_store, price_transfer
from twill.machine.description import Figure, Machine, Rate

Kind = Literal["mma", "elementwise", "load", "store", "reduce_store"]


def node(
    kind: Kind,
    *,
    counts: tuple[tuple[str, int], ...] = (),
    mma: Mma | None = None,
    nbytes: int = 0,
    transport: Literal["tma", "copy", "plain"] | None = None,
) -> Node:
    """A node of which only the work matters."""
    return Node(
        id=0,
        kind=kind,
        name="x",
        line=1,
        operations=(),
        dims=(),
        result=None,
        counts=tuple(Count(operation=o, elements=n) for o, n in counts),
        mma=mma,
        bytes=nbytes,
        transport=transport,
    )


def product(m: int, n: int, k: int, dtype: str = "bf16") -> Node:
    """A[m, k] B[k, n]."""
    return node("mma", mma=Mma(m=m, n=n, k=k, m_dim=0, n_dim=1, k_dim=2, dtype=dtype, accumulator="f32"))


def rate(machine: Machine, dtype: str) -> float:
    """Multiply-adds a cycle."""
    assert machine.mma is not None
    return next(r.per_cycle.value for r in machine.mma.rates if r.dtype == dtype)


def synchronous(hold: int, latency: int, *uses: tuple[str, int, int]) -> Price:
    """A price of the warp group's own work."""
    return Price(tuple(Use(unit=u, start=s, cycles=c) for u, s, c in uses), latency, hold)


# -- products -----------------------------------------------------------------------------------


def test_rows_are_padded_to_the_row_block_of_the_instruction() -> None:
    assert H100.mma is not None
    assert H100.mma.row_block == 64
    assert price_mma(product(16, 256, 256), H100, 1, False) == price_mma(product(64, 256, 256), H100, 1, False)
    assert price_mma(product(96, 256, 256), H100, 1, False) == price_mma(product(128, 256, 256), H100, 1, False)


def test_a_part_is_a_share_of_the_rows() -> None:
    assert price_mma(product(128, 256, 256), H100, 2, False) == price_mma(product(64, 256, 256), H100, 1, False)


def test_the_tensor_core_is_busy_for_the_multiplications_or_for_reading_shared_memory() -> None:
    assert H100.mma is not None
    assert H100.mma.shared_read is not None
    port = H100.mma.shared_read.per_cycle.value
    wide = price_mma(product(64, 256, 64), H100, 1, False)
    assert wide.uses[0].cycles == math.ceil(64 * 256 * 64 / rate(H100, "bf16"))
    narrow = price_mma(product(64, 32, 64), H100, 1, True)  # few columns: operand A is the bottleneck
    assert narrow.uses[0].cycles == math.ceil((64 * 32 + 64 * 64) * 2 / port) > 64 * 32 * 64 / rate(H100, "bf16")
    assert price_mma(product(64, 32, 64), H100, 1, False).uses[0].cycles < narrow.uses[0].cycles


def test_operand_b_is_read_again_for_every_row_block() -> None:
    assert H100.mma is not None
    slow = Rate(unit="smem", per_cycle=Figure(value=1, source="made up for a test"))
    machine = H100.model_copy(update={"mma": H100.mma.model_copy(update={"shared_read": slow})})
    assert price_mma(product(128, 64, 64), machine, 1, False).uses[0].cycles == 2 * 64 * 64 * 2
    assert price_mma(product(128, 64, 64), machine, 1, True).uses[0].cycles == 2 * 64 * 64 * 2 + 128 * 64 * 2


def test_eight_bit_operands_take_half_the_time() -> None:
    sixteen, eight = (price_mma(product(128, 256, 256, d), H100, 1, True) for d in ("bf16", "f8e4m3"))
    assert sixteen.uses[0].cycles == 2 * eight.uses[0].cycles


def test_a_product_holds_its_warp_group_only_for_the_issue() -> None:
    for machine in (H100, B200):
        assert machine.mma is not None
        price = price_mma(product(128, 128, 128), machine, 1, True)
        assert price.asynchronous
        assert price.hold == round(machine.mma.issue.value) < price.uses[0].cycles
        assert price.latency == price.uses[0].cycles + round(machine.mma.latency.value)
        assert price.contexts == machine.mma.contexts
        assert price.single_issuer == ("mma" if machine.mma.single_issuer else "")


def test_mma_fail_names_the_type_or_the_missing_tensor_core() -> None:
    with pytest.raises(KeyError, match=r"mma\.f64"):
        price_node(product(64, 64, 64, "f64"), H100, 1)
    with pytest.raises(KeyError, match="mma"):
        price_node(product(64, 64, 64), H100.model_copy(update={"mma": None}), 1)


# -- elementwise --------------------------------------------------------------------------------


def test_the_pipes_of_a_chain_work_side_by_side() -> None:
    work = node("elementwise", counts=(("exp2.f32", 4096), ("add.f32", 4096), ("mul.f32", 4096)))
    price = price_elementwise(work, H100, 1)
    cycles = {u.unit: u.cycles for u in price.uses}
    assert {u.start for u in price.uses} == {0}
    assert cycles["mufu"] == 4096 // 16
    assert cycles["fma"] == 2 * 4096 // 128  # both on one pipe
    assert price.hold == max(cycles.values())
    assert not price.asynchronous


def test_the_depth_of_the_deepest_pipe_is_paid_once() -> None:
    counts = (("exp2.f32", 4096), ("reduce_max.f32", 4096))
    price = price_elementwise(node("elementwise", counts=counts), H100, 1)
    depths = [H100.operation(name).latency.value for name, _ in counts]
    assert price.latency == price.hold + round(max(depths))


def test_parts_share_the_work_and_round_up_only_once() -> None:
    work = node("elementwise", counts=(("add.f32", 100), ("mul.f32", 100)))
    (fma,) = [u for u in price_elementwise(work, H100, 2).uses if u.unit == "fma"]
    assert fma.cycles == math.ceil(100 / 128)


def test_a_chain_that_costs_nothing_still_issues() -> None:
    price = price_elementwise(node("elementwise"), H100, 1)
    assert (price.uses, price.hold, price.latency, price.unit) == ((), 1, 1, "")


def test_elementwise_fail_names_the_operation() -> None:
    with pytest.raises(KeyError, match=r"gamma\.f32"):
        price_node(node("elementwise", counts=(("gamma.f32", 1),)), H100, 1)


# -- transfers ----------------------------------------------------------------------------------


def test_a_bulk_load_works_on_its_own() -> None:
    transfer = H100.transfer("tma_load")
    price = price_node(node("load", nbytes=32768, transport="tma"), H100, 2)
    cycles = math.ceil(16384 / transfer.bytes_per_cycle.value)
    assert price.uses[0] == Use(unit="tma", start=0, cycles=cycles)
    assert price.latency == cycles + round(transfer.latency.value)
    assert (price.hold, price.asynchronous) == (round(transfer.issue.value), True)
    assert price.variable_latency
    assert price.contexts == transfer.contexts


def test_a_plain_load_holds_its_warp_group_throughout() -> None:
    price = price_node(node("load", nbytes=32768, transport="plain"), H100, 1)
    assert not price.asynchronous
    assert price.hold == price.uses[0].cycles == math.ceil(32768 / H100.transfer("plain_load").bytes_per_cycle.value)


def test_a_small_transfer_is_done_no_sooner_than_it_is_issued() -> None:
    quick = H100.transfer("tma_load").model_copy(update={"latency": Figure(value=0, source="made up for a test")})
    price = price_transfer(quick, 1)
    assert price.uses[0].cycles == 1
    assert price.latency == price.hold == round(quick.issue.value)


def test_every_unit_of_a_transfer_is_occupied() -> None:
    also = (Rate(unit="smem", per_cycle=Figure(value=64, source="made up for a test")),)
    price = price_transfer(H100.transfer("tma_load").model_copy(update={"also": also}), 6400)
    assert [(u.unit, u.start, u.cycles) for u in price.uses][1:] == [("smem", 0, 100)]
    assert price.unit == "smem"


@pytest.mark.parametrize(("kind", "bulk"), [("store", "tma_store"), ("reduce_store", "tma_reduce")])
def test_a_bulk_store_is_staged_by_the_warp_group_and_goes_on_alone(kind: Kind, bulk: str) -> None:
    price = price_store(node(kind, nbytes=32768, transport="tma"), H100, 2)
    staging, transfer = price_move("to", "shared", 16384, H100), H100.transfer(bulk)
    assert price.uses[0] == staging.uses[0]
    assert price.uses[1].unit == "tma"
    assert price.uses[1].start == staging.hold
    assert price.uses[1].cycles == math.ceil(16384 / transfer.bytes_per_cycle.value)
    assert price.hold == staging.hold + round(transfer.issue.value)
    assert price.latency == staging.hold + price.uses[1].cycles + round(transfer.latency.value)


def test_a_plain_store_goes_straight_from_registers() -> None:
    price = price_store(node("store", nbytes=32768, transport="plain"), H100, 1)
    assert [u.unit for u in price.uses] == [H100.transfer("plain_store").unit]


@pytest.mark.parametrize(
    ("direction", "place", "name"),
    [
        ("to", "shared", "register_to_shared"),
        ("from", "shared", "shared_to_register"),
        ("to", "tmem", "tmem_store"),
        ("from", "tmem", "tmem_load"),
    ],
)
def test_a_move_is_the_warp_groups_own_work(direction: str, place: str, name: str) -> None:
    transfer = B200.transfer(name)
    price = price_move(direction, place, 65536, B200)
    cycles = math.ceil(65536 / transfer.bytes_per_cycle.value)
    assert price.uses[0] == Use(unit=transfer.unit, start=0, cycles=cycles)
    assert price.hold == cycles + round(transfer.issue.value)
    assert price.latency == max(price.hold, cycles + round(transfer.latency.value))
    assert not price.asynchronous


def test_move_fail_names_the_transfer_that_the_machine_lacks() -> None:
    with pytest.raises(KeyError, match="tmem_load"):
        price_move("from", "tmem", 1024, H100)


# -- one after the other ------------------------------------------------------------------------


def test_work_in_sequence_begins_when_the_warp_group_is_free() -> None:
    both = synchronous(10, 15, ("alu", 0, 10)).then(synchronous(20, 24, ("smem", 0, 20)))
    assert both.uses == (Use(unit="alu", start=0, cycles=10), Use(unit="smem", start=10, cycles=20))
    assert (both.hold, both.latency) == (30, 34)


def test_the_result_is_not_there_before_that_of_the_first_part() -> None:
    assert synchronous(10, 100, ("alu", 0, 10)).then(synchronous(5, 5, ("smem", 0, 5))).latency == 100


def test_rows_of_one_unit_that_touch_become_one() -> None:
    both = synchronous(10, 10, ("alu", 0, 10)).then(synchronous(5, 5, ("alu", 0, 5)))
    assert both.uses == (Use(unit="alu", start=0, cycles=15),)
    apart = synchronous(10, 10, ("alu", 0, 8)).then(synchronous(5, 5, ("alu", 0, 5)))
    assert apart.uses == (Use(unit="alu", start=0, cycles=8), Use(unit="alu", start=10, cycles=5))


def test_the_unit_of_an_instruction_is_the_one_that_is_busy_longest() -> None:
    assert synchronous(9, 9, ("alu", 0, 5), ("mufu", 0, 9), ("fma", 0, 7)).unit == "mufu"
