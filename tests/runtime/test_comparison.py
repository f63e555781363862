"""Promises of comparing an emitted kernel with Triton's: on the program's own launches, and the faster one stays."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

import twill
from tests.jit_kernels import CODE, MANIFEST, World
from twill.exc import WrongPolicy
from twill.manifest.prediction import Prediction
from twill.runtime import library
from twill.runtime.artifact import artifact
from twill.runtime.comparison import SAMPLES, WARMUP
from twill.store.sqlite import SqliteStore

ENOUGH = 2 * (WARMUP + SAMPLES)


def launched(world: World, fast: Any, count: int, **changed: Any) -> str:
    """Who had each of that many launches: "e" or "t"."""
    who = ""
    for _ in range(count):
        before = len(world.originals), len(world.cuda.launches)
        world.call(fast, **changed)
        after = len(world.originals), len(world.cuda.launches)
        assert sum(after) == sum(before) + 1  # never twice, never not at all
        who += "t" if after[0] > before[0] else "e"
    return who


def drained(fast: Any) -> None:
    """Wait for the library's threads."""
    for _ in range(1000):
        if fast.twill_dispatch.variants.library.open_tasks == 0:
            return
        time.sleep(0.01)
    raise TimeoutError


@pytest.mark.parametrize(("emitted", "triton", "wins"), [(10.0, 12.0, "e"), (10.0, 10.0, "t"), (12.0, 10.0, "t")])
def test_both_have_the_first_launches_in_turns_and_the_faster_one_all_others(
    stored: World, emitted: float, triton: float, wins: str
) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost, stored.triton_cost = emitted, triton
    first = launched(stored, fast, ENOUGH)
    assert first.count("e") == first.count("t") == ENOUGH // 2
    assert {"ee", "tt"} <= {first[i : i + 2] for i in range(ENOUGH)} and first[0] == "e"
    assert set(launched(stored, fast, 30)) == {wins}
    text = twill.explain(fast)
    assert f"{emitted:.1f} µs emitted, {triton:.1f} µs as Triton's (medians of {SAMPLES} launches, NVIDIA H200" in text
    assert ("faster" in twill.explain_fallback(fast)) == (wins == "t")


def predicted(world: World, **figures: float) -> Any:
    """The kernel under twill.jit, with a prediction beside its emitted kernel."""
    made = Prediction(**{"emitted": 1000.0, "resource": 100.0, "waits": 400.0, "work": 800.0, **figures})
    key = world.key()
    world.keep(key, artifact(key, MANIFEST.text(), CODE, made))
    return world.jit(prefer="faster")


def test_a_kernel_that_is_predicted_to_be_clearly_slower_is_never_launched(world: World) -> None:
    fast = predicted(world)  # of 256 threads, two CTAs an SM: (400 + 800 / 2) / 2
    assert launched(world, fast, 30) == "t" * 30
    words = "predicted 1000 cycles emitted, 400 as Triton's (2 CTAs of 256 threads)"
    assert words in twill.explain(fast) and words in twill.explain_fallback(fast)
    assert ("occupancy", 4711, 256, 4096) in world.cuda.calls and not world.cuda.launches
    (known,) = fast.twill_dispatch.variants.known.values()
    (comparison,) = known.comparisons.values()
    drained(fast)
    store = SqliteStore(world.store)
    assert store.get_artifact(known.shelf.key, comparison.sizes.name) is None  # nothing was measured
    store.close()


def test_any_other_kernel_is_measured_and_told_with_its_prediction(world: World) -> None:
    fast = predicted(world, emitted=590.0)
    world.cuda.cost = 1.0
    first = launched(world, fast, ENOUGH + 2)
    assert first[0] == "t" and first.count("t") <= ENOUGH // 2 + 1
    assert set(launched(world, fast, 9)) == {"e"}
    assert "1.0 µs emitted" in twill.explain(fast) and "predicted 590 cycles emitted, 400" in twill.explain(fast)


def test_a_stored_verdict_needs_no_prediction(world: World) -> None:
    fast = predicted(world, emitted=590.0)
    world.cuda.cost = 1.0
    launched(world, fast, ENOUGH + 2)
    drained(fast)
    library._libraries.clear()
    fast = world.jit(prefer="faster")
    assert launched(world, fast, 3) == "eee"


@pytest.mark.parametrize("slower", ["e", "t"])
def test_a_kernel_that_is_much_slower_is_left_early(stored: World, slower: str) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost, stored.triton_cost = (1000.0, 10.0) if slower == "e" else (10.0, 1000.0)
    assert launched(stored, fast, 40).rindex(slower) < 10


def test_a_kernel_that_was_slower_costs_its_launches_nothing_afterwards(
    stored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost = 1000.0
    launched(stored, fast, 20)
    assert fast.twill_dispatch.hot is None
    monkeypatch.setattr(fast.twill_dispatch, "ask", None)
    events = len(stored.cuda.calls)
    assert launched(stored, fast, 5) == "ttttt"
    assert len(stored.cuda.calls) == events


def test_after_the_verdict_an_emitted_launch_records_no_event(stored: World) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost = 1.0
    launched(stored, fast, 20)
    events = len(stored.cuda.calls)
    assert launched(stored, fast, 5) == "eeeee"
    other = stored.a.clone()
    assert stored.call(fast, x=torch.zeros(4096)) is None and other is not None
    assert len(stored.cuda.calls) == events and stored.cuda.events == {}


def test_the_verdict_is_stored_with_its_evidence_and_holds_in_the_next_process(stored: World) -> None:
    for cost, wins in ((1000.0, "t"), (10.0, "t")):  # the second one is not measured
        fast = stored.jit(prefer="faster")
        stored.cuda.cost = cost
        launched(stored, fast, 20)
        (known,) = fast.twill_dispatch.variants.known.values()
        drained(fast)
        assert set(launched(stored, fast, 3)) == {wins}
        library._libraries.clear()
    store = SqliteStore(stored.store)
    (comparison,) = known.comparisons.values()
    kept = store.get_artifact(known.shelf.key, comparison.sizes.name)
    store.close()
    assert kept is not None and b"1000.0" in kept and b"NVIDIA H200" in kept


def test_another_gpu_driver_or_size_is_measured_again(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost = 1000.0
    launched(stored, fast, 20)
    drained(fast)
    stored.cuda.cost = 1.0
    monkeypatch.setattr("twill.runtime.variants.driver_version", lambda: "999.1")
    fast = stored.jit(prefer="faster")
    launched(stored, fast, 20)
    assert launched(stored, fast, 3) == "eee"
    stored.cuda.cost = 1000.0
    assert set(launched(stored, fast, 20, grid=(4096,))[10:]) == {"t"}  # a class of its own
    assert launched(stored, fast, 3) == "eee"


def test_while_the_gpu_is_behind_nobody_waits_for_it(stored: World) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost, stored.cuda.behind = 1000.0, True
    first = launched(stored, fast, ENOUGH + 6)
    assert first[ENOUGH:] == "t" * 6 and first.count("e") == ENOUGH // 2
    stored.cuda.behind = False
    assert launched(stored, fast, 5) == "ttttt"


def test_a_launch_inside_a_graph_capture_is_not_timed(stored: World) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost = 1000.0
    launched(stored, fast, 4)
    stored.cuda.capturing.add(7)
    stored.triton.stream = 7
    events = len(stored.cuda.calls)
    assert launched(stored, fast, 3) == "ttt"
    assert len(stored.cuda.calls) == events


def test_events_do_not_break_a_graph_that_another_stream_captures(stored: World) -> None:
    launched(stored, stored.jit(prefer="faster"), 6)
    recorded = [call for call in stored.cuda.calls if call[0] == "record"]
    assert recorded and all("RELAXED" in call[-1].name for call in recorded)


def test_every_time_is_the_gpu_s_alone(stored: World) -> None:
    fast = stored.jit(prefer="faster")
    launched(stored, fast, ENOUGH)
    asked = [call[0] for call in stored.cuda.calls if call[0] in ("record", "delay")]
    assert asked == ["delay", "record", "record"] * (2 * SAMPLES)


def test_a_time_that_the_host_had_a_part_in_is_taken_again_and_counts_at_last(stored: World) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.quick = True  # the GPU is through with the delay before the host has issued the launch
    launched(stored, fast, ENOUGH)
    assert "8 of" not in twill.explain(fast) and "medians" not in twill.explain(fast)
    launched(stored, fast, SAMPLES + 2)
    assert f"medians of {SAMPLES} launches" in twill.explain(fast)
    assert stored.cuda.alive == set()


def test_a_stream_that_is_destroyed_is_no_error_and_gives_no_time(stored: World) -> None:
    fast = stored.jit(prefer="faster")
    stored.triton.stream = 9
    stored.cuda.destroyed.add(9)
    launched(stored, fast, 20)
    assert "0 of" in twill.explain(fast)
    assert stored.cuda.alive == set()  # every event was given back
    stored.triton.stream = 0
    stored.cuda.cost = 1000.0
    launched(stored, fast, 20)
    assert launched(stored, fast, 3) == "ttt"


def test_emitted_and_require_do_not_compare(stored: World) -> None:
    stored.cuda.cost = 1000.0
    for options in ({"prefer": "emitted"}, {"policy": "require"}):
        fast = stored.jit(**{"prefer": "faster", **options})
        assert launched(stored, fast, 20) == "e" * 20
        assert "emitted" in twill.explain(fast)
    with pytest.raises(WrongPolicy, match="faster or emitted"):
        stored.jit(prefer="slower")


def test_a_damaged_verdict_and_a_store_that_takes_nothing_are_no_errors(stored: World) -> None:
    fast = stored.jit(prefer="faster")
    stored.cuda.cost = 1000.0
    launched(stored, fast, 20)
    drained(fast)
    (known,) = fast.twill_dispatch.variants.known.values()
    (comparison,) = known.comparisons.values()
    for damaged in (
        b"",
        b"{}",
        b'{"schema": "twill.verdict/1", "where": "x", "emitted": [], "triton": []}',
        b"[" * 9000,
    ):
        store = SqliteStore(stored.store)
        store.put_artifact(known.shelf.key, comparison.sizes.name, damaged)
        store.close()
        fast = stored.jit(prefer="faster")
        assert launched(stored, fast, 4).count("e") == 2
