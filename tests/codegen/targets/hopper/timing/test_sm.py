"""Promises of the simulated SM, on a few instructions each."""

from __future__ import annotations

from itertools import pairwise

import pytest

from tests.sass import code, cycles_of, entry, run
from twill.codegen.targets.hopper.timing.needed import needed
from twill.codegen.targets.hopper.timing.sm import Deadlock

EXIT = entry("EXIT", 5)
SAME_SCHEDULER = 5  # warps 0 and 4 share one


def test_control_fields_are_read_from_the_encoding() -> None:
    one, _ = code(entry("@!P0 MUFU.EX2 R4, R5", 8, waits=(1, 3), writes=2, reads=1, yields=True), EXIT).instructions
    assert (one.guard, one.opcode, one.operands) == ("@!P0", "MUFU.EX2", ("R4", "R5"))
    control = one.control
    assert (control.stall, control.writes, control.reads, control.waits, control.yields) == (8, 2, 1, 0b1010, True)


def test_a_warp_issues_behind_the_stall_of_its_last_instruction() -> None:
    _, issued = run(code(entry("FADD R4, R4, R5", 4), entry("FADD R4, R4, R5", 2), EXIT))
    assert cycles_of(issued, "FADD") == [0, 4] and cycles_of(issued, "EXIT") == [6]


def test_a_scoreboard_holds_the_warp_until_the_result_is_there() -> None:
    _, issued = run(code(entry("MUFU.EX2 R4, R5", 1, writes=0), entry("FADD R6, R4, R4", 1, waits=(0,)), EXIT))
    assert cycles_of(issued, "FADD") == [17]


def test_two_warps_share_a_pipe_and_two_pipes_are_used_side_by_side() -> None:
    same = code(*[entry("FMNMX R4, R4, R5, !PT")] * 8, EXIT)
    _, issued = run(same, SAME_SCHEDULER)
    taken = sorted(cycles_of(issued, "FMNMX") + cycles_of(issued, "FMNMX", 4))
    assert taken == list(range(0, 32, 2))
    mixed = code(*[entry("FMNMX R4, R4, R5, !PT"), entry("FADD R6, R6, R7")] * 8, EXIT)
    _, issued = run(mixed)
    assert cycles_of(issued, "EXIT") == [16]


def test_the_warp_that_issued_last_goes_on_while_it_can() -> None:
    _, issued = run(code(*[entry("FADD R4, R4, R5")] * 4, EXIT), SAME_SCHEDULER)
    assert cycles_of(issued, "FADD", 4) == [0, 1, 2, 3]  # the youngest begins
    assert min(cycles_of(issued, "FADD", 0)) == 5  # once the other has ended


def test_exponentials_of_two_warps_take_twice_as_long() -> None:
    many = code(*[entry("MUFU.EX2 R4, R5", 8)] * 20, EXIT)
    alone, _ = run(many)
    both, _ = run(many, SAME_SCHEDULER)
    assert alone == pytest.approx(20 * 8, abs=8) and both == pytest.approx(40 * 8, abs=16)


def test_loops_run_as_often_as_the_launch_says() -> None:
    loop = code(
        entry("UMOV UR4, URZ"), entry(".L_x_1:"), entry("UIADD3 UR4, UR4, 0x2, URZ", 4),
        entry("UISETP.GE.AND UP0, UPT, UR4, c[0x0][0x220], UPT", 13), entry("FADD R9, R9, R8"),
        entry("PLOP3.LUT P0, PT, PT, PT, UP0, 0x80, 0x0", 13), entry("@!P0 BRA `(.L_x_1)", 5), EXIT,
    )  # fmt: skip
    _, issued = run(loop, constants={0x220: 10})
    assert len(cycles_of(issued, "FADD")) == 5
    assert 3 not in needed(loop), "data is not computed"


def test_a_counter_that_was_spilled_counts_for_each_warp() -> None:
    loop = code(
        entry("LDC R1, c[0x0][0x28]", 13), entry("MOV R4, RZ", 13),
        entry('STL [R1+0x4], R4                     (*"SpillRefill"*)', 13), entry(".L_x_1:"), entry("FADD R9, R9, R8"),
        entry('LDL R5, [R1+0x4]                     (*"SpillRefill"*)', 13), entry("IADD3 R5, R5, 0x2, RZ", 13),
        entry('STL [R1+0x4], R5                     (*"SpillRefill"*)', 13),
        entry("ISETP.GE.AND P0, PT, R5, c[0x0][0x220], PT", 13), entry("@!P0 BRA `(.L_x_1)", 5), EXIT,
    )  # fmt: skip
    _, issued = run(loop, warps=2, constants={0x28: 1 << 24, 0x220: 10})
    assert [len(cycles_of(issued, "FADD", warp)) for warp in (0, 1)] == [5, 5]


def test_comparisons_of_data_do_not_hold() -> None:
    skipped = code(
        entry("FSETP.GT.AND P0, PT, R4, R5, PT", 13), entry("@!P0 BRA `(.L_x_1)", 5), entry("FADD R6, R6, R7"),
        entry(".L_x_1:"), EXIT,
    )  # fmt: skip
    _, issued = run(skipped)
    assert cycles_of(issued, "FADD") == []


GROUP = 4
PRODUCT = "HGMMA.64x128x16.F32.BF16 R24, gdesc[UR4], R24"


def products(count: int) -> tuple[str, ...]:
    """A committed group of them, and its wait."""
    last = entry(f"{PRODUCT}, gsb0", 2)
    return (*[entry(PRODUCT, 2)] * (count - 1), last, entry("WARPGROUP.DEPBAR.LE gsb0, 0x0", 2))


def test_products_take_the_tensor_cores_one_after_another() -> None:
    """As measured: 64 n + 62 cycles for n products of 128 columns (docs/calibration.md)."""
    found = [run(code(*products(n), EXIT), GROUP)[0] for n in (4, 8)]
    assert found[1] - found[0] == 4 * 64
    _, issued = run(code(*products(4), EXIT), GROUP)
    assert cycles_of(issued, "WARPGROUP") == [pytest.approx(4 * 64 + 45, abs=8)]


def test_few_products_are_in_flight() -> None:
    _, issued = run(code(*products(10), EXIT), GROUP)
    times = cycles_of(issued, "HGMMA")
    assert times[6] - times[0] == 12 and times[7] - times[6] > 50 and times[9] - times[8] == 64


def test_warp_groups_that_wait_for_a_place_among_products_get_one_in_turn() -> None:
    """As measured: benchmarks/figures/h200-beside-wgmma.txt, `late`."""
    _, issued = run(code(*products(16), EXIT), 2 * GROUP)
    both = sorted((now, warp) for warp in (0, GROUP) for now in cycles_of(issued, "HGMMA", warp))
    queued = [warp for _, warp in both][8:-4]
    assert len(queued) > 8 and all(one != other for one, other in pairwise(queued))


def test_beside_a_product_instructions_take_longer() -> None:
    alone = code(*[entry("FADD R6, R6, R7")] * 20, EXIT)
    _, issued = run(alone)
    assert cycles_of(issued, "FADD") == list(range(20))
    beside = code(*products(4)[:-1], *[entry("FADD R6, R6, R7")] * 40, EXIT)
    _, issued = run(beside, GROUP)
    times = cycles_of(issued, "FADD")
    assert [other - one for one, other in pairwise(times)][-10:] == [2] * 10


def test_fences_between_proxies_are_one_behind_the_other() -> None:
    """As measured: about 10 cycles of one warp, 18 of four, 45 of eight."""
    fences = code(entry("FENCE.VIEW.ASYNC.S"), entry("FADD R6, R6, R7"), EXIT)
    behind = [max(max(cycles_of(run(fences, warps)[1], "FADD", warp)) for warp in range(warps)) for warps in (1, 4, 8)]
    assert behind == [10, 25, 45]


def arrival(count: int) -> list[str]:
    """Warp 0 makes a barrier of so many arrivals and waits for it, warp 1 arrives once."""
    made = hex(2 * (0x100000 - count))
    return [
        entry("S2R R0, SR_TID.X", 1, writes=0), entry("UMOV UR4, 0x400"), entry(f"UMOV UR6, {made}", 4),
        entry("ISETP.NE.AND P0, PT, R0, RZ, PT", 13, waits=(0,)),
        entry("@!P0 SYNCS.EXCH.64 URZ, [UR4], UR6", 4), entry("BAR.SYNC.DEFER_BLOCKING 0x0", 5),
        entry("@P0 BRA `(.L_x_1)", 5), entry("MOV R2, RZ", 4),
        entry("SYNCS.PHASECHK.TRANS64.TRYWAIT P1, [UR4], R2", 2, writes=1), entry("@!P1 BRA `(.L_x_2)", 5, waits=(1,)),
        entry("FADD R9, R9, R8"), EXIT, entry(".L_x_1:"), *[entry("MUFU.EX2 R4, R5", 8)] * 20,
        entry("SYNCS.ARRIVE.TRANS64.A1T0 RZ, [UR4], RZ", 4), entry(".L_x_2:"), EXIT,
    ]  # fmt: skip


def test_a_warp_waits_for_the_arrivals_at_an_mbarrier() -> None:
    _, issued = run(code(*arrival(1)), 2)
    arrived = cycles_of(issued, "SYNCS.ARRIVE", 1)[0]
    assert cycles_of(issued, "FADD") == [pytest.approx(arrived + 15 + 28, abs=6)]


def test_a_wait_for_what_never_comes_is_a_deadlock_that_names_the_instruction() -> None:
    with pytest.raises(Deadlock, match=r"warp 0 at .*@!P1 BRA"):
        run(code(*arrival(2)), 2)
