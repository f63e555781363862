"""Promises of records: what was written is read back equal; anything else is refused with the field's path."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Literal

import pytest

from twill.manifest.record import Misfit, from_json, to_json


@dataclass(frozen=True)
class Inner:
    name: str
    sizes: tuple[int, ...]


@dataclass(frozen=True)
class Outer:
    kind: Literal["a", "b"]
    scale: float
    inner: tuple[Inner | int | None, ...]
    pairs: tuple[tuple[str, int | float | str], ...]
    flag: bool = False


GOOD = Outer("a", 0.5, (Inner("x", (1, 2)), 7, None), (("signed", 1), ("to", "f32"), ("by", 0.5)), True)


def test_what_is_written_is_read() -> None:
    assert from_json(Outer, json.loads(json.dumps(to_json(GOOD)))) == GOOD


def test_an_integer_is_read_as_a_float_and_nothing_else_is_converted() -> None:
    assert from_json(Outer, {**to_json(GOOD), "scale": 2}).scale == 2.0
    with pytest.raises(Misfit, match="flag: 1 where it is a bool"):
        from_json(Outer, {**to_json(GOOD), "flag": 1})


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"kind": "c"}, "kind: 'c' is none of 'a', 'b'"),
        ({"more": 1}, "more: there is no such field"),
        ({"scale": "x"}, "scale: 'x' where it is a float"),
        ({"inner": [{"name": "x", "sizes": [1, "2"]}]}, r"inner\[0\].sizes\[1\]: '2' where it is a int"),
        ({"inner": [{"name": "x"}]}, r"inner\[0\].sizes: is missing"),
        ({"inner": 3}, "inner: 3 where it is a list"),
        ({"pairs": [["a"]]}, r"pairs\[0\]: 1 entries where it has 2"),
    ],
)
def test_a_misfit_is_named_with_its_path(change: dict[str, Any], words: str) -> None:
    with pytest.raises(Misfit, match=words):
        from_json(Outer, {**to_json(GOOD), **change})


def test_a_missing_field_and_no_object_at_all() -> None:
    with pytest.raises(Misfit, match="scale: is missing"):
        from_json(Outer, {name: value for name, value in to_json(GOOD).items() if name != "scale"})
    with pytest.raises(Misfit, match="Outer is an object"):
        from_json(Outer, [])
