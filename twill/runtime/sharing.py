"""How many CTAs share an SM where what they read should stay in the L2 cache until they read it again.

The driver puts as many CTAs on an SM as registers and shared memory allow. A launch that asks for more shared memory
than its code uses has fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twill.manifest.document import Manifest
from twill.manifest.evaluate import evaluate
from twill.runtime.device import Device, resident
from twill.runtime.launch import LaunchShape
from twill.runtime.module import Kernel, prepare

STEP = 1024  # bytes, in which shared memory is asked for
WAVES = 4  # of CTAs at least: fewer would have a last one that is hardly full


def with_fewer_ctas(
    manifest: Manifest, shape: LaunchShape, scalars: Mapping[str, int | float], kernel: Kernel, gpu: Device
) -> LaunchShape:
    """The shape with the shared memory that leaves no more CTAs on an SM than may be there (`Rereads`); as it is where
    there are no more anyway. Errors: DriverMissing, DriverFailed."""
    if manifest.rereads is None or not gpu.sm_shared:
        return shape
    try:
        most = manifest.rereads.ctas(int(evaluate(manifest.rereads.size, scalars)))
    except (KeyError, OverflowError, ZeroDivisionError):
        return shape
    if not most or shape.grid[0] < WAVES * most * gpu.sms:
        return shape
    static = kernel.static_shared(gpu.index)
    if resident(int(kernel.handle), shape.threads, shape.shared_bytes, gpu.index) <= most:
        return shape
    largest = gpu.shared_bytes - static
    wanted = gpu.sm_shared // most - gpu.cta_reserved - static
    shared = max(shape.shared_bytes, min(wanted // STEP * STEP, largest))
    prepare(kernel, gpu.index, largest, manifest.cluster)  # what one launch may ask for, others must not take back
    return replace(shape, shared_bytes=shared)
