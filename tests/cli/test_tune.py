"""Promises of `twill tune` and `twill emit --tuned`: the ranking, the evidence that is kept, and what takes it up."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from twill.cli import main, tune
from twill.codegen import emission
from twill.tune.evidence import Tuning
from twill.tune.measure import CandidateTimes

pytestmark = pytest.mark.usefixtures("at_root")

WORDS = ["examples/gemm.py", "--machine", "h100", "--blocks", "2"]
TILES = ["--tile", "BLOCK_M=128", "--tile", "BLOCK_N=128,256", "--tile", "GROUP_M=8", "--size", "M=8192,N=8192,K=8192"]


@pytest.fixture
def builds(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Nothing is compiled; names of what was to be."""
    names: list[str] = []

    def emit_solved(kernel: Any, machine: Any, solve: Any, cluster: int, fixed: bool) -> Any:
        schedule = solve(kernel.graph, machine)
        names.append(dict(kernel.specialization.constexprs)["BLOCK_N"])
        return SimpleNamespace(schedule=schedule, files=lambda: {"manifest.json": "{}"})

    monkeypatch.setattr(emission, "emit_solved", emit_solved)
    return names


def timed(wide: float) -> Any:
    """Measured times: 1 ms, tiles of 256 columns `wide` times that."""

    def measured_here(explored: Any, built: Any, machine: Any) -> CandidateTimes:
        return CandidateTimes({name: [wide if "BLOCK_N=256" in name else 1.0] for name in built})

    return measured_here


def test_without_a_gpu_candidates_are_ranked_emitted_and_not_kept(
    builds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "gpu_here", lambda machine: False)
    assert main(["tune", *WORDS, *TILES, "--measure", "1", "--out", str(tmp_path / "o")]) == 0
    out = capsys.readouterr().out
    assert "as specialized" in out and "BLOCK_N=256" in out and "nothing was measured" in out
    assert len(builds) == 2
    found = Tuning.parse((tmp_path / "o" / "tuning.json").read_text())
    assert (found.gain, found.winner) == (None, 0)
    assert (tmp_path / "o" / "01" / "manifest.json").is_file()


@pytest.mark.parametrize(("more", "fixed"), [((), False), (("--pin", "a<b"), True), (("--ii", "1024"), True)])
def test_a_schedule_that_was_asked_for_is_emitted_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...], fixed: bool
) -> None:
    asked: set[bool] = set()

    def emit_solved(kernel: Any, machine: Any, solve: Any, cluster: int, fixed: bool) -> Any:
        asked.add(fixed)
        return SimpleNamespace(schedule=solve(kernel.graph, machine), files=lambda: {"manifest.json": "{}"})

    monkeypatch.setattr(emission, "emit_solved", emit_solved)
    monkeypatch.setattr(tune, "gpu_here", lambda machine: False)
    tile = ["--tile", "BLOCK_M=128", "--tile", "BLOCK_N=256", "--tile", "GROUP_M=8", "--size", "M=8192,N=8192,K=8192"]
    assert main(["tune", *WORDS, *tile, *more, "--out", str(tmp_path / "o"), "--no-store"]) == 0
    assert asked == {fixed}


def test_the_winner_is_kept_and_emitted_from_the_store(
    builds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "measured_here", timed(0.8))
    monkeypatch.setattr(tune, "device_name", lambda: "a GPU")
    store = ["--store", str(tmp_path / "s")]
    assert main(["tune", *WORDS, *TILES, *store, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["gain"] == pytest.approx(1.25)
    assert "BLOCK_N=256" in found["tried"][found["winner"]]["name"]
    assert main(["emit", *WORDS, "--tuned", "--ir", *store]) == 0
    assert "64x256" in capsys.readouterr().out


def test_clusters_that_win_are_emitted_from_the_store(
    builds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def measured_here(explored: Any, built: Any, machine: Any) -> CandidateTimes:
        return CandidateTimes({name: [0.5 if "clusters of 2" in name else 1.0] for name in built})

    monkeypatch.setattr(tune, "measured_here", measured_here)
    monkeypatch.setattr(tune, "device_name", lambda: "a GPU")
    store = ["--store", str(tmp_path / "s")]
    assert main(["tune", *WORDS, *TILES, *store]) == 0
    assert "clusters of 2 is 2.000 times as fast as the default" in capsys.readouterr().out
    assert main(["emit", *WORDS, "--tuned", "--ir", *store]) == 0
    assert "cluster: 2 CTAs, neighbours along axis 0" in capsys.readouterr().out


def test_the_default_stays_if_nothing_is_faster(
    builds: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tune, "measured_here", timed(1.3))
    monkeypatch.setattr(tune, "device_name", lambda: "a GPU")
    assert main(["tune", *WORDS, *TILES, "--no-store"]) == 0
    assert "the default is the fastest" in capsys.readouterr().out


def explored(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `twill tune --out` leaves where there is no GPU; schedules are the documents that were emitted."""
    monkeypatch.setattr(tune, "gpu_here", lambda machine: False)
    emit_solved = emission.emit_solved

    def with_schedule(kernel: Any, machine: Any, solve: Any, cluster: int, fixed: bool) -> Any:
        made = emit_solved(kernel, machine, solve, cluster=cluster, fixed=fixed)
        files = {**made.files(), "schedule.json": made.schedule.canonical() + "\n"}
        return SimpleNamespace(schedule=made.schedule, files=lambda: files)

    monkeypatch.setattr(emission, "emit_solved", with_schedule)
    assert main(["tune", *WORDS, *TILES, "--out", str(folder), "--no-store"]) == 0


def test_what_was_explored_elsewhere_is_measured_here_and_kept(
    builds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    explored(tmp_path / "o", monkeypatch)
    count, seen = len(builds), []

    def measure(folders: Any, cases: Any, default: str, original: Any) -> CandidateTimes:
        seen.append((list(folders), [[case.grid for case in cases[name]] for name in folders], default))
        return CandidateTimes({name: [0.5 if "BLOCK_N=256" in name else 1.0] for name in folders})

    monkeypatch.setattr(tune, "gpu_here", lambda machine: True)
    monkeypatch.setattr(tune, "device_name", lambda: "a GPU")
    monkeypatch.setattr("twill.tune.measure.measure", measure)
    store = ["--store", str(tmp_path / "s")]
    capsys.readouterr()
    assert main(["tune", *WORDS, "--from", str(tmp_path / "o"), *store]) == 0
    assert "2.000 times as fast as the default" in capsys.readouterr().out
    ((names, grids, default),) = seen
    assert default == names[0] and names[2] == f"{names[1]}, clusters of 2"
    assert grids == [[(4096,)], [(2048,)], [(2048,)]]
    assert len(builds) == count  # nothing is solved or emitted again
    found = Tuning.parse((tmp_path / "o" / "tuning.json").read_text())
    assert (found.gain, found.device, found.schedule.kernel) == (2.0, "a GPU", "gemm")
    assert main(["emit", *WORDS, "--tuned", "--ir", *store]) == 0
    assert "64x256" in capsys.readouterr().out


def test_a_tuning_of_another_kernel_or_of_none_is_refused(
    builds: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    explored(tmp_path / "o", monkeypatch)
    words = ["tune", "examples/gemm.py", "--spec", "bf16-wide", "--machine", "h100", "--from"]
    assert main([*words, str(tmp_path / "o")]) == 2
    assert "a tuning of gemm (bf16) for h100, not of this kernel" in capsys.readouterr().err
    assert main([*words, str(tmp_path)]) == 2
    assert "no tuning.json that can be read" in capsys.readouterr().err


def test_a_kernel_that_nobody_tuned_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["emit", *WORDS, "--tuned", "--ir", "--store", str(tmp_path / "s")]) == 2
    assert "twill tune examples/gemm.py --spec bf16" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["BLOCK_M", "BLOCK_M=", "BLOCK_M=0", "BLOCK_M=a", "=64"])
def test_a_flag_that_is_no_list_of_values_is_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["tune", *WORDS, "--tile", text]) == 2
    assert "--tile BLOCK_M=64,128" in capsys.readouterr().err
