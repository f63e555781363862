"""Emitted CUDA to a cubin, with NVRTC through `cuda.bindings`: no GPU, driver or toolkit needed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from twill import exc
from twill.codegen.compile.disassembler import disassemble
from twill.codegen.compile.facts import KernelFacts, read_facts, refuse, reports_functions
from twill.codegen.compile.listing import read_ptx, read_sass
from twill.codegen.print.cuda import compiled
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape
from twill.codegen.print.cuda.source import standalone
from twill.codegen.print.kernel_lines import KernelLines

FEW_REGISTERS = re.compile(
    r"Insufficient registers \((\d+)\)(?:.* in function (\w+))?"
    r"|Register allocation failed with register count of '(\d+)'"
)
FILE = b"twill"  # what messages and line information call the whole text
UNKNOWN = "invalid value for --gpu-architecture"  # what NVRTC says of an architecture that it does not know


@dataclass(frozen=True)
class Build:
    """A compiled source. `source` is the complete text that was compiled; `log` what the compiler said."""

    arch: str
    source: str
    cubin: bytes
    ptx: str
    log: str
    facts: tuple[KernelFacts, ...]

    def function(self, name: str) -> KernelFacts:
        """The facts of kernel `name`; KeyError if the build has none of that name."""
        for fact in self.facts:
            if fact.function == name:
                return fact
        raise KeyError(name)


def compile_cubin(
    source: str,
    arch: str = compiled.ARCHITECTURE,
    *,
    shapes: Iterable[MultiplyShape] = (),
    name: str = "kernel.cu",
    lines: KernelLines | None = None,
    defines: Mapping[str, str] | None = None,
    accept_slow: bool = False,
    fused: bool = True,
    persistent: bool = False,
    last_resort: bool = False,
) -> Build:
    """Compile a kernel's text, put behind the headers and the multiplies of `shapes`.

    name: what line information calls the text. lines: from its lines to the user's kernel, for errors. defines: macros.
    accept_slow: keep a build that would run badly (its facts say why).
    fused: products of floats and the sums that they go into may become one instruction, rounded once.
    persistent: all that the kernel does is in loops over program instances.
    last_resort: as for `twill.codegen.compile.facts.refuse`.
    The disassembler takes longer than the compiler, so it runs only to find the line of a spill.

    Errors: BuildToolsMissing; CompilerTooOld; CudaRejected with the compiler's log; BuildRejected unless `accept_slow`.
    """
    text = standalone(source, shapes, name=name)
    cubin, ptx, log = _nvrtc(text, arch, dict(defines or {}), fused)
    if not reports_functions(log):  # a compiler that keeps results keeps no report of them: spills would go unseen
        cubin, ptx, log = _nvrtc(text, arch, dict(defines or {}), fused, again=True)
    in_ptx = read_ptx(ptx)
    facts = read_facts(log, in_ptx)
    if any(fact.spill_stores or fact.spill_loads for fact in facts):
        facts = read_facts(log, in_ptx, read_sass(disassemble(cubin) or ""))
    build = Build(arch=arch, source=text, cubin=cubin, ptx=ptx, log=log, facts=facts)
    return build if accept_slow else accepted(build, lines or KernelLines(name, {}, name), persistent, last_resort)


def accepted(build: Build, lines: KernelLines, persistent: bool = False, last_resort: bool = False) -> Build:
    """The build. Raises BuildRejected, with it, if it would run badly; the rest as for
    `twill.codegen.compile.facts.refuse`."""
    try:
        refuse(build.facts, lines, persistent, last_resort)
    except exc.BuildRejected as rejected:
        rejected.build = build
        raise
    return build


def load_compiler() -> None:
    """Loads NVRTC, if it is there, so that the first build need not."""
    with suppress(Exception):  # which the first build says
        from cuda.bindings import nvrtc

        nvrtc.nvrtcVersion()


def _nvrtc(
    text: str, arch: str, defines: dict[str, str], fused: bool = True, again: bool = False
) -> tuple[bytes, str, str]:
    """Cubin, PTX and log. again: whether the compiler has a result already, which is not to be taken: it is found by
    the PTX, whatever comments the text has."""
    try:
        from cuda.bindings import nvrtc
    except ImportError as error:
        raise exc.BuildToolsMissing(str(error)) from error
    options = [f"-arch={arch}", "--generate-line-info", "--ptxas-options=-v", *([] if fused else ["--fmad=false"])]
    options += ["--no-cache"] if again else []
    options += [*(f"--define-macro={name}={value}" for name, value in defines.items()), "--std=c++17"]
    try:
        program = _value(nvrtc.nvrtcCreateProgram(text.encode(), FILE, 0, [], []))
    except Exception as error:  # a library that is missing, in words of `cuda.bindings`
        raise exc.BuildToolsMissing(f"{error}".splitlines()[0]) from error
    try:
        (result,) = nvrtc.nvrtcCompileProgram(program, len(options), [one.encode() for one in options])
        log = _filled(nvrtc.nvrtcGetProgramLogSize, nvrtc.nvrtcGetProgramLog, program).rstrip(b"\0").decode()
        if result != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            said = f"{nvrtc.nvrtcGetErrorString(result)[1].decode()}\n{log}"
            if UNKNOWN not in said:
                raise compile_error(said)
            _, *version = map(int, nvrtc.nvrtcVersion())
            known = nvrtc.nvrtcGetSupportedArchs()[1]
            raise exc.CompilerTooOld(arch, (version[0], version[1]), known)
        cubin = _filled(nvrtc.nvrtcGetCUBINSize, nvrtc.nvrtcGetCUBIN, program)
        ptx = _filled(nvrtc.nvrtcGetPTXSize, nvrtc.nvrtcGetPTX, program).rstrip(b"\0").decode()
        return cubin, ptx, log
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _value(given: tuple[Any, Any]) -> Any:
    """The second of what a function of `cuda.bindings` gives, of which the first says whether it succeeded."""
    result, value = given
    if result.value:
        raise RuntimeError(result.name)
    return value


def _filled(size: Callable[[Any], tuple[Any, int]], fill: Callable[[Any, bytes], object], program: Any) -> bytes:
    """What NVRTC has of a program."""
    found: bytes = b" " * _value(size(program))  # filled in place
    fill(program, found)
    return found


def compile_error(said: str) -> exc.TwillError:
    """What a failed compilation means to a user: too few registers, or a text that is wrong."""
    text = said.strip()
    few = FEW_REGISTERS.search(text)
    if few is not None:
        where = f" of function '{few[2]}'" if few[2] else ""
        what = f"an instruction{where} needs more registers than the {few[1] or few[3]} of its threads"
        return exc.BuildRejected("spill", what, None, hint="smaller tiles")
    return exc.CudaRejected(f"the CUDA compiler refuses the emitted text:\n{text}")
