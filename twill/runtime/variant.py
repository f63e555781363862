"""A variant of a kernel: the argument types, constants and promises that one call has, as Triton specializes them.

Triton's own binder says them, so that an emitted kernel is used exactly where Triton would use one compiled kernel.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import metadata
from pathlib import Path
from typing import Any

from twill.machine.names import list_machines
from twill.manifest.document import Constant, Manifest

NVRTC = "nvidia-cuda-nvrtc"  # the package
PACKAGE = Path(__file__).resolve().parent.parent
EMITS = (
    "*.py", *(f"{room}/**/*.py" for room in (
        "codegen", "graph", "kernel", "machine", "manifest", "ptx", "schedule", "smt", "solve", "tile", "toml", "zlp",
    )), "codegen/**/*.cuh", "runtime/tensor_map.py", "machines/*.toml", "../machines/*.toml",
)  # fmt: skip
"""What decides how a kernel is emitted: the key of an emitted kernel has their hash."""
NUMBERS = frozenset({"num_warps", "num_stages", "num_ctas", "maxnreg"})  # options that say how, not what

_DTYPES = {
    "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64", "fp8e4nv": "float8e4nv",
    "fp8e5": "float8e5", "int1": "int1",
    **{f"{sign}int{bits}": f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)},
}  # fmt: skip


class Unsupported(Exception):
    """A call that no emitted kernel can serve; the message is the reason."""


@dataclass(frozen=True)
class Variant:
    """signature: argument -> Triton's type. constants: argument -> value. divisible: arguments that are multiples of
    16 (bytes, for a pointer). All in the order of the parameters."""

    signature: tuple[tuple[str, str], ...]
    constants: tuple[tuple[str, Constant], ...]
    divisible: tuple[str, ...]

    def text(self) -> str:
        """For people: `a=*bf16, M=i32, BLOCK_M=128`."""
        types = [f"{name}={kind}" for name, kind in self.signature]
        return ", ".join([*types, *(f"{name}={value}" for name, value in self.constants)])

    def key(self, kernel: str, source: str, machine: str, compiler: str, unusual: Sequence[str] = ()) -> str:
        """SHA-256, as hexadecimal text, over all that the emitted kernel depends on.

        source: Triton's hash of the kernel's text and of all that it calls. machine: as `machine_name` has it.
        compiler: versions that emit. unusual: what is asked of the emitted kernel beyond the rest ("strict math",
        "gluon").
        """
        constants = [(name, type(value).__name__, repr(value)) for name, value in self.constants]
        parts = (kernel, source, machine, compiler, self.signature, constants, self.divisible, *unusual)
        return hashlib.sha256(json.dumps(parts).encode()).hexdigest()

    def fits(self, manifest: Manifest) -> bool:
        """Whether a manifest's kernel is this variant's."""
        arguments = manifest.arguments
        types = tuple((a.name, a.type) for a in arguments if a.kind != "constant")
        constants = tuple((a.name, a.value) for a in arguments if a.kind == "constant")
        same = tuple(map(repr, sorted(constants))) == tuple(map(repr, sorted(self.constants)))
        return same and [(n, _spaced(t)) for n, t in types] == [(n, _spaced(t)) for n, t in self.signature]


def variant(names: Sequence[str], specialization: Sequence[Any], values: Sequence[Any]) -> Variant:
    """The variant of a call: Triton's specialization and value of each parameter. Errors: Unsupported."""
    signature: list[tuple[str, str]] = []
    constants: list[tuple[str, Constant]] = []
    divisible: list[str] = []
    for name, said, value in zip(names, specialization, values, strict=True):
        kind, promise = said if isinstance(said, tuple) and len(said) == 2 else (said, None)
        if not isinstance(kind, str):
            raise Unsupported(f"argument {name} is a tuple")
        if kind == "constexpr":
            constants.append((name, constant(name, value)))
            continue
        signature.append((name, kind))
        if promise and "D" in str(promise):
            divisible.append(name)
    return Variant(tuple(signature), tuple(constants), tuple(divisible))


def constant(name: str, value: Any) -> Constant:
    """A constexpr as documents have it: types of Triton's language by name. Errors: Unsupported."""
    if type(value).__name__ == "constexpr":
        value = value.value
    if value is None or isinstance(value, bool | int | float | str):
        return value
    known = _DTYPES.get(str(value)) if type(value).__name__ == "dtype" else None
    if known is None:
        raise Unsupported(f"constexpr {name} is a {type(value).__name__}")
    return f"tl.{known}"


@cache
def compiler(triton: str) -> str:
    """A hash of everything that emits kernels: the source of Twill, the machine files, versions of Triton and NVRTC."""
    digest = hashlib.sha256(f"{triton}\0{nvrtc()}\0".encode())
    for pattern in EMITS:
        for path in sorted(PACKAGE.glob(pattern)):
            digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def nvrtc() -> str:
    """The version of the CUDA compiler: of its package; without one, what the library says; "" if there is none."""
    with contextlib.suppress(metadata.PackageNotFoundError):
        return metadata.version(NVRTC)
    try:
        status, *version = importlib.import_module("cuda.bindings.nvrtc").nvrtcVersion()
    except Exception:  # the bindings say in many ways that there is no library
        return ""
    return ".".join(map(str, version)) if not int(status) else ""


@lru_cache(maxsize=64)
def machine_digest(machine: str, stamp: tuple[int, int]) -> str:
    """The digest of the machine in a file. stamp: its time and size, so that a changed file is read again. Errors:
    those of `load_machine`."""
    from twill.machine.file import load_machine

    return load_machine(machine).digest()


def machine_name(machine: str) -> str:
    """A machine as keys have it: a described one by name, as `compiler` covers its file; one in a file by its digest.
    Errors: those of `load_machine`."""
    path = Path(machine)
    if machine in list_machines() or not path.is_file():
        return machine
    about = path.stat()
    return machine_digest(str(path.resolve()), (about.st_mtime_ns, about.st_size))


def _spaced(kind: str) -> str:
    return re.sub(r"\s", "", kind)
