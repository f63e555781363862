"""What Prometheus is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .queue import JobQueue, QueueUnavailable

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """The counters of one service, in a registry of its own. trouble: why it is not ready; "" if it is."""

    def __init__(self, queue: JobQueue, trouble: Callable[[], str]) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(QueueSizes(queue))
        self.registry.register(Readiness(trouble))
        self.requests = Counter(
            "twill_requests", "Answered requests.", ("method", "route", "status"), registry=self.registry
        )
        self.seconds = Histogram(
            "twill_request_seconds", "Time to the last byte.", ("route",), buckets=SECONDS, registry=self.registry
        )
        self.submissions = Counter(
            "twill_submissions", "Submissions: new, joined to one in flight, solved already, or refused as too many.",
            ("outcome",), registry=self.registry,
        )  # fmt: skip
        self.lookups = Counter(
            "twill_lookups", "Schedules asked for by key: found or missing.", ("outcome",), registry=self.registry
        )
        self.streams = Gauge("twill_event_streams", "Event streams that are open.", registry=self.registry)

    def text(self) -> bytes:
        """All of them, in Prometheus's text format."""
        return generate_latest(self.registry)


class QueueSizes(Collector):
    """How many jobs are in each state, counted when somebody asks."""

    def __init__(self, queue: JobQueue) -> None:
        self.queue = queue

    def collect(self) -> Iterator[Metric]:
        """One gauge with a label for the state."""
        family = GaugeMetricFamily("twill_jobs", "Jobs in each state.", labels=("state",))
        try:
            counts = self.queue.counts()
        except QueueUnavailable:
            return  # which readiness tells, and no number would be right
        for state, number in counts.items():
            family.add_metric((state,), number)
        yield family

    def describe(self) -> Iterator[Metric]:
        """Nothing is counted to register."""
        return iter(())


class Readiness(Collector):
    """Whether the service can do its work, found out when somebody asks."""

    def __init__(self, trouble: Callable[[], str]) -> None:
        self.trouble = trouble

    def collect(self) -> Iterator[Metric]:
        """One gauge, 1 or 0."""
        yield GaugeMetricFamily("twill_ready", "1: it can; 0: /readyz says why not.", 0 if self.trouble() else 1)

    def describe(self) -> Iterator[Metric]:
        """Nothing is looked at to register."""
        return iter(())
