"""The instructions of Blackwell as Gluon calls them, beside those of `hopper.py` that it has too: products in tensor
memory, arrivals behind them, tensor memory into registers."""

from __future__ import annotations

import re

from twill import exc
from twill.codegen.print.gluon import scales
from twill.codegen.print.gluon.layouts import Products
from twill.codegen.print.gluon.operands import print_views
from twill.codegen.print.gluon.role import Role
from twill.codegen.warp.program import LoadAccumulator, SlotRef, StoreAccumulator, TensorMultiply, WarpProgram

MODULE = "triton.experimental.gluon.language.nvidia.blackwell"
NAMES = ("clc", "tcgen05_commit", "tcgen05_copy", "tcgen05_mma", "tcgen05_mma_scaled")
"""What the module has of the instructions below."""

ARCHITECTURES = {"sm_100a": 100}
MMA, COMMIT = "tcgen05_mma", "tcgen05_commit"
OPERANDS = {"bf16": "f16", "f16": "f16", "f8e4m3": "f8f6f4", "f8e5m2": "f8f6f4"}
"""Elements of products that are printed -> the kind of their instruction (PTX ISA, tcgen05.mma)."""
WORKER_BUDGET = 56  # registers of a thread of a partition that only issues instructions
FEW_REGISTERS = 64  # of a thread, with which a partition has fewer columns of tensor memory in registers at a time
ROWS, LANES, WARPS = (128, 64), 32, 4  # of results in tensor memory; of a warp; of a partition that reads tensor memory

PTX_MMA = re.compile(
    r"tcgen05\.mma\.cta_group::([12])\.kind::(\w+)(\.block_scale\S*)? +"
    r"\[[^\]]*\], *(\[[^\]]*\]|\S+), *\S+, *(%\w+|\d+),"
)
"""A product: its CTAs, its kind, whether blocks have scales, operand A (an address of tensor memory, or a descriptor),
and the register or number of its instruction descriptor."""
PTX_COMMIT = re.compile(r"tcgen05\.commit\.(\S+)")
PTX_ACCESS = re.compile(r"tcgen05\.(ld|st)\.sync\.aligned\.(?:32x32b|16x32bx2)\.")
ACCESSES = {"ld": "a read of tensor memory", "st": "a store to tensor memory"}


def has_tensor_memory(program: WarpProgram) -> bool:
    """Whether a program has products in tensor memory."""
    return any(buffer.tensor for buffer in program.buffers)


def read_layout(columns: int, rows: int, pair: bool) -> str:
    """The registers that tensor memory is read into: a row of the tile for each thread; for those of two CTAs if they
    are a pair. rows: 64 for half a row for each thread, 16 rows for a warp; else 0."""
    if rows:
        half = LANES // 2
        return f"gl.BlockedLayout([1, {columns // 2}], [{half}, 2], [{WARPS}, 1], [0, 1])"
    divided = ", cga_layout=[[1, 0]]" if pair else ""
    return f"gl.BlockedLayout([1, {columns}], [{LANES}, 1], [{WARPS}, 1], [0, 1]{divided})"


def product_fact(shape: str, kind: str, tensor: bool, pair: bool) -> str:
    """What is read back of a product. shape: as m128n64. tensor: whether operand A is in tensor memory. pair: whether
    two CTAs make it."""
    return f"{MMA}: {shape} of {kind}{', A from tensor memory' if tensor else ''}{', by two CTAs' if pair else ''}"


def commit_fact(pair: bool) -> str:
    """What is read back of an arrival behind products. pair: whether it comes in both CTAs."""
    return f"{COMMIT}, in both CTAs" if pair else COMMIT


def described(descriptor: int, scaled: bool) -> str:
    """Rows and columns of a product, as its instruction descriptor has them (PTX ISA, "Instruction descriptor").
    scaled: whether blocks have scales."""
    rows = (descriptor >> 27 & 3) << 7 if scaled else (descriptor >> 24 & 31) << 4
    return f"m{rows}n{(descriptor >> 17 & 63) << 3}"


def print_tensor_multiply(stmt: TensorMultiply, role: Role) -> None:
    """One product, begun; `tcgen05_commit` says when it is over."""
    if not stmt.block and stmt.operand not in OPERANDS:
        raise exc.NotInGluon(f"products of {stmt.operand} have no printer for Gluon", line=stmt.line)
    kind = scales.kind_of(role.program, stmt) if stmt.block else OPERANDS[stmt.operand]
    function = scales.MMA if stmt.block else MMA
    operands = [
        (ref, turned, _operand(ref, turned, role))
        for ref, turned in ((stmt.a, stmt.a_transposed), (stmt.b, stmt.b_transposed))
    ]
    shape = role.program.buffers[stmt.target.buffer].shape
    scaled = scales.scale_operands(stmt, role) if stmt.block else []
    more = [role.place(stmt.target), *scaled, f"use_acc={role.scalar(stmt.accumulate).text}"]
    longest = sorted((0, 1), key=lambda place: -len(operands[place][2]))
    said = print_views(operands, longest, lambda said: role.out.fits(function, [*said, *more]), stmt.line, role)
    tensor = role.program.buffers[stmt.a.buffer].tensor
    fact = product_fact(f"m{shape[0]}n{shape[1]}", kind, tensor, role.program.pairs)
    role.out.fact(fact, stmt.line)
    role.out.call(function, [*said, *more], kernel=stmt.line)


def _operand(ref: SlotRef, transposed: bool, role: Role) -> str:
    return f"{role.place(ref)}.permute((1, 0))" if transposed else role.place(ref)


def print_load_accumulator(stmt: LoadAccumulator, role: Role) -> None:
    """A tile, or some of its columns, into registers, when it is there."""
    layout = role.layouts[stmt.result]
    if not isinstance(layout, Products):
        raise exc.NotInGluon("tensor memory is read into a product's registers", line=stmt.line)
    text = _columns(stmt.source, role)
    role.out.fact(ACCESSES["ld"], stmt.line)
    role.out.line(f"{role.name(stmt.result)} = {text}.load({role.layout(layout)})", stmt.line)


def print_store_accumulator(stmt: StoreAccumulator, role: Role) -> None:
    """Registers into a tile, or some of its columns; Triton waits until they are there."""
    text, layout = role.value(stmt.operand)
    place = _columns(stmt.target, role)
    if not isinstance(layout, Products):
        raise exc.NotInGluon("a product's registers are stored to tensor memory", line=stmt.line)
    role.layout(layout)
    role.out.fact(ACCESSES["st"], stmt.line)
    value = text.text
    if not role.out.fits(f"{place}.store", [value]):
        value = role.free_local("part")
        role.out.line(f"{value} = {text.text}", stmt.line)
        role.taken.discard(value)
    role.out.line(f"{place}.store({value})", stmt.line)


def _columns(ref: SlotRef, role: Role) -> str:
    """A slot in tensor memory, or some of its columns."""
    shape = role.program.buffers[ref.buffer].shape
    text = role.place(ref.whole)
    if ref.columns in (None, (0, shape[1])):
        return text
    assert ref.columns is not None
    first, last = ref.columns
    return f"{text}.slice({role.first_column or first}, {last - first})"


def print_commit(barrier: str, role: Role, line: int) -> None:
    """An arrival when all products that were begun are over."""
    role.out.fact(commit_fact(role.program.pairs), line)
    role.out.line(f"{COMMIT}({barrier})", line)
