"""A launch of an emitted kernel: how many cycles its CTA takes on an SM of its own."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twill.codegen.targets.hopper.timing.constants import constant_bank, read_layout
from twill.codegen.targets.hopper.timing.instruction import SassCode, read_code
from twill.codegen.targets.hopper.timing.program import timed_program
from twill.codegen.targets.hopper.timing.sm import Sm, Trace
from twill.codegen.targets.hopper.timing.state import Number
from twill.graph.work import BITS
from twill.machine.description import SimulationFigures
from twill.manifest.document import KernelParameter, Manifest

MEMORY = {"f8e4m3fn": "f8e4m3"}  # elements of manifests by the names of tile programs, where they differ
FORMATS = {"f32": "<f", "f64": "<d", "i64": "<q", "u64": "<Q", "u32": "<I"}  # of scalars; others: a word


@dataclass(frozen=True)
class SimulatedLaunch:
    """sizes: scalar arguments by name; the others are 1. grid: program instances along each axis. ctas: that are
    launched. number: of the one that is simulated."""

    sizes: Mapping[str, int | float]
    grid: tuple[int, ...]
    ctas: int
    number: int = 0


@dataclass(frozen=True)
class TimedKernel:
    """An emitted kernel as it is simulated. text: its disassembly with encodings (`nvdisasm -c -hex`)."""

    manifest: Manifest
    cubin: bytes
    code: SassCode

    @classmethod
    def read(cls, manifest: Manifest, cubin: bytes, text: str) -> TimedKernel:
        """KeyError: the text has no such function."""
        code = {one.function: one for one in read_code(text)}
        return cls(manifest, cubin, code[manifest.function])

    def cycles(self, launch: SimulatedLaunch, figures: SimulationFigures, trace: Trace | None = None) -> int:
        """From the launch to the end of its CTA. Errors: Deadlock."""
        layout = read_layout(self.cubin, self.manifest.function)
        grid = _three(launch.grid)
        values = [self._value(one, launch, grid) for one in self.manifest.parameters]
        boxes = {
            layout.base + offset: self._box(one)
            for one, offset in zip(self.manifest.parameters, layout.offsets, strict=True)
            if one.kind == "map"
        }
        bank = constant_bank(layout, values, (launch.ctas, 1, 1), self.manifest.threads)
        program = timed_program(self.code, bank, self.manifest.threads, boxes, figures)
        return Sm(program, figures, _number(launch), trace).run()

    def _box(self, one: KernelParameter) -> int:
        """Bytes of a copy by a map."""
        entry = self.manifest.maps[one.index]
        return math.prod(entry.box) * BITS[MEMORY.get(entry.element, entry.element)] // 8

    def _value(self, one: KernelParameter, launch: SimulatedLaunch, grid: tuple[int, int, int]) -> bytes | None:
        """As it is passed. Memory is where nobody looks."""
        if one.kind == "map":
            return None
        if one.kind in ("pointer", "workspace", "origin"):
            return struct.pack("<Q", 0x1_0000_0000 * (1 + one.index))
        value = grid[one.index] if one.kind == "grid" else launch.sizes.get(one.name, 1)
        form = FORMATS.get(one.element, "<i")
        return struct.pack(form, value if form in ("<f", "<d") else int(value))


def _three(sizes: Sequence[int]) -> tuple[int, int, int]:
    x, y, z = (*sizes, 1, 1)[:3]
    return x, y, z


def _number(launch: SimulatedLaunch) -> Number:
    """Emitted kernels have grids of one axis."""
    return (launch.number, 0, 0)
