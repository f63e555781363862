"""A row of the table of schedules: from an entry, and back without belief in what it says."""

from __future__ import annotations

import hashlib
import time
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from twill.graph.dependence import DependenceGraph
from twill.schedule.document import Schedule
from twill.schedule.key import KeyOptions
from twill.store.examine import mark
from twill.store.interface import Entry, summary_of

HEAD = "number, key, machine_digest, created, schedule_digest, graph_digest, head_digest, checked, asked, schedule"
HASH = "its bytes do not have the hash they were stored with"


@dataclass(frozen=True)
class StoredRow:
    """What was read. graph: None if it was not asked for; empty, as asked, if the entry has none."""

    number: int
    key: str
    machine_digest: str
    created: str
    schedule_digest: str
    graph_digest: str
    head_digest: str
    checked: str
    asked: bytes
    schedule: bytes
    graph: bytes | None = None

    def fault(self) -> str:
        """What is wrong with the bytes; "" if they are what was stored."""
        texts = (self.asked, self.schedule, b"" if self.graph is None else self.graph)
        if not all(isinstance(text, bytes) for text in texts):
            return "it is not of the kind that Twill writes"
        head = (self.key, self.machine_digest, self.created, self.schedule_digest, self.graph_digest)
        if head_of(self.asked, head) != self.head_digest:
            return HASH
        if sha256(self.schedule) != self.schedule_digest:
            return HASH
        return HASH if self.graph is not None and sha256(self.graph) != self.graph_digest else ""

    def mark(self) -> str:
        """The mark that this content has once it passed."""
        return mark(self.key, self.machine_digest, self.schedule_digest, self.graph_digest, sha256(self.asked))

    def entry(self) -> Entry:
        """The entry as its documents have it; raises MalformedRow."""
        try:
            schedule = Schedule.parse(self.schedule)
            return Entry(
                key=self.key,
                kernel=schedule.kernel,
                spec=schedule.spec,
                machine=schedule.machine,
                machine_digest=self.machine_digest,
                created=self.created,
                schedule_digest=self.schedule_digest,
                schedule=schedule,
                graph=DependenceGraph.parse(self.graph) if self.graph else None,
                asked=KeyOptions.parse(self.asked) if self.asked else None,
            )
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            where = ".".join(str(part) for part in first["loc"]) or "document"
            raise MalformedRow(f"it is no schedule document of this version: {where}: {first['msg']}") from None


class MalformedRow(Exception):
    """The documents of a row do not parse; the message is the reason."""


def row_of(entry: Entry) -> dict[str, Any]:
    """The columns of an examined entry."""
    schedule, graph, asked = (
        b"" if document is None else document.canonical().encode()
        for document in (entry.schedule, entry.graph, entry.asked)
    )
    graph_digest = sha256(graph)
    summary = summary_of(entry, 0, len(schedule) + len(graph) + len(asked))
    columns = summary.model_dump(exclude={"number"})
    head = (entry.key, entry.machine_digest, entry.created, entry.schedule_digest, graph_digest)
    checked = mark(entry.key, entry.machine_digest, entry.schedule_digest, graph_digest, sha256(asked))
    return columns | {
        "graph_digest": graph_digest,
        "head_digest": head_of(asked, head),
        "used": time.time(),
        "checked": checked,
        "asked": asked,
        "schedule": schedule,
        "graph": graph,
    }


def head_of(asked: bytes, head: tuple[str, str, str, str, str]) -> str:
    """The hash of what is short (key, machine's digest, created) and of the hashes of what is long."""
    return sha256("\n".join(str(part) for part in head).encode() + b"\n" + asked)


def sha256(data: bytes) -> str:
    """As hexadecimal text."""
    return hashlib.sha256(data).hexdigest()
