"""Promises of `twill.jit(kernel, free=[...])`: a launch has the emitted kernel with the best tiles for its sizes."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import twill
from tests.fake_driver import forget
from tests.jit_kernels import CODE, MANIFEST, World, plain
from twill.exc import WrongFreeConstant
from twill.manifest.evaluate import ScalarOperation
from twill.manifest.family import MemberCost
from twill.runtime.artifact import artifact, to_text
from twill.runtime.choices import ROUNDS
from twill.runtime.free import FreeConstants, blocks_of, near
from twill.runtime.library import THREADS, Library
from twill.runtime.request import Prepared, PrepareRequest
from twill.runtime.tilings import StoredChoices
from twill.runtime.variant import Variant
from twill.store.sqlite import SqliteStore

COUNT = ScalarOperation("div", "i32", ("N", 64), (("signed", 1),))
CYCLES = {64: 30.0, 128: 10.0, 256: 20.0}  # predicted for an iteration
RUN = ROUNDS[0][1]
TURNS = sum(min(members, 3) * run for members, run in ROUNDS)


@pytest.fixture(autouse=True)
def stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyTorch without CUDA has no streams."""
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7, raising=False)


def emitted(request: PrepareRequest) -> Prepared:
    """What the helper makes of a tiling."""
    block = next(one.value for one in request.constants if one.name == "BLOCK")
    assert isinstance(block, int)
    kind = next(one.type for one in request.signature if one.name == "a_desc")
    assert kind == f"tensordesc<bf16[{block}, 64]>"
    arguments = tuple(
        replace(a, value=block) if a.name == "BLOCK" else replace(a, block=(block, 64), type=kind) if a.block else a
        for a in MANIFEST.arguments
    )
    made = replace(MANIFEST, arguments=arguments)
    data = artifact(request.key, made.text(), CODE, cost=MemberCost(1.0, CYCLES[block], 0.0, COUNT))
    return Prepared(request.key, "emitted", artifact=to_text(data))


def freed(world: World, **options: Any) -> Any:
    """The kernel with free tiles; all of them are there when this returns."""
    world.answer = options.pop("answer", emitted)
    fast = world.jit(free=["BLOCK"], policy="solve", **options)
    call(world, fast)
    (family,) = fast.twill_dispatch.tilings.families.values()
    assert family.over.wait(20)
    return fast


def call(world: World, fast: Any, rows: Callable[[], int] = lambda: 1024, **changed: Any) -> Any:
    args, kwargs = world.arguments(**{"M": 1024, **changed})
    return fast[lambda meta: (rows() // meta["BLOCK"],)](*args, **kwargs)


def blocks(world: World) -> list[int]:
    """Of every emitted launch so far."""
    return [1024 // one.grid[0] for one in world.cuda.launches]


def test_launches_take_turns_among_tiles_and_the_fastest_has_them_in_the_end(world: World) -> None:
    """The program says 128; a launch of 1024 / BLOCK instances takes as long as there are many of them."""
    fast = freed(world)
    assert len(world.originals) == 1
    asked = {one.value for request in world.requests for one in request.constants if one.name == "BLOCK"}
    assert asked == {64, 128, 256}
    world.cuda.cost = 1.0
    before = len(world.cuda.launches)
    for _ in range(TURNS + 4):
        call(world, fast)
    launched = blocks(world)[before:]
    assert launched[: 3 * RUN : RUN] == [128, 256, 64]
    assert len(set(launched[TURNS + 1 :])) == 1
    assert "tiles at" in twill.explain(fast)


def test_a_later_launch_is_recognized_and_its_grid_is_asked_for_again(world: World) -> None:
    """A grid function may look at what is no argument."""
    fast = freed(world)
    for _ in range(TURNS + 3):
        call(world, fast)
    fast.twill_dispatch.look_into = None  # what is recognized does not get there
    begun = len(world.cuda.launches)
    call(world, fast)
    assert len(world.cuda.launches) == begun + 1
    del fast.twill_dispatch.look_into
    call(world, fast, rows=lambda: 512)
    best = world.cuda.launches[begun].grid[0]
    assert world.cuda.launches[-1].grid[0] == best // 2


def test_what_was_found_is_kept_with_its_gpu_and_not_used_on_another(world: World) -> None:
    fast = freed(world, machine="h200")
    for _ in range(TURNS + 3):
        call(world, fast)
    best = blocks(world)[-1]
    settled(fast)
    forget()
    again = freed(world, machine="h200")
    begun = len(world.cuda.launches)
    for _ in range(3):
        call(world, again)
    assert blocks(world)[begun:] == [best] * 3
    world.cuda.model = b"NVIDIA H100"
    forget()
    other = freed(world, machine="h200")
    begun = len(world.cuda.launches)
    for _ in range(2 * RUN + 1):
        call(world, other)
    assert blocks(world)[begun::RUN] == [128, 256, 64]
    assert sum("measured again" in one for one in world.said) == 1


def test_sizes_that_only_the_grid_says_have_choices_of_their_own(world: World) -> None:
    fast = freed(world)
    for rows in (1024, 2048, 1024):
        call(world, fast, rows=lambda rows=rows: rows)  # type: ignore[misc]
    (family,) = fast.twill_dispatch.tilings.families.values()
    assert len(family.choices.by_key) == 2


def test_some_sizes_of_a_class_are_timed_and_the_others_follow(world: World) -> None:
    fast = freed(world)
    for rows in (1024, 1152, 1280):
        for _ in range(TURNS + 1):
            call(world, fast, rows=lambda rows=rows: rows)  # type: ignore[misc]
    call(world, fast, rows=lambda: 1408)
    (family,) = fast.twill_dispatch.tilings.families.values()
    assert [one.decided for one in family.choices.by_key.values()] == [True] * 4
    assert not list(family.choices.by_key.values())[-1].times


def test_choices_that_are_stored_at_the_same_time_do_not_lose_one_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first is held up while it writes; the second one comes meanwhile."""
    library = Library(str(tmp_path / "s"), "")
    choices = StoredChoices(library, "k1")
    writes, overtaken = threading.Event(), threading.Event()
    real = SqliteStore.put_artifact

    def put(self: SqliteStore, *given: Any) -> None:
        if not writes.is_set():
            writes.set()
            overtaken.wait(0.2)
        real(self, *given)
        overtaken.set()

    monkeypatch.setattr(SqliteStore, "put_artifact", put)
    choices.found = {"H200": {"a": "x"}}
    first = threading.Thread(target=choices.store)
    first.start()
    assert writes.wait(20)
    choices.found["H200"]["b"] = "y"
    choices.store()
    first.join()
    assert StoredChoices(library, "k1").found == {"H200": {"a": "x", "b": "y"}}


def settled(fast: Any) -> None:
    """Everything that the library was asked to do is done: each of its threads has come to the end of the queue."""
    together = threading.Barrier(THREADS + 1)

    def arrive() -> None:
        together.wait(20)

    for _ in range(THREADS):
        fast.twill_dispatch.variants.library.later(arrive)
    arrive()


def test_a_tiling_that_cannot_be_emitted_or_is_damaged_is_left_out(world: World) -> None:
    def answer(request: PrepareRequest) -> Prepared:
        (block,) = (one.value for one in request.constants if one.name == "BLOCK")
        if block == 128:
            return Prepared(request.key, "unsupported", "no room")
        if block == 256:
            return Prepared(request.key, "emitted", artifact="damaged")
        return emitted(request)

    fast = freed(world, answer=answer)
    begun = len(world.cuda.launches)
    for _ in range(4):
        call(world, fast)
    assert blocks(world)[begun:] == [64] * 4
    assert sum("no room" in one for one in world.said) <= 2


def test_a_member_that_refuses_its_launch_leaves_it_to_the_next(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """As where a workspace cannot be had."""
    from twill import exc
    from twill.runtime.kernel import EmittedKernel

    fast = freed(world)
    real = EmittedKernel._prepared

    def prepared(self: EmittedKernel, *given: Any) -> Any:
        if dict((a.name, a.value) for a in self.manifest.arguments)["BLOCK"] == 128:
            raise exc.DriverFailed("cuMemAlloc", "CUDA_ERROR_OUT_OF_MEMORY")
        return real(self, *given)

    monkeypatch.setattr(EmittedKernel, "_prepared", prepared)
    begun = len(world.cuda.launches)
    for _ in range(4):
        call(world, fast)
    assert 128 not in blocks(world)[begun:]
    assert len(blocks(world)[begun:]) == 4


def test_a_grid_that_is_no_function_leaves_tiles_as_written(world: World) -> None:
    world.answer = emitted
    fast = world.jit(free=["BLOCK"], policy="solve")
    world.call(fast)
    (known,) = fast.twill_dispatch.variants.known.values()
    assert known.shelf.settled.wait(20)
    for _ in range(3):
        world.call(fast)
    assert {one.grid[0] for one in world.cuda.launches} == {2}
    assert any("function of the constants" in one for one in world.said)


def test_under_lookup_only_what_is_stored_is_used(world: World) -> None:
    world.answer = emitted
    fast = world.jit(free=["BLOCK"])
    for _ in range(3):
        call(world, fast)
    assert (world.requests, world.cuda.launches, len(world.originals)) == ([], [], 3)


@pytest.mark.parametrize("free", ["BLOCK", ["M"], ["nothing"], {"BLOCK": [0]}, {"BLOCK": [64.5]}])
def test_what_is_no_free_constant_is_refused(world: World, free: Any) -> None:
    with pytest.raises(WrongFreeConstant):
        world.jit(free=free)


def test_free_constants_are_not_for_kernels_in_wrappers(world: World) -> None:
    """Heuristics are computed from the constants that the program has."""
    with pytest.raises(WrongFreeConstant):
        twill.jit(triton.heuristics({"BLOCK": lambda args: 64})(plain), free=["BLOCK"])


def test_values_are_tried_from_the_program_s_own_outwards() -> None:
    free = FreeConstants({"M": (), "N": ()}, {})
    points = list(near(free, {"M": 128, "N": 32}))
    assert points[0] == {"M": 128, "N": 32}
    assert points[1:5] == [{"M": 64, "N": 32}, {"M": 128, "N": 16}, {"M": 128, "N": 64}, {"M": 256, "N": 32}]
    assert all(16 <= value <= 256 for point in points for value in point.values())
    own = list(near(FreeConstants({"M": (48, 96), "N": ()}, {}), {"M": 128, "N": 32}))
    assert {point["M"] for point in own} == {48, 96, 128}


@triton.jit  # type: ignore[untyped-decorator]
def product(a, b, c, K, M: tl.constexpr, N: tl.constexpr, D: tl.constexpr):  # type: ignore[no-untyped-def]
    row, column = tl.program_id(0) * M, tl.program_id(1) * N
    acc = tl.zeros([M, N], tl.float32)
    for k in range(0, K, D):
        acc = tl.dot(a.load([row, k]), b.load([k, column]), acc)
    c.store([row, column], acc.to(tl.bfloat16))


def described(a: str, b: str, c: str) -> Variant:
    types = tuple((name, f"tensordesc<bf16[{block}]>") for name, block in (("a", a), ("b", b), ("c", c)))
    return Variant((*types, ("K", "i32")), (("M", 128), ("N", 128), ("D", 64)), ())


def test_blocks_follow_from_constants_in_the_one_way_that_compiles() -> None:
    """128 is M and N."""
    found = blocks_of(product, described("128, 64", "64, 128", "128, 128"), {"M": 128, "N": 128, "D": 64},
                      FreeConstants.of(product, ["M", "N", "D"], None))  # fmt: skip
    assert found == {"a": ("M", "D"), "b": ("D", "N"), "c": ("M", "N")}


def test_blocks_that_follow_in_no_way_are_asked_for() -> None:
    with pytest.raises(WrongFreeConstant, match="blocks="):
        blocks_of(product, described("128, 64", "64, 128", "128, 64"), {"M": 128, "N": 128, "D": 64},
                  FreeConstants.of(product, ["M", "N"], None))  # fmt: skip
    said: dict[str, list[str | int]] = {"a": ["M", 64], "b": [64, "N"], "c": ["M", "N"]}
    given = FreeConstants.of(product, ["M", "N"], said)
    found = blocks_of(product, described("128, 64", "64, 128", "128, 128"), {"M": 128, "N": 128, "D": 64}, given)
    assert found == {name: tuple(block) for name, block in said.items()}


def test_descriptors_keep_all_but_their_blocks(world: World) -> None:
    """What the user described is another's to see afterwards."""
    fast = freed(world)
    a = TensorDescriptor.from_tensor(world.a, [128, 64])
    for _ in range(TURNS):
        call(world, fast, a_desc=a)
    assert a.block_shape == [128, 64]


def test_choices_that_cannot_be_read_are_found_out_again(world: World) -> None:
    fast = freed(world)
    (family,) = fast.twill_dispatch.tilings.families.values()
    store = SqliteStore(world.store)
    store.put_artifact(family.key, "choices", b"[1")
    store.close()
    again = freed(world)
    begun = len(world.cuda.launches)
    call(world, again)
    assert len(world.cuda.launches) == begun + 1
