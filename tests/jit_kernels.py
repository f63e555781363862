"""Triton kernels for tests of `twill.jit`, the manifest of one as if it had been emitted, and the calls of it."""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
import triton
import triton.language as tl
from triton.tools.tensor_descriptor import TensorDescriptor

import twill
from tests.fake_driver import FakeDriver, forget, install
from tests.fake_triton import FakeTriton, installed
from twill.manifest.document import SCHEMA, CallArgument, KernelParameter, Manifest, MapEntry, Promise, sha256
from twill.manifest.evaluate import ScalarOperation
from twill.runtime import library
from twill.runtime.artifact import NAME, artifact, to_text
from twill.runtime.reasons import NOTES
from twill.runtime.request import Prepared, PrepareRequest
from twill.store.sqlite import SqliteStore

CODE = b"the cubin"


@triton.jit  # type: ignore[untyped-decorator]
def scale(a_desc, x, M, N, s, BLOCK: tl.constexpr, dtype: tl.constexpr = tl.bfloat16):  # type: ignore[no-untyped-def]
    a = a_desc.load([tl.program_id(0) * BLOCK, 0])
    tl.store(x + tl.arange(0, BLOCK) * N, tl.sum(a.to(tl.float32), 1) * s + M)


@triton.jit  # type: ignore[untyped-decorator]
def plain(x, n, BLOCK: tl.constexpr):  # type: ignore[no-untyped-def]
    tl.store(x + tl.arange(0, BLOCK), n)


MANIFEST = Manifest(
    schema=SCHEMA, kernel="scale", spec="launch", file=__file__, machine="h200", architecture="sm_90a",
    function="twill_scale", threads=384, shared=1024,
    arguments=(
        CallArgument("a_desc", "descriptor", "tensordesc<bf16[128, 64]>", "bf16", (128, 64)),
        CallArgument("x", "pointer", "*fp32", "f32"),
        CallArgument("M", "number", "i32"),
        CallArgument("N", "number", "i32"),
        CallArgument("s", "number", "fp32"),
        CallArgument("BLOCK", "constant", value=128),
        CallArgument("dtype", "constant", value="tl.bfloat16", optional=True, default=None),
    ),
    promises=(Promise("a_desc", 16), Promise("x", 16), Promise("M", 16), Promise("N", 16)),
    parameters=(
        KernelParameter("map", "map0", "bf16", 0), KernelParameter("map", "map1", "f32", 1),
        KernelParameter("scalar", "M", "i32", 6), KernelParameter("pointer", "x", "f32", 5),
        KernelParameter("scalar", "s", "f32", 8),
        *(KernelParameter("grid", f"grid{axis}", "u32", axis) for axis in range(3)),
    ),
    maps=(
        MapEntry("a_desc", "bf16", ("a_desc.shape.0", "a_desc.shape.1"), ("a_desc.stride.0", 1), 0, (64, 64), 128),
        MapEntry("x", "f32", (None, "N"), (ScalarOperation("mul", "i32", ("N", 2)), 1), 0, (64, 32), 128),
    ),
    grid=(), loads=("a_desc",), stores=("x",), reduces=(),
    apart=(), changes=(), strict=False, fp_fusion=True, schedule="key", cubin=sha256(CODE),
)  # fmt: skip
SIZES = [128, 128, 4, 8, 4, 4, 4, 4]


def emitted(request: PrepareRequest) -> Prepared:
    """What the helper says of a kernel that it emitted."""
    return Prepared(request.key, "emitted", artifact=to_text(artifact(request.key, MANIFEST.text(), CODE)))


@dataclass(eq=False)
class Compiled:
    """What Triton gives back, one for each variant."""

    asm: dict[str, str] = field(default_factory=lambda: {"ttir": "the module"})
    metadata: Any = field(default_factory=lambda: SimpleNamespace(num_warps=8, shared=4096))
    function: int = 4711


@dataclass
class World:
    """Triton and CUDA as tests have them. requests: what the helper was asked; answer: what it says (None: nothing).
    gpu: where all tensors are."""

    triton: FakeTriton
    cuda: FakeDriver
    path: Path
    log: pytest.LogCaptureFixture
    answer: Callable[[PrepareRequest], Prepared] | None = None
    requests: list[PrepareRequest] = field(default_factory=list)
    originals: list[tuple[Any, Any, Any]] = field(default_factory=list)
    a: torch.Tensor = field(default_factory=lambda: torch.zeros(256, 64, dtype=torch.bfloat16))
    x: torch.Tensor = field(default_factory=lambda: torch.zeros(4096))
    gpu: int = 0
    triton_cost: float = 10.0  # microseconds of one launch of Triton's

    @property
    def store(self) -> str:
        return str(self.path / "store")

    @property
    def said(self) -> list[str]:
        """What was logged for users."""
        return [record.getMessage() for record in self.log.records if record.name == "twill.jit"]

    def jit(self, kernel: Any = scale, **options: Any) -> Any:
        """The kernel under twill.jit, its launches by Triton only noted."""
        fast = twill.jit(kernel, **{"store": self.store, "budget": 10.0, "prefer": "emitted", **options})
        inner = fast
        while not hasattr(inner, "twill_original"):
            inner = inner.fn
        self.note(inner.twill_original)
        return fast

    def note(self, original: Any) -> None:
        compiled: dict[str, Compiled] = {}

        def run(*args: Any, grid: Any, warmup: bool, **kwargs: Any) -> Any:
            if not warmup:
                self.originals.append((grid, args, kwargs))
                self.cuda.elapsed += self.triton_cost
            *_, binder = original.device_caches[self.triton.device]
            _, specialization, options = binder(*args, **kwargs)
            return compiled.setdefault(f"{specialization} {options}", Compiled())

        original.__dict__["run"] = run

    def arguments(self, **changed: Any) -> tuple[list[Any], dict[str, Any]]:
        """Of a call, by position and by name; changed: those that are not the usual ones."""
        given = {"a_desc": TensorDescriptor.from_tensor(self.a, [128, 64]), "x": self.x, "M": 256, "N": 64, "s": 0.5}
        given |= {"BLOCK": 128, **changed}
        first = [given.pop(name) for name in ("a_desc", "x", "M")]
        return first, given

    def call(self, fast: Any, grid: Any = (2,), **changed: Any) -> Any:
        """One launch; changed: arguments that are not the usual ones."""
        args, kwargs = self.arguments(**changed)
        return fast[grid](*args, **kwargs)

    def key(self, **changed: Any) -> str:
        """The key of the variant that `call` is."""
        fast = self.jit(store=str(self.path / "nothing"))
        self.call(fast, **changed)
        self.originals.pop()
        self.log.clear()
        (known,) = fast.twill_dispatch.variants.known.values()
        return str(known.shelf.key)

    def keep(self, key: str, data: bytes = b"") -> None:
        """Put an emitted kernel into the store."""
        store = SqliteStore(self.store)
        store.put_artifact(key, NAME, data or artifact(key, MANIFEST.text(), CODE))
        store.close()


@contextmanager
def world(monkeypatch: pytest.MonkeyPatch, path: Path, log: pytest.LogCaptureFixture) -> Iterator[World]:
    """Everything that is not `twill.jit` itself is played."""
    made: World
    monkeypatch.delenv("TWILL_JIT", raising=False)
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: made.gpu)
    seen = importlib.import_module("twill.runtime.tensor")
    real = seen.view

    def view(value: Any, name: str, stream: int = 0) -> Any:
        if not isinstance(value, torch.Tensor):
            return real(value, name, stream)
        kind = seen._TORCH[str(value.dtype)]
        return seen.TensorView(value.data_ptr(), kind, tuple(value.shape), tuple(value.stride()), made.gpu, value)

    for user in ("tensor", "arguments", "launch", "kernel"):
        monkeypatch.setattr(f"twill.runtime.{user}.view", view)
    cuda = install(monkeypatch, FakeDriver(SIZES))
    monkeypatch.setattr(library, "_libraries", {})
    monkeypatch.setattr(NOTES, "seen", set())

    class Helper:
        def ask(self, request: PrepareRequest, notify: Callable[[Prepared], None], launches: Any = None) -> None:
            made.requests.append(request)
            if made.answer is not None:
                notify(made.answer(request))

    monkeypatch.setattr(library, "Helper", Helper)
    with installed() as fake, log.at_level(logging.WARNING):
        made = World(fake, cuda, path, log)
        yield made
    for kernel in (scale, plain):
        kernel.__dict__.pop("run", None)
    forget()
