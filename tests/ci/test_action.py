"""The GitHub Action of this repository (action.yml), its steps run by bash in a repository that uses it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.conftest import ROOT

EXPRESSION = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
CHANGED = ("y = (x - mean) * rstd * w + b", "y = tl.exp((x - mean) * rstd * w + b)")


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
    return found


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with one kernel of one specialization."""
    place = tmp_path / "checkout"
    (place / "kernels").mkdir(parents=True)
    for end in (".py", ".twill.toml"):
        text = (ROOT / "examples" / f"layer_norm{end}").read_text(encoding="utf-8")
        if end == ".twill.toml":
            text = "[[specialization]]".join(text.split("[[specialization]]")[:2])
        (place / "kernels" / f"layer_norm{end}").write_text(text, encoding="utf-8")
    commit(place, "init", "--quiet")
    return place


def commit(place: Path, *first: str) -> None:
    """Run a command of git, and commit all there is."""
    who = ["-c", "user.name=ci", "-c", "user.email=ci@localhost"]
    for command in (first, ("add", "--all"), ("commit", "--quiet", "--allow-empty", "--message=as it is")):
        subprocess.run(["git", *who, *command], cwd=place, check=True)


def perform(action: dict[str, Any], place: Path, name: str, **inputs: str) -> subprocess.CompletedProcess[str]:
    """Run a step as GitHub does, with `twill` on the path and a `python` that writes down what it is asked for."""
    programs = place.parent / "bin"
    programs.mkdir(exist_ok=True)
    for program, text in (
        ("twill", f'exec "{sys.executable}" -m twill "$@"'),
        ("python", 'printf "%s\\n" "$@" > "$RUNNER_TEMP/installed"'),
    ):
        (programs / program).write_text(f"#!/bin/bash\n{text}\n", encoding="utf-8")
        (programs / program).chmod(0o755)
    values = {f"inputs.{key}": one["default"] for key, one in action["inputs"].items()}
    values |= {f"inputs.{key.replace('_', '-')}": value for key, value in inputs.items()}
    values |= {"github.action_path": str(ROOT), "runner.temp": str(place.parent)}
    step = next(one for one in action["runs"]["steps"] if one.get("name") == name)
    given = {key: EXPRESSION.sub(lambda found: values[found[1]], text) for key, text in step["env"].items()}
    return subprocess.run(
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],
        cwd=place, capture_output=True, text=True,
        env={**os.environ, "PATH": f"{programs}:{os.environ['PATH']}", "PYTHONPATH": str(ROOT),
             "RUNNER_TEMP": str(place.parent), "GITHUB_ACTIONS": "true", **given},
    )  # fmt: skip


HOLD = "Hold the schedules against the lock file"


def test_a_repository_that_uses_the_action_is_held_to_its_lock_file(action: dict[str, Any], repository: Path) -> None:
    missing = perform(action, repository, HOLD)
    assert missing.returncode == 2 and "schedules.lock" in missing.stdout + missing.stderr
    first = perform(action, repository, HOLD, frozen="false", machines="h100")
    assert first.returncode == 0 and "1 new of 1 schedules" in first.stdout
    commit(repository, "status", "--short")
    kernel = repository / "kernels" / "layer_norm.py"
    text = kernel.read_text(encoding="utf-8")
    assert CHANGED[0] in text
    kernel.write_text(text.replace(*CHANGED), encoding="utf-8")
    worse = perform(action, repository, HOLD)
    assert worse.returncode == 6 and "::error file=kernels/layer_norm.py,line=" in worse.stdout
    assert "<failure" in (repository / "schedules.xml").read_text(encoding="utf-8")
    assert (repository.parent / "twill" / "schedules.sqlite3").exists()


def test_the_action_installs_itself_and_what_kernels_import(action: dict[str, Any], repository: Path) -> None:
    assert perform(action, repository, "Install Twill", packages="torch numpy").returncode == 0
    asked = (repository.parent / "installed").read_text(encoding="utf-8").splitlines()
    assert asked[:3] == ["-m", "pip", "install"] and asked[-3:] == [str(ROOT), "torch", "numpy"]


def test_no_input_of_the_action_is_part_of_a_script(action: dict[str, Any], repository: Path) -> None:
    assert not any(EXPRESSION.search(step.get("run", "")) for step in action["runs"]["steps"])
    done = perform(
        action, repository, HOLD, kernels="$(touch stolen) `touch stolen`;touch stolen", lock="; touch stolen"
    )
    assert done.returncode == 2 and not (repository / "stolen").exists()
    assert perform(action, repository, HOLD, frozen="yes").returncode == 2
