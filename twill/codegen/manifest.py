"""The manifest of a warp program's kernel: what the runtime gets to know of the compiler's side."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import cast

from twill import exc
from twill.codegen.aliasing import must_be_apart
from twill.codegen.numerics import changes
from twill.codegen.targets.base import target_for
from twill.codegen.warp.expression import Apply, Expr, Number, NumPrograms, Symbol
from twill.codegen.warp.layout import shape_of
from twill.codegen.warp.parameters import given, parameters, partial_sums, wants_workspace
from twill.codegen.warp.program import AwaitEarlierGrids, TensorMapSpec, WarpProgram
from twill.kernel.specialization import Specialization
from twill.manifest.document import (
    MAPS_AT,
    SCHEMA,
    SPLIT_ZEROS,
    CallArgument,
    KernelParameter,
    Manifest,
    MapEntry,
    Promise,
    Rereads,
    SplitK,
    Swizzle,
    sha256,
)
from twill.manifest.evaluate import GRID, Scalar, ScalarOperation, evaluable
from twill.tile.program import POINTEE
from twill.tile.vocabulary import ELECTED

COUNTER = 4  # bytes that instances are counted in
SCALARS = ("i1", "i8", "i16", "i32", "i64", "f32", "f64")  # what a kernel takes by value; short integers as i32

# Triton's names of element types -> the runtime's; the others are the same.
_ELEMENTS = {"fp16": "f16", "fp32": "f32", "fp64": "f64", "fp8e4nv": "f8e4m3fn", "fp8e5": "f8e5m2"}
_DESCRIPTOR = re.compile(r"tensordesc<(\w+)\[([\d, ]+)\]>")


def make_manifest(
    program: WarpProgram,
    specialization: Specialization,
    *,
    architecture: str,
    entry: str,
    threads: int,
    cubin: bytes,
    schedule: str,
    rereads: Rereads | None = None,
) -> Manifest:
    """The manifest of the kernel `entry` in `cubin`, which was printed from `program`.

    schedule: the schedule's key. rereads: as `twill.codegen.rereads` finds them.
    Errors: UnsupportedInKernel for scalars that a kernel cannot take.
    """
    split, target = _split(program), target_for(architecture)
    return Manifest(
        schema=SCHEMA,
        kernel=specialization.kernel,
        spec=specialization.spec,
        file=specialization.file,
        machine=program.machine,
        architecture=architecture,
        function=entry,
        threads=threads,
        shared=program.shared,
        arguments=call_arguments(specialization),
        promises=tuple(_promises(program)),
        parameters=tuple(_parameters(program)),
        maps=tuple(map_entry(entry, specialization.file) for entry in program.maps),
        grid=specialization.grid,
        loads=_accessed(program, "tile_load"),
        stores=_accessed(program, "tile_store"),
        reduces=_accessed(program, "tile_reduce"),
        apart=must_be_apart(program.program.original or program.program),
        changes=changes(program),
        strict=program.program.strict,
        fp_fusion=program.program.fp_fusion,
        schedule=schedule,
        cubin=sha256(cubin),
        ctas=program.ctas,
        workspace=_zeros(program, split),
        cluster=program.cluster.ctas if program.cluster is not None else 1,
        cluster_axis=program.cluster.axis if program.cluster is not None else 0,
        tiles=program.program.tiles,
        persistent=overlaps(program),
        split=split,
        unproven="" if target is None else target.unproven,
        cancels=program.cancels,
        rereads=rereads,
        made=tuple(entry.id for entry in program.maps if entry.made),
        own_maps=len(program.own_maps),
        numbers=tuple(scalar_of(stmt.value, specialization.file) for stmt in given(program)),
        early=any(isinstance(stmt, AwaitEarlierGrids) for stmt in program.setup),
    )


def _zeros(program: WarpProgram, split: SplitK | None) -> int:
    """Bytes of zeros that a launch has for itself."""
    if split is not None:
        return SPLIT_ZEROS
    if program.own_maps:
        return MAPS_AT
    return COUNTER if wants_workspace(program) else 0


def overlaps(program: WarpProgram) -> bool:
    """Whether a CTA works on two program instances at once: what comes next is loaded, or the last results are stored,
    meanwhile. One warp group alone does not; the GPU hands out its instances more evenly than a fixed order."""
    return len(program.groups) > 1 or program.instance_ring is not None or program.cluster is not None


def _split(program: WarpProgram) -> SplitK | None:
    """How program instances are split. Row blocks are sums of their own; warp groups that have instances alternately
    have the same ones."""
    found = [group.fragment(stmt.operand).layout for group, stmt in partial_sums(program) if group.share[0] == 0]
    split = program.program.split
    if split is None:
        return None
    size = sum(4 * math.prod(shape_of(layout)) for layout in found)
    return SplitK(split.axis, split.parts, len(found), size)


def call_arguments(specialization: Specialization) -> tuple[CallArgument, ...]:
    """The kernel's parameters in order, as calls pass them."""
    types, constants = dict(specialization.signature), dict(specialization.constexprs)
    found = []
    for parameter in specialization.parameters:
        name, optional, default = parameter.name, parameter.optional, parameter.default
        if name in constants:
            value = constants[name]
            found.append(CallArgument(name, "constant", value=value, optional=optional, default=default))
            continue
        kind = types[name]
        if descriptor := _DESCRIPTOR.fullmatch(kind):
            block = tuple(int(extent) for extent in descriptor[2].split(","))
            element = _element(descriptor[1])
            found.append(CallArgument(name, "descriptor", kind, element, block, optional=optional, default=default))
        elif kind.startswith("*"):
            found.append(CallArgument(name, "pointer", kind, _element(kind[1:]), optional=optional, default=default))
        else:
            found.append(CallArgument(name, "number", kind, optional=optional, default=default))
    return tuple(found)


def map_entry(entry: TensorMapSpec, file: str) -> MapEntry:
    """A tensor map as the runtime makes it."""
    return MapEntry(
        argument=entry.argument,
        element=_element(entry.element),
        sizes=tuple(None if size is None else scalar_of(size, file) for size in entry.sizes),
        strides=tuple(scalar_of(stride, file) for stride in entry.strides),
        offset=scalar_of(entry.offset, file),
        box=entry.box,
        swizzle=cast(Swizzle, entry.swizzle),
        together=entry.together,
    )


def scalar_of(expr: Expr, file: str) -> Scalar:
    """An expression over arguments as the runtime evaluates it. Errors: UnsupportedInKernel for any other."""
    if isinstance(expr, Number):
        return expr.value
    if isinstance(expr, Symbol):
        return expr.name
    if isinstance(expr, NumPrograms):
        return f"{GRID}.{expr.axis}"
    if isinstance(expr, Apply) and evaluable(expr.kind):
        operands = tuple(scalar_of(operand, file) for operand in expr.operands)
        attributes = tuple((name, value) for name, value in expr.attributes if not isinstance(value, tuple))
        return ScalarOperation(expr.kind, expr.element, operands, attributes)
    what = expr.kind if isinstance(expr, Apply) else type(expr).__name__
    raise exc.UnsupportedInKernel(
        f"a tensor's size or stride needs {what}, which is not known at a launch",
        file=file,
        hint="sizes and strides made of scalar arguments by arithmetic",
    )


def _element(name: str) -> str:
    return {**_ELEMENTS, "f8e4m3": "f8e4m3fn"}.get(name, name)


def _promises(program: WarpProgram) -> Iterator[Promise]:
    """Of every argument; a launch checks them all, whichever the code came to rely on."""
    for argument in program.program.arguments:
        if (argument.divisibility > 1 or argument.positive) and not argument.is_pointee:
            yield Promise(argument.name, argument.divisibility, argument.positive)


def _accessed(program: WarpProgram, kind: str) -> tuple[str, ...]:
    """Arguments whose tensors are accessed so, in order; and what looked-up addresses point to (`x.pointee`)."""
    found = {op.access.base for op in program.program.ops() if op.kind == kind and op.access is not None}
    regions = [op.region for op in program.program.ops() if op.kind == ELECTED and op.region is not None]
    if kind == "tile_reduce":
        found = found.union(*(region.written() for region in regions))
    elif kind == "tile_load":
        found = found.union(*(region.touched() for region in regions))
        olds = (op for op in program.program.ops() if op.kind == "tile_reduce" and op.results)
        found |= {op.access.base for op in olds if op.access is not None}
    return tuple(argument.name for argument in program.program.arguments if argument.name in found)


def _parameters(program: WarpProgram) -> Iterator[KernelParameter]:
    for parameter in parameters(program):
        if parameter.kind == "scalar" and parameter.element not in SCALARS:
            raise exc.UnsupportedInKernel(
                f"argument {parameter.name} is a scalar of type {parameter.element}",
                file=program.program.file,
                hint="an integer, fp32 or fp64",
            )
        kind = "origin" if parameter.kind == "pointer" and parameter.name.endswith(POINTEE) else parameter.kind
        yield KernelParameter(kind, parameter.name, parameter.element, parameter.index)
