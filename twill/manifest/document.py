"""The manifest of an emitted kernel: everything that its launches need to know, beside the cubin.

It is the only thing that passes from the compiler to the runtime. JSON with a schema version; `cubin` is the hash of
the code that it belongs to and `digest` its own, so that a mixed or edited pair is refused rather than run.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from twill import exc
from twill.manifest.evaluate import GRID, Scalar, evaluate
from twill.manifest.record import Misfit, from_json, to_json
from twill.manifest.tile_loop import TileLoop

SCHEMA = "twill.manifest/13"
EDITIONS: tuple[tuple[str, Mapping[str, object]], ...] = (  # older ones that are read, and what each of them lacks
    ("twill.manifest/7", {"split": None}), ("twill.manifest/8", {"unproven": ""}),
    ("twill.manifest/9", {"numbers": [], "cancels": False}), ("twill.manifest/10", {"rereads": None}),
    ("twill.manifest/11", {"made": [], "own_maps": 0}), ("twill.manifest/12", {"early": False}),
)  # fmt: skip
MANIFEST, CUBIN = "manifest.json", "kernel.cubin"  # the two files that a launch reads
OLDER = tuple(f"twill.manifest/{version}" for version in range(1, 7))  # without what `lacks` says
COUNTERS_AT = 128  # bytes into the workspace: counters of a split, behind that of a dynamic order
NOTHING_AT = 64  # bytes into the workspace: 16 zeros, where tensor maps begin whose tensor has no elements
MAPS_AT = 128  # bytes into the workspace: tensor maps that CTAs make, behind its zeros
MAP_BYTES = 128  # of a tensor map
PLACES = 2  # of each map of a CTA: copies go through one while the other is made
SUM_WORDS = 4  # of each sum, among those zeros
SHARED_SUMS = 1 << 17  # elements of all parts of a sum from which on the instances that have parts add slices of it
SPLIT_ZEROS = 1 << 16  # bytes of zeros of a split kernel
POSITIVE = (2.0**-32, 2.0**32)  # what a number that is promised to be positive may be
AGAIN = "emit the kernel again; what was emitted is not meant to be edited"

Constant = int | float | bool | str | None
Swizzle = Literal[0, 32, 64, 128]  # bytes of a row in shared memory; 0: plain rows


@dataclass(frozen=True)
class CallArgument:
    """A parameter of the Triton kernel, as calls pass it.

    kind: "constant" has one `value`, that of the specialization ("tl.bfloat16" names a type of Triton's language).
    type: Triton's type string ("i32", "*bf16", "tensordesc<bf16[128, 64]>"; "" for a constant). element: of a pointer
    or descriptor, as `twill.runtime.tensor` calls it. block: the descriptor's. default: of what a call may leave out.
    """

    name: str
    kind: Literal["pointer", "descriptor", "number", "constant"]
    type: str = ""
    element: str = ""
    block: tuple[int, ...] = ()
    value: Constant = None
    optional: bool = False
    default: Constant = None


@dataclass(frozen=True)
class Promise:
    """The code relies on scalar or address `name` being a multiple of `multiple` (bytes, for an address), or, positive,
    on a float being between the ends of `POSITIVE`."""

    name: str
    multiple: int
    positive: bool = False


@dataclass(frozen=True)
class MapEntry:
    """A tensor map to be made from the arguments; as `twill.codegen.warp.program.TensorMap`, outermost axis first.

    element: "e2m1" is one of 4 bits, two to a byte of the tensor, which gets a place of 8 bits in shared memory.
    sizes: elements (None: no bound). strides, offset: elements. box: of one copy. swizzle: bytes. together: elements
    along the last axis that the map has as one of a wider type.
    """

    argument: str
    element: str
    sizes: tuple[Scalar | None, ...]
    strides: tuple[Scalar, ...]
    offset: Scalar
    box: tuple[int, ...]
    swizzle: Literal[0, 32, 64, 128]
    together: int = 1


@dataclass(frozen=True)
class KernelParameter:
    """A parameter of the compiled kernel. kind "map": `maps[index]`; "grid": grid size along axis `index`; "computed":
    `numbers[index]`; "workspace": the address of the zeros that the kernel asks for (`twill.runtime.workspace`);
    "origin": where the addresses are counted from that the kernel looks up, 0 on a GPU."""

    kind: Literal["map", "scalar", "pointer", "grid", "computed", "workspace", "origin"]
    name: str
    element: str
    index: int


@dataclass(frozen=True)
class NumericChange:
    """Numbers that the code rounds otherwise, or elsewhere, than the Triton kernel says. line: of the kernel, 0: none.
    what: by what. bound: on the error that it may add."""

    line: int
    what: str
    bound: str

    def said(self) -> str:
        """For people."""
        return f"{f'line {self.line}: ' if self.line else ''}{self.what} ({self.bound})"


@dataclass(frozen=True)
class Rereads:
    """A program instance reads `size` bytes twice; `room`: bytes of the L2 cache for what CTAs of one SM read again;
    least: CTAs of an SM that keep memory busy."""

    size: Scalar
    room: int
    least: int

    def ctas(self, size: int) -> int:
        """That may share an SM where an instance reads so many bytes twice; 0: any number, as what few of them read
        does not stay there either."""
        most = self.room // size if size > 0 else 0
        return most if most >= self.least else 0


@dataclass(frozen=True)
class SplitK:
    """Program instances that are split into `parts` along an axis of the launch grid that the Triton kernel has not
    (`twill.tile.rewrite.split_k`). sums: partial sums of each part, and as many counters among the zeros, for every
    instance of the Triton kernel. bytes: of the partial sums of one part, in the workspace behind its zeros."""

    axis: int
    parts: int
    sums: int
    bytes: int

    def instances(self, grid: tuple[int, int, int], zeros: int) -> tuple[int, int, int]:
        """The launch grid with the parts; with one where the zeros have no room for so many counters: so many
        instances fill any GPU."""
        count = grid[0] * grid[1] * grid[2]
        parts = self.parts if COUNTERS_AT + SUM_WORDS * 4 * count * self.sums <= zeros else 1
        x, y, z = (parts if axis == self.axis else extent for axis, extent in enumerate(grid))
        return x, y, z


@dataclass(frozen=True)
class Manifest:
    """See the top of this file. threads: of a CTA. shared: dynamic shared memory in bytes. grid: the launch grid as
    the sidecar writes it, for people. loads, stores, reduces: tensor arguments that are read, written, combined with
    (by atomic additions and their like). schedule: the schedule's key. cubin, digest: SHA-256, hexadecimal.
    ctas: that share an SM. workspace: bytes of zeros that a launch has for itself, and leaves as zeros. cluster: CTAs
    of a cluster, which work on program instances that are neighbours along `cluster_axis` of the launch grid. apart:
    (written, loaded) arguments that must not share memory; conditions behind them: unless both are one tensor, and
    numbers are so (`dx==x`, `dx>=n`). changes: every change of numbers. strict: emitted with --strict-math.
    fp_fusion: Triton's option `enable_fp_fusion`. tiles: the loop over tiles that the Triton kernel has around its
    work. persistent: whether CTAs go on with further program instances; else each has one. split: how instances are
    split into parts, if they are. numbers: parameters that are computed from the arguments and the launch grid.
    cancels: whether CTAs go on with the instances of CTAs that have not started, so that a launch has one for each.
    unproven: what nobody has seen of such kernels; "" if all is well. rereads: for which CTAs share an SM less.
    made: indices of the maps that CTAs make, from templates that have the boxes and swizzle of `maps`, and nothing of a
    tensor. own_maps: how many a CTA has. early: whether a launch may begin before the kernel in front of it in its
    stream has ended, as it waits for that itself."""

    schema: str
    kernel: str
    spec: str
    file: str
    machine: str
    architecture: str
    function: str
    threads: int
    shared: int
    arguments: tuple[CallArgument, ...]
    promises: tuple[Promise, ...]
    parameters: tuple[KernelParameter, ...]
    maps: tuple[MapEntry, ...]
    grid: tuple[str, ...]
    loads: tuple[str, ...]
    stores: tuple[str, ...]
    reduces: tuple[str, ...]
    apart: tuple[tuple[str, ...], ...]
    changes: tuple[NumericChange, ...]
    strict: bool
    fp_fusion: bool
    schedule: str
    cubin: str
    ctas: int = 1
    workspace: int = 0
    cluster: int = 1
    cluster_axis: int = 0
    tiles: TileLoop | None = None
    persistent: bool = True
    split: SplitK | None = None
    numbers: tuple[Scalar, ...] = ()
    unproven: str = ""
    cancels: bool = False
    rereads: Rereads | None = None
    made: tuple[int, ...] = ()
    own_maps: int = 0
    early: bool = False
    digest: str = ""

    def computed(self, index: int, scalars: Mapping[str, int | float], grid: tuple[int, ...]) -> int:
        """The number of a parameter of kind "computed". Errors: KeyError, OverflowError, ZeroDivisionError."""
        sizes = {f"{GRID}.{axis}": size for axis, size in enumerate(grid)}
        return int(evaluate(self.numbers[index], {**scalars, **sizes}))

    def text(self) -> str:
        """The document, its digest included. Ends with a newline."""
        return _text(replace(self, digest=_digest(self)))

    def belongs_to(self, cubin: bytes) -> bool:
        """Whether it was written for this code."""
        return self.cubin == sha256(cubin)


def sha256(data: bytes) -> str:
    """The hash as hexadecimal text."""
    return hashlib.sha256(data).hexdigest()


def parse_manifest(text: str, file: str = "") -> Manifest:
    """The manifest in a text; `file` is named in errors. Errors: MalformedManifest."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise exc.MalformedManifest(f"not JSON: {error}", file=file, hint=AGAIN) from None
    schema = data.get("schema") if isinstance(data, dict) else None
    known = [name for name, _ in EDITIONS]
    if schema in known:
        for _, lacking in EDITIONS[known.index(schema) :]:
            data = {**data, **lacking}
        schema, data = SCHEMA, {**data, "schema": SCHEMA}
    if schema != SCHEMA:
        older = isinstance(schema, str) and schema in OLDER
        lacks = ", which has the list of what the code changes in numbers and loops over tiles" if older else ""
        hint = f"this version of Twill reads {SCHEMA!r}{lacks}: emit the kernel again with it"
        raise exc.MalformedManifest(f"schema is {schema!r}", file=file, hint=hint)
    try:
        manifest = from_json(Manifest, data)
    except Misfit as misfit:
        raise exc.MalformedManifest(str(misfit), file=file, hint=AGAIN) from None
    if not _signed(text, manifest.digest):
        raise exc.MalformedManifest("its digest is not that of its content", file=file, hint=AGAIN)
    return manifest


def read_manifest(path: Path) -> Manifest:
    """The manifest in a file. Errors: FileMissing, MalformedManifest."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise exc.FileMissing(str(path), error.strerror or str(error), "a directory that `twill emit` wrote") from None
    except UnicodeDecodeError as error:
        raise exc.MalformedManifest(f"not UTF-8 text: {error.reason}", file=str(path), hint=AGAIN) from None
    return parse_manifest(text, str(path))


def _text(manifest: Manifest) -> str:
    return json.dumps(to_json(manifest), indent=1) + "\n"


def _digest(manifest: Manifest) -> str:
    return sha256(_text(replace(manifest, digest="")).encode())


def _signed(text: str, digest: str) -> bool:
    """Whether the text is one that `text` wrote: the digest is that of the text without it."""
    field = '"digest": "'
    before, _, behind = text.rpartition(f"{field}{digest}")
    return sha256(f"{before}{field}{behind}".encode()) == digest
