"""Small PTX kernels for tests of the executor, and launches of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from twill.codegen.verify.ptx.run import Argument, PointerArgument, PtxLaunch, Result, execute
from twill.ptx.parse import parse

Array = Any  # np.ndarray

HEAD = """.version 8.7
.target sm_90a
.address_size 64
.extern .shared .align 1024 .b8 memory[];
"""
REGISTERS = """
  .reg .pred %p<16>;
  .reg .b16 %h<16>;
  .reg .b32 %r<160>;
  .reg .f32 %f<160>;
  .reg .b64 %rd<32>;
  .reg .f64 %d<16>;
"""


def made_afresh(monkeypatch: pytest.MonkeyPatch) -> None:
    """Instructions become steps once more, by an executor that is changed, and what they become is not kept."""
    monkeypatch.setattr("twill.codegen.verify.ptx.build._built", [])
    monkeypatch.setattr("twill.codegen.verify.ptx.build._known", OrderedDict())


def kernel(body: str, parameters: Sequence[str] = (".u64 out",), variables: str = "") -> str:
    """A kernel of that body; registers are declared."""
    declared = ",\n".join(f"  .param {parameter}" for parameter in parameters)
    return f"{HEAD}{variables}\n.visible .entry k(\n{declared}\n)\n{{{REGISTERS}{body}\n  ret;\n}}\n"


def run(
    body: str,
    tensors: Mapping[str, Array],
    arguments: Sequence[Argument] | None = None,
    *,
    parameters: Sequence[str] | None = None,
    threads: int = 32,
    grid: tuple[int, int, int] = (1, 1, 1),
    shared: int = 0,
    variables: str = "",
    cluster: int = 1,
    registers: int = 0,
) -> Result:
    """The kernel, launched; by default its parameters are the tensors' addresses, in order."""
    given = [PointerArgument(name) for name in tensors] if arguments is None else list(arguments)
    names = [f".u64 {name}" for name in tensors] if parameters is None else parameters
    launch = PtxLaunch(given, tensors, grid, threads, shared, cluster, registers)
    return execute(parse(kernel(body, names, variables)), "k", launch)


def rules(result: Result) -> set[str]:
    """Of its findings."""
    return {finding.rule for finding in result.findings}


def each(instruction: str, *inputs: Array, out: Any) -> Array:
    """What `instruction` makes of the elements of `inputs`, a thread for each.

    The instruction names its operands `{d}` and `{0}`, `{1}`, ...; `out` is the dtype of the result.
    """
    count = len(inputs[0])
    lines = ["mov.u32 %r0, %tid.x;"]
    names = {"d": _register(np.dtype(out), 9)}
    for number, array in enumerate(inputs):
        names[str(number)] = _register(array.dtype, number + 1)
        lines += _access("ld", f"in{number}", names[str(number)], array.dtype)
    lines += [_formatted(instruction, names) + ";", *_access("st", "out", names["d"], np.dtype(out))]
    tensors = {f"in{number}": array for number, array in enumerate(inputs)} | {"out": np.zeros(count, out)}
    result = run("\n".join(lines), tensors, threads=count)
    assert not result.findings
    return result.tensors["out"]


def _formatted(instruction: str, names: Mapping[str, str]) -> str:
    for name, register in names.items():
        instruction = instruction.replace(f"{{{name}}}", register)
    return instruction


def _register(dtype: np.dtype[Any], number: int) -> str:
    if dtype.kind == "f":
        return f"%{'f' if dtype.itemsize == 4 else 'd'}{number}"
    return {2: "%h", 4: "%r", 8: "%rd"}[dtype.itemsize] + str(number)


def _access(name: str, tensor: str, register: str, dtype: np.dtype[Any]) -> list[str]:
    kind = f"f{8 * dtype.itemsize}" if dtype.kind == "f" else f"b{8 * dtype.itemsize}"
    place = f"ld.param.u64 %rd20, [{tensor}];\nmad.wide.u32 %rd21, %r0, {dtype.itemsize}, %rd20;"
    both = (register, "[%rd21]") if name == "ld" else ("[%rd21]", register)
    return [place, f"{name}.global.{kind} {both[0]}, {both[1]};"]
