"""What a launch is made with is told to the helper when it asks: once, outside of captures, and never at the cost of
the launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from tests.jit_kernels import World, emitted
from tests.jit_kernels import world as played
from twill.kernel.sidecar import read_sidecar_text
from twill.runtime import recording, variants
from twill.runtime.request import Prepared, PrepareRequest
from twill.runtime.variant import Variant


@pytest.fixture
def asking(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    """A helper that does not know at what sizes to check the kernel."""
    with played(monkeypatch, tmp_path, caplog) as made:
        made.answer = lambda request: emitted(request) if request.recorded else unknown(request)
        yield made


def unknown(request: PrepareRequest) -> Prepared:
    """What the helper says where nothing tells it the numbers in a tensor."""
    return Prepared(request.key, "asks" if request.may_ask else "failed", "nothing says what the numbers are")


def called(world: World, **options: object) -> Callable[[], bool]:
    """One launch; whether it was the emitted kernel's."""
    fast = world.jit(**{"policy": "solve", "store": "off", **options})

    def call() -> bool:
        before = len(world.cuda.launches)
        world.call(fast)
        for known in fast.twill_dispatch.variants.known.values():
            known.shelf.settled.wait(0.2 if len(world.requests) < 2 else 10)
        return len(world.cuda.launches) > before

    return call


def test_the_launch_behind_the_question_tells_what_it_is_made_with(asking: World) -> None:
    call = called(asking)
    assert [call(), call(), call()] == [False, False, True]
    first, second = asking.requests
    assert (first.recorded, first.may_ask, second.may_ask) == ("", True, False)
    (table,) = read_sidecar_text(second.recorded, "here").tables
    assert table.problem is not None and table.constexprs["BLOCK"] == 128
    case = table.problem.case(table.problem.run[0])
    assert (case.grid, case.shapes["x"], case.scalars) == ((2,), (4096,), {"M": 256, "N": 64, "s": 0.5})
    assert asking.said == []


def test_require_tells_it_at_the_first_launch(asking: World) -> None:
    assert called(asking, policy="require", server="http://127.0.0.1:1")()
    assert [bool(request.recorded) for request in asking.requests] == [False, True]


def test_nothing_is_read_while_a_graph_is_captured(asking: World, monkeypatch: pytest.MonkeyPatch) -> None:
    call = called(asking)
    monkeypatch.setattr(variants, "capturing", lambda: True)
    assert [call(), call(), call()] == [False, False, False] and len(asking.requests) == 1
    monkeypatch.setattr(variants, "capturing", lambda: False)
    assert [call(), call()] == [False, True] and len(asking.requests) == 2


def test_a_launch_that_cannot_be_read_is_triton_s_and_says_so_once(
    asking: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*given: object) -> str:
        raise RuntimeError("the stream has an error")

    monkeypatch.setattr(variants, "specialization_of", fails)
    call = called(asking)
    assert [call(), call(), call()] == [False, False, False] and len(asking.requests) == 1
    assert len(asking.originals) == 3
    (said,) = asking.said
    assert "nothing says what the numbers are" in said and "the stream has an error" in said


def test_a_helper_that_knows_no_more_afterwards_is_not_asked_again(asking: World) -> None:
    asking.answer = unknown
    call = called(asking)
    assert [call(), call(), call()] == [False, False, False]
    assert len(asking.requests) == 2 and len(asking.originals) == 3
    assert asking.said == ["scale runs as Triton's kernel: nothing says what the numbers are"]


def test_addresses_in_a_tensor_are_what_they_point_to() -> None:
    tensors = [torch.zeros(40, 16, dtype=torch.float16), torch.zeros(24, 16, dtype=torch.float16)]
    pointers = torch.tensor([one.data_ptr() for one in tensors])
    rows = torch.tensor([40, 24], dtype=torch.int32)
    found = Variant((("pointers", "*i64"), ("rows", "*i32"), ("count", "i32")), (("BLOCK", 16),), ())
    given = {"pointers": pointers, "rows": rows, "count": 2}
    (table,) = read_sidecar_text(recording.specialization_of("each", found, given, (2,)), "here").tables
    assert table.problem is not None
    case = table.problem.case(table.problem.run[0])
    assert case.tables == {"pointers": (0, 40 * 16 * 2), "rows": (40, 24)}
    assert case.shapes["pointers.pointee"] == (64 * 16,)
