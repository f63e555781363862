"""Products with scales of blocks as modules of Gluon for the B200: compiled, read back and executed on the CPU; an edit
that makes them wrong is found. Nothing was run on hardware."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest

from tests import blackwell
from tests.blackwell import MXFP4, MXFP8, NVFP4_WIDE
from tests.codegen.test_gluon import MOST_LINES, WIDEST
from tests.conftest import GOLDEN, ROOT
from tests.golden_schedules import Example
from tests.module_edits import edited
from twill.codegen.compile.gluon.read_back import differences
from twill.codegen.compile.gluon.triton import load
from twill.codegen.emission import Extracted, extract
from twill.codegen.gluon import GluonEmission, emit_gluon
from twill.codegen.gluon_manifest import gluon_manifest
from twill.codegen.verify.abstract.coverage import three
from twill.exc import ExecutionDiffers
from twill.kernel.specialization import problem_of
from twill.tile.rewrite.pipeline import Allowed
from twill.trial.execute import argument, bind, wrapping
from twill.trial.gluon import checked, passed, recorded

pytestmark = pytest.mark.usefixtures("at_root")

KINDS = {MXFP8: "mxf8f6f4", MXFP4: "mxf4", NVFP4_WIDE: "mxf4nvf4"}
"""The instruction of each."""


@cache
def extracted(example: Example) -> Extracted:
    return extract(str(ROOT / example.file), example.spec, (), (), Allowed(conditional=False))


@cache
def emitted(example: Example) -> GluonEmission:
    return emit_gluon(extracted(example), blackwell.machine(), lambda *_: blackwell.schedule(example))


@pytest.mark.parametrize("example", KINDS, ids=[example.name for example in KINDS])
def test_what_triton_makes_of_it_computes_what_the_kernel_says(
    example: Example, request: pytest.FixtureRequest
) -> None:
    made = emitted(example)
    assert made.compiled.local == 0
    assert f"tcgen05.mma.cta_group::1.kind::{KINDS[example]}.block_scale" in made.compiled.ptx
    assert "equal to the tile program, nothing found" in checked(made, extracted(example).specialization)
    golden, text = GOLDEN / f"gluon_b200_{example.name.replace('-', '_')}.txt", made.module.text
    if request.config.getoption("--update-golden"):
        golden.write_text(text, encoding="utf-8")
    assert text == golden.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= MOST_LINES and max(map(len, text.splitlines())) <= WIDEST


COPY = "tcgen05_copy(in_rows(b_scale_ring.tile(count)), b_scale_copied_ring.tile(count))"


def test_scales_that_are_not_copied_are_told_by_reading_back(tmp_path: Path) -> None:
    wrong = edited(emitted(MXFP8), COPY, "pass", tmp_path)
    found = differences(wrong.module.text, wrong.compiled.ptx, wrong.module.facts)
    assert [(one.expected, one.found) for one in found] == [("copy of scales", "")]


@pytest.mark.parametrize(
    "edit",
    [
        (COPY, COPY.replace("in_rows(b_scale_ring.tile(count))", "in_rows(b_scale_ring.tile(count + 1))")),
        (COPY, COPY.replace("copied_ring.tile(count)", "copied_ring.tile(0)")),
        ('"e4m3", "e4m3"', '"e4m3", "e5m2"'),
    ],
    ids=["a slot that is not there yet", "scales that a product still reads", "another format"],
)
def test_an_edit_that_makes_the_module_wrong_is_found(edit: tuple[str, str], tmp_path: Path) -> None:
    with pytest.raises(ExecutionDiffers):
        checked(edited(emitted(MXFP8), *edit, tmp_path), extracted(MXFP8).specialization)


def test_the_runtime_passes_what_the_module_s_launcher_passes(tmp_path: Path) -> None:
    made, specialization = emitted(NVFP4_WIDE), extracted(NVFP4_WIDE).specialization
    path = tmp_path / "module.py"
    path.write_text(made.module.text, encoding="utf-8")
    manifest = gluon_manifest(made, specialization, blackwell.machine().architecture)
    elements = {a.name: a.type.element.partition(":")[2] for a in made.program.program.arguments}
    given = wrapping(made.program, problem_of(specialization))
    launched = recorded(load(path), made.module.entry, specialization, given, 2)
    bound, grid = bind(manifest, given), three(given.grid)
    wanted = [one for argument in launched.arguments for one in passed(argument, elements)]
    assert [argument(one, manifest, bound, grid) for one in manifest.parameters] == [*wanted, 0, 0]
