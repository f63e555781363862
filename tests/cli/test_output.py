"""Promises of twill.cli.output: whole files or none, and refusals before any work."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from tests.schedules import attention_schedule
from twill.cli.output import Outputs, write_all
from twill.exc import OutputNotWritable


def test_a_directory_gets_four_files_and_nothing_else(tmp_path: Path) -> None:
    directory = tmp_path / "made" / "here"
    outputs = Outputs(out=str(directory))
    outputs.refuse_unwritable()
    assert not directory.exists()
    outputs.write(attention_schedule())
    names = ["schedule.html", "schedule.json", "schedule.trace.json", "schedule.txt"]
    assert sorted(path.name for path in directory.iterdir()) == names
    assert (directory / "schedule.json").read_text() == attention_schedule().canonical() + "\n"
    assert "traceEvents" in json.loads((directory / "schedule.trace.json").read_text())
    assert (directory / "schedule.html").read_text().startswith("<!doctype html>")
    assert "proven optimal" in (directory / "schedule.txt").read_text()


def test_single_files_are_written_where_they_were_asked_for(tmp_path: Path) -> None:
    outputs = Outputs(html=str(tmp_path / "a.html"), trace=str(tmp_path / "b.json"))
    outputs.refuse_unwritable()
    outputs.write(attention_schedule())
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.html", "b.json"]


@pytest.mark.parametrize(
    ("outputs", "what"),
    [
        (Outputs(html="{tmp}/no/page.html"), "does not exist"),
        (Outputs(trace="{tmp}"), "is a directory"),
        (Outputs(out="{tmp}/file"), "is a file"),
        (Outputs(out="{tmp}/file/below"), "is a file"),
        (Outputs(html="{tmp}/file/page.html"), "does not exist"),
    ],
)
def test_what_cannot_be_written_is_refused_beforehand(tmp_path: Path, outputs: Outputs, what: str) -> None:
    (tmp_path / "file").write_text("taken")
    names = (name and name.format(tmp=tmp_path) for name in (outputs.html, outputs.trace, outputs.out))
    with pytest.raises(OutputNotWritable, match=what) as refused:
        Outputs(*names).refuse_unwritable()
    assert refused.value.exit_code == 2 and refused.value.hint
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def test_nothing_is_replaced_if_one_file_cannot_be_written(tmp_path: Path) -> None:
    old = tmp_path / "old.txt"
    old.write_text("old")
    with pytest.raises(OutputNotWritable, match="cannot be written: No such file"):
        write_all({old: "new", tmp_path / "missing" / "other.txt": "text"})
    assert old.read_text() == "old"
    assert [path.name for path in tmp_path.iterdir()] == ["old.txt"]


def test_a_stop_in_the_middle_leaves_no_part_of_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("old")
    replaced = []

    def interrupted(source: str, target: Path) -> None:
        replaced.append(Path(source).read_text())
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_all({tmp_path / "a.txt": "new", tmp_path / "b.txt": "new too"})
    assert replaced == ["new"]  # complete before it may take the old one's place
    assert [path.name for path in tmp_path.iterdir()] == ["a.txt"]
    assert (tmp_path / "a.txt").read_text() == "old"


def test_a_folder_that_nothing_could_be_written_into_is_not_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    (tmp_path / "there").mkdir()
    for place in (tmp_path / "new" / "deep", tmp_path / "there"):
        with pytest.raises(OutputNotWritable, match="No space left"):
            Outputs(out=str(place)).write(attention_schedule())
    assert [path.name for path in tmp_path.iterdir()] == ["there"]


def test_files_are_readable_as_the_umask_says(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_all({tmp_path / "a.txt": "text"})
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o640
