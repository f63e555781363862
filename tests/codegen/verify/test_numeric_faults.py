"""Promises of the abstract machine about what programs compute: what is a little wrong everywhere is found as well as
what is very wrong somewhere. All faults in all examples: `python -m tests.survey`."""

from __future__ import annotations

import shutil
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.golden_schedules import Example, kernel, machine, schedule
from tests.kernels import H100
from tests.lowered import scheduled
from tests.mutations import Mutant, mutants
from tests.printer_mutations import INTEGERS
from tests.printer_survey import lowered as heuristic
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract_machine import Trial, trials, verify
from twill.codegen.warp.program import Compute, If, WarpProgram
from twill.tile.rewrite import rescale_analysis

pytestmark = pytest.mark.usefixtures("at_root")

CLASSES = [
    ("gemm", "bf16", "condition off by one", 4),
    ("gemm", "bf16", "stored half a percent too large", 2),
    ("layer_norm", "bf16", "condition off by one", 7),
    ("layer_norm", "bf16", "stored half a percent too large", 3),
    ("gemm_bias_gelu", "bf16", "function a little off", 2),
    ("gemm_bias_gelu", "bf16", "wrong constant", 2),
    ("attention", "full-d256", "stored half a percent too large", 8),
    ("attention", "full-d256", "accumulator rounded", 2),
    ("attention", "full-d256", "rescale left out", 2),
    ("attention", "full-d256", "wrong base", 4),
]  # fmt: skip


@cache
def lowered(file: str, spec: str) -> tuple[WarpProgram, tuple[Trial, ...]]:
    example = Example(f"examples/{file}.py", spec)
    program = lower(kernel(example).program, schedule(example), machine())
    return program, trials(program)


def counts(mutant: Mutant) -> bool:
    """Whether a mutant is one for sure: in a prologue nothing was there before that could be rescaled, and a step has
    one value only; what seldom holds may as well hold once more."""
    assert mutant.place is not None
    rare = isinstance(mutant.place.stmt, If) and mutant.place.stmt.rare
    return not rare and not {"prologue", "epilogue"} & {name for name, _ in mutant.place.path}


@pytest.mark.parametrize(("file", "spec", "kind", "least"), CLASSES)
def test_every_fault_of_a_class_is_found(file: str, spec: str, kind: str, least: int) -> None:
    program, given = lowered(file, spec)
    made = [mutant for mutant in mutants(program) if mutant.kind == kind and counts(mutant)]
    assert len(made) >= least
    for mutant in made:
        assert verify(mutant.program, given=given, enough=1), mutant.place


def test_wrong_signedness_is_found_where_numbers_have_the_upper_bit() -> None:
    """Of `tests/printer_kernels.py::integers`: a remainder, a shift, a comparison, two conversions. The other
    faults of the class are none: a quotient that is taken where x >= 0, what is masked to 3 bits or cut to 8 anyway."""
    program = heuristic(INTEGERS)
    given = trials(program)
    made = [mutant for mutant in mutants(program) if mutant.kind == "wrong signedness"]
    found = [mutant for mutant in made if verify(mutant.program, given=given, enough=1)]
    kinds = [one.place.stmt.kind for one in found if one.place is not None and isinstance(one.place.stmt, Compute)]
    assert sorted(kinds) == ["cast", "cast", "compare", "rem", "shr"]
    assert len(made) == 9


def test_faults_in_blocks_without_a_mask_are_found_where_a_window_has_masks_at_both_ends() -> None:
    """Such blocks are few unless the sequence is longer than the window; and where a maximum moves in one of them,
    what was summed up before must not be lost among what follows."""
    program, given = lowered("sliding_window_attention", "bf16")
    made = [mutant for mutant in mutants(program) if mutant.place is not None
            and "otherwise" in {name for name, _ in mutant.place.path}]  # fmt: skip
    rounded = [one for one in made if one.kind == "accumulator rounded"]
    moved = [one for one in made if one.kind == "wrong base" and result_of(program, one).startswith("alpha")]
    assert len(rounded) == len(moved) == 2
    for mutant in rounded + moved:
        assert verify(mutant.program, given=given, enough=1), mutant.place


def test_roundings_are_counted_where_sums_are_of_many_numbers() -> None:
    """Of large floats a softmax leaves one for each row: then an accumulator is a bf16 anyway."""
    program, given = lowered("attention_any_length", "causal")
    (own,) = (trial for trial in given if len(trial.references) > 1)
    assert own.launch.scale == 1
    made = [mutant for mutant in mutants(program) if mutant.kind == "accumulator rounded" and mutant.place is not None
            and mutant.place.group == 0]  # fmt: skip
    assert len(made) == 2
    for mutant in made:
        assert verify(mutant.program, given=[own], enough=1), mutant.place


def result_of(program: WarpProgram, mutant: Mutant) -> str:
    """The name of what a mutant's statement computes."""
    assert mutant.place is not None and isinstance(mutant.place.stmt, Compute)
    return program.groups[mutant.place.group].fragment(mutant.place.stmt.result).name


def test_a_wrong_law_of_the_conditional_rescale_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that stores its running maximum must not have a lazy one; were it lazy, results would tell."""
    source = (ROOT / "examples" / "attention.py").read_text(encoding="utf-8")
    assert source.count("lse = m_i + tl.math.log2(l_i)") == 1
    path = tmp_path / "attention.py"
    path.write_text(source.replace("lse = m_i + tl.math.log2(l_i)", "lse = m_i"), encoding="utf-8")
    shutil.copy(ROOT / "examples" / "attention.twill.toml", tmp_path)
    right = extract(str(path), "full-d64")
    assert not right.rescale_report.conditional and "it is stored" in right.rescale_report.said()[0]
    monkeypatch.setattr(rescale_analysis, "EFFECTS", frozenset())
    wrong = extract(str(path), "full-d64")
    assert wrong.rescale_report.conditional
    (found,) = verify(lower(wrong.program, scheduled(wrong.program, 2), H100), enough=1)[:1]
    assert found.rule == "values" and found.message.startswith("LSE differs")
