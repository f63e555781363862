"""Promises of the simulated launches: microbenchmarks take what they took on silicon, kept kernels what is recorded."""

from __future__ import annotations

import json
import struct
from functools import cache
from pathlib import Path

import pytest

from benchmarks.predicted_simulated import markdown
from tests.conftest import ROOT
from tests.golden_schedules import compiled, examples
from twill.calibrate.recording import read_recording
from twill.calibrate.workbench import cubin
from twill.codegen.compile.disassembler import disassemble
from twill.codegen.targets.hopper.probes import PROBES
from twill.codegen.targets.hopper.timing.constants import constant_bank, read_layout
from twill.codegen.targets.hopper.timing.instruction import SassCode, read_code
from twill.codegen.targets.hopper.timing.launch import SimulatedLaunch, TimedKernel
from twill.codegen.targets.hopper.timing.program import timed_program
from twill.codegen.targets.hopper.timing.sm import Sm
from twill.machine.file import load_machine

MEASURED = ROOT / "benchmarks" / "results" / "h200.measured.json"
RECORDS = sorted((ROOT / "benchmarks" / "results").glob("simulated-2*.json"))
# Cycles of a step that may be missing or too many.
CLOSE = {"shared.latency": 0.1, "shared.store": 0.1, "mbarrier.alone": 1, "named.alone": 1, "crossing.mbarrier.0": 2,
         "crossing.named.32": 15}  # fmt: skip


@cache
def text_of(blob: bytes) -> str:
    """The disassembly."""
    text = disassemble(blob, encoded=True)
    if text is None:
        pytest.skip("there is no nvdisasm")
    return text


@cache
def built(file: str) -> tuple[bytes, dict[str, SassCode]]:
    """A file of microbenchmarks: its cubin, and its functions."""
    blob = cubin(file, "sm_90a")
    return blob, {one.function: one for one in read_code(text_of(blob))}


FIGURES = load_machine("h200").simulating


def simulated(name: str) -> float:
    """Cycles of a step of a microbenchmark, as calibration takes them from two launches."""
    probe, (short, long) = PROBES[name], (8, 24)
    blob, functions = built(probe.file)
    layout = read_layout(blob, probe.kernel)
    found = []
    for count in (short, long):
        values = [struct.pack("<Q", 1 << 32), struct.pack("<Q", 1 << 33), struct.pack("<i", count)]
        values += [struct.pack("<i", one) for one in probe.numbers]
        bank = constant_bank(layout, values, (1, 1, 1), probe.threads)
        program = timed_program(functions[probe.kernel], bank, probe.threads, {}, FIGURES)
        found.append(Sm(program, FIGURES).run(1 << 20))
    return (found[1] - found[0]) / (long - short) / probe.steps


@pytest.mark.parametrize("name", CLOSE)
def test_a_microbenchmark_takes_what_it_took_on_silicon(name: str) -> None:
    measured = read_recording(MEASURED).samples[name].median
    assert simulated(name) == pytest.approx(measured, abs=CLOSE[name])


def kept(name: str) -> TimedKernel:
    """A kept example."""
    emission = compiled(next(one for one in examples() if one.name == name))
    return TimedKernel.read(emission.manifest, emission.build.cubin, text_of(emission.build.cubin))


def test_an_iteration_of_the_gemm_takes_what_its_products_take() -> None:
    kernel = kept("gemm_bf16")
    launches = (SimulatedLaunch({"M": 128, "N": 128, "K": 64 * n}, (1,), 1) for n in (8, 24))
    short, long = (kernel.cycles(launch, FIGURES) for launch in launches)
    assert (long - short) / 16 == 512


def test_attention_takes_longer_than_its_schedule_where_warps_wait_for_one_another() -> None:
    """D = 64: the interval is 1,400 cycles, and 1,981 were measured."""
    kernel = kept("attention_full-d64")
    short, long = (kernel.cycles(SimulatedLaunch({"N_CTX": 128 * n}, (1, 1), 1), FIGURES) for n in (4, 12))
    assert (long - short) / 8 > 1600


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: path.stem)
def test_the_page_begins_with_what_was_recorded(path: Path) -> None:
    page = path.with_suffix(".md").read_text(encoding="utf-8")
    assert page.startswith(markdown(json.loads(path.read_text(encoding="utf-8"))))
