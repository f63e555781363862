"""What `twill emit --machine b200` takes, by phase: of every kernel for the B200, in seconds of CPU.

    python -m tests.blackwell_times RECORD [WORD ...]
    python -m tests.blackwell_times RECORD --table

The command is run in a process of its own for each kernel, without a store, and a line of JSON is written to RECORD,
with the seconds by the clock (`wall`), which mean something only where nothing else is at work. Other work makes
seconds of CPU longer, too: the same loop runs in front of each command and behind it (`fixed`; `beside`: by the clock,
which is not in `wall`), and "alone" in the table is what is left if all seconds are shortened as its are, to the least
of the record; "two cores" of these those that are one behind the other (`way`).
WORDs: only kernels whose commands have them all. --table: that of docs/blackwell.md.
"""

from __future__ import annotations

import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from typing import Any
from unittest.mock import patch

BEFORE = {"reading": "extracted_as"}  # functions of `twill.cli.emit`
PHASES = {  # functions of `twill.codegen.emission` or `twill.codegen.emit`
    "program order": "refuse_unlowerable",
    "lowering": "lower_candidate",
    "printing": "print_cuda",
    "NVRTC": "compile_cubin",
    "abstract machine": "verify",
}
NAMES = ("reading", "loading", "program order", "solving", *list(PHASES)[1:])
OTHERS = (("examples/attention_any_length.py",),)  # in tiles of the sidecar, for which those of its row are taken


def waited_for() -> float:
    """Seconds of the processes that this one has waited for."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return children.ru_utime + children.ru_stime


def cpu() -> float:
    """Seconds of this process and those that it has waited for."""
    return time.process_time() + waited_for()


def cpu_of_thread() -> float:
    """The same of this thread."""
    return time.thread_time() + waited_for()


@contextmanager
def phases(seconds: dict[str, float]) -> Iterator[None]:
    """Adds to `seconds` what each phase takes that begins in here. The emitter is loaded when it would be: beside the
    solve, which is another process's and whose seconds are known when it was waited for."""

    def timed(name: str, call: Callable[..., Any]) -> Callable[..., Any]:
        now = {"NVRTC": time.thread_time, "abstract machine": cpu_of_thread}.get(name, cpu)

        @wraps(call)
        def instead(*given: Any, **named: Any) -> Any:
            begin = now()
            try:
                return call(*given, **named)
            finally:
                seconds[name] += now() - begin

        return instead

    from twill.cli import emit as command
    from twill.cli import emit_pairs, solves

    begun: list[float] = []

    def beginning(self: solves.Solves, first: solves.Question) -> None:
        begin(self, first)
        begun.append(time.process_time())

    def loaded(*given: Any) -> Any:
        """Everything has been loaded: what is behind the solve can be looked at, too."""
        from twill.codegen import emission
        from twill.codegen import emit as emitting

        if begun:
            seconds["loading"] += time.process_time() - begun.pop()
            for name, function in PHASES.items():
                room = next(one for one in (emitting, emission) if hasattr(one, function))
                stack.enter_context(patch.object(room, function, timed(name, getattr(room, function))))
        return pairing(*given)

    begin, pairing = solves.Solves.begin, emit_pairs.in_pairs
    with ExitStack() as stack:
        for name, function in BEFORE.items():
            stack.enter_context(patch.object(command, function, timed(name, getattr(command, function))))
        stack.enter_context(patch.object(solves.Solves, "begin", beginning))
        stack.enter_context(patch.object(solves.Solves, "__call__", timed("solving", solves.Solves.__call__)))
        stack.enter_context(patch.object(command, "in_pairs", loaded))
        yield


def fixed() -> float:
    """Seconds of CPU of the same work, whatever else is measured."""
    begin, total = time.process_time(), 0
    for number in range(2_000_000):
        total += number * number
    assert total
    return time.process_time() - begin


def emitted(words: Sequence[str]) -> dict[str, float]:
    """Seconds of each phase, and of everything."""
    from twill.cli import entry

    seconds = dict.fromkeys(NAMES, 0.0)
    entry.one_thread_for_products()  # before NumPy is there, as in the command
    entry.collect_seldom()
    begun = time.perf_counter()
    before = fixed()
    spent = time.perf_counter() - begun
    with tempfile.TemporaryDirectory() as folder, phases(seconds):
        given = ["emit", *words, "--machine", "b200", "--no-store", "--out", str(Path(folder, "kernel"))]
        code = entry.main(given)
    if code:
        raise SystemExit(code)
    used = cpu() - before
    begun = time.perf_counter()
    both = before + fixed()
    return {**seconds, "all": used, "fixed": both / 2, "beside": spent + time.perf_counter() - begun}


def way(seconds: Mapping[str, float]) -> float:
    """Seconds of what is done one behind the other on two cores: the solve and what loads the emitter are at work
    together, and the compiler and the two processes of the abstract machine, all else alone."""
    compiler, machine = seconds["NVRTC"], seconds["abstract machine"]
    together = min(seconds["solving"], seconds["loading"] + seconds["program order"])
    return seconds["all"] - together - compiler - machine + max(compiler, (compiler + machine) / 2)


def table(record: Path) -> str:
    """Markdown: the last line of each command."""
    from tests.blackwell_rows import ROWS

    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    rows = [
        f"| `twill emit` | two cores, alone | CPU, alone | CPU | {' | '.join(NAMES)} |",
        f"| --- {'| ---: ' * (len(NAMES) + 3)}|",
    ]
    names = {shlex.join(row.words): row.name for row in ROWS}
    least = min(one["seconds"]["fixed"] for one in lines)
    for words, seconds in {one["words"]: one["seconds"] for one in lines}.items():
        share = least / seconds["fixed"]
        shown = (way(seconds) * share, seconds["all"] * share, seconds["all"], *(seconds[name] for name in NAMES))
        name = names.get(words, words.removeprefix("examples/") + " as it is")
        rows.append(f"| `{name.replace(' ', '` ', 1)} | {' | '.join(f'{one:.1f}' for one in shown)} |")
    return "\n".join(rows)


def main(given: Sequence[str]) -> int:
    """See the top of this file."""
    if given[0] == "--one":
        print(json.dumps(emitted(given[1:])))
        return 0
    record = Path(given[0])
    if "--table" in given:
        print(table(record))
        return 0
    from tests.blackwell_rows import ROWS  # not in the process of a command, which loads what it needs when it does

    failed, environment = 0, {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    for words in dict.fromkeys((*(row.words for row in ROWS), *OTHERS)):
        if not all(word in " ".join(words) for word in given[1:]):
            continue
        begin = time.perf_counter()
        one = subprocess.run(
            [sys.executable, "-m", "tests.blackwell_times", "--one", *words],
            capture_output=True, text=True, check=False, env=environment,
        )  # fmt: skip
        if one.returncode:
            failed += 1
            print(f"{shlex.join(words)}: {one.stderr.strip()}", flush=True)
            continue
        found = json.loads(one.stdout.splitlines()[-1])
        seconds = {**found, "wall": time.perf_counter() - begin - found["beside"]}
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"words": shlex.join(words), "seconds": seconds}) + "\n")
        print(f"{shlex.join(words)}: {seconds['all']:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
