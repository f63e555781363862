"""Promises of autotuners and heuristics around kernels under `twill.jit`: what Triton's do, at less cost."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
from triton.runtime.autotuner import Autotuner, Heuristics

import twill
from tests.jit_kernels import plain
from twill.runtime import wrappers
from twill.runtime.policy import settings
from twill.runtime.script import every_kernel
from twill.runtime.wrappers import QuickHeuristics, QuickTuner, quicken

SMALL, LARGE = triton.Config({"BLOCK": 64}, num_warps=2), triton.Config({"BLOCK": 128}, num_stages=5)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((torch.zeros(4), 3), {}), ((torch.zeros(4).half(), 3), {}), ((torch.zeros(4), 16), {}), ((3, 3), {}),
    ((), {"x": torch.zeros(4), "n": 3}), ((), {"n": 16, "x": torch.zeros(4).bfloat16()}), ((torch.zeros(4),), {"n": 3}),
    ((torch.zeros(4), 3), {"enable_fp_fusion": True}),
]  # fmt: skip


class Inner:
    """In the place of a kernel: notes what it is launched with."""

    fn = plain
    arg_names = plain.arg_names

    def __init__(self) -> None:
        self.seen: list[tuple[tuple[Any, ...], dict[str, Any]]] = []

    def run(self, *args: Any, **kwargs: Any) -> int:
        self.seen.append((args, kwargs))
        return len(self.seen)


def tuner(inner: Any, kind: Any = Autotuner, key: tuple[str, ...] = ("n",)) -> Any:
    made = kind(inner, plain.arg_names, [SMALL, LARGE], list(key), None, None)
    made.benched = []

    def bench(*args: Any, config: Any, **meta: Any) -> float:
        made.benched.append(config)
        return float(config.kwargs["BLOCK"] != 128)

    made._bench = bench
    return made


def same(ours: Any, theirs: Any) -> bool:
    return all(
        a[0] == b[0] and a[1].keys() == b[1].keys() and all(a[1][name] is b[1][name] for name in a[1])
        for a, b in zip(ours.seen, theirs.seen, strict=True)
    )


def test_an_autotuner_finds_the_same_configuration_for_every_call() -> None:
    ours, theirs = tuner(Inner()), tuner(Inner())
    quicken(ours)
    assert isinstance(ours, QuickTuner) and type(ours).__name__ == "Autotuner"
    for _ in range(2):
        for args, kwargs in CALLS:
            assert ours[(2,)](*args, **kwargs) == theirs[(2,)](*args, **kwargs)
    assert same(ours.fn, theirs.fn) and ours.cache == theirs.cache and len(ours.cache) > 4
    assert len(ours.benched) == len(theirs.benched) == 2 * len(ours.cache)  # each key once, by Triton
    assert ours.best_config is theirs.best_config is LARGE


def test_a_known_key_is_not_looked_for_by_triton(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = tuner(Inner())
    quicken(ours)
    for args, kwargs in CALLS:
        ours[(2,)](*args, **kwargs)
    monkeypatch.setattr(ours, "prune_configs", lambda *_: pytest.fail("it was looked for"))
    plain_run = Autotuner.run
    monkeypatch.setattr(Autotuner, "run", lambda *_, **__: pytest.fail("Triton's was called"))
    monkeypatch.setattr(wrappers, "TUNER_RUN", Autotuner.run)
    for args, kwargs in CALLS:
        ours[(2,)](*args, **kwargs)
    assert plain_run is not Autotuner.run


def test_what_somebody_puts_in_the_place_of_triton_s_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    ours, outer = tuner(Inner()), Heuristics(Inner(), plain.arg_names, {"BLOCK": lambda given: 64})
    quicken(ours)
    quicken(outer)
    monkeypatch.setattr(Autotuner, "run", lambda *_, **__: "tuned")
    monkeypatch.setattr(Heuristics, "run", lambda *_, **__: "judged")
    assert ours[(2,)](torch.zeros(4), 3) == "tuned" and outer[(2,)](torch.zeros(4), 3) == "judged"


def test_a_class_that_is_made_from_triton_s_keeps_its_run_and_finds_ours_in_it() -> None:
    class Counted(Autotuner):  # type: ignore[misc]
        count = 0

        def run(self, *args: Any, **kwargs: Any) -> Any:
            self.count += 1
            return super().run(*args, **kwargs)

    ours = tuner(Inner(), Counted)
    quicken(ours)
    kinds = type(ours).__mro__
    assert isinstance(ours, Counted) and kinds.index(Counted) < kinds.index(QuickTuner) < kinds.index(Autotuner)
    assert [ours[(2,)](torch.zeros(4), 3) for _ in range(3)] == [1, 2, 3] and ours.count == 3
    outer = Heuristics(ours, plain.arg_names, {})
    quicken(outer)
    assert outer[(2,)](torch.zeros(4), 3) == 4 and ours.count == 4  # not gone around


def test_hooks_of_configurations_and_what_is_given_twice_are_triton_s(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = tuner(Inner())
    quicken(ours)
    ours[(2,)](torch.zeros(4), 3)
    with pytest.raises((TypeError, ValueError), match="BLOCK"):
        ours[(2,)](torch.zeros(4), 3, BLOCK=64)
    for name in ("grid", "warmup"):
        with pytest.raises(TypeError, match=name):
            ours[(2,)](torch.zeros(4), 3, **{name: 1})
    hooked: list[Any] = []
    monkeypatch.setattr(LARGE, "pre_hook", hooked.append)
    ours[(2,)](torch.zeros(4), 3)
    assert len(hooked) == 1 and hooked[0]["BLOCK"] == 128 and hooked[0]["n"] == 3


def test_heuristics_see_all_arguments_and_the_results_before_them_and_can_spoil_neither() -> None:
    seen: list[dict[str, Any]] = []

    def first(given: dict[str, Any]) -> int:
        seen.append(dict(given))
        given.clear()
        return 7

    def second(given: dict[str, Any]) -> int:
        seen.append(dict(given))
        return int(given["n"]) + int(given["A"])

    for args, kwargs in CALLS:
        ours, theirs = (Heuristics(Inner(), plain.arg_names, {"A": first, "B": second}) for _ in range(2))
        quicken(ours)
        assert isinstance(ours, QuickHeuristics)
        ours[(2,)](*args, **kwargs)
        theirs[(2,)](*args, **kwargs)
        assert same(ours.fn, theirs.fn) and ours.fn.seen[0][1]["B"] == ours.fn.seen[0][1]["A"] + seen[-1]["n"]
        assert [one.keys() for one in seen[:2]] == [one.keys() for one in seen[2:]]
        seen.clear()


def test_a_run_of_the_kernel_s_own_is_called() -> None:
    with every_kernel(settings(store="off"), []):
        under = triton.jit(plain.fn)
        outer = triton.heuristics({"BLOCK": lambda given: 64})(triton.autotune([triton.Config({})], key=[])(under))
    assert isinstance(outer, QuickHeuristics) and isinstance(outer.fn, QuickTuner)
    noted: list[Any] = []
    under.__dict__["run"] = lambda *args, **kwargs: noted.append(kwargs)
    outer[(2,)](torch.zeros(4), n=3)
    assert noted[0]["n"] == 3 and noted[0]["BLOCK"] == 64 and noted[0]["grid"] == (2,) and noted[0]["warmup"] is False


def test_kernels_that_never_have_emitted_ones_keep_triton_s_wrappers() -> None:
    outer = triton.heuristics({"BLOCK": lambda given: 64})(triton.autotune([triton.Config({})], key=[])(plain))
    off = twill.jit(outer, policy="off")
    assert type(off) is Heuristics and type(off.fn) is Autotuner
    on = twill.jit(outer, store="off")
    assert isinstance(on, QuickHeuristics) and isinstance(on.fn, QuickTuner)
    assert type(outer) is Heuristics and type(outer.fn) is Autotuner
    quicken(other := SimpleNamespace(run=1))
    assert type(other) is SimpleNamespace
