"""Promises of launches that stay with Triton and are recognized: what Triton would launch, and nothing is bound."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from triton import knobs
from triton.runtime.jit import JITFunction

import twill
from tests.fake_triton import FakeTriton, installed
from tests.jit_kernels import MANIFEST, plain
from twill.manifest.document import CallArgument
from twill.runtime.hot import Hot
from twill.runtime.matcher import matcher
from twill.runtime.plans import Plans, RefusedLaunch
from twill.runtime.triton_plan import SeenCalls


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTriton]:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # 3.9 warns where it is not set
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 0)
    with installed() as there:
        yield there
        monkeypatch.undo()


def wrapped() -> Any:
    return twill.jit(triton.jit(plain.fn), policy="lookup", store="off", machine="h200")


def settled(fast: Any, call: tuple[Any, ...], **options: Any) -> Any:
    """Launch it until it is recognized; what the last launch gave back."""
    for _ in range(4):
        compiled = fast[(2,)](*call, BLOCK=64, **options)
        for known in list(fast.twill_dispatch.variants.known.values()):
            assert known.inquiry.over.wait(10)
            assert known.shelf is None or known.shelf.state == "missing" or known.shelf.settled.wait(10)
    return compiled


def not_bound(*_: Any, **__: Any) -> Any:
    raise AssertionError("the call was bound")


def noting(function: Any, seen: list[Any]) -> Any:
    """The same, and its calls are noted."""

    def noted(*given: Any, **named: Any) -> Any:
        seen.append(given)
        return function(*given, **named)

    return noted


def closed(fast: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on only launches that are recognized can be made."""
    for name in ("look_into", "stayed", "refused"):
        monkeypatch.setattr(fast.twill_dispatch, name, not_bound)


X = torch.zeros(64)
SHIFTED = torch.zeros(65)[1:]  # 4 bytes behind a multiple of 16
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((X, 3), {}), ((X, 16), {}), ((X, 1), {}), ((X, 0), {}), ((X, -16), {}), ((X, 1 << 31), {}), ((X, -(1 << 40)), {}),
    ((X, 1 << 63), {}), ((X, True), {}), ((X, 2.5), {}), ((X, 3.0), {}), ((X.int(), 3), {}), ((X.half(), 3), {}),
    ((SHIFTED, 3), {}), ((SHIFTED, 16), {}), ((X, 3), {"num_warps": 2}), ((X, 3), {"num_warps": 8}),
    ((X, 3), {"num_warps": 8, "num_stages": 1}), ((X, 3), {"maxnreg": 64}),
]  # fmt: skip


OTHER = replace(
    MANIFEST, kernel="plain", maps=(), promises=(), apart=(("x", "x"),),
    arguments=(
        CallArgument("x", "pointer", "*fp32", "f32"), CallArgument("n", "number", "i32"),
        CallArgument("BLOCK", "constant", value=128),
    ),
)  # fmt: skip


def test_every_call_gets_the_compiled_kernel_that_triton_has_for_it(fake: FakeTriton) -> None:
    fast = wrapped()
    original = fast.twill_original
    for _ in range(3):
        for call, options in CALLS:
            wanted = original.run(*call, grid=(2,), warmup=True, BLOCK=64, **options)
            before = len(fake.launches)
            assert settled(fast, call, **options) is wanted
            assert len(fake.launches) == before + 4  # each once


def test_a_launch_that_is_recognized_is_not_bound_and_gets_what_triton_s_gets(
    fake: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    passed: list[tuple[Any, ...]] = []
    make = fake.launcher_cls

    def noting(source: Any, metadata: Any) -> Any:
        launch = make(source, metadata)

        def noted(*given: Any) -> None:
            passed.append(given)
            launch(*given)

        return noted

    fake.launcher_cls = noting  # type: ignore[method-assign]
    fast, tensors = wrapped(), [torch.zeros(64) for _ in range(3)]
    settled(fast, (X, 5))
    compiled = fast.twill_original.run(X, 5, grid=(2,), warmup=False, BLOCK=64)
    usual = passed[-1]
    closed(fast, monkeypatch)
    fake.stream = 7
    for x, n in zip(tensors, (5, 6, 7), strict=True):  # wherever tensors lie, and another number
        assert fast[(2,)](x, n, BLOCK=64) is compiled
        # the metadata of launches is for hooks, of which there are none
        assert passed[-1][3] == 7 and passed[-1][:3] == usual[:3] and passed[-1][4:6] == usual[4:6]
        assert passed[-1][9] is x and passed[-1][10:] == (n, 64)


def test_a_variant_beside_an_emitted_one_that_is_told_how_far_tensors_reach_gets_what_triton_s_gets(
    fake: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The launcher takes as many values as the kernel has arguments, and not those behind them."""
    fast = wrapped()
    settled(fast, (X, 5))
    emitted = SimpleNamespace(manifest=OTHER)
    fast.twill_dispatch.match([emitted])
    assert fast.twill_dispatch.hot.reaches
    compiled = settled(fast, (X, 5))
    closed(fast, monkeypatch)
    before = len(fake.launches)
    assert fast[(2,)](torch.zeros(64), 7, BLOCK=64) is compiled and len(fake.launches) == before + 1


def test_where_it_is_off_every_launch_is_triton_s_own(fake: FakeTriton, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = twill.jit(triton.jit(plain.fn), policy="off", machine="h200")
    seen: list[Any] = []
    original = fast.twill_original
    monkeypatch.setattr(type(original), "run", noting(JITFunction.run, seen))
    for _ in range(6):
        fast[(2,)](X, 5, BLOCK=64)
    assert len(seen) == len(fake.launches) == 6 and fast.twill_dispatch.hot is None


def test_a_launch_that_the_emitted_kernel_refuses_is_bound_twice_at_most(
    fake: FakeTriton, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = wrapped()
    settled(fast, (X, 5))
    wanted = fast.twill_original.run(X, 5, grid=(2,), warmup=True, BLOCK=64)
    dispatch = fast.twill_dispatch
    dispatch.hot.plans.by_key.clear()
    dispatch.hot.plans.add(dispatch.hot.match((2,), X, 5, BLOCK=64), RefusedLaunch())
    dispatch.stays.clear()
    assert fast[(2,)](X, 5, BLOCK=64) is wanted
    closed(fast, monkeypatch)
    before = len(fake.launches)
    assert fast[(2,)](torch.zeros(64), 7, BLOCK=64) is wanted and len(fake.launches) == before + 1


def test_so_is_one_that_calls_were_not_told_apart_for(fake: FakeTriton, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = wrapped()
    settled(fast, (X, 5))
    dispatch = fast.twill_dispatch
    dispatch.seen = SeenCalls(dispatch.original)  # as if emitted kernels were all that there has been
    dispatch.match(dispatch.used)
    monkeypatch.setattr(dispatch, "hot", Hot(dispatch_match(dispatch), Plans()))
    wanted = fast.twill_original.run(X, 5, grid=(2,), warmup=True, BLOCK=64)
    dispatch.hot.plans.add(dispatch.hot.match((2,), X, 5, BLOCK=64), RefusedLaunch())
    assert fast[(2,)](X, 5, BLOCK=64) is wanted
    assert dispatch.hot.all


def dispatch_match(dispatch: Any) -> Any:
    """As for emitted kernels of which nothing is looked at but what they rely on."""
    looked_at: Any = {"x": "tensor", "n": "free", "BLOCK": "constant"}
    return matcher(dispatch.original.signature, looked_at, Plans(), lambda _: 0, lambda: 0, {})


@pytest.mark.parametrize("what", ["cache", "setting", "gpu", "hook"])
def test_what_triton_looks_at_is_looked_at(fake: FakeTriton, monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    fast = wrapped()
    settled(fast, (X, 5))
    looked: list[Any] = []
    for name in ("launch", "stayed"):
        monkeypatch.setattr(fast.twill_dispatch, name, noting(getattr(fast.twill_dispatch, name), looked))
    fast[(2,)](X, 5, BLOCK=64)
    assert not looked
    if what == "cache":
        fast.twill_original.device_caches[0][0].clear()
    elif what == "setting":
        monkeypatch.setattr(knobs.runtime, "debug", True)
    elif what == "gpu":
        fake.device = 1
    else:
        monkeypatch.setattr(fast.twill_original, "pre_run_hooks", [lambda *args, **kwargs: None])
        fast.pre_run_hooks = fast.twill_original.pre_run_hooks
    wanted = fast.twill_original.run(X, 5, grid=(2,), warmup=True, BLOCK=64)
    assert fast[(2,)](X, 5, BLOCK=64) is wanted and looked


def test_a_kernel_that_is_being_prepared_counts_its_launches(fake: FakeTriton, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = wrapped()
    settled(fast, (X, 5))
    (compiled,) = fast.twill_dispatch.stays
    (known,) = fast.twill_dispatch.variants.known.values()
    fast.twill_dispatch.stays[compiled] = known
    before = known.launches
    closed(fast, monkeypatch)
    fast[(2,)](X, 5, BLOCK=64)
    assert known.launches == before + 1


def test_what_becomes_of_a_variant_is_looked_at_once_it_is_known(fake: FakeTriton) -> None:
    fast = wrapped()
    compiled = settled(fast, (X, 5))
    looked: list[Any] = []
    fast.twill_dispatch.look_into = noting(fast.twill_dispatch.look_into, looked)
    fast.twill_dispatch.stays.pop(compiled)  # as when its emitted kernel is ready
    for _ in range(3):
        fast[(2,)](X, 5, BLOCK=64)
    assert len(looked) == 1 and compiled in fast.twill_dispatch.stays
