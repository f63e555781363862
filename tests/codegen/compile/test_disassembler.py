"""Promises about the disassembler."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill.codegen.compile import disassembler
from twill.codegen.compile.disassembler import disassemble, find_disassembler


def test_one_is_found_where_the_emit_extra_is_installed() -> None:
    found = find_disassembler()
    assert found is not None
    assert found.name == "nvdisasm"


def test_what_is_no_cubin_gives_none() -> None:
    assert disassemble(b"nothing") is None


def test_without_a_disassembler_there_is_no_listing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(disassembler, "_candidates", lambda: iter([tmp_path / "nvdisasm"]))
    monkeypatch.setattr(disassembler, "find_disassembler", disassembler.find_disassembler.__wrapped__)
    assert disassemble(b"nothing") is None
