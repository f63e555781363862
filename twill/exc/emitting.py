"""What cannot be lowered, checked or compiled."""

from __future__ import annotations

from collections.abc import Sequence

from twill.exc.base import TwillError, listed

# Building emitted CUDA (twill.codegen.print.cuda).


class BuildToolsMissing(TwillError):
    """The compiler for emitted CUDA (NVRTC through cuda.bindings) is not installed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"cannot compile CUDA here: {why}", hint='pip install "twill-gpu[emit]"')


class CompilerTooOld(TwillError):
    """NVRTC makes no code for an architecture. version: its own; known: compute capabilities, 90 for 9.0."""

    def __init__(self, architecture: str, version: tuple[int, int], known: Sequence[int]) -> None:
        most = max(known, default=0)
        super().__init__(
            f"NVRTC {version[0]}.{version[1]} makes no code for {architecture}: it knows compute capabilities up to "
            f"{most // 10}.{most % 10}",
            hint='a newer one: pip install --upgrade "twill-gpu[emit]"',
        )


class CudaRejected(TwillError):
    """The CUDA compiler refuses a source text; the message is its log."""


class CandidateRefused(TwillError):
    """One way to lower a schedule has no room; another one may (`twill.codegen.lower.candidates`). slow_build: the
    least slow of the builds that were refused for their speed alone, if there is one."""

    slow_build: object = None


class BuildRejected(CandidateRefused):
    """A build that compiles but would run badly: spills, serialized MMAs, waits put in, an ignored register budget.

    `cause`: "spill", "serialized", "wait" or "budget". `facts`: what ptxas reported of the function; None of one that
    was not built, since its tiles have `excess` registers a thread more than the compiler would find room for. `build`:
    what was built, for whoever takes it where nothing else is left.
    """

    build: object = None

    def __init__(
        self, cause: str, message: str, facts: object, *, excess: int = 0, file: str = "", line: int = 0, hint: str = ""
    ) -> None:
        super().__init__(message, file=file, line=line, hint=hint)
        self.cause = cause
        self.facts = facts
        self.excess = excess

    @property
    def spilled(self) -> int:
        """Bytes that a thread stores of registers that are spilled."""
        return int(getattr(self.facts, "spill_stores", 0))


class RegisterFileFull(CandidateRefused):
    """The register budgets of a schedule are `excess` registers more than a launch of so many threads can hand out."""

    def __init__(self, excess: int, *, file: str = "") -> None:
        super().__init__(
            "the schedule's register budgets exceed what a launch can hand out", file=file, hint="smaller tiles"
        )
        self.excess = excess


class MoreCtasThanMemoryFeeds(CandidateRefused):
    """Fewer than `ctas` CTAs on an SM compute as fast as memory brings their tiles."""

    def __init__(self, ctas: int, *, file: str = "") -> None:
        super().__init__(f"{ctas - 1} on an SM already compute as fast as memory brings tiles", file=file)


# Running emitted kernels (twill.runtime).


class WarpProgramBroken(TwillError):
    """The abstract machine found a lowered kernel wrong; it is not emitted. The mistake is Twill's own."""

    exit_code = 5
    what = "the warp program"

    def __init__(self, kernel: str, violations: list[str], *, file: str = "", line: int = 0) -> None:
        super().__init__(
            f"{self.what} made for {kernel} is wrong and was not emitted:{listed(violations)}",
            file=file,
            line=line,
            hint="another schedule (--blocks, --pin); and please report it with the kernel file",
        )


class CodeBroken(WarpProgramBroken):
    """The PTX of a lowered kernel lacks fences or waits that its warp program takes for granted."""

    what = "the PTX"


# From schedule to warp program (twill.codegen).


class UnsupportedInKernel(TwillError):
    """The kernel does something that a warp program cannot say yet."""


class CannotSplit(TwillError):
    """A split of K was asked for, and the kernel is none whose instances can share a loop's iterations."""


class UnsupportedBySchedule(UnsupportedInKernel):
    """What a schedule asks of the kernel, a warp program cannot say yet; with another schedule it may."""


class ScheduleMismatch(TwillError):
    """A schedule was made for another kernel, specialization or machine."""


class SharedMemoryFull(CandidateRefused):
    """The rings, operands and staging buffers of a warp program exceed shared memory: `needed` bytes of `capacity`."""

    def __init__(
        self, message: str, *, needed: int = 0, capacity: int = 0, file: str = "", line: int = 0, hint: str = ""
    ) -> None:
        super().__init__(message, file=file, line=line, hint=hint)
        self.needed, self.capacity = needed, capacity


# Running programs on the CPU (twill.tile.interpret.sequential, twill.codegen.verify.abstract_machine).


class NumpyMissing(TwillError):
    """NumPy is not installed."""

    def __init__(self, why: str) -> None:
        super().__init__(f"warp programs are checked with NumPy: {why}", hint='pip install "twill-gpu[emit]"')


class NoTarget(TwillError):
    """The machine is described, so that kernels are scheduled for it; but no code is made for its architecture."""

    def __init__(self, machine: str, architecture: str, known: Sequence[str], meant: str = "") -> None:
        """meant: the architecture with the suffix that its tensor core needs, where there is code for that."""
        shows = f"twill solve KERNEL --machine {machine} shows its schedule"
        super().__init__(
            f"no code is emitted for machine {machine} ({architecture}); there is for {', '.join(known)}",
            hint=f'architecture = "{meant}" in the machine file: {architecture} lacks its products' if meant else shows,
        )


class UnknownPass(TwillError):
    """A pass was named that is not in the pipeline."""

    def __init__(self, name: str, known: Sequence[str]) -> None:
        super().__init__(f"there is no pass `{name}`", hint=f"one of {', '.join(known)}")


class ProgramTextSyntax(TwillError):
    """A text that is no program: where (line and column, from 1), what stands there, and what could instead. what: the
    kind of program."""

    what = "program"

    def __init__(self, found: str, wanted: Sequence[str], *, line: int, column: int) -> None:
        self.column = column
        several = wanted[0] if len(wanted) == 1 else f"one of {', '.join(wanted)}"
        super().__init__(f"column {column}: found {found}, expected {several}", file=self.what, line=line)


class WarpTextSyntax(ProgramTextSyntax):
    """A text that is no warp program."""

    what = "warp program"


class TileTextSyntax(ProgramTextSyntax):
    """A text that is no tile program."""

    what = "tile program"


class IllFormedWarpProgram(TwillError):
    """The verifier refuses a warp program; `after` is what made it. The mistake is Twill's own."""

    exit_code = 5

    def __init__(self, after: str, faults: Sequence[str], *, file: str = "") -> None:
        super().__init__(f"the warp program behind {after} is ill-formed:{listed(faults)}", file=file)


class UnknownProblem(TwillError):
    """Nothing says at what sizes a kernel can be run, and none could be made up."""


# Executing PTX on the CPU (twill.codegen.verify.ptx).


class MalformedPtx(TwillError):
    """A PTX text that cannot be read; `line` is its own."""

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message, file="PTX", line=line)


class UnsupportedPtx(TwillError):
    """A PTX instruction, or a form of one, that the executor does not know."""

    def __init__(self, message: str, *, line: int = 0) -> None:
        super().__init__(message, file="PTX", line=line)


class ExecutionDiffers(TwillError):
    """The PTX of an emitted kernel, executed on the CPU, computes something else than its tile program, or does what a
    GPU may take amiss. The mistake is Twill's own."""

    exit_code = 5

    def __init__(self, kernel: str, launch: str, said: list[str], *, file: str = "") -> None:
        super().__init__(
            f"{kernel} was compiled to code that is wrong and was not emitted; executed for {launch}:{listed(said)}",
            file=file,
            hint="another schedule (--blocks, --pin); and please report it with the kernel file",
        )


class NotInGluon(TwillError):
    """The warp program needs what Gluon has no words for, or what its printer does not know. hint: the CUDA form, if
    nothing else is said."""

    def __init__(self, message: str, *, file: str = "", line: int = 0, hint: str | None = None) -> None:
        super().__init__(message, file=file, line=line, hint=hint or "the CUDA form (`--as cuda`)")


class NoGluon(TwillError):
    """The installed Triton has no Gluon, or one with names that are not known here."""

    def __init__(self, version: str, oldest: str, newest: str, name: str) -> None:
        have = f"Triton {version}" if version else "no Triton"
        hint = f"Triton {oldest} to {newest} (pip install triton)"
        super().__init__(f"{have} is installed, which has no `{name}`", hint=hint)


class GluonRejected(TwillError):
    """Triton refuses a module of Gluon."""

    def __init__(self, version: str, why: str) -> None:
        super().__init__(f"Triton {version} refuses the Gluon module: {why}", hint="report it with the module")


class GluonDiffers(TwillError):
    """What Triton made of an emitted module says something else than its warp program."""

    def __init__(self, version: str, found: Sequence[str], *, file: str = "", line: int = 0) -> None:
        said = "".join(f"\n  {one}" for one in found)
        message = f"what Triton {version} makes of the Gluon module differs from the warp program:{said}"
        super().__init__(message, file=file, line=line, hint="the CUDA form (`--as cuda`); report it with the kernel")


class GluonSpills(TwillError):
    """What Triton makes of an emitted module has no registers for its schedule."""

    def __init__(self, version: str, local: int, most: int, *, file: str = "", line: int = 0) -> None:
        super().__init__(
            f"Triton {version} keeps {local} bytes a thread of the Gluon module in local memory, more than {most}: "
            "its registers do not hold what the schedule has at once",
            file=file,
            line=line,
            hint="smaller tiles, more row blocks (--blocks), another version of Triton, or the CUDA form (`--as cuda`)",
        )


class GluonWaits(GluonSpills):
    """What Triton makes of an emitted module waits behind every product, which has no registers beside others."""

    def __init__(self, version: str, waits: int, *, file: str = "", line: int = 0) -> None:
        TwillError.__init__(
            self,
            f"the machine code that Triton {version} makes of the Gluon module waits for products in {waits} places "
            "where the module does not: ptxas has no registers for products that run side by side",
            file=file,
            line=line,
            hint="smaller tiles, more row blocks (--blocks), another version of Triton, or the CUDA form (`--as cuda`)",
        )


class ModuleNotReadable(TwillError):
    """`twill check --gluon`: there is no module, or nothing beside it that says what was emitted."""

    def __init__(self, file: str, why: str) -> None:
        super().__init__(
            f"can't be held to its schedule: {why}",
            file=file,
            hint="a module in the directory that `twill emit --as gluon --out DIR` wrote, with gluon.json beside it",
        )
