"""A Gluon module, launched on the CPU: its own launcher says what the kernel gets, the executor of PTX runs it.

Nothing of the warp program is asked: tensors, descriptors and numbers are what the module's launcher passes.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from twill import exc
from twill.codegen.compile.gluon.triton import WARPS, CompiledModule, load
from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.verify.abstract.results import compare
from twill.codegen.verify.abstract_machine import in_range
from twill.codegen.verify.drift import drifting
from twill.codegen.verify.ptx import run as ptx
from twill.codegen.warp.program import WarpProgram
from twill.kernel.problem import ProblemTable
from twill.kernel.specialization import Specialization, problem_of
from twill.manifest.document import MapEntry
from twill.ptx.parse import parse
from twill.runtime.arguments import BoundArguments
from twill.runtime.plan import map_parameters
from twill.runtime.tensor import TensorView
from twill.runtime.tensor_map import TYPES
from twill.tile.interpret.arrays import np
from twill.trial.execute import Execution, as_bits, as_held, small, wrapping

if TYPE_CHECKING:
    from twill.codegen.gluon import GluonEmission

KNOWN = frozenset({"tcgen05-registers"})
"""What Triton's compilers do to every kernel that reads tensor memory: registers of a `tcgen05.ld` are used in front of
its `wait::ld`, whose order is left to ptxas. No module can say otherwise."""
MADE = 100  # launches that are looked at for one with many instances
COUNTER = "(counter)"  # what the launcher passes for the counter of instances
SCRATCH = "(scratch)"  # Triton's two pointers behind the kernel's own parameters; nothing is there
LANES = 32


@dataclass(frozen=True)
class _Given:
    """What a call passes for a descriptor, or a pointer."""

    base: str
    shape: tuple[int, ...] = ()
    strides: tuple[int, ...] = ()

    def stride(self) -> tuple[int, ...]:
        """As tensors say it."""
        return self.strides


@dataclass(frozen=True)
class _Made:
    """A descriptor that the launcher makes."""

    base: Any
    shape: Sequence[int]
    strides: Sequence[int]
    block_shape: Sequence[int]
    layout: Any


@dataclass(frozen=True)
class RecordedLaunch:
    """What a launcher passes to its kernel. grid: programs, each of a cluster of CTAs. warps: of the first partition.
    ctas: of a cluster."""

    grid: tuple[int, ...]
    arguments: tuple[Any, ...]
    warps: int
    ctas: int


class _Recorder:
    """In place of the kernel: notes its launch."""

    def __init__(self) -> None:
        self.launch = RecordedLaunch((), (), 0, 0)

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        def note(*arguments: Any, num_warps: int = 4, num_ctas: int = 1) -> None:
            self.launch = RecordedLaunch(grid, arguments, num_warps, num_ctas)

        return note


def recorded(
    module: ModuleType, entry: str, specialization: Specialization, launch: CheckedLaunch, ctas: int
) -> RecordedLaunch:
    """What the module's launcher passes to its kernel. ctas: that the GPU is said to have room for."""
    types, constants = dict(specialization.signature), dict(specialization.constexprs)
    given: dict[str, Any] = dict(specialization.constexprs)
    for parameter in specialization.parameters:
        name = parameter.name
        if name in constants:
            continue
        if types[name].startswith("tensordesc"):
            rank = types[name].partition("[")[2].count(",") + 1
            shape = tuple(int(launch.scalars[f"{name}.shape.{axis}"]) for axis in range(rank))
            strides = (*(int(launch.scalars[f"{name}.stride.{axis}"]) for axis in range(rank - 1)), 1)
            given[name] = _Given(name, shape, strides)
        elif types[name].startswith("*"):
            given[name] = _Given(name, (len(launch.arrays[name]),), (1,))
        else:
            given[name] = launch.scalars[name]
    kernel, named = _Recorder(), vars(module)
    launcher = named[specialization.kernel]
    shared = type(launcher).__init__.__globals__  # of the file beside the module, whose `descriptor` it calls
    stand_in = {"TensorDescriptor": _Made, "multiprocessors": lambda: ctas, "counter": lambda: _Given(COUNTER)}
    places = [(named, {entry: kernel, **stand_in}), (shared, stand_in)]
    saved = [(place, {name: place.get(name) for name in changed}) for place, changed in places]
    for place, changed in places:
        place.update(changed)
    try:
        launcher[launch.grid](**{one.name: given[one.name] for one in specialization.parameters})
    finally:
        for place, before in saved:
            place.update(before)
    return kernel.launch


def passed(argument: Any, elements: dict[str, str]) -> list[ptx.Argument]:
    """The parameters of the compiled kernel that an argument becomes."""
    if isinstance(argument, _Made):
        base = argument.base.base if isinstance(argument.base, _Given) else str(argument.base)
        element, rank = {"f8e4m3": "f8e4m3fn"}.get(elements[base], elements[base]), len(argument.shape)
        width = argument.layout.element_bitwidth // 8
        block = _of_cta(argument)
        most = argument.layout.swizzle_byte_width // width or block[-1]  # of a copy; of a row that is not swizzled, all
        box = (*block[:-1], min(block[-1], most))
        entry = MapEntry(
            base, element, tuple(argument.shape), tuple(argument.strides), 0, box, argument.layout.swizzle_byte_width
        )
        view = TensorView(0, element, tuple(argument.shape), tuple(argument.strides), 0)
        made = map_parameters(entry, BoundArguments({}, {base: view}))
        described = ptx.MapOf(
            base, TYPES[made.dtype], made.sizes, made.strides, made.box, made.swizzle, "zero", made.pointer
        )
        assert rank == len(argument.strides)
        return [described, *map(int, argument.shape), *map(int, argument.strides)]
    if isinstance(argument, _Given):
        return [ptx.PointerArgument(argument.base)]
    return [float(argument) if isinstance(argument, float) else int(argument)]


def _of_cta(argument: _Made) -> list[int]:
    """What a CTA copies of a descriptor's block: all of it, or its half where two CTAs have one each."""
    halves = getattr(argument.layout, "cga_layout", None) or []
    return [
        extent // 2 ** sum(basis[axis] != 0 for basis in halves) for axis, extent in enumerate(argument.block_shape)
    ]


def execute(
    compiled: CompiledModule,
    path: Path,
    entry: str,
    specialization: Specialization,
    program: WarpProgram,
    launch: CheckedLaunch,
    ctas: int = 2,
    answers: tuple[int, ...] = (),
) -> Execution:
    """The compiled module at `path` launched, and its differences from the sequential tile program. ctas: that there is
    room for, or pairs of them. answers: to requests for the place of a CTA that has not started."""
    tile = program.program
    together = program.cluster.ctas if program.cluster is not None else 1
    launch, against = in_range(program, launch)
    elements = {a.name: a.type.element.partition(":")[2] for a in tile.arguments if a.name in launch.arrays}
    launched = recorded(load(path), entry, specialization, launch, ctas * together)
    bits = {name: as_bits(array, elements[name]) for name, array in launch.arrays.items()}
    given = [one for argument in launched.arguments for one in passed(argument, elements)]
    scratch = [ptx.PointerArgument(SCRATCH)] * 2
    result = ptx.execute(
        parse(compiled.ptx),
        compiled.entry,
        ptx.PtxLaunch(
            arguments=[*given, *scratch],
            tensors={**bits, SCRATCH: np.zeros(16, np.uint8), COUNTER: np.zeros(1, np.int32)},
            grid=(launched.grid[0] * together, 1, 1),
            cluster=together,
            threads=compiled.warps * LANES,
            shared=compiled.shared,
            scattered_budgets=True,
            tolerated=KNOWN,
            answers=answers,
        ),
    )
    arrays = {name: as_held(result.tensors[name], elements[name]) for name in launch.arrays}
    findings = tuple(finding for finding in result.findings if finding.rule not in KNOWN)
    found = Execution(launch, arrays, findings, (), result.unreached)
    wrong = (*compare(tile, launch, found.arrays, against), *drifting(tile, launch, found.arrays, against.expected))
    said = [violation.describe() for violation in wrong]
    asked, has = (launched.warps, launched.ctas), (WARPS, together)
    if asked != has:
        said.append("launched with {} warps and {} CTAs of a cluster, and compiled for {} and {}".format(*asked, *has))
    if result.tensors[COUNTER][0]:
        said.append(f"the counter of instances is left at {result.tensors[COUNTER][0]}, where the next launch begins")
    return replace(found, differences=tuple(said))


def checked(emission: GluonEmission, specialization: Specialization) -> str:
    """The module executed for small launches that fill its rings more than once, in words. Errors: ExecutionDiffers,
    UnknownProblem."""
    program = emission.program
    tried = _launches(program, problem_of(specialization))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / emission.name
        path.write_text(emission.module.text, encoding="utf-8")
        for launch, ctas in tried:
            entry = emission.module.entry
            found = execute(emission.compiled, path, entry, specialization, program, launch, ctas)
            if found.said():
                raise exc.ExecutionDiffers(program.program.kernel, launch.text, found.said(), file=program.program.file)
    sizes = "; ".join(launch.text or "the only size" for launch, _ in tried)
    return f"executed on the CPU ({sizes}): equal to the tile program, nothing found"


def _launches(program: WarpProgram, problem: ProblemTable | None) -> list[tuple[CheckedLaunch, int]]:
    """Launches and on how many CTAs, or pairs of them: one in which rings come round, and one in which a single CTA
    walks several instances, more than rings in tensor memory have slots, whose tiles are whole where they can be. A row
    that a tile does not have tells nothing of the buffer that it would come from."""
    slots = max((aref.depth for aref in program.arefs if aref.transport == "mma"), default=1)
    found = [(wrapping(program, problem), 2)]
    many = [one for one in small(program, MADE, problem) if _worked_on(one, program) > slots]
    whole = [one for one in many if _has_whole_tiles(one, program)]
    return found + [(launch, 1) for launch in (whole or many)[:1]]


def _has_whole_tiles(launch: CheckedLaunch, program: WarpProgram) -> bool:
    """Whether every tensor that a descriptor describes is as large as a tile of it, along each axis."""
    described = [one for one in program.program.arguments if one.type.element.startswith("desc")]
    return all(
        launch.scalars[f"{one.name}.shape.{axis}"] >= extent
        for one in described
        for axis, extent in enumerate(one.type.shape)
    )


def _worked_on(launch: CheckedLaunch, program: WarpProgram) -> int:
    """How many instances there are, or pairs of them."""
    sizes = list(launch.grid)
    if program.cluster is not None:
        sizes[program.cluster.axis] = -(-sizes[program.cluster.axis] // program.cluster.ctas)
    return math.prod(sizes)
