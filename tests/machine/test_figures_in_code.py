"""Hardware figures are in machine files, with their sources, and not in code."""

from __future__ import annotations

import re
from pathlib import Path

import twill
from tests.kernels import H100
from twill.machine.description import EmissionFigures
from twill.machine.file import load_machine

ROOT = Path(twill.__file__).parent
SEMANTICS = ("codegen/verify/", "runtime/", "calibrate/", "codegen/print/cuda/")
"""Rooms that repeat what PTX and the driver's interface define, so as to check, print or measure it."""

FIGURES = {
    "reserved shared memory, as a number": r"RESERVED\w* *= *1[_]?024",
    "registers": r"\b(65[_]?536|64[_]?512)\b",
    "shared memory of an SM": r"\b(227|228|232[_]?448|233[_]?472|231[_]?424)\b",
    "SMs": r"\b(132|148)\b",
    "named barriers": r"BARRIERS\w* *= *1[56]\b",
    "box of a tensor map": r"BOX\w* *= *256\b",
    "a figure with the GPU that it was measured on": r"^[A-Z_]+ *(:.*)?= *[-0-9.(][^#]*#.*\b[HB][12]00\b",
}


def code(path: Path) -> str:
    """A file without its comments that have a line of their own and without docstrings."""
    return re.sub(r'"""(.|\n)*?"""|^ *#.*$', "", path.read_text(), flags=re.MULTILINE)


def found(text: str) -> list[str]:
    """What hardware figures a text has."""
    return [name for name, pattern in FIGURES.items() if re.search(pattern, text, re.MULTILINE)]


def test_no_hardware_figure_is_in_code() -> None:
    paths = [path for path in ROOT.rglob("*.py") if not str(path.relative_to(ROOT)).startswith(SEMANTICS)]
    assert len(paths) > 200
    assert {str(path.relative_to(ROOT)): found(code(path)) for path in paths if found(code(path))} == {}


def test_a_figure_in_code_would_be_found() -> None:
    lines = (
        "RESERVED = 1024", "pool = 65536", "room = 227 * 1024", "sms = 132", "NAMED_BARRIERS = 15", "BOX = 256",
        "UNDER_LOAD = 3  # latencies: measured on an H200",
    )  # fmt: skip
    assert [found(line) for line in lines] == [[name] for name in FIGURES]
    assert found("at = 1320 + 2650  # bytes of an H100") == []


def test_emitted_code_takes_its_figures_from_the_machine_file() -> None:
    mine = load_machine("h200").emitting
    own = {"streamed": mine.streamed, "memory_rate": mine.memory_rate}  # its memory is faster
    assert mine.streamed.value > H100.emitting.streamed.value
    assert mine.memory_rate is not None and H100.emitting.memory_rate is not None
    assert mine.memory_rate.value > H100.emitting.memory_rate.value
    assert load_machine("h200").emitting == H100.emitting.model_copy(update=own)
    for name in EmissionFigures.model_fields:
        uses = [path for path in ROOT.rglob("*.py") if f"emitting.{name}" in path.read_text()]
        assert uses, f"nothing reads `{name}`"


def test_no_schedule_depends_on_what_only_emitted_code_depends_on() -> None:
    assert H100.model_copy(update={"emission": None}).digest() == H100.digest()
