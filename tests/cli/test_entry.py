"""Promises of the command line's frame: one exit code for every ending, and no traceback."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from argparse import Namespace
from types import SimpleNamespace

import pytest

from tests.conftest import ROOT
from twill.cli import entry, machines, main
from twill.cli.solve import processes_of
from twill.exc import BudgetExhausted, Infeasible, TwillError


def ending(monkeypatch: pytest.MonkeyPatch, error: BaseException) -> int:
    """The exit code of a command that raises."""

    def fail(arguments: Namespace) -> int:
        raise error

    monkeypatch.setattr(machines, "list_all", fail)
    return main(["machines", "list"])


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (TwillError("no"), 2),
        (Infeasible("no"), 3),
        (BudgetExhausted("no"), 4),
        (KeyError("no"), 5),
        (RecursionError("no"), 5),
        (MemoryError(), 5),
        (KeyboardInterrupt(), 130),
    ],
)
def test_each_error_has_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: BaseException, code: int
) -> None:
    assert ending(monkeypatch, error) == code
    out, err = capsys.readouterr()
    assert out == "" and err.strip() and "Traceback" not in err


def test_an_error_says_where_what_and_what_instead(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ending(monkeypatch, TwillError("the address is not affine", file="kernel.py", line=97, hint="a tile access"))
    assert capsys.readouterr().err == "error: kernel.py:97: the address is not affine\n  instead: a tile access\n"


def test_an_internal_error_is_one_line_unless_debugging(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("TWILL_DEBUG", raising=False)
    ending(monkeypatch, ZeroDivisionError("first\nsecond"))
    err = capsys.readouterr().err
    assert err.startswith("internal error at test_entry.py:") and err.count("\n") == 1
    assert "ZeroDivisionError: first second" in err and "report" in err and "TWILL_DEBUG=1" in err
    monkeypatch.setenv("TWILL_DEBUG", "1")
    assert ending(monkeypatch, ZeroDivisionError("first")) == 5
    assert "Traceback" in capsys.readouterr().err


def test_sigterm_is_handled_only_while_a_command_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def look(arguments: Namespace) -> int:
        seen.append(signal.getsignal(signal.SIGTERM))
        os.kill(os.getpid(), signal.SIGTERM)
        return 0

    monkeypatch.setattr(machines, "list_all", look)
    with pytest.raises(SystemExit) as stopped:
        main(["machines", "list"])
    assert stopped.value.code == 143
    assert seen == [entry.terminate] and signal.getsignal(signal.SIGTERM) == before


def twill(*words: str, **more: object) -> subprocess.CompletedProcess[str]:
    """The command as a process of its own, in the repository's root."""
    command = [sys.executable, "-m", "twill", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, **more)  # type: ignore[call-overload,no-any-return]


def test_as_a_process_it_lists_machines_without_the_heavy_libraries() -> None:
    code = (
        "import sys; from twill.cli import main; code = main(['machines', 'list'])\n"
        "heavy = {'z3', 'triton', 'pyscipopt', 'xdsl', 'pydantic', 'rich'} & set(sys.modules)\n"
        "sys.exit(code or len(heavy))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "h100" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("nonsense",),
        ("machines",),
        ("solve",),
        ("solve", "kernel.py"),
        ("solve", "kernel.py", "--mach", "h100"),
        ("solve", "kernel.py", "--machine", "h100", "--budget", "-1"),
        ("solve", "kernel.py", "--machine", "h100", "--budget", "soon"),
        ("solve", "kernel.py", "--machine", "h100", "--budget", "nan"),
        ("solve", "kernel.py", "--machine", "h100", "--normalize", "0"),
        ("solve", "kernel.py", "--machine", "h100", "--ii", "1.5"),
        ("solve", "kernel.py", "--machine", "h100", "--seed", "-3"),
        ("check",),
    ],
)
def test_bad_usage_exits_with_2(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 2
    out, err = capsys.readouterr()
    assert out == "" and "usage: twill" in err


@pytest.mark.parametrize("words", [("--help",), ("solve", "--help"), ("machines", "show", "--help"), ("--version",)])
def test_help_and_version_exit_with_0(words: tuple[str, ...], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(words)
    assert stopped.value.code == 0
    assert "twill" in capsys.readouterr().out


def test_an_output_without_room_is_the_user_s_to_mend() -> None:
    command = [sys.executable, "-m", "twill", "machines", "show", "h100"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run(command, cwd=ROOT, stdout=full, stderr=subprocess.PIPE, text=True)
    assert done.returncode == 2
    assert done.stderr == (
        "error: what was asked for cannot be written: No space left on device\n  instead: a place with room\n"
    )


@pytest.mark.parametrize("words", ["machines show h100", "emit --passes"])
def test_a_reader_that_goes_away_is_no_error(words: str) -> None:
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "twill", *words.split()],
        cwd=ROOT, stdout=write, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    os.close(write)
    assert done.returncode == 141 and done.stderr == ""


def test_no_missing_file_or_machine_gives_a_traceback() -> None:
    for words in (("check", "nowhere.json"), ("machines", "show", "h101"), ("machines", "check", "nowhere.toml")):
        done = twill(*words)
        assert done.returncode == 2 and done.stdout == ""
        assert done.stderr.startswith("error: ") and "instead: " in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize(("words", "threads"), [(["machines", "list"], "1"), (["run", "--help"], None)])
def test_products_are_multiplied_in_one_thread_but_not_those_of_a_user_s_script(
    monkeypatch: pytest.MonkeyPatch, words: list[str], threads: str | None
) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS")
    with contextlib.suppress(SystemExit):  # what asks for help ends so
        main(words)
    assert os.environ.pop("OMP_NUM_THREADS", None) == threads


@pytest.mark.parametrize(("command", "several"), [("solve", True), ("emit", True), ("bench", False), ("record", False)])
def test_only_what_runs_no_code_of_the_users_is_copied(
    command: str, several: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[int] = []

    def note(arguments: Namespace) -> int:
        found.append(processes_of(arguments))
        return 0

    monkeypatch.setattr(entry, "parser", lambda: SimpleNamespace(parse_args=lambda given: Namespace(command=note)))
    monkeypatch.setattr(entry, "processors", lambda: 4)
    assert entry.main([command]) == 0
    assert found == [4 if several else 1]
