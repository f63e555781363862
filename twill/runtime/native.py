"""A launch as the driver's own structure, and the call that makes it, put together once.

`cuda.bindings` makes objects of handles and copies the structure at every call, which takes longer than the driver
does. What is here calls the same two functions of the library that `cuda.bindings` has loaded, with arguments that are
C values already.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

from twill import exc
from twill.runtime.driver import bindings
from twill.runtime.launch import LaunchShape

LIBRARY = "libcuda.so.1"
CLUSTER_DIMENSION = 4  # CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
PROGRAMMATIC_SERIALIZATION = 6  # CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: a number, and 64 bytes: three words of a cluster, or a truth value."""

    _fields_ = (("id", ctypes.c_int), ("pad", ctypes.c_char * 4), ("value", ctypes.c_uint32 * 16))


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        *((name, ctypes.c_uint) for name in ("gridDimX", "gridDimY", "gridDimZ")),
        *((name, ctypes.c_uint) for name in ("blockDimX", "blockDimY", "blockDimZ", "sharedMemBytes")),
        ("hStream", ctypes.c_void_p),
        ("attrs", ctypes.POINTER(LaunchAttribute)),
        ("numAttrs", ctypes.c_uint),
    )


@dataclass(frozen=True)
class EntryPoints:
    """cuLaunchKernelEx and cuCtxGetDevice; each gives back the driver's code."""

    launch: Callable[..., int]
    device: Callable[..., int]


@cache
def entry_points() -> EntryPoints:
    """Those of the driver's library. Errors: DriverMissing."""
    bindings()
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError as error:
        raise exc.DriverMissing(str(error)) from error
    return EntryPoints(library.cuLaunchKernelEx, library.cuCtxGetDevice)


def native_config(shape: LaunchShape, stream: int) -> LaunchConfig:
    """The driver's form of a launch's shape and stream."""
    config = LaunchConfig(*shape.grid, *shape.block, shape.shared_bytes, stream)
    attributes: list[tuple[int, tuple[int, ...]]] = []
    if shape.cluster_size > 1:
        attributes.append((CLUSTER_DIMENSION, shape.cluster))
    if shape.early:
        attributes.append((PROGRAMMATIC_SERIALIZATION, (1,)))
    if attributes:
        block = (LaunchAttribute * len(attributes))()
        for entry, (kind, words) in zip(block, attributes, strict=True):
            entry.id = kind
            entry.value[: len(words)] = words
        config.attrs = ctypes.cast(block, ctypes.POINTER(LaunchAttribute))
        config.numAttrs = len(attributes)
    return config


class NativeLaunch:
    """The launch of one kernel with one set of parameters. launch: makes it; gives back the driver's code. device: asks
    which GPU is current in this thread; gives back the driver's code, `current` has the answer then."""

    def __init__(self, config: LaunchConfig, handle: int, parameters: int) -> None:
        points = entry_points()
        self.current = ctypes.c_int(-1)
        nothing = ctypes.c_void_p(None)
        arguments: tuple[Any, ...] = (ctypes.byref(config), ctypes.c_void_p(handle), ctypes.c_void_p(parameters))
        self.launch: Callable[[], int] = partial(points.launch, *arguments, nothing)
        self.device: Callable[[], int] = partial(points.device, ctypes.byref(self.current))


def error_name(code: int) -> str:
    """What the driver calls a code."""
    try:
        return str(bindings().CUresult(code).name)
    except ValueError:
        return f"error {code}"
