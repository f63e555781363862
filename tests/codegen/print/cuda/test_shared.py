"""Promises of `twill.codegen.print.cuda.shared`: where barriers are, and names for what differs between warp groups."""

from __future__ import annotations

from tests.printed_programs import gemm
from twill.codegen.print.cuda.names import Names
from twill.codegen.print.cuda.shared import SharedAddresses, barriers_at, of_section
from twill.codegen.print.sections import Section


def test_barriers_lie_behind_the_buffers_and_never_overlap() -> None:
    program = gemm()
    end = max(b.offset + b.slots * b.bytes for b in program.buffers)
    spans = [(at, at + 8 * ring.depth) for ring, pair in zip(program.arefs, barriers_at(program), strict=True)
             for at in pair]  # fmt: skip
    assert spans[0][0] >= end
    assert all(before[1] == after[0] for before, after in zip(spans, spans[1:], strict=False))
    assert spans[-1][1] <= program.shared


def test_what_differs_is_a_constant_of_the_section() -> None:
    program, names = gemm(), Names()
    shared = SharedAddresses.of(program, names)
    section = Section((1, 2), program.groups[1], buffers={0: (0, 1)}, arefs={0: (0, 0)})
    own, lines = of_section(shared, program, section, "consumer", names)
    (line,) = lines
    step = program.buffers[1].offset - program.buffers[0].offset
    assert line == f"const u32 {own.buffers[0]} = ({shared.buffers[0]} + consumer * {step});"
    assert (own.full, own.empty, own.named) == (shared.full, shared.empty, shared.named)
