"""Promises of the options of a solve as documents: those of earlier versions are read."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from twill.schedule.key import KeyOptions
from twill.store.api import SolveRequest, Submission


@pytest.mark.parametrize("columns", ["true", "false"])
def test_documents_with_the_option_that_left_are_read_without_it(columns: str) -> None:
    """Stores have it in every entry, clients of earlier versions send it."""
    kept = KeyOptions.parse(f'{{"strategy":"joint","pins":["qk.0=g1"],"blocks":2,"columns":{columns},"units":300}}')
    assert kept == KeyOptions(pins=("qk.0=g1",), blocks=2, units=300) and "columns" not in kept.canonical()
    sent = SolveRequest.parse(f'{{"pins":["qk.0=g1"],"columns":{columns},"budget":3.0}}')
    assert sent == SolveRequest(pins=("qk.0=g1",), budget=3.0)


@pytest.mark.parametrize("wrong", ['{"rows":1}', '{"blocks":"2"}', '{"pins":"qk.0=g1"}', '{"seed":-1}', "[]"])
def test_other_options_are_as_strict_as_before(wrong: str) -> None:
    with pytest.raises(ValidationError):
        SolveRequest.parse(wrong)


def test_so_are_those_of_a_submission() -> None:
    read = Submission.model_json_schema()["$defs"]["SolveRequest"]
    assert "columns" not in read["properties"] and read["additionalProperties"] is False
