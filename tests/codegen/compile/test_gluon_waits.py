"""Waits for products that ptxas adds are found in the machine code; masks of known indices, which bring them about, are
printed so that it adds none."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest

from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from twill.cli import codes
from twill.cli.entry import main
from twill.codegen import gluon
from twill.codegen.compile.disassembler import disassemble
from twill.codegen.compile.gluon.added_waits import instructions, more_waits
from twill.codegen.emission import extract
from twill.codegen.gluon import MANIFEST, compile_module, emit_gluon
from twill.codegen.print.gluon import hopper
from twill.exc import GluonWaits
from twill.tile.rewrite.pipeline import Allowed

PRODUCT = "wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%r1,%r2,%r3,%r4}, %rd2, %rd1, 1, 1, 1, 0, 0;"
PTX = "\n".join((PRODUCT, PRODUCT, "wgmma.wait_group.sync.aligned 0;"))
MMA, WAIT, ARRIVE = 0x0260_0000_28187DF0, 0x0000_8000_000079C5, 0x79C5
OTHER = 0x0000_0000_0000_7918  # NOP


@pytest.mark.parametrize(
    ("code", "added"),
    [
        ((ARRIVE, MMA, OTHER, MMA, WAIT), 0),
        ((MMA, WAIT, MMA, WAIT), 1),
        ((MMA, MMA, WAIT) * 3, 0),  # an unrolled loop
        ((MMA, WAIT, MMA, WAIT) * 3, 3),
    ],
)
def test_waits_that_the_module_does_not_ask_for_are_counted(code: tuple[int, ...], added: int) -> None:
    assert more_waits(PTX, iter(code)) == added


def test_a_mask_of_known_indices_does_not_make_products_wait_for_one_another(
    at_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    example = next(one for one in examples() if one.name == "linear_attention_bf16")
    kernel = extract(example.file, example.spec, (), (), Allowed(conditional=False))
    made = emit_gluon(kernel, H100, lambda *_: schedule(example))
    assert made.compiled.waits == 0 and "= unknown_indices(gl.arange(" in made.module.text

    known = made.module.text.replace("= unknown_indices(gl.arange(", "= (gl.arange(")
    path = tmp_path / made.name
    path.write_text(known, encoding="utf-8")
    (tmp_path / MANIFEST).write_text(made.manifest(), encoding="utf-8")
    assert main(["check", "--gluon", str(path)]) == codes.NOT_GOOD
    assert "expected no waits for products but the module's" in capsys.readouterr().out

    compiled = compile_module(path, made.module.entry, made.signature, made.asked)
    for one in (made.compiled, compiled):  # the machine code as it is read says what the disassembler prints
        said, sass = Counter(map(hopper.instruction_kind, instructions(one.cubin))), disassemble(one.cubin)
        assert sass is not None and len(re.findall(r"\bHGMMA\b", sass)) == said["product"] > 0
        assert len(re.findall(r"\bWARPGROUP\.DEPBAR\b", sass)) == said["wait"] > 0
    waiting = replace(made, compiled=compiled)
    monkeypatch.setattr(gluon, "_emitted", lambda *_: waiting)
    with pytest.raises(GluonWaits, match="in 41 places where the module does not"):
        emit_gluon(kernel, H100, lambda *_: schedule(example))
