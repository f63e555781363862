"""What one process of a test run made, for the other processes of the same run: kernels that were read or compiled.

Nothing outlives the run, so nothing that is taken from here was made by other code.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from twill.kernel.specialization import Specialization

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent
FOLDER = "TWILL_TEST_RUN"  # the variable that names it


def begin() -> None:
    """In the process that a run begins with, before it starts others."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        os.environ[FOLDER] = tempfile.mkdtemp(prefix="twill-tests-")


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
    partial = path.with_suffix(f".{os.getpid()}")
    partial.write_bytes(pickle.dumps(made))
    partial.replace(path)
    return made


def share_modules() -> None:
    """Triton's module of a kernel of the repository, whose files stay as they are, is made once, and so is its hash of
    itself, half a gigabyte, which it wants before it compiles anything."""
    from triton.runtime import cache

    from twill.kernel import ttir
    from twill.tile.translate import translate

    compile_kernel, hash_triton = ttir.ttir, cache.triton_key
    cache.triton_key = lambda: once("triton-key", hash_triton)

    def shared(spec: Specialization) -> str:
        path = Path(spec.file).resolve()
        if not path.is_relative_to(ROOT):
            return compile_kernel(spec)
        asked = hashlib.sha256(repr((spec, str(path))).encode()).hexdigest()
        return once(f"ttir-{asked}", lambda: compile_kernel(spec))

    translate.ttir = shared  # type: ignore[attr-defined]


def share_builds() -> None:
    """What NVRTC makes of a text is made once: many tests emit the same kernels."""
    from twill.codegen.compile import nvrtc

    compile_text = nvrtc._nvrtc

    def shared(text: str, arch: str, defines: dict[str, str], fused: bool = True) -> tuple[bytes, str, str]:
        if sys.modules.get("cuda.core", nvrtc) is None:  # a test that has no compiler
            return compile_text(text, arch, defines, fused)
        asked = hashlib.sha256(repr((text, arch, sorted(defines.items()), fused)).encode()).hexdigest()
        return once(f"nvrtc-{asked}", lambda: compile_text(text, arch, defines, fused))

    nvrtc._nvrtc = shared
