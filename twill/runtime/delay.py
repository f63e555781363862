"""A kernel that only lets time pass, in front of one that is timed: the host puts that one and the events around it
behind it, so that the GPU goes from one to the next without waiting for the host."""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from twill.runtime.driver import call

NANOSECONDS = 150_000  # what Triton takes at most for a launch and two events, from caches that are cold, and half more

PTX = b"""
.version 6.3
.target sm_70
.address_size 64
.visible .entry twill_delay(.param .u32 nanoseconds)
{
    .reg .u32 %count;
    .reg .u64 %begin, %now, %whole;
    .reg .pred %before;
    ld.param.u32 %count, [nanoseconds];
    cvt.u64.u32 %whole, %count;
    mov.u64 %begin, %globaltimer;
AGAIN:
    mov.u64 %now, %globaltimer;
    sub.u64 %now, %now, %begin;
    setp.lt.u64 %before, %now, %whole;
    @%before bra AGAIN;
    ret;
}
"""


@cache
def _kernel() -> int:
    """Its handle, for every GPU. Errors: DriverFailed."""
    library = call("cuLibraryLoadData", PTX + b"\0", [], [], 0, [], [], 0)
    return int(call("cuLibraryGetKernel", library, b"twill_delay"))


@cache
def _parameters() -> Any:
    """As the driver reads them, and what they point to."""
    count = ctypes.c_uint32(NANOSECONDS)
    return (ctypes.c_void_p * 1)(ctypes.addressof(count)), count


def delay(stream: int) -> None:
    """Keep a stream of the current GPU busy for a while. Errors: DriverFailed."""
    pointers, _ = _parameters()
    call("cuLaunchKernel", _kernel(), 1, 1, 1, 1, 1, 1, 0, stream, ctypes.addressof(pointers), 0)
