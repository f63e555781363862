"""What Prometheus is told."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from .queue import JobQueue

SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)


class Metrics:
    """The counters of one service, in a registry of its own."""

    def __init__(self, queue: JobQueue) -> None:
        self.registry = CollectorRegistry()
        self.registry.register(QueueSizes(queue))
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
        for state, number in self.queue.counts().items():
            family.add_metric((state,), number)
        yield family

    def describe(self) -> Iterator[Metric]:
        """Nothing is counted to register."""
        return iter(())
