"""Promises of the rules for machines from outside: the described ones pass, each contradiction is named."""

from __future__ import annotations

import json
from typing import Any

import pytest

from server.machine_rules import check_machine_document
from tests.kernels import H100
from twill.exc import BadSubmission
from twill.machine.description import Machine
from twill.machine.file import load_machine
from twill.machine.names import list_machines


@pytest.mark.parametrize("name", list_machines())
def test_described_machines_pass(name: str) -> None:
    check_machine_document(load_machine(name))


CONTRADICTIONS: dict[str, tuple[Any, str]] = {
    "unit twice": (lambda m: m["units"].append(m["units"][0]), "twice among its units"),
    "operation twice": (lambda m: m["operations"].append(m["operations"][0]), "twice among its operations"),
    "no unit": (lambda m: m.update(units=[], operations=[], transfers=[], mma=None), "not even one unit"),
    "no context": (lambda m: m.update(contexts=[], transfers=[], mma=None), "not even one context"),
    "unknown unit of an operation": (lambda m: m["operations"][0]["rates"][0].update(unit="u"), "unit 'u'"),
    "unknown unit of a transfer": (lambda m: m["transfers"][0].update(unit="u"), "unit 'u'"),
    "unknown unit of the tensor core": (lambda m: m["mma"].update(unit="u"), "mma is of unit 'u'"),
    "unknown context": (lambda m: m["transfers"][0].update(contexts=["c"]), "context 'c'"),
    "unknown context of the tensor core": (lambda m: m["mma"].update(contexts=["c"]), "context 'c'"),
    "nothing a cycle": (lambda m: m["operations"][0]["rates"][0]["per_cycle"].update(value=0), "positive"),
    "no bandwidth": (lambda m: m["transfers"][0]["bytes_per_cycle"].update(value=0), "positive"),
    "no L2 cache": (lambda m: m["l2"].update(value=0), "l2"),
    "negative latency": (lambda m: m["operations"][0]["latency"].update(value=-1), ">= 0"),
    "huge latency": (lambda m: m["mma"]["latency"].update(value=1e300), "mma.latency"),
    "negative crossing": (lambda m: m["crossing"]["barrier"].update(value=-1), "crossing.barrier"),
    "no granule": (lambda m: m["register_file"].update(granule=0), "granule"),
    "no threads": (lambda m: m["contexts"][0].update(threads=0), "threads"),
    "no row block": (lambda m: m["mma"].update(row_block=0), "row_block"),
    "no place for operand A": (lambda m: m["mma"].update(a_spaces=[]), "a_spaces"),
}


@pytest.mark.parametrize("name", CONTRADICTIONS)
def test_a_contradiction_is_named(name: str) -> None:
    change, words = CONTRADICTIONS[name]
    value = json.loads(H100.canonical())
    change(value)
    with pytest.raises(BadSubmission) as found:
        check_machine_document(Machine.parse(json.dumps(value)))
    assert words in found.value.message


def test_infinity_is_no_figure() -> None:
    latency = H100.operations[0].latency.model_copy(update={"value": float("inf")})
    operation = H100.operations[0].model_copy(update={"latency": latency})
    with pytest.raises(BadSubmission, match="is inf"):
        check_machine_document(H100.model_copy(update={"operations": (operation, *H100.operations[1:])}))
