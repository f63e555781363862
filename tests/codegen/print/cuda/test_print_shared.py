"""Promises of tiles between registers and shared memory: one way for each layout, all of them compile."""

from __future__ import annotations

import re

import pytest

from tests.printed_programs import arguments, matrix, simple
from twill import exc
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.layout import Accumulator, Along, Blocked, Layout, Uniform, shape_of
from twill.codegen.warp.program import Buffer, LoadShared, SlotRef, Stmt, StoreShared

MATRIX = Accumulator(128, 64)
SMALL = Accumulator(128, 32)
LAYOUTS: list[Layout] = [
    SMALL, Blocked((16, 64), 8), Along(SMALL, 1), Along(SMALL, 0), Blocked((300,), 2), Uniform(),
]  # fmt: skip


def text(layout: Layout, element: str, shape: tuple[int, ...], *stmts: Stmt, swizzle: int = 128) -> str:
    buffers = [matrix(0, "tile", shape, element, swizzle=swizzle)]
    return print_cuda(simple("k", (), [("x", element, layout)], stmts, buffers=buffers)).text


@pytest.mark.parametrize(("element", "swizzle"), [("f32", 128), ("bf16", 64), ("f8e4m3", 32), ("i64", 128), ("i1", 32)])
def test_every_layout_compiles_as_it_is_and_transposed(element: str, swizzle: int) -> None:
    fragments: list[tuple[str, str, Layout]] = []
    buffers: list[Buffer] = []
    body: list[Stmt] = []
    for number, layout in enumerate(LAYOUTS):
        fragments.append((f"x_{number}", element, layout))
        shape = shape_of(layout) or (1,)
        for transposed in (False, True)[: len(shape)]:
            ref = SlotRef(len(buffers))
            tile = shape[::-1] if transposed else shape
            buffers.append(matrix(ref.buffer, "b", tile, element, swizzle=swizzle))
            body += [LoadShared(ref, number, transposed), StoreShared(number, ref, transposed)]
    printed = print_cuda(simple("k", arguments(), fragments, body, buffers=buffers))
    compile_cubin(printed.text, lines=printed.lines)


def test_16_bit_matrices_go_by_stmatrix_and_ldmatrix() -> None:
    there = text(MATRIX, "bf16", (128, 64), StoreShared(0, SlotRef(0)), LoadShared(SlotRef(0), 0))
    assert len(re.findall(r"stmatrix_x4\(", there)) == len(re.findall(r"ldmatrix_x4\(", there)) == 1
    across = text(MATRIX, "f16", (64, 128), StoreShared(0, SlotRef(0), True), LoadShared(SlotRef(0), 0, True))
    assert "stmatrix_x4_trans(" in across and "ldmatrix_x4_trans(" in across


def test_eight_columns_left_over_go_by_twos() -> None:
    made = text(Accumulator(64, 24), "bf16", (64, 24), StoreShared(0, SlotRef(0)), swizzle=16)
    assert "stmatrix_x4(" in made and "stmatrix_x2(" in made


def test_pairs_of_columns_are_one_access() -> None:
    assert "write_shared(" in text(MATRIX, "f32", (128, 64), StoreShared(0, SlotRef(0)))
    assert "Vector<float, 2>" in text(MATRIX, "f32", (128, 64), StoreShared(0, SlotRef(0)))
    assert "Vector<u32, 4>" in text(Blocked((32, 64), 8), "bf16", (32, 64), LoadShared(SlotRef(0), 0))


def test_16_bit_runs_are_words_as_they_lie_in_memory() -> None:
    made = text(Blocked((1024,), 8), "bf16", (1024,), LoadShared(SlotRef(0), 0), StoreShared(0, SlotRef(0)))
    assert "u32 x[4];" in made and "x[(i) / 2 + 3] = held.at[3];" in made
    assert "Vector<u32, 4>{{x[(i) / 2], x[(i) / 2 + 1], x[(i) / 2 + 2], x[(i) / 2 + 3]}}" in made
    single = text(Blocked((1024,), 1), "bf16", (1024,), LoadShared(SlotRef(0), 0))
    assert "float x[8];" in single


def test_a_vector_is_stored_once_and_loaded_by_all() -> None:
    made = text(Along(MATRIX, 0), "f32", (64,), StoreShared(0, SlotRef(0)), LoadShared(SlotRef(0), 0))
    assert made.count("if (warp == 0 && lane < 4) {") == 1
    assert made.index("if (warp == 0") < made.index("write_shared") < made.index("read_shared")


def test_a_part_of_a_slot_starts_where_its_panel_is() -> None:
    ref = SlotRef(0, None, (64, 128), (96, 128))  # the second panel of 64 columns, its second half
    made = text(Accumulator(64, 32), "bf16", (128, 128), StoreShared(0, ref))
    assert "warp * 16 + lane % 16 + 64" in made and "j * 32 + 192)" in made


@pytest.mark.parametrize(
    ("element", "shape"), [("f32", (128, 64)), ("bf16", (64, 64)), ("bf16", (128, 128)), ("bf16", (8192,))]
)
def test_a_tile_that_does_not_fit_is_refused(element: str, shape: tuple[int, ...]) -> None:
    buffers = [matrix(0, "tile", shape, element)]
    program = simple("k", (), [("x", "bf16", MATRIX)], [StoreShared(0, SlotRef(0), line=4)], buffers=buffers)
    with pytest.raises(exc.UnsupportedInKernel, match=r"^k\.py:4: "):
        print_cuda(program)


def swizzled(tile: int, row: int, byte: int) -> int:
    """As in tile.cuh, for panels of 128 bytes in tiles of 64 rows."""
    return tile + byte // 128 * 8192 + row * 128 + ((byte % 128 // 16 ^ row % 8) << 4) + byte % 16


def swizzled_step(at: int, step: int) -> int:
    return (at ^ step % 128 // 16 * 16) + step % 16 + step // 128 * 8192


def test_lanes_store_pairs_of_f32_into_all_banks_at_their_places() -> None:
    made = text(Accumulator(64, 64), "f32", (64, 64), StoreShared(0, SlotRef(0)))
    start = re.search(r"const u32 at = (.*);", made)
    store = re.search(r"write_shared\((.*), Vector<float, 2>\{\{(.*)\}\}\);", made)
    assert start and store
    python = [re.sub(r"<[^>]*>", "", found).replace(" / ", " // ") for found in (start[1], *store.groups())]
    found: dict[int, tuple[int, int]] = {}
    for warp in range(4):
        for i in range(0, 32, 2):
            for lanes in (range(16), range(16, 32)):
                banks: set[int] = set()
                for lane in lanes:
                    known = {"tile": 0, "lane": lane, "i": i, "x": list(range(32)), "lane_column": lane % 4 * 2,
                             "lane_row": warp * 16 + lane // 4, "swizzled": swizzled, "swizzled_step": swizzled_step,
                             "pick": lambda first, a, b: a if first else b}  # fmt: skip
                    known["at"] = eval(python[0], dict(known))
                    place, registers = eval(python[1], dict(known)), eval(python[2], dict(known))
                    banks |= {place // 4 % 32, place // 4 % 32 + 1}
                    for e, register in enumerate(registers):
                        row = warp * 16 + lane // 4 + 8 * (register // 2 % 2)
                        found[place + 4 * e] = row, register // 4 * 8 + lane % 4 * 2 + register % 2
                assert len(banks) == 32
    assert found == {swizzled(0, row, 4 * column): (row, column) for row in range(64) for column in range(64)}


@pytest.mark.parametrize("rows", [16, 32, 48])
@pytest.mark.parametrize(("element", "transposed"), [("bf16", False), ("bf16", True), ("f32", False), ("f8e4m3", True)])
def test_warps_without_rows_load_what_others_do_and_store_nothing(rows: int, element: str, transposed: bool) -> None:
    """A branch of some warps in front of a product makes the compiler wait for it, and what only some of them write it
    keeps alive from loop to loop: for 16 rows, three warps of four."""
    shape = (64, rows) if transposed else (rows, 64)
    given = (Accumulator(rows, 64), element, shape)
    loaded = text(*given, LoadShared(SlotRef(0), 0, transposed))
    stored = text(*given, StoreShared(0, SlotRef(0), transposed))
    assert "if (warp * 16 <" not in loaded and f"if (warp * 16 < {rows}) {{" in stored
    size = 2 if transposed and element == "bf16" else 1
    assert ("warp %" in loaded) == (rows > 16) and (rows == 16 or f"warp % {rows // 16} * {16 * size}" in loaded)


def test_warps_without_rows_load_no_single_elements() -> None:
    """Of a tile whose rows lie in columns of the slot, element by element, nothing says where others' rows are."""
    made = text(Accumulator(16, 64), "f32", (64, 16), LoadShared(SlotRef(0), 0, True))
    assert "warp * 16 < 16" in made
