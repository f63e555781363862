"""Promises of the service's processes: none outlives it, whatever it is at."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from multiprocessing.connection import Connection

from server.pool import began
from server.processes import begin, spawn
from tests.conftest import ROOT

LONG = 600  # seconds
SOON = 60  # seconds, on the busiest machine


def sleeper(pipe: Connection, parent: int) -> None:
    """A process that speaks to nobody."""
    begin(parent)
    pipe.send(os.getpid())
    time.sleep(LONG)


def service() -> None:
    """Starts one, says its number, and goes on."""
    _, pipe = spawn(sleeper)
    print(pipe.recv(), flush=True)
    time.sleep(LONG)


def test_a_process_that_says_nothing_ends_when_the_service_is_killed() -> None:
    code = "from tests.server.test_processes import service; service()"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        beginning = began(child)
        assert beginning
        parent.send_signal(signal.SIGKILL)
    waited = time.monotonic() + SOON
    while began(child) == beginning and time.monotonic() < waited:
        time.sleep(0.02)
    assert began(child) != beginning
