"""Promises of the API's description: complete, true to what is answered, and a client can be made of it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from server.tokens import add_token, scopes_of
from tests.service import Client, running
from twill.store.api import Submission

REFUSALS = {"401", "403", "429"}


@pytest.fixture(scope="module")
def client(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    with running(tmp_path_factory.mktemp("service"), workers=0) as found:
        yield found


@pytest.fixture(scope="module")
def description(client: Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def operations(description: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            yield path, method, operation


def references(value: Any) -> Iterator[str]:
    """Every `$ref` in a document."""
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for part in value.values():
            yield from references(part)
    if isinstance(value, list):
        for part in value:
            yield from references(part)


def test_every_reference_leads_somewhere_and_nothing_is_of_the_framework(description: dict[str, Any]) -> None:
    schemas = description["components"]["schemas"]
    names = {reference.rpartition("/")[2] for reference in references(description)}
    assert names <= set(schemas)
    assert not {"HTTPValidationError", "ValidationError"} & set(schemas)
    assert set(schemas["Submission-Input"]["required"]) == {"graph", "machine"}
    assert set(Submission.model_fields) == set(schemas["Submission-Input"]["properties"])


def test_every_error_has_the_one_document_and_the_expected_ones_are_there(description: dict[str, Any]) -> None:
    for path, method, operation in operations(description):
        for status, response in operation["responses"].items():
            if int(status) >= 400:
                schema = response["content"]["application/json"]["schema"]
                assert schema == {"$ref": "#/components/schemas/Refusal"}, (path, method, status)
        if path.startswith("/v1"):
            assert set(operation["responses"]) >= REFUSALS, (path, method)
        if "{" in path:
            assert {"404", "422"} <= set(operation["responses"]), (path, method)


def test_only_the_api_and_what_operators_ask_is_described(description: dict[str, Any]) -> None:
    paths = {path for path, _, _ in operations(description)}
    assert {path for path in paths if not path.startswith("/v1/")} == {"/healthz", "/readyz", "/metrics"}
    assert {method for path, method, _ in operations(description) if path == "/v1/jobs/{job}"} == {"get", "delete"}


def test_tokens_are_described_where_they_are_asked_for(
    description: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert not any("security" in operation for _, _, operation in operations(description))
    directory = tmp_path_factory.mktemp("guarded")
    add_token(directory / "tokens", "me", scopes_of(["read"]))
    with running(directory, workers=0, tokens=directory / "tokens") as client:
        guarded = client.get("/openapi.json").json()
    assert guarded["components"]["securitySchemes"]["HTTPBearer"]["scheme"] == "bearer"
    open_to_all = {path for path, _, operation in operations(guarded) if "security" not in operation}
    assert open_to_all == {"/healthz", "/readyz"}


def test_a_method_that_is_not_there_names_all_that_are(client: Client) -> None:
    answer = client.put(f"/v1/jobs/{'0' * 32}")
    assert answer.status_code == 405 and answer.headers["allow"] == "DELETE, GET"
