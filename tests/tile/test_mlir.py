"""Generic MLIR becomes our own operation tree: values, types, attributes, lines and names."""

from __future__ import annotations

import math

import pytest

from twill.tile.mlir import Dense, RawOp, parse
from twill.tile.mlir_attributes import descriptor_type, spell_bits, spell_constants
from twill.tile.program import TileType


def operations(body: str, aliases: str = "") -> tuple[RawOp, ...]:
    text = f'{aliases}"builtin.module"() ({{\n{body}\n}}) : () -> ()\n'
    return parse(text, "/kernels/k.py").regions[0][0].operations


def constant(value: str, kind: str) -> object:
    return operations(f'%0 = "arith.constant"() <{{value = {value}}}> : () -> {kind}')[0].attributes["value"]


def test_values_are_numbered_in_order_of_definition_through_regions() -> None:
    first, loop, last = operations(
        '%a = "x.make"() : () -> i32\n'
        '%r = "scf.for"(%a) ({\n^bb0(%i: i32):\n%b = "x.use"(%a, %i) : (i32, i32) -> f32\n'
        '"scf.yield"(%b) : (f32) -> ()\n}) : (i32) -> f32\n'
        '"x.end"(%r) : (f32) -> ()'
    )
    (block,) = loop.regions[0]
    assert [value.id for value in (*first.results, *block.arguments)] == [0, 1]
    assert block.operations[0].operands == (0, 1)
    assert block.operations[0].name == "x.use"
    assert block.operations[1].operands == (block.operations[0].results[0].id,)
    assert last.operands == (loop.results[0].id,)


@pytest.mark.parametrize(
    ("spelling", "kind"),
    [
        ("f32", TileType((), "f32")),
        ("i1", TileType((), "i1")),
        ("tensor<128x64xbf16>", TileType((128, 64), "bf16")),
        ("tensor<16xf8E4M3FN>", TileType((16,), "f8e4m3")),
        ("tensor<16xf8E5M2>", TileType((16,), "f8e5m2")),
        ("!tt.ptr<f16>", TileType((), "ptr:f16")),
        ("tensor<8x!tt.ptr<f8E5M2>>", TileType((8,), "ptr:f8e5m2")),
        ("!tt.tensordesc<tensor<64x32xf16>>", TileType((64, 32), "desc:f16")),
        ("!tt.tensordesc<64x32xf16>", TileType((64, 32), "desc:f16")),
    ],
)
def test_types(spelling: str, kind: TileType) -> None:
    assert operations(f'%0 = "x.make"() : () -> {spelling}')[0].results[0].type == kind


def test_descriptor_types_with_a_shared_memory_layout() -> None:
    assert descriptor_type("tensor<64x32xf8E4M3FN>, #shared") == TileType((64, 32), "desc:f8e4m3")
    assert descriptor_type("64x32xf16, #shared") == TileType((64, 32), "desc:f16")


@pytest.mark.parametrize(
    ("value", "kind", "wanted"),
    [
        ("-5 : i32", "i32", -5),
        ("true", "i1", 1),
        ("false", "i1", 0),
        ("1.5 : f32", "f32", 1.5),
        ("0xFF800000 : f32", "f32", -math.inf),
        ("dense<-3> : tensor<4xi32>", "tensor<4xi32>", Dense(-3)),
        ("dense<true> : tensor<4xi1>", "tensor<4xi1>", Dense(1)),
        ("dense<0.25> : tensor<4xbf16>", "tensor<4xbf16>", Dense(0.25)),
        ("dense<0xFF800000> : tensor<4x2xf32>", "tensor<4x2xf32>", Dense(-math.inf)),
        ("dense<0x7F80> : tensor<4xbf16>", "tensor<4xbf16>", Dense(math.inf)),
        ("dense<0xFC00> : tensor<4xf16>", "tensor<4xf16>", Dense(-math.inf)),
        ("dense<[1, 2]> : tensor<2xi32>", "tensor<2xi32>", Dense(None)),
    ],
)
def test_constants(value: str, kind: str, wanted: object) -> None:
    assert constant(value, kind) == wanted


def test_nan_is_not_read_as_a_number() -> None:
    value = constant("dense<0x7FC00000> : tensor<4xf32>", "tensor<4xf32>")
    assert isinstance(value, Dense)
    assert value.value is not None
    assert math.isnan(value.value)


def test_spelling_bits_leaves_integers_alone() -> None:
    text = "dense<10> : tensor<4xi32> dense<1.0> : tensor<4xf32>"
    assert spell_bits(text) == text


def test_a_number_that_all_elements_are_is_read_once() -> None:
    """xDSL makes a number for each element of a tile of integers: 0.2 s for one of 128 x 128."""
    text = "dense<1024> : tensor<128x128xi32> dense<0xFF800000> : tensor<128xf32> dense<[1, 2]> : tensor<2xi32>"
    said = 'dense<1024> : tensor<i32> dense<"0x000080FF"> : tensor<f32> dense<[1, 2]> : tensor<2xi32>'
    assert spell_constants(text) == said
    assert constant("dense<true> : tensor<4x4xi1>", "tensor<4x4xi1>") == Dense(1)


def test_attributes_become_python_values() -> None:
    (op,) = operations(
        '"x.op"() <{a = array<i32: 1, 0>, d = {k = 4 : i32}, l = ["s", 2 : i64], t = #tt.scope<gpu>, u}> : () -> ()'
    )
    assert dict(op.attributes) == {"a": (1, 0), "d": {"k": 4}, "l": ("s", 2), "t": "gpu", "u": True}


LOCATIONS = {
    '"/kernels/k.py":7:3': (7, ""),
    '"acc"("/kernels/k.py":7:3)': (7, "acc"),
    '"acc"("init"("/kernels/k.py":7:3))': (7, "init"),
    'callsite("x"("/kernels/k.py":4:1) at "y"("/kernels/k.py":9:1))': (4, "x"),
    'callsite("z"("/triton/standard.py":4:1) at "y"("/kernels/k.py":9:1))': (9, "y"),
    'callsite(unknown at callsite("/triton/s.py":1:1 at "y"("/kernels/k.py":9:1)))': (9, "y"),
    'fused["/triton/s.py":1:1, "y"("/kernels/k.py":9:1)]': (9, "y"),
    'fused<"pass">["a"("/kernels/k.py":7:3), "/triton/s.py":1:1]': (7, "a"),
    '"gr\\C3\\B6\\C3\\9Fe"("/kernels/k.py":7:3)': (7, "größe"),
    '"a\\22b\\\\"("/kernels/k.py":7:3)': (7, 'a"b\\'),
    '"/kernels/k.py":7:3 to :9': (7, ""),
    '"alone"': (0, ""),
    "unknown": (0, ""),
    '"/elsewhere.py":3:3': (0, ""),
}


@pytest.mark.parametrize("location", LOCATIONS)
def test_lines_and_names_are_of_the_innermost_frame_in_the_kernels_file(location: str) -> None:
    (op,) = operations(f'%0 = "x.op"() : () -> i32 loc({location})')
    assert (op.line, op.variable) == LOCATIONS[location]
    assert (op.results[0].line, op.results[0].name) == LOCATIONS[location]


def test_an_alias_means_what_its_own_module_says() -> None:
    body = '%0 = "x.make"() <{value = #v}> : () -> !t loc(#loc)'
    for number in (7, 8):
        aliases = f'#v = {number} : i32\n!t = i{number}\n#loc = loc("x"("/kernels/k.py":{number}:1))\n'
        (op,) = operations(body, aliases)
        assert (op.attributes["value"], op.results[0].type.element, op.line) == (number, f"i{number}", number)


def test_a_text_that_is_read_again_is_the_same_wherever_it_ends() -> None:
    first, second, third = operations(
        '%0 = "x.make"() <{a = {b = 1 : i32}}> : () -> i32 loc(callsite("u"("/kernels/k.py":3:1) at unknown))\n'
        '%1 = "x.make"() <{a = {b = 1 : i32}}> : () -> i32 loc(callsite("u"("/kernels/k.py":4:1) at unknown))\n'
        '%2:2 = "x.make"() <{a = {b = 1 : i32}, c = 2 : i32}> : () -> (i32, f32)'
    )
    assert first.attributes == second.attributes == {"a": {"b": 1}} and third.attributes == {"a": {"b": 1}, "c": 2}
    assert [op.line for op in (first, second, third)] == [3, 4, 0]
    assert [value.type.element for value in third.results] == ["i32", "f32"]


def test_names_are_of_one_region_and_results_of_one_operation_are_told_apart() -> None:
    pair = '%0:2 = "x.make"() : () -> (i32, f32)\n"x.use"(%0#1, %0#0) : (f32, i32) -> ()'
    single = '%0 = "x.make"() : () -> i64\n"x.use"(%0) : (i64) -> ()'
    first, second = operations(
        f'"x.function"() ({{\n{pair}\n}}) : () -> ()\n"x.function"() ({{\n{single}\n}}, {{\n}}) {{a}} : () -> ()'
    )
    assert first.regions[0][0].operations[1].operands == (1, 0)
    assert second.regions[0][0].operations[1].operands == (2,)
    assert second.regions[1] == () and dict(second.attributes) == {"a": True}


def test_branches_lead_to_blocks_by_their_number() -> None:
    entry, left, last = operations(
        '"x.function"() ({\n'
        '^bb0(%c: i1 loc("c"("/kernels/k.py":2:1)), %i: i32):\n"cf.cond_br"(%c)[^bb2, ^bb1] : (i1) -> ()\n'
        '^bb1:  // pred: ^bb0\n"cf.br"(%i)[^bb2] : (i32) -> ()\n'
        '^bb2:  // 2 preds: ^bb0, ^bb1\n"x.end"() : () -> ()\n'
        "}) : () -> ()"
    )[0].regions[0]
    assert [(value.name, value.line) for value in entry.arguments] == [("c", 2), ("", 0)]
    assert entry.operations[-1].successors == (2, 1) and left.operations[-1].successors == (2,)
    assert last.operations[-1].successors == ()


def test_a_text_within_an_attribute_ends_nothing() -> None:
    (op,) = operations('%0 = "x.asm"() <{asm = "a loc(b)}> ({ : () -> i1"}> : () -> i32 loc("x"("/kernels/k.py":5:1))')
    assert (op.attributes["asm"], op.line, op.results[0].type.element) == ("a loc(b)}> ({ : () -> i1", 5, "i32")


def test_what_is_no_operation_is_shown() -> None:
    with pytest.raises(ValueError, match="no operation in MLIR: x.make = 1"):
        operations("x.make = 1")
