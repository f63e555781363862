"""A solve that is killed at any moment leaves no process and no half-written file; equal solves are equal documents."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kernels import H100, example
from twill.schedule.document import Schedule
from twill.schedule.file import load_schedule
from twill.solve.pipeline import solve

GEMM = str(ROOT / "examples" / "gemm.py")
ENDLESS = """#!/bin/sh
here="$(dirname "$0")"
echo $$ > "$here/pid.new"
mv "$here/pid.new" "$here/pid"
exec sleep 600
"""
SOLVE = [sys.executable, "-m", "twill", "solve", GEMM, "--machine", "h100", "--json"]
PATIENCE = 60.0  # seconds


def until(what: object, happened: object) -> None:
    """Wait until `happened()`; fail with `what` after a while."""
    end = time.monotonic() + PATIENCE
    while not happened():  # type: ignore[operator]
        assert time.monotonic() < end, what
        time.sleep(0.02)


def gone(pid: int) -> bool:
    """Whether there is no such process, or only what waits for its parent to look."""
    try:
        return Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rsplit(")", 1)[1].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT], ids=lambda s: s.name)
def test_a_killed_solve_leaves_no_solver_and_no_file(tmp_path: Path, end: signal.Signals) -> None:
    solver, out = tmp_path / "bin" / "yices-smt2", tmp_path / "out"
    solver.parent.mkdir()
    solver.write_text(ENDLESS, encoding="utf-8")
    solver.chmod(0o755)
    environment = {**os.environ, "PATH": f"{solver.parent}{os.pathsep}{os.environ['PATH']}"}
    environment.pop("TWILL_STORE", None)
    process = subprocess.Popen([*SOLVE, "--solver", "yices", "--out", str(out)], cwd=ROOT, env=environment,
                               stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # fmt: skip
    try:
        until("the solver was never asked", (solver.parent / "pid").exists)
        process.send_signal(end)
        assert process.wait(PATIENCE) != 0
    finally:
        process.kill()
        process.wait()
    started = int((solver.parent / "pid").read_text(encoding="utf-8"))
    until("the solver goes on alone", lambda: gone(started))
    assert not out.exists() or list(out.iterdir()) == []


def test_a_file_is_whole_or_not_there_whenever_the_solve_is_killed(tmp_path: Path) -> None:
    """Killed as soon as anything is in its folder: what is called a schedule is one."""
    out = tmp_path / "out"
    process = subprocess.Popen([*SOLVE, "--out", str(out)], cwd=ROOT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    until("nothing was written", lambda: process.poll() is not None or (out.exists() and any(out.iterdir())))
    process.kill()
    process.wait()
    for file in out.glob("*.json"):
        if file.name.endswith(".trace.json"):
            assert json.loads(file.read_text(encoding="utf-8"))
        else:
            assert isinstance(load_schedule(file), Schedule)


def told(text: str) -> str:
    """The document with every time 0."""
    assert '"seconds":' in text
    return re.sub(r'"(solve_)?seconds":[0-9.e+-]+', '"time":0', text)


def test_ten_solves_give_one_document() -> None:
    graph = example("gemm", "bf16-wide")
    assert len({told(solve(graph, H100).canonical()) for _ in range(10)}) == 1


def test_two_processes_solve_to_the_same_document() -> None:
    """Strings hash differently in every process: neither the order of Python's sets nor that of addresses matters."""
    asked = ["solve", str(ROOT / "examples" / "linear_attention.py"), "--machine", "h100", "--no-store", "--json"]
    documents = []
    for seed in ("1", "2"):
        environment = {"PYTHONHASHSEED": seed, "PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
        done = subprocess.run([sys.executable, "-m", "twill", *asked], cwd=ROOT, env=environment,
                              capture_output=True, text=True, check=True)  # fmt: skip
        documents.append(told(done.stdout))
    assert documents[0] == documents[1]
    assert '"ii":896' in documents[0]
