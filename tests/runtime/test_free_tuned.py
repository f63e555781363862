"""Promises of free tiles under `@triton.autotune`: Twill's own join the configurations, once these are measured."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import triton

import twill
from tests.jit_kernels import World, plain, scale
from tests.runtime.test_free import TURNS, blocks, emitted
from twill.exc import WrongFreeConstant


@pytest.fixture(autouse=True)
def stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyTorch without CUDA has no streams."""
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7, raising=False)


class FreelyTuned:
    """`scale` with configurations of 64 and 128, of which 128 is the faster one as Triton's, and free tiles."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.answer = emitted
        world.triton_cost = 10.0
        configs = [triton.Config({"BLOCK": block}) for block in (64, 128)]
        self.fast = world.jit(
            triton.autotune(configs, key=["M"], do_bench=self.bench)(scale), free=["BLOCK"], policy="solve"
        )
        self.tilings: Any = self.fast.fn.twill_dispatch.tilings
        self.families_while_tuned: list[int] = []

    def bench(self, call: Any, quantiles: object) -> list[float]:
        """As Triton's."""
        call()
        self.families_while_tuned.append(len(self.tilings.families))
        _, _, kwargs = self.world.originals[-1]
        return [128 / kwargs["BLOCK"]] * 3

    def launch(self) -> None:
        """One launch; 1024 rows, in as many programs as the tiles say."""
        args, kwargs = self.world.arguments(M=1024)
        del kwargs["BLOCK"]
        self.fast[lambda meta: (1024 // meta["BLOCK"],)](*args, **kwargs)

    def asked(self) -> set[Any]:
        """Values of BLOCK that kernels are emitted for."""
        return {one.value for request in self.world.requests for one in request.constants if one.name == "BLOCK"}


def test_tiles_of_no_configuration_have_the_launches_where_they_are_the_fastest(world: World) -> None:
    tuned = FreelyTuned(world)
    tuned.launch()
    assert tuned.families_while_tuned == [0, 0]  # what is measured is measured as it is
    assert tuned.fast.best_config.kwargs == {"BLOCK": 128}
    tuned.launch()
    (family,) = tuned.tilings.families.values()  # of the configuration that was chosen alone
    assert family.over.wait(20) and dict(family.variant.constants)["BLOCK"] == 128
    assert tuned.asked() == {64, 128, 256}
    world.cuda.cost = 1.0  # for each program
    before = len(world.cuda.launches)
    for _ in range(TURNS + 6):
        tuned.launch()
    launched = blocks(world)[before:]
    assert {64, 128, 256} == set(launched) and len(set(launched[-4:])) == 1
    assert "tiles at" in twill.explain(tuned.fast)
    originals = len(world.originals)
    tuned.launch()
    assert len(world.originals) == originals and len(world.cuda.launches) == before + TURNS + 7


def test_heuristics_between_an_autotuner_and_the_kernel_leave_nothing_free(world: World) -> None:
    heuristic = triton.heuristics({"BLOCK": lambda args: 64})(plain)
    tuned = triton.autotune([triton.Config({"BLOCK": 64})], key=["n"])(heuristic)
    with pytest.raises(WrongFreeConstant):
        twill.jit(tuned, free=["BLOCK"])
