"""Kernels for the B200 whose tiles have fewer columns, made by the schedule of the kernel as it is: what SentryWard is
asked about where it has no answer about the kernel itself.

Its time grows with accesses, of which a `tcgen05.ld` has one for each register of each thread, and with iterations. A
narrow kernel has the warp groups, rings, barriers and statements of the wide one, and rings as deep; only tiles have
fewer columns, so that column parts of an accumulator are one.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from unittest.mock import patch

from tests import blackwell_attention, blackwell_kept
from tests.blackwell import machine
from tests.blackwell_attention import Attention
from tests.golden_schedules import Example
from tests.run_cache import once
from twill.codegen.emission import Extracted, extract
from twill.codegen.emit import Emission, build_kernel
from twill.codegen.lowering import lower
from twill.codegen.warp.program import Aref, WarpProgram
from twill.codegen.warp.text import text
from twill.graph import fuse
from twill.machine.description import Figure, Machine
from twill.schedule.document import Schedule
from twill.tile.rewrite import conditional_rescale
from twill.tile.rewrite.pipeline import Allowed

COLUMNS = 16  # of K and V, of a block of keys: the fewest that a product has
ROW_BYTES = 4 * 128  # of a column of tensor memory
ROWS = ("q_desc", "o_desc")  # tiles of attention forward that keep their rows
LESS = 4  # a vector is so many times as large a part of a narrow tile


@dataclass(frozen=True)
class Narrow:
    """of: the kernel as it is; program: the narrow one. cut: its constants that are smaller. cluster: CTAs that share
    loads."""

    kernel: Extracted
    of: WarpProgram
    schedule: Schedule
    on: Machine
    program: WarpProgram
    cut: tuple[str, ...]
    cluster: int = 1

    def compiled(self) -> Emission:
        """Compiled; neither checked nor executed."""
        made = (self.program, self.kernel.specialization, self.schedule, self.on)
        name = hashlib.sha256(text(self.program).encode()).hexdigest()[:16]
        return once(f"narrow-{name}", lambda: build_kernel(*made))


@cache
def attention(one: Attention, cluster: int = 1) -> Narrow:
    """Forward. cluster: 2 for CTAs that share K and V."""
    small = Attention(one.spec, one.rows, COLUMNS, COLUMNS, one.conditional)
    constants = (*small.constants, f"HEAD_DIM={COLUMNS}")
    allowed = Allowed(conditional=one.conditional)
    kernel = read(blackwell_attention.FILE, one.spec, small.signature, constants, allowed)
    wide, schedule = blackwell_attention.kernel(one), blackwell_attention.schedule(one)
    return narrow(kernel, wide, schedule, ("HEAD_DIM", "BLOCK_N"), cluster)


BACKWARD_TYPES = (
    *(f"{name}=tensordesc<bf16[64, {COLUMNS}]>" for name in ("q_desc", "do_desc")),
    *(f"{name}=tensordesc<bf16[128, {COLUMNS}]>" for name in ("k_desc", "v_desc", "dk_desc", "dv_desc")),
    f"dq_desc=tensordesc<fp32[64, {COLUMNS}]>",
)
LINEAR_TYPES = tuple(f"{name}=tensordesc<bf16[64, {COLUMNS}]>" for name in ("v_desc", "o_desc"))


@cache
def kept(one: Example, cluster: int = 1) -> Narrow:
    """Attention backward and linear attention, whose products keep their 64 or 128 rows. cluster: 2 for CTAs that share
    Q and dO."""
    backward = one.file.endswith("backward.py")
    types, constant = (BACKWARD_TYPES, "HEAD_DIM") if backward else (LINEAR_TYPES, "BLOCK_V")
    kernel = read(one.file, one.spec, types, (f"{constant}={COLUMNS}",), Allowed())
    return narrow(kernel, blackwell_kept.kernel(one), blackwell_kept.schedule(one), (constant,), cluster)


@cache
def forward(one: Example) -> Narrow:
    """Other kernels of attention forward; of the constants a mask's and a window's stay as they are."""
    wide = blackwell_kept.kernel(one)
    types = [f"{name}=tensordesc<bf16[{cut(name, box)}]>" for name, box in boxes(wide)]
    constants = ("BLOCK_M=128", f"HEAD_DIM={COLUMNS}", f"BLOCK_N={COLUMNS}")
    kernel = read(one.file, one.spec, types, constants, Allowed())
    return narrow(kernel, wide, blackwell_kept.schedule(one), ("HEAD_DIM", "BLOCK_N"))


def cut(name: str, box: tuple[int, ...]) -> str:
    """The box of a narrow tile of attention forward."""
    *outer, rows, _ = box
    return ", ".join(map(str, (*outer, rows if name in ROWS else COLUMNS, COLUMNS)))


def boxes(kernel: Extracted) -> list[tuple[str, tuple[int, ...]]]:
    """Of each tensor that a descriptor names."""
    found = [(name, re.fullmatch(r"tensordesc<\w+\[([\d, ]+)\]>", kind)) for name, kind in
             kernel.specialization.signature]  # fmt: skip
    return [(name, tuple(map(int, box[1].split(",")))) for name, box in found if box is not None]


def read(file: str, spec: str, types: Sequence[str], constants: Sequence[str], allowed: Allowed) -> Extracted:
    """The kernel with narrow tiles, whose tasks are those of the wide one: what is small or worth a vote is less."""
    votes = patch.object(conditional_rescale, "WORTH", conditional_rescale.WORTH // LESS)
    with votes, patch.object(fuse, "SMALL", fuse.SMALL // LESS):
        return extract(file, spec, types, constants, allowed)


def narrow(kernel: Extracted, wide: Extracted, schedule: Schedule, cut: tuple[str, ...], cluster: int = 1) -> Narrow:
    """Lowered by a schedule of the wide kernel, with rings as deep as its rings."""
    of = lower(wide.wired, schedule, machine(), cluster=cluster)
    depth = {ring.name: ring.depth for ring in of.arefs}
    deepest = max((ring.depth for ring in of.arefs if ring.transport == "tma"), default=1)
    on = machine()
    room = with_room(on, deepest, on.emitting.spare_shared.whole, on.capacity("tmem"))
    found = lower(kernel.wired, schedule, room, cluster=cluster)
    over = {ring: max(0, ring.depth - depth[ring.name]) for ring in found.arefs}
    known = {buffer.name for buffer in of.buffers}
    staged = sum(one.bytes * one.slots for one in found.buffers if one.name not in known)
    shared, columns = (
        sum(size * slots for ring, slots in over.items() for size in sizes(found, ring, tensor))
        for tensor in (False, True)
    )
    if shared or columns or staged:
        end = max(buffer.offset + buffer.slots * buffer.stride for buffer in found.buffers if buffer.tensor)
        kept_columns = (end - columns) * ROW_BYTES if columns else on.capacity("tmem")
        spare = on.capacity("shared") - found.shared + shared + staged
        room = with_room(on, deepest, spare, kept_columns)
        schedule = schedule.model_copy(update={"machine_digest": room.digest()})
        found = lower(kernel.wired, schedule, room, cluster=cluster)
    return Narrow(kernel, of, schedule, on, found, cut, cluster)


def sizes(program: WarpProgram, ring: Aref, tensor: bool) -> list[int]:
    """Of one of its slots: bytes of shared memory, or columns of tensor memory."""
    held = (program.buffers[number] for number in ring.buffers)
    return [one.width if tensor else one.bytes for one in held if one.tensor == tensor]


def with_room(on: Machine, slots: int, spare: int, tensor: int) -> Machine:
    """A machine for whose kernels a ring of loads is no deeper, that leaves so many bytes of shared memory alone, and
    has so many of tensor memory."""

    def figure(was: Figure, value: int) -> Figure:
        return was.model_copy(update={"value": float(value)})

    was = on.emitting
    room = {"ring_slots": figure(was.ring_slots, slots), "spare_shared": figure(was.spare_shared, spare)}
    memories = tuple(
        one.model_copy(update={"bytes": figure(one.bytes, tensor)}) if one.name == "tmem" else one
        for one in on.memories
    )
    return on.model_copy(update={"emission": was.model_copy(update=room), "memories": memories})


def outline(program: WarpProgram) -> list[str]:
    """Its rings, and what its warp groups do, each line once, without sizes, parts of columns and arithmetic."""
    lines: dict[str, None] = {}
    for ring in program.arefs:
        lines[f"{ring.name} {ring.depth} {ring.transport} {ring.full_count} {ring.empty_count}"] = None
    body = text(program)
    group = ""
    for line in body[body.index("\naref") :].splitlines():
        plain = re.sub(r"\[[^\[\]]*:[^\[\]]*\]", "", line)
        plain = re.sub(r"_part|_?\d+", "", plain).strip()
        if line.startswith("group"):
            group = plain
        if not plain.startswith(("fragment", "aref")) and not re.match(r"%\S+ = (?!load|read)", plain):
            lines[f"{group}: {plain}"] = None
    return list(lines)
