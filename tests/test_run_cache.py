"""What a compiler made of a text is kept between runs of the tests, by all that it is made from; nothing else is."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from tests import run_cache
from twill.codegen.compile import nvrtc
from twill.kernel import ttir
from twill.kernel.specialization import Specialization
from twill.tile.translate import translate

TEXT = 'extern "C" __global__ void k() {}'


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[str]:
    """Texts that a compiler was asked for, which is a list; nothing of any run is there."""
    asked: list[str] = []

    def compile_text(
        text: str, arch: str, defines: dict[str, str], fused: bool = True, again: bool = False
    ) -> tuple[bytes, str, str]:
        asked.append(text)
        return text.encode(), text, "log"

    monkeypatch.setattr(nvrtc, "_nvrtc", compile_text)
    monkeypatch.setenv(run_cache.BUILDS, str(tmp_path / "builds"))
    monkeypatch.setenv(run_cache.FOLDER, str(tmp_path))
    run_cache.share_builds()
    return asked


def test_a_text_is_compiled_once_for_each_of_its_options_and_compilers(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(2):
        for arch, defines, fused in (("sm_90a", {}, True), ("sm_100a", {}, True), ("sm_90a", {"N": "1"}, True),
                                     ("sm_90a", {}, False)):  # fmt: skip
            assert nvrtc._nvrtc(TEXT, arch, defines, fused) == (TEXT.encode(), TEXT, "log")
    assert len(compiled) == 4
    monkeypatch.setattr(run_cache, "compiler", lambda: "another one")
    nvrtc._nvrtc(TEXT, "sm_90a", {}, True)
    assert len(compiled) == 5


def test_tests_of_the_compiler_compile_in_every_run(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    own = f"{run_cache.OWN_TESTS}test_nvrtc.py::test_it (call)"
    for number, current in enumerate(["tests/test_it.py::test_it (call)", own, own]):
        (tmp_path / str(number)).mkdir()
        monkeypatch.setenv(run_cache.FOLDER, str(tmp_path / str(number)))  # another run
        monkeypatch.setenv("PYTEST_CURRENT_TEST", current)
        nvrtc._nvrtc(TEXT, "sm_90a", {}, True)
    assert len(compiled) == 3


def test_without_a_folder_nothing_outlives_a_run(
    compiled: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(run_cache.BUILDS, "")
    for run in ("first", "second"):
        (tmp_path / run).mkdir()
        monkeypatch.setenv(run_cache.FOLDER, str(tmp_path / run))
        nvrtc._nvrtc(TEXT, "sm_90a", {}, True)
        nvrtc._nvrtc(TEXT, "sm_90a", {}, True)
    assert len(compiled) == 2


def test_a_build_that_no_run_asks_for_goes(compiled: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (TEXT, f"{TEXT}\n"):
        nvrtc._nvrtc(text, "sm_90a", {}, True)
    folder = run_cache.builds()
    assert folder is not None
    old, new = folder.iterdir()
    past = time.time() - (run_cache.DAYS + 1) * 86400
    os.utime(old, (past, past))
    run_cache.forget_old()
    assert list(folder.iterdir()) == [new]


KERNEL = "import triton\nimport triton.language as tl\n\n@triton.jit\ndef k(out): tl.store(out, 1.0)\n"


def test_a_module_of_a_kernel_that_a_test_writes_is_kept_by_its_text(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Wherever it lies; but not where the file imports what may be another one in the next run."""
    compiled: list[str] = []

    def compile_kernel(spec: Specialization) -> str:
        compiled.append(spec.file)
        return f'loc("{spec.file}":5:1)'

    monkeypatch.setattr(ttir, "ttir", compile_kernel)
    monkeypatch.setattr(translate, "ttir", translate.ttir)  # type: ignore[attr-defined]
    monkeypatch.setenv(run_cache.BUILDS, str(tmp_path / "builds"))
    run_cache.share_modules()

    def made(name: str, text: str, kernel: str = "k", divisor: int = 16) -> None:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        spec = Specialization(str(path), kernel, "", (("out", "*fp32"),), (), (("out", divisor),))
        assert translate.ttir(spec) == f'loc("{path}":5:1)'  # type: ignore[attr-defined]

    for name, text in (
        ("a.py", KERNEL),
        ("b.py", KERNEL),
        ("a.py", f"{KERNEL}\n"),
        ("a.py", f"{KERNEL}import helper\n"),
    ):
        made(name, text)
    made("a.py", KERNEL, "other")
    made("a.py", KERNEL, divisor=8)
    made("c.py", f"{KERNEL}import helper\n")
    for _ in range(2):  # MLIR writes the path in bytes
        made("größe.py", KERNEL)
    assert [Path(file).name for file in compiled] == [
        "a.py",
        "a.py",
        "a.py",
        "a.py",
        "a.py",
        "c.py",
        "größe.py",
        "größe.py",
    ]


def test_an_error_of_a_compiler_is_raised_as_it_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """And again in every run: what is not kept is looked for without an error that would be its context."""
    monkeypatch.setenv(run_cache.BUILDS, str(tmp_path / "builds"))

    def refused() -> str:
        raise ValueError("no such type")

    for _ in range(2):
        with pytest.raises(ValueError, match="no such type") as raised:
            run_cache.kept("module", refused)
        assert raised.value.__context__ is None
