"""Promises of the headers and of the complete text."""

from __future__ import annotations

import re

from tests.conftest import ROOT
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape
from twill.codegen.print.cuda.source import HEADERS, header, standalone

EVERY_WRAPPER = ROOT / "tests" / "cuda" / "every_wrapper.cu"


def wrappers() -> set[str]:
    """Names of all functions that the headers define, through macros too."""
    names: set[str] = set()
    for name in HEADERS:
        text = header(name)
        names |= set(re.findall(r"\bDEV [\w ]+?\*? ?(\w+)(?:##\w+)?\(", text))
    grown = {f"tma_reduce_{op}" for op in ("add", "min", "max", "and", "or", "xor")}
    grown |= {
        f"{kind}_x{count}{way}" for kind in ("ldmatrix", "stmatrix") for count in (1, 2, 4) for way in ("", "_trans")
    }
    return {name for name in names if name not in ("tma_reduce_",)} | grown


def test_every_wrapper_is_called_by_the_kernels_that_the_build_test_compiles() -> None:
    text = EVERY_WRAPPER.read_text(encoding="utf-8")
    called = set(re.findall(r"\b(\w+)(?:<[^<>;()]*>)?\(", text))
    assert len(wrappers()) > 90
    assert wrappers() - called == set()


def test_every_function_with_ptx_cites_its_section() -> None:
    for name in HEADERS:
        cited = True
        for line in header(name).splitlines():
            if line.startswith("//"):
                cited = True
            elif not line.strip():
                cited = False
            assert cited or not line.startswith(("DEV", "template <int", "#define TWILL_TMA")), f"{name}: {line}"


def test_ptx_is_written_in_the_headers_alone() -> None:
    lowering = [path for path in (ROOT / "twill").rglob("*.py") if path.name != "multiply_shapes.py"]
    assert [path for path in lowering if "asm volatile" in path.read_text(encoding="utf-8")] == []


def test_the_text_stands_alone_and_names_its_parts() -> None:
    text = standalone("// mine\n", [MultiplyShape("bf16", "bf16", 8)], name="gemm.cu")
    assert "#include" not in text
    marks = re.findall(r'^#line 1 "/twill/([^"]+)"$', text, re.MULTILINE)
    assert marks == [*HEADERS, "wgmma_shapes.cuh", "gemm.cu"]
    assert text.endswith('#line 1 "/twill/gemm.cu"\n// mine\n')
