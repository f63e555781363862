"""Promises of traces: a request and the solve that it caused are one trace; without a place for it, nothing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from server import traces
from tests.service import body, ended, running

CALLER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture
def spans() -> Iterator[InMemorySpanExporter]:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    traces.use(provider)
    yield exporter
    traces.use(None)
    provider.shutdown()


def test_a_callers_trace_goes_on_through_the_request_to_the_solve(tmp_path: Path, spans: InMemorySpanExporter) -> None:
    with running(tmp_path) as client:
        job = client.post("/v1/jobs", json=body(), headers={"traceparent": CALLER}).json()
        assert ended(client, job["id"])["state"] == "done"
    found = {span.name: span for span in spans.get_finished_spans()}
    asked, solved = found["POST /v1/jobs"], found["solve"]
    assert asked.context is not None and asked.parent is not None and solved.parent is not None
    assert solved.context is not None
    assert f"{asked.context.trace_id:032x}" == f"{solved.context.trace_id:032x}" == CALLER.split("-")[1]
    assert f"{asked.parent.span_id:016x}" == CALLER.split("-")[2] and solved.parent.span_id == asked.context.span_id
    assert solved.attributes is not None and solved.attributes["twill.job"] == job["id"]


def test_a_place_without_the_exporter_is_said_and_nothing_else_changes(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    traces.begin("twill serve")
    assert "no traces are sent" in caplog.text
    assert traces.current() == ""
