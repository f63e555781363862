"""Promises of `twill.codegen.lower.occupancy`: kernels that keep no unit of an SM busy share it, and each of their CTAs
has its part."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import Programs, gemm
from twill.codegen.lower.assign import assign
from twill.codegen.lower.candidates import Cost, LoweringCandidate
from twill.codegen.lower.groups import warp_groups
from twill.codegen.lower.occupancy import held, held_ctas, is_latency_bound, time_of_iteration, with_room_for_ctas
from twill.codegen.lower.plan import LoweringPlan
from twill.codegen.lower.streams import split_class
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.lowering import lower
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.targets.base import target_of
from twill.codegen.verify.abstract.static import static_violations
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import WarpProgram
from twill.graph.build import wire
from twill.machine.description import Machine
from twill.machine.occupancy import ctas_with, register_pool, share
from twill.schedule.document import Schedule
from twill.tile.affine import Polynomial
from twill.tile.program import TileProgram


def scaling(columns: int = 1024) -> TileProgram:
    """Y = X + V + W by tiles along a row: more loads than threads should make themselves."""
    p = Programs()
    for name in "XVWY":
        p.argument(name, "ptr:f16")
    trips = p.argument("trips")
    row = Polynomial.symbol(p.op("program_id", axis=0))
    with p.loop(trips, []) as k:
        x, v, w = (p.load(name, (1, columns), at=(row, k.i * columns), name=name.lower()) for name in "XVW")
        p.store("Y", p.op("add", p.op("add", x, v, name="xv"), w, name="y"), at=(row, k.i * columns))
    return p.done()


def lowered(program: TileProgram, machine: Machine = H100) -> WarpProgram:
    return lower(program, scheduled(program), machine)


def hungry() -> Machine:
    """A machine whose compiler wants more registers than a launch has left."""
    spare = H100.emitting.spare_registers.model_copy(update={"value": 128})
    return H100.model_copy(update={"emission": H100.emitting.model_copy(update={"spare_registers": spare})})


def test_a_kernel_whose_products_keep_a_unit_busy_has_its_sm_alone() -> None:
    made = lowered(gemm(), hungry())
    assert made.ctas == 1
    assert all(group.registers for group in made.groups)
    assert "__launch_bounds__(384, 1)" in print_cuda(made, H100).text


def test_registers_are_not_moved_where_each_thread_of_a_launch_has_enough() -> None:
    """Load groups are one warp then, and no group waits for what another one gives back."""
    made = lowered(gemm(64))
    assert made.ctas == 1 and not any(group.registers for group in made.groups)
    assert [group.threads for group in made.groups] == [128, 128, 32]
    text = print_cuda(made, H100).text
    assert "__maxnreg__(168)" in text and "regs_grow" not in text  # of 288 threads, as of 384
    assert static_violations(made) == ()


@pytest.mark.parametrize(
    "threads, registers, ctas", [(160, 168, 2), (160, 176, 1), (128, 128, 4), (288, 168, 1), (288, 176, 0)]
)
def test_registers_are_handed_out_to_four_warps_at_a_time(threads: int, registers: int, ctas: int) -> None:
    """What the CUDA occupancy calculator says: two CTAs of five warps take as many registers as twelve warps do."""
    assert ctas_with(threads, registers, H100) == ctas
    assert (register_pool(threads * max(1, ctas), H100) >= threads * max(1, ctas) * registers) == (ctas > 0)


def test_a_kernel_without_products_shares_its_sm() -> None:
    made = lowered(scaling())
    assert 1 < made.ctas <= H100.emitting.ctas.whole
    assert not any(group.registers for group in made.groups)  # as compiled
    assert {group.threads for group in made.groups if group.issuer} == {32}
    text = print_cuda(made, H100).text
    threads = sum(group.threads for group in made.groups)
    assert f"__launch_bounds__({threads}, {made.ctas})" in text
    assert "regs_grow" not in text and "regs_shrink" not in text


def test_ctas_that_share_an_sm_fit_into_it() -> None:
    made = lowered(scaling())
    reserved = H100.emitting.reserved_shared.whole
    assert made.ctas * (made.shared + reserved) <= H100.capacity("shared") + reserved
    assert static_violations(made) == ()


def test_larger_tiles_leave_room_for_fewer_ctas() -> None:
    ctas = [lowered(scaling(columns)).ctas for columns in (1024, 16384)]
    assert ctas[0] > ctas[1] >= 1


@pytest.mark.parametrize("ctas", [1, 2, 3, 7])
def test_shares_add_up(ctas: int) -> None:
    each, reserved = share(H100, ctas), H100.emitting.reserved_shared.whole
    whole = H100.capacity("shared") + reserved
    assert ctas * (each + reserved) <= whole < ctas * (each + 1 + reserved)


def test_more_ctas_than_the_memory_holds_are_found() -> None:
    made = replace(lowered(scaling()), ctas=64)
    assert Counter(v.rule for v in static_violations(made))["shared"] == 1


def test_ctas_that_move_registers_and_share_an_sm_are_found() -> None:
    made = lowered(gemm(), hungry())
    found = [v.message for v in static_violations(replace(made, ctas=2)) if v.rule == "registers"]
    assert found and all("must not" in message for message in found)


def test_the_program_is_right() -> None:
    assert verify(lowered(scaling())) == ()


def test_how_long_a_loop_is_busy_counts_what_a_few_iterations_take_to_fill_and_to_drain() -> None:
    schedule = scheduled(gemm())
    (loop,) = schedule.loops
    assert time_of_iteration(loop) == loop.ii and not is_latency_bound(schedule, H100)
    few = loop.model_copy(update={"trip": "2"})
    assert time_of_iteration(few) == loop.ii + (loop.length - loop.ii) / 2
    assert is_latency_bound(schedule.model_copy(update={"loops": (few,)}), H100)
    assert not is_latency_bound(
        schedule.model_copy(update={"loops": (loop.model_copy(update={"trip": "1000"}),)}), H100
    )


def apart(registers: int = 112) -> Schedule:
    """A product whose two tiles come by load groups of their own."""
    schedule = scheduled(gemm())
    consumer, load = schedule.warp_groups
    groups = (consumer.model_copy(update={"registers": registers}), load, load.model_copy(update={"id": 2}))
    first, *others = schedule.ops
    return schedule.model_copy(
        update={"warp_groups": groups, "ops": (first.model_copy(update={"warp_group": 2}), *others)}
    )


def test_load_groups_are_one_where_more_ctas_share_an_sm_then() -> None:
    schedule = apart()
    groups, group_of = warp_groups(schedule)
    assert held(groups, H100) == 2 and held_ctas(schedule, H100) == 3
    assert with_room_for_ctas(groups, group_of, schedule, H100, 2) == (groups, group_of)
    made, now = with_room_for_ctas(groups, group_of, schedule, H100, 3)
    assert [(one.id, one.role, one.issuer) for one in made] == [(0, "consumer", False), (1, "load", True)]
    assert now == {0: 0, 1: 1, 2: 1}


def test_load_groups_stay_apart_where_one_thread_cannot_issue_in_time() -> None:
    schedule = apart()
    loops = tuple(loop.model_copy(update={"ii": 1}) for loop in schedule.loops)
    assert held_ctas(schedule.model_copy(update={"loops": loops}), H100) == 2


@pytest.mark.parametrize(("ctas", "issuers"), [(2, 2), (3, 1)])
def test_a_plan_has_as_many_load_groups_as_its_ctas_have_room_for(ctas: int, issuers: int) -> None:
    schedule = apart()
    candidate = LoweringCandidate(Cost(1, 1), ctas)
    wired = wire(gemm())
    tiles = TileLayouts(wired, target_of(H100), split_class(wired, schedule), schedule.cooperation.split)
    plan = assign(wired, tiles, schedule, H100, candidate)
    assert isinstance(plan, LoweringPlan)
    assert sum(group.issuer for group in plan.groups) == issuers
