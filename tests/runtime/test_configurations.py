"""Promises of autotuned kernels: what is emitted after the tuning has a say in which configuration is launched."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import dataclass
from types import SimpleNamespace
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
from twill.runtime.autotuner_bench import AutotunerBench
from twill.runtime.comparison import CLEAR_SAMPLES, WARMUP
from twill.runtime.configurations import AnyVerdict, ConfigurationTurns
from twill.runtime.jit import TwillKernel, take_turns
from twill.runtime.policy import settings
from twill.runtime.request import Prepared, PrepareRequest
from twill.runtime.script import every_kernel
from twill.runtime.verdict import Verdict

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


class Ready:
    """Every configuration has an emitted kernel."""

    readied, bench = 1, AutotunerBench(compares=True)

    def has_emitted(self, constants: Mapping[str, Any]) -> bool:
        return True

    def capturing(self) -> bool:
        return False


@dataclass
class Known:
    """A comparison as far as it has come."""

    verdict: AnyVerdict | None = None
    fastest: float | None = None
    waiting: bool = False

    def least(self) -> float | None:
        return self.fastest

    def awaits(self) -> bool:
        return self.waiting


def three_configurations() -> tuple[ConfigurationTurns, list[triton.Config]]:
    """Of one key, as an autotuner has timed them: 1.0, 1.2 and 1.4 ms."""
    configs = [triton.Config({"BLOCK": block}) for block in (64, 32, 128)]
    tuner = SimpleNamespace(configs=configs, configs_timings=None)
    turns = ConfigurationTurns(tuner, Ready())
    turns["key"] = configs[0]
    tuner.configs_timings = dict(zip(configs, (1.0, 1.2, 1.4), strict=True))
    return turns, configs


def launched(turns: ConfigurationTurns, known: Known) -> triton.Config:
    """The configuration of the next launch, after which its comparison is `known`."""
    config, turn = turns["key"], turns.taken()
    assert turn is not None and turn.config is config
    turn.over(known)
    return config


@pytest.mark.parametrize(("fastest", "goes_on"), [(560.0, False), (540.0, True), (None, True)])
def test_a_configuration_whose_first_launches_are_far_behind_has_no_more(fastest: float | None, goes_on: bool) -> None:
    """500 us are known of another one."""
    turns, configs = three_configurations()
    assert launched(turns, Known(Verdict((500.0,) * 8, (900.0,) * 8, "here"))) is configs[0]
    assert launched(turns, Known(fastest=fastest)) is configs[1]
    assert launched(turns, Known()) is configs[1 if goes_on else 2]


def test_while_the_gpu_has_not_come_to_a_configuration_the_fastest_has_the_launches() -> None:
    turns, configs = three_configurations()
    assert launched(turns, Known(Verdict((700.0,) * 8, (1000.0,) * 8, "here"))) is configs[0]
    known = Known()
    assert launched(turns, known) is configs[1]
    known.waiting = True
    assert [turns["key"] for _ in range(5)] == [configs[0]] * 5 and turns.taken() is None
    known.waiting = False
    assert launched(turns, Known(Verdict((400.0,) * 8, (1200.0,) * 8, "here"))) is configs[1]
    assert launched(turns, Known(Verdict((900.0,) * 8, (1400.0,) * 8, "here"))) is configs[2]
    assert [turns["key"] for _ in range(3)] == [configs[1]] * 3


def test_a_program_that_runs_ahead_of_the_gpu_launches_a_configuration_a_few_times(world: World) -> None:
    tuned = Tuned(world)
    tuned_first(tuned)
    tuned.release()
    world.cuda.cost, world.cuda.behind = 4.0, True
    few = 2 * (WARMUP + CLEAR_SAMPLES)
    assert [tuned.launch() for _ in range(few + 10)] == [128] * few + [64] * 10
    world.cuda.behind = False
    assert [tuned.launch() for _ in range(ENOUGH + 4)][-4:] == [128] * 4


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
