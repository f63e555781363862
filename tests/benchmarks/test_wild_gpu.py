"""Promises of `benchmarks.wild_gpu` that need no GPU: lines name their kernels, and files of no package are found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.wild_gpu import END, asked, gather, home

ANSWERS = f"""
for line in open(0):
    name = line.strip().rpartition("/")[2]
    if name == "lost":
        print("Traceback, and what follows it")
        break
    print("a warning without a name")
    print("ok  ", name)
    print({END!r} + "right", flush=True)
"""


def test_every_line_names_its_kernel_and_an_end_of_the_process_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    command = [sys.executable, "-u", "-c", ANSWERS]
    with subprocess.Popen(command, text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as worker:
        ends = [asked(worker, Path("/made") / name) for name in ("one", "two", "lost")]
    assert ends == ["right", "right", "its process ended"]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 5 and [line.split(":")[0].split()[-1] for line in lines] == [
        "one",
        "one",
        "two",
        "two",
        "lost",
    ]


def test_files_of_one_name_that_are_in_no_package_have_folders_of_their_own(tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    given = {}
    for number in (0, 1):
        file = tmp_path / str(number) / "ops.py"
        made = kept / f"kernel.{number}"
        file.parent.mkdir()
        made.mkdir(parents=True)
        file.write_text(f"number = {number}")
        given[number] = {"file": str(file), "alone": True}
        (made / "launches.json").write_text(json.dumps(given[number]))
    gather(kept)
    assert [(home(kept, given[number]) / "ops.py").read_text() for number in (0, 1)] == ["number = 0", "number = 1"]
