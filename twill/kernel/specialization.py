"""Which kernel, and for which argument types and constants: `FILE::KERNEL`, sidecar and flags.

The sidecar of `kernel.py` is `kernel.twill.toml`::

    kernel = "gemm"                               # which function, if a table below does not say

    [[specialization]]
    name = "bf16"
    default = true                                # optional: the one meant when none is named
    kernel = "gemm"                               # optional
    grid = ["cdiv(M, BLOCK_M)", "batch"]          # the launch grid, as expressions
    enable_fp_fusion = false                      # optional, Triton's option; as TRITON_DEFAULT_FP_FUSION says
    split = 4                                     # optional: parts that K is split into, as `--split`
    strict_math = true                            # optional, as `--strict-math`; TWILL_STRICT_MATH=1 says so for all

    [specialization.signature]                    # runtime arguments: Triton's type strings;
    a = "*bf16:16"                                # ":16" promises divisibility by 16
    scale = "fp32:positive"                       # promises a number from 2^-32 to 2^32
    stride = "i32:16"
    desc = "tensordesc<bf16[128, 64]>"

    [specialization.constexprs]                   # constants, and strides that are 1
    BLOCK_M = 128
    dtype = "tl.bfloat16"

The table `[specialization.problem]` says at what sizes it is run: see `twill.kernel.problem`; `[specialization.tune]`
with what other tiles it may be tried: see `twill.kernel.tuning_space`.
"""

from __future__ import annotations

import os
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from triton import knobs
from triton.runtime.jit import JITFunction

from twill.exc import (
    MalformedFlag,
    MissingArgument,
    NoKernel,
    SeveralKernels,
    UnknownArgument,
    UnknownKernel,
    UnknownSpecialization,
)
from twill.kernel.argument_types import parse_type
from twill.kernel.importing import KernelFile, line_of_def, load
from twill.kernel.modules import file_of
from twill.kernel.problem import ProblemTable
from twill.kernel.sidecar import (
    Constant,
    Sidecar,
    SidecarTable,
    read_sidecar,
    read_sidecar_text,
    sidecar_path,
    table_of,
)

STRICT = "TWILL_STRICT_MATH"


@dataclass(frozen=True)
class Parameter:
    """A parameter of the kernel. optional: a call may leave it out, for a default that can be written down."""

    name: str
    optional: bool = False
    default: Constant = None


@dataclass(frozen=True)
class Specialization:
    """One kernel with its argument types and constants. Tuples of pairs are in parameter order.

    signature: argument -> Triton type string. constexprs: argument -> constant ("tl.float16"
    names a Triton type). divisibility: argument -> 16 for those promised to be divisible.
    grid: the launch grid as expressions over arguments, () if unknown. parameters: all, in order.
    positive: floats promised to be greater than 0 (from 2^-32 to 2^32). fp_fusion: whether products and sums of floats
    may be rounded once (Triton's option `enable_fp_fusion`). strict: whether every number is rounded where and as the
    kernel says (`twill.codegen.numerics`). split: into how many parts K is split (`twill.tile.rewrite.split_k`).
    recorded: a sidecar's text whose only specialization says at what sizes it is run, "" for that of the kernel's file.
    """

    file: str
    kernel: str
    spec: str
    signature: tuple[tuple[str, str], ...]
    constexprs: tuple[tuple[str, Constant], ...]
    divisibility: tuple[tuple[str, int], ...] = ()
    grid: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    positive: tuple[str, ...] = ()
    fp_fusion: bool = True
    strict: bool = False
    split: int = 1
    recorded: str = ""


def problem_of(specialization: Specialization) -> ProblemTable | None:
    """The problem table of its sidecar, with its own constants (flags may have changed them); None without one."""
    table = _table_of(specialization)
    if table is None or table.problem is None:
        return None
    return table.problem.with_constants(dict(specialization.constexprs))


def _table_of(specialization: Specialization) -> SidecarTable | None:
    if specialization.recorded:
        (recorded,) = read_sidecar_text(specialization.recorded, f"{specialization.kernel}, as it was launched").tables
        return recorded
    return table_of(specialization.file, specialization.kernel, specialization.spec)


def resolve(
    target: str,
    *,
    spec: str | None = None,
    sig: Sequence[str] = (),
    const: Sequence[str] = (),
    strict: bool = False,
) -> Specialization:
    """The specialization that `FILE[::KERNEL]`, a sidecar's name and ARG=TYPE, NAME=VALUE flags mean.

    FILE may also be an importable module, `package.module`, whose file is meant. Flags override and complete the
    sidecar. strict: `--strict-math`, which the sidecar or the environment may say, too. Raises the "which kernel"
    errors of `twill.exc`.
    """
    named, _, kernel = target.partition("::")
    file = file_of(named)
    loaded = load(file)
    if not loaded.functions:
        raise NoKernel("the file defines no kernel", file=file, hint="decorate a function with @triton.jit")
    sidecar = read_sidecar(file)
    if kernel and kernel not in loaded.functions:
        raise _unknown_kernel(file, kernel, loaded)
    table = _table(file, kernel, spec, sidecar)
    kernel = kernel or (table.kernel if table else sidecar.kernel if sidecar else "") or _only_kernel(loaded)
    if kernel not in loaded.functions:
        raise _unknown_kernel(file, kernel, loaded, sidecar)
    types = {name: quoted(kind) or kind for name, kind in (_flag("--sig", text, "ARG=TYPE") for text in sig)}
    said = (_flag("--const", text, "NAME=VALUE", empty=True) for text in const)
    constants = {name: read_constant(text) for name, text in said}
    for name in types.keys() & constants.keys():
        raise MalformedFlag(f"{name} has both a type and a value", hint=f"only one of --sig and --const for {name}")
    # A flag also turns a constant of the sidecar into an argument, and the other way round.
    signature = {**_without(table.signature if table else {}, constants), **types}
    constexprs = {**_without(table.constexprs if table else {}, types), **constants}
    made = _specialize(
        loaded.functions[kernel], file, table.name if table else (spec or "flags"), signature, constexprs,
        table.grid if table else (), sidecar_path(file), fp_fusion(table.fp_fusion if table else None),
    )  # fmt: skip
    strict = strict or strict_math(table.strict_math if table else None)
    return replace(made, strict=strict, split=table.split if table else 1)


def list_specializations(file: str) -> tuple[str, ...]:
    """Names of the specializations in the sidecar of `file`, the default one first; () without one."""
    sidecar = read_sidecar(file)
    tables = sidecar.tables if sidecar else ()
    return tuple(table.name for table in sorted(tables, key=lambda table: not table.default))


def _table(file: str, kernel: str, spec: str | None, sidecar: Sidecar | None) -> SidecarTable | None:
    """The sidecar's table that is meant; None if there is none for this kernel and none was named."""
    tables = [table for table in (sidecar.tables if sidecar else ()) if not kernel or table.kernel in ("", kernel)]
    names = ", ".join(table.name for table in tables) or "none"
    if spec is not None:
        meant = [table for table in tables if table.name == spec]
        if not meant:
            what = f'there is no specialization "{spec}"' + (f" of {kernel}" if kernel else "")
            hint = f"one of: {names}" if tables else "no --spec, and --sig and --const flags"
            where = sidecar_path(file) if sidecar else f"{sidecar_path(file)}, which does not exist"
            raise UnknownSpecialization(f"{what} in {where}", file=file, hint=hint)
    else:
        meant = [table for table in tables if table.default] or (tables if len(tables) == 1 else [])
    if tables and not meant:
        raise UnknownSpecialization(
            "the sidecar has several specializations and none is the default",
            file=file,
            hint=f"--spec with one of: {names}; or `default = true` in one of them",
        )
    preferred = [table for table in meant if sidecar and table.kernel == sidecar.kernel] or meant
    if len(preferred) > 1:
        kernels = ", ".join(table.kernel for table in preferred)
        raise SeveralKernels(
            f"the sidecar has this specialization for several kernels: {kernels}",
            file=file,
            hint=f"{file}::{preferred[0].kernel}",
        )
    return preferred[0] if preferred else None


def _only_kernel(loaded: KernelFile) -> str:
    candidates = loaded.kernels or tuple(loaded.functions)
    if len(candidates) == 1:
        return candidates[0]
    names = ", ".join(candidates)
    raise SeveralKernels(
        f"the file defines {len(candidates)} kernels: {names}", file=loaded.path, hint=f"{loaded.path}::{candidates[0]}"
    )


def _unknown_kernel(file: str, kernel: str, loaded: KernelFile, sidecar: Sidecar | None = None) -> UnknownKernel:
    names = ", ".join(loaded.kernels or loaded.functions)
    where = f" (named in {sidecar_path(file)})" if sidecar else ""
    return UnknownKernel(f'the file has no kernel "{kernel}"{where}', file=file, hint=f"one of: {names}")


Entry = TypeVar("Entry")


def _without(entries: Mapping[str, Entry], names: Container[str]) -> dict[str, Entry]:
    return {name: entry for name, entry in entries.items() if name not in names}


def _flag(flag: str, text: str, form: str, *, empty: bool = False) -> tuple[str, str]:
    """Name and value. empty: whether there may be nothing behind the sign, as in `ACTIVATION=`."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip() or not (value.strip() or empty):
        raise MalformedFlag(f"{flag} {text}: not of the form {form}", hint=f"{flag} {form}")
    return name.strip(), value.strip()


def quoted(text: str) -> str | None:
    """What stands in quotes, if the text does."""
    return text[1:-1] if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'" else None


def read_constant(text: str) -> Constant:
    """The constant that a flag's text means: an integer, a float, true, false, none, or text, as is what stands in
    quotes."""
    if (inside := quoted(text)) is not None:
        return inside
    words: dict[str, Constant] = {"true": True, "false": False, "none": None}
    if text.lower() in words:
        return words[text.lower()]
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text


def _specialize(
    function: JITFunction,
    file: str,
    spec: str,
    signature: Mapping[str, str],
    constexprs: Mapping[str, Constant],
    grid: tuple[str, ...],
    sidecar: str,
    fused: bool,
) -> Specialization:
    parameters = {parameter.name: parameter for parameter in function.params}
    line = line_of_def(function)
    for name in (*signature, *constexprs):
        if name not in parameters:
            raise UnknownArgument(
                f'{function.__name__} has no parameter "{name}"', file=file, line=line,
                hint=f"one of: {', '.join(parameters)}",
            )  # fmt: skip
    types: dict[str, str] = {}
    promised: dict[str, str] = {}
    constants: dict[str, Constant] = {}
    missing: list[str] = []
    for name, parameter in parameters.items():
        if name in constexprs:
            constants[name] = constexprs[name]
        elif name in signature and parameter.is_constexpr:
            raise UnknownArgument(
                f"{name} is a constexpr of {function.__name__}: it has a value, not a type", file=file, line=line,
                hint=f"--const {name}=VALUE, or a line `{name} = VALUE` under [specialization.constexprs]",
            )  # fmt: skip
        elif name in signature:
            types[name], promised[name] = parse_type(name, signature[name], file)
        elif parameter.has_default and (parameter.is_constexpr or parameter.default is None):
            constants[name] = parameter.default
        else:
            missing.append(name)
    if missing:
        raise _missing(function.__name__, missing, {name: parameters[name].is_constexpr for name in missing},
                       file, line, sidecar)  # fmt: skip
    return Specialization(
        file, function.__name__, spec, tuple(types.items()), tuple(constants.items()),
        tuple((name, 16) for name, hint in promised.items() if hint == "16"), grid, parameters_of(function),
        tuple(name for name, hint in promised.items() if hint == "positive"), fused,
    )  # fmt: skip


def fp_fusion(asked: bool | None) -> bool:
    """Triton's option `enable_fp_fusion`: as asked; None: on, unless the environment has TRITON_DEFAULT_FP_FUSION=0.
    With TRITON_FORCE_DISABLE_FP_FUSION=1 it is off.
    """
    if getattr(knobs.language, "force_disable_fp_fusion", False):  # Triton 3.9 knows it, 3.6 does not
        return False
    return bool(knobs.language.default_fp_fusion) if asked is None else asked


def strict_math(asked: bool | None = None) -> bool:
    """Whether every number is rounded where and as the kernel says: as asked; None: as TWILL_STRICT_MATH says."""
    return os.environ.get(STRICT, "") not in ("", "0") if asked is None else asked


def parameters_of(function: JITFunction) -> tuple[Parameter, ...]:
    """A Triton kernel's parameters, in order."""
    found = []
    for parameter in function.params:
        default = parameter.default if parameter.has_default else None
        optional = parameter.has_default and (default is None or isinstance(default, int | float | str))
        found.append(Parameter(parameter.name, optional, default if optional else None))
    return tuple(found)


def _missing(
    kernel: str, names: Sequence[str], constexpr: Mapping[str, bool], file: str, line: int, sidecar: str
) -> MissingArgument:
    def entry(name: str) -> str:
        if constexpr[name]:
            return f"`{name} = 128` under [specialization.constexprs] of {sidecar}, or --const {name}=128"
        guess = _guess(name)
        return f'`{name} = "{guess}"` under [specialization.signature] of {sidecar}, or --sig {name}="{guess}"'

    kinds = ", ".join(f"{name} (constexpr)" if constexpr[name] else name for name in names)
    return MissingArgument(
        f"{kernel} is not specialized: nothing says what {kinds} {'is' if len(names) == 1 else 'are'}",
        file=file,
        line=line,
        hint="\n  and: ".join(map(entry, names)),
    )


def _guess(name: str) -> str:
    """A type that suits the name, to be edited by the user."""
    if "desc" in name.lower():
        return "tensordesc<bf16[128, 64]>"
    if "ptr" in name.lower():
        return "*bf16:16"
    return "fp32" if "scale" in name.lower() else "i32"
