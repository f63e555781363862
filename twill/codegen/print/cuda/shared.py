"""Where things are in shared memory, and what the text calls that; one name where the warp groups of a role differ."""

from __future__ import annotations

from dataclasses import dataclass

from twill.codegen.print.cuda.names import Names
from twill.codegen.print.cuda.print_per_group import per_group
from twill.codegen.print.sections import Section, common_name
from twill.codegen.warp.program import ORDER_BYTES, TENSOR_BYTES, Buffer, WarpProgram

BARRIER_BYTES = 8


@dataclass(frozen=True)
class SharedAddresses:
    """C of where a buffer, a ring's barriers and the order of instances are, in bytes from the start, and of the
    numbers of named barriers."""

    buffers: tuple[str, ...]
    full: tuple[str, ...]
    empty: tuple[str, ...]
    named: tuple[str, ...]
    order: str

    @classmethod
    def of(cls, program: WarpProgram, names: Names) -> SharedAddresses:
        """Constants of the whole text."""
        return cls(
            tuple(names.fresh(f"{b.name}_at") for b in program.buffers),
            tuple(names.fresh(f"{a.name}_full") for a in program.arefs),
            tuple(names.fresh(f"{a.name}_empty") for a in program.arefs),
            tuple(str(b.id + 1) for b in program.barriers),  # number 0 is __syncthreads
            names.fresh("walk_at"),
        )


def described(buffer: Buffer) -> str:
    """What a buffer holds, for a comment."""
    shape = " x ".join(map(str, buffer.shape))
    if buffer.tensor:
        return f"columns of tensor memory, {buffer.name}: {buffer.slots} x {shape} {buffer.element}"
    return f"{buffer.name}: {buffer.slots} x {shape} {buffer.element}, swizzle {buffer.swizzle}"


def barriers_at(program: WarpProgram) -> tuple[tuple[int, int], ...]:
    """Bytes from the start of shared memory to each ring's barriers, (full, empty), behind all buffers."""
    at = buffers_end(program)
    at = -(-at // BARRIER_BYTES) * BARRIER_BYTES
    found = []
    for ring in program.arefs:
        found.append((at, at + ring.depth * BARRIER_BYTES))
        at += 2 * ring.depth * BARRIER_BYTES
    return tuple(found)


def tensor_barriers(program: WarpProgram) -> tuple[range, ...]:
    """Bytes of the barriers, full and empty, of each ring that has tiles in tensor memory."""
    return tuple(
        range(full, empty + ring.depth * BARRIER_BYTES)
        for ring, (full, empty) in zip(program.arefs, barriers_at(program), strict=True)
        if any(program.buffers[number].tensor for number in ring.buffers)
    )


def buffers_end(program: WarpProgram) -> int:
    """Bytes from the start of shared memory to the end of all buffers."""
    return max((b.offset + b.slots * b.bytes for b in program.buffers if not b.tensor), default=0)


def tensor_at(program: WarpProgram) -> int:
    """Bytes from the start of shared memory to the address of tensor memory, behind everything else."""
    return order_at(program) + program.once_bytes


def answer_at(program: WarpProgram) -> int:
    """Bytes from the start of shared memory to the answer to a request for another CTA's place, whose barrier is behind
    it."""
    return tensor_at(program) + (TENSOR_BYTES if program.tensor_columns else 0)


def order_at(program: WarpProgram) -> int:
    """Bytes from the start of shared memory to what is kept of the order of program instances, behind all barriers."""
    buffers = buffers_end(program)
    end = max((empty + ring.depth * BARRIER_BYTES for ring, (_, empty)
               in zip(program.arefs, barriers_at(program), strict=True)), default=buffers)  # fmt: skip
    return -(-end // ORDER_BYTES) * ORDER_BYTES


def marks_at(program: WarpProgram) -> int:
    """Bytes from the start of shared memory to the marks of a sum, behind what is kept of the order of instances."""
    return order_at(program) + program.once_bytes - program.marks_bytes


def of_section(
    shared: SharedAddresses, program: WarpProgram, section: Section, place: str, names: Names
) -> tuple[SharedAddresses, tuple[str, ...]]:
    """The names within a section, and the lines that define them: what differs between its groups is a constant of
    each, by its place in the section."""
    at, buffers, arefs, barriers = barriers_at(program), program.buffers, program.arefs, program.barriers
    kinds = (
        (
            shared.buffers,
            section.buffers,
            [b.name for b in buffers],
            "_at",
            [b.offset for b in buffers],
        ),
        (shared.full, section.arefs, [a.name for a in arefs], "_full", [full for full, _ in at]),
        (shared.empty, section.arefs, [a.name for a in arefs], "_empty", [empty for _, empty in at]),
        (
            shared.named,
            section.barriers,
            [b.name for b in barriers],
            "_id",
            [b.id + 1 for b in barriers],
        ),
    )
    made: list[tuple[str, ...]] = []
    lines: list[str] = []
    for known, ids, called, end, numbers in kinds:
        own = list(known)
        for first, groups in ids.items():
            if len(set(groups)) > 1:
                own[first] = names.fresh(common_name([called[number] for number in groups]) + end)
                value = per_group([known[n] for n in groups], place, [numbers[n] for n in groups])
                lines.append(f"const u32 {own[first]} = {value};")
        made.append(tuple(own))
    return SharedAddresses(made[0], made[1], made[2], made[3], shared.order), tuple(lines)
