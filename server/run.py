"""A service from its settings to its end."""

from __future__ import annotations

import os
import socket
import sys
from contextlib import suppress
from pathlib import Path
from types import FrameType

import uvicorn

from twill.exc import IncompleteTls, OpenToEverybody

from . import traces
from .app import create_app
from .connections import guarded, room
from .logs import log_as_json
from .places import is_url, open_places
from .pool import SolveLimits
from .proxies import Proxies
from .service import Service
from .settings import Settings, is_loopback
from .tokens import scopes_of

FAREWELL = 5  # seconds that open requests get to end
IDLE = 65  # seconds that a connection may be silent


def settings_of(
    *,
    store: str,
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
    user_header: str = "",
    user_scopes: str = "solve",
    certificate: Path | None = None,
    private_key: Path | None = None,
) -> Settings:
    """Settings as the command line has them; raises OpenToEverybody, IncompleteTls, MalformedTokenFile."""
    if tokens is None and not is_loopback(host):
        raise OpenToEverybody(host)
    if (certificate is None) != (private_key is None):
        raise IncompleteTls()
    return Settings(
        data=None if is_url(store) else Path(store),
        host=host,
        port=port,
        workers=workers,
        tokens=tokens,
        waiting=waiting,
        rate=rate,
        solve=SolveLimits(seconds, megabytes),
        proxies=proxies,
        connections=connections,
        user_header=user_header,
        user_scopes=scopes_of(user_scopes.split(",")),
        certificate=certificate,
        private_key=private_key,
    )


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


def run(
    settings: Settings, listening: socket.socket, level: str, store: str, queue: str = "", objects: str = ""
) -> None:
    """Answer on a socket until SIGINT or SIGTERM. store, queue, objects: see `open_places`."""
    os.umask(0o077)  # whatever is written is the owner's alone
    service = Service(settings, *open_places(store, queue, objects))
    log_as_json(level)
    traces.begin("twill serve")
    greet(settings, listening, getattr(service.store, "place", store) if settings.data is None else store)
    with suppress(KeyboardInterrupt):  # uvicorn raises the signal again when it has ended everything
        Server(configuration(service), service).run(sockets=[listening])


def configuration(service: Service) -> uvicorn.Config:
    """How uvicorn serves a service. What a proxy says of a client counts if the proxy is one of the settings'."""
    settings = service.settings
    return uvicorn.Config(
        Proxies(create_app(service), settings.proxies),
        http=guarded(min(settings.connections, room()), settings.head_seconds),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,  # `Proxies` reads them
        ssl_certfile=settings.certificate,
        ssl_keyfile=settings.private_key,
        timeout_keep_alive=IDLE,
        timeout_graceful_shutdown=FAREWELL,
        backlog=1024,
    )


def greet(settings: Settings, listening: socket.socket, store: str) -> None:
    """Where the service is, who may use it, and where its data are."""
    host, port = listening.getsockname()[:2]
    place = f"[{host}]" if ":" in host else host
    scheme = "http" if settings.certificate is None else "https"
    who = (
        "no tokens: everybody on this machine may do everything, and nobody else may connect"
        if settings.tokens is None
        else f"tokens of {settings.tokens}"
    )
    print(f"twill serves on {scheme}://{place}:{port} ({who}); data in {store}", file=sys.stderr, flush=True)
