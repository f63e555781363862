"""`twill.jit`: what a launch costs the host, how soon a fresh process launches emitted kernels, how long look-ups take,
what a broken service costs.

    python -m tests.gpu.check_jit prepare STORE   # anywhere
    python benchmarks/jit.py --store STORE        # on a GPU

Results go to `benchmarks/results/jit-<date>.json` and a page beside it. `benchmarks/README.md` says what is measured.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))  # also where twill is not installed

ROOT = Path(__file__).resolve().parent.parent
PARTS = ("launches", "starts", "lookups", "services")
SERVICE = ("broken service, the first launch beside Triton's", "broken service, the slowest later launch")
TURN = 10  # launches of one kind before it is another's turn
NEW = 256  # launches with addresses that were not seen before


@dataclass(frozen=True)
class Row:
    """Microseconds (milliseconds for "start" and `SERVICE`). limit: what is promised of the median; None: nothing."""

    what: str
    name: str
    count: int
    least: float
    median: float
    p99: float
    limit: float | None = None


def row(what: str, name: str, taken: Sequence[float], limit: float | None = None) -> Row:
    """Of single measurements."""
    ordered = sorted(taken)
    p99 = ordered[min(len(ordered) - 1, len(ordered) * 99 // 100)]
    return Row(what, name, len(ordered), ordered[0], statistics.median(ordered), p99, limit)


def main(arguments: Sequence[str] | None = None) -> int:
    """The command; 0, or 1 if a median is not as promised."""
    made = argparse.ArgumentParser(prog="benchmarks/jit.py", description=__doc__, allow_abbrev=False,
                                   formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    made.add_argument("--store", type=Path, required=True, help="a store that was prepared")
    made.add_argument("--launches", type=int, default=3000, help="of each kind (default 3,000)")
    made.add_argument("--starts", type=int, default=5, help="fresh processes (default 5)")
    made.add_argument("--services", type=int, default=3, help="fresh processes for each broken service (default 3)")
    made.add_argument("--lookups", type=int, default=2000, help="at each level (default 2,000)")
    made.add_argument("--parts", nargs="+", choices=PARTS, default=PARTS, help="default: all of them")
    made.add_argument("--out", type=Path, help="the JSON file of results")
    made.add_argument("--fresh", action="store_true", help=argparse.SUPPRESS)  # one fresh process
    options = made.parse_args(arguments)
    if options.fresh:
        print(json.dumps(fresh()))
        return 0
    with tempfile.TemporaryDirectory(prefix="twill-jit-") as place:
        copied = shutil.copy(options.store, place)
        os.environ["TWILL_STORE"] = copied
        os.environ["TWILL_JIT_PREFER"] = "emitted"
        out = options.out or ROOT / "benchmarks" / "results" / f"jit-{datetime.now(UTC).date()}.json"
        rows: list[Row] = []
        for part in options.parts:
            if part == "launches":
                rows += hot(options.launches)
            elif part == "starts":
                rows += starts(options.starts)
            elif part == "lookups":
                rows += lookups(Path(place), copied, options.lookups)
            else:
                rows += services(copied, options.services)
            write(out, rows)
    sys.stdout.write(out.with_suffix(".md").read_text(encoding="utf-8"))
    return int(any(one.limit is not None and one.median > one.limit for one in rows))


# -- what a launch costs ------------------------------------------------------------------------


def hot(count: int) -> list[Row]:
    """Host time of single launches, in turns: Triton's own, the emitted kernel's, and Triton's through twill.jit."""
    import torch

    import twill
    from tests.gpu import jit_calls

    rows: list[Row] = []
    for make in (jit_calls.gemm, jit_calls.gemm_pointers, jit_calls.attention):
        call = make()
        original = jit_calls.kernel(call.kernel)
        fast, miss = twill.jit(original), twill.jit(original, store="off")
        end = time.monotonic() + 30
        while not fast.twill_dispatch.used and time.monotonic() < end:
            call.launch(fast)
            time.sleep(0.01)
        for kernel in (original, fast, miss) * 100:
            call.launch(kernel)
        torch.cuda.synchronize()
        if not fast.twill_dispatch.used or miss.twill_dispatch.used:
            raise SystemExit(f"{call.kernel}: {twill.explain_fallback(fast)}")
        kinds = {"Triton": original, "twill.jit, emitted": fast, "twill.jit, not emitted": miss}
        taken: dict[str, list[float]] = {name: [] for name in kinds}
        for _ in range(count // TURN):
            for name, kernel in kinds.items():
                for _ in range(TURN):
                    begun = time.perf_counter_ns()
                    call.launch(kernel)
                    taken[name].append((time.perf_counter_ns() - begun) / 1000)
                torch.cuda.synchronize()
        limit = statistics.median(taken["Triton"])
        for name, times in taken.items():
            rows.append(row(f"launch, {call.kernel}", name, times, limit if name.endswith(", emitted") else None))
        rows += unseen(make, original, fast)
    return rows


def unseen(make: Callable[..., Any], original: Any, fast: Any) -> list[Row]:
    """Launches with tensors that lie where no launch had them before."""
    import torch

    taken: dict[str, list[float]] = {"Triton": [], "twill.jit, emitted": []}
    calls = [make(seed=number) for number in range(NEW)]
    torch.cuda.synchronize()
    for call in calls:
        for name, kernel in (("Triton", original), ("twill.jit, emitted", fast)):
            begun = time.perf_counter_ns()
            call.launch(kernel)
            taken[name].append((time.perf_counter_ns() - begun) / 1000)
        torch.cuda.synchronize()
    return [row(f"launch, {calls[0].kernel}, addresses not seen before", name, times) for name, times in taken.items()]


# -- how soon -----------------------------------------------------------------------------------


def starts(count: int) -> list[Row]:
    """Fresh processes, one after the other, the store warm and Triton's cache, too."""
    words = [sys.executable, __file__, "--store", os.environ["TWILL_STORE"], "--fresh"]
    found: list[dict[str, float]] = []
    for _ in range(count + 1):
        done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT)
        if done.returncode:
            raise SystemExit(done.stderr)
        found.append(json.loads(done.stdout.splitlines()[-1]))
    found = found[1:]  # the first fills the caches of the disk
    return [
        row(
            "start", "from twill.jit(kernel) to the end of the first emitted launch", [f["emitted"] for f in found], 500
        ),
        row("start", "the first launch", [f["first"] for f in found]),
        row("start", "launches before it was the emitted kernel's", [f["before"] for f in found]),
    ]


def fresh() -> dict[str, float]:
    """Milliseconds from the wrapped kernel to its first emitted launch, everything imported and the GPU in use."""
    import torch
    import triton  # noqa: F401

    import twill.runtime.jit
    from tests.gpu import jit_calls

    call = jit_calls.gemm()
    original = jit_calls.kernel("gemm")
    torch.cuda.synchronize()
    begun = time.perf_counter()
    fast = twill.jit(original)
    wrapped, before, first = time.perf_counter(), 0, 0.0
    while True:
        result = call.launch(fast)
        first = first or time.perf_counter() - wrapped
        if result is None:
            break
        before += 1
    emitted = time.perf_counter() - begun
    torch.cuda.synchronize()
    if call.error() > 0.01:
        raise SystemExit("the first emitted launch was wrong")
    return {"emitted": 1000 * emitted, "first": 1000 * first, "before": before}


# -- look-ups -----------------------------------------------------------------------------------


def lookups(place: Path, store: str, count: int) -> list[Row]:
    """Kernels in this process and in the store's file; schedules in the file and at a service on loopback."""
    from triton.runtime.driver import driver

    import twill
    from benchmarks.store import key_with as key
    from benchmarks.store import remote, renumbered
    from tests.gpu import jit_calls
    from tests.gpu.jit_services import entry
    from twill.runtime.artifact import NAME, read_artifact
    from twill.store.sqlite import SqliteStore

    call = jit_calls.gemm_pointers()
    fast = twill.jit(jit_calls.kernel("gemm_pointers"))
    for _ in range(100):
        call.launch(fast)
        time.sleep(0.01)
    dispatch = fast.twill_dispatch
    (name, known), *_ = dispatch.variants.known.items()
    variants, shelf = dispatch.variants, known.shelf
    index = driver.active.get_current_device()

    def timed(what: str, look: Callable[[], object], limit: float | None) -> Row:
        taken = []
        for _ in range(count):
            begun = time.perf_counter_ns()
            found = look()
            taken.append((time.perf_counter_ns() - begun) / 1000)
            if found is None:
                raise SystemExit(f"{what}: nothing is found")
        return row("look-up", what, taken, limit)

    opened = SqliteStore(store)
    good = entry(store, lambda kernel: kernel == "attention")

    def stored() -> object:
        data = opened.get_artifact(shelf.key, NAME)
        return None if data is None else read_artifact(data, shelf.key)

    rows = [
        timed("memory: the kernel of a variant", lambda: variants.of(name, index, {}, ()), 5.0),
        timed("SQLite: an emitted kernel, checked", stored, 1000.0),
        timed("SQLite: a schedule, checked", lambda: opened.get(good.key, graph=False), 1000.0),
    ]
    opened.close()
    if not importlib.util.find_spec("fastapi"):
        return rows  # a service cannot run here
    entries = [renumbered(good, number, key(good, number)) for number in range(50)]
    for one in remote(place, entries, count):
        rows.append(Row("look-up", one.level, one.count, one.least, one.median, one.p99, one.limit))
    return rows


# -- broken services ----------------------------------------------------------------------------


def services(store: str, count: int) -> list[Row]:
    """Fresh processes that launch a kernel behind a service that is broken; each also checks what comes of it."""
    from tests.gpu.jit_broken import BUDGET, MEASURED
    from tests.gpu.jit_services import SERVICES

    case = [sys.executable, "-m", "tests.gpu.check_jit", "case", store]
    found: dict[str, list[dict[str, Any]]] = {kind: [] for kind in SERVICES}
    for _ in range(count):
        running = {
            kind: subprocess.Popen([*case, f"service {kind}"], stdout=subprocess.PIPE, text=True, cwd=ROOT)
            for kind in SERVICES
        }
        for kind, process in running.items():
            said = process.communicate()[0]
            if process.returncode:
                raise SystemExit(f"service {kind}: {said}")
            found[kind].append(json.loads(said.split(MEASURED)[1].splitlines()[0]))
            print(kind, found[kind][-1]["logged"], flush=True)
    first, later = SERVICE
    rows = [row(first, kind, [one["first"] for one in each], 1000 * BUDGET) for kind, each in found.items()]
    return rows + [row(later, kind, [one["later"] for one in each]) for kind, each in found.items()]


# -- what is written ----------------------------------------------------------------------------


def write(out: Path, rows: Sequence[Row]) -> None:
    """The JSON document, and the page."""
    import torch
    import triton

    facts = {
        "date": datetime.now(UTC).isoformat(timespec="seconds"), "gpu": torch.cuda.get_device_name(),
        "cores": os.cpu_count(), "python": platform.python_version(), "torch": torch.__version__,
        "triton": triton.__version__,
    }  # fmt: skip
    out.parent.mkdir(parents=True, exist_ok=True)
    document = {**facts, "rows": [asdict(one) for one in rows]}
    out.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    lines = ["# twill.jit", "", ", ".join(f"{name} {value}" for name, value in facts.items()), ""]
    for what in dict.fromkeys(one.what for one in rows):
        unit = "ms" if what in ("start", *SERVICE) else "µs"
        lines += [f"| {what} | count | least, {unit} | median, {unit} | p99, {unit} | promised median |"]
        lines += ["| --- | ---: | ---: | ---: | ---: | ---: |"]
        for one in (one for one in rows if one.what == what):
            promised = "" if one.limit is None else f"{one.limit:,.1f}"
            lines.append(
                f"| {one.name} | {one.count:,} | {one.least:,.1f} | {one.median:,.1f} | {one.p99:,.1f} | {promised} |"
            )
        lines.append("")
    out.with_suffix(".md").write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
