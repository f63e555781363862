"""Promises of the function that recognizes calls: alike only if all that a prepared launch relies on is alike."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.jit_kernels import MANIFEST
from twill.manifest.document import CallArgument, MapEntry
from twill.runtime.matcher import changed, facts_of, kinds, matcher
from twill.runtime.plans import Plans, RefusedLaunch

NAMES = [argument.name for argument in MANIFEST.arguments]


def with_arguments(**arguments: CallArgument) -> Any:
    """The manifest with other arguments of these names."""
    return replace(MANIFEST, arguments=tuple(arguments.get(a.name, a) for a in MANIFEST.arguments))


def test_what_a_map_is_made_of_is_fixed_and_the_rest_is_free() -> None:
    assert kinds([MANIFEST], NAMES, frozenset({"BLOCK", "dtype"})) == {
        "a_desc": "descriptor", "x": "open tensor", "M": "free", "N": "fixed", "s": "float",
        "BLOCK": "constant", "dtype": "constant",
    }  # fmt: skip


def test_several_variants_are_looked_at_by_what_any_of_them_needs() -> None:
    bounded = replace(MANIFEST, maps=(*MANIFEST.maps[:1], MapEntry("x", "f32", ("M", "N"), ("N", 1), 0, (64, 32), 128)))
    one = with_arguments(N=CallArgument("N", "constant", value=1), x=CallArgument("x", "constant", value=None))
    constexprs = frozenset({"BLOCK", "dtype"})
    both = kinds([MANIFEST, bounded], NAMES, constexprs)
    assert (both["x"], both["M"], both["N"]) == ("open tensor", "fixed", "fixed")
    assert kinds([MANIFEST, one], NAMES, constexprs)["x"] == "any"
    assert kinds([MANIFEST, one], NAMES, constexprs)["N"] == "fixed"


def kernel(a: Any, n: Any, s: Any = 0.5, B: Any = 64, *, mode: Any = None) -> None:
    """For its signature."""


class Started:
    """A plan that notes its launches."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, ...]] = []

    def start(self, values: tuple[Any, ...], stream: int) -> bool:
        self.seen.append((*values[1:], stream))
        return True


def matched(plans: Plans, values: dict[Any, Any] | None = None, device: int = 0) -> Callable[..., Any]:
    looked_at: Any = {"a": "tensor", "n": "free", "s": "float", "B": "constant", "mode": "any"}
    return matcher(inspect.signature(kernel), looked_at, plans, lambda gpu: 10 + gpu, lambda: device, values or {})


@pytest.fixture
def a(monkeypatch: pytest.MonkeyPatch) -> torch.Tensor:
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 3)
    return torch.zeros(4)


def test_a_call_like_one_before_starts_its_plan_on_the_tensor_s_gpu(a: torch.Tensor) -> None:
    plans = Plans()
    match, plan = matched(plans), Started()
    call = match((4,), a, 32, num_warps=8)
    plans.by_key[call.key] = plan  # type: ignore[assignment]
    assert match((4,), a, 48) is True
    assert match([4], n=64, a=a, s=0.25, maxnreg=32) is True
    assert match(lambda given: (given["n"] // given["B"] + 3,), a, 64, B=64) is True
    assert plan.seen == [(48, 0.5, 64, None, 13), (64, 0.25, 64, None, 13), (64, 0.5, 64, None, 13)]


def test_every_difference_that_matters_is_another_key(a: torch.Tensor) -> None:
    match = matched(Plans())
    usual = match((4,), a, 32)
    others = [
        match((4, 1), a, 32), match((5,), a, 32), match((4,), torch.zeros(5)[1:], 32), match((4,), a.int(), 32),
        match((4,), a, 33), match((4,), a, 1), match((4,), a, True), match((4,), a, 32, 1), match((4,), a, 32, B=128),
        match((4,), a, 32, B=64.0), match((4,), a, 32, B=True), match((4,), a, 32, mode=a), match((4,), a, 32, mode=0),
    ]  # fmt: skip
    assert len({usual, *others}) == len(others) + 1
    assert match((4,), a, 48, 0.75) == usual == match((4,), torch.zeros(4), 32)


def test_what_was_refused_is_refused_and_a_changed_global_is_not_matched(a: torch.Tensor) -> None:
    plans = Plans()
    match = matched(plans)
    refused = RefusedLaunch()
    plans.add(match((4,), a, 32), refused)
    assert match((4,), a, 32) is refused
    place = {"LIMIT": 3}
    values = {("LIMIT", 0): (3, place)}
    assert matched(plans, values)((4,), a, 32) is refused
    place["LIMIT"] = 4
    assert changed(values)
    assert matched(plans, values)((4,), a, 32) is False


def test_a_call_that_python_would_refuse_is_refused(a: torch.Tensor) -> None:
    match = matched(Plans())
    for given, named in (((), {}), ((a,), {}), ((a, 1, 2, 3, 4), {}), ((a, 1), {"a": a}), ((a, 1), {"nonsense": 1})):
        with pytest.raises(TypeError):
            match((1,), *given, **named)


def test_facts_of_what_changes_its_kind(a: torch.Tensor) -> None:
    assert facts_of(None) == (type(None), None)
    assert facts_of(True) != facts_of(1) != facts_of(1.0)
    assert facts_of(a) == facts_of(torch.zeros(4)) != facts_of(torch.zeros(5)[:4])
    assert facts_of(a) != facts_of(torch.zeros(5)[1:])
