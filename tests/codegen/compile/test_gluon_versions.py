"""A Triton without Gluon, or with names that are not known, is refused before anything is solved, and what it
lacks is said."""

from __future__ import annotations

import pytest

from tests.conftest import ROOT
from tests.kernels import H100
from twill.codegen.compile.gluon import triton
from twill.codegen.emission import extract
from twill.codegen.gluon import emit_gluon
from twill.codegen.print.gluon.versions import COMPILING
from twill.exc import NoGluon
from twill.graph.dependence import DependenceGraph
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.tile.rewrite.pipeline import Allowed


def never(graph: DependenceGraph, machine: Machine) -> Schedule:
    raise AssertionError("something is solved")


@pytest.mark.parametrize(
    ("module", "name"),
    [
        ("triton.experimental.gluon_of_another_version", "jit"),
        ("triton.experimental.gluon.language", "warp_specialize_by_another_name"),
    ],
)
def test_a_triton_that_lacks_something_is_refused_before_a_schedule_is_made(
    module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kernel = extract(str(ROOT / "examples" / "gemm.py"), "bf16", (), (), Allowed(conditional=False))
    monkeypatch.setattr(triton, "COMPILING", (*COMPILING, (module, name)))
    with pytest.raises(NoGluon, match=rf"Triton 3\.\d+\.\d+ is installed, which has no `{module}.{name}`") as refused:
        emit_gluon(kernel, H100, never)
    assert "Triton 3.6 to 3.9" in (refused.value.hint or "")
    monkeypatch.setattr(triton, "_version", str)
    with pytest.raises(NoGluon, match="no Triton is installed"):
        emit_gluon(kernel, H100, never)


@pytest.mark.parametrize(
    ("place", "name", "said"),
    [
        ("nvidia.blackwell", "tensor_memory_descriptor", r"nvidia\.blackwell\.tensor_memory_descriptor"),
        ("nvidia.blackwell.tensor_memory_descriptor", "reinterpret", "_reinterpret"),
    ],
)
def test_so_is_one_that_lacks_what_modules_share(
    place: str, name: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    triton.shared_module.cache_clear()  # no module was looked at before
    monkeypatch.delattr(f"triton.experimental.gluon.language.{place}.{name}")
    kernel = extract(str(ROOT / "examples" / "gemm.py"), "bf16", (), (), Allowed(conditional=False))
    with pytest.raises(NoGluon, match=rf"Triton 3\.\d+\.\d+ is installed, which has no `\S*{said}`"):
        emit_gluon(kernel, H100, never)
