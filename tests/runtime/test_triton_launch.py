"""Promises of launches that are Triton's: the same kernel, arguments, hooks and errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import triton
from triton import knobs

from tests.fake_triton import FakeTriton, installed
from tests.jit_kernels import plain
from twill.runtime.triton_launch import TritonLauncher


class Launcher(TritonLauncher):
    """careful: launches by `JITFunction.run`."""

    careful = 0

    def learn(self, variant: Any, compiled: Any) -> None:
        self.careful += 1
        super().learn(variant, compiled)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeTriton]:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # 3.9 warns where it is not set
    with installed() as there:
        passed: list[tuple[Any, ...]] = []
        made = there.launcher_cls

        def launcher(source: Any, metadata: Any) -> Any:
            launch = made(source, metadata)

            def noted(*given: Any) -> None:
                passed.append(given)
                launch(*given)

            return noted

        there.passed, there.launcher_cls = passed, launcher  # type: ignore[attr-defined,method-assign]
        yield there


def kernel() -> Any:
    return triton.jit(plain.fn)


def test_a_launch_gets_what_triton_s_gets(fake: FakeTriton) -> None:
    one, x = kernel(), torch.zeros(64)
    launcher = Launcher(one)
    fake.stream = 5
    first = launcher.run((2, 3), (x, 3), {"BLOCK": 64, "num_warps": 8})
    again = launcher.run(lambda bound: (bound["n"],), (x, 3), {"BLOCK": 64, "num_warps": 8})
    theirs = one.run(x, 3, grid=(3,), warmup=False, BLOCK=64, num_warps=8)
    assert again is first is theirs and launcher.careful == 1
    assert fake.launches == [("plain", (2, 3, 1), 5), ("plain", (3, 1, 1), 5), ("plain", (3, 1, 1), 5)]
    hooks = slice(6, 9)  # what is told to hooks, of which there are none
    ours, wanted = (list(given) for given in fake.passed[-2:])  # type: ignore[attr-defined]
    del ours[hooks], wanted[hooks]
    assert ours[:-3] == wanted[:-3] and ours[-3] is x and ours[-2:] == [3, 64]


@pytest.mark.parametrize(
    "changed", [{"n": 16}, {"n": 1}, {"n": 1 << 40}, {"x": torch.zeros(65)[1:]}, {"x": torch.zeros(64).half()},
                {"BLOCK": 32}, {"num_warps": 2}],
)  # fmt: skip
def test_another_variant_is_compiled_as_triton_does(fake: FakeTriton, changed: dict[str, Any]) -> None:
    launcher = Launcher(kernel())
    usual = {"x": torch.zeros(64), "n": 3, "BLOCK": 64, "num_warps": 4}
    first = launcher.run((1,), (), usual)
    assert launcher.run((1,), (), usual | changed) is not first
    assert launcher.run((1,), (), usual) is first
    assert launcher.careful == 2


def test_hooks_are_called_by_triton(fake: FakeTriton) -> None:
    one = kernel()
    launcher, call = Launcher(one), ((torch.zeros(64), 3), {"BLOCK": 64})
    launcher.run((1,), *call)
    seen: list[Any] = []
    one.pre_run_hooks.append(lambda *args, **kwargs: seen.append(kwargs["BLOCK"]))
    launcher.run((1,), *call)
    assert seen == [64]
    one.pre_run_hooks.clear()
    told = len(fake.passed)  # type: ignore[attr-defined]
    hook = seen.append
    before = knobs.runtime.launch_enter_hook
    knobs.runtime.launch_enter_hook = hook
    try:
        launcher.run((1,), *call)
    finally:
        knobs.runtime.launch_enter_hook = before
    assert hook in fake.passed[told]  # type: ignore[attr-defined]


def test_a_cache_that_was_emptied_is_filled_again(fake: FakeTriton) -> None:
    one = kernel()
    launcher, call = Launcher(one), ((torch.zeros(64), 3), {"BLOCK": 64})
    first = launcher.run((1,), *call)
    one.device_caches.clear()
    assert launcher.run((1,), *call) is not first
    assert launcher.careful == 2


def test_a_global_that_changed_is_an_error_as_in_triton(fake: FakeTriton) -> None:
    one = kernel()
    launcher, call = Launcher(one), ((torch.zeros(64), 3), {"BLOCK": 64})
    launcher.run((1,), *call)
    one.used_global_vals["LIMIT", 0] = (3, {"LIMIT": 4})
    with pytest.raises(RuntimeError, match="LIMIT has changed"):
        launcher.run((1,), *call)


def test_a_call_that_fits_no_signature_is_triton_s_error(fake: FakeTriton) -> None:
    with pytest.raises(TypeError, match="missing"):
        Launcher(kernel()).run((1,), (), {"BLOCK": 64})


def test_a_setting_that_changes_the_kernel_is_another_variant(fake: FakeTriton) -> None:
    launcher, call = Launcher(kernel()), ((torch.zeros(64), 3), {"BLOCK": 64})
    first = launcher.run((1,), *call)
    knobs.runtime.debug = True
    try:
        assert launcher.run((1,), *call) is not first
    finally:
        knobs.runtime.debug = False
    assert launcher.run((1,), *call) is first
