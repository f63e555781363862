"""Kernels whose atomic operations are read or order something, on a GPU beside Triton's: tickets, locks, flags.

    python -m tests.gpu.elected build DIR     # anywhere: emits the kernels of tests/elected_kernels.py
    python -m tests.gpu.elected run DIR       # on a GPU; exit code 1 if one is not as it should be

Every program instance reads the same row of small whole numbers, so that sums are exact and what instances store is the
same numbers in whatever order they come; results are sorted and must be those of Triton's kernel in each of 20
launches. Where what is stored is another in another order, it is enough that a launch ends.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.elected_kernels import KERNELS, LOOPS, TILES, ElectedKernel

ALL = {**KERNELS, **LOOPS, **TILES}
LAUNCHES = 20
INSTANCES = 200
FEWER = {
    "the last one reduces": 16, "a flag that is read": 8, "one waits for the others": 8, "slots of a histogram": 32,
    "in the opposite order": 100, "bits that were set": 30,
}  # fmt: skip
"""Of more instances the kernel does not work, in any compiler, or some have to be on the GPU at once."""
ORDERED = ("rows and columns", "bits that were set", "exchanged with a constant", "a sum, and where it goes")


def folder(place: Path, name: str) -> Path:
    """Of a kernel."""
    return place / name.replace(" ", "-").replace(",", "")


def build(place: Path) -> int:
    """Emit every kernel; how many were refused."""
    from twill.cli.entry import main as twill

    failed = 0
    for name, kernel in ALL.items():
        file = folder(place, name) / "kernel.py"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"import triton\nimport triton.language as tl\n\n\n{kernel.text}", encoding="utf-8")
        words = [word for one in kernel.sig for word in ("--sig", one)]
        words += ["--const", "B=256", "--machine", "h100", "--strategy", "heuristic", "--out"]
        failed += twill(["emit", f"{file}::k", *words, str(file.parent / "emitted")]) != 0
    return failed


def wrong(place: Path, name: str, kernel: ElectedKernel) -> str:
    """What is not as it should be; "" if nothing."""
    import torch

    from twill.runtime.kernel import EmittedKernel

    spec = importlib.util.spec_from_file_location("kernel", folder(place, name) / "kernel.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    emitted = EmittedKernel.load(folder(place, name) / "emitted")
    instances = FEWER.get(name, INSTANCES)
    kind = {"fp32": torch.float32, "i32": torch.int32}[kernel.element]
    loop = name in LOOPS
    row = torch.randint(1, 9, (256,), generator=torch.Generator().manual_seed(1))
    n = 3 if loop else instances * 256
    x = row.repeat(instances * (3 if loop else 1)).to("cuda", kind)

    def launched(launch: Any, **more: int) -> list[Any]:
        y = torch.zeros(1 << 19, dtype=kind, device="cuda")
        s = torch.zeros(1 << 12, dtype=torch.int32, device="cuda")
        launch(x, y, s, n, **more)
        torch.cuda.synchronize()
        return [y.sort().values, s] if name not in ORDERED else []

    theirs = launched(module.k[(instances,)], B=256)
    for _ in range(LAUNCHES):
        ours = launched(emitted[(instances,)])
        if not all(torch.equal(a, b) for a, b in zip(ours, theirs, strict=True)):
            return "other results than Triton's"
    return ""


def run(place: Path) -> int:
    """Every kernel; how many are wrong."""
    failed = 0
    for name, kernel in ALL.items():
        try:
            said = wrong(place, name, kernel)
        except Exception as error:
            said = f"{type(error).__name__}: {str(error)[:300]}"
        failed += bool(said)
        print(f"{'FAIL' if said else 'ok  '} {name}: {said or f'{LAUNCHES} launches'}", flush=True)
    return failed


def main(words: Sequence[str]) -> int:
    """See the top of this file."""
    what, place = words
    return int((build if what == "build" else run)(Path(place)) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
