"""Faults of printer and headers are found by executing the PTX: some of each kind, on small kernels."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests import printer_survey
from tests.printer_edits import mutated, printed, source
from tests.printer_mutations import (
    EXTREMES,
    FULL,
    INTEGERS,
    K64,
    LIBRARY,
    MUTATIONS,
    N32,
    N64,
    ROWS,
    SCATTERED,
    Mutation,
)  # fmt: skip
from tests.printer_survey import FOUND, MISSED, Line, case, ended_after, rest, table, tried
from twill.codegen.print.cuda.printer import print_cuda

NOTHING = "fence or wait that does nothing"
CHOSEN = (
    ("swizzle", "128 bytes", K64),
    ("swizzle", "64 bytes", N64),
    ("swizzle", "32 bytes", N32),
    ("descriptor", "strides exchanged", N64),
    ("descriptor", "modes of 64 and 32 bytes exchanged", N32),
    *((NOTHING, name, N64) for name in ("wgmma fence", "wgmma commit", "wgmma wait", "proxy fence", "bulk commit",
                                        "bulk wait", "bulk wait for reads", "mbarrier")),
    ("parity", "ring of two slots", FULL),
    ("parity", "longer ring", N32),
    ("bytes and arrivals", "half of the bytes", N32),
    ("who does it", "all but the elected", N32),
    ("coordinates of boxes", "two exchanged", N32),
    ("halves and order of registers", "pair of bf16", N32),
    ("row or column of a fragment", "columns of lanes", N32),
    ("reduction", "register of a row", ROWS),
    ("reduction", "every second register", ROWS),
    ("constants", "log2(e)", K64),
    ("rounding", "bf16 towards zero", N32),
    ("signs and comparisons", "unsigned comparison as signed", INTEGERS),
    ("signs and comparisons", "unsigned shift as signed", INTEGERS),
    ("guards", "an iteration less", N32),
    ("tile scheduler", "columns of a band", N32),
    ("library", "rint for round", LIBRARY),
    ("eight bits", "infinity of e5m2 as the largest number", LIBRARY),
    ("atomics", "signed maximum of unsigned numbers", EXTREMES),
    ("data as addresses", "conditions of tiles left out", SCATTERED),
)  # fmt: skip


def chosen() -> list[Mutation]:
    """Those of CHOSEN, each in the smallest program that shows it."""
    of = {(m.kind, m.name): m for m in MUTATIONS}
    return [replace(of[kind, name], programs=(program,)) for kind, name, program in CHOSEN]


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
