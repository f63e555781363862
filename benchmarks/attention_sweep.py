"""40 attention problems beside FlashAttention 3 and 4, cuDNN, PyTorch's own and a tuned Triton: bf16, forward.

    python -m benchmarks.attention_sweep --build DIR                     # emits the kernels; needs no GPU
    python -m benchmarks.attention_sweep --run DIR --out FILE.json       # on a GPU: checks and times them
    python -m benchmarks.attention_sweep --table FILE.json ...           # the tables, geometric means and least rows

Of each problem every emitted kernel that computes it is held against float32, row by row, and looked at once. Then the
fastest of them, every peer and the fastest of Triton's configurations of the same kernels are timed in turns: medians
of launches with a cold L2 cache, each queued behind a wait that is longer than its host takes. The emitted ones are
launched again: all results must be equal bit by bit. The file has a row as soon as its problem is done, and a run goes
on where one ended (--again: from the beginning).
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.attention_sweep_data import FURTHEST, distance, inputs, reference
from benchmarks.attention_sweep_launches import Contestant, compile_triton, emitted, triton_peers
from benchmarks.attention_sweep_members import build
from benchmarks.attention_sweep_peers import PEERS, peers
from benchmarks.attention_sweep_problems import Problem, problems
from benchmarks.attention_sweep_table import against, of, tables
from twill.trial.timing import FLUSH

NEAR = 3  # emitted kernels that are timed in turns with the others
AGAIN = 10  # launches that must be equal
ROUNDS = 5
CLOCK = 2e9  # cycles a second, at most
QUIET = 5e-5  # seconds that a launch waits beside its host's
OPERATIONS, BYTES = 6e14, 4e12  # of a second, about


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--build", metavar="DIR", type=Path)
    what.add_argument("--run", metavar="DIR", type=Path)
    what.add_argument("--table", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--machine", default="h200", help="for --build (default h200)")
    parser.add_argument("--peers", default=",".join(PEERS), help="beside Triton (default: %(default)s)")
    parser.add_argument("--only", default="", metavar="REGEX", help="problems whose name it finds")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no problem after so many")
    parser.add_argument("--again", action="store_true", help="problems that the file has, too")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    if given.build:
        return int(bool(build(given.build, given.machine)))
    if given.table:
        print(tables([json.loads(path.read_text(encoding="utf-8")) for path in given.table]))
        return 0
    asked = [name for name in given.peers.split(",") if name]
    if unknown := [name for name in asked if name not in PEERS]:
        parser.error(f"no peer is called {unknown[0]}: {', '.join(PEERS)}")
    known = [] if given.again or given.out is None or not given.out.is_file() else json.loads(given.out.read_text())
    return run(given.run, asked, given.only, given.seconds, given.out, known)


def run(folder: Path, asked: Sequence[str], only: str, seconds: float, out: Path | None, known: list[Any]) -> int:
    """All problems that are asked for and not known; 0 if everything is right."""
    import torch

    begun = time.monotonic()
    torch.backends.cuda.matmul.allow_tf32 = False
    gpu = torch.cuda.get_device_name()
    done = {row["problem"] for row in known}
    wanted = [one for one in problems() if re.search(only, one.name) and one.name not in done]
    print(f"{gpu}: {len(wanted)} problems, {len(done)} are known", flush=True)
    print(f"{compile_triton(wanted)} kernels of Triton's, {time.monotonic() - begun:.0f} s", flush=True)
    rows, broken = known, 0
    for problem in wanted:
        if time.monotonic() - begun > seconds:
            print("the time is over")
            break
        try:
            rows.append({"gpu": gpu, **measured(problem, folder, asked)})
        except RuntimeError as error:  # of PyTorch, as where memory ends
            print(f"{problem.name}: {type(error).__name__}: {error}", flush=True)
            broken += 1
            continue
        finally:
            torch.cuda.empty_cache()
        print(f"{time.monotonic() - begun:4.0f} s {said(rows[-1])}", flush=True)
        if out is not None:
            out.write_text(json.dumps(rows), encoding="utf-8")
    right = not broken and all(not row["wrong"] and not row["different"] for row in rows)
    print(tables([rows]).split("\n\n|")[0] if rows else "no rows")
    print("PASS" if right else "FAIL")
    return 0 if right else 1


def said(row: Mapping[str, Any]) -> str:
    """A row for people."""
    times = " ".join(f"{name} {us:.1f};" for name, us in sorted(row["us"].items(), key=lambda one: one[1]))
    ratio = against(row).get("fastest library")
    wrong = f" WRONG: {', '.join(row['wrong'])}" if row["wrong"] else ""
    wrong += f" DIFFERENT: {', '.join(row['different'])}" if row["different"] else ""
    lacking = "".join(f"\n       no {name}: {reason}" for name, reason in row["lacking"].items())
    return f"{row['problem']}: {'' if ratio is None else f'{ratio:.3f}'} | {times}{wrong}{lacking}"


def measured(problem: Problem, folder: Path, asked: Sequence[str]) -> dict[str, Any]:
    """A row: times, what was wrong and what is lacking."""
    import torch

    given = inputs(problem)
    expected = reference(given)
    cache = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    far: dict[str, float] = {}
    lacking: dict[str, str] = {}
    wrong: list[str] = []

    def right(found: Iterable[Contestant]) -> list[Contestant]:
        return [one for one in found if _right(one, expected, far, lacking, wrong)]

    mine = right(emitted(folder, given))
    tuned = right(triton_peers(given))
    others = list(peers(given, asked))
    lacking |= dict(one for one in others if isinstance(one, tuple))
    libraries = right(one for one in others if isinstance(one, Contestant))
    once = max(problem.operations / OPERATIONS, problem.bytes / BYTES)
    first = {one.name: microseconds(one.launch, max(1, min(5, int(1e-2 / once))), cache) for one in (*mine, *tuned)}
    near = sorted(mine, key=lambda one: first[one.name])[:NEAR]
    best = sorted(tuned, key=lambda one: first[one.name])[:1]
    launches = {one.name: one.launch for one in (*near, *best, *libraries)}
    us, spread = in_turns(launches, max(1, min(8, int(4e-3 / once))), cache)
    different = [one.name for one in near if not repeats(one)]
    return {
        "problem": problem.name, "group": problem.group, "shared": problem.shared, "width": problem.width,
        "operations": problem.operations, "bytes": problem.bytes, "us": us, "spread": spread, "first": first,
        "far": far, "lacking": lacking, "wrong": wrong, "different": different,
    }  # fmt: skip


def _right(one: Contestant, expected: Any, far: dict[str, float], lacking: dict[str, str], wrong: list[str]) -> bool:
    """Whether a launch gives the result; an emitted kernel that does not is among the wrong ones."""
    try:
        if one.out is not None:
            one.out.fill_(float("nan"))
        far[one.name] = distance(one.shown(one.launch()), expected)
    except Exception as error:
        if not of(one.name):
            raise
        lacking[one.name] = f"{type(error).__name__}: {(str(error).strip().splitlines() or [''])[0][:200]}"
        return False
    if far[one.name] <= FURTHEST:
        return True
    if of(one.name):
        lacking[one.name] = f"wrong: {far[one.name]:.1e}"
    else:
        wrong.append(one.name)
    return False


def repeats(one: Contestant) -> bool:
    """Whether launches have equal bits."""
    import torch

    result = one.launch().clone()
    for _ in range(AGAIN):
        one.out.zero_()
        if not torch.equal(result, one.launch()):
            return False
    return True


def microseconds(launch: Callable[[], Any], count: int, cache: Any, host: float = 0.0) -> float:
    """Median of so many launches, each with a cold L2 cache, behind a wait of `host` seconds and some more."""
    import torch

    event: Any = torch.cuda.Event
    wait: Any = torch.cuda._sleep
    pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(count)]
    for begin, end in pairs:
        cache.zero_()
        wait(int((host + QUIET) * CLOCK))
        begin.record()
        launch()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(float(begin.elapsed_time(end)) * 1000 for begin, end in pairs)


def host_seconds(launch: Callable[[], Any]) -> float:
    """What a launch takes its host, at most, of three."""
    import torch

    taken = []
    for _ in range(3):
        torch.cuda.synchronize()
        begun = time.perf_counter()
        launch()
        taken.append(time.perf_counter() - begun)
    torch.cuda.synchronize()
    return max(taken)


def in_turns(
    launches: Mapping[str, Callable[[], Any]], count: int, cache: Any
) -> tuple[dict[str, float], dict[str, list[float]]]:
    """Medians over rounds, each in another order; the least and the most of them."""
    names = list(launches)
    taken: dict[str, list[float]] = {name: [] for name in names}
    host = {name: host_seconds(launch) for name, launch in launches.items()}
    for turn in range(ROUNDS):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            taken[name].append(microseconds(launches[name], count, cache, host[name]))
    times = {name: statistics.median(found) for name, found in taken.items()}
    return times, {name: [min(found), max(found)] for name, found in taken.items()}


if __name__ == "__main__":
    sys.exit(main())
