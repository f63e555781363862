"""Promises of `twill.codegen.verify.abstract.table_shapes`: shapes of a sidecar that its own launches contradict are
refused, with the sidecar's line; numbers of recorded launches that are no rule are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.kernels import H100
from tests.lowered import scheduled
from twill.codegen.emission import extract
from twill.codegen.lowering import lower
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launches
from twill.exc import MalformedSidecar

KERNEL = """
import triton
import triton.language as tl

@triton.jit
def rows(x, y, stride, n, B: tl.constexpr):
    o = tl.program_id(0) * stride + tl.arange(0, B)
    tl.store(y + o, tl.load(x + o, mask=tl.arange(0, B) < n), mask=tl.arange(0, B) < n)
"""
SIDECAR = """
[[specialization]]
name = "only"
grid = ["M"]
signature = {{ x = "*fp32:16", y = "*fp32:16", stride = "i32", n = "i32" }}
constexprs = {{ B = 64 }}

[specialization.problem]
units = {{ M = 1, n = 1 }}
tensors = {{ x = ["M", "64"], y = [{shape}] }}
scalars = {{ stride = 64 }}
run = [{{ M = 1, n = 64 }}]
"""


def made(directory: Path, shape: str) -> list[CheckedLaunch]:
    (directory / "k.py").write_text(KERNEL, encoding="utf-8")
    (directory / "k.twill.toml").write_text(SIDECAR.format(shape=shape), encoding="utf-8")
    program = extract(str(directory / "k.py")).program
    return [*launches(lower(program, scheduled(program), H100))]


def test_a_shape_that_a_listed_launch_leaves_is_refused_with_the_line_of_its_table(tmp_path: Path) -> None:
    with pytest.raises(MalformedSidecar) as refused:
        made(tmp_path, '"M", "n // 2"')
    assert (refused.value.file, refused.value.line) == (str(tmp_path / "k.twill.toml"), 8)
    assert "at M = 1, n = 64 `rows` accesses element 63 of `y`, which has 32 elements" in refused.value.message
    assert 'y = ["M", "n // 2"]' in (refused.value.hint or "")


@pytest.mark.parametrize(("shape", "derived"), [('"M", "64"', False), ('"64"', True)])
def test_a_shape_that_holds_at_the_listed_launches_is_none(tmp_path: Path, shape: str, derived: bool) -> None:
    """64 elements are right for the one row of the launch, and no rule."""
    assert {one.derived for one in made(tmp_path, shape)} == {derived}
