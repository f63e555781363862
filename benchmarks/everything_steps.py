"""What `benchmarks.everything` does: measurements, each by commands that may be called alone, too.

Seconds are what a step is given the time for: measurements took about as long on an H200 in 2026-11, the times for
building are estimates for 16 cores. `{place}` is a folder of the measurement's own.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """A command. gpu: whether it needs the GPU to itself. seconds: that it takes."""

    words: str
    seconds: int
    gpu: bool = False


@dataclass(frozen=True)
class Measurement:
    """Steps, each of which needs those before it. about: what is shown."""

    name: str
    about: str
    steps: tuple[Step, ...]


FOR_MACHINE = " --machine {machine}"


def _built(module: str, seconds: int, *, build: int, making: str = "build", more: str = "") -> tuple[Step, ...]:
    """What is emitted first and measured then. more: words for emitting."""
    emit = Step(f"python -m {module} {making} {{place}}{more}", build)
    return emit, Step(f"python -m {module} run {{place}}", seconds, gpu=True)


def _table(name: str, about: str, seconds: int) -> Measurement:
    """A table of `benchmarks.kernels`."""
    words = f"python -m benchmarks.kernels --table {name} --emitted {{place}}/emitted"
    build = Step(f"{words} --build", 120)
    return Measurement(name, about, (build, Step(f"{words} --no-build --again --out {{place}}", seconds, gpu=True)))


MEASUREMENTS = (
    Measurement(
        "memory",
        "kernels without products beside Triton and PyTorch",
        _built("benchmarks.memory", 30, build=120, more=FOR_MACHINE),
    ),
    Measurement(
        "examples-right",
        "every kept kernel beside Triton's and float64, then predicted and measured cycles",
        (
            *_built("tests.gpu.examples", 100, build=120, more=FOR_MACHINE),
            Step("python -m benchmarks.predicted {place} --out {place}/predicted.json", 60, gpu=True),
        ),
    ),
    Measurement(
        "gluon",
        "modules of Gluon: right, and beside the CUDA form and stock Triton",
        _built("tests.gpu.gluon", 150, build=120),
    ),
    _table("gemm", "GEMM in bf16 beside cuBLAS and Triton", 90),
    _table("attention", "attention forward beside FlashAttention, cuDNN and Triton", 126),
    Measurement(
        "operands",
        "weights of 8 and 4 bits, K^T V, block scales",
        _built("benchmarks.operands", 60, build=60, more=FOR_MACHINE),
    ),
    Measurement(
        "paged", "decoding with paged keys and values", _built("benchmarks.paged", 40, build=60, more=FOR_MACHINE)
    ),
    _table("fp8", "GEMM in fp8", 50),
    _table("backward", "attention backward", 105),
    _table("examples", "the other examples", 100),
    Measurement(
        "operations",
        "operations of liger-kernel and fla-core under twill.jit",
        _built("benchmarks.operations", 150, build=300, making="prepare", more=FOR_MACHINE),
    ),
    Measurement(
        "strict", "kernels of --strict-math, bit by bit", _built("tests.gpu.strict", 60, build=120, making="prepare")
    ),
    Measurement(
        "silicon",
        "the executor of PTX beside the GPU, bit by bit",
        _built("tests.gpu.silicon", 60, build=180, making="prepare"),
    ),
    Measurement(
        "soak",
        "launches on four streams and in graphs",
        (
            Step("python -m tests.gpu.soak_launches prepare {place}", 60),
            Step("python -m tests.gpu.soak_launches run {place} --seconds 60", 90, gpu=True),
        ),
    ),
)
