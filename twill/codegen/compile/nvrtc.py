"""Emitted CUDA to a cubin, with NVRTC through `cuda.core`: no GPU, driver or toolkit needed."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from time import time_ns

from twill import exc
from twill.codegen.compile.disassembler import disassemble
from twill.codegen.compile.facts import KernelFacts, read_facts, refuse
from twill.codegen.compile.listing import read_ptx, read_sass
from twill.codegen.print.cuda import compiled
from twill.codegen.print.cuda.multiply_shapes import MultiplyShape
from twill.codegen.print.cuda.source import standalone
from twill.codegen.print.kernel_lines import KernelLines

FEW_REGISTERS = re.compile(r"Insufficient registers \((\d+)\).* in function (\w+)")
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
    count_in_sass: bool = False,
    fused: bool = True,
    persistent: bool = False,
    spills: int = 0,
) -> Build:
    """Compile a kernel's text, put behind the headers and the multiplies of `shapes`.

    name: what line information calls the text. lines: from its lines to the user's kernel, for errors. defines: macros.
    accept_slow: keep a build that would run badly (its facts say why).
    fused: products of floats and the sums that they go into may become one instruction, rounded once.
    persistent: all that the kernel does is in loops over program instances.
    spills: bytes that a thread may store of registers that are spilled, whatever time they take.
    count_in_sass: count multiplies in the machine code rather than in the PTX; the disassembler takes longer than the
    compiler, so it runs only for this and to find the line of a spill.

    Errors: BuildToolsMissing; CompilerTooOld; CudaRejected with the compiler's log; BuildRejected unless `accept_slow`.
    """
    text = standalone(source, shapes, name=name)
    cubin, ptx, log = _nvrtc(text, arch, dict(defines or {}), fused)
    if not log:  # a compiler that keeps results keeps no report of them: without one, spills would go unseen
        cubin, ptx, log = _nvrtc(f"{text}\n// {time_ns()}\n", arch, dict(defines or {}), fused)
    in_ptx = read_ptx(ptx)
    facts = read_facts(log, in_ptx)
    if count_in_sass or any(fact.spill_stores or fact.spill_loads for fact in facts):
        facts = read_facts(log, in_ptx, read_sass(disassemble(cubin) or ""))
    if not accept_slow:
        refuse(facts, lines or KernelLines(name, {}, name), persistent, spills)
    return Build(arch=arch, source=text, cubin=cubin, ptx=ptx, log=log, facts=facts)


def _nvrtc(text: str, arch: str, defines: dict[str, str], fused: bool = True) -> tuple[bytes, str, str]:
    """Cubin, PTX and log."""
    try:
        from cuda.bindings import nvrtc
        from cuda.core import Program, ProgramOptions
    except ImportError as error:
        raise exc.BuildToolsMissing(str(error)) from error
    options = ProgramOptions(
        name="twill",
        arch=arch,
        std="c++17",
        lineinfo=True,
        fma=None if fused else False,
        ptxas_options=["-v"],
        define_macro=list(defines.items()) or None,
    )
    log = io.StringIO()
    try:
        program = Program(text, "c++", options)
        cubin = program.compile("cubin", logs=log).code
    except Exception as error:  # cuda.core raises its own classes, and RuntimeError for a library that is missing
        said = f"{error}\n{log.getvalue()}"
        if UNKNOWN in said:
            _, *version = map(int, nvrtc.nvrtcVersion())
            known = nvrtc.nvrtcGetSupportedArchs()[1]
            raise exc.CompilerTooOld(arch, (version[0], version[1]), known) from error
        raise compile_error(error, log.getvalue()) from error
    if not isinstance(cubin, bytes):
        raise exc.BuildToolsMissing("cuda.core returned no cubin")
    size = nvrtc.nvrtcGetPTXSize(program.handle)[1]
    ptx = b" " * size  # filled in place
    nvrtc.nvrtcGetPTX(program.handle, ptx)
    return cubin, ptx.rstrip(b"\0").decode(), log.getvalue()


def compile_error(error: Exception, log: str) -> exc.TwillError:
    """What a failed compilation means to a user: tools that are missing, too few registers, or a text that is wrong."""
    text = f"{error}\n{log}".strip()
    if type(error).__name__ in ("DynamicLibNotFoundError", "NotSupportedError"):
        return exc.BuildToolsMissing(text.splitlines()[0])
    few = FEW_REGISTERS.search(text)
    if few is not None:
        what = f"an instruction of function '{few[2]}' needs more registers than the {few[1]} of its threads"
        return exc.BuildRejected("spill", what, None, hint="smaller tiles")
    return exc.CudaRejected(f"the CUDA compiler refuses the emitted text:\n{text}")
