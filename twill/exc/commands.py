"""Mistakes in a command line."""

from __future__ import annotations

from collections.abc import Sequence

from twill.exc.base import TwillError

SHOWN = 4  # faults of a warp program that was given


class OutputNotWritable(TwillError):
    """A file that was asked for cannot be written where it was asked for."""


class NothingToKeep(TwillError):
    """`twill coverage --keep` or `--execute` without `--emit`. what: "--keep leaves"."""

    def __init__(self, what: str) -> None:
        option = what.split()[0] + (" DIR" if what.startswith("--keep") else "")
        super().__init__(f"{what} emitted kernels, and without --emit none is", hint=f"--emit 20 {option}")


class NothingToEmit(TwillError):
    """`twill emit` was asked for neither files nor the warp program."""

    def __init__(self) -> None:
        hint = "--out DIR for the files, --ir or --dump-after PASS for the warp program, --execute to run the PTX"
        super().__init__("nothing was asked for", hint=hint)


class PrintedFromIr(TwillError):
    """`twill emit --from-ir` was asked for more than the CUDA of the warp program."""

    def __init__(self) -> None:
        hint = "--from-ir FILE alone, without --out, --as, --execute, --ir, --why and --dump-after"
        super().__init__("of a warp program that is given, only the CUDA is printed", hint=hint)


class ProgramNotReadable(TwillError):
    """The file of `twill emit --from-ir` cannot be read, or is no text."""

    def __init__(self, file: str, error: OSError | UnicodeDecodeError) -> None:
        why = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        super().__init__(f"cannot be read: {why}", file=file, hint="a file that `twill emit --ir` printed")


class WrongWarpProgram(TwillError):
    """The warp program of `twill emit --from-ir` is not well-formed, or does not compute what the kernel does. found:
    what is wrong, by the verifier or the abstract machine; the first few are shown."""

    def __init__(self, found: Sequence[str], *, file: str) -> None:
        more = f"\n  and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
        hint = "the program as `twill emit --ir` prints it, changed only where the kernel stays the same"
        super().__init__("\n  ".join(("the warp program is wrong:", *found[:SHOWN])) + more, file=file, hint=hint)


class ForeignWarpProgram(TwillError):
    """The warp program of `twill emit --from-ir` is for another machine than the one that was named."""

    def __init__(self, theirs: str, ours: str, *, file: str) -> None:
        super().__init__(f"the warp program is for {theirs}, not {ours}", file=file, hint=f"--machine {theirs}")


class MalformedResults(TwillError):
    """A file of `twill coverage --results` has a line that is no outcome."""

    def __init__(self, *, file: str, line: int) -> None:
        super().__init__("no outcome of a coverage", file=file, line=line, hint="another file, or a new one")


class NotTuned(TwillError):
    """`twill emit --tuned` of a kernel that nobody tuned for this machine."""

    def __init__(self, kernel: str, spec: str, machine: str, *, file: str) -> None:
        super().__init__(
            f"the store has no tuning of {kernel} ({spec}) for {machine}, as they are now",
            file=file,
            hint=f"twill tune {file} --spec {spec} --machine {machine}, on a machine with that GPU",
        )


class ForeignTuning(TwillError):
    """`twill tune --from DIR`, where DIR has no tuning of this kernel and machine as they are now."""

    def __init__(self, folder: str, why: str, *, file: str = "") -> None:
        super().__init__(f"{folder}: {why}", file=file, hint="twill tune, with the same words and --out DIR")


class NothingToCompareWith(TwillError):
    """`twill tune` cannot tell right candidates from wrong ones: the default itself is not what Triton computes."""

    def __init__(self, kernel: str, why: str, *, file: str) -> None:
        super().__init__(
            f"the default of {kernel} {why} on random inputs, so no candidate can be judged",
            file=file,
            hint="twill run, to see where it differs; inputs that must fit together cannot be tuned with yet",
        )
