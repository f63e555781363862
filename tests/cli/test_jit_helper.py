"""Promises of the helper of twill.jit: from Triton's module to a kernel, or a reason; a service is never believed."""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
import triton

from tests import blackwell
from tests.fake_driver import FakeDriver, fake_torch, forget, install
from tests.golden_schedules import Example, machine, schedule
from tests.gpu.jit_services import SERVICES, played
from tests.modules import kept_module, request_of
from tests.services import playing, refusal
from twill import exc
from twill.cli import jit_helper
from twill.codegen.emission import extract, extract_module
from twill.exc import BudgetExhausted
from twill.graph.canonical import canonical_shape
from twill.kernel.specialization import resolve
from twill.runtime.artifact import NAME, RefusedVariant, from_text, read_artifact
from twill.runtime.kernel import EmittedKernel
from twill.runtime.recording import specialization_of
from twill.runtime.request import Prepared, PrepareRequest
from twill.runtime.variant import Variant
from twill.schedule.document import Schedule
from twill.schedule.key import KeyOptions, schedule_key
from twill.schedule.options import SolveOptions
from twill.store.sqlite import SqliteStore
from twill.tile.rewrite.pipeline import Allowed

GEMM, OTHER = Example("examples/gemm.py", "bf16"), Example("examples/layer_norm.py", "bf16")


@pytest.fixture(autouse=True)
def nothing_open() -> Iterator[None]:
    """Every test opens its own store."""
    yield
    for path in list(OPEN):
        jit_helper.opened(*path).close()
    OPEN.clear()
    jit_helper.opened.cache_clear()


OPEN: set[tuple[str, str]] = set()


def filled(path: Path) -> str:
    """A store with good schedules, as a solve for emission keeps them."""
    store = SqliteStore(path)
    for example in (GEMM, OTHER):
        graph, asked = extract(example.file, example.spec).graph, KeyOptions(fuse=False)
        key = schedule_key(graph, machine().digest(), asked)
        store.put(schedule(example).model_copy(update={"key": key}), graph, asked=asked, machine=machine())
    store.close()
    return str(path)


@pytest.mark.parametrize(("file", "spec"), [("examples/gemm.py", "bf16"), ("examples/attention.py", "causal")])
def test_triton_s_module_means_the_kernel_that_the_file_means(at_root: Path, file: str, spec: str) -> None:
    found = resolve(file, spec=spec)
    assert canonical_shape(extract_module(kept_module(found), found).graph) == canonical_shape(
        extract(file, spec).graph
    )


def test_a_stored_schedule_becomes_a_kernel_that_is_kept(at_root: Path, tmp_path: Path) -> None:
    request = request_of(resolve(GEMM.file, spec=GEMM.spec), store=filled(tmp_path / "s"))
    OPEN.add((request.store, ""))
    answer = jit_helper.prepared(request)
    assert (answer.state, answer.notes) == ("emitted", ())
    kernel = read_artifact(from_text(answer.artifact), request.key)
    assert isinstance(kernel, EmittedKernel)
    manifest = kernel.manifest
    assert (manifest.kernel, manifest.machine, manifest.spec) == ("gemm", "h100", jit_helper.SPEC)
    assert [a.name for a in manifest.arguments] == [p.name for p in request.parameters]
    assert {(p.name, p.multiple) for p in manifest.promises} >= {("a_desc", 16)}
    store = SqliteStore(request.store)
    assert store.get_artifact(request.key, NAME) == from_text(answer.artifact)
    store.close()


def test_nothing_stored_is_a_miss(at_root: Path) -> None:
    OPEN.add(("off", ""))
    answer = jit_helper.prepared(request_of(resolve(GEMM.file, spec=GEMM.spec)))
    assert (answer.state, answer.reason) == ("missing", "nobody has stored a schedule for it")


@pytest.mark.parametrize("kind", [kind for kind in SERVICES if kind != "slow"])
def test_a_broken_service_is_a_miss_with_a_note(at_root: Path, tmp_path: Path, kind: str) -> None:
    with played(kind, filled(tmp_path / "good")) as address:
        request = request_of(resolve(GEMM.file, spec=GEMM.spec), server=address)
        OPEN.add(("off", address))
        answer = jit_helper.prepared(request)
        jit_helper.opened("off", address).close()
    assert (answer.state, answer.artifact) == ("missing", "")
    wanted = {"poisoned": "breaks the rules", "another kernel's": "its key is not that", "down": "refused"}
    assert wanted.get(kind, "http://127.0.0.1") in " ".join(answer.notes)


def test_a_kernel_that_looks_its_work_up_asks_for_a_launch_and_is_emitted_with_what_that_says(at_root: Path) -> None:
    walk = resolve("tests/walk_kernels.py::products", spec="products")
    request = request_of(dataclasses.replace(walk, spec=jit_helper.SPEC), solve=True, may_ask=True)
    OPEN.add(("off", ""))
    asked = jit_helper.prepared(request)
    assert (asked.state, asked.artifact) == ("asks", "") and "say how often `products` does its work" in asked.reason
    sizes = [(128, 128, 128), (64, 128, 64), (128, 64, 192)]  # M, N, K of each product
    placed = {
        name: [torch.zeros(size[i] * size[k], dtype=torch.float16) for size in sizes]
        for name, i, k in (("lefts", 0, 2), ("rights", 2, 1), ("results", 0, 1))
    }
    given = {
        **{name: torch.tensor([one.data_ptr() for one in tensors]) for name, tensors in placed.items()},
        "sizes": torch.tensor(sizes, dtype=torch.int32),
        "strides": torch.tensor([(k, n, n) for _, n, k in sizes], dtype=torch.int32),
        "count": 3,
    }
    found = Variant(walk.signature, walk.constexprs, tuple(name for name, _ in walk.divisibility))
    launch = specialization_of("products", found, given, (3,))
    told = jit_helper.prepared(dataclasses.replace(request, recorded=launch, may_ask=False))
    assert told.state == "emitted", told.reason
    assert isinstance(read_artifact(from_text(told.artifact), request.key), EmittedKernel)


def test_what_cannot_be_emitted_is_refused_with_its_line_and_kept(
    tmp_path: Path, kernel_file: Callable[..., str]
) -> None:
    path = kernel_file(
        """
        @triton.jit
        def place(x, index, out, BLOCK: tl.constexpr):
            o = tl.arange(0, BLOCK)
            tl.device_print("index", tl.load(index + o))
        """,
        """
        [[specialization]]
        name = "one"
        signature = { x = "*fp32:16", index = "*i32:16", out = "*i32:16" }
        constexprs = { BLOCK = 64 }
        """,
    )
    request = request_of(resolve(path), store=str(tmp_path / "s"))
    OPEN.add((request.store, ""))
    answer = jit_helper.prepared(request)
    assert answer.state == "unsupported"
    assert "kernel.py:6" in answer.reason
    store = SqliteStore(request.store)
    text = store.get_artifact(request.key, NAME)
    store.close()
    assert text is not None and read_artifact(text, request.key) == RefusedVariant(answer.reason)


@pytest.mark.parametrize("status", [401, 403, 422])
@pytest.mark.parametrize("solve", [False, True])
def test_a_service_that_refuses_disables_no_kernel(
    status: int, solve: bool, at_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever a service says of a token or of a request is no property of the kernel."""

    def ended(*_: object) -> Schedule:
        raise BudgetExhausted("the budget is over")

    monkeypatch.setattr("twill.solve.pipeline.solve", ended)
    with playing(refusal(status, "the token has expired")) as service:
        request = request_of(resolve(GEMM.file, spec=GEMM.spec), store=str(tmp_path / "s"), server=service.address)
        request = dataclasses.replace(request, solve=solve)
        OPEN.add((request.store, service.address))
        answer = jit_helper.prepared(request)
        assert answer.state == ("failed" if solve else "missing")
        assert "the token has expired" in " ".join(answer.notes)
    store = SqliteStore(request.store)
    assert store.get_artifact(request.key, NAME) is None
    store.close()


def test_only_errors_about_the_kernel_are_final() -> None:
    refused = exc.ServiceRefused("a", 401, "Unauthorized", "expired")
    passing = (refused, exc.FileMissing("f", "w", "h"), exc.MalformedManifest("m"), exc.UnknownMachine("m", "h"))
    assert [jit_helper.final(error) for error in (*passing, OSError(), exc.TwillError("m"))] == [False] * 6
    assert jit_helper.final(exc.UnsupportedOperation("a scan")) and jit_helper.final(exc.Infeasible("no"))


def test_a_module_that_is_none_and_a_machine_that_is_none_are_told(at_root: Path) -> None:
    OPEN.add(("off", ""))
    spec = resolve(GEMM.file, spec=GEMM.spec)
    assert jit_helper.prepared(request_of(spec, module="no module")).state == "unsupported"
    assert "nonsense" in jit_helper.prepared(request_of(spec, machine="nonsense")).reason


TORCH = SimpleNamespace(_C=SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 0))  # whose stream is the usual one


def descriptors_of_gemm(m: int, n: int, k: int) -> list[SimpleNamespace]:
    """What a user passes for A, B and C."""
    shapes = ((m, k, [128, 64]), (k, n, [64, 128]), (m, n, [128, 128]))
    bases = [
        fake_torch(0x100000 * (at + 1), shape=(rows, columns), strides=(columns, 1))
        for at, (rows, columns, _) in enumerate(shapes)
    ]
    return [
        SimpleNamespace(base=base, shape=[rows, columns], strides=[columns, 1], block_shape=block, padding="zero")
        for base, (rows, columns, block) in zip(bases, shapes, strict=True)
    ]


def test_a_kernel_that_is_asked_for_as_gluon_is_what_triton_makes_of_its_module(
    at_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = request_of(resolve(GEMM.file, spec=GEMM.spec), store=filled(tmp_path / "s"))
    request = dataclasses.replace(request, form="gluon")
    OPEN.add((request.store, ""))
    answer = jit_helper.prepared(request)
    assert (answer.state, answer.reason) == ("emitted", "")
    kernel = read_artifact(from_text(answer.artifact), request.key)
    assert isinstance(kernel, EmittedKernel) and kernel.predicted is not None
    assert kernel.manifest.function == "gemm_kernel"
    sizes = [128, 4, 4, 8, 8] * 3 + [4] * 4 + [8] * 2
    monkeypatch.setitem(sys.modules, "torch", TORCH)
    driver = install(monkeypatch, FakeDriver(sizes))
    m, n, k = 1000, 512, 640
    given = descriptors_of_gemm(m, n, k)
    try:
        kernel[(32,)](*given, m, n, k, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64, GROUP_M=8)
    finally:
        forget()
    (launch,) = driver.launches
    assert (launch.grid, launch.block) == ((32, 1, 1), (kernel.manifest.threads, 1, 1))
    passed = [int.from_bytes(value, "little") for value in launch.values]
    assert [passed[at + 1 : at + 5] for at in (0, 5, 10)] == [[m, k, k, 1], [k, n, n, 1], [m, n, n, 1]]
    assert passed[15:] == [m, n, k, 32, 0, 0]


GELU = Example("examples/gemm_bias_gelu.py", "bf16")


TRITON = tuple(int(number) for number in triton.__version__.split(".")[:2])


def refused_for_triton(answer: Prepared) -> None:
    """Older ones have no modules for the B200, or none of pairs."""
    assert answer.state == "failed" and "install triton" in answer.reason


def pairs_stored(path: Path, *clusters: int) -> PrepareRequest:
    """A call of GELU for the B200, whose schedules for so many CTAs a product are stored."""
    store, options = SqliteStore(path), SolveOptions(fuse=False)
    b200 = blackwell.machine()
    graph = extract(GELU.file, GELU.spec, (), (), Allowed(conditional=False)).on(b200).graph
    for cluster in clusters:
        asked = options.model_copy(update={"cluster": cluster}).asked
        key = schedule_key(graph, b200.digest(), asked)
        found = blackwell.schedule(GELU, cluster).model_copy(update={"key": key})
        store.put(found, graph, asked=asked, machine=b200)
    store.close()
    request = request_of(resolve(GELU.file, spec=GELU.spec), store=str(path), machine="b200", form="gluon")
    OPEN.add((request.store, ""))
    return request


def test_pairs_of_ctas_in_gluon_are_launched_as_clusters(
    at_root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    request = pairs_stored(tmp_path / "s", 1, 2)
    answer = jit_helper.prepared(request)
    if TRITON < (3, 9):
        refused_for_triton(answer)
        return
    assert (answer.state, answer.reason) == ("emitted", "")
    kernel = read_artifact(from_text(answer.artifact), request.key)
    assert isinstance(kernel, EmittedKernel) and kernel.manifest.cluster == 2
    sizes = [128, 4, 4, 8, 8] * 3 + [8] + [4] * 5 + [8] * 2
    monkeypatch.setitem(sys.modules, "torch", TORCH)
    driver = install(monkeypatch, FakeDriver(sizes, capability=(10, 0), model=b"NVIDIA B200"))
    m, n, k = 1200, 512, 640  # 10 x 4 instances are 5 x 4 pairs
    given = descriptors_of_gemm(m, n, k)
    bias = fake_torch(0x900000, shape=(n,), strides=(1,))
    try:
        kernel[(10, 4)](*given, bias, m, n, k, BLOCK_M=128, BLOCK_N=128, BLOCK_K=64)
    finally:
        forget()
    (launch,) = driver.launches
    assert (launch.grid, launch.cluster) == ((40, 1, 1), (2, 1, 1))
    passed = [int.from_bytes(value, "little") for value in launch.values]
    assert passed[16:] == [n, k, 10, 4, 20, 0, 0]
    # what a CTA copies: its rows of A and of the result, 64 columns of B at a time
    assert [tuple(one["box"]) for one in driver.encoded] == [(64, 128), (64, 64), (64, 128)]


def test_pairs_that_nobody_has_stored_are_done_without(at_root: Path, tmp_path: Path) -> None:
    request = pairs_stored(tmp_path / "s", 1)
    answer = jit_helper.prepared(request)
    if TRITON < (3, 8):
        refused_for_triton(answer)
        return
    assert answer.state == "emitted"
    kernel = read_artifact(from_text(answer.artifact), request.key)
    assert isinstance(kernel, EmittedKernel) and kernel.manifest.cluster == 1


def test_what_gluon_cannot_say_is_a_refusal_that_is_kept(at_root: Path, tmp_path: Path) -> None:
    request = request_of(resolve(OTHER.file, spec=OTHER.spec), store=filled(tmp_path / "s"))
    request = dataclasses.replace(request, form="gluon")
    OPEN.add((request.store, ""))
    answer = jit_helper.prepared(request)
    assert answer.state == "unsupported" and "moved as wider ones (`X`)" in answer.reason
    store = SqliteStore(request.store)
    text = store.get_artifact(request.key, NAME)
    store.close()
    assert text is not None and read_artifact(text, request.key) == RefusedVariant(answer.reason)
