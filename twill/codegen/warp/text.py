"""A warp program as text: one line a statement, blocks indented, names instead of ids, kernel lines as comments.

For people, `twill emit --ir` and golden tests; nothing reads it back. Every statement and declaration is there; element
types and signs of scalar expressions are not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from twill.codegen.warp import expression as scalar
from twill.codegen.warp import layout
from twill.codegen.warp import program as aref
from twill.codegen.warp.expression import Expr

INDENT = "  "


def text(program: aref.WarpProgram) -> str:
    """The whole program. Ends with a newline."""
    tile = program.program
    names = _Names.of(program)
    head = f"warp program {tile.kernel} {tile.spec} for {program.machine}: {program.shared} bytes of shared memory"
    head += f", {program.ctas} CTAs share an SM" if program.ctas > 1 else ""
    head += f", grid in bands of {program.band} rows" if program.band else ""
    lines = [head]
    if program.cluster is not None:
        lines.append(_cluster(program.cluster))
    if program.fused is not None:
        lines.append(f"fused: {program.fused.count} instances along axis {program.fused.axis} of the grid")
    lines += [_map(entry) for entry in program.maps]
    lines += [_buffer(entry, names) for entry in program.buffers]
    lines += [_aref(entry, names) for entry in program.arefs]
    lines += [_barrier(entry, names) for entry in program.barriers]
    if program.order is not None:
        rounds = "" if program.told is not None else "every other round backwards, "
        end = "last" if program.order.grows else "first"
        lines.append(
            f"order: axis {program.order.axis} of the grid from its {end} index, {rounds}"
            f"{names.expr(program.order.bytes)} bytes each of {program.order.cached} together, "
            f"{program.order.most} at most"
        )
    if program.told is not None:
        lines.append(f"instances are claimed one by one, and told through {names.arefs[program.told]}")
    if program.runs is not None:
        lines.append(f"CTAs have runs of neighbours if {names.expr(program.runs)}")
    for group in program.groups:
        lines += ["", *_group(group, names)]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True)
class _Names:
    """What each id is called; a name that several share gets its id behind it."""

    maps: dict[int, str]
    buffers: dict[int, str]
    arefs: dict[int, str]
    barriers: dict[int, str]
    groups: dict[int, str]
    fragments: dict[int, str]
    cursors: dict[int, str]

    @classmethod
    def of(cls, program: aref.WarpProgram) -> _Names:
        fragments: dict[int, str] = {}
        cursors: dict[int, str] = {}
        for group in program.groups:  # a group sees only its own
            fragments |= _named((f.id, f.name) for f in group.fragments)
            cursors |= _named((c.id, c.name) for c in group.cursors)
        return cls(
            maps=_named((m.id, m.argument) for m in program.maps),
            buffers=_named((b.id, b.name) for b in program.buffers),
            arefs=_named((a.id, a.name) for a in program.arefs),
            barriers=_named((b.id, b.name) for b in program.barriers),
            groups=_named((g.id, g.role) for g in program.groups),
            fragments=fragments,
            cursors=cursors,
        )

    def expr(self, value: Expr) -> str:
        """A scalar expression, with fragments by name."""
        return re.sub(r"%(\d+)", lambda found: self.fragments.get(int(found[1]), found[0]), scalar.text(value))

    def exprs(self, values: Iterable[Expr]) -> str:
        return ", ".join(map(self.expr, values))

    def slot(self, ref: aref.SlotRef) -> str:
        """`a[load]`, `c`, `c[out][0:64, 64:128]`."""
        at = f"[{self.cursors[ref.cursor]}]" if ref.cursor is not None else ""
        if ref.rows is None and ref.columns is None:
            return self.buffers[ref.buffer] + at
        return f"{self.buffers[ref.buffer]}{at}[{_span(ref.rows)}, {_span(ref.columns)}]"

    def operand(self, operand: aref.Operand) -> str:
        """A fragment, with the axes it is spread along, or a scalar."""
        if not isinstance(operand, aref.Reg):
            return self.expr(operand)
        spread = ", ".join("*" if axis < 0 else str(axis) for axis in operand.axes)
        return self.fragments[operand.fragment] + (f"[{spread}]" if operand.axes else "")

    def some(self, fragments: Sequence[int]) -> str:
        return ", ".join(self.fragments[f] for f in fragments)

    def window(self, window: aref.Window) -> str:
        """`out + 5 [128 from row by stride in 0..M, ...] pad 0.0`."""
        start = f" + {self.expr(window.constant)}" if _moves(window.constant) else ""
        axes = ", ".join(map(self.axis, window.axes))
        return f"{window.element} {window.argument}{start} [{axes}] pad {window.pad}"

    def axis(self, axis: aref.WindowAxis) -> str:
        bounds = [self.expr(bound) if bound is not None else "" for bound in (axis.lower, axis.upper)]
        inside = f" in {bounds[0]}..{bounds[1]}" if any(bounds) else ""
        return f"{axis.extent} from {self.expr(axis.offset)} by {self.expr(axis.stride)}{inside}"


def _named(entries: Iterable[tuple[int, str]]) -> dict[int, str]:
    known = dict(entries)
    names = list(known.values())
    alone = {name for name in names if name and names.count(name) == 1}
    return {key: name if name in alone else f"{name or 'unnamed'}#{key}" for key, name in known.items()}


def _moves(offset: Expr) -> bool:
    return not (isinstance(offset, scalar.Number) and offset.value == 0)


def _span(span: tuple[int, int] | None) -> str:
    return ":" if span is None else f"{span[0]}:{span[1]}"


def _by(shape: Sequence[int]) -> str:
    return "x".join(map(str, shape))


# ---------------------------------------------------------------- declarations


def _cluster(entry: aref.Cluster) -> str:
    meets = [word for word, meant in (("first", entry.meets_first), ("last", entry.meets_last)) if meant]
    return f"cluster: {entry.ctas} CTAs, neighbours along axis {entry.axis} of the grid, meet {' and '.join(meets)}"


def _map(entry: aref.TensorMap) -> str:
    sizes = ", ".join("?" if size is None else scalar.text(size) for size in entry.sizes)
    strides = ", ".join(map(scalar.text, entry.strides))
    start = f" from {scalar.text(entry.offset)}" if _moves(entry.offset) else ""
    what = f"map {entry.id} {entry.argument}: {entry.element} [{sizes}] by [{strides}]{start}"
    wider = f", {entry.together} elements as one" if entry.together > 1 else ""
    return f"{what}, box {_by(entry.box)}, swizzle {entry.swizzle}{wider}"


def _buffer(entry: aref.Buffer, names: _Names) -> str:
    how = f" in panels of {entry.panel} bytes, swizzle {entry.swizzle}" if len(entry.shape) > 1 else ""
    kind = f"{_by(entry.shape)} {entry.element}"
    where = f"{entry.slots} x {entry.bytes} bytes at {entry.offset}"
    return f"buffer {names.buffers[entry.id]}: {kind}{how}, {where}"


def _aref(entry: aref.Aref, names: _Names) -> str:
    consumers = ", ".join(names.groups[group] for group in entry.consumers)
    flow = f"{names.groups[entry.producer]} -> {consumers or 'nobody'}"
    buffers = ", ".join(names.buffers[buffer] for buffer in entry.buffers)
    filled = f"{entry.bytes} bytes a slot by {entry.transport}"
    counts = f"arrivals {entry.full_count} full, {entry.empty_count} empty"
    shared = ", shared by the cluster" if entry.shared else ""
    return f"aref {names.arefs[entry.id]} of {buffers}: depth {entry.depth}, {flow}, {filled}, {counts}{shared}"


def _barrier(entry: aref.NamedBarrier, names: _Names) -> str:
    groups = ", ".join(names.groups[group] for group in entry.groups)
    return f"barrier {entry.id} {names.barriers[entry.id]}: {groups}, {entry.threads} threads"


def _group(group: aref.WarpGroup, names: _Names) -> Iterator[str]:
    registers = f", {group.registers} registers" if group.registers else ""
    issuer = ", one thread issues" if group.issuer else ""
    share = f", every {group.share[1]}th instance from {group.share[0]} on" if group.share[1] > 1 else ""
    yield f"group {names.groups[group.id]}: {group.threads} threads{registers}{issuer}{share}"
    for fragment in group.fragments:
        shape = _by(layout.shape_of(fragment.layout))
        kind = f"{shape} {fragment.element}" if shape else fragment.element
        yield f"{INDENT}fragment {names.fragments[fragment.id]}: {kind} {layout.text(fragment.layout)}"
    for cursor in group.cursors:
        yield f"{INDENT}cursor {names.cursors[cursor.id]} in {names.arefs[cursor.aref]}"
    if group.start:
        yield f"{INDENT}start"
        yield from _block(group.start, names, INDENT * 2)
    if group.next:
        yield f"{INDENT}next"
        yield from _block(group.next, names, INDENT * 2)
    yield f"{INDENT}body"
    yield from _block(group.body, names, INDENT * 2)
    if group.skip:
        yield f"{INDENT}skip"
        yield from _block(group.skip, names, INDENT * 2)
    if group.finish:
        yield f"{INDENT}finish"
        yield from _block(group.finish, names, INDENT * 2)


# ---------------------------------------------------------------- statements


def _block(stmts: Iterable[aref.Stmt], names: _Names, indent: str) -> Iterator[str]:
    for stmt in stmts:
        yield from _stmt(stmt, names, indent)


def _stmt(stmt: aref.Stmt, names: _Names, indent: str) -> Iterator[str]:
    if isinstance(stmt, aref.If):
        yield f"{indent}if {'rarely ' if stmt.rare else ''}{names.expr(stmt.condition)}{_remark(stmt)}"
        yield from _block(stmt.body, names, indent + INDENT)
        if stmt.otherwise:
            yield f"{indent}else"
            yield from _block(stmt.otherwise, names, indent + INDENT)
        return
    if isinstance(stmt, aref.Pipeline):
        yield from _pipeline(stmt, names, indent)
        return
    yield indent + _PRINTERS[type(stmt)](stmt, names) + _remark(stmt)


def _pipeline(stmt: aref.Pipeline, names: _Names, indent: str) -> Iterator[str]:
    interval = f", I = {stmt.interval}" if stmt.interval else ""
    trip = f"{names.expr(stmt.trip)} iterations, {stmt.stages} stages{interval}"
    yield f"{indent}pipeline {stmt.name} with step {stmt.step}: {trip}{_remark(stmt)}"
    blocks = [(f"prologue {k}", block) for k, block in enumerate(stmt.prologue)]
    blocks += [("steady", stmt.steady)]
    if stmt.until is not None:
        blocks += [(f"steady from {names.expr(stmt.until)} on", stmt.later)]
    blocks += [(f"epilogue {k}", block) for k, block in enumerate(stmt.epilogue)]
    for name, block in blocks:
        yield f"{indent}{INDENT}{name}"
        yield from _block(block, names, indent + INDENT * 2)


def _remark(stmt: aref.Stmt) -> str:
    words = [f"line {stmt.line}"] if stmt.line else []
    words += [stmt.note] if stmt.note else []
    return f"  # {': '.join(words)}" if words else ""


def _attributes(attributes: aref.Attributes) -> str:
    return "".join(f" {name}={value}" for name, value in attributes)


def _if(flag: bool, word: str) -> str:
    return f" {word}" if flag else ""


def _tma_load(s: aref.TmaLoad, n: _Names) -> str:
    sender = f" by CTA {s.sender} for all" if s.sender >= 0 else ""
    where = f"{n.slot(s.target)} full at {n.cursors[s.cursor]}"
    return f"tma load {n.maps[s.map]}[{n.exprs(s.coordinates)}] -> {where}{sender}"


def _tma_store(s: aref.TmaStore, n: _Names) -> str:
    how = f" {s.combine}" if s.combine else ""
    return f"tma store{how} {n.slot(s.source)} -> {n.maps[s.map]}[{n.exprs(s.coordinates)}]{_if(s.passing, 'passing')}"


def _multiply(s: aref.Multiply, n: _Names) -> str:
    a = n.fragments[s.a] if isinstance(s.a, int) else n.slot(s.a) + _if(s.a_transposed, "transposed")
    b = n.slot(s.b) + _if(s.b_transposed, "transposed")
    sign = "+=" if s.accumulate else "="
    return f"multiply {n.fragments[s.accumulator]} {sign} {a} @ {b}, k {s.depth} {s.operand}"


def _reduce(s: aref.Reduce, n: _Names) -> str:
    scratch = f" through {n.buffers[s.scratch]}" if s.scratch is not None else ""
    barrier = f" with {n.barriers[s.barrier]}" if s.barrier is not None else ""
    where = f"axis {s.axis}{scratch}{barrier}{_attributes(s.attributes)}"
    return f"{n.fragments[s.result]} = reduce {s.combine} {n.fragments[s.operand]} {where}"


def _compute(s: aref.Compute, n: _Names) -> str:
    return f"{n.fragments[s.result]} = {s.kind} {', '.join(map(n.operand, s.operands))}{_attributes(s.attributes)}"


def _store_shared(s: aref.StoreShared, n: _Names) -> str:
    part = f"[:, {_span(s.columns)}]" if s.columns is not None else ""
    return f"store {n.fragments[s.operand]}{part}{_if(s.transposed, 'transposed')} -> {n.slot(s.target)}"


def _load_global(s: aref.LoadGlobal, n: _Names) -> str:
    mask = f" where {n.fragments[s.mask]}" if s.mask is not None else ""
    return f"{n.fragments[s.result]} = load global {n.window(s.window)}{mask}{_if(s.transposed, 'transposed')}"


def _store_global(s: aref.StoreGlobal, n: _Names) -> str:
    mask = f" where {n.fragments[s.mask]}" if s.mask is not None else ""
    how = f" {s.combine}" if s.combine else ""
    what = f"store global{how} {n.operand(s.operand)}{_if(s.transposed, 'transposed')}"
    return f"{what} -> {n.window(s.window)}{mask}"


_PRINTERS: dict[type[aref.Stmt], Callable[[Any, _Names], str]] = {
    aref.Let: lambda s, n: f"let {s.name} = {n.expr(s.value)}",
    aref.Alike: lambda s, n: f"let {s.name} = instances just before with the same {n.exprs(s.values)}",
    aref.Acquire: lambda s, n: f"acquire {n.cursors[s.cursor]}",
    aref.Expect: lambda s, n: f"expect {n.cursors[s.cursor]} {s.bytes} bytes",
    aref.TmaLoad: _tma_load,
    aref.Publish: lambda s, n: f"publish {n.cursors[s.cursor]}",
    aref.Get: lambda s, n: f"get {n.cursors[s.cursor]}",
    aref.Consumed: lambda s, n: f"consumed {n.cursors[s.cursor]}{_if(s.everywhere, 'everywhere')}",
    aref.Advance: lambda s, n: f"advance {n.cursors[s.cursor]}",
    aref.Skip: lambda s, n: f"advance {n.cursors[s.cursor]} by {n.expr(s.count)}",
    aref.Fence: lambda s, n: f"fence {n.some(s.fragments)}".rstrip(),
    aref.Multiply: _multiply,
    aref.Commit: lambda s, n: "commit",
    aref.WaitGroups: lambda s, n: f"wait {s.pending} pending" + (f": {n.some(s.ready)}" if s.ready else ""),
    aref.Fill: lambda s, n: f"{n.fragments[s.result]} = fill {n.expr(s.value)}",
    aref.Range: lambda s, n: f"{n.fragments[s.result]} = range from {s.start}",
    aref.Compute: _compute,
    aref.Reduce: _reduce,
    aref.Copy: lambda s, n: f"{n.fragments[s.result]} = {n.fragments[s.source]}",
    aref.LoadShared: lambda s, n: f"{n.fragments[s.result]} = load {n.slot(s.source)}{_if(s.transposed, 'transposed')}",
    aref.StoreShared: _store_shared,
    aref.LoadGlobal: _load_global,
    aref.StoreGlobal: _store_global,
    aref.Claim: lambda s, n: "claim",
    aref.Tell: lambda s, n: f"tell {n.slot(s.target)}",
    aref.Learn: lambda s, n: f"learn {n.slot(s.source)}",
    aref.ProxyFence: lambda s, n: "proxy fence",
    aref.Sync: lambda s, n: f"sync {n.barriers[s.barrier]}",
    aref.Arrive: lambda s, n: f"arrive {n.barriers[s.barrier]}",
    aref.TmaStore: _tma_store,
    aref.BulkCommit: lambda s, n: "bulk commit",
    aref.BulkWait: lambda s, n: f"bulk wait {s.pending} pending" + (" read" if s.read else ""),
}
