"""A launch, checked and packed once: one of its kind writes free numbers and addresses and calls the driver, no more.

A number is free if no tensor map needs it: it changes from launch to launch without another plan, as does where
PyTorch's tensors are.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from twill import exc
from twill.manifest.document import MAP_BYTES, PLACES, CallArgument, KernelParameter, Manifest, MapEntry, Promise
from twill.manifest.evaluate import Scalar, evaluate, names
from twill.manifest.tile_loop import instance_grid
from twill.runtime.address import MovingMaps, free_addresses
from twill.runtime.arguments import BoundArguments, check_promises, is_float, limits, read_arguments
from twill.runtime.device import Device
from twill.runtime.driver import bindings, on_device
from twill.runtime.launch import LaunchShape, Packed, Value, check_shape, pack
from twill.runtime.module import Kernel, LaunchParameter, ParameterKind, prepare
from twill.runtime.native import NativeLaunch, error_name, native_config
from twill.runtime.overlap import OverlapPair, PairsOfLaunch, overlapping, pairs_of
from twill.runtime.plans import RefusedLaunch
from twill.runtime.sharing import with_fewer_ctas
from twill.runtime.tensor import ELEMENT_BYTES, TensorView, reach
from twill.runtime.tensor_map import (
    ALIGNMENT,
    MAX_SIZE,
    NARROW,
    TensorMap,
    TensorMapParameters,
    TileBox,
    encode,
    joined,
    parameters,
)
from twill.runtime.workspace import Workspaces, somewhere
from twill.runtime.writer import Free, FreeCells, FreeMap, FreeNumber

MOST_EARLY = 8  # program instances of a persistent CTA in a launch that begins early (docs/emitted-kernels.md)
MAX_PROGRAMS = (1 << 31) - 1  # the kernel counts program instances in 32 bits

_SCALARS: dict[str, ParameterKind] = {
    **dict.fromkeys(("i1", "i8", "i16"), "i32"),
    "i32": "i32",
    "i64": "i64",
    "f32": "f32",
    "f64": "f64",
    "u32": "u32",
    "u64": "u64",
}

Grid = tuple[int, int, int]


@dataclass
class LaunchPlan:
    """One checked launch; `start` repeats it. The packed parameters keep the tensor maps alive, not the tensors.

    free: what every launch writes anew; cells: what each of it is at first; matched: whether values come with their
    kind (`twill.runtime.writer`). maps: that begin where tensors are. pairs: tensors
    that the kernel must find apart; overlapping: what is wrong with those it was made for, which must not be launched
    then. workspaces: zeros, if the kernel asks for some, and `room` bytes behind them; their address is written to the
    parameter of number `workspace`.
    """

    device: int
    handle: int
    shape: LaunchShape
    stream: int
    packed: Packed
    free: tuple[Free, ...]
    cells: tuple[Any, ...]
    maps: tuple[FreeMap, ...] = ()
    pairs: tuple[OverlapPair, ...] = ()
    workspaces: Workspaces | None = None
    workspace: int = -1
    room: int = 0
    overlapping: exc.OverlappingTensors | None = None
    matched: bool = False
    reaches: Mapping[int, int] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        free = FreeCells(self.free, self.cells, self.matched)
        self.packed = self.packed.changed(free.slots)
        self.write = free.writer(self.maps, MovingMaps(self.maps, self.packed))
        self.config = native_config(self.shape, self.stream)
        self.native = NativeLaunch(self.config, self.handle, self.packed.address)
        self.empty = 0 in self.shape.grid
        self.apart = PairsOfLaunch(self.pairs, self.reaches)
        self.refused = RefusedLaunch()

    def positioned(self, positions: Sequence[int], reaches: Mapping[int, int] | None = None) -> LaunchPlan:
        """The same for values of a matched call, of which the first is at `positions[0]`, and so on. reaches: as of
        `PairsOfLaunch`."""
        free = tuple(replace(one, position=positions[one.position]) for one in self.free)
        maps = tuple(replace(one, position=positions[one.position]) for one in self.maps)
        pairs = tuple(pair.positioned(positions) for pair in self.pairs)
        return replace(self, free=free, maps=maps, pairs=pairs, matched=True, reaches=reaches or {})

    def start(self, values: Sequence[Any], stream: int) -> Any:
        """Launch with what is free in `values`: True. Nothing is launched if something takes a careful look: False; if
        tensors overlap, it is Triton's launch, as of `RefusedLaunch`."""
        if self.pairs:
            right = self.apart.right(values)
            if not right:
                return False if right is None else self.refused.start(values, stream)
        with self.lock:
            if not self.write(values):
                return False
            self._launch(stream)
        return True

    def launch(self, stream: int) -> bool:
        """Launch with what is packed: True. Errors: DriverFailed."""
        with self.lock:
            self._launch(stream)
        return True

    def _launch(self, stream: int) -> None:
        """The same for one who has the lock: another thread would put its stream and its zeros in between."""
        if self.empty:
            return
        if stream != self.stream:
            self.config.hStream = stream
            self.stream = stream
        if self.workspaces is not None:
            self.packed.storage[self.workspace].value = self.workspaces.of(self.device, stream, self.room)
        native = self.native
        if native.device() or native.current.value != self.device:
            with on_device(self.device):
                code = native.launch()
        else:
            code = native.launch()
        if code:
            raise exc.DriverFailed("cuLaunchKernelEx", error_name(code))


def kernel_parameters(manifest: Manifest) -> tuple[LaunchParameter, ...]:
    """The compiled kernel's parameters, as a module declares them."""
    found = []
    for parameter in manifest.parameters:
        kind: ParameterKind
        if parameter.kind == "map":
            kind = "tensor_map"
        elif parameter.kind == "pointer":
            kind = "pointer"
        elif parameter.kind in ("workspace", "origin"):
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
    fixed: frozenset[str] | None = None,
    workspaces: Workspaces | None = None,
) -> LaunchPlan:
    """Everything that can be checked is checked, then the parameters are packed.

    arguments: those that are no constants; values: theirs. load: the kernel for a device, loaded. fixed: what
    `needed_by_maps` says, where it is known already. workspaces: the kernel's.
    Errors: WrongArgument, BrokenPromise, MisalignedTensor, BadBox, WrongArchitecture, LaunchTooLarge, DriverMissing,
    DriverFailed. Tensors that overlap are no error here: `LaunchPlan.overlapping`.
    """
    bindings()  # without a driver there is nothing to look at
    bound = read_arguments(arguments, values, stream)
    check_promises(manifest.promises, bound)
    device = _device(bound)
    kernel = load(device)
    gpu = prepare(kernel, device, manifest.shared, manifest.cluster)
    grid = grid_of_instances(manifest, grid, bound)
    shape = with_fewer_ctas(manifest, launch_shape(manifest, grid, gpu), bound.scalars, kernel, gpu)
    check_shape(manifest.kernel, shape, gpu, kernel.max_threads(device))
    maps = tuple(
        make_template(entry, device) if index in manifest.made else make_map(entry, bound)
        for index, entry in enumerate(manifest.maps)
    )
    packed = pack(kernel.parameters, [_value(manifest, p, bound, maps, grid) for p in manifest.parameters])
    argument_names = [argument.name for argument in arguments]
    pointers, moving = free_addresses(manifest, argument_names, values, bound.tensors, maps)
    free: tuple[Free, ...] = (
        *_free_numbers(manifest, arguments, needed_by_maps(manifest) if fixed is None else fixed),
        *pointers,
    )
    return LaunchPlan(
        device=device,
        handle=int(kernel.handle),
        shape=shape,
        stream=stream,
        packed=packed,
        free=free,
        cells=tuple(_Nowhere() if one.slot is None else packed.storage[one.slot] for one in free),
        maps=moving,
        pairs=pairs_of(manifest.apart, argument_names),
        workspaces=workspaces,
        workspace=next((slot for slot, p in enumerate(manifest.parameters) if p.kind == "workspace"), -1),
        room=workspace_room(manifest, grid, shape.grid[0]),
        overlapping=overlapping(manifest.apart, bound.tensors, bound.scalars),
    )


def grid_of_instances(manifest: Manifest, grid: Grid, bound: BoundArguments) -> Grid:
    """The grid of program instances, which are the tiles of a kernel that strides over them. Errors: WrongArgument."""
    try:
        x, y, z = instance_grid(manifest.tiles, grid, bound.scalars)
    except (ValueError, ArithmeticError) as error:
        raise exc.WrongArgument("grid", str(error), "programs that reach every tile once") from None
    return (x, y, z) if manifest.split is None else manifest.split.instances((x, y, z), manifest.workspace)


def workspace_room(manifest: Manifest, grid: Grid, ctas: int) -> int:
    """Bytes behind the zeros of the workspace that a launch needs: for the parts of a split, which its grid has, or the
    tensor maps that its CTAs make."""
    split = manifest.split
    if manifest.own_maps:
        return ctas * manifest.own_maps * PLACES * MAP_BYTES + MAP_BYTES  # and where stores to nowhere go
    return 0 if split is None or grid[split.axis] == 1 else math.prod(grid) * split.bytes


def launch_shape(manifest: Manifest, grid: Grid, gpu: Device) -> LaunchShape:
    """Persistent CTAs: as many as the SMs hold in whole clusters, or fewer if there are fewer instances; others: as
    many as there are instances. Long launches begin when others have ended (`MOST_EARLY`). Errors: LaunchTooLarge."""
    programs = math.prod(grid)
    if programs > MAX_PROGRAMS:
        raise exc.LaunchTooLarge(manifest.kernel, "program instances", programs, MAX_PROGRAMS)
    size, axis = manifest.cluster, manifest.cluster_axis
    together = math.prod(-(-extent // size) if a == axis else extent for a, extent in enumerate(grid))
    # a CTA that is not persistent looks as far as all of them beyond its own
    each = manifest.cancels or (not manifest.persistent and programs <= MAX_PROGRAMS // 2)
    ctas = together * size if each else min(gpu.sms * manifest.ctas // size, together) * size
    early = manifest.early and (each or together * size <= MOST_EARLY * ctas)
    return LaunchShape((ctas, 1, 1), (manifest.threads, 1, 1), manifest.shared, (size, 1, 1), early)


def make_map(entry: MapEntry, bound: BoundArguments) -> TensorMap:
    """The tensor map for these arguments. Errors: WrongArgument, MisalignedTensor, BadBox, DriverFailed."""
    return encode(map_parameters(entry, bound), bound.tensors[entry.argument].device)


def make_template(entry: MapEntry, device: int) -> TensorMap:
    """The tensor map of which CTAs make their own. Errors: BadBox, DriverFailed."""
    return encode(template_parameters(entry, somewhere(device)), device)


def template_parameters(entry: MapEntry, pointer: int) -> TensorMapParameters:
    """What it is encoded from: a tensor of one box, at an address of the GPU. Errors: BadBox."""
    size = ELEMENT_BYTES[entry.element]
    strides = tuple(math.prod(entry.box[axis + 1 :]) * ALIGNMENT // size for axis in range(len(entry.box) - 1))
    seen = joined(TensorView(pointer, entry.element, entry.box, (*strides, 1), 0), entry.together, entry.argument)
    return parameters(seen, TileBox((*entry.box[:-1], entry.box[-1] // entry.together), entry.swizzle), entry.argument)


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
    if any(size is None and stride == 0 for size, stride in zip(entry.sizes, strides, strict=True)):
        raise exc.MisalignedTensor(name, "is repeated along an axis (a stride of 0)", "a tensor of its own there")
    offset = value(entry.offset)
    if offset < 0:  # memory need not be there, and the hardware looks
        raise exc.WrongArgument(
            name, f"seen from {-offset} elements in front of it on", "sizes at which that is not so"
        )
    each = 2 if entry.element == NARROW else 1  # elements of the map in one of the tensor
    left = reach(tensor) * each - offset
    sizes = tuple(
        within(left, stride) if size is None else value(size) for size, stride in zip(entry.sizes, strides, strict=True)
    )
    start = tensor.pointer + offset * ELEMENT_BYTES[tensor.dtype] // each
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
    """Scalars that some tensor map or computed parameter is made from, the grid of instances, or how many CTAs share an
    SM."""
    tiles = manifest.tiles
    scalars = [s for m in manifest.maps for s in (*m.sizes, *m.strides, m.offset) if s is not None]
    scalars += [*manifest.numbers, *([] if manifest.rereads is None else [manifest.rereads.size])]
    scalars += [] if tiles is None else [tiles.count] if tiles.stride is None else [tiles.count, tiles.stride]
    return frozenset(name for scalar in scalars for name in names(scalar))


def _value(
    manifest: Manifest, parameter: KernelParameter, bound: BoundArguments, maps: Sequence[TensorMap], grid: Grid
) -> Value:
    """What is passed for a parameter. Errors: WrongArgument."""
    match parameter.kind:
        case "map":
            return maps[parameter.index]
        case "grid":
            return grid[parameter.index]
        case "workspace":
            return 0  # every launch writes its own
        case "origin":
            return 0
        case "computed":
            try:
                return manifest.computed(parameter.index, bound.scalars, grid)
            except (OverflowError, ZeroDivisionError) as error:
                raise exc.WrongArgument(
                    parameter.name, f"a number that cannot be computed ({error})", "smaller sizes"
                ) from None
        case "pointer":
            return bound.tensors[parameter.name]
    return bound.scalars[parameter.name]


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
