"""Promises of `twill.codegen.passes.tensor_overlay`: loops that follow one another have the same columns of tensor
memory where there are too few for all, and nobody writes there before everybody else is done."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
import pytest

from tests.places import edit, instead, places
from twill import exc
from twill.codegen.emission import emit_scheduled, extract
from twill.codegen.emit import Emission
from twill.codegen.lower.candidates import CandidateRefusal, candidates
from twill.codegen.lower.streams import streams
from twill.codegen.passes.overlay import TENSOR_NOTE
from twill.codegen.passes.pipeline import run_passes
from twill.codegen.passes.tensor_overlay import columns_taken, laid
from twill.codegen.passes.uses import BodyUse
from twill.codegen.print.gluon.sayable import UNSAID, sayable
from twill.codegen.verify.abstract.tensor_memory import TensorTiles
from twill.codegen.verify.abstract_machine import verify
from twill.codegen.warp.program import Advance, Buffer, Get, WarpProgram
from twill.machine.file import load_machine
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import solve
from twill.trial.execute import checked

SEVERAL = """
@triton.jit
def k(a, b, y, K, N, M: tl.constexpr, W: tl.constexpr, S: tl.constexpr, LOOPS: tl.constexpr):
    r, c, s = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, W), tl.arange(0, S)
    for j in tl.static_range(LOOPS):
        acc = tl.zeros((M, W), tl.float32)
        for i in range(0, K, S):
            left = tl.load(a + r[:, None] * K + (i + s)[None, :])
            acc += tl.dot(left, tl.load(b + j * K * W + (i + s)[:, None] * W + c[None, :]))
        tl.store(y + j * N + r[:, None] * W + c[None, :], acc.to(tl.bfloat16))
"""
WINDOW = """
@triton.jit
def k(a, b, y, K, N, M: tl.constexpr, W: tl.constexpr, S: tl.constexpr, LOOPS: tl.constexpr):
    r, c, s = tl.program_id(0) * M + tl.arange(0, M), tl.arange(0, W), tl.arange(0, S)
    acc = tl.zeros((M, W), tl.float32)
    for j in tl.static_range(LOOPS):
        left = tl.load(a + (r + j)[:, None] * S + s[None, :])
        acc += tl.dot(left, tl.load(b + j * S * W + s[:, None] * W + c[None, :]))
    tl.store(y + r[:, None] * W + c[None, :], acc.to(tl.bfloat16))
"""
SIG = ("a=*bf16:16", "b=*bf16:16", "y=*bf16:16", "K=i32:16", "N=i32:16")
B200 = load_machine("b200")


def emitted(kernel_file: Callable[..., str], text: str, *const: str) -> Emission:
    """The kernel, which the abstract machine accepts."""
    kernel = extract(f"{kernel_file(text)}::k", sig=SIG, const=("M=128", "S=64", *const))
    return emit_scheduled(
        kernel, B200, solve(kernel.on(B200).graph, B200, SolveOptions(strategy="heuristic", fuse=False))
    )


def firsts(program: WarpProgram) -> list[int]:
    """The first columns of accumulators, in the order of their loops."""
    return [buffer.offset for buffer in program.buffers if buffer.tensor and buffer.width]


def test_the_fifth_of_five_loops_has_the_columns_of_the_first(kernel_file: Callable[..., str]) -> None:
    """128 columns for each are 640. The PTX computes what the tile program does, and no statement by which columns
    change hands can be left out."""
    made = emitted(kernel_file, SEVERAL, "W=128", "LOOPS=5")
    assert firsts(made.program) == [0, 128, 256, 384, 0]
    assert made.program.tensor_columns == 512
    checked(made)
    rings = {aref.id for aref in made.program.arefs if aref.name.startswith("tensor handoff")}
    seen = set()
    for place in places(made.program):
        cursors = {c.id: c.aref for c in made.program.groups[place.group].cursors}
        mine = place.stmt.note == TENSOR_NOTE or cursors.get(getattr(place.stmt, "cursor", -1), -1) in rings
        if mine and not isinstance(place.stmt, Advance | Get):  # a slot that was published before is full
            assert verify(edit(made.program, place, instead())), f"nothing was found without {place.stmt}"
            seen.add(type(place.stmt).__name__)
    assert seen == {"Acquire", "Publish", "Consumed"}


def test_products_that_threads_add_up_need_no_columns_of_their_own(kernel_file: Callable[..., str]) -> None:
    """Nine positions of a window, 64 columns each, are 576: as in a convolution."""
    made = emitted(kernel_file, WINDOW, "W=64", "LOOPS=9")
    assert firsts(made.program) == [0, 64, 128, 192, 256, 320, 384, 448, 0]
    checked(made)


def test_where_columns_suffice_nobody_waits(kernel_file: Callable[..., str]) -> None:
    made = emitted(kernel_file, WINDOW, "W=64", "LOOPS=3")
    assert firsts(made.program) == [0, 128, 256]  # two slots each
    assert not [aref for aref in made.program.arefs if "handoff" in aref.name]


def tile(number: int, width: int, first: int, slots: int = 1, element: str = "f32") -> Buffer:
    size = 128 * 4 * width
    return Buffer(number, f"t{number}", (128, width), element, 0, 4 * width, slots, size, first, tensor=True)


def used(spans: Mapping[int, tuple[int, int]]) -> dict[int, BodyUse]:
    nobody = frozenset[int]()
    return {
        n: BodyUse(first, last, nobody, nobody, {}, nobody, nobody, nobody, True) for n, (first, last) in spans.items()
    }


def test_what_lies_over_another_tile_moves_with_it() -> None:
    """P over S, in the second of two loops whose sums take all columns but 64."""
    tiles = [tile(0, 448, 0), tile(1, 128, 448, slots=2), tile(2, 64, 448, element="bf16"), tile(3, 192, 704)]
    first = laid(tiles, used({0: (0, 1), 1: (2, 3), 2: (2, 3), 3: (2, 3)}), 512)
    assert (first[0], first[1], first[2], first[3]) == (0, 0, 0, 256)


def test_columns_are_taken_whose_last_use_is_longest_ago() -> None:
    tiles = [tile(n, 128, 128 * n) for n in range(6)]
    first = laid(tiles, used({n: (2 * n, 2 * n + 1) for n in range(6)}), 512)
    assert [first[n] for n in range(6)] == [0, 128, 256, 384, 0, 128]
    assert columns_taken(tiles) == 768


@pytest.mark.parametrize("width", [64, 128])
def test_what_was_read_stays_when_others_write_there(width: int) -> None:
    """Of a tile of all columns, too, whose rows lie together in memory."""
    held = TensorTiles.of((tile(0, width, 0), tile(1, 64, 0)))
    held.write(tile(0, width, 0), 0, (0, 128, 0, width), np.ones((128, width), np.float32))
    read = held.read(tile(0, width, 0), 0, (0, 128, 0, width))
    held.write(tile(1, 64, 0), 0, (0, 128, 0, 64), np.zeros((128, 64), np.float32))
    assert (read == 1).all()


def test_fail_a_module_of_gluon_whose_loops_have_too_many_columns(kernel_file: Callable[..., str]) -> None:
    """There each ring has columns of its own."""
    kernel = extract(f"{kernel_file(SEVERAL)}::k", sig=SIG, const=("M=128", "S=64", "W=128", "LOOPS=5"))
    schedule = solve(kernel.on(B200).graph, B200, SolveOptions(strategy="heuristic", fuse=False))
    (first, *_) = candidates(kernel.on(B200).program, schedule, B200)
    made = streams(kernel.on(B200).wired, schedule, B200, first, "chosen", 1)
    assert not isinstance(made, CandidateRefusal)
    choices = replace(made.choices, capacity=1 << 20)
    with pytest.raises(exc.NotInGluon, match="tensor memory has 512 columns, and in Gluon each loop has its own"):
        sayable(run_passes(made.program, choices, without=UNSAID), 16)
