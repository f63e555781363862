"""60 GEMM shapes in bf16 and fp8: the family of emitted kernels beside cuBLAS and a tuned Triton.

    python -m benchmarks.sweep --build DIR                     # emits the families; needs no GPU
    python -m benchmarks.sweep --run DIR --types bf16 --out FILE.json
    python -m benchmarks.sweep --table FILE.json ...           # the tables, geometric means and least rows

Every shape is launched through its family as a program launches it, behind other work, until the family has chosen.
Then the family, the fastest members at first sight, cuBLAS and the fastest of Triton's configurations are timed in
turns: medians of launches with a cold L2 cache. Before, each is compared with a product in float32, and the family's
choice is launched again and again: all results must be equal bit by bit. The file has the first sight of every member,
too.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.sweep_members import KERNELS, build
from benchmarks.sweep_problems import Shape, shapes
from benchmarks.sweep_table import tables
from twill.manifest.family import worth_splitting
from twill.runtime.choices import ROUNDS
from twill.runtime.family import EmittedFamily
from twill.runtime.member import FamilyMember, numbers_of
from twill.trial.timing import FLUSH

TRITON = (  # BLOCK_M, BLOCK_N, BLOCK_K in rows of 128 bytes, warps, stages
    (64, 64, 1, 4, 5), (64, 128, 1, 4, 4), (64, 64, 2, 4, 4), (64, 256, 1, 4, 4), (128, 64, 1, 4, 4),
    (128, 128, 1, 4, 4), (128, 128, 1, 8, 4), (128, 256, 1, 8, 3), (256, 128, 1, 8, 3),
)  # fmt: skip
NEAR = 3  # members that are timed in turns with the others
AGAIN = 10  # launches that must be equal
ERROR = 0.01  # of the largest number, that a result in bf16 may be off
WORSE = 1.5  # times cuBLAS' own error: sums of fp8 lose bits in the tensor core
PROMISING = 24  # members that are looked at, by prediction


@dataclass(frozen=True)
class Contestant:
    """Something that multiplies. out: where its result is."""

    name: str
    launch: Callable[[], Any]
    out: Any


def main(arguments: Sequence[str] | None = None) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--build", metavar="DIR", type=Path)
    what.add_argument("--run", metavar="DIR", type=Path)
    what.add_argument("--table", metavar="FILE", type=Path, nargs="+")
    parser.add_argument("--types", default="bf16,fp8")
    parser.add_argument("--machine", default="h100")
    parser.add_argument("--seconds", type=float, default=1e9, help="begin no shape after so many")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    types = given.types.split(",")
    if given.build:
        return build(given.build, given.machine, types)
    if given.table:
        print(tables([json.loads(path.read_text(encoding="utf-8")) for path in given.table]))
        return 0
    return run(given.run, types, given.seconds, given.out)


def run(folder: Path, types: Sequence[str], seconds: float, out: Path | None) -> int:
    """All shapes; 0 if everything is right."""
    import torch

    begun = time.monotonic()
    torch.backends.cuda.matmul.allow_tf32 = False
    gpu = torch.cuda.get_device_name()
    rows: list[dict[str, Any]] = []
    broken = 0
    for kind in types:
        compile_triton(kind)
        family = EmittedFamily.load(folder / kind)
        print(f"{gpu}, {kind}: {len(family.members)} members, {time.monotonic() - begun:.0f} s", flush=True)
        for group, shape in shapes(16 if kind == "fp8" else 8):
            if time.monotonic() - begun > seconds:
                print("the time is over")
                break
            try:
                rows.append({"gpu": gpu, "type": kind, "group": group, "shape": shape, **row(kind, family, shape)})
            except RuntimeError as error:  # of PyTorch, as where memory ends
                print(f"{shape}: {error}")
                broken += 1
                continue
            print(said(rows[-1]), flush=True)
            if out is not None:
                out.write_text(json.dumps(rows), encoding="utf-8")
    right = not broken and all(not one["wrong"] and not one["different"] for one in rows)
    print(tables([rows]).split("\n\n")[0])
    print("PASS" if right else "FAIL")
    return 0 if right else 1


def said(one: Mapping[str, Any]) -> str:
    """A row for people."""
    took = one["us"]
    others = " ".join(f"{name} {us:.1f}" for name, us in took.items())
    wrong = f" WRONG: {', '.join(one['wrong'])}" if one["wrong"] else ""
    wrong += f" {one['different']} launches differ" if one["different"] else ""
    cublas = "" if "cuBLAS" not in took else f" {took['cuBLAS'] / took['family']:.3f}"
    return f"{'x'.join(map(str, one['shape']))}:{cublas} {one['chosen']}: {others}{wrong}"


def row(kind: str, family: EmittedFamily, shape: Shape) -> dict[str, Any]:
    """One shape: times and what was wrong."""
    import torch

    m, n, k = shape
    torch.manual_seed(0)
    a, b = operands(kind, shape)
    expected = a.float() @ (b.float().t() if KERNELS[kind].across else b.float())
    wrong: list[str] = []
    mine, library = chosen(family, a, b, n), cublas(kind, a, b, n)
    limit = max(ERROR, WORSE * error_of(library, expected))
    emitted = [one for one in looked_at(family, a, b, n) if right(one, expected, limit, wrong)]
    others = [library, *(one for one in triton_peers(kind, a, b, n) if right(one, expected, limit, wrong))]
    once = 2e-12 * m * n * k / 500  # seconds, about
    count = max(3, min(10, int(2e-3 / once)))
    first = {one.name: microseconds(one.launch, count) for one in (*emitted, *others)}
    near = sorted(emitted, key=lambda one: first[one.name])[:NEAR]
    peers = [one for one in others if one.name == "cuBLAS"]
    tuned = sorted((one for one in others if one.name != "cuBLAS"), key=lambda one: first[one.name])[:1]
    right(mine, expected, limit, wrong)
    us = in_turns({one.name: one.launch for one in (mine, *near, *peers, *tuned)}, max(3, min(15, int(4e-3 / once))))
    mine.out.zero_()
    mine.launch()
    result, different = mine.out.clone(), 0
    for _ in range(AGAIN):
        mine.out.zero_()
        mine.launch()
        different += not torch.equal(result, mine.out)
    choice = next(reversed(family.choices.values()))
    return {"us": us, "first": first, "chosen": choice.ranked[0].name, "wrong": wrong, "different": different}


def operands(kind: str, shape: Shape) -> tuple[Any, Any]:
    """A and B."""
    import torch

    m, n, k = shape
    sizes = ((m, k), (n, k)) if KERNELS[kind].across else ((m, k), (k, n))
    a, b = (torch.randn(*size, device="cuda", dtype=torch.bfloat16) for size in sizes)
    return (a.to(torch.float8_e4m3fn), b.to(torch.float8_e4m3fn)) if kind == "fp8" else (a, b)


def error_of(one: Contestant, expected: Any) -> float:
    """The largest error of a launch, of the largest number."""
    one.out.zero_()
    one.launch()
    return float((one.out.float() - expected).abs().max() / expected.abs().max())


def right(one: Contestant, expected: Any, limit: float, wrong: list[str]) -> bool:
    """Whether a launch gives the product; else it is among the wrong ones, unless it is Triton's."""
    try:
        good = error_of(one, expected) <= limit
    except Exception as error:
        good = False
        print(f"{one.name}: {type(error).__name__}: {str(error)[:200]}")
    if not good and not one.name.startswith("Triton"):
        wrong.append(one.name)
    return good


def microseconds(launch: Callable[[], Any], count: int) -> float:
    """Median of so many launches, each with a cold L2 cache."""
    import torch

    event: Any = torch.cuda.Event
    cache = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    pairs = [(event(enable_timing=True), event(enable_timing=True)) for _ in range(count)]
    for begin, end in pairs:
        cache.zero_()
        begin.record()
        launch()
        end.record()
    torch.cuda.synchronize()
    return statistics.median(float(begin.elapsed_time(end)) * 1000 for begin, end in pairs)


def in_turns(launches: Mapping[str, Callable[[], Any]], count: int, rounds: int = 5) -> dict[str, float]:
    """Medians over rounds, each in another order."""
    names = list(launches)
    taken: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(rounds):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            taken[name].append(microseconds(launches[name], count))
        time.sleep(0.01)
    return {name: statistics.median(times) for name, times in taken.items()}


def described(a: Any, b: Any, out: Any, blocks: Sequence[list[int]] = ([64, 64],) * 3) -> list[Any]:
    """Triton's descriptors of the three."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return [TensorDescriptor.from_tensor(tensor, block) for tensor, block in zip((a, b, out), blocks, strict=True)]


def looked_at(family: EmittedFamily, a: Any, b: Any, n: int) -> Iterator[Contestant]:
    """Every member with every number of parts that may make sense."""
    import torch

    m, k = a.shape
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    arguments = (*described(a, b, out), m, n, k)
    values = numbers_of(family.members[0].kernel.manifest.arguments, arguments, {})
    sensible: list[tuple[float, FamilyMember, tuple[int]]] = []
    for member in family.members:
        one = member.kernel.constants({})
        tiles = -(-m // one["BLOCK_M"]) * -(-n // one["BLOCK_N"])
        split = member.kernel.manifest.split
        parts = 1 if split is None else split.parts
        if parts == 1 or worth_splitting(tiles, sms, -(-k // one["BLOCK_K"]), parts):
            sensible.append((member.predicted(tiles, sms, values), member, (tiles,)))
    for _, member, grid in sorted(sensible, key=lambda entry: entry[0])[:PROMISING]:
        yield Contestant(member.name, partial(member.launch, grid, arguments, member.kernel.constants({})), out)


def chosen(family: EmittedFamily, a: Any, b: Any, n: int) -> Contestant:
    """What the family launches, once it has found out what is the fastest behind other work, as it is timed."""
    import torch

    m, k = a.shape
    out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    arguments = (*described(a, b, out), m, n, k)

    def grid(meta: Any) -> tuple[int]:
        return (-(-m // meta["BLOCK_M"]) * -(-n // meta["BLOCK_N"]),)

    launch = partial(family[grid], *arguments)
    cache = torch.empty(FLUSH, dtype=torch.uint8, device="cuda")
    for _ in range(sum(members * run for members, run in ROUNDS) + 1):
        cache.zero_()
        launch()
        torch.cuda.synchronize()
    return Contestant("family", launch, out)


def cublas(kind: str, a: Any, b: Any, n: int) -> Contestant:
    """PyTorch's product."""
    import torch

    out = torch.empty(a.shape[0], n, device="cuda", dtype=torch.bfloat16)
    if kind == "bf16":
        return Contestant("cuBLAS", lambda: torch.matmul(a, b, out=out), out)
    one = torch.ones((), device="cuda")
    across = b.t()
    multiply: Any = torch._scaled_mm

    def launch() -> Any:
        return multiply(a, across, one, one, out_dtype=torch.bfloat16, use_fast_accum=True, out=out)

    return Contestant("cuBLAS", launch, out)


def triton_peers(kind: str, a: Any, b: Any, n: int) -> Iterator[Contestant]:
    """The original kernel, with some usual configurations."""
    import torch

    m, k = a.shape
    kernel, row = original(kind), 128 // a.element_size()
    for block_m, block_n, rows, warps, stages in TRITON:
        out = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
        deep = rows * row
        of_b = [block_n, deep] if KERNELS[kind].across else [deep, block_n]
        descriptors = described(a, b, out, ([block_m, deep], of_b, [block_m, block_n]))
        grid = (-(-m // block_m) * -(-n // block_n),)

        def launch(d: Any = descriptors, g: Any = grid, c: Any = (block_m, block_n, deep, 8), w: int = warps,
                   s: int = stages) -> None:  # fmt: skip
            kernel[g](*d, m, n, k, *c, num_warps=w, num_stages=s)

        yield Contestant(f"Triton {block_m}x{block_n}x{deep}w{warps}", launch, out)


def compile_triton(kind: str) -> None:
    """All configurations at once."""
    import torch

    a, b = operands(kind, (128, 128, 128))
    with ThreadPoolExecutor(len(TRITON)) as pool:
        list(pool.map(lambda one: one.launch(), triton_peers(kind, a, b, 128)))
    torch.cuda.synchronize()


_originals: dict[str, Any] = {}


def original(kind: str) -> Any:
    """The kernel of a file in examples/ as Triton runs it."""
    import importlib.util

    if kind not in _originals:
        spec = importlib.util.spec_from_file_location(f"gemm_of_{kind}", KERNELS[kind].file)
        assert spec is not None and spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        _originals[kind] = getattr(module, Path(KERNELS[kind].file).stem)
    return _originals[kind]


if __name__ == "__main__":
    sys.exit(main())
