"""Promises of comparing under odd circumstances: every launch is made once, and right, and nobody is asked twice."""

from __future__ import annotations

from typing import Any

import pytest

import twill
from tests.jit_kernels import World
from tests.runtime.test_comparison import ENOUGH, drained, launched
from twill.runtime import library
from twill.store.sqlite import SqliteStore


@pytest.mark.parametrize("jump", [-1e6, 0.0, float("nan"), float("inf")])
def test_a_clock_that_jumps_gives_no_time(stored: World, monkeypatch: pytest.MonkeyPatch, jump: float) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost = 1000.0
    elapsed = stored.cuda.cuEventElapsedTime
    asked: list[int] = []

    def jumping(first: int, last: int) -> Any:
        asked.append(first)
        code, time = elapsed(first, last)
        return code, jump if len(asked) in (2, 5) else time

    monkeypatch.setattr(stored.cuda, "cuEventElapsedTime", jumping)
    launched(stored, fast, 20)
    (known,) = fast.twill_dispatch.variants.known.values()
    (comparison,) = known.comparisons.values()
    assert {round(time) for times in comparison.times.values() for time in times} == {10, 1000}
    assert launched(stored, fast, 3) == "ttt" and stored.cuda.alive == set()


def test_a_clock_that_stands_still_decides_nothing_and_stops_nothing(stored: World) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost = stored.triton_cost = 0.0
    launched(stored, fast, 2 * ENOUGH)
    assert "0 of" in twill.explain(fast) and stored.cuda.alive == set()


def test_a_kernel_that_writes_what_it_reads_has_each_launch_once(stored: World) -> None:
    fast = stored.jit(prefer="faster")
    value = 0

    def add_one(*_: Any, **__: Any) -> None:
        nonlocal value
        value += 1

    emitted, original = stored.cuda.cuLaunchKernelEx, fast.twill_original.__dict__["run"]

    def counted(*given: Any) -> Any:
        add_one()
        return emitted(*given)

    def run(*args: Any, warmup: bool, **kwargs: Any) -> Any:
        if not warmup:
            add_one()
        return original(*args, warmup=warmup, **kwargs)

    stored.cuda.cuLaunchKernelEx = counted  # type: ignore[method-assign,assignment]
    fast.twill_original.__dict__["run"] = run
    for number in range(1, ENOUGH + 10):
        stored.call(fast)
        assert value == number  # after every launch: nothing was made for its time alone


def test_processes_with_different_verdicts_keep_their_own_and_the_next_one_takes_one_of_them(stored: World) -> None:
    first, second = stored.jit(prefer="faster"), None
    stored.cuda.cost = 1.0
    launched(stored, first, 4)
    library._libraries.clear()  # another process, which looks the verdict up before there is one
    second = stored.jit(prefer="faster")
    launched(stored, second, 4)
    launched(stored, first, ENOUGH)
    drained(first)
    stored.cuda.cost = 1000.0
    launched(stored, second, ENOUGH)
    drained(second)
    assert set(launched(stored, first, 3)) == {"e"} and set(launched(stored, second, 3)) == {"t"}
    library._libraries.clear()
    third = stored.jit(prefer="faster")
    events = sum(call[0] == "event" for call in stored.cuda.calls)
    assert len(set(launched(stored, third, 5))) == 1
    assert sum(call[0] == "event" for call in stored.cuda.calls) == events  # nothing is measured again


def test_a_store_that_is_read_only_keeps_nothing_and_stops_nothing(
    stored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(SqliteStore, "put_artifact", refuse)
    fast = stored.jit(prefer="faster")
    stored.cuda.cost = 1000.0
    launched(stored, fast, 20)
    drained(fast)
    assert set(launched(stored, fast, 3)) == {"t"}
    library._libraries.clear()
    fast = stored.jit(prefer="faster")  # the next process measures, as nothing was kept
    assert launched(stored, fast, 4).count("e") == 2
