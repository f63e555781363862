"""Triton's module of an example's specialization, as Triton keeps it with the compiled kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from triton._C.libtriton import ir
from triton.compiler import ASTSource, make_backend

from twill.kernel import ttir
from twill.kernel.gpu_free import TARGET
from twill.kernel.importing import load
from twill.kernel.specialization import Specialization
from twill.runtime.request import DefaultedParameter, PrepareRequest, Typed, Valued


def kept_module(spec: Specialization) -> str:
    """`compiled.asm["ttir"]`, without the rest of the compilation."""
    function = load(spec.file).functions[spec.kernel]
    backend = make_backend(TARGET)
    options = backend.parse_options({"num_warps": 8, "num_stages": 4, "enable_fp_fusion": True})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    constants = {name: ttir._value(value) for name, value in spec.constexprs}
    source = ASTSource(function, ttir._signature(function, spec), constants, ttir._attributes(function, spec))
    codegen = backend.get_codegen_implementation(options)
    module = source.make_ir(TARGET, options, codegen, backend.get_module_map(), context)
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    return str(stages["ttir"](module, {}))


def request_of(spec: Specialization, **changed: Any) -> PrepareRequest:
    """What `twill.jit` asks for when such a call is made."""
    usual = PrepareRequest(
        key="k" * 64,
        kernel=spec.kernel,
        file=spec.file,
        parameters=tuple(DefaultedParameter(p.name, p.optional, p.default) for p in spec.parameters),
        signature=tuple(Typed(*pair) for pair in spec.signature),
        constants=tuple(Valued(*pair) for pair in spec.constexprs),
        divisible=tuple(name for name, _ in spec.divisibility),
        module=kept_module(spec),
        machine="h100",
        solve=False,
        seconds=60.0,
        store="off",
        server="",
    )
    return replace(usual, **changed)
