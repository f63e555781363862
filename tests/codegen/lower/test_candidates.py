"""Promises of `twill.codegen.lower.candidates`: every way to lower a schedule, the best predicted first, tried in one
loop that says what became of each."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.golden_schedules import Example, kernel, machine, schedule
from tests.kernels import H100
from tests.lowered import scheduled
from tests.tile_programs import Programs, gemm
from twill import exc
from twill.codegen.lower.candidates import (
    Attempt,
    CandidateRefusal,
    Cost,
    LoweringCandidate,
    candidates,
    main_loop,
    search,
)
from twill.codegen.lower.direct import direct_schedule, load_cycles
from twill.codegen.lowering import lower
from twill.tile.affine import Polynomial
from twill.tile.program import TileProgram

FAST, SLOW = Cost(512, 100), Cost(512, 200)
FIRST, LEAN = LoweringCandidate(FAST), LoweringCandidate(FAST, registers=False)
OTHER = LoweringCandidate(SLOW, ping_pong=True)


def full() -> exc.SharedMemoryFull:
    return exc.SharedMemoryFull("too many bytes")


def spills(stored: int = 0) -> exc.BuildRejected:
    return exc.BuildRejected("spill", "it spills", SimpleNamespace(spill_stores=stored) if stored else None)


class Player:
    """Plays lowering: the outcomes of the candidates in the order in which they are tried."""

    def __init__(self, *outcomes: str | CandidateRefusal | exc.CandidateRefused) -> None:
        self.outcomes = list(outcomes)
        self.tried: list[LoweringCandidate] = []

    def __call__(self, candidate: LoweringCandidate) -> str | CandidateRefusal:
        self.tried.append(candidate)
        outcome = self.outcomes.pop(0)
        if isinstance(outcome, exc.CandidateRefused):
            raise outcome
        return outcome


def verdicts(attempts: list[Attempt]) -> list[str]:
    return [attempt.verdict.split(":")[0] for attempt in attempts]


def test_the_first_candidate_that_is_not_refused_is_taken_and_every_one_is_recorded() -> None:
    play, seen = Player(CandidateRefusal("no second group"), "made"), list[Attempt]()
    assert search((OTHER, FIRST, LEAN), play, seen.append) == "made"
    assert play.tried == [OTHER, FIRST]
    assert [attempt.candidate for attempt in seen] == [OTHER, FIRST, LEAN]
    assert verdicts(seen) == ["refused", "taken", "not tried"]
    assert "refused: no second group" in str(seen[0])


def test_what_the_compiler_refuses_is_tried_with_less_and_at_last_with_what_is_predicted_slower() -> None:
    play, seen = Player(spills(), spills(), "made"), list[Attempt]()
    assert search((FIRST, LEAN, OTHER), play, seen.append) == "made"
    assert play.tried == [FIRST, LEAN, OTHER]
    assert verdicts(seen) == ["refused", "refused", "not tried", "taken"]


def test_one_warp_group_that_spills_is_tried_with_fewer_ctas_before_anything_is_solved_again() -> None:
    many, few = (LoweringCandidate(Cost(512, 1000 / ctas), ctas, direct=True) for ctas in (8, 4))
    play, seen = Player(spills(), "made"), list[Attempt]()
    assert search((many, few, OTHER), play, seen.append, roomier=lambda rejected: (FIRST,)) == "made"
    assert play.tried == [many, few]


def test_what_spills_is_tried_again_only_with_more_registers_of_a_thread() -> None:
    given = [(8, 64), (7, 64), (6, 80), (5, 96)]  # CTAs, and registers that each of their threads may have
    made = [LoweringCandidate(Cost(512, 1000 / n), n, direct=True, limit=limit) for n, limit in given]
    many, same, more, few = made
    for stored, tried in ((0, [many, more]), (4 * 32 * 15, [many, more]), (4 * 32 * 16, [many, few])):
        play, seen = Player(spills(stored), "made"), list[Attempt]()
        assert search(made, play, seen.append) == "made"
        assert play.tried == tried
        assert verdicts(seen)[:2] == ["refused", "not tried"]
    shared = Player(full(), "made")  # fewer CTAs have more of it
    assert search((many, same), shared) == "made" and shared.tried == [many, same]


def test_what_exceeds_shared_memory_is_not_tried_with_fewer_registers() -> None:
    play, seen = Player(full(), "made"), list[Attempt]()
    assert search((FIRST, LEAN, OTHER), play, seen.append) == "made"
    assert play.tried == [FIRST, OTHER]
    assert verdicts(seen) == ["refused", "not tried", "taken"]


def test_the_last_error_is_the_answer_if_every_candidate_is_refused() -> None:
    with pytest.raises(exc.SharedMemoryFull, match="too many bytes"):
        search((OTHER, FIRST), Player(CandidateRefusal("no second group"), full()))


def test_an_error_that_no_candidate_mends_ends_the_search() -> None:
    def attempt(candidate: LoweringCandidate) -> str:
        raise exc.UnsupportedInKernel("never")

    seen: list[Attempt] = []
    with pytest.raises(exc.UnsupportedInKernel):
        search((FIRST, LEAN), attempt, seen.append)
    assert not seen


def test_candidates_come_in_the_order_of_their_predicted_cost() -> None:
    program = gemm()
    given = scheduled(program)
    found = candidates(program, given, H100)
    assert [c.cost for c in found] == sorted(c.cost for c in found) and len(set(found)) == len(found)
    loop = main_loop(given)
    turns, alone = (next(c for c in found if c.ping_pong == wanted) for wanted in (True, False))
    assert turns.cost == Cost(loop.ii, (loop.length - loop.ii) / 2)
    assert alone.cost == Cost(loop.ii, loop.length - loop.ii)


def test_ctas_that_share_an_sm_begin_iterations_as_often_as_the_busiest_unit_allows(at_root: object) -> None:
    example = Example("examples/layer_norm.py", "bf16")
    given = schedule(example)
    found = candidates(kernel(example).program, given, machine())
    for direct in (True, False):
        loop = main_loop(direct_schedule(given) if direct else given)
        least = max(loop.certificate.bounds.resource, load_cycles(given, machine()) if direct else 0)
        for candidate in (candidate for candidate in found if candidate.direct == direct):
            assert candidate.cost.interval == max(loop.ii / candidate.ctas, least)
    assert {candidate.ctas for candidate in found if not candidate.direct} == {1, 2, 3, 4}
    assert not any(candidate.ping_pong or candidate.switches for candidate in found)


def test_each_choice_is_what_is_lowered(at_root: object) -> None:
    example = Example("examples/gemm.py", "bf16")
    seen: list[Attempt] = []
    made = lower(kernel(example).program, schedule(example), machine(), record=seen.append)
    taken = seen[0].candidate
    assert taken.ping_pong and sum(not group.issuer for group in made.groups) == 2
    assert made.ctas == taken.ctas == 1


def rescaled() -> TileProgram:
    """A GEMM whose sum is halved in every iteration."""
    p = Programs()
    trips, m = p.argument("trips"), Polynomial.symbol(p.op("program_id", axis=0)) * 64
    zeros = p.constant(0.0, (64, 64), "f32")
    with p.loop(trips, [zeros]) as k:
        a = p.load("A", (64, 64), at=(m, k.i * 64), name="a")
        b = p.load("B", (64, 64), at=(k.i * 64, 0), name="b")
        half = p.op("mul", k.carried[0], p.constant(0.5, (64, 64), "f32"), name="half")
        k.yields = [p.dot(a, b, half, name="acc")]
    p.store("C", p.op("cast", k.results[0], element="f16", name="c"), at=(m, 0))
    return p.done()


def test_ping_pong_is_refused_where_a_loop_does_more_than_multiply() -> None:
    program, seen = rescaled(), list[Attempt]()
    assert sum(not group.issuer for group in lower(program, scheduled(program), H100, record=seen.append).groups) == 1
    first = seen[0]
    assert first.candidate.ping_pong and "do more than multiply" in first.verdict
    assert [attempt.candidate.ping_pong for attempt in seen if attempt.verdict == "taken"] == [False]
