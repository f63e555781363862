"""Promises of `twill.codegen.lower.dynamic_scheduler`: who claims, who learns, and for which kernels."""

from __future__ import annotations

from functools import cache

import pytest

from tests.codegen.lower.test_longest_first import triangle
from tests.golden_schedules import Example, kernel, machine, schedule
from tests.kernels import H100
from tests.lowered import planned, scheduled
from tests.tile_programs import gemm
from twill.codegen.lower.dynamic_scheduler import Order, is_dynamic
from twill.codegen.lower.longest_first import unequal
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.print.sections import sections
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.parameters import parameters
from twill.codegen.warp.program import (
    INSTANCE_RING,
    INSTANCES,
    Acquire,
    Advance,
    Consumed,
    FetchInstance,
    Get,
    Publish,
    PublishInstance,
    ReceiveInstance,
    SetProgramId,
    StopUnless,
    TmaLoad,
    WarpProgram,
    walk,
)
from twill.codegen.warp.text import text

ORDERS: tuple[Order, ...] = ("chosen", "static")


@cache
def lowered(order: Order = "chosen") -> WarpProgram:
    program = triangle()
    return lower(program, scheduled(program), H100, order=order)


@cache
def example(file: str, spec: str, order: Order) -> WarpProgram:
    one = Example(f"examples/{file}.py", spec)
    return lower(kernel(one).program, schedule(one), machine(), order=order)


def test_unequal_trip_counts_are_worked_on_in_a_dynamic_order() -> None:
    assert unequal(planned(triangle()).plan) and not unequal(planned(gemm()).plan)
    assert lowered().instance_ring is not None
    assert lower(gemm(), scheduled(gemm()), H100).instance_ring is None


@pytest.mark.usefixtures("at_root")
def test_ctas_that_share_an_sm_claim_their_instances() -> None:
    chosen, static = (example("layer_norm", "bf16", order) for order in ORDERS)
    assert chosen.ctas == static.ctas > 1
    assert chosen.instance_ring is not None and static.instance_ring is None


@pytest.mark.parametrize("order, dynamic", [("static", False), ("dynamic", True)])
def test_what_is_asked_for_is_done(order: Order, dynamic: bool) -> None:
    for program in (triangle(), gemm()):
        assert is_dynamic(planned(program).plan, order) == dynamic
        assert (lower(program, scheduled(program), H100, order=order).instance_ring is not None) == dynamic


def test_one_load_group_claims_and_all_others_learn() -> None:
    program = lowered()
    ring = program.instance_ring
    assert ring is not None
    assert ring.transport == INSTANCE_RING and program.groups[ring.producer].issuer
    assert ring.consumers == tuple(g.id for g in program.groups if g.id != ring.producer)
    assert (ring.full_count, ring.empty_count) == (1, 4 * len(ring.consumers))
    for group in program.groups:
        kinds = [type(stmt) for stmt in group.next]
        first = group.id == ring.producer
        how = [Acquire, PublishInstance, Publish, Advance] if first else [Get, ReceiveInstance, Consumed, Advance]
        assert kinds[:5] == [*how, StopUnless] and {*kinds[5:]} == {SetProgramId}
        assert sum(isinstance(stmt, FetchInstance) for stmt in group.stmts) == first


def test_the_next_instance_is_claimed_behind_all_loads() -> None:
    (group,) = [group for group in lowered().groups if group.issuer]
    loads = [i for i, stmt in enumerate(group.body) if any(isinstance(s, TmaLoad) for s in walk((stmt,)))]
    claims = [i for i, stmt in enumerate(group.body) if isinstance(stmt, FetchInstance)]
    assert len(claims) == 1 and claims[0] > max(loads)


@pytest.mark.usefixtures("at_root")
@pytest.mark.parametrize("file, spec", [("gemm", "bf16"), ("layer_norm", "bf16"), ("gemm_bias_gelu", "bf16")])
def test_groups_in_turn_and_ctas_that_share_an_sm_may_claim(file: str, spec: str) -> None:
    program = example(file, spec, "dynamic")
    assert program.instance_ring is not None and verify(program) == ()
    assert all(group.next for group in program.groups)
    if any(group.share[1] > 1 for group in program.groups):
        assert program.instance_ring.empty_count == 8  # every group learns of every instance
        assert f"i32 {INSTANCES} = 0;" in print_cuda(program).text


def test_a_static_program_asks_for_no_zeros_and_a_dynamic_one_does() -> None:
    kinds = {order: [p.kind for p in parameters(lowered(order))] for order in ("static", "dynamic")}
    assert kinds["dynamic"] == [*kinds["static"], "workspace"]


def test_the_text_says_how_instances_are_claimed() -> None:
    shown = text(lowered())
    assert "    stop unless told.w\n    program_id 0 = told.x\n" in shown
    assert "fetch instance" not in text(lowered("static"))
    assert "  next\n    acquire instance_put\n    publish instance instance[instance_put]: " in shown


def test_claims_are_counted_so_that_each_launch_leaves_zero() -> None:
    """Every CTA claims until it finds nothing: as many claims as instances, and the counter is 0 after so many."""
    printed = print_cuda(lowered()).text
    assert "place = gridDim.x + atomic_count(claims, instances - 1);" in printed
    for ctas, instances in ((1, 1), (2, 2), (3, 10), (4, 5)):
        counter, running, done = 0, list(range(ctas)), list(range(ctas))
        while running:
            cta = running[(len(done) * 7) % len(running)]  # in any order
            place, counter = ctas + counter, 0 if counter >= instances - 1 else counter + 1
            if place < instances:
                done.append(place)
            else:
                running.remove(cta)
        assert sorted(done) == list(range(instances)) and counter == 0


def test_groups_print_what_they_are_told() -> None:
    printed = print_cuda(lowered()).text
    assert printed.count("if (!told.w) break;") == len(sections(lowered()))
    assert "u32 place = blockIdx.x;" in printed and "instance += gridDim.x" not in printed
    assert "instance += gridDim.x" in print_cuda(lowered("static")).text
