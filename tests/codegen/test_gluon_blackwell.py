"""Modules of Gluon for Blackwell: products in tensor memory, compiled for sm_100a, read back and executed on the CPU.
An edit that makes them wrong is found. Nothing was run on hardware."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests import blackwell, module_edits
from tests import blackwell_attention as attention
from tests.blackwell_attention import Attention
from tests.codegen.test_gluon import MOST_LINES, WIDEST
from tests.conftest import GOLDEN, ROOT
from tests.golden_schedules import Example
from tests.module_edits import SmallGemm, edited
from twill.codegen.compile.gluon.read_back import differences
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import GluonEmission, emit_gluon
from twill.codegen.print.gluon.shared import FILE
from twill.exc import ExecutionDiffers, NoGluon
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked

pytestmark = pytest.mark.usefixtures("at_root")

EXAMPLES: dict[str, Example | Attention] = {
    "gemm": blackwell.GEMM, "gelu": blackwell.GELU, "fp8": blackwell.FP8, "dual_gemm": blackwell.DUAL,
    "attention": attention.IN_GLUON[0], "causal": attention.IN_GLUON[1], "two row blocks": attention.IN_GLUON[2],
}  # fmt: skip


LOCAL = {"two row blocks": 64}
"""Bytes a thread in local memory: scalars that partitions of 64 registers read once."""


@cache
def extracted(example: Example | Attention) -> Extracted:
    if isinstance(example, Attention):
        return attention.kernel(example)
    return extract(str(ROOT / example.file), example.spec, (), (), Allowed(conditional=False))


@cache
def emitted(name: str) -> GluonEmission:
    example, asked = EXAMPLES[name], SolveOptions(fuse=False)
    if isinstance(example, Attention):
        return emit_gluon(extracted(example), blackwell.machine(), lambda *_: attention.schedule(example))
    return emit_gluon(extracted(example), blackwell.machine(), lambda graph, on: solve(graph, on, asked))


@pytest.mark.parametrize("name", EXAMPLES)
def test_what_triton_makes_of_it_computes_what_the_kernel_says_and_spills_nothing(name: str) -> None:
    made = emitted(name)
    assert made.compiled.local <= LOCAL.get(name, 0) and ".target sm_100a" in made.compiled.ptx
    said = checked(made, extracted(EXAMPLES[name]).specialization)
    assert said.count("; ") == 1 and "equal to the tile program, nothing found" in said  # two launches


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_module_is_as_it_was(name: str, request: pytest.FixtureRequest) -> None:
    path, text = GOLDEN / f"gluon_b200_{name.replace(' ', '_')}.txt", emitted(name).module.text
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES and max(map(len, text.splitlines())) <= WIDEST


SMALL = SmallGemm("b200", 128, 64, 64)


def emitted_or_small(name: str) -> tuple[GluonEmission, Extracted]:
    """A module to edit, and its kernel."""
    if name == "small":
        return module_edits.emitted(SMALL), module_edits.extracted(SMALL)
    return emitted(name), extracted(EXAMPLES[name])


def test_a_module_of_small_tiles_computes_what_the_kernel_says() -> None:
    made, kernel = emitted_or_small("small")
    assert "equal to the tile program, nothing found" in checked(made, kernel.specialization)


STATIC = {
    "a parity": ("small", "self.slots & 1)\n", "self.slots & 1 ^ 1)\n", "mbarrier.wait: acc_ring.full"),
    "the slot of a commit": ("small", "tcgen05_commit(a_ring.empty_barrier(a_b_count))",
                             "tcgen05_commit(a_ring.empty_barrier(a_b_count + 1))", "mbarrier.commit: a_ring.empty"),
    "arrivals": ("small", "tensor_ring(gl.float32, [2, 128, 64], full=1, empty=1)",
                 "tensor_ring(gl.float32, [2, 128, 64], full=1, empty=2)", "mbarrier.init: 1 arrivals, 4 slots"),
    "P is not given back": ("attention", "tcgen05_commit(p_ring.empty_barrier(count))", "pass",
                            "mbarrier.commit: p_ring.empty"),
}  # fmt: skip


@pytest.mark.parametrize("edit", STATIC)
def test_an_edit_is_found_by_reading_the_ptx_back(edit: str, tmp_path: Path) -> None:
    name, before, after, expected = STATIC[edit]
    made = edited(emitted_or_small(name)[0], before, after, tmp_path)
    shared = (tmp_path / FILE).read_text(encoding="utf-8")
    found = differences(made.module.text, made.compiled.ptx, made.module.facts, shared)
    assert any(one.expected.startswith(expected) for one in found)


FENCE = """        if self.fenced:
            tensor_memory_fence("{side}")
"""
ARRIVE = "        mbarrier.arrive(self.full"
WAIT = "        mbarrier.wait(self.full.index(count % self.slots), count // self.slots & 1)\n"
EXECUTED = {
    "sums that begin with what was there": ("small", "use_acc=step > 0", "use_acc=True", "c_desc"),
    "P is where its MMA does not look": (
        "attention",
        "p_ring.tile(count).store",
        "p_ring.tiles.index(2 * (count % 2) + 1).store",
        "o_desc",
    ),
    "a part of O is rescaled twice": ("attention", "slice(first, 32).load", "slice(0, 32).load", "o_desc"),
    "stores of O without a fence": ("attention", FENCE.format(side="before") + ARRIVE, ARRIVE, "tcgen05-fence"),
    "no fence": ("small", WAIT + FENCE.format(side="after"), WAIT, "tcgen05-fence"),
}


@pytest.mark.parametrize("edit", EXECUTED)
def test_an_edit_that_makes_the_module_wrong_is_found_by_executing_it(edit: str, tmp_path: Path) -> None:
    name, before, after, said = EXECUTED[edit]
    right, kernel = emitted_or_small(name)
    with pytest.raises(ExecutionDiffers, match=said):
        checked(edited(right, before, after, tmp_path), kernel.specialization)


def test_a_triton_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.codegen.compile.gluon.triton._version", lambda: "3.7.1")
    with pytest.raises(NoGluon, match=r"Triton 3\.7\.1 is installed") as refused:
        emit_gluon(extracted(blackwell.GEMM), blackwell.machine(), lambda *_: emitted("gemm").schedule)
    assert "Triton 3.8 to 3.9" in (refused.value.hint or "")
