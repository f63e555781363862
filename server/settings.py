"""Everything about a service that can be chosen, with what is right for one on a person's own machine."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass, field
from pathlib import Path

from .admission import InputLimits
from .pool import SolveLimits
from .tokens import Scope

LOOPBACK_NAMES = frozenset({"localhost"})


@dataclass(frozen=True)
class Settings:
    """data: the directory of schedules and jobs (None: they are in a database).
    tokens: a token file (None: loopback only, everybody may do all).

    waiting: jobs that may be queued. rate: requests a second of one client, with bursts of twice as many (0: no
    limit). streams: event streams open at a time. remembered: bytes of answers kept in memory. keep_jobs: seconds
    after which an ended job is forgotten (its schedule is not). free: bytes of the disk below which the service is not
    ready. proxies: addresses whose X-Forwarded-For is believed. connections: that are open at once. head_seconds: for
    the head of a request to come. admitters: processes that read submissions, each for at most `admission_seconds` of
    the processor. user_header: in which a proxy of `proxies` says who looks at a page, who then has `user_scopes`.
    certificate, private_key: files of this service's TLS (None: it speaks HTTP).
    """

    data: Path | None
    host: str = "127.0.0.1"
    port: int = 8377
    workers: int = 1
    tokens: Path | None = None
    waiting: int = 1000
    rate: float = 200.0
    streams: int = 200
    remembered: int = 64 * 1024 * 1024
    keep_jobs: float = 30 * 24 * 3600.0
    free: int = 64 * 1024 * 1024
    proxies: tuple[str, ...] = ()
    connections: int = 1000
    head_seconds: float = 10.0
    admitters: int = 2
    admission_seconds: float = 5.0
    user_header: str = ""
    user_scopes: frozenset[Scope] = frozenset({"solve"})
    certificate: Path | None = None
    private_key: Path | None = None
    input: InputLimits = field(default_factory=InputLimits)
    solve: SolveLimits = field(default_factory=SolveLimits)


def is_loopback(host: str) -> bool:
    """Whether only this machine can reach a service at that host."""
    if host.lower() in LOOPBACK_NAMES:
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False
