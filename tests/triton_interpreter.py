"""Triton's interpreter on NumPy arrays, without PyTorch, beside the compiler and in the same process."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import triton.language as tl
from triton.language import core
from triton.language.extra.cuda import libdevice
from triton.runtime import interpreter
from triton.runtime.jit import JITFunction

from tests.triton_differences import SEMANTIC, compiled_arithmetic

Array = Any

NUMPY: dict[str, Any] = {
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "u8": np.uint8, "u16": np.uint16, "u32": np.uint32, "u64": np.uint64,
    "fp16": np.float16, "bf16": np.uint16, "fp32": np.float32, "fp64": np.float64,
    "fp8e4nv": np.uint8, "fp8e5": np.uint8,
}  # fmt: skip
"""What Triton's interpreter keeps an element type in; bf16 and fp8 as their bits."""
LANGUAGE = {
    "i1": tl.int1, "i8": tl.int8, "i16": tl.int16, "i32": tl.int32, "i64": tl.int64,
    "u8": tl.uint8, "u16": tl.uint16, "u32": tl.uint32, "u64": tl.uint64,
    "fp16": tl.float16, "bf16": tl.bfloat16, "fp32": tl.float32, "fp64": tl.float64,
    "fp8e4nv": tl.float8e4nv, "fp8e5": tl.float8e5,
}  # fmt: skip


@dataclass(frozen=True)
class Block:
    """A tensor descriptor that the host makes: a row-major tensor seen in blocks."""

    array: Array
    block: tuple[int, ...]


@contextmanager
def interpreting() -> Iterator[None]:
    """Triton's language means its interpreter; nothing can be compiled meanwhile."""
    called = JITFunction.__call__
    with compiled_arithmetic():
        scope = interpreter._patch_lang(_language)
        interpreter._patch_builtin(libdevice, interpreter.interpreter_builder, scope)
        JITFunction.__call__ = lambda self, *args, **kwargs: _plain(self)(*args, **kwargs)
        try:
            yield
        finally:
            JITFunction.__call__ = called
            scope.restore()


def _language() -> object:
    """Its globals have Triton's language and its core, which are what Triton looks for."""
    return tl, core


_functions: dict[int, tuple[JITFunction, Callable[..., Any]]] = {}  # by identity: Triton hashes what it compiles


def _plain(function: JITFunction) -> Callable[..., Any]:
    """The Python function that Triton's interpreter calls for a JIT function."""
    if id(function) not in _functions:
        _functions[id(function)] = function, rewritten(function.fn, function.src)
    return _functions[id(function)][1]


def rewritten(function: Callable[..., Any], source: str) -> Callable[..., Any]:
    """The function with assignments and comparisons as Triton's interpreter wants them."""
    tree = interpreter.ASTTransformer().visit(ast.parse(source))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            node.decorator_list = []
    ast.fix_missing_locations(tree)
    names: dict[str, Any] = {}
    known = {name: value for name, value in vars(interpreter).items() if not name.startswith("__")}
    known["interpreter_semantic"] = SEMANTIC
    exec(compile(tree, "<interpreted>", "exec"), {**known, **function.__globals__}, names)
    made: Callable[..., Any] = names[function.__name__]
    return made


def run(
    kernel: JITFunction,
    grid: Sequence[int],
    signature: Mapping[str, str],
    arguments: Mapping[str, Any],
    constants: Mapping[str, Any],
) -> None:
    """Every program instance in order, within `interpreting()`. arguments: flat arrays for pointers, `Block`s for
    descriptors, numbers. They are written to in place."""
    x, y, z = (*grid, 1, 1, 1)[:3]
    interpreter.interpreter_builder.set_grid_dim(x, y, z)
    given = {name: _argument(kind, arguments[name]) for name, kind in signature.items()}
    function = rewritten(kernel.fn, kernel.src)
    for k in range(z):
        for j in range(y):
            for i in range(x):
                interpreter.interpreter_builder.set_grid_idx(i, j, k)
                function(**given, **constants)


def _argument(kind: str, value: Any) -> Any:
    if isinstance(value, Block):
        return _descriptor(kind, value)
    if kind.startswith("*"):
        element = LANGUAGE[kind[1:]]
        assert value.dtype == NUMPY[kind[1:]], (kind, value.dtype)
        pointer = tl.pointer_type(element)
        address = np.array([value.ctypes.data], np.uint64)
        return tl.tensor(interpreter.TensorHandle(address, pointer), pointer)
    element = LANGUAGE[kind]
    return tl.tensor(interpreter.TensorHandle(np.array([value]).astype(NUMPY[kind]), element), element)


def _descriptor(kind: str, value: Block) -> Any:
    element = kind[len("tensordesc<") : kind.index("[")]
    base = _argument(f"*{element}", value.array.reshape(-1))
    shape = [_argument("i32", extent) for extent in value.array.shape]
    strides: list[Any] = [_argument("i64", stride // value.array.itemsize) for stride in value.array.strides]
    strides[-1] = tl.constexpr(1)
    blocks = [tl.constexpr(extent) for extent in value.block]
    return interpreter.interpreter_semantic.make_tensor_descriptor(base, shape, strides, blocks)
