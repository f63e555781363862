"""Promises of the distribution: everything is in the wheel, and an editable install finds it all too."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import venv
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import ROOT

PROJECT: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCES = {"twill": ROOT / "twill", "twill.machines": ROOT / "machines", "twill.server": ROOT / "server"}
IMPORT_NAMES = {
    "z3-solver": "z3", "cuda-bindings": "cuda", "prometheus-client": "prometheus_client",
    "opentelemetry-api": "opentelemetry", "psycopg-pool": "psycopg_pool", "pydantic-core": "pydantic_core",
}  # fmt: skip
NOT_IMPORTED = {"nvidia-cuda-nvdisasm", "nvidia-cuda-nvrtc"}  # loaded or run by other means


def names_of(requirements: list[str]) -> set[str]:
    """Import names of requirements."""
    names = {re.split(r"[<>=\[]", text)[0] for text in requirements} - NOT_IMPORTED
    return {IMPORT_NAMES.get(name, name).lower() for name in names}


def test_every_import_is_declared() -> None:
    project = PROJECT["project"]
    needed = names_of(project["dependencies"])
    extras = ("emit", "postgres", "server", "torch", "traces")
    optional = names_of([text for extra in extras for text in project["optional-dependencies"][extra]])
    used = {}
    for root in SOURCES.values():
        for path in root.rglob("*.py"):
            for name in imported(path):
                used[name.lower()] = path.relative_to(ROOT)
    standard = {name.lower() for name in sys.stdlib_module_names}
    undeclared = {name: path for name, path in used.items() if name not in needed | optional | standard | {"twill"}}
    assert undeclared == {}
    assert needed <= set(used)


def imported(path: Path) -> set[str]:
    """Top-level names that a file imports."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(alias.name.split(".")[0] for alias in node.names)
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module.split(".")[0])
    return found


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of what a build reads, so that building leaves nothing behind here."""
    copy = tmp_path_factory.mktemp("checkout")
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, copy)
    for root in SOURCES.values():
        shutil.copytree(root, copy / root.name, ignore=shutil.ignore_patterns("__pycache__"))
    return copy


@pytest.fixture(scope="module")
def wheel(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the setuptools at hand."""
    target = tmp_path_factory.mktemp("wheel")
    pip("wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(target), str(checkout))
    (built,) = target.glob("twill_gpu-*.whl")
    return built


def pip(*words: str) -> None:
    """Run pip, away from any index."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run([*command, *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def python(interpreter: str, directory: Path, path: str, *words: str) -> str:
    """What a Python elsewhere prints; `path`: where it finds packages besides its own."""
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONSAFEPATH": "1"}
    done = subprocess.run(
        [interpreter, *words], cwd=directory, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_has_all_files_and_claims_only_its_own_name(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    for package, root in SOURCES.items():
        place = package.replace(".", "/")
        wanted = {path for path in root.rglob("*") if path.is_file() and "__pycache__" not in path.parts}
        assert {f"{place}/{path.relative_to(root).as_posix()}" for path in wanted} - names == set()
    assert {name.split("/")[0] for name in names if "dist-info" not in name} == {"twill"}
    assert any(name.endswith("licenses/LICENSE") for name in names)


def test_the_wheel_works_away_from_the_checkout(wheel: Path, tmp_path: Path) -> None:
    site = tmp_path / "site"
    zipfile.ZipFile(wheel).extractall(site)
    path = os.pathsep.join([str(site), sysconfig.get_path("purelib")])
    out = python(sys.executable, tmp_path, path, "-m", "twill", "machines", "list")
    assert "h100" in out
    where = python(
        sys.executable,
        tmp_path,
        path,
        "-c",
        "import twill.machines as m, twill.server as s; print(m.__file__, s.__file__)",
    )
    assert where.split() == [str(site / "twill" / room / "__init__.py") for room in ("machines", "server")]


def test_an_editable_install_finds_the_rooms_at_the_top(checkout: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=False)
    interpreter = str(tmp_path / "env" / "bin" / "python")
    here = sysconfig.get_path("purelib")
    command = ["--python", interpreter, "install", "--no-deps", "--no-build-isolation", "--editable", str(checkout)]
    environment = {**os.environ, "PYTHONPATH": here}
    done = subprocess.run(
        [sys.executable, "-m", "pip", "--disable-pip-version-check", *command],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    code = "import twill, twill.machines as m, twill.server as s; print(twill.__file__, m.__file__, s.__file__)"
    where = python(interpreter, tmp_path, "", "-c", code).split()
    assert where == [str(checkout / room / "__init__.py") for room in ("twill", "machines", "server")]
    assert "h100" in python(interpreter, tmp_path, here, "-m", "twill", "machines", "list")
    script = subprocess.run(
        [tmp_path / "env" / "bin" / "twill", "machines", "list"], capture_output=True, text=True, check=False
    )
    assert script.returncode == 0 and "h100" in script.stdout
