"""Promises of `[specialization.tune]`: points, the types that go with them, and what is wrong with file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill.exc import MalformedSidecar
from twill.kernel.sidecar import read_sidecar
from twill.kernel.tuning_space import Space

TEXT = """kernel = "k"
[[specialization]]
name = "one"
[specialization.signature]
x_desc = "tensordesc<bf16[128, 64]>:16"
[specialization.constexprs]
BLOCK = 128
DEPTH = 64
[specialization.tune]
tiles = { BLOCK = [64, 128], DEPTH = [32] }
blocks = { x_desc = ["BLOCK", "DEPTH * 2"] }
"""


def space(path: Path, text: str = TEXT) -> Space:
    (path / "k.twill.toml").write_text(text)
    sidecar = read_sidecar(str(path / "k.py"))
    assert sidecar is not None and sidecar.tables[0].space is not None
    return sidecar.tables[0].space


def test_every_combination_is_a_point(tmp_path: Path) -> None:
    assert list(space(tmp_path).points()) == [{"BLOCK": 64, "DEPTH": 32}, {"BLOCK": 128, "DEPTH": 32}]


def test_blocks_follow_the_constants_and_promises_stay(tmp_path: Path) -> None:
    types = {"x_desc": "tensordesc<bf16[128, 64]>:16"}
    assert space(tmp_path).signature(types, {"BLOCK": 64, "DEPTH": 32}) == {"x_desc": "tensordesc<bf16[64, 64]>:16"}


def test_a_block_of_what_is_no_descriptor_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MalformedSidecar, match="x_desc is no descriptor"):
        space(tmp_path).signature({"x_desc": "*bf16"}, {"BLOCK": 64, "DEPTH": 32})


def test_a_block_of_unknown_names_is_refused(tmp_path: Path) -> None:
    with pytest.raises(MalformedSidecar, match='"BLOCK"') as raised:
        space(tmp_path).signature({"x_desc": "tensordesc<bf16[128, 64]>"}, {"DEPTH": 32})
    assert raised.value.line == 9


@pytest.mark.parametrize(
    ("before", "after", "words"),
    [
        ("BLOCK = [64, 128]", "BLOCK = 64", "BLOCK has no list of whole numbers"),
        ("BLOCK = [64, 128]", "BLOCK = [0]", "BLOCK has no list of whole numbers"),
        ("BLOCK = [64, 128]", "WIDTH = [64]", "WIDTH is no constexpr"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(tmp_path: Path, before: str, after: str, words: str) -> None:
    with pytest.raises(MalformedSidecar, match=words) as raised:
        space(tmp_path, TEXT.replace(before, after))
    assert raised.value.line == 10
