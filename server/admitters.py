"""The processes that admit submissions: a few, each with one submission at a time, replaced when one is killed.

What was admitted is remembered by the hash of its body: many ask for the schedule of one kernel, in the same bytes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import signal
import threading
from collections import OrderedDict
from collections.abc import Mapping
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerProcess
from queue import Empty, LifoQueue

from twill.machine.description import Machine

from . import admission_process, processes
from .admission import InputLimits
from .queue import QueuedRequest
from .refusals import RefusedRequest

WAIT = 30.0  # seconds for a process to be free, and for one to begin
SLOWER = 10  # times as long as its processor time may a submission take by the clock, on a busy machine
AGAIN = {"Retry-After": "5"}
REMEMBERED = 32 * 1024 * 1024  # characters of submissions that were admitted; a machine is counted with each


class Admitters:
    """At most `size` processes, each started when it is needed first. Thread-safe.

    limits, budget, seconds: as `admission_process.main` has them.
    """

    def __init__(
        self, size: int, machines: Mapping[str, Machine], limits: InputLimits, budget: float, seconds: float
    ) -> None:
        self.seconds = seconds
        self.given = ({name: one.canonical() for name, one in machines.items()}, limits, budget, seconds)
        self.idle: LifoQueue[Admitter | None] = LifoQueue()
        for _ in range(size):
            self.idle.put(None)
        self.lock = threading.RLock()  # `stop` may come by a signal, while the same thread is in it
        self.running: set[Admitter] = set()
        self.stopped = False
        self.known: OrderedDict[bytes, QueuedRequest] = OrderedDict()  # by the hash of the body
        self.taken = 0  # characters of those

    def admit(self, body: bytes, client: str) -> QueuedRequest:
        """What the queue is told of a submission; raises Refused."""
        name = hashlib.sha256(body).digest()
        with self.lock:
            found = self.known.get(name)
            if found is not None:
                self.known.move_to_end(name)
                return dataclasses.replace(found, client=client)
        found = self.read(body, client)
        self.remember(name, found)
        return found

    def remember(self, name: bytes, admitted: QueuedRequest) -> None:
        """Keep what was admitted, and let go of what nobody sent for longest."""
        with self.lock:
            old = self.known.pop(name, None)
            self.taken += size_of(admitted) - (size_of(old) if old else 0)
            self.known[name] = admitted
            while self.taken > REMEMBERED:
                self.taken -= size_of(self.known.popitem(last=False)[1])

    def read(self, body: bytes, client: str) -> QueuedRequest:
        """The same, found out in a process; raises Refused."""
        try:
            one = self.idle.get(timeout=WAIT)
        except Empty:
            raise RefusedRequest(503, "Busy", "others' submissions are being read", "the same again", AGAIN) from None
        try:
            one = one or self.start()
            try:
                answer = one.ask(client, body, SLOWER * self.seconds)
            except (EOFError, OSError):
                code = self.end(one)
                one = None
                raise self.unanswered(code) from None
            return admission_process.read_answer(answer)
        finally:
            self.idle.put(one)

    def unanswered(self, code: int | None) -> RefusedRequest:
        """Why a process ended without an answer."""
        if self.stopped:
            return RefusedRequest(503, "Stopping", "the service is being stopped", "the same again later", AGAIN)
        if code in (-signal.SIGPROF, -signal.SIGKILL):
            message = f"the key of this graph was not found within {self.seconds:g} s: too much of it is alike"
            return RefusedRequest(413, "TooHard", message, "a graph as `twill extract FILE --json` prints it")
        return RefusedRequest(413, "TooLarge", f"the process that read the submission ended (code {code})")

    def start(self) -> Admitter:
        """Another process; raises Refused if the service is being stopped, or none begins."""
        process, pipe = processes.spawn(admission_process.main, *self.given, duplex=True)
        one = Admitter(process, pipe)
        with self.lock:
            self.running.add(one)
            stopped = self.stopped
        try:
            if not stopped and one.pipe.poll(WAIT) and one.pipe.recv_bytes() == admission_process.READY:
                return one
        except (EOFError, OSError):
            pass
        code = self.end(one)
        if self.stopped:
            raise self.unanswered(code)
        raise RefusedRequest(503, "Busy", "no process begins that could read the submission", "the same again", AGAIN)

    def end(self, one: Admitter) -> int | None:
        """End a process that does not answer; how it ended."""
        with self.lock:
            self.running.discard(one)
        return processes.end(one.process, one.pipe)

    def stop(self) -> None:
        """Kill every process; whoever waits for one is refused."""
        with self.lock:
            self.stopped = True
            for one in self.running:
                one.process.kill()


def size_of(admitted: QueuedRequest) -> int:
    """Characters of its documents."""
    return len(admitted.document) + len(admitted.machine_document)


class Admitter:
    """One process, and our end of its pipe."""

    def __init__(self, process: ForkServerProcess, pipe: Connection) -> None:
        self.process = process
        self.pipe = pipe

    def ask(self, client: str, body: bytes, seconds: float) -> bytes:
        """Its answer; raises EOFError or OSError if there is none in time."""
        self.pipe.send_bytes(client.encode())
        self.pipe.send_bytes(body)
        if not self.pipe.poll(seconds):
            raise EOFError
        return self.pipe.recv_bytes()
