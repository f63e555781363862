"""Promises of `twill store` and of what `twill solve` does with the store."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.kernels import H100
from tests.services import answer, dead_address, entry_answer, playing, refusal
from tests.store_files import plant
from tests.stores import entry_of, poisons
from twill.cli import main
from twill.exc import BudgetExhausted
from twill.schedule.document import Schedule
from twill.solve import pipeline
from twill.store.api import Job, ScheduleList
from twill.store.interface import Entry
from twill.store.maintenance import keys
from twill.store.sqlite import SqliteStore

GEMM = str(ROOT / "examples" / "gemm.py")


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A store with two entries."""
    store = SqliteStore(tmp_path / "s")
    store.keep(entry_of(), H100)
    store.keep(entry_of(name="layer_norm"), H100)
    store.put_artifact(entry_of().key, "a.cu", b"1")
    store.close()
    return str(tmp_path / "s")


@pytest.fixture
def solves(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The options of every solve that was made here."""
    asked: list[object] = []
    real = pipeline.solve

    def solve(*given: object, **more: object) -> Schedule:
        asked.append(given[2])
        return real(*given, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(pipeline, "solve", solve)
    return asked


# -- twill store --------------------------------------------------------------------------------


def test_ls_has_a_line_an_entry(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "ls", "--store", path]) == 0
    out, err = capsys.readouterr()
    assert re.match(r"key +kernel +spec +machine +I +L +copies +registers +created\n", out)
    assert [line.split()[1] for line in out.splitlines()[1:]] == ["layer_norm", "gemm"]
    assert "2 schedules, 1 artifacts, 0 in quarantine" in err
    assert (
        main(["store", "ls", "--store", path, "--kernel", "gemm", "--machine", "h100", "--limit", "1", "--json"]) == 0
    )
    (summary,) = ScheduleList.parse(capsys.readouterr().out).schedules
    assert summary.key == entry_of().key


def test_show_draws_or_prints_the_entry(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    key = entry_of().key
    assert main(["store", "show", key[:8], "--store", path]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"key       {key}\n")
    assert "artifacts a.cu\n" in out
    assert "I = 512" in out
    assert main(["store", "show", key, "--store", path, "--json"]) == 0
    assert Entry.parse(capsys.readouterr().out) == entry_of()
    assert main(["store", "show", "", "--store", path]) == 2
    assert "2 keys begin with ``" in capsys.readouterr().err
    assert main(["store", "show", "nothing", "--store", path]) == 2


def test_export_and_import_carry_everything(path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, new = str(tmp_path / "all.twill"), str(tmp_path / "new")
    assert main(["store", "export", file, "--store", path]) == 0
    assert capsys.readouterr().out == f"{file}: 2 schedules\n"
    assert main(["store", "import", file, "--store", new]) == 0
    assert capsys.readouterr().out == f"{new}: 2 schedules kept, 0 known already, 1 artifacts kept\n"
    assert main(["store", "export", file, entry_of().key[:9], "--store", path]) == 0
    assert main(["store", "export", file, "--kernel", "layer_norm", "--store", path]) == 0
    assert capsys.readouterr().out.count(": 1 schedules\n") == 2
    Path(file).write_text(Path(file).read_text(encoding="utf-8")[:-9], encoding="utf-8")
    assert main(["store", "import", file, "--store", new]) == 2
    assert main(["store", "export", str(tmp_path / "no" / "where"), "--store", path]) == 2


def test_bad_entries_are_said_and_end_with_their_own_exit_code(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["store", "verify", "--store", path]) == 0
    assert capsys.readouterr().out == f"{path}: 3 good, 0 bad\n"
    for words, code in (
        (["store", "verify"], 6),
        (["store", "show", entry_of().key], 2),
        (["store", "export", str(tmp_path / "f")], 6),
    ):
        store = SqliteStore(path)
        plant(store, poisons()["illegal"])
        store.close()
        assert main([*words, "--store", path]) == code, words
    capsys.readouterr()
    assert main(["store", "ls", "--quarantine", "--store", path]) == 0
    assert capsys.readouterr().out.count("schedule: its schedule breaks the rules") == 3
    line = json.dumps({"entry": json.loads(poisons()["illegal"].canonical())}) + "\n"
    head = '{"archive": "twill.archive/1"}\n'
    end = {"end": {"lines": 2, "digest": hashlib.sha256((head + line).encode()).hexdigest()}}
    (tmp_path / "f").write_text(head + line + json.dumps(end) + "\n", encoding="utf-8")
    assert main(["store", "import", str(tmp_path / "f"), "--store", path]) == 6
    assert "is not kept: its schedule breaks the rules" in capsys.readouterr().err


def test_gc_makes_it_smaller(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "gc", "--max-bytes", "0", "--store", path]) == 0
    assert " removed, 0 schedules and " in capsys.readouterr().out
    assert main(["store", "gc", "--older-than", "1", "--store", path]) == 0


def test_a_store_that_is_not_there_is_bad_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "ls", "--store", str(tmp_path / "none")]) == 2
    assert main(["store", "ls"]) == 2  # the tests' TWILL_STORE is off
    assert "TWILL_STORE says so" in capsys.readouterr().err
    (tmp_path / "text").write_text("no database" * 100, encoding="utf-8")
    assert main(["store", "ls", "--store", str(tmp_path / "text")]) == 2


# -- twill solve --------------------------------------------------------------------------------


def test_an_answer_is_kept_and_then_comes_from_the_store_byte_by_byte(
    tmp_path: Path, solves: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["solve", GEMM, "--machine", "h100", "--json", "--store", str(tmp_path / "s")]
    assert main(words) == 0
    first = capsys.readouterr()
    assert first.err == ""
    assert main(words) == 0
    second = capsys.readouterr()
    assert second.out == first.out
    assert re.fullmatch(r"twill: from the store, solved at \S+Z in \d+\.\d s \(--no-store solves again\)\n", second.err)
    assert len(solves) == 1
    assert main([*words, "--no-store"]) == 0
    assert len(solves) == 2


def test_the_environment_names_the_store(tmp_path: Path, solves: list[object], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TWILL_STORE", str(tmp_path / "s"))
    for _ in range(2):
        assert main(["solve", GEMM, "--machine", "h100", "--json"]) == 0
    assert len(solves) == 1


@pytest.mark.parametrize("options", [["--ii", "512"], ["--strategy", "none"]])
def test_what_is_not_proven_optimal_is_not_kept(options: list[str], tmp_path: Path, solves: list[object]) -> None:
    for _ in range(2):
        assert main(["solve", GEMM, "--machine", "h100", "--json", "--store", str(tmp_path / "s"), *options]) == 0
    assert len(solves) == 2
    store = SqliteStore(tmp_path / "s")
    assert keys(store) == ()
    store.close()


def test_another_solver_or_a_baseline_is_neither_looked_up_nor_kept() -> None:
    from twill.cli.store_lookup import storable
    from twill.schedule.options import SolveOptions

    assert storable(SolveOptions(budget=1.0, seed=3, pins=("a@stage=1",), normalize=50, fuse=False))
    assert not storable(SolveOptions(solver="yices"))
    assert not storable(SolveOptions(strategy="paper"))
    assert not storable(SolveOptions(ii=5))


def test_a_budget_that_ran_out_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def ended(*given: object) -> Schedule:
        raise BudgetExhausted("out of time", schedule=entry_of().schedule)

    monkeypatch.setattr(pipeline, "solve", ended)
    assert main(["solve", GEMM, "--machine", "h100", "--json", "--store", str(tmp_path / "s")]) == 4
    store = SqliteStore(tmp_path / "s")
    assert keys(store) == ()
    store.close()


def test_a_poisoned_entry_is_solved_again(
    tmp_path: Path, solves: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    store = SqliteStore(tmp_path / "s")
    plant(store, poisons()["illegal"])
    store.close()
    assert main(["solve", GEMM, "--machine", "h100", "--json", "--store", str(tmp_path / "s")]) == 0
    assert len(solves) == 1
    assert Schedule.parse(capsys.readouterr().out).key == entry_of().key


def test_a_store_that_was_named_and_cannot_be_used_is_refused_before_the_solve(
    tmp_path: Path, solves: list[object]
) -> None:
    (tmp_path / "s").write_text("no database" * 100, encoding="utf-8")
    assert main(["solve", GEMM, "--machine", "h100", "--store", str(tmp_path / "s")]) == 2
    assert solves == []


def job(**more: object) -> Job:
    """The job of a solve of the example."""
    fields = {"id": "j", "key": entry_of().key, "kernel": "gemm", "spec": "bf16", "machine": "h100", "created": "2026"}
    return Job.model_validate({"state": "done"} | fields | more)


def test_a_service_solves_what_the_store_has_not(
    tmp_path: Path, solves: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["solve", GEMM, "--machine", "h100", "--json", "--store", str(tmp_path / "s")]
    with playing(refusal(404), answer(job().canonical()), entry_answer(entry_of())) as service:
        assert main([*words, "--server", service.address]) == 0
        out, err = capsys.readouterr()
        assert err.startswith(f"twill: solved by the service {service.address} in ")
    assert main(words) == 0
    assert capsys.readouterr().out == out
    assert solves == []


def test_a_service_that_is_not_there_does_not_stop_a_solve(
    solves: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["solve", GEMM, "--machine", "h100", "--json", "--server", dead_address()]) == 0
    assert "the kernel is solved here" in capsys.readouterr().err
    assert len(solves) == 1


@pytest.mark.parametrize(("kind", "code"), [("Infeasible", 3), ("BudgetExhausted", 4), ("TimeLimit", 4)])
def test_a_job_that_failed_ends_as_the_solve_would(
    kind: str, code: int, solves: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    problem = {"kind": kind, "message": "why not", "hint": "", "exit_code": 0}  # which is not believed
    failed = job(state="failed", problem=problem)
    with playing(refusal(404), answer(failed.canonical())) as service:
        assert main(["solve", GEMM, "--machine", "h100", "--json", "--server", service.address]) == code
    assert "why not" in capsys.readouterr().err
    assert solves == []


def test_an_address_that_is_none_is_bad_input(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["solve", GEMM, "--machine", "h100", "--server", "nowhere"]) == 2
    assert "is not the address of a service" in capsys.readouterr().err


def test_a_request_asks_for_everything_that_the_options_do() -> None:
    from twill.cli.store_lookup import request_of
    from twill.schedule.options import SolveOptions

    options = SolveOptions(
        normalize=50,
        budget=7.0,
        resource_limit=9,
        seed=3,
        pins=("acc@stage=1",),
        blocks=2,
        ii=4,
        strategy="paper",
        fuse=False,
    )
    assert SolveOptions(**dict(request_of(options))) == options
    assert request_of(options).asked == options.asked


def test_the_follower_says_bounds_once(monkeypatch: pytest.MonkeyPatch) -> None:
    from twill.cli.store_lookup import Follower

    said: list[str] = []
    monkeypatch.setattr("sys.stderr.isatty", lambda: True, raising=False)
    follower = Follower(said.append)
    running = job(state="running", bounds={"phase": "ii", "lower": 5, "upper": None, "seconds": 1.0})
    later = job(state="running", bounds={"phase": "length", "lower": 5, "upper": 9, "seconds": 2.0})
    for one in (job(state="queued"), running, running, later, job()):
        follower.report(one)
    assert said == ["job j: queued", "job j: running, 5 <= I", "job j: running, 5 <= length <= 9", "job j: done"]


def test_foreign_code_is_refused_in_one_line_and_the_schedules_kept(
    path: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(path)
    for number in range(3):
        store.put_artifact(entry_of().key, f"launch{number}", b"1")
    store.close()
    file, new = str(tmp_path / "all.twill"), str(tmp_path / "new")
    assert main(["store", "export", file, "--store", path]) == 0
    monkeypatch.setenv("TWILL_SIGNING_KEYS", str(tmp_path / "another"))
    assert main(["store", "import", file, "--store", new]) == 6
    out, err = capsys.readouterr()
    assert "2 schedules kept, 0 known already, 0 artifacts kept" in out
    assert re.fullmatch(r".*: artifact a.cu \w{12} is not kept, nor are 3 more: it is code that runs, .*\n", err)


def test_keys_are_listed_and_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TWILL_SIGNING_KEYS", str(tmp_path / "keys"))
    assert [main(["store", "keys", *more]) for more in ([], ["--new"], ["--new"])] == [0, 0, 0]
    out, err = capsys.readouterr()
    assert [line.split("  ")[1] for line in out.splitlines()] == ["signs, trusted", "signs, trusted", "trusted"]
    assert err.endswith("keys: 2 keys\n")


def test_entries_are_removed(path: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["store", "rm", entry_of().key[:9], "--store", path]) == 0
    assert capsys.readouterr().out.endswith(": 1 schedules removed\n")
    store = SqliteStore(path)
    assert (store.get(entry_of().key), store.get_artifact(entry_of().key, "a.cu")) == (None, None)
    store.close()
