"""`twill record` writes the sidecars of the launches that a script makes, on a GPU or without one."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from twill.cli.entry import main
from twill.kernel.sidecar import read_sidecar_at
from twill.kernel.specialization import problem_of, resolve

KERNELS = """
@triton.autotune(configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 128})], key=["n"])
@triton.heuristics({"EVEN": lambda args: args["n"] % 2 == 0})
@triton.jit
def scale(x, y, n, factor, BLOCK: tl.constexpr, EVEN: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o, mask=o < n) * factor, mask=o < n)


@triton.jit
def rows(x, stride_m, stride_n, B: tl.constexpr):
    tl.store(x + tl.program_id(0) * stride_m + tl.arange(0, B) * stride_n, 0.0)
"""
SCRIPT = """
import sys
import torch
from kernels import rows, scale

for n in (640, 1280, 640):
    x = torch.rand(n, device="cuda", dtype=torch.float16)
    y = torch.empty_like(x)
    scale[lambda meta: (triton.cdiv(n, meta["BLOCK"]),)](x, y, n, 0.5)
    assert torch.allclose(y, x / 2)
m = torch.zeros(32, 128, device="cuda")
rows[(32,)](m, *m.stride(), B=128)
{more}
"""


@pytest.fixture
def script(kernel_file: Callable[..., str], tmp_path: Path) -> Callable[..., Path]:
    """Writes the script beside `kernels.py`."""

    def write(more: str = "") -> Path:
        sys.modules.pop("kernels", None)  # of an earlier run in this process
        kernel_file(KERNELS, name="kernels.py")
        return Path(kernel_file(SCRIPT.replace("{more}", more), name="script.py"))

    return write


@pytest.mark.parametrize("place", ["cpu", "meta"])
def test_a_sidecar_says_what_was_launched(
    script: Callable[..., Path], capsys: pytest.CaptureFixture[str], place: str
) -> None:
    path = script()
    assert main(["record", "--on", place, str(path)]) == 0
    said = capsys.readouterr().err
    assert said.count("there is no GPU: launches are recorded and compute nothing") == 1
    assert "4 launches of 2 kernels in 2 specializations were recorded" in said
    read = resolve(f"{path.with_name('kernels.py')}::scale")
    assert read.signature == (("x", "*fp16"), ("y", "*fp16"), ("n", "i32"), ("factor", "fp32"))
    assert read.constexprs == (("BLOCK", 64), ("EVEN", True)) and read.grid == ("cdiv(n, BLOCK)",)
    problem = problem_of(read)
    assert problem is not None and problem.run == ({"n": 640}, {"n": 1280})
    other = resolve(f"{path.with_name('kernels.py')}::rows")
    assert dict(other.constexprs) == {"stride_n": 1, "B": 128}
    assert not path.with_suffix(".twill.toml").exists()


def test_a_sidecar_that_is_there_keeps_what_it_says_and_gets_what_is_new(script: Callable[..., Path]) -> None:
    path = script()
    assert main(["record", "--on", "cpu", str(path)]) == 0
    sidecar = path.with_name("kernels.twill.toml")
    first = sidecar.read_text()
    assert main(["record", "--on", "cpu", str(path)]) == 0
    assert sidecar.read_text() == first  # nothing is new
    script("rows[(16,)](m, *m.stride(), B=64)")
    assert main(["record", "--on", "cpu", str(path)]) == 0
    assert sidecar.read_text().startswith(first) and len(read_sidecar_at(sidecar).tables) == 3
    assert [table.kernel for table in read_sidecar_at(sidecar).tables if table.default] == ["scale", "rows"]
    assert main(["record", "--on", "cpu", "--force", str(path)]) == 0
    assert len(read_sidecar_at(sidecar).tables) == 3 and sidecar.read_text() != first


def test_what_a_script_launched_before_it_raised_is_kept(
    script: Callable[..., Path], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = script("raise ValueError(sys.argv[1:])")
    assert main(["record", "--on", "cpu", "--out", str(tmp_path / "side"), str(path), "--deep", "3"]) == 1
    said = capsys.readouterr().err
    assert "ValueError: ['--deep', '3']" in said and "twill/cli" not in said
    assert f"TWILL_SIDECARS={tmp_path / 'side'}" not in said  # a file of no package needs no name of a module
    assert len(read_sidecar_at(tmp_path / "side" / "kernels.twill.toml").tables) == 2


def test_sidecars_in_a_folder_are_found_by_the_name_of_the_module(
    script: Callable[..., Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = script()
    assert main(["record", "--on", "meta", "--out", str(tmp_path / "side"), str(path)]) == 0
    monkeypatch.setenv("TWILL_SIDECARS", str(tmp_path / "side"))
    assert resolve(f"{path.with_name('kernels.py')}::rows").grid == ("32",)


def test_a_launch_that_no_sidecar_can_say_is_left_out_aloud(
    script: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    local = """
def make():
    @triton.jit
    def local(x):
        tl.store(x, 1.0)
    return local


make()[(1,)](m)
"""
    assert main(["record", "--on", "cpu", str(script(local))]) == 0
    assert "left out, 1 launches of local: it is defined inside a function" in capsys.readouterr().err


def test_fail_nothing_is_written_over_a_sidecar_that_cannot_be_read(
    script: Callable[..., Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path = script()
    sidecar = path.with_name("kernels.twill.toml")
    sidecar.write_text("[[specialization]\n")
    assert main(["record", "--on", "cpu", str(path)]) == 2
    assert sidecar.read_text() == "[[specialization]\n" and "kernels.twill.toml" in capsys.readouterr().err


def test_fail_no_script(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "no_such.py"]) == 2
    assert "no_such.py" in capsys.readouterr().err


LOOKED_UP = """
import torch
from kernels import scale_each

given = [torch.rand(n, device="cuda", dtype=torch.float16) for n in (640, 64)]
ptrs = torch.tensor([x.data_ptr() for x in given], device="cuda")
lengths = torch.tensor([x.numel() for x in given], dtype=torch.int32, device="cuda")
scale_each[(2,)](ptrs, lengths, BLOCK=64)
"""
EACH = """
@triton.jit
def scale_each(ptrs, lengths, BLOCK: tl.constexpr):
    x = tl.load(ptrs + tl.program_id(0)).to(tl.pointer_type(tl.float16))
    for start in range(0, tl.load(lengths + tl.program_id(0)), BLOCK):
        tl.store(x + start + tl.arange(0, BLOCK), 0.0)
"""


def test_addresses_and_lengths_that_were_looked_up_are_tables(
    kernel_file: Callable[..., str], capsys: pytest.CaptureFixture[str]
) -> None:
    sys.modules.pop("kernels", None)
    file = kernel_file(EACH, name="kernels.py")
    assert main(["record", kernel_file(LOOKED_UP, name="script.py")]) == 0
    problem = problem_of(resolve(file))
    assert problem is not None
    seen = problem.case(problem.run[0])
    assert seen.tables == {"ptrs": (0, 1280), "lengths": (640, 64)}
    assert seen.shapes == {"ptrs": (2,), "lengths": (2,), "ptrs.pointee": (704,)}
