"""What one process of a test run made, for the other processes of the same run: kernels that were read or compiled.

Nothing that Twill makes outlives the run, so nothing of it that is taken from here was made by other code. What NVRTC
makes of a text and Triton of a kernel is kept between runs, as Triton keeps what it compiles: `.builds` in the
repository, by all that it is made from. `TWILL_TEST_BUILDS` names another folder; empty, every run compiles everything.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import re
import shutil
import sys
import tempfile
import time
import zlib
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from twill.kernel.specialization import Specialization

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
FOLDER = "TWILL_TEST_RUN"  # the variable that names it
BUILDS = "TWILL_TEST_BUILDS"
DAYS = 14  # for which a build is kept that no run asks for
OWN_TESTS = "tests/codegen/compile/"  # these compile in every run
IMPORTED = re.compile(rb"\b(?:import|from)\s+(\w+)")
PLAIN = re.compile(r"[\w./-]+", re.ASCII)  # a path that MLIR writes as it is
FILE = "(the file of the kernel)"  # in a module that is kept


def begin() -> None:
    """In the process that a run begins with, before it starts others."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="twill-tests-")
        forget_old()


def end() -> None:
    """In the same process, when the others are done."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        shutil.rmtree(os.environ.pop(FOLDER), ignore_errors=True)


def once(name: str, make: Callable[[], T]) -> T:
    """What `make` gives, which is called in the process that asks first; outside of a run in every one."""
    if FOLDER not in os.environ:
        return make()
    path = Path(os.environ[FOLDER]) / f"{name}.pickle"
    if path.is_file():
        found: T = pickle.loads(path.read_bytes())
        return found
    made = make()
    _write(path, pickle.dumps(made))
    return made


def builds() -> Path | None:
    """Where builds are kept."""
    named = os.environ.get(BUILDS, str(ROOT / ".builds"))
    return Path(named) if named else None


def forget_old() -> None:
    """Builds that no run asked for."""
    folder = builds()
    for path in folder.glob("*") if folder else ():
        if time.time() - path.stat().st_mtime > DAYS * 86400:
            path.unlink(missing_ok=True)


def kept(name: str, make: Callable[[], T]) -> T:
    """What `make` gives, which is called in the run that asks first, or that asks after `DAYS`."""
    folder = builds()
    if folder is None or os.environ.get("PYTEST_CURRENT_TEST", "").startswith(OWN_TESTS):
        return once(name, make)
    path = folder / name
    content: bytes | None = None
    with suppress(FileNotFoundError):
        content = path.read_bytes()
    if content is None:  # what `make` raises has no other error behind it
        made = make()
        folder.mkdir(parents=True, exist_ok=True)
        _write(path, zlib.compress(pickle.dumps(made), 1))
        return made
    path.touch()
    found: T = pickle.loads(zlib.decompress(content))
    return found


def _write(path: Path, content: bytes) -> None:
    """At once: other processes read it."""
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(content)
    partial.replace(path)


@cache
def triton_as_asked() -> tuple[str, ...]:
    """Triton's version, and what asks it for modules of kernels."""
    import triton

    from twill.kernel import gpu_free, importing, ttir

    return triton.__version__, *map(inspect.getsource, (gpu_free, importing, ttir))


@cache
def compiler() -> str:
    """NVRTC's version, that of the package which calls it, and what it is asked."""
    from cuda import bindings
    from cuda.bindings import nvrtc

    from twill.codegen.compile import nvrtc as asking

    return repr((nvrtc.nvrtcVersion(), bindings.__version__, inspect.getsource(asking)))


def made_by_nvrtc(kind: str, given: object, make: Callable[[], T]) -> T:
    """What `make` has NVRTC make of what is given, a text and its options, as `kept` has it."""
    asked = hashlib.sha256(repr((given, compiler())).encode()).hexdigest()
    return kept(f"{kind}-{asked}", make)


def share_modules() -> None:
    """Triton's module of a kernel of the repository, whose files stay as they are, is made once, and so is its hash of
    itself, half a gigabyte, which it wants before it compiles anything. Of a file that a test writes and that imports
    nothing but Triton, it is kept between runs by its text."""
    from triton.runtime import cache

    from twill.kernel import ttir
    from twill.tile.translate import translate

    compile_kernel, hash_triton = ttir.ttir, cache.triton_key
    cache.triton_key = lambda: once("triton-key", hash_triton)

    def shared(spec: Specialization) -> str:
        path = Path(spec.file).resolve()
        if not path.is_relative_to(ROOT):
            return of_one_file(spec, path)
        asked = hashlib.sha256(repr((spec, str(path))).encode()).hexdigest()
        return once(f"ttir-{asked}", lambda: compile_kernel(spec))

    def of_one_file(spec: Specialization, path: Path) -> str:
        text = path.read_bytes() if path.is_file() else b""
        if str(path) != spec.file or not PLAIN.fullmatch(spec.file) or set(IMPORTED.findall(text)) != {b"triton"}:
            return compile_kernel(spec)
        given = text, repr(replace(spec, file="")), *triton_as_asked()
        asked = hashlib.sha256(repr(given).encode()).hexdigest()
        return kept(f"ttir-{asked}", lambda: compile_kernel(spec).replace(spec.file, FILE)).replace(FILE, spec.file)

    translate.ttir = shared  # type: ignore[attr-defined]


def share_builds() -> None:
    """What NVRTC makes of a text is made once: many tests emit the same kernels."""
    from twill.codegen.compile import nvrtc

    compile_text = nvrtc._nvrtc

    def shared(
        text: str, arch: str, defines: dict[str, str], fused: bool = True, again: bool = False
    ) -> tuple[bytes, str, str]:
        if sys.modules.get("cuda.bindings", nvrtc) is None:  # a test that has no compiler
            return compile_text(text, arch, defines, fused, again)
        given = text, arch, sorted(defines.items()), fused, again
        return made_by_nvrtc("nvrtc", given, lambda: compile_text(text, arch, defines, fused, again))

    nvrtc._nvrtc = shared
