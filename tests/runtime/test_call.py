"""Promises of calls: positions, names, constants and defaults as in the Triton kernel; mistakes by name."""

from __future__ import annotations

from typing import Any

import pytest

from tests.manifests import KERNEL
from twill import exc
from twill.manifest.document import CallArgument
from twill.runtime.call import Calls, same

CALLS = Calls("scale", KERNEL.arguments)


class Dtype:
    """As Triton's types name themselves."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


def test_positions_and_names_mix() -> None:
    wanted = ["a", "x", 1, 2, 0.25]
    assert list(CALLS.bind(["a", "x", 1, 2, 0.25, 128, "tl.bfloat16"], {})) == wanted
    assert CALLS.bind(["a", "x"], {"N": 2, "M": 1, "scale": 0.25, "BLOCK": 128, "num_stages": 3}) == wanted
    assert CALLS.bind([], {"x": "x", "a_desc": "a", "N": 2, "M": 1}) == ["a", "x", 1, 2, 0.5]


def test_constants_are_known_by_name_to_a_grid() -> None:
    known = CALLS.named(["a", "x", 1, 2, 0.5])
    assert known == {"a_desc": "a", "x": "x", "M": 1, "N": 2, "scale": 0.5, "BLOCK": 128, "dtype": "tl.bfloat16"}


@pytest.mark.parametrize(
    ("args", "kwargs", "words"),
    [
        (["a", "x", 1], {}, "`N` is missing"),
        (["a", "x", 1, 2], {"x": 3}, "`x` is given twice"),
        (["a", "x", 1, 2], {"bias": 3}, "`bias` is no parameter of scale"),
        (list(range(9)), {}, "9 values"),
    ],
)
def test_a_call_that_does_not_fit_is_refused(args: list[Any], kwargs: dict[str, Any], words: str) -> None:
    with pytest.raises(exc.WrongArgument, match=words):
        CALLS.bind(args, kwargs)


def test_a_constant_is_held_to_the_specialization() -> None:
    with pytest.raises(exc.WrongConstant, match="`BLOCK` is 64, and scale was emitted for BLOCK = 128"):
        CALLS.bind(["a", "x", 1, 2], {"BLOCK": 64})
    left_out = Calls("k", [CallArgument("MODE", "constant", value=1, optional=True, default=0)])
    with pytest.raises(exc.WrongConstant, match="`MODE` is 0"):
        left_out.bind([], {})
    assert left_out.bind([], {"MODE": 1}) == []


def test_types_and_truth_values_are_themselves() -> None:
    assert same(Dtype("bf16"), "tl.bfloat16") and not same(Dtype("fp16"), "tl.bfloat16")
    assert same("tl.bfloat16", "tl.bfloat16") and same(None, None)
    assert not same(1, True) and not same(0, False) and same(True, True)
    assert same(128, 128.0)
