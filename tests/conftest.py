"""What every test may use: the repository's root, golden files, and kernels written into a file."""

from __future__ import annotations

import ctypes
import gc
import importlib
import os
import signal
import sys
import textwrap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests import run_cache
from tests.browser import chromium
from tests.longest_first import longest_first
from twill.cli.entry import collect_seldom, one_thread_for_products
from twill.store.sqlite import SqliteStore

if TYPE_CHECKING:
    from tests.jit_kernels import World

ROOT = Path(__file__).resolve().parent.parent
TESTS = ROOT / "tests"
GOLDEN = TESTS / "golden"

# Of glibc's malloc.h, and bytes: from where on an allocation has pages of its own, at most.
M_TRIM_THRESHOLD, M_TOP_PAD, M_MMAP_THRESHOLD = -1, -2, -3
LARGEST_FROM_HEAP = 1 << 25

# These need a browser, which is no Python package: they are tests where there is one.
collect_ignore = [] if chromium() else ["server/test_browser.py"]


def pytest_configure() -> None:
    """Ctrl-C works in the tests and in what they start, also in a background job whose shell ignores it.

    No property measures time. No test looks into the store of whoever runs it, or leaves something there.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)
    hypothesis.settings.register_profile("untimed", deadline=None)  # another process may have the core
    hypothesis.settings.load_profile("untimed")
    os.environ["TWILL_STORE"] = "off"
    os.environ.pop("TWILL_SERVER", None)
    os.environ.pop("TWILL_TOKEN", None)
    one_thread_for_products()  # as every command does; the processes of a run have one core each
    keep_memory()
    collect_seldom()
    run_cache.begin()
    gc.disable()  # until all tests are there: what is made until then stays


def keep_memory() -> None:
    """What is freed stays with the process: the system clears pages of large arrays otherwise, over and over."""
    with suppress(OSError, AttributeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(M_MMAP_THRESHOLD, LARGEST_FROM_HEAP)
        mallopt(M_TRIM_THRESHOLD, 8 * LARGEST_FROM_HEAP)
        mallopt(M_TOP_PAD, LARGEST_FROM_HEAP)


def pytest_collection(session: pytest.Session) -> None:
    """Each process of a run begins with other files, so that none compiles what another one has compiled already."""
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if not number or sys.flags.dont_write_bytecode:
        return
    asked = [Path(one.partition("::")[0]).resolve() for one in session.config.args]
    files = [path for path in sorted(TESTS.rglob("test_*.py")) if any(path.is_relative_to(one) for one in asked)]
    for path in files[int(number) :: int(os.environ["PYTEST_XDIST_WORKER_COUNT"])]:
        with suppress(Exception):  # which is told where its tests are collected
            importlib.import_module(".".join(path.relative_to(ROOT).with_suffix("").parts))
    with suppress(ImportError):  # Hypothesis, too, reads all sources, and keeps what it found in a file for each
        importlib.import_module("hypothesis.internal.conjecture.providers")._get_local_constants()


def pytest_collection_finish() -> None:
    """Modules and tests are looked through no more for what may go."""
    gc.enable()
    gc.freeze()


def pytest_unconfigure() -> None:
    """What processes of the run shared goes. Nothing stays frozen: nanobind would tell of what is left at the end."""
    gc.unfreeze()
    run_cache.end()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Where processes share the run, they begin with its longest files."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        longest_first(items)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write what the tests got into tests/golden")


@pytest.fixture(autouse=True, scope="session")
def builds() -> None:
    """Processes of a run share what NVRTC and Triton make."""
    run_cache.share_builds()
    run_cache.share_modules()


@pytest.fixture(autouse=True, scope="session")
def signing_keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the keys of whoever runs the tests are not."""
    path = tmp_path_factory.mktemp("keys") / "signing.keys"
    os.environ["TWILL_SIGNING_KEYS"] = str(path)
    return path


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """Compares a text with tests/golden/<name>, or writes it there under --update-golden."""

    def check(name: str, text: str) -> None:
        path = GOLDEN / name
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden file {name}: run pytest --update-golden"
        assert text == path.read_text(encoding="utf-8")

    return check


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SqliteStore]:
    """An empty store in a file."""
    one = SqliteStore(tmp_path / "deep" / "store.sqlite3")
    yield one
    one.close()


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[World]:
    """Triton and CUDA as tests of `twill.jit` have them, with an empty store. Needs PyTorch."""
    from tests import jit_kernels

    with jit_kernels.world(monkeypatch, tmp_path, caplog) as made:
        yield made


@pytest.fixture
def stored(world: World) -> World:
    """The same, but the store has the kernel that `World.call` asks for."""
    world.keep(world.key())
    return world


@pytest.fixture
def at_root(monkeypatch: pytest.MonkeyPatch) -> Path:
    """Runs the test in the repository's root, so that paths in documents are relative to it."""
    monkeypatch.chdir(ROOT)
    return ROOT


@pytest.fixture
def kernel_file(tmp_path: Path) -> Callable[..., str]:
    """Writes a kernel file (after the usual two imports, so its first line is line 3) and its sidecar."""

    def write(source: str, sidecar: str | None = None, name: str = "kernel.py") -> str:
        path = tmp_path / name
        head = "import triton\nimport triton.language as tl\n"
        path.write_text(head + textwrap.dedent(source).lstrip("\n"), encoding="utf-8")
        if sidecar is not None:
            path.with_suffix(".twill.toml").write_text(textwrap.dedent(sidecar).lstrip("\n"), encoding="utf-8")
        return str(path)

    return write
