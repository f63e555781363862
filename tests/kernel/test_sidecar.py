"""Sidecars are read as documented, and what is wrong in one is told with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill.exc import TwillError
from twill.kernel.sidecar import read_sidecar, sidecar_path


def write(directory: Path, text: str) -> str:
    file = directory / "kernel.py"
    Path(sidecar_path(str(file))).write_text(text, encoding="utf-8")
    return str(file)


def test_no_sidecar_is_no_error(tmp_path: Path) -> None:
    assert read_sidecar(str(tmp_path / "kernel.py")) is None


def test_every_key_of_the_grammar(tmp_path: Path) -> None:
    text = (
        'kernel = "f"\n[[specialization]]\nname = "a"\n[[specialization]]\nname = "a"\nkernel = "g"\ndefault = true\n'
        'grid = ["cdiv(N, B)", "2"]\nsignature = { x = "*fp16" }\n'
        'constexprs = { B = 8, f = 0.5, t = "None", u = true }\n'
    )
    sidecar = read_sidecar(write(tmp_path, text))
    assert sidecar is not None
    first, second = sidecar.tables
    assert (first.name, first.kernel, first.default, dict(first.signature), first.grid) == ("a", "f", False, {}, ())
    assert (second.kernel, second.default, second.grid) == ("g", True, ("cdiv(N, B)", "2"))
    assert second.signature == {"x": "*fp16"}
    assert second.constexprs == {"B": 8, "f": 0.5, "t": None, "u": True}


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ('kernel = "f"\nname = \n', 2, ["Invalid value"]),
        ("kernel = 3\n", 1, ["kernel", "3"]),
        ('kernal = "f"\n', 1, ["kernal", "kernel"]),
        ('[specialization]\nname = "a"\n', 1, ["specialization"]),
        ("[[specialization]]\ndefault = true\n", 1, ["name"]),
        ('[[specialization]]\nname = "a"\n\n[[specialization]]\nname = "a"\n', 5, ['"a"']),
        ('[[specialization]]\nname = "a"\ndefault = 1\n', 3, ["default"]),
        ('[[specialization]]\nname = "a"\ngird = ["1"]\n', 3, ["gird", "grid"]),
        ('[[specialization]]\nname = "a"\ngrid = "1"\n', 3, ["grid"]),
        ('[[specialization]]\nname = "a"\ngrid = ["1", "1", "1", "1"]\n', 3, ["three dimensions"]),
        ('[[specialization]]\nname = "a"\n[specialization.signature]\nx = 4\n', 4, ["x"]),
        ('[[specialization]]\nname = "a"\n[specialization.constexprs]\nB = [1]\n', 4, ["B"]),
        (
            '[[specialization]]\nname = "a"\ndefault = true\n[[specialization]]\nname = "b"\ndefault = true\n',
            6,
            ["second", "default"],
        ),
        ('[[specialization]]\nname = "a"\nsignature = { x = "float32*" }', 3, ['"float32*" is no type for argument x']),
    ],
)
def test_fail_names_file_line_and_key(tmp_path: Path, text: str, line: int, words: list[str]) -> None:
    with pytest.raises(TwillError) as raised:
        read_sidecar(write(tmp_path, text))
    assert raised.value.file.endswith("kernel.twill.toml")
    assert raised.value.line == line
    assert raised.value.exit_code == 2
    for word in words:
        assert word in raised.value.describe()
