"""Services that are broken in one way each, for the checks of `twill.jit`."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from tests.services import Request, answer, dead_address, entry_answer, playing, raw, silence
from twill.store.interface import Entry
from twill.store.sqlite import SqliteStore

SERVICES = ("down", "slow", "garbage", "truncated", "of another schema", "another kernel's", "poisoned")


@contextmanager
def played(kind: str, store: str) -> Iterator[str]:
    """The address of a service of that kind. store: a file with the good schedules of the kernels."""
    if kind == "down":
        yield dead_address()
        return
    with playing(reply(kind, store)) as service:
        yield service.address


def reply(kind: str, store: str) -> Any:
    """How that service answers."""
    if kind == "slow":
        return silence
    if kind == "garbage":
        return answer(b"\x00\xff<html>")
    if kind == "of another schema":
        return answer('{"schema": "twill.entry/99", "key": "", "schedule": {}}')
    gemm, other = entry(store, lambda name: name == "gemm"), entry(store, lambda name: "gemm" not in name)
    if kind == "truncated":
        body = gemm.canonical().encode()
        return raw(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body[: len(body) // 2])
    if kind == "another kernel's":
        return under_any_key(other)
    return under_any_key(poisoned(gemm))


def entry(store: str, wanted: Callable[[str], bool]) -> Entry:
    """The good entry of a kernel of such a name: of the first variant that was stored."""
    opened = SqliteStore(store)
    found = opened.get([one for one in opened.find() if wanted(one.kernel)][-1].key)
    opened.close()
    assert found is not None
    return found


def under_any_key(one: Entry) -> Any:
    """The entry as an answer to every question for a schedule, with that key written on it."""

    def reply(connection: Any, request: Request) -> None:
        if "/schedules/" not in request.path:
            answer("{}", 404)(connection, request)
            return
        key = request.path.rsplit("/", 1)[-1]
        schedule = one.schedule.model_copy(update={"key": key})
        update = {"key": key, "schedule": schedule, "schedule_digest": schedule.digest()}
        entry_answer(one.model_copy(update=update))(connection, request)

    return reply


def poisoned(one: Entry) -> Entry:
    """Valid JSON, good hashes, an illegal schedule: every op is issued before what it needs is there."""
    ops = tuple(op.model_copy(update={"start": 0, "row": 0, "stage": 0}) for op in one.schedule.ops)
    schedule = one.schedule.model_copy(update={"ops": ops})
    digest = hashlib.sha256(schedule.canonical().encode()).hexdigest()
    return one.model_copy(update={"schedule": schedule, "schedule_digest": digest})
