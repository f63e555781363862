"""CPU seconds of each file of tests, told at the end of a run, the longest first.

    python -m pytest -p tests.cpu_by_file -n 2 --dist loadfile

They are those of the process that runs the file and of the processes that it starts and waits for. Beside other work on
the machine they are more than without, but by far less than what a clock says.
"""

from __future__ import annotations

import resource
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

LEAST = 3.0  # seconds of a file that is told
KEY = "cpu_by_file"
spent: dict[str, float] = defaultdict(float)


def cpu() -> float:
    """Of this process and of those that it has waited for."""
    both = (resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in both)


def lines(found: Mapping[str, float]) -> list[str]:
    """The files that took `LEAST` or longer, and all together."""
    longest = sorted(found.items(), key=lambda one: -one[1])
    told = [f"{seconds:8.1f} s  {name}" for name, seconds in longest if seconds >= LEAST]
    return [*told, f"{sum(found.values()):8.1f} s  of {len(found)} files"]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    begin = cpu()
    try:
        return (yield)
    finally:
        spent[Path(item.nodeid.partition("::")[0]).as_posix()] += cpu() - begin


def pytest_sessionfinish(session: pytest.Session) -> None:
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output[KEY] = dict(spent)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    for file, seconds in getattr(node, "workeroutput", {}).get(KEY, {}).items():
        spent[file] += seconds


def pytest_terminal_summary(terminalreporter: Any) -> None:
    terminalreporter.section("CPU seconds by file")
    for line in lines(spent):
        terminalreporter.write_line(line)
