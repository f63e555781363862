"""Prints warp programs with a printer that has a fault: the modules are imported anew, one text among them changed."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.machinery import ModuleSpec
from importlib.resources import files
from types import ModuleType

from tests.printer_mutations import Mutation
from twill.codegen.print.cuda.printer import Printed
from twill.codegen.warp.program import WarpProgram

PACKAGE = "twill.codegen.print.cuda"


def source(file: str) -> str:
    """The text of a file of PACKAGE."""
    return files(PACKAGE).joinpath(file).read_text(encoding="utf-8")


def mutated(mutation: Mutation) -> str:
    """The file's text with the fault. ValueError: what is to be replaced does not stand there exactly once."""
    text = source(mutation.file)
    if (count := text.count(mutation.old)) != 1:
        raise ValueError(f"{mutation.kind}, {mutation.name}: stands {count} times in {mutation.file}")
    return text.replace(mutation.old, mutation.new)


def printed(program: WarpProgram, mutation: Mutation | None = None) -> tuple[Printed, str]:
    """A warp program as a printer with that fault prints it, and the whole CUDA text."""
    with _changed(mutation):
        printer = importlib.import_module(f"{PACKAGE}.printer")
        text = importlib.import_module(f"{PACKAGE}.source")
        made: Printed = printer.print_cuda(program)
        return made, text.standalone(made.text, made.shapes)


@contextmanager
def _changed(mutation: Mutation | None) -> Iterator[None]:
    """The modules of PACKAGE imported anew, one of them or a header with the fault; as before afterwards."""
    before = _forgotten()
    finder = _Finder(mutation) if mutation and mutation.file.endswith(".py") else None
    if finder:
        sys.meta_path.insert(0, finder)
    try:
        if mutation and not finder:
            _change_header(mutation)
        yield
    finally:
        if finder:
            sys.meta_path.remove(finder)
        _forgotten()
        package = sys.modules[PACKAGE]
        for name, module in before.items():
            sys.modules[name] = package.__dict__[name.rpartition(".")[2]] = module


def _forgotten() -> dict[str, ModuleType]:
    """The modules of PACKAGE that were imported, which are no longer."""
    package = importlib.import_module(PACKAGE)
    names = [name for name in sys.modules if name.startswith(PACKAGE + ".")]
    for name in names:
        package.__dict__.pop(name.rpartition(".")[2], None)
    return {name: sys.modules.pop(name) for name in names}


def _change_header(mutation: Mutation) -> None:
    text, module = mutated(mutation), importlib.import_module(f"{PACKAGE}.source")
    header = module.header
    module.__dict__["header"] = lambda name: (
        text.replace("#pragma once\n", "\n") if name == mutation.file else header(name)
    )


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Imports one module from a changed text."""

    def __init__(self, mutation: Mutation) -> None:
        self.name = f"{PACKAGE}.{mutation.file.removesuffix('.py')}"
        self.code = compile(mutated(mutation), mutation.file, "exec")

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Of that module alone."""
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        """Runs the changed text."""
        exec(self.code, module.__dict__)
