"""A launch, checked and packed once: an equal one writes its free numbers and calls the driver, no more.

A number is free if no tensor map needs it: it changes from launch to launch without another plan.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twill import exc
from twill.manifest.document import CallArgument, Manifest, MapEntry, Promise
from twill.manifest.evaluate import Scalar, evaluate, names
from twill.manifest.tile_loop import instance_grid
from twill.runtime.address import TensorAddress, addresses
from twill.runtime.arguments import BoundArguments, check_promises, is_float, is_positive, limits, read_arguments
from twill.runtime.device import Device
from twill.runtime.driver import bindings, call, on_device
from twill.runtime.launch import LaunchShape, Packed, Value, check_shape, launch_config, pack
from twill.runtime.module import Kernel, LaunchParameter, ParameterKind, prepare
from twill.runtime.overlap import OverlapPair, check_apart, pairs_of
from twill.runtime.tensor import ELEMENT_BYTES, TensorView, reach
from twill.runtime.tensor_map import MAX_SIZE, TensorMap, TensorMapParameters, TileBox, encode, joined, parameters
from twill.runtime.workspace import Workspaces

MAX_PROGRAMS = (1 << 31) - 1  # the kernel counts program instances in 32 bits

_SCALARS: dict[str, ParameterKind] = {
    "i32": "i32",
    "i64": "i64",
    "f32": "f32",
    "f64": "f64",
    "u32": "u32",
    "u64": "u64",
}

Grid = tuple[int, int, int]


@dataclass(frozen=True)
class FreeNumber:
    """A number that every launch writes anew. position: among the values. slot: among the packed parameters (None: the
    code does not take it, but its promise is kept up). multiple, positive: what was promised of it."""

    position: int
    slot: int | None
    is_float: bool
    low: int = 0
    high: int = 0
    multiple: int = 1
    positive: bool = False

    def write(self, cell: Any, value: object) -> bool:
        """Whether `value` is plainly right and was written; if not, the careful path says what is wrong."""
        plain = type(value)
        if self.is_float:
            right = (plain is float or plain is int) and (not self.positive or is_positive(value))  # type: ignore[arg-type]
        else:
            right = plain is int and self.low <= value < self.high and not value % self.multiple  # type: ignore[operator]
        if right:
            cell.value = value
        return right


@dataclass
class LaunchPlan:
    """One checked launch; `start` repeats it. The packed parameters keep the tensor maps alive, not the tensors.

    cells: those of the free numbers. addresses: what depends on where tensors are. pairs: tensors that lie apart.
    workspaces: zeros, if the kernel asks for some, and `room` bytes behind them; their address is written to the
    parameter of number `workspace`.
    """

    device: int
    handle: int
    shape: LaunchShape
    config: Any
    stream: int
    packed: Packed
    free: tuple[FreeNumber, ...]
    cells: tuple[Any, ...]
    addresses: tuple[TensorAddress, ...]
    pairs: tuple[OverlapPair, ...] = ()
    workspaces: Workspaces | None = None
    workspace: int = -1
    room: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def positioned(self, positions: Sequence[int]) -> LaunchPlan:
        """The same for values of which the first is at `positions[0]`, and so on."""
        free = tuple(replace(number, position=positions[number.position]) for number in self.free)
        addresses = tuple(replace(address, position=positions[address.position]) for address in self.addresses)
        pairs = tuple(
            replace(pair, positions=(positions[pair.positions[0]], positions[pair.positions[1]])) for pair in self.pairs
        )
        return replace(self, free=free, addresses=addresses, pairs=pairs)

    def moved(self, values: Sequence[Any], stream: int) -> LaunchPlan | None:
        """The launch for values that differ in nothing but where PyTorch's tensors are (and in free numbers, which
        `start` writes); None if that takes a careful look."""
        if not all(pair.apart(values) for pair in self.pairs):
            return None
        slots: dict[int, Any] = {}
        for address in self.addresses:
            there = address.moved(values[address.position], self.packed.storage[address.slot])
            if there is None:
                return None
            slots[address.slot] = there
        cells = tuple(type(cell)() for cell in self.cells)  # another thread may write those of this launch
        for number, cell in zip(self.free, cells, strict=True):
            if number.slot is not None:
                slots[number.slot] = cell
        if self.workspaces is not None:
            slots[self.workspace] = type(self.packed.storage[self.workspace])()
        return replace(
            self,
            config=launch_config(self.shape, stream),
            stream=stream,
            packed=self.packed.changed(slots),
            cells=cells,
            lock=threading.Lock(),
        )

    def start(self, values: Sequence[Any], stream: int) -> bool:
        """Launch with the free numbers of `values`; False, and no launch, if one of them needs a careful look."""
        with self.lock:
            for number, cell in zip(self.free, self.cells, strict=True):
                if not number.write(cell, values[number.position]):
                    return False
            self._launch(stream)
            return True

    def launch(self, stream: int) -> None:
        """Launch with the numbers that are packed. Errors: DriverFailed."""
        with self.lock:
            self._launch(stream)

    def _launch(self, stream: int) -> None:
        """The same for one who has the lock: another thread would put its stream and its zeros in between."""
        if 0 in self.shape.grid:
            return
        if stream != self.stream:
            self.config.hStream = stream
            self.stream = stream
        if self.workspaces is not None:
            self.packed.storage[self.workspace].value = self.workspaces.of(self.device, stream, self.room)
        driver = bindings()
        code, current = driver.cuCtxGetDevice()
        if code or int(current) != self.device:
            with on_device(self.device):
                call("cuLaunchKernelEx", self.config, self.handle, self.packed.address, 0)
            return
        (code,) = driver.cuLaunchKernelEx(self.config, self.handle, self.packed.address, 0)
        if code:
            raise exc.DriverFailed("cuLaunchKernelEx", code.name)


def kernel_parameters(manifest: Manifest) -> tuple[LaunchParameter, ...]:
    """The compiled kernel's parameters, as a module declares them."""
    found = []
    for parameter in manifest.parameters:
        kind: ParameterKind
        if parameter.kind == "map":
            kind = "tensor_map"
        elif parameter.kind == "pointer":
            kind = "pointer"
        elif parameter.kind == "workspace":
            kind = "u64"
        else:
            kind = "u32" if parameter.kind == "grid" else _SCALARS[parameter.element]
        found.append(LaunchParameter(parameter.name, kind))
    return tuple(found)


def make_plan(
    manifest: Manifest,
    arguments: Sequence[CallArgument],
    values: Sequence[Any],
    grid: Grid,
    stream: int,
    load: Callable[[int], Kernel],
    in_maps: frozenset[str] | None = None,
    workspaces: Workspaces | None = None,
) -> LaunchPlan:
    """Everything that can be checked is checked, then the parameters are packed.

    arguments: those that are no constants; values: theirs. load: the kernel for a device, loaded. in_maps: what
    `needed_by_maps` says, where it is known already. workspaces: the kernel's.
    Errors: WrongArgument, BrokenPromise, OverlappingTensors, MisalignedTensor, BadBox, WrongArchitecture,
    LaunchTooLarge, DriverMissing, DriverFailed.
    """
    bindings()  # without a driver there is nothing to look at
    bound = read_arguments(arguments, values, stream)
    check_promises(manifest.promises, bound)
    check_apart(manifest.apart, bound.tensors)
    device = _device(bound)
    kernel = load(device)
    gpu = prepare(kernel, device, manifest.shared, manifest.cluster)
    grid = grid_of_instances(manifest, grid, bound)
    shape = launch_shape(manifest, grid, gpu)
    check_shape(manifest.kernel, shape, gpu, kernel.max_threads(device))
    maps = tuple(make_map(entry, bound) for entry in manifest.maps)
    packed = pack(kernel.parameters, [_value(p.kind, p.name, p.index, bound, maps, grid) for p in manifest.parameters])
    argument_names = [argument.name for argument in arguments]
    free = _free_numbers(manifest, arguments, needed_by_maps(manifest) if in_maps is None else in_maps)
    return LaunchPlan(
        device=device,
        handle=int(kernel.handle),
        shape=shape,
        config=launch_config(shape, stream),
        stream=stream,
        packed=packed,
        free=free,
        cells=tuple(_Nowhere() if number.slot is None else packed.storage[number.slot] for number in free),
        addresses=addresses(manifest, argument_names, bound.tensors, maps),
        pairs=pairs_of(manifest.apart, argument_names, bound.tensors),
        workspaces=workspaces,
        workspace=next((slot for slot, p in enumerate(manifest.parameters) if p.kind == "workspace"), -1),
        room=workspace_room(manifest, grid),
    )


def grid_of_instances(manifest: Manifest, grid: Grid, bound: BoundArguments) -> Grid:
    """The grid of program instances, which are the tiles of a kernel that strides over them. Errors: WrongArgument."""
    try:
        x, y, z = instance_grid(manifest.tiles, grid, bound.scalars)
    except (ValueError, ArithmeticError) as error:
        raise exc.WrongArgument("grid", str(error), "programs that reach every tile once") from None
    return (x, y, z) if manifest.split is None else manifest.split.instances((x, y, z), manifest.workspace)


def workspace_room(manifest: Manifest, grid: Grid) -> int:
    """Bytes behind the zeros of the workspace that a launch needs, whose grid has the parts of a split."""
    split = manifest.split
    return 0 if split is None or grid[split.axis] == 1 else math.prod(grid) * split.bytes


def launch_shape(manifest: Manifest, grid: Grid, gpu: Device) -> LaunchShape:
    """Persistent CTAs: as many as the SMs hold in whole clusters, or fewer if there are fewer instances; others: as
    many as there are instances. Errors: LaunchTooLarge."""
    programs = math.prod(grid)
    if programs > MAX_PROGRAMS:
        raise exc.LaunchTooLarge(manifest.kernel, "program instances", programs, MAX_PROGRAMS)
    size, axis = manifest.cluster, manifest.cluster_axis
    together = math.prod(-(-extent // size) if a == axis else extent for a, extent in enumerate(grid))
    each = not manifest.persistent and programs <= MAX_PROGRAMS // 2  # a CTA looks as far as all of them beyond its own
    ctas = together * size if each else min(gpu.sms * manifest.ctas // size, together) * size
    return LaunchShape((ctas, 1, 1), (manifest.threads, 1, 1), manifest.shared, (size, 1, 1))


def make_map(entry: MapEntry, bound: BoundArguments) -> TensorMap:
    """The tensor map for these arguments. Errors: WrongArgument, MisalignedTensor, BadBox, DriverFailed."""
    return encode(map_parameters(entry, bound), bound.tensors[entry.argument].device)


def map_parameters(entry: MapEntry, bound: BoundArguments) -> TensorMapParameters:
    """What it is encoded from. Errors: WrongArgument, MisalignedTensor, BadBox."""
    name, tensor = entry.argument, bound.tensors[entry.argument]

    def value(scalar: Scalar) -> int:
        try:
            return int(evaluate(scalar, bound.scalars))
        except (OverflowError, ZeroDivisionError) as error:
            raise exc.WrongArgument(
                name, f"of a size or stride that cannot be computed ({error})", "smaller ones"
            ) from None

    strides = tuple(value(stride) for stride in entry.strides)
    offset = value(entry.offset)
    left = reach(tensor) - offset
    sizes = tuple(
        within(left, stride) if size is None else value(size) for size, stride in zip(entry.sizes, strides, strict=True)
    )
    start = tensor.pointer + offset * ELEMENT_BYTES[tensor.dtype]
    seen = joined(TensorView(start, entry.element, sizes, strides, tensor.device), entry.together, name)
    box = (*entry.box[:-1], entry.box[-1] // entry.together)
    return parameters(seen, TileBox(box, entry.swizzle), name)


def within(left: int, stride: int) -> int:
    """Steps of `stride` elements that stay inside `left` elements, for an axis that the kernel does not bound."""
    return max(1, min(MAX_SIZE, -(-left // stride) if stride > 0 else 1))


def open_ended(manifest: Manifest) -> frozenset[str]:
    """Tensors with an axis that the kernel does not bound: their maps end where their memory does."""
    return frozenset(entry.argument for entry in manifest.maps if None in entry.sizes)


def needed_by_maps(manifest: Manifest) -> frozenset[str]:
    """Scalars that some tensor map is made from, or the grid of instances."""
    tiles = manifest.tiles
    scalars = [s for m in manifest.maps for s in (*m.sizes, *m.strides, m.offset) if s is not None]
    scalars += [] if tiles is None else [tiles.count] if tiles.stride is None else [tiles.count, tiles.stride]
    return frozenset(name for scalar in scalars for name in names(scalar))


def _value(kind: str, name: str, index: int, bound: BoundArguments, maps: Sequence[TensorMap], grid: Grid) -> Value:
    if kind == "map":
        return maps[index]
    if kind == "grid":
        return grid[index]
    if kind == "workspace":
        return 0  # every launch writes its own
    return bound.tensors[name] if kind == "pointer" else bound.scalars[name]


def _device(bound: BoundArguments) -> int:
    """The GPU of the tensors, or the current one."""
    index = bound.device
    if index is not None:
        return index
    code, current = bindings().cuCtxGetDevice()
    return 0 if int(code) else int(current)


def _free_numbers(
    manifest: Manifest, arguments: Sequence[CallArgument], fixed: frozenset[str]
) -> tuple[FreeNumber, ...]:
    """Numbers without a part in a map."""
    slots = {p.name: slot for slot, p in enumerate(manifest.parameters) if p.kind == "scalar"}
    promises = {p.name: p for p in manifest.promises}
    found = []
    for position, argument in enumerate(arguments):
        if argument.kind != "number" or argument.name in fixed:
            continue
        slot = slots.get(argument.name)
        promise = promises.get(argument.name, Promise(argument.name, 1))
        if is_float(argument):
            found.append(FreeNumber(position, slot, is_float=True, positive=promise.positive))
            continue
        low, high = limits(argument)
        found.append(FreeNumber(position, slot, False, low, high, promise.multiple))
    return tuple(found)


@dataclass
class _Nowhere:
    """The cell of a number that the code does not take."""

    value: int | float = 0
