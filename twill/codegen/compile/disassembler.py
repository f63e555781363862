"""The disassembler: where it is, if anywhere, and what it prints."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from functools import cache
from importlib.util import find_spec
from pathlib import Path

_NAME = "nvdisasm"


@cache
def find_disassembler() -> Path | None:
    """nvdisasm of a CUDA wheel or toolkit, of Triton, or on the PATH; None if there is none."""
    return next((path for path in _candidates() if path.is_file()), None)


def disassemble(cubin: bytes, encoded: bool = False) -> str | None:
    """SASS of a cubin with the places of inlined code; None without a disassembler or if it cannot read the cubin.

    encoded: with the bits of each instruction instead of places."""
    tool = find_disassembler()
    if tool is None:
        return None
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "kernel.cubin"
        path.write_bytes(cubin)
        done = subprocess.run(
            [str(tool), "-c", "-hex" if encoded else "-gi", str(path)], capture_output=True, text=True, check=False
        )
    return done.stdout if done.returncode == 0 else None


def _candidates() -> Iterator[Path]:
    for package, inside in (("nvidia", "*/bin"), ("triton", "backends/nvidia/bin")):
        spec = find_spec(package)
        for root in (spec.submodule_search_locations or ()) if spec else ():
            yield from sorted(Path(root).glob(f"{inside}/{_NAME}"), reverse=True)
    if on_path := shutil.which(_NAME):
        yield Path(on_path)
    yield Path("/usr/local/cuda/bin") / _NAME
