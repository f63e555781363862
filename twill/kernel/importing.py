"""Importing the user's kernel file: the only code of the user that Twill ever executes.

The file is imported under a private module name, or, if it lies in a package, as the module of the package that it is;
what it prints goes to stderr, no byte code is written, `sys.path` is left as it was, and so is `sys.modules`, but for
installed libraries. The GPU that it sees is `twill.kernel.gpu_free`'s, and launches do nothing.

A file may compute at its top once its kernels are defined: examples, tests, measurements. What fails there (a launch
did nothing, so its results are wrong) is told on the error stream and does not matter; what fails before is an error.
"""

from __future__ import annotations

import ast
import contextlib
import functools
import hashlib
import importlib
import linecache
import sys
import traceback
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from triton import knobs
from triton.runtime.jit import JITFunction

from twill.exc import KernelFileMissing, KernelImportFailed
from twill.kernel.gpu_free import gpu_free
from twill.kernel.launches import not_launched
from twill.kernel.modules import is_installed, module_of

DEEPEST = 16  # wrappers around a kernel
_PACKAGES_STAY = ContextVar("packages stay imported", default=False)


@dataclass(frozen=True)
class KernelFile:
    """An imported kernel file.

    functions: every `@triton.jit` function defined in the file, by name (out of whatever wraps them). kernels: those
    that no other one of them calls. wrapped: the same names, and what the module has there.
    """

    path: str
    functions: Mapping[str, JITFunction]
    kernels: tuple[str, ...]
    wrapped: Mapping[str, Any]


def let_packages_stay() -> None:
    """From now on a user's packages stay imported, as installed ones do: for a process that imports many files of one.

    A package that registers something where nothing may be registered twice (operators of PyTorch) can be imported only
    once. A file of it that changes afterwards is not imported again.
    """
    _PACKAGES_STAY.set(True)


def load(file: str) -> KernelFile:
    """Import `file` (once per content). Raises `KernelFileMissing`, `KernelImportFailed`."""
    path = Path(file)
    if not path.is_file():
        raise KernelFileMissing(
            "there is no such file", file=file,
            hint="give the path of a Python file with a kernel, or an importable module, as in package.ops",
        )  # fmt: skip
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
    linecache.checkcache(path)
    package, directory = module_of(path)
    name = package or f"_twill_kernel_{hashlib.sha256(path.encode() + source).hexdigest()[:16]}"
    with _private_import(name, directory):
        if not _stays(path, packaged=bool(package)):
            sys.modules.pop(name, None)  # it may have been another text
        module = sys.modules.get(name) or _import(file, path, name, source, packaged=bool(package))
    wrapped = {
        function.__name__: value
        for value in vars(module).values()
        if (function := unwrap(value)) is not None and function.__module__ == module.__name__
    }
    functions = {name: function for name, value in wrapped.items() if (function := unwrap(value)) is not None}
    return KernelFile(file, MappingProxyType(functions), _kernels(functions), MappingProxyType(wrapped))


def _import(file: str, path: str, name: str, source: bytes, *, packaged: bool) -> ModuleType:
    """The module, executed. Its package is imported first, as Python does."""
    module = ModuleType(name)
    module.__file__ = path
    try:
        if packaged and Path(path).name == "__init__.py":
            return importlib.import_module(name)
        if packaged:
            module.__package__ = name.rpartition(".")[0]
            parent = importlib.import_module(module.__package__)
            if name in sys.modules:
                return sys.modules[name]
            setattr(parent, name.rpartition(".")[2], module)
        sys.modules[name] = module
        exec(compile(source, path, "exec", dont_inherit=True), module.__dict__)
    except (Exception, SystemExit) as error:
        lines = _lines(path, error)
        if not lines or lines[0] <= _last_definition(source):
            sys.modules.pop(name, None)
            raise _import_error(file, path, error) from None
        what = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        print(f"{file}:{lines[0]}: left out from here on, below all kernels: {what}", file=sys.stderr)
    return module


def unwrap(value: object) -> JITFunction | None:
    """The JIT function inside whatever holds it as `fn`: autotuners, heuristics, their subclasses, wrappers of others.

    None if there is none.
    """
    seen = 0
    while value is not None and not isinstance(value, JITFunction | type | ModuleType) and seen < DEEPEST:
        value = getattr(value, "__dict__", {}).get("fn")
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


def _last_definition(source: bytes) -> int:
    """The last line of the last statement at the top of a file in which `jit` is used. Without any, of the file."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return sys.maxsize
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    names = {"jit", *(one.asname for node in imports for one in node.names if one.name == "jit" and one.asname)}
    lines = [
        top.end_lineno or top.lineno
        for top in tree.body
        for node in ast.walk(top)
        if (isinstance(node, ast.Name) and node.id in names) or (isinstance(node, ast.Attribute) and node.attr == "jit")
    ]
    return max(lines, default=sys.maxsize)


@contextlib.contextmanager
def _private_import(name: str, directory: str) -> Iterator[None]:
    """The directory is importable, as when a file in it is run as a script, only while the file is imported."""
    path, modules, no_bytecode = list(sys.path), dict(sys.modules), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, directory)
    try:
        with contextlib.redirect_stdout(sys.stderr), gpu_free(), not_launched():
            yield
    finally:
        sys.path[:] = path
        sys.dont_write_bytecode = no_bytecode
        for other in set(sys.modules) - set(modules):
            if _is_private(sys.modules[other], name, other, directory):
                del sys.modules[other]
        sys.modules.update(modules)


def _is_private(candidate: ModuleType, name: str, known_as: str, directory: str) -> bool:
    """Whether the import may not leave it behind: the file itself or a neighbour of it.

    Installed libraries that the file imports stay, and it with them if it is of one: half of them cannot be imported
    twice.
    """
    origin = getattr(candidate, "__file__", None) or ""
    packaged = "." in known_as or hasattr(candidate, "__path__")
    return not _stays(origin, packaged=packaged) and (known_as == name or origin.startswith(directory + "/"))


def _stays(path: str, *, packaged: bool) -> bool:
    return is_installed(path) or (packaged and _PACKAGES_STAY.get())


def _lines(path: str, error: BaseException) -> list[int]:
    """The lines of the file that led to the error, outermost first."""
    return [frame.lineno or 0 for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]


def _import_error(file: str, path: str, error: BaseException) -> KernelImportFailed:
    if isinstance(error, SyntaxError) and error.filename == path:
        return KernelImportFailed(f"SyntaxError: {error.msg}", file=file, line=error.lineno or 0)
    lines = _lines(path, error)
    what = str(error).strip().splitlines()
    return KernelImportFailed(
        f"importing the file raised {type(error).__name__}" + (f": {what[0]}" if what else ""),
        file=file,
        line=lines[-1] if lines else 0,
        hint='keep what needs another package out of the import: put it under `if __name__ == "__main__":`',
    )
