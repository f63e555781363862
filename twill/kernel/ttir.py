"""Specialization -> Triton's own IR (TTIR) as generic MLIR text, on a machine without a GPU.

Only Triton's frontend and its hardware-independent passes run; nothing is cached or written.
"""

from __future__ import annotations

import contextlib
import re
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import triton.language as tl
from triton._C.libtriton import ir
from triton.compiler import ASTSource, make_backend
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITFunction

from twill.exc import KernelDoesNotCompile
from twill.kernel.gpu_free import TARGET
from twill.kernel.importing import line_of_def, load
from twill.kernel.sidecar import Constant
from twill.kernel.specialization import Specialization

HINT = "a kernel that Triton launches with these argument types and constants"


def ttir(spec: Specialization) -> str:
    """The kernel's module in MLIR's generic form, with locations.

    Raises `KernelDoesNotCompile` with the line of the user's file.
    """
    loaded = load(spec.file)
    function = loaded.functions[spec.kernel]
    with _errors(spec, loaded.functions):
        constants = constants_of(spec)
        backend = make_backend(TARGET)
        # Asked for explicitly because Triton 3.9 warns when it is left to its default.
        options = backend.parse_options({"enable_fp_fusion": spec.fp_fusion})
        context = ir.context()
        ir.load_dialects(context)
        backend.load_dialects(context)
        source = ASTSource(function, _signature(function, spec), constants, _attributes(function, spec))
        module = source.make_ir(
            TARGET, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
        )
        stages: dict[str, object] = {}
        backend.add_stages(stages, options, source.language)
        module = stages["ttir"](module, {})  # type: ignore[operator]
        return generic_text(module, context)


def generic(text: str) -> str:
    """The text of a module as Triton keeps it with a compiled kernel, in MLIR's generic form, with locations.

    Raises `KernelDoesNotCompile` for what is no module of this version of Triton.
    """
    context = ir.context()
    ir.load_dialects(context)
    make_backend(TARGET).load_dialects(context)
    with tempfile.TemporaryDirectory(prefix="twill-") as directory:
        path = Path(directory) / "kernel.ttir"
        path.write_text(text, encoding="utf-8")
        try:
            module = ir.parse_mlir_module(str(path), context)
        except RuntimeError as error:
            raise KernelDoesNotCompile(f"Triton cannot read its own module: {error}", hint=HINT) from None
        return generic_text(module, context)


def generic_text(module: ir.module, context: ir.context) -> str:
    """A module's text in generic form; the module is of no other use afterwards."""
    # A module attribute without a dialect fails verification, and MLIR prints a module that does
    # not verify in its generic form: the only way to it through Triton's bindings.
    module.set_attr("generic", ir.builder(context).get_int32_attr(1))
    return hoist_aliases(str(module))


def hoist_aliases(text: str) -> str:
    """The text with every `#loc` alias before its first use, as parsers other than MLIR's want it."""
    lines = text.splitlines()
    aliases = [line for line in lines if re.match(r"#loc\d* = ", line)]
    return "\n".join([*aliases, *(line for line in lines if not re.match(r"#loc\d* = ", line))]) + "\n"


def _signature(function: JITFunction, spec: Specialization) -> dict[str, str]:
    types = dict(spec.signature)
    return {name: types.get(name, "constexpr") for name in function.arg_names}


def _attributes(function: JITFunction, spec: Specialization) -> dict[tuple[int, ...], list[list[object]]]:
    return {(function.arg_names.index(name),): [["tt.divisibility", divisor]] for name, divisor in spec.divisibility}


def constants_of(spec: Specialization) -> dict[str, object]:
    """The constants of a specialization, as Triton gets them."""
    return {name: _value(value) for name, value in spec.constexprs}


def _value(value: Constant) -> object:
    """The constant that Triton gets: "tl.float16" names a type of its language."""
    if isinstance(value, str) and value.startswith("tl."):
        return getattr(tl, value.removeprefix("tl."), value)
    return value


@contextlib.contextmanager
def _errors(spec: Specialization, functions: Mapping[str, JITFunction]) -> Iterator[None]:
    """Turns whatever Triton raises into `KernelDoesNotCompile`."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except CompilationError as error:
        raise _compilation_error(spec, functions, error) from None
    except Exception as error:
        what = str(error).strip().splitlines() or [type(error).__name__]
        raise KernelDoesNotCompile(
            f"Triton cannot compile {spec.kernel}: {what[0]}",
            file=spec.file,
            line=line_of_def(functions[spec.kernel]),
            hint=HINT,
        ) from None


def _compilation_error(
    spec: Specialization, functions: Mapping[str, JITFunction], error: CompilationError
) -> KernelDoesNotCompile:
    """The innermost frame in the user's file tells the line, the innermost of all tells what is wrong."""
    line, message = line_of_def(functions[spec.kernel]), ""
    begins = {function.src: line_of_def(function) for function in functions.values()}
    frame: BaseException | None = error
    while frame is not None:
        if isinstance(frame, CompilationError):
            number = getattr(frame.node, "lineno", None)
            if number is not None and frame.src in begins:
                line = begins[frame.src] + number - 1
            message = frame.error_message or message
        else:
            message = f"{type(frame).__name__}: {frame}" if str(frame) else message
        frame = frame.__cause__ or frame.__context__
    first = next((text for text in message.splitlines() if text.strip()), "Triton refuses it")
    return KernelDoesNotCompile(f"Triton cannot compile {spec.kernel}: {first.strip()}", file=spec.file, line=line,
                                hint=HINT)  # fmt: skip
