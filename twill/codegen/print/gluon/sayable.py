"""What Gluon can say: the warp program without what is only an optimization there, or the reason why it can't be said.

Gluon has tensors whose sizes are powers of two, spread over all warps of a partition. It has no instruction for one
warp or one thread, names no register but by a tensor, and its compiler places fences and barriers within a partition.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from math import prod

from twill import exc
from twill.codegen.print.gluon import blackwell, hopper
from twill.codegen.print.gluon.blackwell import ROWS, has_tensor_memory
from twill.codegen.print.gluon.hopper import FIRST_BARRIER
from twill.codegen.print.gluon.joined import with_joined_branches
from twill.codegen.print.gluon.joined_rings import with_joined_rings
from twill.codegen.print.gluon.kernel_names import with_names_of_the_kernel
from twill.codegen.print.gluon.narrow import with_narrow_parts
from twill.codegen.print.gluon.pairs import reasons_of_pairs
from twill.codegen.print.gluon.rerolled import with_loops_of_all_steps
from twill.codegen.print.gluon.ring_names import with_distinct_buffers, with_own_names
from twill.codegen.print.gluon.scales import fills_scales, refuse_scales
from twill.codegen.print.gluon.staging import staged_in_parts
from twill.codegen.warp import program as ir
from twill.codegen.warp.expression import Apply, CtaNumber, Expr, Local, Number
from twill.codegen.warp.layout import Accumulator, Along, Blocked, Uniform, shape_of
from twill.tile.program import TileProgram
from twill.tile.vocabulary import ELECTED

UNSAID = (
    "partial-reductions",
    "warp-votes",
    "packed-floats",
    "unused-indices",
    "frequent-divisors",
    "launch-divisions",
    "read-once",
    "early-launch",
    "tensor-overlay",
    "overlay",
)
"""Passes of `twill.codegen.passes` whose result Gluon has no words for: short formulas of ours, sums that lanes hold in
parts, what one warp leaves out, pairs of f32, which indices each group asks for (here
a function tells all of them), and buffers that lie over one another since their loops do not run at once."""

_TILES = "tiles whose sizes are powers of two, or the CUDA form (`--as cuda`)"
_CUDA = "the CUDA form (`--as cuda`)"


def sayable(program: ir.WarpProgram, named_barriers: int) -> ir.WarpProgram:
    """The program without tiles that stay from one instance to the next. named_barriers: as machine files have it.
    Raises NotInGluon."""
    plain = with_names_of_the_kernel(with_distinct_buffers(staged_in_parts(without_reuse(program))))
    plain = with_own_names(plain)
    plain = with_narrow_parts(with_joined_branches(plain)) if has_tensor_memory(plain) else with_joined_rings(plain)
    plain = with_loops_of_all_steps(plain)
    for line, what, instead in reasons(plain, named_barriers):
        raise exc.NotInGluon(what, file=program.program.file, line=line, hint=instead)
    return plain


# ---------------------------------------------------------------- cross-tile reuse
def without_reuse(program: ir.WarpProgram) -> ir.WarpProgram:
    """Every instance loads all of its tiles: none before it had the same."""
    groups = tuple(replace(group, body=_loading(group.body, {})) for group in program.groups)
    if program.cluster is not None or program.instance_ring is not None:
        return replace(program, groups=groups)
    loop = ir.InstanceLoop(CtaNumber("cta"), Local("instances", "u32"), CtaNumber("ctas"))  # and no runs of neighbours
    return replace(program, groups=tuple(replace(group, loop=loop) for group in groups), setup=program.setup[:1])


def _loading(block: tuple[ir.Stmt, ...], known: dict[str, bool]) -> tuple[ir.Stmt, ...]:
    """A block without reuse. known: scalars that are decided by it; those of the block are added."""
    made: list[ir.Stmt] = []
    for stmt in block:
        match stmt:
            case ir.CountReuse(name):
                known[name] = False
            case ir.Let(name, value) if _decided(value, known) is not None:
                known[name] = bool(_decided(value, known))
            case ir.If(condition, body, otherwise) if (holds := _decided(condition, known)) is not None:
                made.extend(_loading(body if holds else otherwise, known))
            case _:
                made.append(ir.with_blocks(stmt, lambda inner: _loading(inner, known)))
    return tuple(made)


def _decided(expr: Expr, known: dict[str, bool]) -> bool | None:
    """Whether a condition holds, where that follows from `known` (a count of reuse: 0); else None."""
    match expr:
        case Local(name) if name in known:
            return known[name]
        case Apply("and", operands):
            sides = [_decided(one, known) for one in operands]
            return False if False in sides else None
        case Apply("compare", (Number(0), Local(name)), _, attributes) if name in known:
            return known[name] if ("predicate", "lt") in attributes else None
    return None


# ---------------------------------------------------------------- before a schedule is made
_UNPRINTED = {"scan": "scans"}


def refuse_at_once(program: TileProgram, architecture: str) -> None:
    """Raises NotInGluon for what no schedule could say: tiles of other sizes, elements that no product is printed for,
    no products at all, and what was asked for beside them."""
    if program.walk is not None or any(argument.is_pointee for argument in program.arguments):
        raise exc.NotInGluon(
            "modules of Gluon have no loops around a kernel's work and no pointers from integers",
            file=program.file, hint=_CUDA,
        )  # fmt: skip
    loop = next((op for op in program.ops() if op.region is not None), None)
    if loop is not None:
        elects = loop.kind == ELECTED
        what = f"modules of Gluon have no {'atomic operations that are read' if elects else '`while` loops'}"
        raise exc.NotInGluon(what, file=program.file, line=loop.line, hint=_CUDA)
    operands = blackwell.OPERANDS if architecture in blackwell.ARCHITECTURES else hopper.OPERANDS
    if not any(op.kind in ("dot", "dot_scaled") for op in program.ops()):
        what = "a kernel without products has tiles without a matrix around them, whose layouts are left to Triton"
        raise exc.NotInGluon(what, file=program.file)
    if program.split is not None:
        raise exc.NotInGluon(
            "partial sums of program instances have no printer for Gluon", hint="emit without `--split`"
        )
    for op in program.ops():
        if op.kind in _UNPRINTED:
            raise exc.NotInGluon(f"{_UNPRINTED[op.kind]} have no printer for Gluon", file=program.file, line=op.line)
        if op.kind == "dot_scaled":
            refuse_scales(op, program)
        element = program.type_of(op.operands[0]).element if op.kind == "dot" else ""
        if element and element not in operands:
            what = f"products of {element} have no printer for Gluon on this machine"
            raise exc.NotInGluon(what, file=program.file, line=op.line)
        for value in op.results:
            shape = program.type_of(value).shape
            if any(map(_odd, shape)):
                sizes = " x ".join(map(str, shape))
                what = f"a tile of {sizes} is no power of two, and tensors of Gluon are"
                raise exc.NotInGluon(what, file=program.file, line=op.line, hint=_TILES)


# ---------------------------------------------------------------- reasons
Reason = tuple[int, str, str]


def reasons(program: ir.WarpProgram, named_barriers: int) -> Iterator[Reason]:
    """Why Gluon can't say a program: line of the kernel, what, and what to write instead."""
    between, left = sum(len(barrier.groups) > 1 for barrier in program.barriers), named_barriers + 1 - FIRST_BARRIER
    if between > left:
        yield 0, f"{between} named barriers between partitions, of which Triton leaves {left}", _CUDA
    if program.pairs:
        for line, what in reasons_of_pairs(program):
            yield line, what, "emit without pairs of CTAs (`--cluster 1`)"
    elif program.cluster is not None:
        yield 0, "tiles that two CTAs load together and multiply alone have no printer for Gluon", "`--cluster 1`"
    if program.instance_ring is not None and any(group.share[1] > 1 for group in program.groups):
        what = "partitions that take instances alternately have no printer for Gluon in a dynamic order"
        yield 0, what, "`--order static`, or row blocks (`--blocks 2`)"
    if any(isinstance(stmt, ir.SumOver) for stmt in program.setup):
        yield 0, "program instances that are empty and left out have no printer for Gluon", "`--order static`"
    for buffer in program.buffers:
        yield from _of_buffer(buffer)
    if program.tensor_columns > ir.MOST_TENSOR_COLUMNS:
        yield 0, f"tensor memory has {ir.MOST_TENSOR_COLUMNS} columns, and in Gluon each loop has its own", _CUDA
    for entry in program.maps:
        if entry.together > 1:
            yield 0, f"Gluon's tensor maps know no elements that are moved as wider ones (`{entry.argument}`)", _CUDA
        if program.pairs and None in entry.sizes:
            what = f"a pair that lacks an instance would read past the end of `{entry.argument}`, which has no bounds"
            yield 0, what, "masks, or emit without pairs of CTAs (`--cluster 1`)"
        if (axes := len(entry.box)) > 2 and program.pairs:
            yield (
                0,
                f"`{entry.argument}` has {axes} axes and its tiles have 2, of which two CTAs have parts",
                "`--cluster 1`",
            )
        if any(extent > 1 for extent in entry.box[:-2]) and not fills_scales(program, entry):
            yield 0, f"a tile of `{entry.argument}` has more than two axes", _CUDA
    for group in program.groups:
        yield from _of_group(group)


def _of_buffer(buffer: ir.Buffer) -> Iterator[Reason]:
    if buffer.tensor and buffer.shape[0] not in ROWS:
        rows = f"the {buffer.shape[0]} rows of `{buffer.name}` in tensor memory have no printer for Gluon"
        yield 0, rows, f"tiles whose results have {' or '.join(map(str, ROWS))} rows, or {_CUDA}"
    if any(map(_odd, buffer.shape)):
        shape = " x ".join(map(str, buffer.shape))
        yield 0, f"the tile `{buffer.name}` of {shape} is no power of two, and tensors of Gluon are", _TILES


def _of_group(group: ir.WarpGroup) -> Iterator[Reason]:
    for fragment in group.fragments:
        yield from _of_fragment(fragment, group)
    for stmt in group.stmts:
        yield from _of_statement(stmt)


def _of_fragment(fragment: ir.Fragment, group: ir.WarpGroup) -> Iterator[Reason]:
    shape = shape_of(fragment.layout)
    line = next((s.line for s in group.stmts if getattr(s, "result", None) == fragment.id and s.line), 0)
    match fragment.layout:
        case Blocked() | Uniform():
            yield line, f"`{fragment.name}` is a tile without a matrix around it: its layout is left to Triton", _CUDA
        case Along(parts=True):
            yield line, f"`{fragment.name}` is a sum that lanes hold in parts", _CUDA
        case Accumulator() | Along():
            if any(map(_odd, shape)):
                sizes = " x ".join(map(str, shape))
                yield line, f"`{fragment.name}` of {sizes} is no power of two, and tensors of Gluon are", _TILES


def _of_statement(stmt: ir.Stmt) -> Iterator[Reason]:
    match stmt:
        case ir.Compute(attributes=attributes) if ir.WARP_VOTE in dict(attributes):
            yield stmt.line, "a warp of Gluon can't leave out what the others do", _CUDA
        case ir.StoreShared(columns=columns, target=target) if columns is not None or target.columns is not None:
            yield stmt.line, "Gluon stores no part of the columns of a tensor", "tiles that fit into one staging buffer"
        case ir.LoadGlobal(window=window) | ir.StoreGlobal(window=window) if any(
            _odd(axis.extent) for axis in window.axes
        ):
            yield stmt.line, f"a window of {prod(a.extent for a in window.axes)} elements is no power of two", _TILES
        case ir.BulkWait(read=False, line=line) | ir.ProxyFence(memory=True, line=line) if line:
            yield line, "Gluon has no wait for the end of a copy to global memory, nor a fence of it", _CUDA
        case ir.StoreGlobal(combine=combine) if combine:
            yield stmt.line, f"the atomic `{combine}` has no printer for Gluon", _CUDA
        case ir.Reduce(combine=combine) if combine not in ("add", "max", "min"):
            yield stmt.line, f"reductions by `{combine}` have no printer for Gluon", _CUDA
        case ir.Rearrange():
            yield stmt.line, "elements that move between threads have no printer for Gluon", _CUDA
        case ir.Histogram():
            yield stmt.line, "`tl.histogram` has no printer for Gluon", _CUDA
        case ir.Scan():
            yield stmt.line, f"scans by `{stmt.combine}` have no printer for Gluon", _CUDA
        case ir.SumParts():
            yield stmt.line, "partial sums of program instances have no printer for Gluon", "emit without `--split`"
        case ir.Pipeline() | ir.If():
            pass


def _odd(size: int) -> bool:
    return size < 1 or bool(size & (size - 1))
