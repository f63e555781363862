"""Promises of `twill machines`: the described machines by name, and a user's own file likewise."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill.cli import main
from twill.machine.file import load_machine
from twill.machine.names import list_machines, machine_directory, machine_title


def test_the_list_has_every_described_machine_with_its_title(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["machines", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(list_machines())
    assert all(load_machine(name).title in line for name, line in zip(list_machines(), lines, strict=True))


def test_titles_are_those_of_the_files_read_in_full() -> None:
    assert {name: machine_title(name) for name in list_machines()} == {
        name: load_machine(name).title for name in list_machines()
    }


@pytest.mark.parametrize("name", ["h100", "b200"])
def test_show_has_every_operation_and_a_source_for_every_figure(
    name: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "400")
    assert main(["machines", "show", name]) == 0
    out = capsys.readouterr().out
    machine = load_machine(name)
    shown = [operation.name for operation in machine.operations]
    shown += [transfer.name for transfer in machine.transfers] + [context.name for context in machine.contexts]
    shown += [operation.latency.source for operation in machine.operations]
    assert [word for word in shown if word not in out] == []


def test_a_file_is_read_like_a_name(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    path.write_text((machine_directory() / "h100.toml").read_text().replace('name = "h100"', 'name = "mine"'))
    assert main(["machines", "check", str(path)]) == 0
    assert capsys.readouterr().out == f"{path}: mine (NVIDIA H100 SXM5 80GB) is a valid machine file\n"
    assert main(["machines", "show", str(path)]) == 0
    assert "mine: NVIDIA H100" in capsys.readouterr().out


def test_a_wrong_file_exits_with_2_and_names_the_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "mine.toml"
    text = (machine_directory() / "h100.toml").read_text()
    path.write_text(text.replace("sms = { value = 132", "sms = { value = -132"))
    assert main(["machines", "check", str(path)]) == 2
    line = 1 + next(n for n, words in enumerate(text.splitlines()) if words.startswith("sms ="))
    err = capsys.readouterr().err
    assert err.startswith(f"error: {path}:{line}: ") and "instead: " in err
