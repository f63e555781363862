"""What a launch needs to know of a device, read from the driver once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from twill.runtime.driver import bindings, call, on_device


@dataclass(frozen=True)
class Device:
    """One GPU. capability: (major, minor). shared_bytes: the most that one CTA may ask for, static included.
    l2: bytes of the cache that all SMs share. sm_shared: shared memory of an SM, of which `cta_reserved` bytes a CTA
    are the system's."""

    index: int
    name: str
    capability: tuple[int, int]
    sms: int
    shared_bytes: int
    threads: int
    grid: tuple[int, int, int]
    l2: int = 0
    sm_shared: int = 0
    cta_reserved: int = 0


@cache
def device(index: int) -> Device:
    """The device `index`. Errors: DriverMissing, DriverFailed."""
    kinds = bindings().CUdevice_attribute
    handle = call("cuDeviceGet", index)

    def read(name: str) -> int:
        return int(call("cuDeviceGetAttribute", getattr(kinds, f"CU_DEVICE_ATTRIBUTE_{name}"), handle))

    return Device(
        index=index,
        name=call("cuDeviceGetName", 256, handle).split(b"\0")[0].decode(),
        capability=(read("COMPUTE_CAPABILITY_MAJOR"), read("COMPUTE_CAPABILITY_MINOR")),
        sms=read("MULTIPROCESSOR_COUNT"),
        shared_bytes=read("MAX_SHARED_MEMORY_PER_BLOCK_OPTIN"),
        threads=read("MAX_THREADS_PER_BLOCK"),
        grid=(read("MAX_GRID_DIM_X"), read("MAX_GRID_DIM_Y"), read("MAX_GRID_DIM_Z")),
        l2=read("L2_CACHE_SIZE"),
        sm_shared=read("MAX_SHARED_MEMORY_PER_MULTIPROCESSOR"),
        cta_reserved=read("RESERVED_SHARED_MEMORY_PER_BLOCK"),
    )


def resident(function: int, threads: int, shared: int, device: int) -> int:
    """CTAs of a loaded kernel that an SM of the GPU holds at once. shared: dynamic shared memory in bytes. Errors:
    DriverMissing, DriverFailed."""
    with on_device(device):
        handle = bindings().CUfunction(function)
        return int(call("cuOccupancyMaxActiveBlocksPerMultiprocessor", handle, threads, shared))


@cache
def driver_version() -> str:
    """As the kernel module says ("580.95.05"), else the CUDA version that the driver speaks."""
    try:
        words = Path("/proc/driver/nvidia/version").read_text(encoding="utf-8").split()
        return next(word for word in words if word.count(".") >= 1 and word.replace(".", "").isdigit())
    except (OSError, StopIteration):
        version = int(call("cuDriverGetVersion"))
        return f"for CUDA {version // 1000}.{version % 1000 // 10}"


@cache
def runs_on(arch: str, capability: tuple[int, int]) -> bool:
    """Whether a cubin for `arch` runs on a device: sm_100a on 10.0 alone, sm_100 on later 10.x, too.

    (CUDA C++ Programming Guide, "Compute Capabilities": binary compatibility.)
    """
    found = re.fullmatch(r"sm_(\d+)(\d)([af]?)", arch)
    if not found:
        return False
    major, minor, suffix = int(found[1]), int(found[2]), found[3]
    if suffix == "a":
        return capability == (major, minor)
    return capability[0] == major and capability[1] >= minor
