"""What launches were called with becomes a specialization that means the same launches."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from twill.kernel.recorded import RecordedVariant, Sizes, memory_shape, table_text
from twill.kernel.recorded_tables import LookedUp, PointedAt, as_matrices
from twill.kernel.sidecar import read_sidecar_at
from twill.kernel.specialization import problem_of, resolve

SOURCE = """
@triton.jit
def copy(x, y, M, N, eps, BLOCK: tl.constexpr, FLAG: tl.constexpr, none: tl.constexpr, kind: tl.constexpr):
    o = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + o, tl.load(x + o))
"""
VARIANT = RecordedVariant(
    "copy",
    (("x", "*bf16"), ("y", "*fp32"), ("M", "i32"), ("N", "i32"), ("eps", "fp32")),
    (("BLOCK", 64), ("FLAG", True), ("none", None), ("kind", "tl.float16")),
    ("x", "N"),
)


def launch(m: int, n: int, grid: tuple[int, ...], other: int = 7) -> Sizes:
    """A launch at these sizes. other: a dimension that nothing says."""
    shapes = (("x", (m, n)), ("y", (m * n, other)))
    return Sizes(grid, (("M", m), ("N", n)), (("eps", 1e-05),), shapes)


def written(kernel_file: Callable[..., str], launches: dict[Sizes, int]) -> str:
    """A kernel file with the sidecar of these launches."""
    return kernel_file(SOURCE, table_text(VARIANT, launches, default=True))


def test_a_specialization_is_read_back_as_it_was_launched(kernel_file: Callable[..., str]) -> None:
    file = written(kernel_file, {launch(300, 128, (5, 2)): 3})
    read = resolve(file)
    assert read.signature == VARIANT.signature and read.constexprs == VARIANT.constants
    assert read.divisibility == (("x", 16), ("N", 16))
    sidecar = read_sidecar_at(Path(file).with_suffix(".twill.toml"))
    assert VARIANT.is_in(sidecar.tables)
    assert not RecordedVariant("copy", VARIANT.signature, VARIANT.constants, ("x",)).is_in(sidecar.tables)


@pytest.mark.parametrize(
    "launches",
    [
        [launch(300, 128, (5, 2))],
        [launch(300, 128, (5, 2)), launch(64, 256, (1, 4))],
        [launch(300, 128, (300,)), launch(17, 256, (17,))],
        [launch(300, 128, (38400, 1, 1)), launch(17, 256, (4352, 1, 1))],
        [launch(300, 128, (10,)), launch(17, 256, (4,))],
        [launch(300, 128, (5,), 7), launch(300, 128, (5,), 9)],
    ],
    ids=["one", "blocks", "a size", "a product", "a product of blocks", "a dimension of its own"],
)
def test_every_launch_that_is_written_down_is_the_launch_that_was_seen(
    kernel_file: Callable[..., str], launches: list[Sizes]
) -> None:
    problem = problem_of(resolve(written(kernel_file, dict.fromkeys(launches, 1))))
    assert problem is not None
    for seen, row in zip(launches, problem.run, strict=True):
        case = problem.case(row)
        assert case.grid == seen.grid and case.shapes == dict(seen.shapes)
        assert {name: case.scalars[name] for name in ("M", "N", "eps")} == dict(seen.whole) | dict(seen.floats)
    assert problem.bench == problem.run[:1]


def test_grids_that_nothing_says_are_numbers_with_the_launches_that_have_them(
    kernel_file: Callable[..., str],
) -> None:
    odd = {launch(300, 128, (77,)): 1, launch(17, 256, (131,)): 5, launch(19, 256, (131,)): 1}
    problem = problem_of(resolve(written(kernel_file, odd)))
    assert problem is not None and problem.grid == ("131",)
    assert [row["M"] for row in problem.run] == [17, 19]


def test_what_is_written_down_is_the_eight_choices_of_the_most_launches(kernel_file: Callable[..., str]) -> None:
    many = {launch(16 * m, 64, (16 * m, 1)): m for m in range(1, 12)}
    problem = problem_of(resolve(written(kernel_file, many)))
    assert problem is not None and [row["M"] for row in problem.run] == [16 * m for m in range(11, 3, -1)]


def test_the_memory_of_a_tensor_is_row_major_whatever_its_strides() -> None:
    assert memory_shape((4, 8), (8, 1)) == (4, 8)
    assert memory_shape((4, 8), (1, 4)) == (8, 4)
    assert memory_shape((2, 3, 5), (15, 1, 3)) == (2, 5, 3)
    assert memory_shape((4, 8), (10, 1)) == (38,)  # rows with gaps
    assert memory_shape((4, 8), (0, 1)) == (8,)  # one row, four times
    assert memory_shape((), ()) == (1,)
    assert memory_shape((0, 8), (8, 1)) == (0, 8)


LOOKS_UP = RecordedVariant(
    "copy",
    (("ptrs", "*i64"), ("sizes", "*i32"), ("count", "i32")),
    (("BLOCK", 64),),
    ("ptrs", "sizes"),
)
LOOKS_UP_SOURCE = """
@triton.jit
def copy(ptrs, sizes, count, BLOCK: tl.constexpr):
    p = tl.load(ptrs).to(tl.pointer_type(tl.float16))
    tl.store(p + tl.arange(0, BLOCK), 0.0)
"""


def test_vectors_are_matrices_whose_sides_stand_beside_their_addresses() -> None:
    sizes = ("sizes", (128, 64, 40, 64, 32, 24))  # M, N, K of two products
    left, result = PointedAt(2, ((128 * 40,), (64 * 24,))), PointedAt(2, ((128 * 64,), (64 * 32,)))
    assert as_matrices(left, [sizes]).shapes == ((128, 40), (64, 24))
    assert as_matrices(result, [sizes]).shapes == ((128, 64), (64, 32))
    for other in (
        PointedAt(2, ((128 * 40,), (64 * 32,))),
        PointedAt(2, ((128,), (64,))),
        PointedAt(2, ((8, 16), (4, 16))),
    ):
        assert as_matrices(other, [sizes]) == other


def test_numbers_that_are_looked_up_are_sizes_and_places(kernel_file: Callable[..., str]) -> None:
    found = LookedUp((("sizes", (128, 3, 1000, 3)),), (("ptrs", PointedAt(2, ((128, 1000), (3, 128)))),))
    sizes = Sizes((2,), (("count", 2),), (), (("ptrs", (2,)), ("sizes", (4,))), found)
    problem = problem_of(resolve(kernel_file(LOOKS_UP_SOURCE, table_text(LOOKS_UP, {sizes: 1}, default=True))))
    assert problem is not None
    assert dict(problem.units) == {"count": "1", "n128": "64", "n1000": "8"}
    seen = problem.case(problem.run[0])
    assert seen.tables == {"sizes": (128, 3, 1000, 3), "ptrs": (0, 2 * 128 * 1000)}
    assert seen.shapes["ptrs.pointee"] == (128 * 1000 + 3 * 128,)
    other = problem.case({"count": 3, "n128": 64, "n1000": 8})
    assert other.tables["sizes"] == (64, 3, 8, 3, 64, 3)
    whole = 64 * 8 + 3 * 64
    assert other.tables["ptrs"] == (0, 2 * 64 * 8, 2 * whole)
    assert other.shapes == {"ptrs": (3,), "sizes": (6,), "ptrs.pointee": (2 * whole,)}
