"""Faults of printer and headers are found by executing the PTX: some of each kind, on small kernels."""

from __future__ import annotations

import pytest

from tests import printer_survey
from tests.printer_edits import mutated, printed, source
from tests.printer_mutations import MUTATIONS, N32, Mutation
from tests.printer_survey import FOUND, MISSED, Line, case, ended_after, rest, table, tried
from twill.codegen.print.cuda.printer import print_cuda

CHOSEN = (
    ("swizzle", "32 bytes"),
    ("descriptor", "modes of 64 and 32 bytes exchanged"),
    ("fence or wait that does nothing", "mbarrier"),
    ("parity", "longer ring"),
    ("bytes and arrivals", "half of the bytes"),
    ("who does it", "all but the elected"),
    ("coordinates of boxes", "two exchanged"),
    ("halves and order of registers", "pair of bf16"),
    ("row or column of a fragment", "columns of lanes"),
    ("rounding", "bf16 towards zero"),
    ("guards", "an iteration less"),
    ("tile scheduler", "columns of a band"),
)


def chosen() -> list[Mutation]:
    """Of the kinds of CHOSEN, in the smallest of all programs."""
    of = {(m.kind, m.name): m for m in MUTATIONS}
    return [Mutation(m.name, m.kind, m.file, m.old, m.new, (N32,)) for m in (of[key] for key in CHOSEN)]


@pytest.mark.parametrize("mutation", chosen(), ids=lambda m: f"{m.kind}-{m.name}")
def test_a_fault_is_found_without_a_gpu(mutation: Mutation) -> None:
    line = tried(mutation)
    assert line.verdict == FOUND and line.by, line


def test_every_fault_can_be_made_and_has_a_name_of_its_own() -> None:
    for mutation in MUTATIONS:
        assert mutated(mutation) != source(mutation.file)
        assert mutation.programs
    assert len({(m.kind, m.name) for m in MUTATIONS}) == len(MUTATIONS) >= 150


def test_faults_are_made_on_a_copy() -> None:
    program, fault = case(N32).program, next(m for m in MUTATIONS if m.file == "print_shared.py")
    right = print_cuda(program).text
    assert printed(program, fault)[0].text != right == printed(program)[0].text
    assert print_cuda(program).text == right


def test_what_does_not_end_is_found() -> None:
    with pytest.raises(TimeoutError), ended_after(0.05):
        while True:
            pass


def test_the_table_counts_what_was_found_and_names_the_rest() -> None:
    made = MUTATIONS[:3]
    verdicts = (FOUND, FOUND, MISSED)
    lines = [Line(m.kind, m.name, "gemm", v, "values") for m, v in zip(made, verdicts, strict=True)]
    assert f"| {made[0].kind} | 3 | 2 | values 2 |" in table(lines)
    assert f"missed: {made[2].kind}, {made[2].name} (gemm)" in rest(lines)
    assert not printer_survey.settled(lines)  # made in no text of today
