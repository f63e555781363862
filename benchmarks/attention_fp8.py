"""Attention forward in fp8 beside FlashAttention 3 and a tuned Triton: e4m3 Q, K and V, a scale for each head.

    python -m benchmarks.attention_fp8 build DIR                       # emits the kernels; needs no GPU
    python -m benchmarks.attention_fp8 run DIR [--out FILE.json]       # on a GPU: checks and times them
    python -m benchmarks.attention_fp8 try DIR NAME                    # one kernel or library, at one length

Ten problems of 4 x 16 heads of width 128: 1024 to 16384 rows, full and causal; two each of width 64 and 256. Each
kernel and library is first tried in a process of its own, so that one that fails or hangs stops nothing. Errors are
those of all numbers of four heads beside what the e4m3 inputs give in float64, relative. Then all are timed in turns:
medians of launches with a cold L2 cache. The emitted kernel is launched again: results must be equal bit by bit, and
its log-sum-exp be that of the reference.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.attention_fp8_data import Inputs, Problem, checked, error, inputs, problems, reference
from benchmarks.attention_fp8_launches import LIBRARIES, MEMBERS, build, compile_triton, emitted, triton_launches
from benchmarks.attention_sweep import in_turns, microseconds, repeats
from benchmarks.attention_sweep_launches import Contestant
from twill.manifest.document import MANIFEST
from twill.trial.timing import FLUSH

TRIED = 1024  # rows, in a process of its own
SECONDS = 120  # that such a process may take
FURTHEST = 6e-2  # relative error: P has 4 bits, and errors of a row's numbers do not add up
FURTHEST_LSE = 1e-3
NEAR = 2  # emitted kernels that are timed in turns with the others
ONCE = 5e14  # operations of a second, about


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("build", "run", "try"))
    parser.add_argument("folder", type=Path)
    parser.add_argument("name", nargs="?", default="")
    parser.add_argument("--machine", default="h200", help="for build (default h200)")
    parser.add_argument("--only", default="", metavar="REGEX", help="problems whose name it finds")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if given.what == "build":
        return int(bool(build(given.folder, given.machine)))
    if given.what == "try":
        return tried_here(given.folder, given.name)
    return run(given.folder, given.only, given.out)


# ---------------------------------------------------------------- one at a time


def makers(folder: Path, given: Inputs) -> Iterator[tuple[str, Callable[[], Contestant]]]:
    """Of a problem: names, and what makes a contestant. Emitted kernels, then libraries."""
    for member in MEMBERS:
        if member.computes(given.problem) and (folder / member.name / MANIFEST).is_file():
            yield member.name, partial(emitted, folder, member, given)
    for name, make in LIBRARIES.items():
        yield name, partial(make, given)


def tried_here(folder: Path, name: str) -> int:
    """One contestant, on all problems of a length that it computes; a library on those of the width of most."""
    import torch

    for shape in shapes(problems()):
        if name in LIBRARIES and shape.width != Problem.width:
            continue
        given = inputs(shape)
        for known, make in makers(folder, given):
            if known == name:
                make().launch()
                torch.cuda.synchronize()
    return 0


def shapes(wanted: Iterable[Problem]) -> list[Problem]:
    """One short problem for each kind of them."""
    return [Problem(TRIED, causal, width=width) for causal, width in sorted({(p.causal, p.width) for p in wanted})]


def failing(folder: Path) -> dict[str, str]:
    """Emitted kernels and libraries that fail or hang in processes of their own, with the reason."""
    names = [one.name for one in MEMBERS if (folder / one.name / MANIFEST).is_file()] + list(LIBRARIES)
    command = [sys.executable, "-m", "benchmarks.attention_fp8", "try", str(folder)]
    begun = [
        subprocess.Popen([*command, name], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        for name in names
    ]
    found, end = {}, time.monotonic() + SECONDS
    for name, process in zip(names, begun, strict=True):
        try:
            _, said = process.communicate(timeout=max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            found[name] = f"no end in {SECONDS} s"
            continue
        if process.returncode:
            found[name] = (said.strip().splitlines() or [f"exit code {process.returncode}"])[-1][:200]
    return found


# ---------------------------------------------------------------- all of them


def run(folder: Path, only: str, out: Path | None) -> int:
    """All problems that are asked for; 0 if every emitted kernel is right."""
    import torch

    begun = time.monotonic()
    gpu = torch.cuda.get_device_name()
    broken = failing(folder)
    print(f"{gpu}; tried in {time.monotonic() - begun:.0f} s", flush=True)
    for name, reason in broken.items():
        print(f"without {name}: {reason}", flush=True)
    wanted = [one for one in problems() if re.search(only, one.name)]
    compile_triton([inputs(shape) for shape in shapes(wanted)])
    print(f"Triton's kernels compiled after {time.monotonic() - begun:.0f} s", flush=True)
    cache = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    rows: list[dict[str, Any]] = []
    for problem in wanted:
        try:
            rows.append({"gpu": gpu, **measured(problem, folder, broken, cache)})
        except RuntimeError as failed:  # of PyTorch, as where memory ends
            rows.append({"problem": problem.name, "wrong": [f"{type(failed).__name__}: {failed}"[:200]], "us": {}})
        finally:
            torch.cuda.empty_cache()
        print(f"{time.monotonic() - begun:4.0f} s {said(rows[-1])}", flush=True)
        if out is not None:
            out.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    for which in ("", "full", "causal"):
        print(mean(which, [row for row in rows if row["problem"].startswith(which)]))
    right = not any(row["wrong"] for row in rows) and not any(name in broken for name in (m.name for m in MEMBERS))
    print("PASS" if right else "FAIL")
    return 0 if right else 1


def measured(problem: Problem, folder: Path, broken: dict[str, str], cache: Any) -> dict[str, Any]:
    """A row: times, errors, what was wrong and what is lacking."""
    given = inputs(problem)
    expected, sums = reference(given)
    errors: dict[str, float] = {}
    lacking: dict[str, str] = {}
    wrong: list[str] = []

    def right(name: str, make: Callable[[], Contestant], mine: bool = False) -> list[Contestant]:
        try:
            one = make()
            given.out.fill_(math.nan)
            given.lse.fill_(math.nan)
            errors[name] = error(one.shown(one.launch()), expected, problem)
        except Exception as failed:  # one that fails is no reason to stop
            lacking[name] = f"{type(failed).__name__}: {(str(failed).strip().splitlines() or [''])[0][:200]}"
            wrong.extend([name] * mine)
            return []
        off = float((given.lse[checked(problem)] - sums).abs().max().nan_to_num(math.inf)) if mine else 0.0
        if errors[name] <= FURTHEST and off <= FURTHEST_LSE:
            return [one]
        lacking[name] = f"wrong: {errors[name]:.1e}, log-sum-exp {off:.1e}"
        wrong.extend([name] * mine)
        return []

    ways = [(name, make) for name, make in makers(folder, given) if name not in broken]
    members = [one for name, make in ways if name not in LIBRARIES for one in right(name, make, True)]
    libraries = [one for name, make in ways if name in LIBRARIES for one in right(name, make)]
    tuned = [one for name, make in triton_launches(given) for one in right(name, make)]
    count = max(1, min(5, int(4e-3 * ONCE / problem.operations)))
    first = {one.name: microseconds(one.launch, count, cache) for one in (*members, *tuned)}
    near = sorted(members, key=lambda one: first[one.name])[:NEAR]
    best = sorted(tuned, key=lambda one: first[one.name])[:1]
    us, spread = in_turns({one.name: one.launch for one in (*near, *best, *libraries)}, count, cache)
    wrong += [f"{one.name} (results differ)" for one in near if not repeats(one)]
    return {
        "problem": problem.name, "operations": problem.operations, "us": us, "spread": spread, "first": first,
        "errors": errors, "lacking": lacking, "wrong": wrong,
        "emitted": [one.name for one in near], "libraries": [one.name for one in libraries],
    }  # fmt: skip


# ---------------------------------------------------------------- what is said


def speeds(row: dict[str, Any]) -> tuple[float, float]:
    """Microseconds of the fastest emitted kernel and of the fastest library; infinite where there is none."""
    of = (row.get("emitted", ()), row.get("libraries", ()))
    mine, theirs = (min((row["us"][name] for name in names), default=math.inf) for names in of)
    return mine, theirs


def said(row: dict[str, Any]) -> str:
    """A row for people."""
    mine, theirs = speeds(row)
    ratio = f"{theirs / mine:.3f}" if math.isfinite(mine + theirs) else "-"
    parts = [
        f"{name} {us:.1f} us {row['operations'] / us / 1e6:.0f} TFLOP/s error {row['errors'][name]:.2e}"
        for name, us in sorted(row["us"].items(), key=lambda one: one[1])
    ]
    others = "".join(f"\n       no {name}: {reason}" for name, reason in row.get("lacking", {}).items())
    wrong = f" WRONG: {', '.join(row['wrong'])}" if row["wrong"] else ""
    also = [f"{name} {us:.1f}" for name, us in row.get("first", {}).items() if name not in row["us"]]
    return f"{row['problem']}: {ratio} | {'; '.join(parts)}{wrong}\n       also {', '.join(also)}{others}"


def mean(which: str, rows: Sequence[dict[str, Any]]) -> str:
    """The geometric mean of how many times as fast the emitted kernels are."""
    ratios = [theirs / mine for mine, theirs in map(speeds, rows) if math.isfinite(mine + theirs)]
    if not ratios:
        return f"{which or 'all'}: no library to compare with"
    middle = math.exp(sum(map(math.log, ratios)) / len(ratios))
    return f"{which or 'all'}: {middle:.3f} times as fast as the fastest library, {min(ratios):.3f} at least"


if __name__ == "__main__":
    sys.exit(main())
