"""The form of every line of a warp program's text: one description each, from which it is both written and read.

In a form, `{field:kind}` is a field of the dataclass as one of `twill.codegen.warp.notation.KINDS`; `<<...>>` is there
where a field in it is not what the dataclass has by default (or is empty); everything else stands for itself.
"""

from __future__ import annotations

import re
from dataclasses import MISSING, Field, dataclass, fields
from functools import cached_property
from typing import Any

from twill.codegen.warp import program as ir
from twill.codegen.warp.notation import KINDS
from twill.codegen.warp.scalars import ScalarNames
from twill.codegen.warp.tokens import Mismatch, Reader, remark

_DECLARED = {
    ir.Cluster: "cluster: {ctas:int} CTAs, neighbours along axis {axis:int} of the grid, "
                  "meet first {meets_first:bool}, last {meets_last:bool}<<, together where {together:expr}>>",
    ir.TensorMapSpec: "map {id:int} {argument:word}: {element:word} [{sizes:sizes}] by [{strides:exprs}], offset "
                    "{offset:expr}, box {box:shape}, swizzle {swizzle:int}<<, {together:int} elements as one>>"
                    "<<, made as number {made:int}>>",
    ir.Buffer: "buffer {id:int} {name:word}: {shape:shape} {element:word} in panels of {panel:int} bytes, "
                 "swizzle {swizzle:int}, {slots:int} x {bytes:int} bytes at {offset:int}"
                 "<< of tensor memory{tensor:flag}>>",
    ir.Aref: "aref {id:int} {name:word} of {buffers:buffers}: depth {depth:int}, {producer:group} -> "
               "({consumers:groups}), {bytes:int} bytes a slot by {transport:word}, arrivals {full_count:int} full, "
               "{empty_count:int} empty<<, shared by the cluster{shared:flag}>><<, of a pair{pair:flag}>>",
    ir.NamedBarrier: "barrier {id:int} {name:word}: ({groups:groups}), {threads:int} threads",
    ir.WarpGroup: "group {id:int} {role:word}: {threads:int} threads, {registers:int} registers"
                    "<<, one thread issues{issuer:flag}>><<, takes turn {share:share}>>",
    ir.Fragment: "fragment {id:int} {name:word}: {element:word} {layout:layout}",
    ir.Cursor: "cursor {id:int} {name:word} in {aref:aref}",
    ir.InstanceLoop: "instances from {first:count} below {end:count} by {step:count}",
}  # fmt: skip

_STATEMENTS = {
    ir.CountReuse: "let {name:word} = instances just before with the same ({values:exprs})",
    ir.Let: "let {name:word} = {value:expr}",
    ir.If: "if {condition:expr}<<, rarely{rare:flag}>>",
    ir.Pipeline: "pipeline {name:word} with step {step:word}: {trip:expr} iterations, {stages:int} stages"
                   "<<, I = {interval:int}>>",
    ir.Acquire: "acquire {cursor:cursor}",
    ir.Expect: "expect {cursor:cursor} {bytes:int} bytes",
    ir.TmaLoad: "tma load {map:map}[{coordinates:exprs}] -> {target:slot} full at {cursor:cursor}"
                  "<< by CTA {sender:int} for all>><< passing where {passing:expr}>>",
    ir.MakeMap: "make map {map:map}: [{sizes:sizes}] by [{strides:exprs}], offset {offset:expr}, "
                  "through {scratch:buffer}",
    ir.ShowMaps: "show maps {maps:maps}",
    ir.Settle: "settle {cursor:cursor}",
    ir.Publish: "publish {cursor:cursor}<< behind MMAs{behind:flag}>>",
    ir.Get: "get {cursor:cursor}",
    ir.Consumed: "consumed {cursor:cursor}<< everywhere{everywhere:flag}>><< behind MMAs{behind:flag}>>",
    ir.Skip: "advance {cursor:cursor} by {count:expr}",
    ir.Advance: "advance {cursor:cursor}",
    ir.Fence: "fence<< {fragments:fragments}>>",
    ir.Multiply: "multiply {accumulator:fragment} {accumulate:gains} {a:multiplied}<< transposed{a_transposed:flag}>>"
                   " @ {b:slot}<< transposed{b_transposed:flag}>>, k {depth:int} {operand:word}"
                   "<< in quads{quads:flag}>>",
    ir.TensorMultiply: "tensor multiply {target:slot} = {a:slot}<< transposed{a_transposed:flag}>> @ {b:slot}"
                         "<< transposed{b_transposed:flag}>>, k {depth:int} {operand:word}, added if {accumulate:expr}"
                         "<<, scales {of_a:slot} and {of_b:slot} for {block:int}>>",
    ir.CopyScales: "copy scales {source:slot} -> {target:slot}, {rows:int} rows",
    ir.StoreScales: "store scales {operand:fragment} -> {target:slot}",
    ir.LoadAccumulator: "{result:fragment} = load accumulator {source:slot}",
    ir.StoreAccumulator: "store accumulator {operand:fragment} -> {target:slot}",
    ir.Commit: "commit",
    ir.WaitGroups: "wait {pending:int} pending<<: {ready:fragments}>>",
    ir.LoadGlobal: "{result:fragment} = load global {window:window}<< where {mask:fragment}>>"
                     "<< transposed{transposed:flag}>>",
    ir.LoadShared: "{result:fragment} = load {source:slot}<< transposed{transposed:flag}>>",
    ir.Fill: "{result:fragment} = fill {value:expr}",
    ir.Range: "{result:fragment} = range from {start:int}",
    ir.Reduce: "{result:fragment} = reduce {combine:word} {operand:fragment} axis {axis:int}"
                 "<< through {scratch:buffer}>><< with {barrier:barrier}>>{attributes:attributes}",
    ir.Scan: "{result:fragment} = scan {combine:word} {operand:fragment} axis {axis:int}<< backwards{reverse:flag}>>"
               " through {scratch:buffer} with {barrier:barrier}{attributes:attributes}",
    ir.Rearrange: "{result:fragment} = rearrange {operands:fragments} from {first:int} by {extents:ints} of"
                    " {steps:ints}<< through {scratch:buffer}>><< with {barrier:barrier}>>"
                    "<<, {along:int} times {index:fragment}>><< below {extent:int}>>",
    ir.Histogram: "{result:fragment} = histogram {operand:fragment}<< where {mask:fragment}>>"
                    " through {scratch:buffer} with {barrier:barrier}",
    ir.SumParts: "{result:fragment} = sum of parts {operand:fragment}, {part:expr} of {parts:expr} in {slot:expr}"
                   " through {scratch:buffer} with {barrier:barrier}",
    ir.Copy: "{result:fragment} = {source:fragment}<<[:, {columns:span}]>>",
    ir.Compute: "{result:fragment} = {kind:word} {operands:operands}{attributes:attributes}",
    ir.StoreGlobal: "store global<< by {combine:word}>> {operand:operand}<< transposed{transposed:flag}>>"
                      " -> {window:window}<< where {mask:fragment}>><<, old {order:word} in {old:fragment}>>",
    ir.StoreShared: "store {operand:fragment}<<[:, {columns:span}]>><< transposed{transposed:flag}>>"
                      " -> {target:slot}",
    ir.Define: "define {names:words} = {values:counts}",
    ir.Given: "given {name:word} = {value:expr}",
    ir.Evenly: "define {name:word} = evenly {count:count} by at most {most:count}",
    ir.Keep: "keep {values:counts}",
    ir.Recall: "recall",
    ir.SumOver: "sum {name:word} = {each:expr} times {value:expr} over {index:word} below {extent:expr}"
                  "<<, with marks{marks:flag}>><< where {names:words} = {values:exprs}>>",
    ir.Seek: "seek {index:word}, {before:word}, {here:word} at {place:count} in {each:expr} times {value:expr}"
               " below {extent:expr}<< where {names:words} = {values:exprs}>>",
    ir.SetProgramId: "program_id {axis:int} = {value:count}",
    ir.ScalarLoop: "while {condition:expr} with {names:words} = {inits:exprs} then {yields:exprs}",
    ir.Visit: "visit",
    ir.Elect: "elect with {barrier:barrier}<<, {names:words} = {values:exprs} through {scratch:buffer}>>",
    ir.Atomic: "atomic {combine:word} {order:word} {element:word} {argument:word}[{index:expr}]<< by {values:exprs}>>"
                 "<< where {condition:expr}>> as {name:word}",
    ir.ReceiveElected: "receive {names:words}: {elements:words} of {source:slot}",
    ir.StopUnless: "stop unless {condition:count}",
    ir.FetchInstance: "fetch instance<< of a CTA that has not started{cancel:flag}>>",
    ir.PublishInstance: "publish instance {target:slot}: {index:counts} if {exists:count}",
    ir.ReceiveInstance: "receive instance {source:slot}",
    ir.ProxyFence: "proxy fence<< of global memory{memory:flag}>>",
    ir.AwaitEarlierGrids: "await earlier grids",
    ir.Sync: "sync {barrier:barrier}",
    ir.Arrive: "arrive {barrier:barrier}",
    ir.TmaStore: "tma store<< by {combine:word}>> {source:slot} -> {map:map}[{coordinates:exprs}]"
                   "<< passing{passing:flag}>>",
    ir.BulkCommit: "bulk commit",
    ir.BulkWait: "bulk wait {pending:int} pending<< read{read:flag}>>",
}  # fmt: skip

_PIECE = re.compile(r"(<<.*?>>)|\{(\w+):(\w+)\}|([^{<]+)")
_WORDS = re.compile(r"\s*(->|\w+|[^\w\s])")


@dataclass(frozen=True)
class FormPart:
    """Text, a field of some kind, or parts that may be missing."""

    text: str = ""
    field: str = ""
    kind: str = ""
    optional: tuple[FormPart, ...] = ()


@dataclass(frozen=True)
class Form:
    """How instances of a dataclass are written on one line. unless: what a field is if nothing is said of it."""

    made: type[Any]
    parts: tuple[FormPart, ...]
    unless: dict[str, Any]

    @cached_property
    def fields(self) -> tuple[FormPart, ...]:
        """The fields that the line says, those that may be missing included."""
        return tuple(inner for part in self.parts for inner in (part, *part.optional) if inner.field)

    def write(self, value: Any, names: ScalarNames) -> str:
        """The line, without indentation; a statement has its remark behind it."""
        text = "".join(self._write(part, value, names) for part in self.parts)
        return text + (remark(value.line, value.note) if isinstance(value, ir.Stmt) else "")

    def _write(self, part: FormPart, value: Any, names: ScalarNames) -> str:
        if part.optional:
            said = any(getattr(value, p.field) != self.unless[p.field] for p in part.optional if p.field)
            return "".join(self._write(p, value, names) for p in part.optional) if said else ""
        return KINDS[part.kind].write(getattr(value, part.field), names) if part.field else part.text

    def read(self, r: Reader, names: ScalarNames) -> dict[str, Any]:
        """The fields that the line says, all of it. Raises Mismatch."""
        found: dict[str, Any] = {}
        for part in self.parts:
            self._read(part, r, names, found)
        r.finish()
        return found

    def _read(self, part: FormPart, r: Reader, names: ScalarNames, found: dict[str, Any]) -> None:
        if part.field:
            found[part.field] = KINDS[part.kind].read(r, names)
        elif part.optional:
            inside = r.attempt(lambda r: self._inside(part, r, names))
            missing = {p.field: self.unless[p.field] for p in part.optional if p.field}
            found.update(missing if inside is None else inside)
        for word in _WORDS.findall(part.text):
            r.expect(word)

    def _inside(self, part: FormPart, r: Reader, names: ScalarNames) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for inner in part.optional:
            self._read(inner, r, names, found)
        return found


def _parts(text: str) -> tuple[FormPart, ...]:
    return tuple(
        FormPart(optional=_parts(inside[2:-2])) if inside else FormPart(literal, name, kind)
        for inside, name, kind, literal in _PIECE.findall(text)
    )


def _form(made: type[Any], text: str) -> Form:
    return Form(made, _parts(text), {entry.name: _absent(entry) for entry in fields(made)})


def _absent(entry: Field[Any]) -> Any:
    """What a field is where its line does not say it: its default, or else nothing."""
    if entry.default is not MISSING:
        return entry.default
    return () if "tuple" in str(entry.type) else False


FORMS = {made: _form(made, text) for made, text in (_DECLARED | _STATEMENTS).items()}
STATEMENTS = tuple(FORMS[made] for made in _STATEMENTS)


def read_statement(r: Reader, names: ScalarNames) -> tuple[Form, dict[str, Any]]:
    """The form that the whole line has, and its fields. Raises WarpTextSyntax."""
    for form in STATEMENTS:
        r.at = 0
        try:
            return form, form.read(r, names)
        except Mismatch:
            continue
    raise r.error()
