"""Promises of `twill emit --as gluon`: the price beside the CUDA form is told, what no schedule could say is refused
before one is made, and what Gluon can't say of the best one is said of the next."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.golden_schedules import examples, schedule
from tests.kernels import H100
from twill.cli import codes
from twill.cli import emit_gluon as command
from twill.cli.entry import main
from twill.codegen import gluon
from twill.codegen.emission import Extracted, extract
from twill.exc import NotInGluon
from twill.schedule.document import Schedule
from twill.tile.rewrite.pipeline import Allowed

pytestmark = pytest.mark.usefixtures("at_root")
WORDS = ["emit", "examples/gemm.py", "--machine", "h100", "--as", "gluon"]
GEMM = next(one for one in examples() if one.name == "gemm_bf16")


@pytest.fixture
def unsolved(monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: Any) -> Schedule:
        raise AssertionError("something is solved")

    monkeypatch.setattr("twill.cli.emit.solved", never)


@pytest.mark.usefixtures("unsolved")
@pytest.mark.parametrize(
    ("more", "said"),
    [
        (["--spec", "bf16-192"], "examples/gemm.py:33: a tile of 128 x 192 is no power of two"),
        (["--cluster", "2"], "emit without `--cluster`"),
        (["--split", "2"], "partial sums of program instances have no printer"),
        (["examples/layer_norm.py"], "a kernel without products"),
        (
            ["tests/format_kernels.py", "--spec", "plain-mxfp8", "--machine", "b200"],
            "scales [rows, blocks] that threads",
        ),
        (["tests/format_kernels.py", "--spec", "fp8-fp4", "--machine", "b200"], "with scales of blocks has no printer"),
        (["tests/format_kernels.py", "--spec", "tf32", "--machine", "b200"], "products of f32 have no printer"),
        (["examples/attention_any_length.py"], "a tile of 192 x 128 is no power of two"),
    ],
)
def test_what_no_schedule_could_say_is_refused_before_one_is_made(
    more: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = more[0].endswith(".py")
    words = [*WORDS[:1], *more[:1], *WORDS[2:], *more[1:]] if own else [*WORDS, *more]
    assert main([*words, "--out", str(tmp_path / "o")]) == codes.BAD_INPUT
    told = capsys.readouterr().err
    assert said in told and "instead: " in told


@pytest.mark.parametrize(
    ("interval", "said"),
    [(512, "; the CUDA form has the same"), (500, "; the CUDA form has I = 500 (+2 %)"), (0, "")],
)
def test_the_price_is_told_beside_the_cuda_form_s_interval(
    interval: int, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = schedule(GEMM)
    assert found.ii == 512
    kernel: Any = SimpleNamespace(graph=None)
    kernel.on = lambda *_, **__: kernel
    monkeypatch.setattr("twill.cli.emit.extracted_as", lambda *_: kernel)
    monkeypatch.setattr("twill.cli.emit.solved", lambda *_: found.model_copy(update={"ii": interval}))
    assert command.price(found, H100, Namespace(schedule=None if interval else "given.json", cluster=1)) == said


def test_pairs_of_ctas_are_tried_first_where_they_have_less_i(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tried: list[tuple[bool, int]] = []

    def refuse(kernel: Extracted, machine: Any, solve: Any, *_: Any) -> None:
        found = solve(kernel.graph, machine)
        tried.append((found.cooperation.pair, found.ii))
        raise NotInGluon("what was tried")

    monkeypatch.setattr("twill.codegen.gluon.emit_gluon", refuse)
    words = ["emit", "examples/gemm.py", "--spec", "bf16", "--machine", "b200", "--as", "gluon", "--no-store"]
    assert main([*words, "--out", str(tmp_path / "o")]) == codes.BAD_INPUT
    assert tried == [(True, 384), (False, 512)]
    assert "what was tried" in capsys.readouterr().err


def test_what_gluon_cannot_say_of_the_best_schedule_is_said_of_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    kernel: Extracted = extract(GEMM.file, GEMM.spec, (), (), Allowed(conditional=False))
    first, second = schedule(GEMM).model_copy(update={"spec": "first"}), schedule(GEMM)
    tried: list[str] = []

    def of_schedule(_: Extracted, found: Schedule, *__: Any) -> str:
        tried.append(found.spec)
        if found.spec == "first":
            raise NotInGluon("rows that are uneven")
        return "made"

    monkeypatch.setattr(gluon, "_of_schedule", of_schedule)
    assert gluon.emit_gluon(kernel, H100, lambda *_: first, others=lambda: (first, second)) == "made"  # type: ignore[comparison-overlap]
    assert tried == ["first", "first", "bf16"]
    with pytest.raises(NotInGluon, match="uneven"):
        gluon.emit_gluon(kernel, H100, lambda *_: first)


def test_other_numbers_of_row_blocks_are_tried_where_nobody_said_one(monkeypatch: pytest.MonkeyPatch) -> None:
    intervals = {1: 900, 2: 700, 4: 800}
    monkeypatch.setattr(
        "twill.cli.emit.solved",
        lambda graph, on, asked: schedule(GEMM).model_copy(update={"ii": intervals[asked.blocks]}),
    )
    graph = extract(GEMM.file, GEMM.spec).graph
    found = command.others(graph, H100, Namespace(schedule=None, blocks=None))
    assert [one.ii for one in found] == [700, 800, 900]
    assert not list(command.others(graph, H100, Namespace(schedule=None, blocks=2)))
