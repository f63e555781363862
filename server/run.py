"""A service from its settings to its end."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn

from twill.exc import OpenToEverybody, StoreUnavailable

from .app import create_app
from .connections import guarded, room
from .logs import log_as_json
from .pool import SolveLimits
from .queue import QueueUnavailable
from .queue_sqlite import SqliteQueue
from .service import Service
from .settings import Settings, is_loopback

FAREWELL = 5  # seconds that open requests get to end
IDLE = 65  # seconds that a connection may be silent


def settings_of(
    *,
    data: Path,
    host: str,
    port: int,
    workers: int,
    tokens: Path | None,
    waiting: int,
    rate: float,
    seconds: float,
    megabytes: int,
    proxies: tuple[str, ...] = (),
    connections: int = 1000,
) -> Settings:
    """Settings as the command line has them; raises OpenToEverybody."""
    if tokens is None and not is_loopback(host):
        raise OpenToEverybody(host)
    return Settings(
        data=data,
        host=host,
        port=port,
        workers=workers,
        tokens=tokens,
        waiting=waiting,
        rate=rate,
        solve=SolveLimits(seconds, megabytes),
        proxies=proxies,
        connections=connections,
    )


def open_service(settings: Settings) -> Service:
    """The service with its store and queue in the data directory."""
    from twill.store.sqlite import SqliteStore

    try:
        settings.data.mkdir(parents=True, exist_ok=True, mode=0o700)
    except OSError as error:
        raise StoreUnavailable(str(settings.data), error.strerror or str(error)) from None
    try:
        queue = SqliteQueue(settings.data / "jobs.sqlite3")
    except QueueUnavailable as error:
        raise StoreUnavailable(str(settings.data), str(error), "another --store") from None
    return Service(settings, SqliteStore(settings.data / "schedules.sqlite3"), queue)


class Server(uvicorn.Server):
    """Ends open event streams when it is asked to end, which else would go on for as long as their jobs."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self.service = service

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """On SIGINT and SIGTERM."""
        self.service.stopping.set()
        self.service.admitters.stop()
        super().handle_exit(sig, frame)


def run(settings: Settings, listening: socket.socket, level: str) -> None:
    """Answer on a socket until SIGINT or SIGTERM."""
    os.umask(0o077)  # whatever is written is the owner's alone
    service = open_service(settings)
    log_as_json(level)
    greet(settings, listening)
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again when it has ended everything
        Server(configuration(service), service).run(sockets=[listening])


def configuration(service: Service) -> uvicorn.Config:
    """How uvicorn serves a service. What a proxy says of a client counts if the proxy is one of the settings'."""
    settings = service.settings
    return uvicorn.Config(
        create_app(service),
        http=guarded(min(settings.connections, room()), settings.head_seconds),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxies),
        forwarded_allow_ips=list(settings.proxies),
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=FAREWELL,
        backlog=1024,
    )


def greet(settings: Settings, listening: socket.socket) -> None:
    """Where the service is, and who may use it."""
    host, port = listening.getsockname()[:2]
    place = f"[{host}]" if ":" in host else host
    who = (
        "no tokens: everybody on this machine may do everything, and nobody else may connect"
        if settings.tokens is None
        else f"tokens of {settings.tokens}"
    )
    print(f"twill serves on http://{place}:{port} ({who}); data in {settings.data}", file=sys.stderr, flush=True)
