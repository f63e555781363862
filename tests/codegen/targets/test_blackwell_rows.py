"""Promises about all kernels for the B200 together: each is executed, and there is a table of what is known of them."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import (
    blackwell,
    blackwell_attention,
    blackwell_kept,
    blackwell_table,
    blackwell_times,
    sentry,
    tool_survey,
)
from tests.blackwell import GEMM
from tests.blackwell_rows import MULTICAST as LOADED_TOGETHER
from tests.blackwell_rows import ROWS, Row
from tests.blackwell_table import Known, executed, table
from tests.codegen.targets import (
    test_blackwell,
    test_blackwell_attention,
    test_blackwell_formats,
    test_blackwell_halves,
    test_blackwell_pairs,
    test_blackwell_scales,
)
from tests.conftest import ROOT
from tests.gpu.blackwell_steps import DYNAMIC, MULTICAST, PAIR, STEPS, TILES

pytestmark = pytest.mark.usefixtures("at_root")
RESULTS = ROOT / "benchmarks" / "results" / "blackwell-2026-11-29.jsonl"


def elsewhere() -> Iterator[str]:
    """Names of the rows that tests of a kind of kernels execute."""
    formats = test_blackwell_formats.SIZES
    for example in (*test_blackwell.SIZES, *test_blackwell_scales.SIZES, *test_blackwell_halves.SIZES, *formats):
        yield f"{Path(example.file).name} {example.spec}"
    for example in (*test_blackwell_pairs.SIZES, *test_blackwell_scales.PAIRS):
        if not example.file.startswith("examples/"):
            continue
        yield f"{example.file.removeprefix('examples/')} {example.spec}, pairs"
    yield from (row.name for row in LOADED_TOGETHER)
    for one in test_blackwell_attention.KEYS:
        yield f"attention.py {one.spec}, {one.rows} rows"


REST = [row for row in ROWS if row.name not in {*elsewhere()}]


@pytest.mark.parametrize("row", REST, ids=[row.name for row in REST])
def test_what_no_other_test_executes_computes_its_tile_program(row: Row) -> None:
    assert executed(row) == []


def test_each_row_is_one_kernel_and_each_kernel_that_is_executed_has_a_row() -> None:
    names = [row.name for row in ROWS]
    assert len(set(names)) == len(names) and {*elsewhere()} <= set(names)


# ---------------------------------------------------------------- the first hour on a board


def on_a_board(row: Row) -> str:
    """What `tests.gpu.blackwell` calls the kernel of a row."""
    name = row.name.replace(".py ", "-").replace(", pairs", PAIR).replace(", multicast", MULTICAST)
    name = name.replace(", 128 rows", "").replace(", 256 rows", "@256").replace(", D = ", "@d")
    return f"{name}@32" if "d256" in name else name


def test_the_first_hour_on_a_board_has_every_kernel_at_sizes_that_it_can_have() -> None:
    rows = {on_a_board(row): row for row in ROWS}
    assert {step.kernel for step in STEPS} == {"", f"gemm-bf16{DYNAMIC}", *rows}
    for step in STEPS[1:]:
        problem = blackwell_table.problem(rows[step.kernel.removesuffix(DYNAMIC)])
        assert math.prod(problem.case(dict(step.sizes)).grid) > 0
    assert len({step.name for step in STEPS}) == len(STEPS)
    assert STEPS[0].kind == "loads" and STEPS[-1].kind == "times"


def test_tiles_of_the_board_are_those_of_the_rows() -> None:
    two = (blackwell_attention.FULL_TWO, blackwell_attention.CAUSAL_TWO)
    for one in (*two, blackwell_attention.FULL_256, blackwell_attention.CAUSAL_256):
        name = f"attention-{one.spec}@{one.rows if one.depth < 256 else one.keys}"
        assert TILES[name] == (one.signature, one.constants)
    for kept in (blackwell_kept.BACKWARD_64, blackwell_kept.BACKWARD_CAUSAL_64):
        assert TILES[f"attention_backward-{kept.spec}@d64"] == blackwell_kept.given(kept)
    for kept in (blackwell_kept.ANY_LENGTH, blackwell_kept.ANY_LENGTH_CAUSAL):
        assert TILES[f"attention_any_length-{kept.spec}@d128"] == blackwell_kept.given(kept)


# ---------------------------------------------------------------- what others say


def product(k: int, change: str = "", by: str = "") -> str:
    """What SentryWard says of C = A B. change: of the text."""
    row = next(row for row in ROWS if row.name == "gemm.py bf16")
    assert row.reference is not None
    text, entry, launch = blackwell_table.asked(row, {"M": 128, "N": 128, "K": k})
    wrong, changes = re.subn(change, by, text) if change else (text, 0)
    assert bool(change) == bool(changes)
    found = sentry.equal(wrong, entry, launch, row.reference.text, row.reference.inputs, row.reference.output)
    return str(found["result"])


def test_others_prove_that_a_gemm_whose_rings_come_round_twice_is_race_free_and_pytorchs_product() -> None:
    assert product(832) == "verified"


def test_others_do_not_prove_it_of_a_step_along_k_that_reads_the_last_ones_operands() -> None:
    assert product(64, r"add\.s64 (\s*%rd\d+, %rd\d+), 2;", r"add.s64 \1, 0;") == "equivalence_not_proven"


# ---------------------------------------------------------------- tables


def test_the_table_in_the_documents_is_that_of_the_record() -> None:
    known = blackwell_table.read(RESULTS)
    assert {row.name for row in ROWS} == set(known)
    made = table([known[row.name] for row in ROWS])
    assert made in (ROOT / "docs" / "blackwell.md").read_text(encoding="utf-8")
    assert all(one.consents == "consents" and one.executed == "equal" for one in known.values())
    assert not any(one.spills for one in known.values())


def test_a_row_of_the_table_says_what_is_not_proven_and_nothing_of_what_has_no_products() -> None:
    line = RESULTS.read_text(encoding="utf-8").splitlines()[0]
    one = Known(**{**json.loads(line), "proven": False, "predicted": 0.0})
    assert f"{one.ii}, not proven |  |" in table([one])


def test_a_text_is_the_same_whatever_the_lines_of_the_headers() -> None:
    one, moved, other = (
        f"\tadd.s32 %r1, %r2, {n};\n\t.loc\t3 {line} 5\n\tret;\n" for n, line in ((1, 7), (1, 8), (2, 7))
    )
    assert blackwell_table.digest_of(one) == blackwell_table.digest_of(moved) != blackwell_table.digest_of(other)


def test_two_cores_compile_and_verify_at_once() -> None:
    nothing = {"loading": 0.0, "program order": 0.0, "solving": 0.0, "all": 10.0}
    assert blackwell_times.way({**nothing, "NVRTC": 2.0, "abstract machine": 4.0}) == 4.0 + 3.0
    assert blackwell_times.way({**nothing, "NVRTC": 3.0, "abstract machine": 1.0}) == 6.0 + 3.0


@pytest.mark.parametrize(("solving", "behind"), [(2.0, 2.0), (0.5, 1.0)])
def test_a_solve_is_beside_the_loading_of_what_follows_it(solving: float, behind: float) -> None:
    phases = {"NVRTC": 0.0, "abstract machine": 0.0, "loading": 0.75, "program order": 0.25, "solving": solving}
    assert blackwell_times.way({**phases, "all": 4.0 + solving + 1.0}) == 4.0 + behind


LINES = [
    tool_survey.Line("gemm", 0, "dropped Get", "order", "order"),
    tool_survey.Line("gemm", 1, "dropped Get", "phase", tool_survey.NOT_ASKED),
    tool_survey.Line("gemm", 2, "dropped Get", tool_survey.NOTHING, "values"),
    tool_survey.Line("gemm", 3, "dropped Fill", tool_survey.NOTHING, tool_survey.NOTHING),
    tool_survey.Line("gemm", 4, "dropped Fill", "values", tool_survey.NOTHING),
]


def test_the_table_of_tools_counts_who_finds_what() -> None:
    assert "| gemm | 5 | 3 | 4 | 2 | 4 | 1 | 1 | 75.0 % |" in tool_survey.table(LINES)
    assert "| dropped Get | 3 | order 1, phase 1 | order 1, values 1 | 0 |" in tool_survey.classes(LINES)


def test_a_faulty_warp_program_is_printed_compiled_and_executed() -> None:
    row = next(row for row in ROWS if row.name == "gemm.py bf16")
    launch = blackwell_table.given(row, {"M": 128, "N": 16, "K": 72})
    case = tool_survey.Case(
        row.lowered(), row.kernel().specialization, blackwell.schedule(GEMM), blackwell.machine(), launch, 1
    )
    role, change, _ = test_blackwell.FAULTS["it always adds"]
    assert tool_survey.executed(case, case.program) == tool_survey.NOTHING
    assert tool_survey.executed(case, test_blackwell.changed(case.program, role, change)) == "values"
