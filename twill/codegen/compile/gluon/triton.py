"""Modules of Gluon, compiled by the Triton that is installed; `twill.codegen.print.gluon.versions` has its names."""

from __future__ import annotations

import importlib.util
import re
import struct
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from twill import exc
from twill.codegen.compile.gluon.added_waits import added_waits
from twill.codegen.compile.gluon.sections import sections
from twill.codegen.print.gluon.shared import FILE, NAME, PATH, shared_text
from twill.codegen.print.gluon.versions import (
    COMPILING,
    ELEMENTS,
    NEWEST,
    OLDEST,
    OLDEST_ATOMICS,
    OLDEST_BLACKWELL,
    OLDEST_PAIRS,
)

LANES, WARPS = 32, 4
"""Of a warp; of the first partition, to which Triton adds those of the others."""
BLACKWELL = 100  # the first compute capability with tensor memory, times ten
_WITH_LENGTH = 0x04
_FRAME_SIZE = (_WITH_LENGTH, 0x11)


@dataclass(frozen=True)
class CompiledModule:
    """What Triton made of a kernel. shared: bytes. warps: of a CTA, all partitions together. version: Triton's. local:
    bytes a thread in local memory, where registers are spilled to. waits: for products that nobody asked for."""

    ptx: str
    cubin: bytes
    entry: str
    shared: int
    warps: int
    version: str
    local: int
    waits: int


def gluon() -> dict[str, Any]:
    """What compiling needs of the Triton that is installed. Raises NoGluon, in one sentence, if it lacks any of it, or
    of what the file that modules share asks for."""
    found: dict[str, Any] = {}
    for module, name in COMPILING:
        try:
            found[name] = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError) as error:
            raise exc.NoGluon(_version(), OLDEST, NEWEST, f"{module}.{name}") from error
    try:
        shared_module(PATH, shared_text())
    except (ImportError, AttributeError) as error:
        raise exc.NoGluon(_version(), OLDEST, NEWEST, _lacking(error)) from error
    return found


def _lacking(error: ImportError | AttributeError) -> str:
    """The name without which a module could not be run."""
    if isinstance(error, AttributeError):
        return str(error.name)
    return re.sub(r"cannot import name '(\w+)' from '([\w.]+)'.*", r"\2.\1", str(error))


def available(capability: int, ctas: int = 1, atomics: bool = False) -> dict[str, Any]:
    """The same for an architecture (compute capability times ten), and so many CTAs that multiply together. atomics:
    whether whole tiles are added to global memory. Raises NoGluon also where the Triton is too old."""
    has = gluon()
    if capability >= BLACKWELL and _edition(_version()) < _edition(OLDEST_BLACKWELL):
        raise exc.NoGluon(_version(), OLDEST_BLACKWELL, NEWEST, "Gluon for Blackwell as modules need it")
    if ctas > 1 and _edition(_version()) < _edition(OLDEST_PAIRS):
        raise exc.NoGluon(_version(), OLDEST_PAIRS, NEWEST, "wait of two CTAs before they allocate tensor memory")
    if atomics and _edition(_version()) < _edition(OLDEST_ATOMICS):
        raise exc.NoGluon(_version(), OLDEST_ATOMICS, NEWEST, "copies that add tiles to global memory")
    return has


def _version() -> str:
    try:
        return str(importlib.import_module("triton").__version__)
    except ImportError:
        return ""


def _edition(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2] if part.isdigit())


def load(path: Path) -> ModuleType:
    """A module from its file, with the file that modules share from beside it, or as it is emitted. Triton reads the
    source of kernels from there."""
    gluon()
    beside = path.parent / FILE
    text = beside.read_text(encoding="utf-8") if beside.exists() else shared_text()
    with _known(shared_module(PATH if text == shared_text() else beside, text)):
        return _module(f"twill_gluon_{path.stem}", path)


@lru_cache(maxsize=4)
def shared_module(file: Path, text: str) -> ModuleType:
    """The file that modules share, which has this text. Triton looks for the source of each of its functions when it is
    run: that takes ten times as long as a module, so it is run once."""
    return _module(NAME, file)


def _module(name: str, path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with _known(module):
        spec.loader.exec_module(module)
    return module


@contextmanager
def _known(module: ModuleType) -> Iterator[None]:
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        del sys.modules[module.__name__]
        if before is not None:
            sys.modules[module.__name__] = before


def descriptor_type(element: str, block: tuple[int, ...], layout: object) -> str:
    """The type of a tensor descriptor in a signature."""
    return f"tensordesc<{ELEMENTS.get(element, element)}[{','.join(map(str, block))}],{layout!r}>"


def scalar_type(element: str) -> str:
    """The type of a number or pointer in a signature."""
    star = "*" if element.startswith("*") else ""
    return star + ELEMENTS.get(element.removeprefix("*"), element.removeprefix("*"))


def compile_kernel(
    kernel: Any, signature: Mapping[str, str], multiples: Mapping[str, int], capability: int, fused: bool, ctas: int = 1
) -> CompiledModule:
    """The kernel for an architecture. multiples: of parameters that are multiples of 16. fused: whether a product and a
    sum may be one operation. ctas: of a cluster. Errors: GluonRejected; NoGluon for what the installed Triton is too
    old for."""
    has = available(capability, ctas)
    names = list(signature)
    attributes = {(names.index(n),): [["tt.divisibility", m]] for n, m in multiples.items() if n in names}
    source = has["GluonASTSource"](kernel, dict(signature), constexprs={}, attrs=attributes)
    options = {"num_warps": WARPS, "num_ctas": ctas, "enable_fp_fusion": fused}
    try:
        made = has["compile"](source, target=has["GPUTarget"]("cuda", capability, LANES), options=options)
    except Exception as error:
        raise exc.GluonRejected(_version(), f"{type(error).__name__}: {error}") from error
    metadata = made.metadata
    warps = getattr(metadata, "num_warps", WARPS)
    cubin: bytes = made.asm["cubin"]
    ptx: str = made.asm["ptx"]
    local, waits = local_bytes(cubin), added_waits(ptx, cubin)
    return CompiledModule(ptx, cubin, metadata.name, metadata.shared, warps, _version(), local, waits)


def local_bytes(cubin: bytes) -> int:
    """The largest stack frame of a cubin's functions, in bytes a thread: section `.nv.info` of the ELF file, whose
    entries of kind FRAME_SIZE have the function's symbol and the bytes."""
    frames = [0]
    for content in sections(cubin, ".nv.info"):
        at = 0
        while at < len(content):
            form, kind, length = struct.unpack_from("<BBH", content, at)
            if (form, kind) == _FRAME_SIZE:
                frames.append(struct.unpack_from("<I", content, at + 8)[0])
            at += 4 + (length if form == _WITH_LENGTH else 0)
    return max(frames)
