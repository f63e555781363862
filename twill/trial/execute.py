"""An emitted kernel's PTX, launched on the CPU as its manifest says, and held against the sequential tile program.

The executor (`twill.codegen.verify.ptx`) knows nothing of warp programs; this file alone knows what a launch passes.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING

from twill import exc
from twill.codegen.verify.abstract.coverage import three
from twill.codegen.verify.abstract.inputs import CheckedLaunch, launches, most_iterations, runs_loops
from twill.codegen.verify.abstract.results import compare
from twill.codegen.verify.abstract_machine import alone, defined, in_range, order_of
from twill.codegen.verify.drift import drifting
from twill.codegen.verify.ptx import run as ptx
from twill.codegen.verify.ptx.findings import PtxFinding
from twill.codegen.warp.program import WarpProgram
from twill.kernel.problem import ProblemTable
from twill.manifest.document import KernelParameter, Manifest
from twill.ptx.formats import decode, encode
from twill.ptx.parse import parse
from twill.runtime.arguments import BoundArguments
from twill.runtime.plan import map_parameters, template_parameters, workspace_room
from twill.runtime.tensor import TensorView
from twill.runtime.tensor_map import TYPES
from twill.tile.interpret.arithmetic import HELD, Array
from twill.tile.interpret.arrays import np
from twill.tile.order_dependence import depends_on_order
from twill.tile.program import POINTEE

if TYPE_CHECKING:
    from twill.codegen.emit import Emission

FORMATS = {"bf16": "bf16", "f16": "f16", "f8e4m3": "e4m3", "f8e5m2": "e5m2"}
"""Elements that arrays hold as float32 -> formats of their bits."""
WORKSPACE = "(workspace)"
FAR = 3 << 40  # bytes, at which tensors of addresses say that what they point to begins: such addresses have 64 bits
TRIED = 100  # launches that are looked at for one that can be


@dataclass(frozen=True)
class Execution:
    """What the kernel's machine code did. arrays: tensors after it, as the launch has them. findings: what a GPU may
    take amiss. differences: from the sequential tile program, in words. unreached: lines of the PTX with instructions
    that no thread came to."""

    launch: CheckedLaunch
    arrays: Mapping[str, Array]
    findings: tuple[PtxFinding, ...]
    differences: tuple[str, ...] = ()
    unreached: frozenset[int] = frozenset()

    def said(self) -> list[str]:
        """All that is wrong with it."""
        return [*(finding.describe() for finding in self.findings), *self.differences]


def execute(
    text: str, manifest: Manifest, launch: CheckedLaunch, elements: Mapping[str, str], ctas: int = 2,
    answers: tuple[int, ...] = (), together: bool = False,
) -> Execution:  # fmt: skip
    """The PTX `text` of a kernel, launched. elements: of the tensors, by name. ctas: at most. answers: to CTAs that ask
    for the place of another one, together: whether CTAs may wait for one another (`PtxLaunch`).

    Errors: MalformedPtx, UnsupportedPtx, and what a launch refuses (WrongArgument, MisalignedTensor, BadBox).
    """
    bits = {name: as_bits(array, elements[name]) for name, array in launch.arrays.items()}
    tables = addresses(manifest, elements)
    for name in tables:
        bits[name] = bits[name] + FAR
    grid = three(launch.grid)
    if manifest.workspace:
        room = workspace_room(manifest, grid, count(manifest, grid, ctas))
        bits[WORKSPACE] = np.zeros(manifest.workspace + room, np.uint8)
    bound = bind(manifest, launch)
    result = ptx.execute(
        parse(text),
        manifest.function,
        ptx.PtxLaunch(
            arguments=[argument(parameter, manifest, bound, grid) for parameter in manifest.parameters],
            tensors=bits,
            grid=(count(manifest, grid, ctas), 1, 1),
            threads=manifest.threads,
            shared=manifest.shared,
            cluster=manifest.cluster,
            answers=answers,
            together=together,
        ),
    )
    left = result.tensors.get(WORKSPACE)
    wrong = ("the workspace is not left as zeros",) if left is not None and left[: manifest.workspace].any() else ()
    after = {**result.tensors, **{name: result.tensors[name] - FAR for name in tables}}
    arrays = {name: as_held(after[name], elements[name]) for name in launch.arrays}
    return Execution(launch, arrays, result.findings, wrong, result.unreached)


def addresses(manifest: Manifest, elements: Mapping[str, str]) -> tuple[str, ...]:
    """The tensors that the kernel looks addresses up in."""
    tables = (one.name.removesuffix(POINTEE) for one in manifest.parameters if one.kind == "origin")
    return tuple(name for name in tables if elements.get(name) == "i64")


def as_bits(array: Array, element: str) -> Array:
    """An array as its elements lie in memory."""
    return encode(array.astype(np.float32), FORMATS[element]) if element in FORMATS else array


def as_held(bits: Array, element: str) -> Array:
    """The other way round."""
    return decode(bits, FORMATS[element]).astype(HELD[element]) if element in FORMATS else bits


# ---------------------------------------------------------------- what a launch passes


def bind(manifest: Manifest, launch: CheckedLaunch) -> BoundArguments:
    """The arguments of the call. Tensors begin at address 0, each in a memory of its own."""
    tensors = {}
    for given in manifest.arguments:
        if given.kind == "pointer":
            size = len(launch.arrays[given.name])
            tensors[given.name] = TensorView(0, given.element, (size,), (1,), 0)
        elif given.kind == "descriptor":
            axes = range(len(given.block))
            shape = tuple(int(launch.scalars[f"{given.name}.shape.{axis}"]) for axis in axes)
            strides = tuple(int(launch.scalars[f"{given.name}.stride.{axis}"]) for axis in axes)
            tensors[given.name] = TensorView(0, given.element, shape, strides, 0)
    return BoundArguments(launch.scalars, tensors)


def argument(
    parameter: KernelParameter, manifest: Manifest, bound: BoundArguments, grid: tuple[int, ...]
) -> ptx.Argument:
    """What a launch passes for a parameter of the compiled kernel."""
    if parameter.kind == "map":
        entry = manifest.maps[parameter.index]
        own = parameter.index in manifest.made
        made = template_parameters(entry, 0) if own else map_parameters(entry, bound)
        return ptx.MapOf(
            WORKSPACE if own else entry.argument, TYPES[made.dtype], made.sizes, made.strides, made.box, made.swizzle,
            "nan" if made.nan_outside else "zero", made.pointer,
        )  # fmt: skip
    if parameter.kind == "grid":
        return grid[parameter.index]
    if parameter.kind == "computed":
        return manifest.computed(parameter.index, bound.scalars, grid)
    if parameter.kind == "workspace":
        return ptx.PointerArgument(WORKSPACE)
    if parameter.kind == "pointer":
        return ptx.PointerArgument(parameter.name)
    if parameter.kind == "origin":
        return ptx.PointerArgument(parameter.name, -FAR)
    value = bound.scalars[parameter.name]
    return float(value) if parameter.element in ("f32", "f64") else int(value)


def count(manifest: Manifest, grid: tuple[int, ...], most: int) -> int:
    """CTAs of a launch: in whole clusters, no more than there are program instances for."""
    size, axis = manifest.cluster, manifest.cluster_axis
    most = math.prod(grid) if manifest.cancels else most
    together = math.prod(-(-extent // size) if a == axis else extent for a, extent in enumerate(grid))
    return min(max(1, most // size), together) * size


# ---------------------------------------------------------------- held against the tile program


def small(program: WarpProgram, count: int, problem: ProblemTable | None = None) -> tuple[CheckedLaunch, ...]:
    """Of the launches that the abstract machine makes up, those with the least work in which every loop runs, each of
    other sizes. Errors: UnknownProblem."""
    made = [one for one in launches(program, problem) if one.ctas == 1]
    running = [one for one in made if runs_loops(program.program, one)] or made

    def work(launch: CheckedLaunch) -> int:
        return math.prod(launch.grid) * (1 + most_iterations(program.program, launch))

    distinct = {launch.text: launch for launch in sorted(running, key=work, reverse=True)}
    return tuple(sorted(distinct.values(), key=work)[:count])


def smallest(program: WarpProgram, problem: ProblemTable | None = None) -> CheckedLaunch:
    """The first of them."""
    return small(program, 1, problem)[0]


def wrapping(program: WarpProgram, problem: ProblemTable | None = None) -> CheckedLaunch:
    """The one with the least work in which every ring is filled more than once; the one with the most iterations if
    there is none. Errors: UnknownProblem."""
    deepest = max((aref.depth for aref in program.arefs), default=0)
    made = small(program, len(program.arefs) * 100 + 100, problem)
    iterations = [most_iterations(program.program, one) for one in made]
    long = [one for one, most in zip(made, iterations, strict=True) if most > deepest]
    return long[0] if long else max(zip(iterations, made, strict=True), key=lambda one: one[0])[1]


def verified(
    text: str, manifest: Manifest, program: WarpProgram, launch: CheckedLaunch, ctas: int = 2,
    answers: tuple[int, ...] = (),
) -> Execution:  # fmt: skip
    """The kernel executed, with its differences from the sequential tile program. Errors as for `execute`."""
    tile = program.program
    elements = {
        given.name: given.type.element.partition(":")[2] for given in tile.arguments if given.name in launch.arrays
    }
    many = count(manifest, three(launch.grid), ctas)
    launch, against = in_range(program, launch, order_of(program, launch, many) if depends_on_order(tile) else None)
    found = execute(text, manifest, launch, elements, ctas, answers, depends_on_order(tile))
    wrong = (*compare(tile, launch, found.arrays, against), *drifting(tile, launch, found.arrays, against.expected))
    different = tuple(violation.describe() for violation in wrong)
    return replace(found, differences=(*found.differences, *different))


def launchable(manifest: Manifest, launch: CheckedLaunch) -> bool:
    """Whether the driver takes its tensors: no tensor map is of a size 0, as of a matrix without columns."""
    bound = bind(manifest, launch)
    try:
        for index, entry in enumerate(manifest.maps):
            if index not in manifest.made:
                map_parameters(entry, bound)
    except (exc.WrongArgument, exc.MisalignedTensor):
        return False
    return True


def checked(emission: Emission, problem: ProblemTable | None = None) -> Execution:
    """An emission executed for the smallest launch that there can be and whose results are defined. problem: the sizes
    that make sense. Errors: ExecutionDiffers if anything is wrong with it, UnknownProblem, those of `execute`."""
    made = small(emission.program, TRIED, problem)
    for launch in [one for one in made if launchable(emission.manifest, one)] or made[:1]:
        for one in (launch, alone(launch)) if launch.derived else (launch,):
            found = verified(emission.build.ptx, emission.manifest, emission.program, one, _ctas(emission, one))
            if not found.said() or defined(emission.program.program, one):
                return _right(emission, found)
    tile = emission.program.program
    raise exc.UnknownProblem(
        f"at all sizes that were made up for `{tile.kernel}`, it stores several numbers to one place",
        file=tile.file,
        hint="a table [specialization.problem] in its sidecar (docs/problem-sizes.md)",
    )


def _ctas(emission: Emission, launch: CheckedLaunch) -> int:
    """CTAs that an execution has: one for each program instance where they may wait for one another."""
    return math.prod(launch.grid) if depends_on_order(emission.program.program) else 2


def checked_with_awkward_data(emission: Emission, problem: ProblemTable | None = None) -> tuple[Execution, ...]:
    """The same, and for the one with NaN, infinities and the like, if the kernel tells such numbers apart."""
    first = checked(emission, problem)
    awkward = (one for one in launches(emission.program, problem) if one.data == "awkward")
    further = () if first.launch.data == "awkward" else tuple(islice(awkward, 1))
    done = [
        verified(emission.build.ptx, emission.manifest, emission.program, one, _ctas(emission, one))
        for one in further
        if launchable(emission.manifest, one)
    ]
    return (first, *(_right(emission, one) for one in done if defined(emission.program.program, one.launch)))


def _right(emission: Emission, found: Execution) -> Execution:
    """The execution, if nothing is wrong with it. Errors: ExecutionDiffers."""
    if found.said():
        tile = emission.program.program
        raise exc.ExecutionDiffers(tile.kernel, found.launch.text, found.said(), file=tile.file)
    return found
