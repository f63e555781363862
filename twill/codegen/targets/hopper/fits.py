"""Which figure of a machine file follows from which microbenchmarks, and how.

A formula takes cycles of a step and gives the figure. It is applied to the medians for the value, and to the 5th
and the 95th percentiles for the spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from twill.codegen.targets.hopper.probes import CROSSED, KIB
from twill.codegen.targets.probe import Sample
from twill.machine.description import Figure

WARP = 32  # lanes of an instruction
ROW = 512  # bytes that a warp moves with 16 of each lane
BOX, SMALL_BOX = 16 * KIB, KIB  # bytes of a step of tensors.cu
# Pipes take 1, 2, 4 ... lanes a cycle.
NEAR = 0.03  # a throughput this near to such a number is that number; the rest is the loop of the microbenchmark
EXCHANGES = 2  # shuffles of a row's reduction: four lanes hold a row

Cycles = Mapping[str, float]
Formula = Callable[[Cycles], float]
Path = tuple[str, ...]


@dataclass(frozen=True)
class Fit:
    """path: of the figure (`twill.calibrate.apply`). probes: what the formula reads. rounded: the value as written."""

    path: Path
    probes: tuple[str, ...]
    formula: Formula
    rounded: Callable[[float], float]

    def figure(self, samples: Mapping[str, Sample], cite: str) -> Figure | None:
        """The figure, if everything that it follows from was measured."""
        if any(name not in samples for name in self.probes):
            return None
        raw = self.formula({name: samples[name].median for name in self.probes})
        ends = [self.formula({name: getattr(samples[name], end) for name in self.probes}) for end in ("low", "high")]
        value = self.rounded(raw)
        names = ", ".join(self.probes) if len(self.probes) <= 3 else f"{self.probes[0]} to {self.probes[-1]}"
        plural = "s" if len(self.probes) > 1 else ""
        median = "" if value == significant(raw) else f", median {significant(raw):g}"
        low, high = sorted(significant(end) for end in ends)
        return Figure(value=value, source=f"{cite}microbenchmark{plural} {names}{median}", spread=(low, high))


def significant(value: float, digits: int = 4) -> float:
    """Rounded to so many digits."""
    return float(f"{value:.{digits}g}")


def whole(value: float) -> float:
    """To the nearest whole number, at least 1 (a time or a rate of zero has no meaning)."""
    return float(max(1, round(value)))


def natural(value: float) -> float:
    """To the nearest whole number from 0."""
    return float(max(0, round(value)))


def tenth(value: float) -> float:
    """To one digit behind the point, from 0."""
    return max(0.0, round(value, 1))


def lanes(each: float = 1) -> Callable[[float], float]:
    """A throughput in elements, `each` a lane: the nearest power of two of lanes, if it is near."""

    def snapped(value: float) -> float:
        nearest = 2 ** round(math.log2(value / each)) * each
        return float(nearest) if abs(value - nearest) <= NEAR * nearest else significant(value, 3)

    return snapped


# ---------------------------------------------------------------- operations

# Operation classes, the pipe that decides, its microbenchmark, elements a lane of an instruction.
PIPES: tuple[tuple[tuple[str, ...], str, str, float], ...] = (
    (("add.f32",), "fma", "add.f32", 1),
    (("mul.f32",), "fma", "mul.f32", 1),
    (("fma.f32",), "fma", "fma.f32", 1),
    (("max.f32",), "alu", "max.f32", 1),
    (("compare.f32", "select.f32", "compare.i32", "select.i32"), "alu", "select.f32", 1),
    (("add.i32", "logic.i32", "cast.i32"), "alu", "shift.i32", 1),
    (("max.i32",), "alu", "max.i32", 1),
    (("mul.i32",), "fma", "mad.i32", 1),
    (("add.f16", "mul.f16", "fma.f16"), "fma", "fma.f16", 2),
    (("max.f16", "compare.f16"), "alu", "max.f16", 2),
    (("cast.f32",), "alu", "pack.bf16", 2),
    (("cast.f16",), "alu", "pack.e4m3", 2),
    (("round.f32",), "mufu", "floor.f32", 1),
    (("exp2.f32",), "mufu", "exp2.f32", 1),
    (("rsqrt.f32",), "mufu", "rsqrt.f32", 1),
    (("sqrt.f32",), "mufu", "sqrt.f32", 1),
    (("add.f64",), "fp64", "add.f64", 1),
    (("mul.f64", "fma.f64", "compare.f64"), "fp64", "fma.f64", 1),
)
# Reductions, and the step that combines two elements.
REDUCTIONS = (
    (("reduce_add.f32",), "add.f32"),
    (("reduce_max.f32", "reduce_max.i32", "reduce_add.i32", "reduce_logic.i32"), "max.f32"),
)
SHUFFLED = 16  # elements of a reduction for a lane that is shuffled: 32 elements of a lane, two exchanges


def operations() -> Iterator[Fit]:
    """Throughput of the pipe that decides, latency."""
    for names, unit, probe, each in PIPES:
        for name in names:
            yield inverse(("operations", name, unit), f"{probe}.throughput", WARP * each, lanes(each))
            yield scaled(("operations", name, "latency"), f"{probe}.latency", whole)
    for names, step in REDUCTIONS:
        for name in names:
            yield inverse(("operations", name, "lsu"), "shuffle.throughput", WARP * SHUFFLED, lanes(SHUFFLED))
            yield Fit(
                ("operations", name, "latency"), ("shuffle.latency", f"{step}.latency"), reduction_latency(step), whole
            )


def reduction_latency(step: str) -> Formula:
    """Two exchanges with a step after each, and the last step of a lane's own."""
    return lambda c: EXCHANGES * (c["shuffle.latency"] + c[f"{step}.latency"]) + c[f"{step}.latency"]


def inverse(path: Path, probe: str, work: float, rounded: Callable[[float], float]) -> Fit:
    """Work of a step over its cycles."""
    return Fit(path, (probe,), lambda c: work / c[probe], rounded)


def scaled(path: Path, probe: str, rounded: Callable[[float], float]) -> Fit:
    """The cycles themselves."""
    return Fit(path, (probe,), lambda c: c[probe], rounded)


# ---------------------------------------------------------------- products

# Type of operands in a machine file, in PTX, k of one instruction.
MMA_TYPES = (
    ("f16", "f16", 16),
    ("bf16", "bf16", 16),
    ("f32", "tf32", 8),
    ("f8e4m3", "e4m3", 32),
    ("f8e5m2", "e5m2", 32),
)
MMA_ROWS, MMA_COLUMNS = 64, 256
HALF, TILE = 4, 8  # instructions of a tile of 64 x 128 x 128, and half as many
# Bytes that m64n16k16 reads from shared memory, more than the tensor core needs cycles for: A, and B.
STARVED, STARVED_BYTES = "wgmma.bf16.n16.ss", 2 * 16 * (64 + 16)


def mmas() -> Iterator[Fit]:
    """Rates from the widest shape; latency and issue from few instructions alone."""
    for name, dtype, k in MMA_TYPES:
        work = MMA_ROWS * MMA_COLUMNS * k
        yield inverse(("mma", "rates", name), f"wgmma.{dtype}.n{MMA_COLUMNS}.ss", work, lanes(16))
    half, tile = (f"wgmma.alone.{count}" for count in (HALF, TILE))
    yield Fit(("mma", "latency"), (half, tile), lambda c: line((HALF, TILE), (c[half], c[tile]))[0], whole)
    yield inverse(("mma", "shared_read"), STARVED, STARVED_BYTES, lanes())
    issue = f"wgmma.issue.{TILE}"
    yield Fit(("mma", "issue"), (issue, "clock"), lambda c: c[issue] - c["clock"], whole)


def line(xs: Sequence[float], ys: Sequence[float]) -> tuple[float, float]:
    """(value at 0, slope) of the straight line with the least squares."""
    mean_x, mean_y = math.fsum(xs) / len(xs), math.fsum(ys) / len(ys)
    slope = math.fsum((x - mean_x) * (y - mean_y) for x, y in zip(xs, ys, strict=True))
    slope /= math.fsum((x - mean_x) ** 2 for x in xs)
    return mean_y - slope * mean_x, slope


# ---------------------------------------------------------------- transfers, crossings

SHARERS = 4  # SMs that read the same data, as the tiles of a product do
LOADED = f"tma.load.all.{SHARERS}"


def transfers() -> Iterator[Fit]:
    """Loads as all SMs get them that share data; stores and reductions as the unit makes them, however busy L2 is."""
    for kind, rate in (("load", LOADED), ("store", "tma.store.one"), ("reduce", "tma.reduce.one")):
        small, quiet = f"tma.{kind}.latency", f"tma.{kind}.one"
        yield inverse(("transfers", f"tma_{kind}", "bytes_per_cycle"), rate, BOX, whole)
        yield Fit(("transfers", f"tma_{kind}", "latency"), (small, quiet), beyond(small, quiet), whole)
    for name, probe in (("load", "tma.load.issue.1"), ("store", "tma.store.issue"), ("reduce", "tma.store.issue")):
        yield Fit(("transfers", f"tma_{name}", "issue"), (probe, "clock"), without_clock(probe), whole)
    yield inverse(("transfers", "copy_load", "bytes_per_cycle"), "copy.load.all", ROW, whole)
    yield scaled(("transfers", "copy_load", "latency"), "copy.latency", whole)
    yield inverse(("transfers", "plain_load", "bytes_per_cycle"), "global.load.all", ROW, whole)
    yield scaled(("transfers", "plain_load", "latency"), "global.latency", whole)
    yield inverse(("transfers", "plain_store", "bytes_per_cycle"), "global.store.all", ROW, whole)
    for name, probe in (("register_to_shared", "shared.store"), ("shared_to_register", "shared.load")):
        yield inverse(("transfers", name, "bytes_per_cycle"), probe, ROW, lanes())
        yield scaled(("transfers", name, "latency"), "shared.latency", whole)


def beyond(latency: str, rate: str) -> Formula:
    """Cycles of a small box beyond those that its bytes take."""
    return lambda c: c[latency] - SMALL_BOX / (BOX / c[rate])


def without_clock(probe: str) -> Formula:
    """Less the two readings of the clock around it."""
    return lambda c: c[probe] - c["clock"]


def crossings() -> Iterator[Fit]:
    """A turn alone; what a value adds to it is the line through the sizes."""
    yield scaled(("crossing", "barrier"), "crossing.mbarrier.0", whole)
    yield scaled(("crossing", "named_barrier"), "crossing.named.0", whole)
    names = ("crossing.mbarrier.0", *(f"crossing.mbarrier.{kib}" for kib in CROSSED))

    def through(c: Cycles) -> tuple[float, float]:
        return line(CROSSED, [c[name] - c[names[0]] for name in names[1:]])

    yield Fit(("crossing", "spill_base"), names, lambda c: max(0.0, through(c)[0]), natural)
    yield Fit(("crossing", "spill_per_kb"), names, lambda c: through(c)[1], tenth)


FITS: tuple[Fit, ...] = (*operations(), *mmas(), *transfers(), *crossings())
