"""The table of docs/comparing-strategies.md is made from recorded results, between its two marks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.compare import BEGIN, DOCUMENT, END, main
from benchmarks.solve import subjects
from tests.conftest import ROOT
from tests.golden_schedules import BLACKWELL_ALONE

RESULTS = sorted((ROOT / "benchmarks" / "results").glob("compare-*.json"))


def test_a_comparison_is_measured_and_put_between_the_marks(tmp_path: Path) -> None:
    page, out = tmp_path / "page.md", tmp_path / "compare.json"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n", encoding="utf-8")
    asked = ["--examples", "gemm_bias_gelu:bf16", "--machines", "b200", "--budget", "60"]
    assert main([*asked, "--out", str(out), "--document", str(page)]) == 0
    text = page.read_text(encoding="utf-8")
    assert text.startswith(f"before\n{BEGIN}\n") and text.endswith(f"{END}\nafter\n")
    assert "old" not in text
    assert "| gemm_bias_gelu:bf16 | b200 | 341, 2098, 3, 48 | ~" in text
    again = tmp_path / "again.md"
    again.write_text(f"{BEGIN}{END}", encoding="utf-8")
    assert main(["--from", str(out), "--document", str(again)]) == 0
    assert again.read_text(encoding="utf-8").strip() in text


def test_what_was_not_found_and_what_is_not_proven_is_said(tmp_path: Path) -> None:
    found = json.loads(RESULTS[-1].read_text(encoding="utf-8"))
    row = found["rows"][0]
    cells = {listed["strategy"]: listed for listed in row["rows"]}
    cells["paper"].update(figures=None, seconds=found["budget_seconds"] + 1)
    cells["none"].update(figures=None, seconds=0.0)
    cells["joint"]["figures"].update(proven="none", cycles_per_instance=77.0)
    source, page = tmp_path / "found.json", tmp_path / "page.md"
    source.write_text(json.dumps({**found, "rows": [row]}), encoding="utf-8")
    page.write_text(f"{BEGIN}{END}", encoding="utf-8")
    assert main(["--from", str(source), "--document", str(page)]) == 0
    line = page.read_text(encoding="utf-8").splitlines()[-3]
    assert "| 77*," in line
    assert f"| none in {found['budget_seconds']:g} s |" in line
    assert line.endswith("| none |")


def test_the_document_has_the_table_of_the_newest_results(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(DOCUMENT.read_text(encoding="utf-8"), encoding="utf-8")
    assert main(["--from", str(RESULTS[-1]), "--document", str(page)]) == 0
    assert page.read_text(encoding="utf-8") == DOCUMENT.read_text(encoding="utf-8")
    everywhere = [one for one in subjects("", ROOT / "examples") if one.name not in BLACKWELL_ALONE]
    assert len(json.loads(RESULTS[-1].read_text(encoding="utf-8"))["rows"]) == 2 * len(everywhere)


def test_fail_for_a_document_without_marks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    page = tmp_path / "page.md"
    page.write_text("nothing", encoding="utf-8")
    assert main(["--from", str(RESULTS[-1]), "--document", str(page)]) == 2
    assert "no marks" in capsys.readouterr().err
    assert page.read_text(encoding="utf-8") == "nothing"
