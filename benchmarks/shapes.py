"""GEMMs of other shapes than the tables': few tiles, a long K, few rows, odd sizes; beside cuBLAS and a tuned Triton.

    python -m benchmarks.shapes --build DIR             # emits the family: tiles of `MEMBERS`; needs no GPU
    python -m benchmarks.shapes --run DIR [--out FILE]  # times it on this GPU

Every member is emitted with a split of K (docs/tuning.md, "Split of K") and tried with several numbers of parts; the
fastest at first sight are timed in turns with the others. First each is compared with a product in float32, and the
best one is launched again and again: all results must be equal bit by bit. Times are medians of launches with a cold
L2 cache.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from twill.manifest.document import MANIFEST, read_manifest
from twill.manifest.family import FAMILY, Family
from twill.runtime.family import COMPARED, SAMPLES, EmittedFamily, with_block
from twill.runtime.kernel import EmittedKernel
from twill.trial.timing import interleaved, milliseconds

KERNEL = "examples/gemm.py"
MEMBERS = (  # BLOCK_M, BLOCK_N, BLOCK_K, GROUP_M, CTAs of a cluster (of 1: with a split of K)
    (64, 64, 64, 8, 1), (64, 128, 64, 8, 1), (64, 128, 128, 8, 1), (128, 64, 64, 8, 1), (128, 128, 64, 8, 1),
    (128, 192, 64, 8, 1), (128, 256, 64, 16, 1), (192, 128, 64, 8, 1),
    (64, 128, 64, 8, 2), (128, 64, 64, 8, 2), (128, 128, 64, 8, 2), (128, 256, 64, 16, 2),
)  # fmt: skip
PARTS = (1, 2, 3, 4, 5, 6, 8, 9, 11, 12, 16)
TRITON = ((64, 64, 64, 4, 4), (64, 128, 64, 4, 4), (128, 128, 64, 4, 4), (128, 256, 64, 8, 3))  # ..., warps, stages
SIZES = (
    (1024, 1024, 1024), (16, 8192, 8192), (64, 8192, 8192), (128, 8192, 8192), (2304, 1024, 63488), (5000, 3000, 1000),
    (1, 3000, 1000),
)  # fmt: skip
NEAR = 4  # members that are timed in turns with the others
AGAIN = 20  # launches that must be equal
ERROR = 0.01  # of the largest number, that a result in bf16 may be off


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
    parser.add_argument("--machine", default="h200")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    return build(given.build, given.machine) if given.build else run(given.run, given.out)


def build(folder: Path, machine: str) -> int:
    """Emits every member that is not there."""
    codes = []
    for m, n, k, group, cluster in MEMBERS:
        out = folder / name_of(m, n, k, cluster)
        if (out / "manifest.json").is_file():
            continue
        types, constants = words_of(m, n, k, group)
        how = ["--split", "2"] if cluster == 1 else ["--cluster", str(cluster)]
        sig = [word for one in types for word in ("--sig", one)]
        const = [word for one in constants for word in ("--const", one)]
        words = ["emit", KERNEL, "--machine", machine, *how, *sig, *const, "--out", str(out)]
        codes.append(subprocess.run([sys.executable, "-m", "twill", *words], check=False).returncode)
    (folder / FAMILY).write_text(family(folder, machine).text(), encoding="utf-8")
    return max(codes, default=0)


def family(folder: Path, machine: str) -> Family:
    """The document of all members."""
    from twill.codegen.emission import extract
    from twill.machine.file import load_machine
    from twill.schedule.file import load_schedule
    from twill.tune.family import family_of

    read = []
    for m, n, k, group, cluster in MEMBERS:
        words, name = words_of(m, n, k, group), name_of(m, n, k, cluster)
        if not (folder / name / MANIFEST).is_file():
            continue
        kernel = extract(KERNEL, None, words[0], words[1], split=2 if cluster == 1 else 1)
        read.append((name, kernel, load_schedule(folder / name / "schedule.json")))
    return family_of(read, load_machine(machine))


def name_of(m: int, n: int, k: int, cluster: int) -> str:
    """The folder of a member."""
    return f"{m}x{n}x{k}" + (f"c{cluster}" if cluster > 1 else "")


def words_of(m: int, n: int, k: int, group: int) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Types and constants of a member, as flags say them."""
    blocks = {"a_desc": f"{m}, {k}", "b_desc": f"{k}, {n}", "c_desc": f"{m}, {n}"}
    sizes = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": group}
    sig = tuple(f"{name}=tensordesc<bf16[{block}]>" for name, block in blocks.items())
    return sig, tuple(f"{name}={value}" for name, value in sizes.items())


def run(folder: Path, out: Path | None) -> int:
    """All sizes; 0 if everything is right."""
    import torch

    members = {path.parent.name: path.parent for path in sorted(folder.glob("*/manifest.json"))}
    compile_triton()
    torch.backends.cuda.matmul.allow_tf32 = False
    of = EmittedFamily.load(folder)
    lines, right = [f"{torch.cuda.get_device_name()}, TFLOP/s of the fastest, and the ratio of it"], True
    print(lines[0], flush=True)
    for size in SIZES:
        line, good = row(of, members, size)
        lines.append(line)
        right = right and good
        print(line, flush=True)
    print("PASS" if right else "FAIL")
    if out is not None:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0 if right else 1


def row(of: EmittedFamily, members: dict[str, Path], size: tuple[int, int, int]) -> tuple[str, bool]:
    """One size: a line of the table, and whether all that ran was right."""
    import torch

    m, n, k = size
    torch.manual_seed(0)
    a, b = (torch.randn(*shape, device="cuda", dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
    expected = a.float() @ b.float()
    wrong: list[str] = []
    found: list[tuple[float, Contestant]] = []
    for one in emitted(members, a, b):
        if not is_right(one, expected):
            wrong.append(one.name)
            continue
        found.append((milliseconds(one.launch, 0.004), one))
    best = [one for _, one in sorted(found, key=lambda entry: entry[0])[:NEAR]]
    best.append(chosen(of, a, b))
    wrong += [] if is_right(best[-1], expected) else [best[-1].name]
    reference = torch.empty(m, n, device="cuda", dtype=torch.bfloat16)
    others = [Contestant("cuBLAS", lambda: torch.matmul(a, b, out=reference), reference), *triton_peers(a, b)]
    others = [one for one in others if is_right(one, expected)]
    times = interleaved({one.name: one.launch for one in (*best, *others)}, rounds=5, seconds=0.02)
    fastest = min(best, key=lambda one: times[one.name])
    fastest.launch()
    first = fastest.out.clone()
    different = 0
    for _ in range(AGAIN):
        fastest.out.zero_()
        fastest.launch()
        different += not torch.equal(first, fastest.out)
    peers = {"cuBLAS": times["cuBLAS"], "Triton": min(t for name, t in times.items() if name.startswith("Triton"))}
    speed = 2e-9 * m * n * k
    mine = times[fastest.name]
    ratios = ", ".join(f"{name} {speed / time:.0f} ({time / mine:.3f})" for name, time in peers.items())
    tried = "; ".join(f"{one.name} {times[one.name] * 1000:.1f}" for one in best)
    said = f"{m} x {n} x {k}: {speed / mine:.0f} by {fastest.name}, {ratios}; us: {tried}"
    said += f"; {different} of {AGAIN} launches differ" if different else ""
    said += f"; WRONG: {', '.join(wrong)}" if wrong else ""
    return said, not wrong and not different


def is_right(one: Contestant, expected: Any) -> bool:
    """Whether a launch gives the product."""
    one.out.zero_()
    one.launch()
    return bool((one.out.float() - expected).abs().max() <= ERROR * expected.abs().max())


def emitted(members: dict[str, Path], a: Any, b: Any) -> Iterator[Contestant]:
    """Every member with every number of parts that may make sense: no more CTAs than a few for each SM."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    m, k = a.shape
    n = b.shape[1]
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    out = torch.empty(m, n, device="cuda", dtype=a.dtype)
    for name, folder in members.items():
        manifest = read_manifest(folder / "manifest.json")
        cubin = (folder / "kernel.cubin").read_bytes()
        one = {argument.name: argument for argument in manifest.arguments}
        block_m, block_n, block_k = (int(one[f"BLOCK_{axis}"].value or 0) for axis in "MNK")
        tensors = zip((a, b, out), ("a_desc", "b_desc", "c_desc"), strict=True)  # in blocks that Triton's may not have
        described = ((TensorDescriptor.from_tensor(tensor, [64, 64]), list(one[of].block)) for tensor, of in tensors)
        descriptors = [with_block(*pair) for pair in described]
        tiles = -(-m // block_m) * -(-n // block_n)
        constants = {of: argument.value for of, argument in one.items() if argument.kind == "constant"}
        for parts in PARTS:
            if parts > 1 and (tiles * parts > 8 * sms or k < 4 * block_k * parts or manifest.split is None):
                continue
            split = None if manifest.split is None else replace(manifest.split, parts=parts)
            kernel = EmittedKernel(replace(manifest, split=split), cubin)
            arguments = (*descriptors, m, n, k)
            yield Contestant(f"{name}/{parts}", partial(kernel[(tiles,)], *arguments, **constants), out)


def chosen(of: EmittedFamily, a: Any, b: Any) -> Contestant:
    """What the family launches, once it has found out what is the fastest."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    m, k = a.shape
    n = b.shape[1]
    out = torch.empty(m, n, device="cuda", dtype=a.dtype)
    arguments = (*(TensorDescriptor.from_tensor(tensor, [64, 64]) for tensor in (a, b, out)), m, n, k)

    def grid(meta: Any) -> tuple[int]:
        return (-(-m // meta["BLOCK_M"]) * -(-n // meta["BLOCK_N"]),)

    launch = partial(of[grid], *arguments)
    for _ in range(COMPARED * (SAMPLES + 1) + 1):
        launch()
        torch.cuda.synchronize()
    choice = next(reversed(of.choices.values()))
    return Contestant(f"family ({choice.ranked[0].name})", launch, out)


def triton_peers(a: Any, b: Any) -> Iterator[Contestant]:
    """The original kernel, with some usual configurations."""
    import torch
    from triton.tools.tensor_descriptor import TensorDescriptor

    m, k = a.shape
    n = b.shape[1]
    kernel = original()
    for block_m, block_n, block_k, warps, stages in TRITON:
        out = torch.empty(m, n, device="cuda", dtype=a.dtype)
        blocks = ((a, [block_m, block_k]), (b, [block_k, block_n]), (out, [block_m, block_n]))
        descriptors = [TensorDescriptor.from_tensor(tensor, block) for tensor, block in blocks]
        grid = (-(-m // block_m) * -(-n // block_n),)

        def launch(d: Any = descriptors, g: Any = grid, c: Any = (block_m, block_n, block_k, 8), w: int = warps,
                   s: int = stages) -> None:  # fmt: skip
            kernel[g](*d, m, n, k, *c, num_warps=w, num_stages=s)

        yield Contestant(f"Triton {block_m}x{block_n}x{block_k}", launch, out)


def compile_triton() -> None:
    """All configurations at once."""
    import torch

    a, b = (torch.zeros(128, 128, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    with ThreadPoolExecutor(len(TRITON)) as pool:
        list(pool.map(lambda one: one.launch(), triton_peers(a, b)))
    torch.cuda.synchronize()


def original() -> Any:
    """The kernel of `KERNEL` as Triton runs it."""
    import importlib.util

    spec = importlib.util.spec_from_file_location("gemm_of_shapes", KERNEL)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.gemm


if __name__ == "__main__":
    sys.exit(main())
