"""What cannot be launched or measured on a GPU."""

from __future__ import annotations

from twill.exc.base import TwillError

# Running emitted kernels (twill.runtime).


class DriverMissing(TwillError):
    """There is no NVIDIA driver here, or no Python binding to it."""

    def __init__(self, why: str) -> None:
        super().__init__(
            f"cannot run a kernel here: {why}",
            hint='a machine with an NVIDIA GPU and its driver, and pip install "twill-gpu[run]"',
        )


class DriverFailed(TwillError):
    """A call of the CUDA driver returned an error. `code`: its name, such as CUDA_ERROR_INVALID_VALUE."""

    exit_code = 5

    def __init__(self, call: str, code: str) -> None:
        super().__init__(f"{call} failed: {code}")
        self.code = code


class CodeNotTaken(DriverFailed):
    """The driver does not load a kernel's code: it is older than the compiler that made it, or the file is damaged."""

    exit_code = 2

    def __init__(self, call: str, code: str, architecture: str, driver: str) -> None:
        super().__init__(call, f"{code}: driver {driver} does not take this code for {architecture}")
        self.code = code
        self.hint = "a newer driver; or emit the kernel again, if its file was cut off or edited"


class WrongArchitecture(TwillError):
    """A kernel compiled for one GPU is asked to run on another."""

    def __init__(self, kernel: str, arch: str, device: str, capability: str) -> None:
        super().__init__(
            f"kernel `{kernel}` is compiled for {arch}, this is {device} of compute capability {capability}",
            hint="solve and emit for this machine, or run where the kernel was made for",
        )


class WrongArgument(TwillError):
    """A launch argument of another kind, type, rank or device than the kernel was made for."""

    def __init__(self, name: str, found: str, wanted: str) -> None:
        super().__init__(f"argument `{name}` is {found}", hint=f"pass {wanted}")


class MisalignedTensor(TwillError):
    """A tensor starts or steps where the kernel's copies cannot."""

    def __init__(self, name: str, found: str, wanted: str) -> None:
        super().__init__(f"`{name}` {found}", hint=f"the kernel's copies need {wanted}; a contiguous copy has it")


class BadBox(TwillError):
    """A box that a tensor map cannot describe."""

    def __init__(self, name: str, found: str, wanted: str) -> None:
        super().__init__(f"the tile of `{name}` {found}", hint=wanted)


class LaunchTooLarge(TwillError):
    """A launch beyond what the device or the kernel allows."""

    def __init__(self, kernel: str, what: str, asked: int, limit: int) -> None:
        super().__init__(f"kernel `{kernel}` is launched with {asked} {what}", hint=f"at most {limit} here")


class TorchMissing(TwillError):
    """Trying a kernel needs PyTorch with CUDA."""

    def __init__(self, why: str) -> None:
        super().__init__(f"cannot try a kernel here: {why}", hint="a machine with an NVIDIA GPU, and PyTorch for it")


class NoSizes(TwillError):
    """Nothing says at what sizes a kernel is to be tried."""

    def __init__(self, kernel: str, spec: str, *, file: str) -> None:
        super().__init__(
            f"nothing says at what sizes {kernel} ({spec}) is run",
            file=file,
            hint="a table [specialization.problem] in its sidecar (docs/problem-sizes.md)",
        )


class MalformedManifest(TwillError):
    """The manifest of an emitted kernel is cut, edited, of another schema, or not that of the code beside it."""


class WrongConstant(TwillError):
    """A launch gives a constexpr another value than the kernel was emitted for."""

    def __init__(self, kernel: str, name: str, found: object, wanted: object) -> None:
        super().__init__(
            f"`{name}` is {found!r}, and {kernel} was emitted for {name} = {wanted!r}",
            hint=f"{name} = {wanted!r}, or another specialization, emitted for {found!r}",
        )


class BrokenPromise(TwillError):
    """A launch argument is not what the specialization promised and the code relies on. promise: "a multiple of 16",
    and how a sidecar's type says it (`:16`)."""

    def __init__(self, name: str, found: float, promise: str, written: str) -> None:
        super().__init__(
            f"`{name}` is {found:.12g}, which is not {promise} as the specialization promises",
            hint=f"another value, or a specialization without the promise (`{written}` in the sidecar's type)",
        )


class OverlappingTensors(TwillError):
    """A launch stores to memory that it loads from by another argument, in an order that emitted code does not keep."""

    def __init__(self, written: str, loaded: str) -> None:
        super().__init__(
            f"`{written}`, which the kernel writes, overlaps `{loaded}`, which it loads ahead of that",
            hint=f"a tensor of its own for `{written}`, or a copy of `{loaded}`; one argument for both, in the kernel",
        )


# Kernels at their launch (twill.runtime.jit).


class WrongPolicy(TwillError):
    """A policy or budget of `twill.jit` that is none."""


class NotAKernel(TwillError):
    """`twill.jit` was given something that holds no Triton kernel."""


class WrongFreeConstant(TwillError):
    """Constants that `twill.jit` is to be free to choose, and cannot."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(what, hint=hint)


class KernelNotReady(TwillError):
    """The policy is "require", and there is no emitted kernel for a call."""

    def __init__(self, kernel: str, reason: str) -> None:
        hint = "solve it first (twill solve, or the policy solve), or the policy lookup, which runs Triton's kernel"
        super().__init__(f"{kernel} cannot be launched as an emitted kernel: {reason}", hint=hint)


# Calibration (twill.calibrate).


class WrongDevice(TwillError):
    """There is no microbenchmark for a machine, or the GPU that is here is another machine."""

    def __init__(self, why: str, hint: str) -> None:
        super().__init__(f"cannot calibrate: {why}", hint=hint)


class UnknownMicrobenchmark(TwillError):
    """`--only` names no microbenchmark."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"there is no microbenchmark `{name}`", hint=hint)


class SpreadTooLarge(TwillError):
    """Repeats of a microbenchmark do not agree. Figures in cycles of a step; limit of (high - low) / median."""

    exit_code = 6

    def __init__(self, name: str, median: float, low: float, high: float, limit: float, attempts: int) -> None:
        super().__init__(
            f"the microbenchmark {name} varies too much: {median:.4g} cycles, {low:.4g} to {high:.4g} in the last of "
            f"{attempts} attempts; believed is a spread of {limit:.0%}",
            hint="try again when nobody else uses this GPU, or --spread FACTOR to believe more",
        )


class MicrobenchmarkHung(TwillError):
    """A microbenchmark does not end."""

    exit_code = 5

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(f"the microbenchmark {name} has not ended after {seconds:g} s")


class MalformedRecording(TwillError):
    """A file of measurements is cut, edited, or of another version."""


class ForeignRecording(TwillError):
    """A file of measurements is of another GPU, driver or edition of the microbenchmarks."""

    def __init__(self, path: str, what: str, theirs: object, ours: object) -> None:
        super().__init__(
            f"its measurements are of another {what} ({theirs}, here {ours})",
            file=path,
            hint="another --raw FILE, or --again to measure everything anew",
        )
