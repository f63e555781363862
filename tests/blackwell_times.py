"""What `twill emit --machine b200` takes, by phase: of every kernel for the B200, in seconds of CPU.

    python -m tests.blackwell_times RECORD [WORD ...]
    python -m tests.blackwell_times RECORD --table

The command is run in a process of its own for each kernel, without a store, and a line of JSON is written to RECORD,
with the seconds by the clock, which mean something only where nothing else is at work. Other work makes seconds of CPU
longer, too: the same loop runs in front of each command and behind it (`fixed`), and "alone" in the table is what is
left if all seconds are shortened as its are, to the least of the record; "two cores" of these those that are one behind
the other (`way`).
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

from tests.blackwell_rows import ROWS

PHASES = {  # functions of `twill.cli.emit`, `twill.codegen.emission` or `twill.codegen.emit`
    "reading": "extracted_as",
    "program order": "refuse_unlowerable",
    "solving": "solved",
    "lowering": "lower_candidate",
    "printing": "print_cuda",
    "NVRTC": "compile_cubin",
    "abstract machine": "verify",
}
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
    """Adds to `seconds` what each phase takes that begins in here."""

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
    from twill.codegen import emission
    from twill.codegen import emit as emitting

    with ExitStack() as stack:
        for name, function in PHASES.items():
            room = next(one for one in (command, emitting, emission) if hasattr(one, function))
            stack.enter_context(patch.object(room, function, timed(name, getattr(room, function))))
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

    seconds = dict.fromkeys(PHASES, 0.0)
    before = fixed()
    with tempfile.TemporaryDirectory() as folder, phases(seconds):
        given = ["emit", *words, "--machine", "b200", "--no-store", "--out", str(Path(folder, "kernel"))]
        code = entry.main(given)
    if code:
        raise SystemExit(code)
    used = cpu() - before
    return {**seconds, "all": used, "fixed": (before + fixed()) / 2}


def way(seconds: Mapping[str, float]) -> float:
    """Seconds of what is done one behind the other on two cores: the compiler and the two processes of the abstract
    machine are at work together, all else alone."""
    compiler, machine = seconds["NVRTC"], seconds["abstract machine"]
    return seconds["all"] - compiler - machine + max(compiler, (compiler + machine) / 2)


def table(record: Path) -> str:
    """Markdown: the last line of each command."""
    lines = [json.loads(line) for line in record.read_text(encoding="utf-8").splitlines()]
    rows = [
        f"| `twill emit` | two cores, alone | CPU, alone | CPU | {' | '.join(PHASES)} |",
        f"| --- {'| ---: ' * (len(PHASES) + 3)}|",
    ]
    names = {shlex.join(row.words): row.name for row in ROWS}
    least = min(one["seconds"]["fixed"] for one in lines)
    for words, seconds in {one["words"]: one["seconds"] for one in lines}.items():
        share = least / seconds["fixed"]
        shown = (way(seconds) * share, seconds["all"] * share, seconds["all"], *(seconds[name] for name in PHASES))
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
        seconds = {**json.loads(one.stdout.splitlines()[-1]), "wall": time.perf_counter() - begin}
        with record.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"words": shlex.join(words), "seconds": seconds}) + "\n")
        print(f"{shlex.join(words)}: {seconds['all']:.1f} s", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
