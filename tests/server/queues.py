"""What tests of job queues submit, and when."""

from __future__ import annotations

from server.queue import JobQueue, QueuedRequest
from twill.store.api import Job, JobBounds, JobProblem

MANY = 1000
LEASE = 10.0
PROBLEM = JobProblem(kind="Infeasible", message="no schedule", exit_code=3)


class Clock:
    """Time that passes when the test says so."""

    def __init__(self) -> None:
        self.now = 1_000_000.0

    def __call__(self, *_: object) -> float:
        return self.now


def request(key: str = "a", client: str = "me", priority: int = 0, share: float = 1.0, quota: int = 0) -> QueuedRequest:
    document = f'{{"asked":"{key}"}}'
    head = (key * 64, document, "kernel", "default", "h100", client, "digest", "the machine")
    return QueuedRequest(*head, priority, share, quota)


def bounds(lower: int) -> JobBounds:
    return JobBounds(phase="ii", lower=lower, upper=None, seconds=0.5)


def submit(queue: JobQueue, key: str = "a", client: str = "me", priority: int = 0, share: float = 1.0) -> Job:
    return queue.submit(request(key, client, priority, share), MANY)[0]


def states(queue: JobQueue, job: Job) -> list[str]:
    return [Job.parse(event.job).state for event in queue.events(job.id)]
