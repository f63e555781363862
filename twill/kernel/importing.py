"""Importing the user's kernel file: the only code of the user that Twill ever executes.

The file is imported under a private module name; what it prints goes to stderr, no byte code is
written, and `sys.path` and `sys.modules` are left as they were.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import linecache
import sys
import traceback
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType

from triton import knobs
from triton.runtime.jit import JITFunction

from twill.exc import KernelFileMissing, KernelImportFailed
from twill.kernel.gpu_free import gpu_free


@dataclass(frozen=True)
class KernelFile:
    """An imported kernel file.

    functions: every `@triton.jit` function defined in the file, by name (autotuners and
    heuristics unwrapped). kernels: those that no other one of them calls.
    """

    path: str
    functions: Mapping[str, JITFunction]
    kernels: tuple[str, ...]


def load(file: str) -> KernelFile:
    """Import `file` (once per content). Raises `KernelFileMissing`, `KernelImportFailed`."""
    path = Path(file)
    if not path.is_file():
        raise KernelFileMissing("there is no such file", file=file, hint="give the path of a Python file with a kernel")
    if knobs.runtime.interpret:
        raise KernelImportFailed(
            "Triton is set to interpret kernels, not to compile them", file=file, hint="unset TRITON_INTERPRET"
        )
    try:
        source = path.read_bytes()
    except OSError as error:
        raise KernelFileMissing(f"the file cannot be read: {error.strerror}", file=file) from None
    return _load(file, str(path.resolve()), source)


@functools.lru_cache(maxsize=64)
def _load(file: str, path: str, source: bytes) -> KernelFile:
    module = ModuleType(f"_twill_kernel_{hashlib.sha256(path.encode() + source).hexdigest()[:16]}")
    module.__file__ = path
    linecache.checkcache(path)
    with _private_import(module, str(Path(path).parent)):
        try:
            exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
        except (Exception, SystemExit) as error:
            raise _import_error(file, path, error) from None
    functions = {
        function.__name__: function
        for function in map(unwrap, vars(module).values())
        if function is not None and function.__module__ == module.__name__
    }
    return KernelFile(file, MappingProxyType(functions), _kernels(functions))


def unwrap(value: object) -> JITFunction | None:
    """The JIT function inside autotuners and heuristics, None if there is none."""
    seen = 0
    while not isinstance(value, JITFunction) and type(value).__module__.startswith("triton.") and seen < 8:
        value = getattr(value, "fn", None)
        seen += 1
    return value if isinstance(value, JITFunction) else None


def line_of_def(function: JITFunction) -> int:
    """The line of the function's `def`, below its decorators."""
    for offset, line in enumerate(function.raw_src):
        if line.strip().startswith("def "):
            return int(function.starting_line_number) + offset
    return int(function.starting_line_number)


def _kernels(functions: Mapping[str, JITFunction]) -> tuple[str, ...]:
    called = {
        node.func.id
        for name, function in functions.items()
        for node in ast.walk(ast.parse(function.src))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id != name
    }
    return tuple(name for name in functions if name not in called)


@contextlib.contextmanager
def _private_import(module: ModuleType, directory: str) -> Iterator[None]:
    """The file's directory is importable, as when it is run as a script, only while it is imported."""
    path, modules, no_bytecode = list(sys.path), set(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, directory)
    sys.modules[module.__name__] = module
    try:
        with contextlib.redirect_stdout(sys.stderr), gpu_free():
            yield
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode = no_bytecode
        for name in set(sys.modules) - modules:
            if _is_private(sys.modules[name], module, directory):
                del sys.modules[name]


def _is_private(candidate: ModuleType, module: ModuleType, directory: str) -> bool:
    """Whether the import may not leave it behind: the file itself or a neighbour of it.

    Installed libraries that the file imports stay: half of them cannot be imported twice.
    """
    origin = getattr(candidate, "__file__", None) or ""
    return candidate is module or (
        origin.startswith(directory + "/") and "site-packages" not in origin and "dist-packages" not in origin
    )


def _import_error(file: str, path: str, error: BaseException) -> KernelImportFailed:
    if isinstance(error, SyntaxError) and error.filename == path:
        return KernelImportFailed(f"SyntaxError: {error.msg}", file=file, line=error.lineno or 0)
    lines = [frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    what = str(error).strip().splitlines()
    return KernelImportFailed(
        f"importing the file raised {type(error).__name__}" + (f": {what[0]}" if what else ""),
        file=file,
        line=lines[-1] if lines else 0,
        hint='keep what needs a GPU or another package out of the import: put it under `if __name__ == "__main__":`',
    )
