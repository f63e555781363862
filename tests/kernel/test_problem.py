"""Promises of `twill.kernel.problem`: sizes -> grid, shapes, scalars; what is wrong is said with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import ROOT
from twill.exc import MalformedSidecar, TomlUnknownKey, TomlWrongType
from twill.kernel.problem import ProblemTable, evaluate
from twill.kernel.sidecar import read_sidecar

TEXT = """kernel = "k"
[[specialization]]
name = "one"
grid = ["cdiv(M, BLOCK)", "2"]
signature = { x = "*bf16:16", y = "tensordesc<bf16[64]>", M = "i32:16", N = "i32", stride = "i64", scale = "fp32" }
[specialization.constexprs]
BLOCK = 128
dtype = "tl.bfloat16"
[specialization.problem]
units = { M = 16, N = "BLOCK // 2" }
tensors = { x = ["M", "N"], y = ["M * 2"] }
scalars = { stride = "N", scale = "1 / sqrt(stride)" }
run = [{ M = 48, N = 64 }]
"""


def problem(path: Path, text: str = TEXT) -> ProblemTable:
    (path / "k.twill.toml").write_text(text)
    sidecar = read_sidecar(str(path / "k.py"))
    assert sidecar is not None
    found = sidecar.tables[0].problem
    assert found is not None
    return found


def test_a_case_has_grid_shapes_and_scalars(tmp_path: Path) -> None:
    case = problem(tmp_path).case({"M": 272, "N": 64})
    assert case.grid == (3, 2)
    assert case.shapes == {"x": (272, 64), "y": (544,)}
    assert case.scalars == {"M": 272, "N": 64, "stride": 64, "scale": 0.125}


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("M = 48", "M = 40", "M = 40"),
        ("M = 48, ", "", "no value for the size M"),
        ("M = 48", "M = 48, K = 2", "K is no size"),
        ('"M * 2"', '"M * P"', "nothing is called P"),
        ('"M * 2"', '"M if N else 2"', "is not arithmetic"),
        ('"N", scale', '"N +", scale', "not an expression"),
        ('"N", scale', '"N // 0", scale', "problem"),
        (', scale = "1 / sqrt(stride)"', "", "the argument scale has no value"),
        ('stride = "N", scale = "1 / sqrt(stride)"', "scale = 2", "the argument stride has no value"),
        ('x = ["M", "N"], ', "", "the tensor x has no shape"),
        (', y = ["M * 2"]', "", "the tensor y has no shape"),
    ],
)
def test_mistakes_name_file_and_line(tmp_path: Path, before: str, after: str, words: str) -> None:
    with pytest.raises(MalformedSidecar, match=words) as caught:
        problem(tmp_path, TEXT.replace(before, after))
    assert caught.value.file.endswith("k.twill.toml") and caught.value.line == 9


def test_unknown_keys_and_wrong_types_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TomlUnknownKey):
        problem(tmp_path, TEXT.replace("run =", "runs ="))
    with pytest.raises(TomlWrongType):
        problem(tmp_path, TEXT.replace("M = 16", "M = true"))


def test_expressions() -> None:
    assert evaluate("cdiv(n, 4) * -2 + 2 ** 3 % 5", {"n": 9}) == -3
    for text in ("__import__('os')", "n.x", "f(1)", "'a'", "True", "max(x=1)"):
        with pytest.raises(ValueError):
            evaluate(text, {"n": 9})


@pytest.mark.parametrize("file", sorted((ROOT / "examples").glob("*.py")), ids=lambda file: file.stem)
def test_every_example_says_its_sizes(file: Path) -> None:
    sidecar = read_sidecar(str(file))
    assert sidecar is not None
    for table in sidecar.tables:
        assert table.problem is not None and table.problem.run and table.problem.bench
        for sizes in (*table.problem.run, *table.problem.bench):
            case = table.problem.case(sizes)
            assert case.grid and all(case.grid)
            tensors = {name for name, kind in table.signature.items() if kind.startswith(("*", "tensordesc"))}
            assert set(case.shapes) == tensors
            assert set(table.signature) <= tensors | set(case.scalars)


def test_other_constants_have_other_units_and_grids(tmp_path: Path) -> None:
    wide = problem(tmp_path).with_constants({"BLOCK": 256, "dtype": "tl.bfloat16"})
    assert wide.unit("N") == 128
    assert wide.case({"M": 272, "N": 128}).grid == (2, 2)


def test_dimensions_and_counts_may_be_numbers_as_they_are(tmp_path: Path) -> None:
    text = TEXT.replace('"cdiv(M, BLOCK)", "2"', '"cdiv(M, BLOCK)", 2').replace('["M", "N"]', '["M", 64]')
    case = problem(tmp_path, text).case({"M": 48, "N": 64})
    assert case.shapes["x"] == (48, 64) and case.grid == (1, 2)


@pytest.mark.parametrize(
    ("units", "what"),
    [
        ('{ M = "N", N = 16 }', 'the unit of M, "N": nothing is called N\n.*units are known before any size is.*BLOCK'),
        ("{ M = 0, N = 16 }", "the unit of M is 0"),
    ],
)
def test_fail_a_unit_of_sizes_or_of_nothing(tmp_path: Path, units: str, what: str) -> None:
    with pytest.raises(MalformedSidecar, match=what):
        problem(tmp_path, TEXT.replace('{ M = 16, N = "BLOCK // 2" }', units))
