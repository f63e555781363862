"""Clock and power of the GPU while something runs, if NVIDIA's management library can be asked."""

from __future__ import annotations

import contextlib
import importlib
import statistics
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

EVERY = 0.01  # seconds between two readings
INSTANT = 186  # NVML_FI_DEV_POWER_INSTANT: nvmlDeviceGetPowerUsage is a mean over a second


@dataclass(frozen=True)
class Reading:
    """At one moment: MHz of the SMs, watts of the board."""

    at: float
    clock: float
    power: float


@dataclass
class Sensor:
    """A thread that reads all the time. Without the library it reads nothing."""

    handle: Any = None
    library: Any = None
    readings: list[Reading] = field(default_factory=list)
    ended: threading.Event = field(default_factory=threading.Event)

    def mean(self, begin: float, end: float) -> tuple[float | None, float | None]:
        """Clock and power between two moments of `time.monotonic`."""
        within = [r for r in self.readings if begin <= r.at <= end]
        if not within:
            return None, None
        return statistics.fmean(r.clock for r in within), statistics.fmean(r.power for r in within)

    def read(self) -> Reading:
        """Now."""
        clock = self.library.nvmlDeviceGetClockInfo(self.handle, self.library.NVML_CLOCK_SM)
        return Reading(time.monotonic(), float(clock), self._watts())

    def limit(self) -> str:
        """Watts that the board may draw, in words."""
        if self.handle is None:
            return "unknown"
        return f"{self.library.nvmlDeviceGetEnforcedPowerLimit(self.handle) / 1000:.0f} W"

    def _watts(self) -> float:
        with contextlib.suppress(Exception):  # an older library or device has no such field
            field_value = self.library.nvmlDeviceGetFieldValues(self.handle, [INSTANT])[0]
            if field_value.nvmlReturn == 0:
                return float(field_value.value.uiVal) / 1000
        return float(self.library.nvmlDeviceGetPowerUsage(self.handle)) / 1000


@contextlib.contextmanager
def sensing() -> Iterator[Sensor]:
    """A sensor that reads until the end of the block."""
    sensor = _found()
    if sensor.handle is None:
        yield sensor
        return

    def keep_reading() -> None:
        while not sensor.ended.wait(EVERY):
            with contextlib.suppress(Exception):  # one reading less
                sensor.readings.append(sensor.read())

    thread = threading.Thread(target=keep_reading, daemon=True)
    thread.start()
    try:
        yield sensor
    finally:
        sensor.ended.set()
        thread.join()


def _found() -> Sensor:
    try:
        pynvml = importlib.import_module("pynvml")
        pynvml.nvmlInit()
        sensor = Sensor(pynvml.nvmlDeviceGetHandleByIndex(0), pynvml)
        sensor.read()
    except Exception:  # not installed, or not allowed
        return Sensor()
    return sensor
