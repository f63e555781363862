"""Promises of twill.jit: the emitted kernel where it can, else Triton's kernel, and never an error of its own."""

from __future__ import annotations

import struct
import subprocess
import sys
import threading
from typing import Any

import pytest
import torch
import triton
from triton.runtime.jit import JITFunction
from triton.tools.tensor_descriptor import TensorDescriptor

import twill
from tests.conftest import ROOT
from tests.jit_kernels import World, plain, scale
from twill import exc

# ---------------------------------------------------------------- the emitted kernel


def test_a_stored_kernel_is_launched_from_the_first_call_on(stored: World) -> None:
    fast = stored.jit()
    for _ in range(4):
        assert stored.call(fast) is None
    assert (len(stored.cuda.launches), stored.originals, stored.said) == (4, [], [])
    assert stored.cuda.loaded == 1
    assert len(stored.cuda.encoded) == 2
    assert twill.explain_fallback(fast) == ""


def test_numbers_that_are_in_no_map_change_without_a_new_preparation(stored: World) -> None:
    fast = stored.jit()
    for m, s in ((256, 0.5), (256, 0.5), (512, 1.5), (48, 2.5)):
        stored.call(fast, M=m, s=s)
    assert [struct.unpack("<i", one.values[2])[0] for one in stored.cuda.launches] == [256, 256, 512, 48]
    assert struct.unpack("<f", stored.cuda.launches[-1].values[4])[0] == 2.5
    assert len(fast.twill_dispatch.hot.plans.by_key) == 1


def test_the_grid_may_be_a_function_and_the_order_and_names_are_free(stored: World) -> None:
    fast = stored.jit()
    a = TensorDescriptor.from_tensor(stored.a, [128, 64])
    for _ in range(3):
        fast[lambda given: (given["M"] // given["BLOCK"], 3)](x=stored.x, a_desc=a, N=64, M=256, s=0.5, BLOCK=128)
        fast[(2, 3)](a, stored.x, 256, 64, 0.5, 128, num_warps=8, num_stages=4)
        fast.run(a, stored.x, 256, 64, 0.5, 128, grid=[2, 3], warmup=False)
    assert [one.values[5:] for one in stored.cuda.launches] == [tuple(struct.pack("<I", n) for n in (2, 3, 1))] * 9
    assert stored.originals == []


def test_other_tensors_get_their_own_maps(stored: World) -> None:
    fast = stored.jit()
    others = [torch.zeros(256, 64, dtype=torch.bfloat16) for _ in range(3)]
    outputs = [torch.zeros(4096) for _ in range(3)]
    for tensor, x in zip((*others, *others), (*outputs, *outputs), strict=True):
        stored.call(fast, a_desc=TensorDescriptor.from_tensor(tensor, [128, 64]), x=x)
    seen = [tuple(struct.unpack("<Q", launch.values[i][:8])[0] for i in (0, 1, 3)) for launch in stored.cuda.launches]
    assert seen == 2 * [(a.data_ptr(), x.data_ptr(), x.data_ptr()) for a, x in zip(others, outputs, strict=True)]


def test_tensors_elsewhere_are_not_looked_at_as_closely_again(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = stored.jit()
    for s in (0.25, 0.5):  # what the first call is like is not known before it
        stored.call(fast, s=s)
    monkeypatch.setattr("twill.runtime.kernel.make_plan", None)
    for s in (0.75, 1.0):
        stored.call(fast, a_desc=TensorDescriptor.from_tensor(stored.a.clone(), [128, 64]), s=s)
    assert [struct.unpack("<f", one.values[4])[0] for one in stored.cuda.launches] == [0.25, 0.5, 0.75, 1.0]
    assert (stored.originals, len(stored.cuda.encoded)) == ([], 2)


def test_where_the_driver_moves_no_tensor_map_it_encodes_another(stored: World) -> None:
    stored.cuda.immovable = True
    fast = stored.jit()
    for _ in range(4):
        stored.call(fast, a_desc=TensorDescriptor.from_tensor(stored.a.clone(), [128, 64]))
    assert (len(stored.cuda.launches), stored.originals) == (4, [])


def test_a_descriptor_that_was_changed_is_looked_at_again(stored: World) -> None:
    fast = stored.jit()
    a = TensorDescriptor.from_tensor(stored.a, [128, 64])
    a.shape = [256, 64]
    for rows in (256, 256, 256, 100):
        a.shape[0] = rows
        stored.call(fast, a_desc=a)
    assert {tuple(one["sizes"]) for one in stored.cuda.encoded if one["pointer"] == stored.a.data_ptr()} == {
        (64, 256), (64, 100),
    }  # fmt: skip


def test_the_stream_is_the_current_one(stored: World) -> None:
    fast = stored.jit()
    for stream in (0, 0, 0, 7, 9):
        stored.triton.stream = stream
        stored.call(fast)
    assert [one.stream for one in stored.cuda.launches] == [0, 0, 0, 7, 9]


def test_each_gpu_has_its_own_launches_and_streams(stored: World) -> None:
    fast = stored.jit()
    for gpu in (0, 1, 0, 1, 1, 0):
        stored.gpu = stored.triton.device = gpu
        stored.triton.stream = 70 + gpu
        stored.call(fast)
    assert [one.stream for one in stored.cuda.launches] == [70, 71, 70, 71, 71, 70]
    assert set(stored.cuda.pushed) == {1}  # where another GPU is current
    assert (stored.originals, stored.cuda.loaded) == ([], 1)


def test_an_empty_grid_launches_nothing(stored: World) -> None:
    fast = stored.jit()
    for _ in range(3):
        assert stored.call(fast, grid=(0, 4)) is None
    assert (stored.cuda.launches, stored.originals) == ([], [])


def test_hooks_run_before_the_launch(stored: World) -> None:
    fast = stored.jit()
    stored.call(fast)
    seen: list[int] = []
    fast.add_pre_run_hook(lambda *args, **kwargs: seen.append(len(stored.cuda.launches)))
    try:
        stored.call(fast)
        stored.call(fast)
    finally:
        scale.pre_run_hooks.clear()
    assert seen == [1, 2]


def test_threads_share_one_look_up_and_one_module(stored: World) -> None:
    fast = stored.jit()
    wrong: list[object] = []

    def work(number: int) -> None:
        x = torch.zeros(4096)
        for count in range(40):
            try:
                stored.call(fast, x=x, s=float(number), M=16 * count + 32)
            except Exception as error:
                wrong.append(error)

    group = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for one in group:
        one.start()
    for one in group:
        one.join()
    assert wrong == []
    assert len(stored.cuda.launches) + len(stored.originals) == 320  # who does not look up does not wait
    assert (len(fast.twill_dispatch.used), len(fast.twill_dispatch.variants.known)) == (1, 1)


# ---------------------------------------------------------------- as a Triton kernel


def test_it_is_a_triton_function_in_everything_else(world: World) -> None:
    fast = twill.jit(scale, store=world.store)
    assert isinstance(fast, JITFunction)
    assert (fast.__name__, fast.src, fast.arg_names, fast.cache_key) == (
        "scale",
        scale.src,
        scale.arg_names,
        scale.cache_key,
    )
    assert fast.device_caches is scale.device_caches
    assert twill.jit(fast, policy="off").twill_original is scale
    decorated = twill.jit(policy="off")(scale)
    assert decorated.twill_original is scale


def test_a_warm_up_is_triton_s(stored: World) -> None:
    fast = stored.jit()
    a = TensorDescriptor.from_tensor(stored.a, [128, 64])
    assert fast.run(a, stored.x, 256, 64, 0.5, 128, grid=(1,), warmup=True).asm == {"ttir": "the module"}
    assert fast.warmup == fast.twill_original.warmup  # a program may ask for it in front of each launch
    assert stored.cuda.launches == []


def test_a_call_that_does_not_fit_gets_triton_s_own_error(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_DEFAULT_FP_FUSION", "1")  # Triton 3.9 warns without it
    fast = stored.jit()
    stored.call(fast)
    stored.call(fast)
    del scale.__dict__["run"]
    with pytest.raises(TypeError):
        fast[(1,)](stored.x)
    with pytest.raises(KeyError, match="nonsense"):
        stored.call(fast, nonsense=3)


@pytest.mark.parametrize("outside", [False, True])
def test_autotuners_and_heuristics_go_around_and_under_it(stored: World, outside: bool) -> None:
    configs = [triton.Config({"BLOCK": 128}, num_warps=warps) for warps in (4, 8)]

    def tuned(kernel: Any) -> Any:
        under = triton.heuristics({"s": lambda given: 0.5})(kernel)
        return triton.autotune(configs, key=["M"], do_bench=lambda call, quantiles: [call() or 1.0] * 3)(under)

    original = tuned(scale)
    fast = stored.jit(original) if outside else tuned(stored.jit())
    a = TensorDescriptor.from_tensor(stored.a, [128, 64])
    for _ in range(3):
        fast[(2,)](a, stored.x, 256, 64)
    assert (len(stored.cuda.launches), stored.originals) == (5, [])
    assert original.cache == {}
    assert twill.explain_fallback(fast) == ""


def test_a_wrapper_of_somebody_else_keeps_its_kind_around_an_emitted_kernel() -> None:
    class Cached(triton.runtime.Autotuner):  # type: ignore[misc]
        pass

    class Holder:
        def __init__(self, fn: Any) -> None:
            self.fn = fn

    tuner = Cached(plain, plain.arg_names, [triton.Config({"BLOCK": 64})], [], None, None)
    fast = twill.jit(Holder(tuner))
    assert type(fast) is Holder and isinstance(fast.fn, Cached) and fast.fn.fn.twill_original is plain
    assert tuner.fn is plain


def test_what_holds_no_triton_kernel_is_refused() -> None:
    for thing in (len, 3, lambda: 0):
        with pytest.raises(exc.NotAKernel):
            twill.jit(thing)
    assert "not under twill.jit" in twill.explain_fallback(scale)


def test_a_debugged_kernel_is_triton_s(world: World) -> None:
    debugged = triton.jit(plain.fn, debug=True)
    fast = world.jit(debugged)
    fast[(1,)](world.x, 3, BLOCK=64)
    assert len(world.originals) == 1
    assert "debug=True" in twill.explain_fallback(fast)


def test_a_machine_that_nobody_described_is_told(world: World) -> None:
    world.cuda.model = b"NVIDIA X9"
    fast = world.jit()
    world.call(fast)
    assert len(world.originals) == 1
    assert "no machine file describes the NVIDIA X9" in twill.explain_fallback(fast)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_code_under_torch_compile_calls_it_without_a_break(
    stored: World, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: True)  # which looks for a GPU
    fast = stored.jit(plain)

    def call(x: torch.Tensor) -> torch.Tensor:
        fast[(1,)](x, 3, BLOCK=64)
        return x * 2

    got = torch.compile(call, backend=backend, fullgraph=True)(torch.ones(64))
    assert got.shape == (64,)
    assert len(stored.originals) == 1


@pytest.mark.parametrize("wrapped", [False, True])
def test_so_does_code_with_an_autotuner_and_heuristics(
    stored: World, wrapped: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("torch.utils._triton.has_triton", lambda: True)
    tuned = triton.autotune([triton.Config({}, num_warps=4)], key=[])(plain)
    outer = triton.heuristics({"BLOCK": lambda given: 64})(tuned)
    fast = stored.jit(outer) if wrapped else outer
    stored.note(plain)

    def call(x: torch.Tensor) -> torch.Tensor:
        fast[(1,)](x, 3)
        return x * 2

    assert torch.compile(call, backend="eager", fullgraph=True)(torch.ones(64)).shape == (64,)
    assert len(stored.originals) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_custom_operator_launches_the_emitted_kernel_inside_compiled_code(stored: World, backend: str) -> None:
    fast = stored.jit()

    def scaled(a: torch.Tensor) -> torch.Tensor:
        made = torch.zeros(4096)
        stored.call(fast, a_desc=TensorDescriptor.from_tensor(a, [128, 64]), x=made)
        return made

    name = f"twill_tests::scaled_{backend}"
    operator = torch.library.custom_op(name, scaled, mutates_args=())
    operator.register_fake(lambda a: torch.empty(4096))
    compiled = torch.compile(lambda a: operator(a * 2) + 1, backend=backend, fullgraph=True)
    for _ in range(2):
        assert compiled(stored.a).shape == (4096,)
    assert (len(stored.cuda.launches), stored.originals) == (2, [])


def test_a_launch_needs_no_solver() -> None:
    heavy = ("z3", "pyscipopt", "xdsl", "rich", "torch")
    code = f"import twill, sys; twill.jit; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert done.stdout.strip() == "[]"
