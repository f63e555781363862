"""Kernels that `benchmarks.attention_sweep` launches: tiles of those in attention_kernels.py, built without a GPU."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.attention_sweep_problems import Problem
from twill.manifest.document import MANIFEST

FILE = "benchmarks/attention_kernels.py"
MOST = (16, 64)  # chunks of keys that `combine` adds up
ORDERED = """\
extends = "{machine}"
name = "{machine}-ordered"
title = "{machine}, with ordering barriers however little time warp groups have to spare"

[emission]
ordered = {{ value = 0.001, source = "chosen: members with and without ordering barriers are compared" }}
"""


@dataclass(frozen=True)
class Member:
    """An emitted kernel. spec: of the sidecar. rows, keys: BLOCK_M (ROWS) and BLOCK_N; of `combine` keys is MOST.
    apart: whether loops with masks stay apart from those without, which leaves more registers. shared: heads whose
    queries are rows of one tile, of `packed`. ordered: whether warp groups multiply in turn, however little time they
    have to spare."""

    kernel: str
    spec: str
    width: int
    rows: int
    keys: int
    apart: bool = False
    shared: int = 1
    ordered: bool = False

    @property
    def name(self) -> str:
        """Its folder."""
        heads = f"-{self.shared}heads" if self.kernel == "packed" else ""
        how = f"{'-apart' if self.apart else ''}{'-ordered' if self.ordered else ''}"
        return f"{self.spec}-d{self.width}-{self.rows}x{self.keys}{heads}{how}"

    @property
    def constants(self) -> dict[str, int]:
        """Constexprs that are not the sidecar's."""
        names = {"decode": ("ROWS", "BLOCK_N"), "combine": ("", "MOST")}.get(self.kernel, ("BLOCK_M", "BLOCK_N"))
        found = {"HEAD_DIM": self.width, names[0]: self.rows, names[1]: self.keys}
        shared = {"GROUP": self.shared} if self.kernel == "packed" else {}
        return {name: value for name, value in found.items() if name} | shared

    @property
    def types(self) -> dict[str, str]:
        """Of descriptors."""
        if self.kernel == "combine":
            return {}
        rows = {"q_desc": self.rows, "k_desc": self.keys, "v_desc": self.keys}
        if self.kernel in ("forward", "descending"):
            rows["o_desc"] = self.rows
        return {name: f"tensordesc<bf16[1, {block}, {self.width}]>" for name, block in rows.items()}

    def words(self) -> list[str]:
        """What `twill emit` is told."""
        sig = [word for name, kind in self.types.items() for word in ("--sig", f"{name}={kind}")]
        const = [word for name, value in self.constants.items() for word in ("--const", f"{name}={value}")]
        how = ["--rewrite", "masks"] if self.apart else []
        return [f"{FILE}::{self.kernel}", "--spec", self.spec, *sig, *const, *how]


TILES = {  # of queries and keys, by width of a head; the last ones are for few queries
    128: ((192, 80), (128, 128), (128, 176), (64, 128), (64, 64), (64, 32)),
    96: ((192, 96), (128, 128), (192, 80), (64, 96)),
    256: ((128, 64), (128, 80), (64, 64)),
    64: ((192, 128), (192, 96), (64, 128)),
}
DESCENDING = {128: ((192, 80), (128, 128), (192, 96)), 96: ((192, 96), (128, 128)), 256: ((128, 64), (128, 80)),
              64: ((192, 128), (128, 128))}  # fmt: skip
EVEN = {64: ((192, 128),)}
VARIABLE = {128: ((192, 80), (128, 128), (64, 128), (64, 64))}
PACKED = {"packed-full": (8,), "packed-causal": (4, 8)}
PACKED_TILES = ((192, 80), (64, 128), (64, 32))
DECODE = {128: (32, 64, 128), 256: (32, 64), 64: (64, 128, 256)}


def members() -> Iterator[Member]:
    """All of them."""
    for spec in ("decode", "decode-split"):
        yield from (Member("decode", spec, width, 16, keys) for width, found in DECODE.items() for keys in found)
    yield from (Member("combine", "combine", width, 1, most) for width in DECODE for most in MOST)
    for spec in ("variable-full", "variable-causal"):
        yield from _of("variable", spec, VARIABLE)
        yield Member("variable", spec, 128, 128, 128, apart=True)
    for spec, heads in PACKED.items():
        for shared in heads:
            yield from (Member("packed", spec, 128, *tile, shared=shared) for tile in PACKED_TILES)
            yield Member("packed", spec, 128, 128, 128, apart=True, shared=shared)
    yield from _of("descending", "descending", DESCENDING)
    for spec in ("full", "causal"):
        yield from _of("forward", spec, TILES)
    yield from _of("forward", "even", EVEN)
    yield Member("forward", "full", 128, 128, 128, ordered=True)
    yield Member("packed", "packed-full", 128, 128, 128, apart=True, shared=8, ordered=True)


def _of(kernel: str, spec: str, tiles: Mapping[int, tuple[tuple[int, int], ...]]) -> Iterator[Member]:
    return (Member(kernel, spec, width, *tile) for width, found in tiles.items() for tile in found)


def computing(problem: Problem) -> list[Member]:
    """The members that compute a problem (without those that add up parts of it)."""
    specs = {
        "dense": ("causal", "descending", "packed-causal") if problem.causal else ("full", "even", "packed-full"),
        "decode": ("decode", "decode-split"),
        "variable": ("variable-causal", "packed-causal") if problem.causal else ("variable-full", "packed-full"),
    }[problem.kind]
    found = [one for one in members() if one.spec in specs and one.width == problem.width]
    found = [one for one in found if one.kernel != "packed" or one.shared == problem.shared]
    return [one for one in found if one.spec != "even" or problem.keys % one.keys == 0]


class Emitted(Protocol):
    """What `emit_members` makes."""

    @property
    def name(self) -> str:
        """Its folder."""

    def words(self) -> list[str]:
        """What `twill emit` is told."""


def build(folder: Path, machine: str) -> int:
    """Emits every member that is not there; how many could not be."""
    refused = emit_members((one for one in members() if not one.ordered), folder, machine)
    return refused + emit_members((one for one in members() if one.ordered), folder, ordered_machine(folder, machine))


def emit_members(wanted: Iterable[Emitted], folder: Path, machine: str) -> int:
    """Emits each of them that is not there; how many could not be."""
    from twill.cli.entry import main

    refused = 0
    for member in wanted:
        out = folder / member.name
        if (out / MANIFEST).is_file():
            continue
        print(member.name, flush=True)
        code = main(["emit", *member.words(), "--machine", machine, "--budget", "60", "--out", str(out)])
        if code:
            print(f"{member.name}: exit code {code}", flush=True)
        refused += code != 0
    return refused


def ordered_machine(folder: Path, machine: str) -> str:
    """The file of a described machine but for one figure: warp groups multiply in turn wherever a schedule orders them,
    with ordering barriers. machine: its name."""
    file = folder / f"{machine}-ordered.toml"
    folder.mkdir(parents=True, exist_ok=True)
    file.write_text(ORDERED.format(machine=machine), encoding="utf-8")
    return str(file)
