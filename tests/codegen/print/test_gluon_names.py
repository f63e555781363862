"""Kept modules of Gluon are short, and their names are made of words of the kernel and of the field."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.codegen.test_gluon_targets import KERNELS
from tests.conftest import GOLDEN, ROOT
from twill.codegen.print.gluon.shared import shared_text

MODULES = sorted(GOLDEN.glob("gluon_*.txt"))
MOST_LINES, WIDEST = 250, 120
LONGER = {"gluon_attention_backward": 275}  # five products, in two partitions that begin them in another order
OF_THE_FIELD = """
kernel role consumer compute softmax correction epilogue load mma store desc ring staging tile count done
instance instances place grid pid in layer band order along inside before width nth ranked begin step steps change
answer counter together cached most masked worked turn present pair pairs rank cta own next group other others both
words row rows column columns offs offset first second third fourth fifth sixth seventh eighth of part left right taken
copied result bf16 f16 f32 f8e4m3 scaled erfc reciprocal log twice inverse x y p visible transposed
"""
"""Words of schedules, warp specialization and Triton that a module may have beside the kernel's own."""
LAYOUT = re.compile(r"(A_OF_)?MMA_\d+(x\d+)?|SWIZZLED_\d+(_OF_\d+_BITS)?(_OF_\d_AXES)?(_BY_(ROWS|COLUMNS))?")
NUMBERED = re.compile(r"(pid|grid|compute|softmax|consumer)_\d+|[a-zA-Z_]+_[0-3](_[a-z]+)*")
"""Axes, warp groups, row blocks, and what a kernel has twice."""


def identifiers(text: str) -> set[str]:
    """What a module itself calls something: functions, parameters, variables."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.FunctionDef(name=name):
                found.add(name)
            case ast.arg(arg=name) | ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
    return found


def source(text: str) -> str:
    """The kernel that a module was made of."""
    name, file = re.findall(r"^\W*(\w+) .*? of (\w+\.py) for", text)[0]
    path = ROOT / "examples" / file
    return path.read_text(encoding="utf-8") if path.exists() else KERNELS[name][0]


def words(names: set[str]) -> set[str]:
    return {word.lower() for name in names for word in name.split("_") if word and not word.isdigit()}


def foreign(text: str) -> list[str]:
    """Names of a module that are neither of the kernel nor of the field, or that are numbered."""
    name, kernel = text[3:].partition(" ")[0], set(re.findall(r"\b[A-Za-z_]\w*\b", source(text)))
    known = words(kernel | {f"{name}_kernel"}) | {*OF_THE_FIELD.split()}
    made = {one for one in identifiers(text) - kernel - {f"{name}_kernel"} if not LAYOUT.fullmatch(one)}
    odd = [name for name in made if not words({name}) <= known]
    plain = {name: re.sub(r"_(bf16|f32)", "", name) for name in made}
    numbers = [name for name in made if re.search(r"\d", plain[name])]
    wild = [name for name in numbers if not NUMBERED.fullmatch(plain[name]) or re.search(r"part_\d", name)]
    return sorted({*odd, *wild, *made.intersection({"t", "cast"})})


def test_there_are_modules() -> None:
    assert len(MODULES) > 20


@pytest.mark.parametrize("path", MODULES, ids=lambda path: path.stem)
def test_a_module_is_short_and_has_names_of_the_kernel_and_of_the_field(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    assert len(lines) <= LONGER.get(path.stem, MOST_LINES) and max(map(len, lines)) <= WIDEST
    assert foreign(text) == []


def test_names_that_look_generated_are_found() -> None:
    text = (GOLDEN / "gluon_gemm.txt").read_text(encoding="utf-8")
    for name in ("acc_part_3", "tmp", "a_17", "v12", "t"):
        assert name in foreign(text.replace("acc = ", f"{name} = "))


def test_the_file_that_modules_share_has_no_long_line() -> None:
    assert max(map(len, shared_text().splitlines())) <= WIDEST
