"""Zeros in the memory of a GPU that an emitted kernel counts in, and that are zeros again when it is over.

Launches of a kernel in one stream run one after the other, so they can have the same zeros. Launches that may run at
the same time must not: in another stream, on another GPU, or from a CUDA graph, which is replayed in any stream beside
whatever is launched there. So there is one place for each kernel, GPU and stream, and one more for each launch that a
graph captures. (Two graphs that are instantiated from one capture have the same places, as they have the same
tensors: they must not run at the same time.)

Nothing is given back: a place is `STEP` bytes.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass, field
from functools import cache

from twill.runtime.driver import bindings, call, on_device

STEP = 128  # bytes from one place to the next: each has its own line of the L2 cache
CHUNK = 1 << 16  # bytes that are allocated at once
LEGACY = 1  # the handles up to this one mean the default stream of all threads (CU_STREAM_LEGACY)
NONE = (0, -1)  # no address, and less room than anybody asks for
PER_THREAD = 2  # the handle that means another stream in each thread (CU_STREAM_PER_THREAD)
_DEFAULT_PER_THREAD = os.environ.get("CUDA_PYTHON_CUDA_PER_THREAD_DEFAULT_STREAM", "0") not in ("", "0")


@dataclass
class Zeros:
    """Places on one GPU, all of them zeros. Thread-safe."""

    device: int
    next: int = 0
    end: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def take(self, size: int) -> int:
        """The address of `size` bytes that nobody else has. Errors: DriverFailed."""
        size = -(-size // STEP) * STEP
        with self.lock:
            if self.next + size > self.end:
                chunk = max(size, CHUNK)
                self.next = allocated(self.device, chunk)
                self.end = self.next + chunk
            address = self.next
            self.next += size
            return address


@cache
def zeros(device: int) -> Zeros:
    """Those of a GPU, of the whole process."""
    return Zeros(device)


@cache
def somewhere(device: int) -> int:
    """An address of a GPU, of zeros that nobody reads."""
    return zeros(device).take(STEP)


def allocated(device: int, size: int) -> int:
    """The address of new zeros. Also while a stream captures: nothing of this is part of the graph."""
    driver = bindings()
    relaxed = driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED
    with on_device(device):
        mode = call("cuThreadExchangeStreamCaptureMode", relaxed)
        try:
            stream = call("cuStreamCreate", driver.CUstream_flags.CU_STREAM_NON_BLOCKING.value)
            address = int(call("cuMemAlloc", size))
            call("cuMemsetD8Async", address, 0, size, stream)
            call("cuStreamSynchronize", stream)
            call("cuStreamDestroy", stream)
        finally:
            call("cuThreadExchangeStreamCaptureMode", mode)
    return address


@dataclass
class Workspaces:
    """Of one kernel. size: bytes of zeros of each. Behind them there is room for what a launch asks for; who asks for
    more than those before gets another place. Thread-safe."""

    size: int
    known: dict[tuple[int, int, int], tuple[int, int]] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def of(self, device: int, stream: int, room: int = 0) -> int:
        """The address for a launch in a stream of a GPU, now. room: bytes behind the zeros. Errors: DriverFailed."""
        thread = 0
        if stream > LEGACY or _DEFAULT_PER_THREAD and not stream:  # the usual default stream captures nothing
            code, status = bindings().cuStreamIsCapturing(stream)
            if not code and int(status):  # without a current context it says nothing, and nothing is captured
                return zeros(device).take(self.size + room)
            thread = threading.get_ident() if stream in (0, PER_THREAD) else 0
        key = (device, stream, thread)
        address, size = self.known.get(key, NONE)
        if size < room:
            with self.lock:
                address, size = self.known.get(key, NONE)
                if size < room:
                    size = room if size < 0 else max(room, 2 * size)
                    address = zeros(device).take(self.size + size)
                    self.known[key] = address, size
        return address
