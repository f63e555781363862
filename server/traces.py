"""OpenTelemetry traces, where its SDK is installed and the environment says where they go.

A request is a span, and so is a solve; the job's row carries the request's trace to whichever worker solves it.
Without the SDK, or without OTEL_EXPORTER_OTLP_ENDPOINT, nothing of this costs anything.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Protocol

PLACES = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
PARENT = "traceparent"  # the header of W3C Trace Context, and what a job's row has of it

log = logging.getLogger("twill.server.traces")
_tracer: Any = None


class TraceSpan(Protocol):
    """What is told of a step."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Add a fact."""

    def update_name(self, name: str) -> None:
        """Call it otherwise."""


class NoTrace:
    """A span that nobody reads."""

    def set_attribute(self, key: str, value: Any) -> None:
        """Nothing."""

    def update_name(self, name: str) -> None:
        """Nothing."""


def begin(service: str) -> None:
    """Send traces from now on, if the environment says where to. service: the name that they are under there."""
    if not any(os.environ.get(place) for place in PLACES):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ModuleNotFoundError as missing:
        log.warning('no traces are sent: %s is not installed (pip install "twill-gpu[traces]")', missing.name)
        return
    provider = TracerProvider(resource=Resource.create({"service.name": service}))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use(provider)


def use(provider: Any) -> None:
    """Trace with a provider of OpenTelemetry's; None: not at all."""
    global _tracer
    _tracer = None if provider is None else provider.get_tracer("twill")


@contextmanager
def span(name: str, parent: str = "", **facts: Any) -> Iterator[TraceSpan]:
    """A step, in the trace of `parent` (as `current` has it), else in that of the step around it."""
    if _tracer is None:
        yield NoTrace()
        return
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({PARENT: parent}) if parent else None
    with _tracer.start_as_current_span(name, context=context, attributes=facts) as found:
        yield found


def current() -> str:
    """The step that is at work, as one line for whoever goes on with it elsewhere; "" if nothing is traced."""
    if _tracer is None:
        return ""
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get(PARENT, "")


def parent_of(headers: Mapping[str, str]) -> str:
    """The trace that a request says it belongs to."""
    return headers.get(PARENT, "")[:100]
