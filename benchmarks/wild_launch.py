"""One launch of an emitted kernel of a package beside Triton's, on the same data: what differs, and whether it may.

`benchmarks.wild_gpu` says how far outputs may be apart, and what its lines mean.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean, median, stdev
from typing import Any

from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.coverage.keep import TILE
from twill.graph.work import BITS
from twill.kernel.problem import Case
from twill.runtime.kernel import EmittedKernel
from twill.tile.interpret.arithmetic import HELD
from twill.tile.interpret.sequential import run as run_tiles
from twill.tile.interpret.widen import widened
from twill.tile.parse import parse
from twill.tile.program import POINTEE, TileProgram
from twill.trial.compare import relative, repeats
from twill.trial.data import Data, emitted, make_data, original
from twill.trial.roundings import apart, moved_by_roundings

MOST_AXES, ALIGNED = 5, 16  # of a tensor descriptor: axes; bytes from row to row, a multiple
AGAIN = 20  # launches that must leave equal bits
SCALES = (1.0, 2.0**-3, 2.0**-6, 2.0**-9)  # factors of random floats, the largest that will do
# How far an output may be from Triton's, by the bytes of the narrowest float that it is made with.
NEAR, CLOSE = {2: 2e-2, 1: 1e-1}, 2e-3
RATIO = 1.2  # times Triton's distance from the same in float64, where it is further from Triton's
DRAWS = 12  # of data that such a ratio is the mean of: where roundings grow, one draw says little
MORE = 36  # draws where the mean of so many is above RATIO: its standard error may be a third of it
SAYS = 0.1  # of such distances, at most: of what does not converge at all, two are as far as each other


def shape_of(name: str, launch: Mapping[str, Any]) -> tuple[int, ...]:
    """Of a tensor: as its descriptor says, if it has one; else flat."""
    sizes = [launch["scalars"].get(f"{name}.shape.{axis}") for axis in range(MOST_AXES)]
    found = tuple(max(1, size) for size in sizes if size is not None)
    return found or (max(1, launch["elements"][name]),)


def odd_rows(kernel: EmittedKernel, shapes: Mapping[str, tuple[int, ...]]) -> str:
    """Why a launch can't be made at all; "" if it can: a descriptor's rows begin every 16 bytes."""
    for argument in kernel.manifest.arguments:
        if argument.kind == "descriptor" and shapes[argument.name][-1] * BITS[argument.element] % (8 * ALIGNED):
            return f"`{argument.name}` has rows that no descriptor has, of {shapes[argument.name][-1]} elements"
    return ""


@dataclass(frozen=True)
class Held:
    """What a launch has in its tensors. integers: what tensors of integers hold, which may be indices. scale: a factor
    of random floats. seed: which of them."""

    kernel: EmittedKernel
    made: Case
    integers: dict[str, list[int]]
    scale: float = 1.0
    seed: int = 0

    def filled(self) -> Data:
        """Random data of the launch, the same every time."""
        import torch

        data = make_data(self.kernel.manifest, self.made, self.seed)
        for name in self.kernel.manifest.loads:
            tensor = data.tensor(name)
            if self.integers.get(name):
                start = data.tensor(name + POINTEE).data_ptr() if name + POINTEE in data.held else 0
                tensor.copy_(torch.tensor([number + start for number in self.integers[name]]).view(tensor.shape))
            elif tensor.dtype.is_floating_point and self.scale != 1:
                tensor.copy_(tensor.float() * self.scale)
        return data


def tame(held: Held, function: Any) -> Held:
    """The same with floats so small that Triton's results have the fewest infinities: of kernels that expect small
    numbers, as those that invert a matrix, nothing can be said at larger ones. (What is not written is no number.)"""
    import torch

    found: list[tuple[int, float]] = []
    for scale in SCALES:
        data = replace(held, scale=scale).filled()
        original(function, data, num_warps=4)()
        floats = (tensor.float() for tensor in data.outputs.values() if tensor.dtype.is_floating_point)
        found.append((sum(int((~torch.isfinite(one)).sum()) for one in floats), -scale))
        if not found[-1][0]:
            break
    return replace(held, scale=-min(found)[1])


def differs(held: Held, function: Any) -> bool:
    """Whether Triton's own results are others from launch to launch, of sums that are added to in any order."""
    import torch

    found: list[dict[str, Any]] = []
    for _ in range(AGAIN):
        data = held.filled()
        original(function, data, num_warps=4)()
        found.append({name: tensor.view(torch.uint8).clone() for name, tensor in data.outputs.items()})
    return any(not torch.equal(one[name], found[0][name]) for one in found[1:] for name in one)


def by_roundings(held: Held, folder: Path, computed: int) -> dict[str, float]:
    """Outputs that roundings alone move as far as they may be from Triton's, on the same data (`moved_by_roundings`).
    computed: as for `wrong`."""
    program, data = parse((folder / TILE).read_text(encoding="utf-8")), held.filled()
    kinds = {one.name: one.type.element.partition(":")[2] for one in program.arguments}
    arrays = {name: in_memory(data.counted_from_zero(name), kinds[name]) for name in held.made.shapes}
    launch = CheckedLaunch(held.made.grid, arrays, held.made.scalars)
    moved = moved_by_roundings(program, launch)
    bytes_of = {name: data.tensor(name).element_size() for name in moved}
    return {name: far for name, far in moved.items() if not far <= near(computed, bytes_of[name])}


@dataclass(frozen=True)
class Error:
    """Of an output of what is emitted, for some draws of data: its distances from the tile program in float64, and
    Triton's; its distances from the tile program as it is."""

    exact: tuple[float, ...]
    theirs: tuple[float, ...]
    apart: tuple[float, ...]

    @property
    def logarithms(self) -> tuple[float, ...]:
        """Of the ratio of the first two in each draw. What both have exactly, or both have lost, counts as 1."""
        pairs = zip(self.exact, self.theirs, strict=True)
        return tuple(0.0 if one == other else _logarithm(one) - _logarithm(other) for one, other in pairs)

    @property
    def ratio(self) -> float:
        """The geometric mean."""
        return math.exp(fmean(self.logarithms))

    @property
    def uncertain(self) -> float:
        """The factor that the mean may be off by: one standard error."""
        return math.exp(stdev(self.logarithms) / math.sqrt(len(self.logarithms))) if len(self.logarithms) > 1 else 1.0

    @property
    def right(self) -> bool:
        """Whether the ratio is small, of distances that say anything; or the last distance."""
        small = self.ratio <= RATIO and median(self.exact) <= SAYS
        return small or max(self.apart) <= CLOSE

    def text(self) -> str:
        """For a person."""
        words = f"{self.ratio:.2f} (within a factor of {self.uncertain:.2f}) of Triton's error"
        return f"{words}, and is {max(self.apart):.1e} from the tile program"


def _logarithm(distance: float) -> float:
    """Of a distance; 0 and infinity as far as distances go."""
    return math.log(min(max(distance, 1e-30), 1e30))


def errors(held: Held, function: Any, folder: Path) -> dict[str, Error]:
    """Of each output of floats, on the same data, `DRAWS` times, or `MORE` times where those say that one is wrong."""
    program = parse((folder / TILE).read_text(encoding="utf-8"))
    draws: list[dict[str, tuple[float, float, float]]] = []
    found: dict[str, Error] = {}
    for count in (DRAWS, MORE):
        seeds = range(held.seed + len(draws), held.seed + count)
        draws += [_distances(replace(held, seed=seed), function, program) for seed in seeds]
        found = {name: Error(*zip(*(draw[name] for draw in draws), strict=True)) for name in draws[0]}
        if all(one.right for one in found.values()):
            break
    return found


def _distances(held: Held, function: Any, program: TileProgram) -> dict[str, tuple[float, float, float]]:
    """Of one draw: what `Error` has of each."""
    import torch

    ours, theirs = held.filled(), held.filled()
    exact, plain = (arrays_of(one, held, ours) for one in (widened(program, "f64"), program))
    emitted(held.kernel, ours)()
    original(function, theirs, num_warps=4)()
    torch.cuda.synchronize()
    found: dict[str, tuple[float, float, float]] = {}
    for name in (name for name, tensor in ours.outputs.items() if tensor.dtype.is_floating_point):
        mine, other = (data.tensor(name).detach().cpu().flatten().double().numpy() for data in (ours, theirs))
        found[name] = apart(mine, exact[name]), apart(other, exact[name]), apart(mine, plain[name])
    return found


def arrays_of(program: TileProgram, held: Held, data: Data) -> dict[str, Any]:
    """The tensors as a tile program leaves them that begins with `data`."""
    kinds = {one.name: one.type.element.partition(":")[2] for one in program.arguments}
    arrays = {name: in_memory(data.counted_from_zero(name), kinds[name]) for name in held.made.shapes}
    run_tiles(program, held.made.grid, arrays, held.made.scalars)
    return arrays


def in_memory(tensor: Any, element: str) -> Any:
    """A flat tensor as tile programs hold it."""
    array = tensor.detach().cpu().flatten()
    return (array.float() if array.dtype.is_floating_point else array).numpy().astype(HELD[element])


def near(computed: int, size: int) -> float:
    """How far an output with elements of `size` bytes may be. computed: as for `wrong`."""
    return NEAR.get(min(computed, size), CLOSE)


def wrong(held: Held, function: Any, computed: int) -> Iterator[tuple[str, str]]:
    """What differs at one launch: an output, and in words; "" for what no data explains. computed: bytes of the
    narrowest float that the kernel computes in."""
    import torch

    kernel, data, theirs = held.kernel, held.filled(), held.filled()
    emitted(kernel, data)()
    original(function, theirs, num_warps=4)()
    for name, tensor in data.outputs.items():
        other = theirs.tensor(name)
        if torch.equal(tensor.view(torch.uint8), other.view(torch.uint8)):
            continue
        both = torch.isnan(tensor.float()) & torch.isnan(other.float())
        both |= torch.isinf(other.float()) & (tensor.float() == other.float())
        ours, wanted = (torch.where(both, 0.0, one.double()) for one in (tensor, other))
        far = relative(ours, wanted)
        if not far <= near(computed, tensor.element_size()):
            yield name, f"{name} is {far:.2e} from Triton's"
    yield from (("", f"bytes beside {name} were written") for name in data.outside())
    if set(kernel.manifest.stores) & set(kernel.manifest.loads):
        return  # a second launch would read what the first one wrote
    again = repeats(data, emitted(kernel, data), AGAIN)
    yield from (("", f"{name} differs in {count} of {AGAIN} launches") for name, count in again.items() if count)
