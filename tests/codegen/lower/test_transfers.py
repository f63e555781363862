"""Promises of `twill.codegen.lower.transfers`: boxes that cover a tile once, windows that address what the kernel
does."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.kernels import H100
from tests.tile_programs import Programs
from twill.codegen.lower.memory import SharedMemoryPlan
from twill.codegen.lower.scalars import OUTSIDE, Iteration, ScalarTable
from twill.codegen.lower.tiles import TileLayouts
from twill.codegen.lower.transfers import BoxPart, Part, Transfers, largest_part
from twill.codegen.targets.base import target_of
from twill.codegen.verify.abstract.scalars import EvaluationScope, integer
from twill.codegen.warp.expression import Apply, Expr, Number, Symbol
from twill.codegen.warp.program import Buffer, Window
from twill.graph.build import wire
from twill.tile.affine import Polynomial
from twill.tile.program import Access, Axis, Loop

BOX = H100.emitting.box.whole
GRID = 3  # the program instance that expressions are evaluated for


def made(shape: tuple[int, ...], blocks: int = 1, element: str = "bf16", **changed: object) -> tuple[Transfers, Part]:
    """A load of a tile at (128 program_id, 64, ...), cut along its first axis; the part of the last row block."""
    p = Programs()
    p.argument("N")
    pid = p.op("program_id", axis=0)
    offsets = [Polynomial.symbol(pid) * 128, *(Polynomial.constant_of(64) for _ in shape)][: len(shape)]
    p.store("y", p.load("x", shape, element, at=offsets), at=offsets)
    wired = wire(p.done())
    (load,) = (step for step in wired.flat.steps if step.op.kind == "tile_load")
    assert load.op.access is not None
    axis = wired.classes.of[load.results[0]][0]
    tiles = TileLayouts(wired, target_of(H100), axis if blocks > 1 else -1, blocks)
    access: Access = replace(load.op.access, **changed)  # type: ignore[arg-type]
    return Transfers(tiles, SharedMemoryPlan("k.py"), ScalarTable(wired), BOX), Part(
        access, load.results[0], blocks - 1
    )


def number(transfers: Transfers, expr: Expr, n: int = 1000) -> int:
    scope = EvaluationScope({"N": n}, (8, 1, 1), (GRID, 0, 0), lambda fragment: 0)
    for value in sorted(transfers.scalars.lets):
        let = transfers.scalars.lets[value]
        scope.names[let.name] = integer(let.value, scope)
    return integer(expr, scope)


def buffer(transfers: Transfers, part: Part, element: str = "bf16") -> Buffer:
    return transfers.memory.buffer("t", transfers.tiles.core(part.cell), element, 1)


# -- boxes --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("shape", "blocks", "element"),
    [
        ((128, 64), 1, "bf16"),
        ((128, 256), 1, "bf16"),
        ((512, 64), 1, "bf16"),
        ((128, 128), 2, "f32"),
        ((64, 96), 1, "f8e4m3"),
        ((1024,), 1, "bf16"),
        ((1, 512), 1, "bf16"),
        ((1, 64, 128), 1, "bf16"),
    ],
)
def test_boxes_cover_every_element_once(shape: tuple[int, ...], blocks: int, element: str) -> None:
    transfers, part = made(shape, blocks, element)
    held = buffer(transfers, part, element)
    box = transfers.map(part, held, OUTSIDE).box
    assert len(box) == len(shape) and max(box) <= BOX
    if held.panel and len(held.shape) == 2:
        assert box[-1] * {"bf16": 2, "f32": 4, "f8e4m3": 1}[element] <= held.panel
    covered = np.zeros(held.shape, int)
    for piece in transfers.boxes(part, held, OUTSIDE):
        assert piece.columns is not None
        index = (*([slice(*piece.rows)] if piece.rows else []), slice(*piece.columns))
        covered[index] += 1
        at = [number(transfers, coordinate) for coordinate in piece.coordinates]
        before = 128 * GRID + (shape[0] // blocks) * (blocks - 1) * (shape[0] > 1)
        begins = [*([piece.rows[0]] if piece.rows else []), piece.columns[0]]
        expected = [before, *(64 for _ in shape[1:])]
        moving = [axis for axis, extent in enumerate(shape) if extent > 1]
        for axis, begin in zip(moving, begins, strict=True):
            expected[axis] += begin
        assert at == expected
    assert (covered == 1).all()


def test_bounds_become_sizes() -> None:
    p_axes = made((128, 64))[1].access.axes
    limits = (replace(p_axes[0], upper=Polynomial.constant_of(500)), p_axes[1])
    transfers, part = made((128, 64), axes=limits)
    tensor_map = transfers.map(part, buffer(transfers, part), OUTSIDE)
    assert [None if size is None else number(transfers, size) for size in tensor_map.sizes] == [500, None]
    assert [number(transfers, stride) for stride in tensor_map.strides] == [1024, 1]
    assert number(transfers, tensor_map.offset) == 0


def test_a_start_that_differs_between_instances_is_an_axis_of_its_own() -> None:
    """A head of a batch: its offset is no argument, so the map cannot begin there."""
    transfers, part = made((128, 64))
    pid = next(s for s in transfers.tiles.wired.program.body if getattr(s, "kind", "") == "program_id")
    argument = transfers.tiles.wired.program.arguments[0].value
    start = Polynomial.symbol(pid.results[0]) * Polynomial.symbol(argument) * 2 + 40  # type: ignore[union-attr]
    part = replace(part, access=replace(part.access, constant=start))
    held = buffer(transfers, part)
    tensor_map = transfers.map(part, held, OUTSIDE)
    assert (tensor_map.sizes[0], tensor_map.box) == (None, (1, 128, 64))
    assert number(transfers, tensor_map.strides[0], n=300) == 600
    assert number(transfers, tensor_map.offset) == 40
    (piece,) = transfers.boxes(part, held, OUTSIDE)
    assert number(transfers, piece.coordinates[0]) == GRID


def test_a_start_that_differs_between_iterations_is_the_copys_own() -> None:
    """`tl.load(S + k * M + offs)`: the map has an axis of rows, and each iteration its row of it."""
    p = Programs()
    rows = p.argument("M")
    with p.loop(p.argument("trips"), [p.constant(0.0, (128,), "f32")]) as k:
        s = p.load("S", (128,), "f32", name="s")
        k.yields = [p.op("add", k.carried[0], s)]
    p.store("Y", k.results[0])
    wired = wire(p.done())
    (load,) = (step for step in wired.flat.steps if step.op.kind == "tile_load")
    assert load.op.access is not None
    access = replace(load.op.access, constant=Polynomial.symbol(rows) * k.i)
    tiles = TileLayouts(wired, target_of(H100), -1, 1)
    transfers = Transfers(tiles, SharedMemoryPlan("k.py"), ScalarTable(wired), BOX)
    part = Part(access, load.results[0], 0)
    (loop,) = (item for item in wired.program.body if isinstance(item, Loop))
    held, at = buffer(transfers, part, "f32"), Iteration(loop, "step", 2)
    assert transfers.map(part, held, at).strides[0] == Apply("cast", (Symbol(rows, "M", "i32"),), "i64")
    (piece,) = transfers.boxes(part, held, at)
    scope = EvaluationScope({}, (1, 1, 1), (0, 0, 0), lambda fragment: 0)
    scope.names["step"] = 7
    assert integer(piece.coordinates[0], scope) == 5


def test_equal_accesses_share_a_map() -> None:
    transfers, part = made((128, 64))
    held = buffer(transfers, part)
    assert transfers.map(part, held, OUTSIDE) == transfers.map(part, held, OUTSIDE)
    assert len(transfers.memory.maps) == 1


def vector(element: str, start: int = 64, bound: int = 48, divisibility: int = 16) -> tuple[Transfers, Part]:
    """A load of a vector of 2048 elements at 2048 program_id + start, of N + bound elements."""
    p = Programs()
    n = p.argument("N")
    pid = p.op("program_id", axis=0)
    offsets = [Polynomial.symbol(pid) * 2048 + start]
    p.store("y", p.load("x", (2048,), element, at=offsets), at=offsets)
    program = p.done()
    arguments = tuple(replace(a, divisibility=divisibility) if a.name == "N" else a for a in program.arguments)
    wired = wire(replace(program, arguments=arguments))
    (load,) = (step for step in wired.flat.steps if step.op.kind == "tile_load")
    assert load.op.access is not None
    axes = (replace(load.op.access.axes[0], upper=Polynomial.symbol(n) + bound),)
    access = replace(load.op.access, axes=axes)
    tiles = TileLayouts(wired, target_of(H100), -1, 1)
    return Transfers(tiles, SharedMemoryPlan("k.py"), ScalarTable(wired), BOX), Part(access, load.results[0], -1)


@pytest.mark.parametrize(
    ("element", "start", "bound", "divisibility", "together"),
    [
        ("bf16", 64, 48, 16, 4),  # as wide as a tensor map's element can be
        ("f8e4m3", 64, 48, 16, 8),
        ("f32", 64, 48, 16, 2),
        ("bf16", 66, 48, 16, 2),  # coordinates that are multiples of 2 only
        ("bf16", 64, 49, 16, 1),  # a bound that is none
        ("bf16", 64, 48, 2, 2),
        ("bf16", 64, 48, 1, 1),
    ],
)
def test_a_vector_is_copied_in_wide_elements_if_everything_is_a_multiple(
    element: str, start: int, bound: int, divisibility: int, together: int
) -> None:
    transfers, part = vector(element, start, bound, divisibility)
    held = buffer(transfers, part, element)
    made_map = transfers.map(part, held, OUTSIDE)
    assert (made_map.together, made_map.box) == (together, (BOX * together,))
    boxes = list(transfers.boxes(part, held, OUTSIDE))
    assert [b.columns for b in boxes] == [(at, at + BOX * together) for at in range(0, 2048, BOX * together)]
    if together > 1:
        numbers = [number(transfers, coordinate) for box in boxes for coordinate in box.coordinates]
        assert all(at % together == 0 for at in numbers)


def test_a_vector_of_one_box_needs_no_wide_elements() -> None:
    transfers, part = made((128,))
    assert transfers.map(part, buffer(transfers, part), OUTSIDE).together == 1


# -- windows ------------------------------------------------------------------------------------


def addresses(transfers: Transfers, window: Window) -> np.ndarray[tuple[int, ...], np.dtype[np.int64]]:
    """Offsets from the tensor's address, in elements, of every element of a window."""
    total = np.array(number(transfers, window.constant))
    for axis in window.axes:
        at = number(transfers, axis.offset) + np.arange(axis.extent)
        total = total[..., None] + number(transfers, axis.stride) * at
    return total


@pytest.mark.parametrize("blocks", [1, 2])
def test_a_window_addresses_the_tile(blocks: int) -> None:
    transfers, part = made((128, 64), blocks, constant=Polynomial.constant_of(9))
    first = 128 * GRID + 128 // blocks * (blocks - 1)
    rows = np.arange(first, 128 * GRID + 128)
    expected = 9 + 1024 * rows[:, None] + np.arange(64, 128)
    np.testing.assert_array_equal(addresses(transfers, transfers.window(part, OUTSIDE)), expected)


def test_axes_of_one_element_go_into_the_constant() -> None:
    transfers, part = made((1, 512))
    window = transfers.window(part, OUTSIDE)
    assert [axis.extent for axis in window.axes] == [512]
    np.testing.assert_array_equal(addresses(transfers, window), 1024 * 128 * GRID + np.arange(64, 576))


def test_a_bounded_axis_of_one_element_stays() -> None:
    axes = made((1, 512))[1].access.axes
    bounded: tuple[Axis, ...] = (replace(axes[0], upper=Polynomial.constant_of(5)), axes[1])
    transfers, part = made((1, 512), axes=bounded)
    window = transfers.window(part, OUTSIDE)
    assert [axis.extent for axis in window.axes] == [1, 512]
    assert window.axes[0].upper == Number(5)


def test_some_rows_of_an_access() -> None:
    transfers, part = made((128, 64))
    some = transfers.window_of(part.access, [BoxPart(32, 16), BoxPart(0, 64)], OUTSIDE)
    whole = addresses(transfers, transfers.window(part, OUTSIDE))
    np.testing.assert_array_equal(addresses(transfers, some), whole[32:48])


@pytest.mark.parametrize(("extent", "most", "part"), [(128, 256, 128), (512, 256, 256), (384, 256, 192), (7, 3, 1)])
def test_the_largest_part_that_divides(extent: int, most: int, part: int) -> None:
    assert largest_part(extent, most) == part
