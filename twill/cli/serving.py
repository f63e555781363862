"""`twill serve`: the schedule service on this machine."""

from __future__ import annotations

import importlib
import os
import socket
from argparse import Namespace
from pathlib import Path
from types import ModuleType

from twill.cli import codes
from twill.exc import CannotListen, MalformedTokenFile, ServerNotInstalled

PLACES = ("twill.server", "server")  # installed, or beside `twill` in a checkout
LIBRARIES = frozenset({"fastapi", "h11", "multipart", "prometheus_client", "python_multipart", "starlette", "uvicorn"})


def serve(arguments: Namespace) -> int:
    """Answer until SIGINT or SIGTERM; or add a token and leave."""
    if arguments.add_token is not None:
        return add_token(arguments)
    run = part("run")
    settings = run.settings_of(
        data=directory(arguments.store),
        host=arguments.host,
        port=arguments.port,
        workers=arguments.workers,
        tokens=None if arguments.token_file is None else Path(arguments.token_file),
        waiting=arguments.queue,
        rate=arguments.rate,
        seconds=arguments.time_limit,
        megabytes=arguments.memory_limit,
        proxies=tuple(arguments.proxy),
        connections=arguments.connections,
    )
    with listen(arguments.host, arguments.port) as listening:
        run.run(settings, listening, arguments.log_level)
    return codes.SOLVED


def add_token(arguments: Namespace) -> int:
    """Append a token to the token file and print it: nobody can print it again."""
    name, _, scopes = arguments.add_token.partition(":")
    if arguments.token_file is None or not scopes:
        hint = "--token-file FILE --add-token NAME:SCOPES, as in --add-token ci:read,solve"
        raise MalformedTokenFile("a token needs a file, a name and scopes", hint=hint)
    tokens = part("tokens")
    given = tokens.scopes_of(scopes.split(","))
    print(tokens.add_token(Path(arguments.token_file), name, given, arguments.days))
    return codes.SOLVED


def part(name: str) -> ModuleType:
    """A module of the service; raises ServerNotInstalled if a library of the `server` extra is not there."""
    for place in PLACES:
        try:
            return importlib.import_module(f"{place}.{name}")
        except ModuleNotFoundError as missing:
            found = (missing.name or "").partition(".")[0]
            if found in LIBRARIES:
                raise ServerNotInstalled(found) from None
            if missing.name not in (place, f"{place}.{name}"):
                raise
    raise ServerNotInstalled("the package twill.server")


def directory(named: str | None) -> Path:
    """Where schedules and jobs are kept."""
    if named is not None:
        return Path(named)
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return Path(home) / "twill" / "service"


def listen(host: str, port: int) -> socket.socket:
    """The socket that the service answers on; raises CannotListen."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # Without the protocol by its name, asyncio leaves Nagle's algorithm on, which costs 40 ms an answer.
    found = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        found.bind((host.strip("[]"), port))
        found.listen(1024)
    except OSError as error:
        found.close()
        reason = error.strerror or str(error)
        hint = "another --port, or --port 0 for any that is free"
        raise CannotListen(f"cannot listen on {host} port {port}: {reason}", hint=hint) from None
    return found
