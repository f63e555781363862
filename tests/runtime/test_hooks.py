"""Promises of launch hooks: what watches Triton's launches sees emitted ones as well, once each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from triton import knobs

from tests.jit_kernels import World, scale
from twill.runtime.hooks import hooked


@pytest.fixture
def told() -> Iterator[list[tuple[str, Any]]]:
    """What hooks were told, while there are some."""
    said: list[tuple[str, Any]] = []

    def enter(about: Any) -> None:
        said.append(("enter", about))

    def leave(about: Any) -> None:
        said.append(("exit", about))

    runtime = knobs.runtime
    runtime.launch_enter_hook.add(enter)
    runtime.launch_exit_hook.add(leave)
    yield said
    runtime.launch_enter_hook.remove(enter)
    runtime.launch_exit_hook.remove(leave)


def test_every_emitted_launch_is_told_before_and_after(stored: World, told: list[tuple[str, Any]]) -> None:
    fast = stored.jit()
    for _ in range(3):
        assert stored.call(fast) is None
    assert [when for when, _ in told] == ["enter", "exit"] * 3
    assert (len(stored.cuda.launches), stored.originals) == (3, [])
    about = told[0][1].get()
    assert (about["name"], about["stream"]) == ("scale", 0) and about["function"]
    assert told[0][1] is told[1][1]


def test_hooks_that_come_later_and_go_again_are_seen(stored: World) -> None:
    fast = stored.jit()
    said: list[Any] = []
    for _ in range(2):
        stored.call(fast)
    knobs.runtime.launch_exit_hook.add(said.append)
    try:
        assert hooked()
        stored.call(fast)
    finally:
        knobs.runtime.launch_exit_hook.remove(said.append)
    assert not hooked()
    stored.call(fast)
    assert (len(said), len(stored.cuda.launches)) == (1, 4)


def test_what_the_kernel_says_of_its_launches_is_computed_when_somebody_asks(
    stored: World, told: list[tuple[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []

    def describe(grid: Any, metadata: Any, args: dict[str, Any]) -> dict[str, Any]:
        asked.append(grid)
        return {"name": f"scale {args['M']}", "flops": args["N"] * metadata.num_warps}

    monkeypatch.setattr(scale, "launch_metadata", describe)
    stored.call(stored.jit())
    assert asked == []
    about = told[0][1].get()
    assert (about["name"], about["flops"], asked) == ("scale 256", 64 * 12, [(2,)])


def test_an_exit_hook_that_fails_is_an_error_and_no_second_launch(stored: World) -> None:
    def fail(about: Any) -> None:
        raise ZeroDivisionError

    knobs.runtime.launch_exit_hook.add(fail)
    try:
        with pytest.raises(ZeroDivisionError):
            stored.call(stored.jit())
    finally:
        knobs.runtime.launch_exit_hook.remove(fail)
    assert (len(stored.cuda.launches), stored.originals) == (1, [])


def test_a_hook_that_is_one_function_counts_and_none_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    for hook, counts in ((None, False), (print, True)):
        monkeypatch.setattr(knobs.runtime, "launch_enter_hook", hook)
        assert hooked() == counts
