"""Entries for tests of the store: a real schedule, under as many keys as wanted, and ways to spoil it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.kernels import H100, example
from twill.graph.dependence import DependenceGraph
from twill.schedule.document import Schedule
from twill.schedule.key import KeyOptions, schedule_key
from twill.solve.pipeline import SolveOptions, solve
from twill.store.interface import Entry
from twill.store.validation import file

DIGEST = H100.digest()


@cache
def graph_of(name: str = "gemm") -> DependenceGraph:
    """The graph of an example."""
    return example(name)


@cache
def schedule_of(name: str = "gemm") -> Schedule:
    """Its schedule."""
    return solve(graph_of(name), H100, SolveOptions())


@cache
def asked_of(number: int) -> KeyOptions:
    """What was asked for the entry of that number."""
    return KeyOptions(seed=number)


@cache
def numbered(number: int, name: str = "gemm") -> Schedule:
    """The schedule under the key that it has with another seed."""
    key = schedule_key(graph_of(name), DIGEST, asked_of(number))
    return schedule_of(name).model_copy(update={"key": key})


@cache
def entry_of(number: int = 0, name: str = "gemm") -> Entry:
    """A good entry."""
    return file(numbered(number, name), graph_of(name), asked_of(number), H100)[0]


def with_schedule(entry: Entry, schedule: Schedule) -> Entry:
    """An entry whose fields and hashes all fit another schedule, as somebody who means harm would write it."""
    fields = ("key", "kernel", "spec", "machine", "machine_digest")
    update: dict[str, Any] = {name: getattr(schedule, name) for name in fields}
    return entry.model_copy(update=update | {"schedule": schedule, "schedule_digest": schedule.digest()})


def illegal(schedule: Schedule) -> Schedule:
    """A schedule that is well-formed, and breaks a rule: its last op starts one cycle later than its row says."""
    *others, last = schedule.ops
    return schedule.model_copy(update={"ops": (*others, last.model_copy(update={"start": last.start + 1}))})


def too_early(schedule: Schedule) -> Schedule:
    """A schedule with consistent figures in which an op starts before what it needs is there."""
    ops = tuple(op.model_copy(update={"start": 0, "row": 0, "stage": 0}) for op in schedule.ops)
    return schedule.model_copy(update={"ops": ops})


def fused(entry: Entry) -> Entry:
    """An entry under the key of one without fused instances, whose schedule says that it fuses two."""
    asked = KeyOptions(fuse=False)
    assert entry.graph is not None
    cooperation = entry.schedule.cooperation.model_copy(update={"fuse": 2})
    key = schedule_key(entry.graph, DIGEST, asked)
    schedule = entry.schedule.model_copy(update={"cooperation": cooperation, "key": key})
    return with_schedule(entry, schedule).model_copy(update={"asked": asked})


def poisons() -> dict[str, Entry]:
    """Entries under the key of `entry_of()` that are not to be believed, by what is wrong with them."""
    good, other = entry_of(), entry_of(name="layer_norm")
    schedule = good.schedule
    another = other.schedule.model_copy(update={"key": good.key})
    cheaper = schedule.loops[0].graph.instructions[0].model_copy(update={"latency": 1})
    loop = schedule.loops[0]
    made_up = loop.graph.model_copy(update={"instructions": (cheaper, *loop.graph.instructions[1:])})
    return {
        "illegal": with_schedule(good, illegal(schedule)),
        "too early": with_schedule(good, too_early(schedule)),
        "another kernel's, its key rewritten": with_schedule(other, another),
        "another kernel's, with this graph": with_schedule(other, another).model_copy(
            update={"graph": good.graph, "asked": good.asked}
        ),
        "another kernel's, as it is": other,
        "made-up costs": with_schedule(
            good, schedule.model_copy(update={"loops": (loop.model_copy(update={"graph": made_up}),)})
        ),
        "other options": good.model_copy(update={"asked": asked_of(1)}),
        "another hash": good.model_copy(update={"schedule_digest": "0" * 64}),
        "another edition of the machine": with_schedule(good, schedule.model_copy(update={"machine_digest": "0" * 64})),
        "a loop too many": with_schedule(good, schedule.model_copy(update={"loops": (loop, loop)})),
        "no loop": with_schedule(good, schedule.model_copy(update={"loops": (), "ops": ()})),
        "another number of row blocks": good.model_copy(
            update={"asked": KeyOptions(blocks=schedule.cooperation.blocks + 1)}
        ),
        "instances fused that were not to be": fused(good),
        "a graph that cannot be costed": good.model_copy(update={"graph": graph_of().model_copy(update={"dims": ()})}),
    }


def coarse_scale(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the normalization take its first scale, instead of asking its solver for seconds for the best one."""
    monkeypatch.setattr("twill.zlp.normalize._program", lambda *given, **more: None)
