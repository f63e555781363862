"""Where shared memory is short, loops exchange equal warp groups, so that their rings are one; and schedules that leave
shared memory free are solved for."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.kernels import H100
from twill import exc
from twill.codegen.emission import Extracted, emit_scheduled, emit_solved, extract
from twill.codegen.lower.candidates import Attempt, Cost, LoweringCandidate, exchanges, search
from twill.codegen.room import with_less_shared
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve

TWO = """
@triton.jit
def k(a, b, c, d, e, f, n, m, B: tl.constexpr):
    rows, ks = tl.program_id(0) * B + tl.arange(0, B), tl.arange(0, B)
    at = ks[:, None] * B + ks[None, :]
    x = tl.load(a + rows[:, None] * B + ks[None, :])
    acc = tl.zeros([B, B], tl.float32)
    for i in range(0, n, B):
        p = tl.dot(x, tl.load(b + i * B + at))
        acc = tl.dot(tl.exp2(p).to(tl.float16), tl.load(c + i * B + at), acc)
    tl.store(e + rows[:, None] * B + ks[None, :], acc.to(tl.float16))
    y = tl.load(d + rows[:, None] * B + ks[None, :])
    acc = tl.zeros([B, B], tl.float32)
    for i in range(0, m, B):
        p = tl.dot(y, tl.load(c + i * B + at))
        acc = tl.dot(tl.exp2(p).to(tl.float16), tl.load(b + i * B + at), acc)
    tl.store(f + rows[:, None] * B + ks[None, :], acc.to(tl.float16))
"""
SIG = [*(f"{name}=*fp16:16" for name in "abcdef"), "n=i32:16", "m=i32:16"]
SHORT = with_less_shared(H100, 120_000)


def crossed(kernel: Extracted, machine: Machine) -> Schedule:
    """A valid schedule whose second loop has the parts of the two computing warp groups the other way round."""
    found = solve(kernel.graph, machine, SolveOptions(blocks=1, fuse=False, budget=60))
    swapped = {group.id: other for group, other in zip(found.warp_groups, (1, 0), strict=False)}
    last = max(loop.loop for loop in found.loops)
    ops = tuple(
        op.model_copy(update={"warp_group": swapped.get(op.warp_group, op.warp_group)}) if op.loop == last else op
        for op in found.ops
    )
    return found.model_copy(update={"ops": ops})


def on_machine(schedule: Schedule, machine: Machine) -> Schedule:
    """A schedule as if it had been solved for another machine."""
    digest = machine.digest()
    loops = tuple(
        loop.model_copy(update={"graph": loop.graph.model_copy(update={"machine_digest": digest})})
        for loop in schedule.loops
    )
    return schedule.model_copy(update={"machine_digest": digest, "loops": loops})


def test_loops_exchange_warp_groups_where_their_rings_do_not_fit_otherwise(kernel_file: Callable[..., str]) -> None:
    """What is emitted has the abstract machine's consent."""
    kernel = extract(f"{kernel_file(TWO)}::k", sig=SIG, const=["B=64"])
    seen: list[Attempt] = []
    program = emit_scheduled(kernel, SHORT, crossed(kernel, SHORT), record=seen.append).program
    taken = next(one for one in seen if one.verdict == "taken").candidate
    assert sorted(taken.exchange) == [(3, 0, 1), (3, 1, 0)]
    assert "warp groups exchanged between loops" in str(taken)
    rings = [aref.name for aref in program.arefs if aref.transport == "tma"]
    assert rings == ["x", "p", "acc"]  # of each loop the same
    assert "refused: the warp program needs" in seen[0].verdict


def test_warp_groups_stay_where_shared_memory_is_not_short(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(TWO)}::k", sig=SIG, const=["B=64"])
    seen: list[Attempt] = []
    emit_scheduled(kernel, H100, crossed(kernel, H100), record=seen.append)
    assert not next(one for one in seen if one.verdict == "taken").candidate.exchange


def test_loops_that_go_on_with_one_another_keep_their_warp_groups(kernel_file: Callable[..., str]) -> None:
    """The accumulator of the second loop is in the registers of those that made it in the first one."""
    again = "    for i in range(0, m, B)"
    text = TWO.replace(f"    acc = tl.zeros([B, B], tl.float32)\n{again}", again)
    assert text != TWO
    kernel = extract(f"{kernel_file(text)}::k", sig=SIG, const=["B=64"])
    schedule, seen = solve(kernel.graph, SHORT, SolveOptions(blocks=1, fuse=False, budget=60)), list[Attempt]()
    assert exchanges(schedule)
    with_less = with_less_shared(SHORT, 40_000)
    with pytest.raises(exc.SharedMemoryFull):
        emit_scheduled(kernel, with_less, on_machine(schedule, with_less), record=seen.append)
    refused = [one.verdict for one in seen if one.candidate.exchange]
    assert "refused: a value in registers goes from one loop to another" in refused


def test_rings_of_all_loops_fit_once_each_leaves_some_memory(kernel_file: Callable[..., str]) -> None:
    kernel = extract(f"{kernel_file(TWO)}::k", sig=SIG, const=["B=64"])
    machine, seen = with_less_shared(H100, 140_000), list[Attempt]()
    emission = emit_solved(
        kernel, machine, lambda graph, on: solve(graph, on, SolveOptions(blocks=1, fuse=False, budget=60)),
        record=seen.append,
    )  # fmt: skip
    taken = next(one for one in seen if one.verdict == "taken").candidate
    assert taken.shared > 0
    assert f"{taken.shared} bytes of shared memory kept free" in str(taken)
    assert emission.program.shared <= machine.capacity("shared")
    assert emission.schedule.machine_digest == machine.digest()


def test_exchanges_are_tried_behind_what_did_not_fit_alone() -> None:
    plain, other = LoweringCandidate(Cost(1, 1)), LoweringCandidate(Cost(1, 1), exchange=((1, 0, 1), (1, 1, 0)))
    seen: list[Attempt] = []

    def attempt(candidate: LoweringCandidate) -> str:
        if not candidate.exchange:
            raise exc.BuildRejected("spill", "it spills", None)
        return "made"

    with pytest.raises(exc.BuildRejected):
        search((plain, other), attempt, seen.append)
    assert [one.verdict for one in seen] == ["refused: it spills"]
