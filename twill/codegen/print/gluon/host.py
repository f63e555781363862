"""The launcher: called as the Triton kernel is, it makes descriptors in the kernel's own blocks."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from typing import TYPE_CHECKING

from twill import exc
from twill.codegen.print.gluon.fetched import COUNTER
from twill.codegen.print.gluon.instances import together
from twill.codegen.print.gluon.pairs import CTAS
from twill.codegen.print.gluon.writer import PythonWriter
from twill.codegen.warp.expression import Apply, Expr, Local, Number, NumPrograms, Symbol
from twill.codegen.warp.program import TensorMapSpec, WarpProgram

if TYPE_CHECKING:
    from twill.codegen.print.gluon.module import DescriptorParameter
    from twill.kernel.specialization import Specialization


def print_launcher(
    entry: str,
    parameters: Sequence[str],
    descriptors: Sequence[DescriptorParameter],
    program: WarpProgram,
    specialization: Specialization,
    out: PythonWriter,
) -> None:
    """The functions that a caller needs."""
    constants = dict(specialization.constexprs)
    names = [parameter.name for parameter in specialization.parameters]
    last = max((at for at, name in enumerate(names) if name not in constants), default=-1)
    given = [f"{name}={constants[name]!r}" if at > last else name for at, name in enumerate(names)]
    kernel = specialization.kernel
    out.line("@Launcher")
    out.call(f"def {kernel}", ["grid", *given], "):")
    with out.deeper():
        who = "pairs of CTAs" if program.pairs else "CTAs"
        out.line(f'"""{kernel}[grid](...): {_walked(program, who)} its launch grid."""')
        for name in [name for at, name in enumerate(names) if name in constants and at < last]:
            out.line(f"if {name} != {constants[name]!r}:")
            out.line(f'    raise ValueError(f"{kernel} was made for {name} = {constants[name]!r}, not {{{name}}}")')
        out.line(f"instances = {_instances(program)}")
        if program.once and "together" in parameters:
            for line in together(program.once, lambda expr: ast.unparse(ast.parse(host(expr), mode="eval"))):
                if out.fits("", [line], ""):
                    out.line(line)
                else:
                    name, _, value = line.partition(" = ")
                    out.assign(name, value)
        places = f"{program.ctas} * multiprocessors()" if program.ctas > 1 else "multiprocessors()"
        warps = ["num_warps=4"]
        if program.pairs:
            places, warps = f"multiprocessors() // {CTAS}", ["num_warps=4", f"num_ctas={CTAS}"]
        if program.cancels:  # one for each instance, whose place another may take
            places = "instances"
        of = {d.name: d for d in descriptors}
        arguments = []
        for name in parameters:
            head, *given = _argument(name, of, program)
            text = f"{head}({', '.join(given)})" if given else head
            if given and not out.fits("", [text], ","):
                out.call(f"{name} = {head}", given)
                text = name
            arguments.append(text)
        count = places if program.cancels else f"min(instances, {places})"
        out.call(f"{entry}[({count},)]", [*arguments, *warps])


def _walked(program: WarpProgram, who: str) -> str:
    if program.cancels:
        return "CTAs take over the places of others, which have not started, in"
    return f"as many {who} as the GPU has room for walk"


def _instances(program: WarpProgram) -> str:
    """How many there are of what is walked: instances, or pairs of them."""
    sizes = [f"grid[{axis}]" for axis in range(3)]
    if program.pairs and program.cluster is not None:
        sizes[program.cluster.axis] = f"({sizes[program.cluster.axis]} + 1) // {CTAS}"
    return " * ".join(sizes) + ("  # pairs" if program.pairs else "")


def _argument(name: str, descriptors: dict[str, DescriptorParameter], program: WarpProgram) -> list[str]:
    """What the launcher passes for a parameter of the kernel: a value, or a function and what it is called with."""
    if name == COUNTER:
        return [f"{COUNTER}()"]
    if name in descriptors:
        found = descriptors[name]
        entry = program.maps[found.map]
        block = f"[{', '.join(map(str, found.block))}]"
        if _is_given(entry):
            return ["descriptor", entry.argument, block, found.layout]
        if host(entry.offset) != "0":
            raise exc.NotInGluon(f"the descriptor of `{entry.argument}` begins in the middle of it", hint="`--as cuda`")
        each = zip(entry.sizes, entry.strides, strict=True)
        sizes = ", ".join(
            _within(entry.argument, stride) if size is None else _bare(host(size)) for size, stride in each
        )
        strides = ", ".join(_bare(host(stride)) for stride in entry.strides)
        return ["TensorDescriptor", entry.argument, f"[{sizes}]", f"[{strides}]", block, f"{found.layout}.value"]
    return [f"grid[{name.removeprefix('grid_')}]" if name.startswith("grid_") else name]


def _within(argument: str, stride: Expr) -> str:
    """The size of an axis that the kernel does not bound."""
    return f"steps_within({argument}, {_bare(host(stride))})"


def _is_given(entry: TensorMapSpec) -> bool:
    """Whether a map is what the descriptor of the call describes."""
    name = entry.argument
    rank = len(entry.box)
    sizes = [f"{name}.shape[{axis}]" for axis in range(rank)]
    strides = [*(f"{name}.strides[{axis}]" for axis in range(rank - 1)), "1"]
    said = [host(size) for size in entry.sizes if size is not None], [host(stride) for stride in entry.strides]
    return said == (sizes, strides) and host(entry.offset) == "0"


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "div": "//", "rem": "%", "shr": ">>"}


def host(expr: Expr) -> str:
    """An expression over arguments and the grid, in Python; none of them is negative."""
    match expr:
        case Number(value):
            return repr(value)
        case Symbol(_, name):
            return name if name.isidentifier() else _of_descriptor(name)
        case NumPrograms(axis):
            return f"grid[{axis}]"
        case Local(name):
            return name
        case Apply("cast", (operand,)):
            return host(operand)
        case Apply("max" | "min" as kind, operands):
            return f"{kind}({', '.join(map(host, operands))})"
        case Apply(kind, (left, right)) if kind in _SIGNS:
            return f"({host(left)} {_SIGNS[kind]} {host(right)})"
    raise exc.NotInGluon("the launcher would have to compute what is not known at a launch", hint="`--as cuda`")


def _bare(text: str) -> str:
    """A value without the parentheses around all of it."""
    depths = [text[: at + 1].count("(") - text[: at + 1].count(")") for at in range(len(text))]
    return text[1:-1] if text.startswith("(") and 0 not in depths[:-1] else text


def _of_descriptor(name: str) -> str:
    base, what, axis = name.rsplit(".", 2)
    return f"{base}.{'shape' if what == 'shape' else 'strides'}[{axis}]"
