"""What runs in a process that admits submissions: parse, hold to the rules, find the key.

The canonical form of a graph can take long to find, and whoever sends a graph chooses which one. In a process of its
own that costs no other request anything, and it is killed when its time is over: each submission has `seconds` of the
processor.
"""

from __future__ import annotations

import json
import resource
import signal
from dataclasses import asdict
from multiprocessing.connection import Connection

from twill.machine.description import Machine

from .admission import InputLimits, admit, read_submission
from .processes import begin
from .queue import QueuedRequest
from .refusals import RefusedRequest

MEGABYTES = 4096  # of address space
READY = b"ready"


def main(
    pipe: Connection, parent: int, machines: dict[str, str], limits: InputLimits, budget: float, seconds: float
) -> None:
    """The whole life of the process: a client's name and a body in, an answer out, until the pipe ends.

    machines: described ones as canonical JSON, by name. budget: the longest that a solve is granted.
    """
    begin(parent)
    size = MEGABYTES * 1024 * 1024
    resource.setrlimit(resource.RLIMIT_AS, (size, size))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    known = {name: Machine.parse(text) for name, text in machines.items()}
    pipe.send_bytes(READY)
    while True:
        try:
            client, body = pipe.recv_bytes().decode(), pipe.recv_bytes()
        except (EOFError, OSError):
            return
        signal.setitimer(signal.ITIMER_PROF, seconds)
        answer = answered(body, client, known, limits, budget)
        signal.setitimer(signal.ITIMER_PROF, 0)
        pipe.send_bytes(answer)


def answered(body: bytes, client: str, machines: dict[str, Machine], limits: InputLimits, budget: float) -> bytes:
    """A `Request` or a `Refused` as JSON."""
    try:
        request = admit(read_submission(body, limits), machines, client, budget)
        return json.dumps({"request": asdict(request)}).encode()
    except RefusedRequest as refused:
        said = {"status": refused.status, "kind": refused.kind, "message": refused.message, "hint": refused.hint}
        return json.dumps({"refused": said}).encode()


def read_answer(data: bytes) -> QueuedRequest:
    """What `answered` said; raises Refused if it was that."""
    said = json.loads(data)
    if "refused" in said:
        raise RefusedRequest(**said["refused"])
    return QueuedRequest(**said["request"])
