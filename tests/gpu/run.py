"""Builds the kernels of this folder and checks them on a GPU against PyTorch in float32 or float64.

`python -m tests.gpu.run build DIR` needs no GPU. `python -m tests.gpu.run run [DIR]` needs one, and builds what DIR
lacks. `--small` leaves out the large sizes and speeds, for compute-sanitizer.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.gpu.builds import BUILDS, GpuBuild
from twill.runtime.module import LoadedModule, load_module

ARCH = "sm_90a"


@dataclass(frozen=True)
class Row:
    """A line of the table. error: relative (Frobenius) or a count of wrong elements; ok: within its bound."""

    name: str
    case: str
    error: float
    ok: bool
    note: str = ""


def build_all(folder: Path) -> None:
    """Every cubin into `folder`."""
    folder.mkdir(parents=True, exist_ok=True)
    for build in BUILDS:
        start = time.perf_counter()
        made = build.compile()
        (folder / f"{build.name}.cubin").write_bytes(made.cubin)
        registers = ", ".join(f"{f.function} {f.registers}" for f in made.facts)
        print(f"{build.name:32s} {time.perf_counter() - start:5.2f} s  registers: {registers}", flush=True)


def loader(folder: Path | None) -> Callable[[GpuBuild], LoadedModule]:
    """Modules from `folder`, or compiled here."""

    def load(build: GpuBuild) -> LoadedModule:
        path = folder / f"{build.name}.cubin" if folder else None
        return load_module(path.read_bytes() if path and path.is_file() else build.compile().cubin, ARCH)

    return load


def run_all(folder: Path | None, small: bool) -> bool:
    """Every check; prints the table; whether all hold."""
    from tests.gpu import check_copies, check_fragments, check_multiply, check_refusals

    load = loader(folder)
    rows: list[Row] = []
    checks = {
        "fragments": check_fragments.rows(load),
        "copies": check_copies.rows(load),
        "multiply": check_multiply.rows(load, small),
        "refusals": check_refusals.rows(load),
    }
    for name, check in checks.items():
        rows += _guarded(check, name)
    for row in rows:
        print(f"{'ok  ' if row.ok else 'FAIL'} {row.name:28s} {row.case:34s} {row.error:9.2e}  {row.note}")
    failed = sum(not row.ok for row in rows)
    print(f"{len(rows) - failed} passed, {failed} failed")
    return not failed


def _guarded(rows: Iterator[Row], name: str) -> Iterator[Row]:
    """A check that raises is one more failed row; the device may be unusable after it."""
    try:
        yield from rows
    except Exception as error:  # the table must be printed whatever happened
        yield Row(name, "raised", float("nan"), False, f"{type(error).__name__}: {error}")


def main() -> int:
    """See the module."""
    action, *paths = [word for word in sys.argv[1:] if word != "--small"]
    folder = Path(paths[0]) if paths else None
    if action == "build":
        build_all(folder or Path("build/gpu"))
        return 0
    return 0 if run_all(folder, "--small" in sys.argv) else 1


if __name__ == "__main__":
    sys.exit(main())
