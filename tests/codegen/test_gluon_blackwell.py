"""Modules of Gluon for Blackwell: products in tensor memory, compiled for sm_100a, read back and executed on the CPU.
An edit that makes them wrong is found. Nothing was run on hardware."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests import blackwell
from tests.conftest import GOLDEN, ROOT
from tests.golden_schedules import Example
from twill.codegen.compile.gluon.read_back import differences
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import GluonEmission, compile_module, emit_gluon
from twill.exc import ExecutionDiffers, NoGluon
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked

EXAMPLES = {"gemm": blackwell.GEMM, "gelu": blackwell.GELU, "fp8": blackwell.FP8}


@cache
def extracted(example: Example) -> Extracted:
    return extract(str(ROOT / example.file), example.spec, (), (), Allowed(conditional=False))


@cache
def emitted(name: str) -> GluonEmission:
    asked = SolveOptions(fuse=False)
    return emit_gluon(extracted(EXAMPLES[name]), blackwell.machine(), lambda graph, on: solve(graph, on, asked))


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_triton_makes_of_it_computes_what_the_kernel_says_and_spills_nothing(name: str) -> None:
    made = emitted(name)
    assert made.compiled.local == 0 and ".target sm_100a" in made.compiled.ptx
    said = checked(made, extracted(EXAMPLES[name]).specialization)
    assert said.count("M = ") == 2 and "equal to the tile program, nothing found" in said


@pytest.mark.parametrize("name", ["gemm", "gelu"])
def test_the_module_is_as_it_was(name: str, request: pytest.FixtureRequest) -> None:
    path, text = GOLDEN / f"gluon_b200_{name}.txt", emitted(name).module.text
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert max(map(len, text.splitlines())) <= 120


def edited(before: str, after: str, folder: Path) -> GluonEmission:
    right = emitted("gemm")
    assert before in right.module.text
    module = replace(right.module, text=right.module.text.replace(before, after, 1))
    path = folder / right.name
    path.write_text(module.text, encoding="utf-8")
    compiled = compile_module(path, module.entry, right.signature, right.asked)
    return replace(right, module=module, compiled=compiled)


STATIC = {
    "a parity": ("acc_count // ACC_STAGES & 1)\n", "acc_count // ACC_STAGES & 1 ^ 1)\n", "mbarrier.wait: acc_full"),
    "the slot of a commit": ("tcgen05_commit(a_empty.index(a_b_count % A_STAGES))",
                             "tcgen05_commit(a_empty.index((a_b_count + 1) % A_STAGES))", "mbarrier.commit: a_empty"),
    "arrivals": ("mbarrier.init(acc_empty.index(slot), count=1)", "mbarrier.init(acc_empty.index(slot), count=2)",
                 "mbarrier.init: 1 arrivals, 2 slots"),
}  # fmt: skip


@pytest.mark.parametrize("edit", STATIC)
def test_an_edit_is_found_by_reading_the_ptx_back(edit: str, tmp_path: Path) -> None:
    before, after, expected = STATIC[edit]
    made = edited(before, after, tmp_path)
    found = differences(made.module.text, made.compiled.ptx, emitted("gemm").module.facts)
    assert any(one.expected.startswith(expected) for one in found)


EXECUTED = {
    "sums that begin with what was there": ("use_acc=step > 0", "use_acc=True", "c_desc"),
    "no fence": ('    tensor_memory_fence("after")\n            acc =', "    acc =", "tcgen05-fence"),
}


@pytest.mark.parametrize("edit", EXECUTED)
def test_an_edit_that_makes_the_module_wrong_is_found_by_executing_it(edit: str, tmp_path: Path) -> None:
    before, after, said = EXECUTED[edit]
    with pytest.raises(ExecutionDiffers, match=said):
        checked(edited(before, after, tmp_path), extracted(blackwell.GEMM).specialization)


def test_a_triton_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.codegen.compile.gluon.triton._version", lambda: "3.7.1")
    with pytest.raises(NoGluon, match=r"Triton 3\.7\.1 is installed") as refused:
        emit_gluon(extracted(blackwell.GEMM), blackwell.machine(), lambda *_: emitted("gemm").schedule)
    assert "Triton 3.8 to 3.9" in (refused.value.hint or "")
