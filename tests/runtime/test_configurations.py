"""Promises of autotuned kernels: what is emitted after the tuning has a say in which configuration is launched."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import triton
from triton.runtime.autotuner import Autotuner
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

import twill
from tests.jit_kernels import World, emitted, plain, scale
from tests.runtime.test_comparison import ENOUGH, drained
from twill.runtime.jit import TwillKernel, take_turns
from twill.runtime.policy import settings
from twill.runtime.request import Prepared, PrepareRequest
from twill.runtime.script import every_kernel

TIMES = {64: 1.0, 32: 1.2, 128: 1.5, 16: 9.0}  # of Triton's kernels, by BLOCK


class Tuned:
    """`scale` under an autotuner that has measured TIMES, under `twill.jit`. Kernels for `blocks` are emitted when
    `release` is called; only 128 has a manifest that launches."""

    def __init__(self, world: World, blocks: tuple[int, ...] = (128,), **options: Any) -> None:
        self.world, self.released, self.benched = world, threading.Event(), 0
        self.times = TIMES
        world.triton_cost = 10.0
        self.long = torch.zeros(4096, 64, dtype=torch.bfloat16)

        def answer(request: PrepareRequest) -> Prepared:
            assert self.released.wait(20)
            block = dict((one.name, one.value) for one in request.constants)["BLOCK"]
            return emitted(request) if block in blocks else Prepared(request.key, "unsupported", "not this one")

        world.answer = answer
        configs = [triton.Config({"BLOCK": block}, num_warps=warps) for block in TIMES for warps in (4, 8)]
        tuned = triton.autotune(configs, key=["M"], do_bench=self.bench)(scale)
        self.fast = world.jit(tuned, **{"policy": "solve", "prefer": "faster", **options})
        self.kernel: TwillKernel = self.fast.fn

    def bench(self, call: Any, quantiles: object) -> list[float]:
        """As Triton's: the launch, and what it takes."""
        call()
        self.benched += 1
        _, _, kwargs = self.world.originals[-1]
        return [self.times[kwargs["BLOCK"]] + kwargs["num_warps"] / 1000] * 3

    def launch(self, M: int = 256) -> int:
        """One launch with M rows; the configuration that it had."""
        before = len(self.world.originals) + len(self.world.cuda.launches)
        a = self.world.a if M == 256 else self.long[:M]
        self.fast[(2,)](TensorDescriptor.from_tensor(a, [128, 64]), self.world.x, M, 64, s=0.5)
        assert len(self.world.originals) + len(self.world.cuda.launches) == before + 1  # never twice, never not at all
        return int(self.fast.best_config.kwargs["BLOCK"])

    def release(self) -> None:
        """What was asked for is emitted now."""
        self.released.set()
        drained(self.kernel)


def tuned_first(tuned: Tuned) -> None:
    """The autotuner chooses among Triton's kernels."""
    with pytest.raises(AssertionError):  # its own launches beside the first one
        tuned.launch()
    assert (tuned.benched, tuned.fast.best_config.kwargs["BLOCK"]) == (2 * len(TIMES), 64)
    assert [tuned.launch() for _ in range(5)] == [64] * 5


@pytest.mark.parametrize(("cost", "wins"), [(4.0, 128), (6.5, 128), (6.8, 64), (9.0, 64), (12.0, 64)])
def test_a_kernel_that_was_emitted_after_the_tuning_wins_if_it_makes_its_configuration_the_fastest(
    world: World, cost: float, wins: int
) -> None:
    """1.5 ms as Triton's beside 1.0: it has to be clearly faster than two thirds."""
    tuned = Tuned(world)
    tuned_first(tuned)
    tuned.release()
    world.cuda.cost = cost
    turns = [tuned.launch() for _ in range(ENOUGH + 4)]
    assert turns[:6] == [128] * 6
    assert {tuned.launch() for _ in range(20)} == {wins}
    assert tuned.benched == 2 * len(TIMES)  # nothing was launched for its time alone
    assert tuned.fast.best_config.num_warps == 4
    emitted_ones = len(world.cuda.launches)
    tuned.launch()
    assert len(world.cuda.launches) - emitted_ones == (wins == 128)
    said = "autotuned for 256, torch.float32: BLOCK=128, as Triton's BLOCK=64"
    assert (said in twill.explain(tuned.fast)) == (wins == 128)


@pytest.mark.parametrize(("cost", "wins"), [(4.0, 128), (12.0, 64)])
def test_what_is_emitted_already_is_not_launched_while_the_autotuner_times(
    world: World, cost: float, wins: int
) -> None:
    """It would time one or the other, and their comparison; later it has its turns all the same."""
    tuned = Tuned(world)
    tuned.released.set()
    whole = tuned.bench

    def bench(call: Any, quantiles: object) -> list[float]:
        for _ in range(3):
            call()
            drained(tuned.kernel)
        assert not world.cuda.launches
        return whole(call, quantiles)

    tuned.fast._do_bench = bench
    world.cuda.cost = cost
    with pytest.raises(AssertionError):  # the autotuner's own launches beside the first one
        tuned.launch()
    assert tuned.benched == 2 * len(TIMES)
    assert [tuned.launch() for _ in range(ENOUGH + 5)][-5:] == [wins] * 5
    assert world.cuda.launches


def test_while_nothing_is_ready_launches_stay_as_tuned_and_ask_nothing(world: World) -> None:
    tuned = Tuned(world)
    tuned_first(tuned)
    assert tuned.kernel.twill_tuned is tuned.fast.cache
    assert {tuned.launch() for _ in range(30)} == {64} and world.cuda.launches == []
    tuned.release()


def test_configurations_far_behind_have_no_launch(world: World) -> None:
    tuned = Tuned(world, blocks=(16,))
    tuned_first(tuned)
    tuned.release()
    assert {tuned.launch() for _ in range(30)} == {64}


def test_every_key_of_the_autotuner_has_its_own_choice(world: World) -> None:
    tuned = Tuned(world)
    tuned_first(tuned)
    with pytest.raises(AssertionError):
        tuned.launch(M=4096)
    tuned.release()
    world.cuda.cost = 4.0
    assert {tuned.launch() for _ in range(ENOUGH + 8)} == {128}
    world.cuda.cost = 9.0
    late = [tuned.launch(M=4096) for _ in range(ENOUGH + 8)]
    assert (late[0], late[-1]) == (128, 64)
    assert tuned.launch() == 128


def test_times_are_those_of_the_key_that_they_were_taken_for_where_others_were_tuned_before_anything_was_ready(
    world: World,
) -> None:
    """Triton cannot build 128 for the first key; for the second one it is the fastest."""
    tuned = Tuned(world)
    tuned.times = {**TIMES, 128: float("inf")}
    tuned_first(tuned)
    tuned.times = {**TIMES, 128: 0.5}
    with pytest.raises(AssertionError):  # the autotuner's launches
        tuned.launch(512)
    tuned.release()
    world.cuda.cost = 1.0
    assert {tuned.launch() for _ in range(ENOUGH)} == {64}
    assert {tuned.launch(512) for _ in range(ENOUGH)} == {128}


def test_a_key_that_changes_no_tensor_map_has_the_verdict_of_the_launches_that_it_is_taken_for(world: World) -> None:
    tuned = Tuned(world)
    tuned.long = world.a
    tuned_first(tuned)
    with pytest.raises(AssertionError):
        tuned.launch(M=512)
    tuned.release()
    world.cuda.cost = 4.0
    assert {tuned.launch() for _ in range(ENOUGH + 8)} == {128}
    assert {tuned.launch(M=512) for _ in range(ENOUGH + 8)} == {128}
    assert "M=512" not in twill.explain(tuned.fast)


def test_a_graph_that_is_captured_has_the_configuration_that_is_best_so_far(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    tuned = Tuned(world)
    tuned_first(tuned)
    tuned.release()
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: True)
    assert {tuned.launch() for _ in range(5)} == {64}


def test_where_emitted_kernels_run_in_any_case_nothing_takes_turns(world: World) -> None:
    tuned = Tuned(world, prefer="emitted")
    tuned_first(tuned)
    tuned.release()
    assert {tuned.launch() for _ in range(5)} == {64}


def test_a_script_s_autotuners_know_its_kernels(world: World) -> None:
    before = Autotuner.__init__
    with every_kernel(settings(store=world.store), []):
        under = triton.jit(plain.fn)
        tuner = triton.autotune([triton.Config({"BLOCK": 64})], key=[])(under)
    assert isinstance(under, TwillKernel) and under.twill_tuned is tuner.cache
    assert Autotuner.__init__ is before


def test_an_autotuner_of_other_kernels_is_left_alone() -> None:
    tuner = triton.autotune([triton.Config({"BLOCK": 64})], key=[])(plain)
    take_turns(tuner)
    assert type(tuner.cache) is dict and isinstance(plain, JITFunction)
    off = twill.jit(tuner, policy="off")
    assert type(off.cache) is dict
