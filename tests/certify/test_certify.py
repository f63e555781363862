"""Initiation intervals of the examples that no bound excludes are excluded by proofs."""

from __future__ import annotations

import pytest

from tests.conftest import GOLDEN, ROOT
from tests.golden_schedules import MACHINE
from twill.certify.certify import certify
from twill.certify.claims import behind, smaller
from twill.certify.prover import prove
from twill.certify.question import Question
from twill.certify.statement import Statement
from twill.certify.verify import verify
from twill.graph.cooperation import cooperations
from twill.graph.cost import cost
from twill.graph.extract import extract
from twill.machine.file import load_machine
from twill.schedule.file import load_schedule
from twill.solve.pipeline import main_region
from twill.zlp.bounds import lower_bounds

EXAMPLES = ROOT / "examples"


@pytest.mark.parametrize(
    ("machine", "wanted", "last"),
    [
        ("b200", (1, 2, "shared"), 2353),  # the best schedule has I = 2354; the bound is 2064
        ("h100", (1, 1, "register"), 3368),  # in one row block, the best schedule has I = 3369; the bound is 2048
    ],
)
def test_the_gap_between_the_bound_and_the_best_schedule_of_attention_is_closed(
    machine: str, wanted: tuple[int, int, str], last: int
) -> None:
    described = load_machine(machine)
    _, graph = extract(str(EXAMPLES / "attention.py"), spec="full")
    region = main_region(graph)
    chosen = next(c for c in cooperations(graph, region, described) if (c.split, c.fuse, c.operand_a) == wanted)
    costed = cost(graph, region, described, chosen)
    question = Question(ii=lower_bounds(costed, described).best, ii_to=last)
    proof = prove(Statement(costed, described, question))
    assert proof is not None
    assert verify(proof, Statement(costed, described, question)) > 10
    assert prove(Statement(costed, described, question.model_copy(update={"ii_to": last + 1}))) is None


def test_a_lower_bound_between_bound_and_schedule_is_proven() -> None:
    """The kept schedule has I = 1400; that none has I < 1035 is what a longer search says, and the bound is 1032."""
    schedule = load_schedule(GOLDEN / "schedules" / "attention_full-d64.json")
    (loop,) = schedule.loops
    listed = loop.certificate.model_copy(update={"lower_bound": 1035})
    loops = (loop.model_copy(update={"certificate": listed}),)
    schedule = schedule.model_copy(update={"certificate": listed, "loops": loops})
    certified = certify(schedule, load_machine(MACHINE))
    (proven,) = certified.document.proven
    assert (proven.question.ii, proven.question.ii_to) == (1032, schedule.certificate.lower_bound - 1)
    assert not certified.document.agreed and not certified.document.claimed


def test_what_is_not_proven_minimal_is_not_claimed() -> None:
    loop = load_schedule(GOLDEN / "schedules" / "attention_full.json").loops[0]
    assert list(smaller(loop)) == list(range(1, 2048))
    assert [name for name, _ in behind(loop, 8)] == ["copies", "crossing"]
    less = loop.model_copy(update={"objective": loop.objective.model_copy(update={"proven": ("ii", "copies")})})
    assert [question.words() for _, question in behind(less, 8)] == ["I = 2048, length <= 4096"]
