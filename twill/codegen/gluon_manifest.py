"""The manifest of what Triton made of a module: Twill's runtime launches its cubin as any emitted kernel.

A tensor descriptor is three things among the parameters of Triton's kernels: the tensor map, its sizes, its strides.
Behind the module's own parameters stand the addresses of two scratch buffers, of which Gluon's kernels have none.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import cast

from twill import exc
from twill.codegen.gluon import LAUNCH, GluonEmission
from twill.codegen.manifest import make_manifest, map_entry, scalar_of
from twill.codegen.print.gluon.module import DescriptorParameter
from twill.codegen.print.gluon.scalars import BITS
from twill.codegen.warp.expression import Apply, Expr, Local, Number, NumPrograms, Symbol
from twill.codegen.warp.program import Define, Evenly, WarpProgram
from twill.kernel.specialization import Specialization
from twill.manifest.document import KernelParameter, Manifest, MapEntry, Swizzle
from twill.manifest.evaluate import EVENLY, GRID, Scalar, ScalarOperation

LANES = 32
SCRATCH = ("global scratch", "profile scratch")
TOGETHER = "together"  # the launcher's name of how many instances are walked side by side


def gluon_manifest(emission: GluonEmission, specialization: Specialization, architecture: str) -> Manifest:
    """Errors: UnsupportedInKernel for sizes that a launch cannot compute."""
    program, compiled = emission.program, emission.compiled
    made = make_manifest(
        program,
        specialization,
        architecture=architecture,
        entry=compiled.entry,
        threads=compiled.warps * LANES,
        cubin=compiled.cubin,
        schedule=emission.schedule.key,
    )
    descriptors = {one.name: one for one in emission.module.descriptors}
    maps = tuple(_map(one, program) for one in emission.module.descriptors)
    numbers: list[Scalar] = []

    def computed(name: str, element: str, value: Scalar) -> KernelParameter:
        numbers.append(value)
        return KernelParameter("computed", name, element, len(numbers) - 1)

    def parameters() -> Iterator[KernelParameter]:
        for name, kind in emission.signature:
            if name in descriptors:
                entry = maps[list(descriptors).index(name)]
                yield KernelParameter("map", name, entry.element, list(descriptors).index(name))
                yield from (computed(f"{name}.shape.{a}", "i32", size) for a, size in enumerate(_known(entry.sizes)))
                yield from (computed(f"{name}.stride.{a}", "i64", by) for a, by in enumerate(entry.strides))
            elif kind.startswith("*"):
                yield KernelParameter("pointer", name, kind[1:], 0)
            elif name.startswith("grid_"):
                yield computed(name, LAUNCH, f"{GRID}.{name.removeprefix('grid_')}")
            elif name == "instances":
                yield computed(name, LAUNCH, _instances(program))
            elif name == TOGETHER and program.once:
                yield computed(name, LAUNCH, _together(program))
            else:
                yield KernelParameter("scalar", name, _element(name, program), 0)
        yield from (computed(name, "u64", 0) for name in SCRATCH)

    listed = tuple(parameters())
    return replace(
        made, maps=maps, parameters=listed, numbers=tuple(numbers), shared=compiled.shared, workspace=0, persistent=True
    )


def _map(one: DescriptorParameter, program: WarpProgram) -> MapEntry:
    """The tensor map of a descriptor, in whose blocks a CTA of Triton's copies a tile."""
    entry = map_entry(program.maps[one.map], program.program.file)
    swizzle = program.maps[one.map].swizzle
    width = min(one.own[-1], 8 * swizzle // BITS[program.maps[one.map].element]) if swizzle else one.own[-1]
    return replace(entry, box=(*one.own[:-1], width), swizzle=cast(Swizzle, swizzle))


def _known(sizes: tuple[Scalar | None, ...]) -> list[Scalar]:
    return [1 if size is None else size for size in sizes]  # which no kernel reads: the tensor map has what is there


def _element(name: str, program: WarpProgram) -> str:
    return next(argument.type.element for argument in program.program.arguments if argument.name == name)


def _instances(program: WarpProgram) -> Scalar:
    """All of the launch grid, or pairs of them."""
    sizes: list[Scalar] = [f"{GRID}.{axis}" for axis in range(3)]
    if program.cluster is not None:
        along, ctas = program.cluster.axis, program.cluster.ctas
        whole = ScalarOperation("add", "i64", (sizes[along], ctas - 1))
        sizes[along] = ScalarOperation("div", "i64", (whole, ctas))
    x, y, z = sizes
    return ScalarOperation("mul", "i64", (ScalarOperation("mul", "i64", (x, y)), z))


def _together(program: WarpProgram) -> Scalar:
    """How many instances are walked side by side, from the grid and the arguments."""
    known: dict[str, Scalar] = {"instances": _instances(program)}  # as the setup of every program defines it
    file = program.program.file
    for stmt in program.once:
        if isinstance(stmt, Define):
            for name, value in zip(stmt.names, stmt.values, strict=True):
                known[name] = _of_grid(value, known, file)
        elif isinstance(stmt, Evenly):
            count, most = _of_grid(stmt.count, known, file), _of_grid(stmt.most, known, file)
            known[stmt.name] = ScalarOperation(EVENLY, "i64", (count, most))
    return known[TOGETHER]


def _of_grid(expr: Expr, known: Mapping[str, Scalar], file: str) -> Scalar:
    """An expression of the tile scheduler, in 64 bits: none of its unsigned numbers is larger."""
    match expr:
        case Number() | Symbol():
            return scalar_of(expr, file)
        case NumPrograms(axis):
            return f"{GRID}.{axis}"
        case Local(name) if name in known:
            return known[name]
        case Apply(kind, operands, _, attributes):
            given = tuple(_of_grid(operand, known, file) for operand in operands)
            return ScalarOperation(kind, "i64", given, tuple((n, v) for n, v in attributes if not isinstance(v, tuple)))
    raise exc.UnsupportedInKernel(
        f"a launch cannot compute {expr}", file=file, hint='the CUDA form (`twill.jit(emit="cuda")`)'
    )
