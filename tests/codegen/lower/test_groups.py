"""Promises of `twill.codegen.lower.groups`: which warp groups there are, and what registers they get."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.kernels import B200, H100
from twill import exc
from twill.codegen.lower.groups import warp_groups, with_registers, with_room_for_mmas
from twill.machine.occupancy import register_pool
from twill.schedule.document import Schedule, ScheduledOp, ScheduledWarpGroup


def group(number: int, context: str, registers: int) -> ScheduledWarpGroup:
    return ScheduledWarpGroup(id=number, role=f"{context} {number}", context=context, registers=registers, threads=128)


def op(loop: int, warp_group: int, kind: str = "tma load") -> ScheduledOp:
    return ScheduledOp.model_construct(loop=loop, warp_group=warp_group, op=kind)


def schedule(groups: Sequence[ScheduledWarpGroup], ops: Sequence[ScheduledOp] = ()) -> Schedule:
    return Schedule.model_construct(warp_groups=tuple(groups), ops=tuple(ops))


COMPUTE, LOAD, SECOND = group(0, "compute", 168), group(1, "issue", 24), group(2, "issue", 24)


def test_load_groups_of_different_loops_are_one() -> None:
    made, group_of = warp_groups(schedule([COMPUTE, LOAD, SECOND], [op(0, 0, "mma"), op(0, 1), op(1, 2)]))
    assert group_of == {0: 0, 1: 1, 2: 1}
    assert [g.issuer for g in made] == [False, True]


def test_load_groups_of_one_loop_are_two() -> None:
    made, group_of = warp_groups(schedule([COMPUTE, LOAD, SECOND], [op(0, 1), op(0, 2)]))
    assert group_of == {0: 0, 1: 1, 2: 2}
    assert len(made) == 3


@pytest.mark.parametrize("kind", ["copy load", "plain load"])
def test_a_group_whose_threads_load_is_no_issuer(kind: str) -> None:
    made, _ = warp_groups(schedule([COMPUTE, LOAD], [op(0, 1, kind)]))
    assert not made[1].issuer


def test_what_the_register_file_has_left_is_handed_out() -> None:
    asked = schedule([COMPUTE, LOAD])
    made = with_registers(warp_groups(asked)[0], asked, H100, "k.py")
    granule = H100.register_file.granule
    assert all(now.registers >= was.registers for now, was in zip(made, asked.warp_groups, strict=True))
    assert all(now.registers <= H100.context(was.context).max_registers
               for now, was in zip(made, asked.warp_groups, strict=True))  # fmt: skip
    left = register_pool(sum(g.threads for g in made), H100) - sum(g.threads * g.registers for g in made)
    full = [g for g in made if g.registers == H100.context("issue" if g.issuer else "compute").max_registers]
    assert left >= 0 and (left < 128 * granule or len(full) == len(made))


def test_compute_groups_grow_alike() -> None:
    asked = schedule([group(0, "compute", 120), group(1, "compute", 120), group(2, "issue", 24)])
    made = with_registers(warp_groups(asked)[0], asked, H100, "k.py")
    assert made[0].registers == made[1].registers > 120


def test_budgets_are_multiples_of_what_registers_are_handed_out_in() -> None:
    asked = schedule([group(0, "compute", 101), LOAD])
    made = with_registers(warp_groups(asked)[0], asked, H100, "k.py")
    assert not any(one.registers % H100.register_file.granule for one in made)
    assert all(one.registers <= H100.context("compute").max_registers for one in made)


def test_of_several_groups_that_read_tensor_memory_one_may_have_all_that_a_thread_can_name() -> None:
    """What softmax needs most, and correction has no use for."""
    asked = schedule([group(0, "compute", 160), group(1, "compute", 32), LOAD])
    budgets = {m.name: [one.registers for one in with_registers(warp_groups(asked)[0], asked, m, "k.py")]
               for m in (B200, H100)}  # fmt: skip
    assert budgets["b200"][0] == 248 and budgets["h100"][0] == H100.context("compute").max_registers
    alone = schedule([group(0, "compute", 160), LOAD])
    (one, _) = with_registers(warp_groups(alone)[0], alone, B200, "k.py")
    assert one.registers == B200.context("compute").max_registers


def test_budgets_beyond_the_register_file_are_refused() -> None:
    asked = schedule([group(number, "compute", 240) for number in range(3)])
    with pytest.raises(exc.CandidateRefused, match="register budgets exceed") as raised:
        with_registers(warp_groups(asked)[0], asked, H100, "k.py")
    assert raised.value.file == "k.py"


def test_a_launch_gives_all_threads_alike() -> None:
    assert register_pool(384, H100) == 384 * 168
    assert register_pool(128, H100) == 128 * 256


@pytest.mark.parametrize(("registers", "wanted"), [(144, 5), (152, 4)])
def test_load_groups_are_one_where_budgets_of_both_are_too_much(registers: int, wanted: int) -> None:
    """A launch of 640 threads has 96 registers for each to move, one of 512 has 128."""
    computing = [group(number, "compute", registers) for number in range(3)]
    asked = schedule([*computing, group(3, "issue", 24), group(4, "issue", 24)], [op(0, 3), op(0, 4)])
    groups, group_of = warp_groups(asked)
    made, now = with_room_for_mmas(groups, group_of, asked.model_copy(update={"loops": ()}), H100)
    assert len(groups) == 5 and len(made) == wanted
    assert [one.id for one in made] == [*range(wanted)] and now[4] == wanted - 1
    with_registers(made, asked, H100, "k.py")
