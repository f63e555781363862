"""Mistakes in a kernel, its sidecar, or what is asked of them."""

from __future__ import annotations

from twill.exc.base import TwillError

# Which kernel and specialization (twill.kernel.specialization).


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


# From Triton's IR to the tile program (twill.kernel.ttir, mlir, translate).


class KernelDoesNotCompile(TwillError):
    """Triton refuses the kernel for this specialization."""


class UnsupportedOperation(TwillError):
    """The kernel uses an operation that has no place in the tile program's vocabulary."""


class UnsupportedMma(TwillError):
    """A product whose operands, precision or accumulator have no form on the tensor core, and none made of others."""

    def __init__(self, what: str, *, hint: str, file: str, line: int) -> None:
        super().__init__(f"{what} is not supported", file=file, line=line, hint=hint)


class DataDependentControlFlow(TwillError):
    """An `if` or `while` over values known only when the kernel runs."""


class NestedLoop(TwillError):
    """A counted loop inside a counted loop."""


# From addresses to tile accesses (twill.tile.access.resolve).


class AddressNotAffine(TwillError):
    """A tile's address is no affine function of tl.arange, loop variables, grid indices and arguments."""

    def __init__(self, tile: str, why: str, hint: str, *, file: str, line: int) -> None:
        super().__init__(f"the address of {tile} is not affine: {why}", file=file, line=line, hint=hint)


class AtomicResultUsed(TwillError):
    """A kernel reads what an atomic operation returns, where nothing gives it that."""

    def __init__(self, what: str, *, file: str, line: int) -> None:
        super().__init__(
            f"the old values of an atomic operation are used: {what}",
            file=file,
            line=line,
            hint="atomic operations on one number at a time, or on a tile that lies in memory as it is",
        )
