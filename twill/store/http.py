"""The third level: the schedules of a service. It is read; what is solved there comes of jobs (`twill.store.client`).

A service is not believed: an entry counts only if its graph and options give the key that was asked for, its
loops are those of that graph, and the checker finds nothing (`examine` with proof). So whoever runs the
service can withhold a schedule, or serve a slower one, and can do no more.
"""

from __future__ import annotations

import threading
from collections import OrderedDict

from twill.exc import ServiceRefused, ServiceUnavailable
from twill.machine.description import Machine
from twill.store.client import REMEMBERED, Client
from twill.store.examine import examine
from twill.store.interface import Entry
from twill.store.validation import OnceLogger, described

REFUSALS = 10_000  # reasons that are remembered


class HttpStore:
    """Checked look-ups through a client."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.warnings = OnceLogger()
        self.machines: dict[str, Machine] = {}
        self.refused: dict[str, str] = {}  # digest of an entry that is not believed -> why
        self.passed: OrderedDict[str, Entry] = OrderedDict()  # by key, as the client remembers them
        self.lock = threading.Lock()

    def get(self, key: str, *, seconds: float | None = None) -> tuple[Entry, Machine] | None:
        """The entry of a key with its machine, or None; why there is none is logged once.

        seconds: for everything that is asked of the service (None: the client's).
        """
        try:
            entry = self.client.schedule(key, seconds=seconds)
            if entry is None:
                return None
            machine = self.machine(entry, seconds)
            reason = self.reason(key, entry, machine)
        except (ServiceUnavailable, ServiceRefused) as error:
            self.warnings.warn(error.message)
            return None
        if reason or machine is None:
            self.warnings.warn(
                f"the service {self.client.address}: its schedule of key {key[:12]} is not used: {reason}"
            )
            return None
        return entry, machine

    def reason(self, key: str, entry: Entry, machine: Machine | None) -> str:
        """Why an entry is not believed; "" if it is."""
        if entry.key != key:
            return f"it has the key {entry.key[:12]}"
        if machine is None:
            return f"its machine {entry.machine} is not known"
        with self.lock:
            if self.passed.get(key) is entry:  # the service said "not modified", so the client gave the same again
                return ""
        seen = entry.digest()
        with self.lock:
            if seen in self.refused:
                return self.refused[seen]
        reason = examine(entry, machine, proof=True)
        with self.lock:
            if reason and len(self.refused) < REFUSALS:
                self.refused[seen] = reason
            elif reason:
                self.refused = {seen: reason}
            else:
                self.passed[key] = entry
                while len(self.passed) > REMEMBERED:
                    self.passed.popitem(last=False)
        return reason

    def know(self, machine: Machine) -> None:
        """Entries for this machine need not ask the service for it."""
        self.machines[machine.digest()] = machine

    def machine(self, entry: Entry, seconds: float | None) -> Machine | None:
        """The machine that an entry names: a known one, the service's document of that digest, or the described one.

        A digest is as good from the service as from a file, and a document is read much faster than a machine file.
        """
        digest = entry.machine_digest
        if digest not in self.machines:
            try:
                sent = self.client.machine(digest, seconds=seconds)
            except (ServiceUnavailable, ServiceRefused):
                sent = None
            found = sent if sent is not None and sent.digest() == digest else described(entry.machine, digest)
            if found is None:
                return None
            self.machines[digest] = found
        return self.machines[digest]

    def close(self) -> None:
        """Close the connections."""
        self.client.close()
