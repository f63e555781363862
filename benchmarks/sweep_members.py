"""Members of the families that `benchmarks.sweep` launches: tiles of the GEMMs in examples/, built without a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from twill.manifest.document import MANIFEST
from twill.manifest.family import FAMILY, Family


@dataclass(frozen=True)
class MemberTiles:
    """A member. group: GROUP_M (1: row after row). cluster: CTAs that share tiles. split: whether K can be in parts."""

    m: int
    n: int
    k: int
    group: int = 8
    cluster: int = 1
    split: bool = False

    @property
    def name(self) -> str:
        """Its folder."""
        together = f"c{self.cluster}" if self.cluster > 1 else ""
        along = "r" if self.group == 1 else ""
        return f"{self.m}x{self.n}x{self.k}{'s' if self.split else ''}{along}{together}"


@dataclass(frozen=True)
class GemmKernel:
    """A kernel file with its members. element: of A and B; across: whether B is [N, K] in memory."""

    file: str
    element: str
    across: bool
    members: tuple[MemberTiles, ...]

    def words(self, tiles: MemberTiles) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Types and constants of a member, as flags say them."""
        m, n, k = tiles.m, tiles.n, tiles.k
        b = f"{n}, {k}" if self.across else f"{k}, {n}"
        types = (f"a_desc=tensordesc<{self.element}[{m}, {k}]>", f"b_desc=tensordesc<{self.element}[{b}]>",
                 f"c_desc=tensordesc<bf16[{m}, {n}]>")  # fmt: skip
        sizes = {"BLOCK_M": m, "BLOCK_N": n, "BLOCK_K": k, "GROUP_M": tiles.group}
        return types, tuple(f"{name}={value}" for name, value in sizes.items())


def _tiles(deep: int) -> tuple[MemberTiles, ...]:
    """Of kernels whose rows of K have 128 bytes in `deep` elements."""
    small = [MemberTiles(m, n, k, split=True) for m, n, k in (
        (64, 32, 2 * deep), (64, 64, deep), (64, 64, 2 * deep), (64, 128, deep), (64, 128, 2 * deep), (64, 256, deep),
        (128, 64, deep), (128, 128, deep), (192, 128, deep), (128, 256, deep),
    )]  # fmt: skip
    rows = [MemberTiles(m, n, k, 1, cluster, split=True) for m, n, k, cluster in (
        (64, 64, 2 * deep, 1), (128, 128, deep, 1), (16, 64, 2 * deep, 2), (128, 64, deep, 2), (128, 128, deep, 2),
        (144, 64, deep, 2), (96, 128, deep, 2), (160, 256, deep, 2), (128, 192, deep, 2),
    )]  # fmt: skip
    few = [MemberTiles(m, n, k, 8, cluster, split=True) for m, n, k, cluster in (
        (16, 64, deep, 1), (16, 64, 2 * deep, 1), (16, 128, deep, 1), (32, 64, deep, 1), (32, 64, 2 * deep, 1),
        (16, 64, deep, 2), (16, 64, 2 * deep, 2), (16, 128, deep, 2), (32, 64, deep, 2), (32, 64, 2 * deep, 2),
        (32, 128, deep, 2), (64, 64, deep, 2),
    )]  # fmt: skip
    whole = [MemberTiles(m, n, deep, group) for m, n, group in (
        (128, 128, 8), (128, 192, 8), (192, 128, 8), (192, 192, 8), (128, 256, 16), (256, 128, 8), (192, 96, 8),
    )]  # fmt: skip
    shared = [MemberTiles(m, n, deep, group, 2) for m, n, group in (
        (128, 192, 8), (192, 128, 8), (128, 256, 16), (256, 128, 8), (192, 96, 8), (192, 192, 8),
    )]  # fmt: skip
    both = [MemberTiles(m, n, deep, 8, 2, split=True) for m, n in (
        (64, 128), (128, 64), (128, 128), (128, 192), (128, 256),
    )]  # fmt: skip
    between = [MemberTiles(m, n, deep, 8, cluster) for m, n, cluster in (
        (48, 64, 1), (96, 64, 1), (96, 64, 2), (136, 64, 1), (144, 64, 2), (72, 128, 1), (72, 128, 2), (96, 128, 1),
        (96, 128, 2), (128, 96, 1), (144, 128, 1), (144, 128, 2), (152, 128, 2), (160, 192, 2), (176, 192, 1),
        (176, 192, 2), (176, 256, 2),
    )]  # fmt: skip
    return (*whole, *small, *rows, *few, *shared, *both, *between)


KERNELS = {
    "bf16": GemmKernel("examples/gemm.py", "bf16", False, _tiles(64)),
    "fp8": GemmKernel("examples/gemm_fp8.py", "fp8e4nv", True, _tiles(128)),
}


def build(folder: Path, machine: str, types: Sequence[str]) -> int:
    """Emits every member that is not there; how many could not be."""
    from twill.cli.entry import main

    refused = 0
    for kind in types:
        kernel = KERNELS[kind]
        for tiles in kernel.members:
            out = folder / kind / tiles.name
            if (out / MANIFEST).is_file():
                continue
            how = [*(["--split", "2"] if tiles.split else []), "--cluster", str(tiles.cluster)]
            words = kernel.words(tiles)
            sig = [word for one in words[0] for word in ("--sig", one)]
            const = [word for one in words[1] for word in ("--const", one)]
            print(kind, tiles.name, flush=True)
            code = main(["emit", kernel.file, "--machine", machine, *how, *sig, *const, "--out", str(out)])
            refused += code != 0
        (folder / kind / FAMILY).write_text(family(folder / kind, kernel, machine).text(), encoding="utf-8")
    return refused


def family(folder: Path, kernel: GemmKernel, machine: str) -> Family:
    """The document of all members that were emitted."""
    from twill.codegen.emission import extract
    from twill.machine.file import load_machine
    from twill.schedule.file import load_schedule
    from twill.tune.family import family_of

    read = []
    for tiles in kernel.members:
        if not (folder / tiles.name / MANIFEST).is_file():
            continue
        extracted = extract(kernel.file, None, *kernel.words(tiles), split=2 if tiles.split else 1)
        read.append((tiles.name, extracted, load_schedule(folder / tiles.name / "schedule.json"), tiles.cluster))
    return family_of(read, load_machine(machine))
