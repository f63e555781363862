"""Measurements one after the other, in the time there is, and on from there the next time."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from benchmarks import everything
from benchmarks.everything import FAILED, TIME_OVER, chosen, run
from benchmarks.everything_steps import MEASUREMENTS, Measurement, Step

TELL = "python -c \"open('{{place}}/../order', 'a').write('{name} ')\""


def told(name: str, *, gpu: bool = False, seconds: int = 1) -> Step:
    """A step that writes its name behind those of the steps that ended before."""
    return Step(TELL.replace("{name}", name).replace("{{place}}", "{place}"), seconds, gpu)


def order(place: Path) -> list[str]:
    """Of the steps that ended."""
    return (place / "order").read_text().split()


def test_what_is_measured_comes_in_order_behind_what_it_needs(tmp_path: Path) -> None:
    asked = (
        Measurement("one", "", (told("emit-one"), told("one", gpu=True))),
        Measurement("two", "", (told("two", gpu=True), told("two-again", gpu=True))),
    )
    assert run(asked, tmp_path, "h200", 60) == 0
    steps = order(tmp_path)
    assert sorted(steps) == ["emit-one", "one", "two", "two-again"]
    assert steps.index("emit-one") < steps.index("one") and steps.index("two") < steps.index("two-again")


def test_two_measurements_never_have_the_gpu_at_once(tmp_path: Path) -> None:
    alone = "python -c \"import os, time; os.mkdir('{place}/../gpu'); time.sleep(0.3); os.rmdir('{place}/../gpu')\""
    asked = tuple(Measurement(name, "", (Step(alone, 1, gpu=True),)) for name in ("one", "two", "three"))
    assert run(asked, tmp_path, "h200", 60) == 0


def test_a_step_that_has_ended_is_not_done_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    short = Measurement("short", "", (told("short", gpu=True),))
    long = Measurement("long", "", (told("emit"), told("long", gpu=True, seconds=500)))
    assert run((short, long), tmp_path, "h200", 20) == TIME_OVER
    assert sorted(order(tmp_path)) == ["emit", "short"]
    assert "left for the next time: long.1" in capsys.readouterr().out
    with (tmp_path / "done.jsonl").open("a") as record:
        record.write('{"step": "cut o')  # the machine was taken away
    assert run((short, long), tmp_path, "h200", 600) == 0
    assert sorted(order(tmp_path)) == ["emit", "long", "short"]


def test_what_failed_is_said_and_runs_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = (
        Measurement(
            "broken", "", (Step("python -c \"print('why'); raise SystemExit(7)\"", 1), told("never", gpu=True))
        ),
        Measurement("right", "", (told("right", gpu=True),)),
    )
    assert run(asked, tmp_path, "h200", 60) == FAILED
    assert order(tmp_path) == ["right"]
    assert "broken.0" in capsys.readouterr().out
    assert (tmp_path / "log" / "broken.0.txt").read_text() == "why\n"
    assert [json.loads(line)["code"] for line in (tmp_path / "done.jsonl").read_text().splitlines()].count(7) == 1
    mended = (Measurement("broken", "", (told("mended"), told("behind", gpu=True))), asked[1])
    assert run(mended, tmp_path, "h200", 60) == 0
    assert order(tmp_path) == ["right", "mended", "behind"]


def test_what_still_runs_when_the_time_is_over_is_ended(tmp_path: Path) -> None:
    sleeper = Measurement("sleeper", "", (Step('python -c "import time; time.sleep(60)"', 1, gpu=True),))
    began = time.monotonic()
    assert run((sleeper,), tmp_path, "h200", 1.5) == TIME_OVER
    assert time.monotonic() - began < 30
    assert not (tmp_path / "done.jsonl").exists()


def test_names_that_are_none_are_refused() -> None:
    with pytest.raises(ValueError, match="no measurement is called nothing"):
        chosen("memory,nothing")
    assert [one.name for one in chosen("gemm,memory")] == ["memory", "gemm"]


@pytest.mark.parametrize("one", MEASUREMENTS, ids=lambda one: one.name)
def test_every_command_is_one_of_this_repository(one: Measurement) -> None:
    for step in one.steps:
        words = step.words.format(place="build/here", machine="h200").split()
        assert words[:2] == ["python", "-m"]
        assert (everything.ROOT / f"{words[2].replace('.', '/')}.py").is_file() or (
            everything.ROOT / words[2].replace(".", "/") / "__main__.py"
        ).is_file()
