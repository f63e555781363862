"""`twill serve`: the schedule service; `twill work`: its workers, anywhere that reaches its database."""

from __future__ import annotations

import importlib
import os
import socket
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from twill.cli import codes
from twill.exc import CannotListen, MalformedTokenFile, ServerNotInstalled

PLACES = ("twill.server", "server")  # installed, or beside `twill` in a checkout
LIBRARIES = frozenset(
    {"fastapi", "h11", "multipart", "prometheus_client", "python_multipart", "starlette", "uvicorn"}
    | {"obstore", "psycopg", "psycopg_pool"}
)


def serve(arguments: Namespace) -> int:
    """Answer until SIGINT or SIGTERM; or add a token and leave."""
    if arguments.add_token is not None:
        return add_token(arguments)
    run = part("run")
    store = place(arguments.store)
    settings = run.settings_of(
        store=store,
        host=arguments.host,
        port=arguments.port,
        workers=workers_of(arguments.workers, store),
        tokens=None if arguments.token_file is None else Path(arguments.token_file),
        waiting=arguments.waiting,
        rate=arguments.rate,
        seconds=arguments.time_limit,
        megabytes=arguments.memory_limit,
        proxies=tuple(arguments.proxy),
        connections=arguments.connections,
        user_header=arguments.user_header,
        user_scopes=arguments.user_scopes,
        certificate=None if arguments.tls_certificate is None else Path(arguments.tls_certificate),
        private_key=None if arguments.tls_key is None else Path(arguments.tls_key),
    )
    with listen(arguments.host, arguments.port) as listening, libraries():
        run.run(settings, listening, arguments.log_level, store, arguments.queue, arguments.objects)
    return codes.SOLVED


def work(arguments: Namespace) -> int:
    """Solve what is queued in a database, until SIGINT or SIGTERM."""
    work = part("work")
    with libraries():
        work.run(
            store=arguments.store,
            queue=arguments.queue,
            objects=arguments.objects,
            workers=arguments.workers,
            seconds=arguments.time_limit,
            megabytes=arguments.memory_limit,
            level=arguments.log_level,
        )
    return codes.SOLVED


def add_token(arguments: Namespace) -> int:
    """Append a token to the token file and print it: nobody can print it again."""
    name, _, scopes = arguments.add_token.partition(":")
    if arguments.token_file is None or not scopes:
        hint = "--token-file FILE --add-token NAME:SCOPES, as in --add-token ci:read,solve"
        raise MalformedTokenFile("a token needs a file, a name and scopes", hint=hint)
    tokens = part("tokens")
    given = tokens.scopes_of(scopes.split(","))
    said = [word for option in arguments.grant for word in option.split()]
    print(tokens.add_token(Path(arguments.token_file), name, given, arguments.days, said))
    return codes.SOLVED


def part(name: str) -> ModuleType:
    """A module of the service; raises ServerNotInstalled if a library of the `server` extra is not there."""
    for place in PLACES:
        try:
            return importlib.import_module(f"{place}.{name}")
        except ModuleNotFoundError as missing:
            refuse_missing(missing)
            if missing.name not in (place, f"{place}.{name}"):
                raise
    raise ServerNotInstalled("the package twill.server")


@contextmanager
def libraries() -> Iterator[None]:
    """Those of a database are loaded when its URL is read; raises ServerNotInstalled if one is not there."""
    try:
        yield
    except ModuleNotFoundError as missing:
        refuse_missing(missing)
        raise


def refuse_missing(missing: ModuleNotFoundError) -> None:
    """Raise ServerNotInstalled if what is missing is a library of the service's extras."""
    found = (missing.name or "").partition(".")[0]
    if found in LIBRARIES:
        raise ServerNotInstalled(found) from None


def workers_of(asked: int | None, store: str) -> int:
    """Solves at a time: one where nobody else could solve; none beside a database, which has workers of its own."""
    if asked is not None:
        return asked
    return 0 if "://" in store else 1


def place(named: str | None) -> str:
    """Where schedules and jobs are kept: a directory or a database's URL."""
    if named is not None:
        return named
    home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share"
    return str(Path(home) / "twill" / "service")


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
