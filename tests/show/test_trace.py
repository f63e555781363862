"""Promises of the trace: valid trace events, every op in every iteration, slices that do not overlap."""

from __future__ import annotations

import itertools
import json
from collections import Counter, defaultdict
from typing import Any

from tests.schedules import attention_schedule
from twill.show.trace import trace


def events() -> list[dict[str, Any]]:
    """The events of the attention schedule's trace."""
    found: list[dict[str, Any]] = json.loads(trace(attention_schedule()))["traceEvents"]
    return found


def test_units_and_warp_groups_are_two_processes_with_named_threads() -> None:
    names = {(e["pid"], e["tid"]): e["args"]["name"] for e in events() if e["ph"] == "M" and e["name"] == "thread_name"}
    assert [name for (pid, _), name in names.items() if pid == 1] == ["tensor", "mufu", "tma", "alu", "fma"]
    assert [name for (pid, _), name in names.items() if pid == 2] == ["consumer 0", "consumer 1", "load"]
    processes = [e["args"]["name"] for e in events() if e["ph"] == "M" and e["name"] == "process_name"]
    assert [name.split(",")[0] for name in processes] == ["units", "warp groups"]


def test_each_op_has_a_slice_for_each_iteration_at_its_cycle() -> None:
    schedule = attention_schedule()
    slices = [e for e in events() if e["ph"] == "X" and e["pid"] == 2]
    assert len(slices) == len(schedule.ops) * 4
    qk = sorted(e["ts"] for e in slices if e["name"] == "qk.0")
    assert qk == [974 + k * 2048 for k in range(4)]
    assert next(e for e in slices if e["name"] == "qk.0")["args"]["kernel line"] == 22


def test_slices_of_a_thread_do_not_overlap() -> None:
    threads = defaultdict(list)
    for e in events():
        if e["ph"] == "X":
            threads[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e["dur"]))
    assert len(threads) == 8
    for found in threads.values():
        assert found == sorted(found)
        assert all(end <= start for (_, end), (start, _) in itertools.pairwise(found))


def test_asynchronous_instructions_are_in_flight_until_their_result() -> None:
    ends = {(e["cat"], e["id"]): e["ts"] for e in events() if e["ph"] == "e"}
    begins = {(e["cat"], e["id"]): e["ts"] for e in events() if e["ph"] == "b"}
    assert begins.keys() == ends.keys()
    assert {ends[key] - begins[key] for key in begins if key[1].split(".")[0] == "2"} == {577}


def test_registers_are_counted_in_the_steady_state() -> None:
    counters = Counter(e["name"] for e in events() if e["ph"] == "C")
    assert set(counters) == {"registers, consumer 0", "registers, consumer 1", "registers, load"}
    levels = [e["args"]["tile values"] for e in events() if e["ph"] == "C" and e["name"] == "registers, consumer 0"]
    assert max(levels) == 163
