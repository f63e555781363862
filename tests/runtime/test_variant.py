"""Promises of variants: what Triton specializes on, and one key for all that an emitted kernel depends on."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from dataclasses import replace
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import triton.language as tl

from tests.conftest import ROOT
from tests.jit_kernels import MANIFEST
from twill.manifest.document import CallArgument
from twill.runtime.variant import EMITS, Unsupported, Variant, compiler, constant, machine_name, nvrtc, variant

SAID = [
    ("tensordesc<bf16[128,64]>", None), ("*fp32", "D"), ("i32", ""), ("i32", "D"), ("fp32", None), ("constexpr", 128),
    ("constexpr", tl.bfloat16),
]  # fmt: skip
NAMES = ["a_desc", "x", "M", "N", "s", "BLOCK", "dtype"]
VALUES = [None, None, 255, 64, 0.5, 128, tl.bfloat16]


def test_a_variant_is_what_triton_says() -> None:
    found = variant(NAMES, SAID, VALUES)
    assert found.divisible == ("x", "N")
    assert found.constants == (("BLOCK", 128), ("dtype", "tl.bfloat16"))
    assert (
        found.text() == "a_desc=tensordesc<bf16[128,64]>, x=*fp32, M=i32, N=i32, s=fp32, BLOCK=128, dtype=tl.bfloat16"
    )


def test_a_manifest_fits_its_own_variant_alone() -> None:
    found = variant(NAMES, SAID, VALUES)
    assert found.fits(MANIFEST)
    for changed in (
        CallArgument("M", "number", "i64"), CallArgument("BLOCK", "constant", value=64),
        CallArgument("BLOCK", "constant", value=128.0), CallArgument("dtype", "constant", value="tl.float16"),
        CallArgument("M", "constant", value=1),
    ):  # fmt: skip
        arguments = tuple(changed if a.name == changed.name else a for a in MANIFEST.arguments)
        assert not found.fits(replace(MANIFEST, arguments=arguments))


@pytest.mark.parametrize(
    ("value", "wanted"),
    [(3, 3), (True, True), (None, None), ("text", "text"), (0.5, 0.5), (tl.float32, "tl.float32"), (tl.constexpr(4), 4),
     (tl.float8e4nv, "tl.float8e4nv"), (tl.int64, "tl.int64")],
)  # fmt: skip
def test_constants_are_written_down(value: Any, wanted: object) -> None:
    assert constant("C", value) == wanted


@pytest.mark.parametrize("value", [print, (1, 2), object(), [1]])
def test_other_constants_are_not_supported(value: object) -> None:
    with pytest.raises(Unsupported, match="constexpr C"):
        constant("C", value)


def test_a_tuple_is_not_supported() -> None:
    with pytest.raises(Unsupported, match="tuple"):
        variant(["a"], [(("i32", "i32"), None)], [(1, 2)])


def test_everything_that_matters_is_in_the_key() -> None:
    usual = Variant((("x", "*fp32"), ("n", "i32")), (("B", 1),), ("x",))
    key = ("k", "source", "h200", "compiler")
    others = [
        replace(usual, signature=(("x", "*fp32"), ("n", "i64"))), replace(usual, constants=(("B", True),)),
        replace(usual, constants=(("B", 1.0),)), replace(usual, constants=(("B", "1"),)), replace(usual, divisible=()),
    ]  # fmt: skip
    asked = ((), ("strict math",), ("gluon",), ("strict math", "gluon"))
    keys = {*(usual.key(*key, unusual) for unusual in asked), *(other.key(*key) for other in others)}
    keys |= {usual.key(*(*key[:i], "other", *key[i + 1 :])) for i in range(4)}
    assert len(keys) == 13
    assert usual.key(*key) == replace(usual).key(*key)


def test_the_compiler_s_hash_is_that_of_its_source_and_of_triton() -> None:
    assert compiler("3.6.0") != compiler("3.9.0")
    assert len(compiler("3.6.0")) == 64


def test_the_hash_of_the_compiler_is_of_everything_that_emits() -> None:
    code = (
        "import sys, twill.codegen.emission, twill.solve.pipeline\n"
        "print(*(m.__file__ for n, m in sys.modules.items() if n.startswith('twill.') and m.__file__), sep='\\n')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    loaded = {str(Path(path).relative_to(ROOT / "twill")) for path in done.stdout.split()}
    covered = {str(p.relative_to(ROOT / "twill")) for pattern in EMITS for p in (ROOT / "twill").glob(pattern)}
    assert len(loaded) > 100
    assert {path for path in loaded - covered if not path.startswith("exc/")} == set()


def test_a_key_holds_the_version_of_the_cuda_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = set()
    for version in ("13.0.48", "13.5.1"):
        monkeypatch.setattr("twill.runtime.variant.metadata.version", lambda name, version=version: version)
        compiler.cache_clear()
        keys.add(compiler("3.9.0"))
    compiler.cache_clear()
    monkeypatch.undo()
    assert len(keys | {compiler("3.9.0")}) == 3


def test_without_its_package_the_library_is_asked_for_its_version(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise metadata.PackageNotFoundError(name)

    def library(name: str) -> SimpleNamespace:
        return SimpleNamespace(nvrtcVersion=lambda: (0, 13, 4))

    monkeypatch.setattr(metadata, "version", missing)
    with monkeypatch.context() as patched:
        patched.setattr(importlib, "import_module", library)
        assert nvrtc() == "13.4"
        patched.setattr(importlib, "import_module", missing)
        assert nvrtc() == ""


def test_a_machine_in_a_file_is_known_by_what_the_file_says(tmp_path: Path) -> None:
    assert (machine_name("h200"), machine_name("no such machine")) == ("h200", "no such machine")
    path = tmp_path / "mine.toml"
    text = (ROOT / "machines" / "h100.toml").read_text(encoding="utf-8")
    names = []
    for title in ("One", "Another machine"):
        path.write_text(re.sub('title = ".*"', f'title = "{title}"', text), encoding="utf-8")
        names.append(machine_name(str(path)))
    assert names[0] != names[1] and all(re.fullmatch("[0-9a-f]{64}", name) for name in names)
