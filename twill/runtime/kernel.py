"""An emitted kernel: loaded from its directory, called as the Triton kernel it was made from.

    kernel = EmittedKernel.load("out/gemm")
    kernel[grid](a_desc, b_desc, c_desc, M, N, K)

The grid is the Triton kernel's: a tuple, or a function of the arguments. At most as many CTAs are launched as the GPU
has SMs; each works through program instances. Importing this needs nothing of the compiler or the solver.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

from twill import exc
from twill.manifest.document import AGAIN, CUBIN, MANIFEST, Manifest, read_manifest
from twill.manifest.family import MemberCost
from twill.manifest.prediction import Prediction
from twill.runtime.call import Calls
from twill.runtime.device import device, runs_on
from twill.runtime.launch import stream_handle
from twill.runtime.module import Kernel, load_module
from twill.runtime.plan import Grid, LaunchPlan, kernel_parameters, make_plan, needed_by_maps, open_ended
from twill.runtime.plans import Call, Plans
from twill.runtime.tensor import is_tensor, is_torch, storage_end, view
from twill.runtime.workspace import Workspaces

GridLike = Sequence[int] | Callable[[Mapping[str, Any]], Sequence[int]]


class EmittedKernel:
    """See the top of this file. Thread-safe. The cubin is loaded at the first launch. predicted: how fast it is; cost:
    of its program instances; both as far as that is known."""

    def __init__(
        self, manifest: Manifest, cubin: bytes, predicted: Prediction | None = None, cost: MemberCost | None = None
    ) -> None:
        self.manifest = manifest
        self.cubin = cubin
        self.predicted, self.cost = predicted, cost
        self._calls = Calls(manifest.kernel, manifest.arguments)
        fixed, open_axes = needed_by_maps(manifest), open_ended(manifest)
        arguments = tuple(enumerate(self._calls.runtime))
        self._tensors = tuple(
            (i, a.name, a.kind == "descriptor", a.name in open_axes) for i, a in arguments if a.kind != "number"
        )
        self._fixed = tuple(i for i, a in arguments if a.kind == "number" and a.name in fixed)
        self._takes_stream = all(a.name != "stream" for a in manifest.arguments)
        self._in_maps = fixed
        self._plans = Plans()
        self._workspaces = Workspaces(manifest.workspace) if manifest.workspace else None
        self._kernel: Kernel | None = None

    @classmethod
    def load(cls, directory: str | Path) -> EmittedKernel:
        """The kernel that `twill emit` wrote there. Errors: FileMissing, MalformedManifest."""
        folder = Path(directory)
        manifest = read_manifest(folder / MANIFEST)
        try:
            cubin = (folder / CUBIN).read_bytes()
        except OSError as error:
            why = error.strerror or str(error)
            raise exc.FileMissing(str(folder / CUBIN), why, "a directory that `twill emit` wrote") from None
        if not manifest.belongs_to(cubin):
            raise exc.MalformedManifest(f"is not that of {CUBIN} beside it", file=str(folder / MANIFEST), hint=AGAIN)
        return cls(manifest, cubin)

    def __getitem__(self, grid: GridLike) -> Callable[..., None]:
        """The launch on `grid`: call it with the kernel's arguments, and `stream=` for another than the current one."""
        if isinstance(grid, int):
            raise exc.WrongArgument("grid", repr(grid), "a tuple of one to three sizes")
        return partial(self._run, grid)

    def _run(self, grid: GridLike, /, *args: Any, **kwargs: Any) -> None:
        """Errors: those of `make_plan`, WrongConstant."""
        given = kwargs.pop("stream", None) if kwargs and self._takes_stream else None
        values = self._calls.bind(args, kwargs)
        sizes = _grid(tuple(grid(self._calls.named(values)) if callable(grid) else grid))
        if 0 in sizes:
            return
        stream = self._current_stream(values) if given is None else stream_handle(given)
        key = self._key(sizes, values, stream)
        plan = self._plans.by_key.get(key)
        if plan is None or plan.start(values, stream) is not True:
            plan = self._prepared(values, sizes, stream)
            if plan.overlapping is not None:
                raise plan.overlapping
            plan.launch(stream)
            self._plans.add(Call(key), plan)

    def plan(self, arguments: Mapping[str, Any], grid: Sequence[int], stream: int) -> LaunchPlan:
        """A launch prepared for these arguments, by name, and not started; it must not be if they overlap. Errors:
        those of `make_plan`."""
        values = [arguments[argument.name] for argument in self._calls.runtime]
        return self._prepared(values, _grid(tuple(grid)), stream)

    def _prepared(self, values: Sequence[Any], grid: Grid, stream: int) -> LaunchPlan:
        runtime, fixed, zeros = self._calls.runtime, self._in_maps, self._workspaces
        return make_plan(self.manifest, runtime, values, grid, stream, self._loaded, fixed, zeros)

    def place(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> tuple[int, int]:
        """The GPU and the stream of a call. Errors: WrongArgument, WrongConstant."""
        named = dict(kwargs)
        given = named.pop("stream", None) if self._takes_stream else None
        values = self._calls.bind(args, named)
        stream = self._current_stream(values) if given is None else stream_handle(given)
        bases = (getattr(values[i], "base", values[i]) for i, *_ in self._tensors)
        return next((int(base.get_device()) for base in bases if is_torch(base)), 0), stream

    def constants(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """What a grid that is a function gets: the constants beside these values."""
        return {**values, **{a.name: a.value for a in self.manifest.arguments if a.kind == "constant"}}

    @property
    def runtime_names(self) -> tuple[str, ...]:
        """Names of the arguments that are no constants, in order."""
        return tuple(argument.name for argument in self._calls.runtime)

    @property
    def loaded(self) -> bool:
        """Whether its code is with the driver already."""
        return self._kernel is not None

    def _key(self, grid: Grid, values: Sequence[Any], stream: int) -> tuple[Any, ...]:
        """Equal for launches that differ in free numbers only, and in where PyTorch's tensors are. What is no tensor is
        left to the careful path.

        Runs at every launch, so it looks at nothing twice.
        """
        key: list[Any] = [*grid]
        for i, name, is_descriptor, open_axis in self._tensors:
            tensor = values[i]
            if is_descriptor:
                try:
                    key += (*tensor.shape, *tensor.strides, *tensor.block_shape, getattr(tensor, "padding", None))
                    tensor = tensor.base
                except AttributeError:
                    continue
            if not is_torch(tensor):
                key += _seen(tensor, name, stream)
                continue
            pointer = tensor.data_ptr()
            key += (pointer & 15, tensor.dtype, tensor.get_device())
            if open_axis:
                key.append(storage_end(tensor) - pointer)
        for i in self._fixed:
            key.append(values[i])
        return tuple(key)

    def _current_stream(self, values: Sequence[Any]) -> int:
        """PyTorch's on the device of the first tensor of PyTorch; the default one if there is none."""
        for i, _, is_descriptor, *_ in self._tensors:
            tensor: Any = getattr(values[i], "base", None) if is_descriptor else values[i]
            if is_torch(tensor):
                index = tensor.get_device()
                return int(sys.modules["torch"]._C._cuda_getCurrentRawStream(index)) if index >= 0 else 0
        return 0

    def _loaded(self, index: int) -> Kernel:
        """The kernel; its module is good on every device of its architecture."""
        gpu = device(index)
        if not runs_on(self.manifest.architecture, gpu.capability):
            capability = "{}.{}".format(*gpu.capability)
            raise exc.WrongArchitecture(self.manifest.kernel, self.manifest.architecture, gpu.name, capability)
        if self._kernel is None:
            module = load_module(self.cubin, self.manifest.architecture)
            self._kernel = module.kernel(self.manifest.function, kernel_parameters(self.manifest))
        return self._kernel


@lru_cache(maxsize=4096)
def _grid(given: tuple[int, ...]) -> Grid:
    """Three sizes. Errors: WrongArgument."""
    if not 1 <= len(given) <= 3:
        raise exc.WrongArgument("grid", repr(given), "a tuple of one to three sizes")
    for size in given:
        if isinstance(size, bool) or not isinstance(size, int) or size < 0:
            raise exc.WrongArgument("grid", repr(given), "sizes that are integers from 0")
    first, second, third = (*given, 1, 1)[:3]
    return first, second, third


def _seen(tensor: Any, name: str, stream: int) -> tuple[Any, ...]:
    """What a tensor of another framework than PyTorch is, if it is one."""
    if not is_tensor(tensor):
        return (None,)
    seen = view(tensor, name, stream)
    return seen.pointer, seen.dtype, seen.device, seen.shape, seen.strides
