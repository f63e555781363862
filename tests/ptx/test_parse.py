"""PTX texts are read as they are meant."""

from __future__ import annotations

import pytest

from tests.ptx_programs import HEAD, kernel
from twill.codegen.verify.ptx.build import build
from twill.codegen.verify.ptx.memory import GlobalMemory
from twill.exc import MalformedPtx, UnsupportedPtx
from twill.ptx.parse import parse
from twill.ptx.program import (
    AddressOperand,
    DestinationPair,
    FloatImmediate,
    Immediate,
    Negated,
    PtxSymbol,
    Register,
    Vector,
)


def test_operands_of_every_kind() -> None:
    module = parse(
        kernel("""
      @!%p1 shfl.sync.bfly.b32 %r1|%p2, %r2, 0x1F, 31, -1;
      ld.shared.v2.f32 {%f1, %f2}, [%r3+-16];
      add.f32 %f3, %f1, 0f3FC00000;
      cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd1, {%r4, %r5}], [memory+32];
      mov.f64 %d1, 0dBFF8000000000000;
    """)
    )
    shuffle, load, add, copy, move, _ = module.function("k").instructions
    assert shuffle.guard == Negated(Register("%p1")) and shuffle.opcode == "shfl.sync.bfly.b32"
    assert shuffle.operands[0] == DestinationPair(Register("%r1"), Register("%p2"))
    assert [o.value for o in shuffle.operands[2:] if isinstance(o, Immediate)] == [31, 31, -1]
    assert load.operands == (Vector((Register("%f1"), Register("%f2"))), AddressOperand(Register("%r3"), -16))
    assert add.operands[2] == FloatImmediate(1.5, 32)
    assert copy.operands[0] == AddressOperand(Register("%rd1"), 0, (Register("%r4"), Register("%r5")))
    assert copy.operands[1] == AddressOperand(PtxSymbol("memory"), 32)
    assert move.operands[1] == FloatImmediate(-1.5, 64)


def test_braces_have_registers_and_labels_of_their_own() -> None:
    again = "{ .reg .pred p; WAIT: setp.ne.b32 p, %r1, 0; @p bra WAIT; }"
    function = parse(kernel(f"mov.u32 %r1, 0; {again} {again}")).function("k")
    assert [label for label in function.labels if label.startswith("WAIT")] == ["WAIT.1", "WAIT.2"]
    assert {name for name in function.registers if name.startswith("p.")} == {"p.1", "p.2"}
    guards = [instruction.guard for instruction in function.instructions if instruction.name == "bra"]
    assert guards == [Register("p.1"), Register("p.2")]


def test_a_name_means_what_it_does_where_it_stands() -> None:
    read = "mov.u32 %r1, x;"
    inner = "{ mov.u32 %r1, x; .reg .b32 x; mov.u32 %r1, x; { .reg .b32 x; mov.u32 %r1, x; } mov.u32 %r1, x; }"
    moves = parse(kernel(f"{read} {inner} {read}")).function("k").instructions[:-1]
    means = [move.operands[1] for move in moves]
    outer, first, second = PtxSymbol("x"), Register("x.1"), Register("x.2")
    assert means == [outer, outer, first, second, first, outer]


def test_what_two_texts_have_in_common_is_read_once_unless_names_mean_something_else() -> None:
    read = "\nmov.u32 %r1, x;"
    bodies = ("", "add.u32 %r2, %r1, %r1;", ".reg .b32 x;", "{ .reg .b32 x; }")
    first, added, declared, elsewhere = (
        parse(kernel(f"{body}{read} {{ .reg .b32 y; mov.u32 y, %r1; }}")).function("k").instructions[-3:-1]
        for body in bodies
    )
    assert first[0] is added[0] is elsewhere[0] and first[1] is added[1]
    assert first[0].operands[1] == PtxSymbol("x") and declared[0].operands[1] == Register("x")
    assert first[1].operands[0] == Register("y.1") and elsewhere[1].operands[0] == Register("y.2")


def test_an_inlined_line_belongs_to_the_line_that_it_is_inlined_at() -> None:
    text = (
        kernel("""
      .loc 1 40 3
      .loc 2 7 5, function_name $L__info_string0, inlined_at 1 40 3
      .loc 3 2 1, function_name $L__info_string1, inlined_at 2 7 5
      mov.u32 %r1, 0;
      .loc 1 41 3
    """)
        + '.file 1 "kernel.cu"\n.file 2 "a.cuh"\n.file 3 "b.cuh"\n'
    )
    move, leave = parse(text).function("k").instructions
    assert (move.place.file, move.place.source) == ("kernel.cu", 40)
    assert leave.place.source == 41
    assert text.splitlines()[move.place.line - 1].strip() == "mov.u32 %r1, 0;"


def test_variables_have_their_space_alignment_size_and_value() -> None:
    variables = ".global .align 4 .u32 table[3] = {1, 0x2, -1};\n.shared .align 16 .b8 tile[64];\n"
    module = parse(kernel("", variables=variables))
    dynamic, table, tile = module.variables
    assert (dynamic.space, dynamic.size, dynamic.alignment) == ("shared", 0, 1024)
    assert (table.size, table.initial[:8]) == (12, b"\1\0\0\0\2\0\0\0") and table.initial[8:] == b"\xff" * 4
    assert (tile.space, tile.size, tile.alignment) == ("shared", 64, 16)


@pytest.mark.parametrize(
    "body", ["mov.u32 %r1, 0", "{ mov.u32 %r1, 0;", ".nonsense 3;", "ld.global.u32 %r1, [%rd1+x];"]
)
def test_what_is_no_ptx_is_refused_with_its_line(body: str) -> None:
    with pytest.raises(MalformedPtx, match=r"PTX:\d+: "):
        parse(f"{HEAD}.visible .entry k()\n{{\n.reg .b32 %r<4>;\n.reg .b64 %rd<4>;\n{body}")


@pytest.mark.parametrize(
    "instruction",
    ["tcgen05.alloc.b32 [%r1], 32", "add.cc.u32 %r1, %r2, %r3", "sin.approx.f64 %d1, %d2", "mov.u32 %r1, %nosuch",
     "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%d1}, {%d2}, {%d3}, {%d4}", "call.uni (%r1), f, (%r2)"],
)  # fmt: skip
def test_what_is_not_executed_is_refused_with_its_line_before_anything_runs(instruction: str) -> None:
    module = parse(kernel(f"{instruction};"))
    with pytest.raises(UnsupportedPtx, match=r"PTX:\d+: "):
        build(module, module.function("k"), GlobalMemory())


def test_a_function_that_is_called_is_refused() -> None:
    with pytest.raises(UnsupportedPtx, match="calls are not executed"):
        parse(f"{HEAD}.func (.param .b32 r) f(.param .b32 a)\n{{\nret;\n}}\n")
