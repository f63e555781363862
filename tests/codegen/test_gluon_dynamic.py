"""Modules of Gluon whose partitions fetch program instances one by one: from a counter, or, on the B200, from cluster
launch control. Compiled, read back and executed on the CPU; nothing of the B200 was run on hardware."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from tests import blackwell, module_edits
from tests.conftest import GOLDEN, ROOT
from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from tests.module_edits import SmallGemm, edited
from twill.cli import codes
from twill.cli.entry import main
from twill.codegen.compile.gluon.read_back import differences
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import GluonEmission, emit_gluon
from twill.codegen.print.gluon.sayable import reasons
from twill.codegen.print.gluon.shared import FILE
from twill.codegen.verify.abstract.inputs import LARGE, launch
from twill.kernel.specialization import problem_of
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.gluon import checked, execute

pytestmark = pytest.mark.usefixtures("at_root")

MACHINES = {"h100": H100, "b200": blackwell.machine()}
KERNELS = {
    "h100": ("gemm_bias_gelu", "bf16", 2, {"M": 272, "N": 144, "K": 208}),
    "b200": ("gemm_bias_gelu", "bf16", 1, {"M": 272, "N": 144, "K": 208}),
    "h100 causal": ("attention", "causal-d64", None, {"Z": 1, "H": 3, "N_CTX": 256}),
}
"""Of several instances, on more than one CTA."""
SMALL = {
    "h100": SmallGemm("h100", 128, 64, 64, gelu=True, blocks=2, order="dynamic"),
    "b200": SmallGemm("b200", 128, 32, 64, gelu=True, blocks=1, order="dynamic"),
}
SMALL_SIZES = {"h100": {"M": 272, "N": 80, "K": 208}, "b200": {"M": 272, "N": 48, "K": 208}}
"""Of as many instances."""


@cache
def extracted(name: str) -> Extracted:
    kernel, spec, _, _ = KERNELS[name]
    return extract(str(ROOT / "examples" / f"{kernel}.py"), spec, (), (), Allowed(conditional=False), "dynamic")


@cache
def emitted(name: str) -> GluonEmission:
    if name == "h100 causal":
        kept = schedule(next(one for one in examples() if one.name == "attention_causal-d64"))
        return emit_gluon(extracted(name), H100, lambda *_: kept)
    options = SolveOptions.model_validate({"fuse": False, "blocks": KERNELS[name][2]})
    return emit_gluon(extracted(name), MACHINES[name[:4]], lambda graph, machine: solve(graph, machine, options))


def said(made: GluonEmission, name: str, folder: Path, answers: tuple[int, ...] = (), ctas: int = 2) -> list[str]:
    """What is wrong with a module that is executed."""
    return found(made, extracted(name), KERNELS[name][3], folder, answers, ctas)


def said_small(made: GluonEmission, name: str, folder: Path) -> list[str]:
    """The same of a module of small tiles, or an edit of it."""
    return found(made, module_edits.extracted(SMALL[name]), SMALL_SIZES[name], folder, (1, -1, 0))


def found(
    made: GluonEmission, kernel: Extracted, sizes: Mapping[str, int], folder: Path, answers: tuple[int, ...],
    ctas: int = 2,
) -> list[str]:  # fmt: skip
    path, specialization = folder / made.name, kernel.specialization
    path.write_text(made.module.text, encoding="utf-8")
    problem = problem_of(specialization)
    assert problem is not None
    given = launch(made.program.program, problem.case(dict(sizes)), scale=LARGE, data="normal")
    return execute(made.compiled, path, made.module.entry, specialization, made.program, given, ctas, answers).said()


@pytest.mark.parametrize("name", ["h100", "h100 causal"])
def test_instances_come_from_a_counter_that_is_left_as_it_was(name: str, tmp_path: Path) -> None:
    made = emitted(name)
    assert "next_of_counter(counter, instances)" in made.module.text and "counter()," in made.module.text
    for ctas in (1, 2, 5):
        assert said(made, name, tmp_path, ctas=ctas) == []
    assert "equal to the tile program, nothing found" in checked(made, extracted(name).specialization)


@pytest.mark.parametrize("answers", [(), (2, 0, 1), (1, -1), (-1, -1, -1), (0, 2, -1, -1)])
def test_instances_come_from_ctas_that_have_not_started(answers: tuple[int, ...], tmp_path: Path) -> None:
    """Whatever the hardware answers, also that there is nothing left while other CTAs start."""
    made = emitted("b200")
    assert "clusterlaunchcontrol.try_cancel" in made.compiled.ptx and "_kernel[(instances,)](" in made.module.text
    assert said(made, "b200", tmp_path, answers) == []


@pytest.mark.parametrize("name", ["h100", "b200"])
def test_the_module_is_as_it_was(name: str, request: pytest.FixtureRequest) -> None:
    path, text = GOLDEN / f"gluon_{name}_dynamic.txt", emitted(name).module.text
    if request.config.getoption("--update-golden"):
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


STATIC = {
    "no request": ("b200", "clc.try_cancel(answer_ring", "pass  # (answer_ring", "a request for the place"),
    "bytes of an answer": ("b200", "answer_ring.expect(instance_answer_count, 16)",
                           "answer_ring.expect(instance_answer_count, 8)", "mbarrier.expect: 16 bytes"),
    "no wait for the answer": ("b200", "        answer_ring.wait(instance_answer_count)\n", "",
                               "mbarrier.wait: answer"),
    "no wait for what is told": ("b200", "        instance_ring.wait(instance_count)\n", "", "mbarrier.wait: instance"),
    "what is told is not given back": ("h100", "        instance_ring.release(instance_count)\n", "",
                                       "mbarrier.arrive: instance_ring.empty"),
    "no place from the counter": ("h100", "instance = next_of_counter(counter, instances)", "instance = instances",
                                  "a place from the counter"),
}  # fmt: skip
EXECUTED = {
    "the counter is never set back": ("h100", "taken == instances - 1", "taken == instances"),
    "an instance is left out": ("h100", "return taken + gl.num_programs(0)", "return taken + gl.num_programs(0) + 1"),
    "another instance is told": ("b200", ", instance)\n        instance_ring.publish",
                                 ", instance + 1)\n        instance_ring.publish"),
    "an answer of nothing is taken for a place": ("b200", "if result.is_canceled():", "if instances > 0:"),
    "fewer CTAs than instances": ("b200", "_kernel[(instances,)](", "_kernel[(instances - 1,)]("),
}  # fmt: skip


@pytest.mark.parametrize("name", SMALL)
def test_modules_of_small_tiles_are_right(name: str, tmp_path: Path) -> None:
    assert said_small(module_edits.emitted(SMALL[name]), name, tmp_path) == []


@pytest.mark.parametrize("edit", STATIC)
def test_an_edit_is_found_by_reading_the_ptx_back(edit: str, tmp_path: Path) -> None:
    name, before, after, expected = STATIC[edit]
    made = edited(module_edits.emitted(SMALL[name]), before, after, tmp_path)
    shared = (tmp_path / FILE).read_text(encoding="utf-8")
    found = differences(made.module.text, made.compiled.ptx, made.module.facts, shared)
    assert any(one.expected.startswith(expected) for one in found), found


@pytest.mark.parametrize("edit", EXECUTED)
def test_an_edit_that_makes_the_module_wrong_is_found_by_executing_it(edit: str, tmp_path: Path) -> None:
    name, before, after = EXECUTED[edit]
    assert said_small(edited(module_edits.emitted(SMALL[name]), before, after, tmp_path), name, tmp_path)


def test_partitions_share_instances_where_they_would_take_them_alternately(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["emit", "examples/gemm.py", "--spec", "bf16", "--machine", "h100", "--as", "gluon", "--order", "dynamic"]
    assert main([*words, "--no-store", "--out", str(tmp_path / "out")]) == codes.SOLVED
    assert "gemm (bf16) for h100, I = 512, as Gluon" in capsys.readouterr().out
    text = (tmp_path / "out" / "gemm_gluon.py").read_text(encoding="utf-8")
    assert "next_of_counter(counter, instances)" in text and "alternately" not in text


def test_partitions_that_take_instances_alternately_are_refused() -> None:
    program = emitted("h100").program
    shared = tuple(group if group.issuer else replace(group, share=(0, 2)) for group in program.groups)
    said = [what for _, what, _ in reasons(replace(program, groups=shared), H100.emitting.named_barriers.whole)]
    assert said == ["partitions that take instances alternately have no printer for Gluon in a dynamic order"]
