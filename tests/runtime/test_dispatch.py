"""Promises of a launch that is not like an earlier one: guards, bad stores, policies; in doubt Triton's kernel."""

from __future__ import annotations

import threading
from typing import Any

import pytest
import torch
import triton
from triton.tools.tensor_descriptor import TensorDescriptor

import twill
from tests.fake_driver import forget
from tests.jit_kernels import CODE, MANIFEST, World, emitted, scale
from twill import exc
from twill.runtime.artifact import artifact, refusal
from twill.runtime.request import Prepared
from twill.store.sqlite import SqliteStore

# ---------------------------------------------------------------- guards


def test_a_shifted_tensor_goes_to_triton_every_time_and_is_told_once(stored: World) -> None:
    fast = stored.jit()
    shifted = torch.zeros(4097)[1:]  # 4 bytes beyond a multiple of 16: Triton specializes on that
    for _ in range(3):
        assert stored.call(fast, x=shifted) is not None
    assert (len(stored.originals), stored.cuda.launches) == (3, [])
    for _ in range(2):
        stored.call(fast)  # the first one finds out that it is another variant
    assert len(stored.cuda.launches) == 1


@pytest.mark.parametrize(
    "changed",
    [
        {"N": 65}, {"N": 1}, {"M": 250}, {"M": 1}, {"M": 1 << 40}, {"M": 1.5}, {"M": None}, {"s": 3}, {"s": True},
        {"BLOCK": 64}, {"dtype": triton.language.float16}, {"x": torch.zeros(4096).half()},
        {"maxnreg": 64, "launch_cooperative_grid": True}, {"ir_override": "file"}, {"enable_fp_fusion": False},
    ],
)  # fmt: skip
def test_a_call_of_another_kind_goes_to_triton(stored: World, changed: dict[str, Any]) -> None:
    fast = stored.jit()
    stored.call(fast)
    stored.call(fast)
    for _ in range(2):
        stored.call(fast, **changed)
    assert (len(stored.originals), len(stored.cuda.launches)) == (2, 2)
    stored.call(fast)
    assert len(stored.cuda.launches) == 3


def test_options_that_say_how_and_not_what_make_no_difference(stored: World) -> None:
    fast = stored.jit()
    for options in ({"num_warps": 8}, {"num_stages": 2, "num_ctas": 1, "maxnreg": None}, {"enable_fp_fusion": True}):
        for _ in range(2):
            assert stored.call(fast, **options) is None
    assert (len(stored.cuda.launches), stored.originals) == (6, [])


def test_a_launch_that_cannot_be_prepared_is_triton_s_and_found_out_once(stored: World) -> None:
    fast = stored.jit()
    a = TensorDescriptor.from_tensor(stored.a, [128, 64], padding="nan")
    for _ in range(4):
        stored.call(fast, a_desc=a)
    assert (len(stored.originals), stored.cuda.launches) == (4, [])
    assert len(stored.said) == 1
    assert "WrongArgument" in stored.said[0] and "padding" in twill.explain_fallback(fast)


def test_a_gpu_of_another_architecture_runs_triton_s_kernel(stored: World) -> None:
    forget()
    stored.cuda.capability = (10, 0)
    fast = stored.jit()
    stored.call(fast)
    assert (len(stored.originals), stored.cuda.launches) == (1, [])
    assert "sm_90a" in twill.explain_fallback(fast)


def test_a_grid_beyond_the_device_runs_triton_s_kernel(stored: World) -> None:
    fast = stored.jit()
    stored.call(fast, grid=(1 << 20, 1 << 20))
    assert len(stored.originals) == 1
    assert "LaunchTooLarge" in twill.explain_fallback(fast)


def test_a_capture_does_not_load_code(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("twill.runtime.dispatch.capturing", lambda: True)
    fast = stored.jit()
    stored.call(fast)
    assert (len(stored.originals), stored.cuda.loaded) == (1, 0)
    monkeypatch.setattr("twill.runtime.dispatch.capturing", lambda: False)
    stored.call(fast)
    monkeypatch.setattr("twill.runtime.dispatch.capturing", lambda: True)
    stored.call(fast, x=torch.zeros(8192))
    assert (len(stored.originals), len(stored.cuda.launches)) == (1, 2)


def test_a_global_that_changed_is_triton_s_to_complain_about(stored: World) -> None:
    fast = stored.jit()
    stored.call(fast)
    stored.call(fast)
    scale.used_global_vals["LIMIT", 0] = (3, {"LIMIT": 4})
    try:
        stored.call(fast)
    finally:
        scale.used_global_vals.clear()
    assert len(stored.originals) == 1


def test_a_launch_that_the_driver_refuses_is_triton_s(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = stored.jit()
    stored.call(fast)
    stored.call(fast)

    def refuse(plan: object, stream: int) -> None:
        raise exc.DriverFailed("cuLaunchKernelEx", "CUDA_ERROR_ILLEGAL_ADDRESS")

    monkeypatch.setattr("twill.runtime.plan.LaunchPlan._launch", refuse)
    stored.call(fast)
    assert len(stored.originals) == 1


def test_a_mistake_of_twill_s_own_is_no_error_of_a_launch(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def mistaken(*given: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr("twill.runtime.kernel.make_plan", mistaken)
    fast = stored.jit()
    stored.call(fast)
    assert len(stored.originals) == 1
    assert "ZeroDivisionError: oh" in twill.explain_fallback(fast)


# ---------------------------------------------------------------- what the store may have instead


@pytest.mark.parametrize(
    "text", ["no json", "{}", "[]", '{"schema": "twill.artifact/2"}', "another key", "half", "other"]
)
def test_a_bad_artifact_is_a_miss_and_told_once(world: World, text: str) -> None:
    key = world.key()
    good = artifact(key, MANIFEST.text(), CODE)
    mixed = artifact(key, MANIFEST.text(), b"other code")
    world.keep(
        key,
        {"another key": artifact("0" * 64, MANIFEST.text(), CODE), "half": good[:500], "other": mixed}.get(
            text, text.encode()
        ),
    )
    fast = world.jit()
    for _ in range(3):
        world.call(fast)
    assert (len(world.originals), world.cuda.launches) == (3, [])
    assert sum("stored kernel" in said for said in world.said) == 1


def test_the_kernel_of_another_variant_is_not_used(world: World) -> None:
    key = world.key(BLOCK=64)
    world.keep(key)
    fast = world.jit()
    world.call(fast, BLOCK=64)
    world.call(fast, BLOCK=64)
    assert (len(world.originals), world.cuda.launches) == (2, [])
    assert "another variant" in twill.explain_fallback(fast)


def test_what_cannot_be_emitted_is_not_tried_again(world: World) -> None:
    key = world.key()
    world.keep(key, refusal(key, "scale.py:7: a loop inside a loop"))
    fast = world.jit(policy="solve")
    for _ in range(3):
        world.call(fast)
    assert (len(world.originals), world.requests) == (3, [])
    assert world.said == ["scale runs as Triton's kernel: scale.py:7: a loop inside a loop"]
    assert "a loop inside a loop" in twill.explain_fallback(fast)


def test_a_store_that_cannot_be_opened_is_told_once(world: World) -> None:
    (world.path / "store").write_bytes(b"no database" * 1000)
    fast = world.jit()
    world.call(fast)
    world.call(fast, M=48)
    assert len(world.originals) == 2
    assert sum("is not a database" in said for said in world.said) == 1, world.said


def test_a_slow_store_is_waited_for_once_and_used_later(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go = threading.Event(), threading.Event()
    real = SqliteStore.get_artifact

    def slow(store: SqliteStore, key: str, name: str) -> bytes | None:
        begun.set()
        go.wait()
        return real(store, key, name)

    monkeypatch.setattr(SqliteStore, "get_artifact", slow)
    fast = stored.jit(budget=0.001)
    for _ in range(3):
        stored.call(fast)  # none of them returns after `go`, because that is set below
    assert begun.wait(10)
    assert (len(stored.originals), stored.cuda.launches) == (3, [])
    assert "longer" in twill.explain_fallback(fast)
    go.set()
    (known,) = fast.twill_dispatch.variants.known.values()
    assert known.inquiry.over.wait(10)
    stored.call(fast)
    assert len(stored.cuda.launches) == 1


# ---------------------------------------------------------------- policies


def test_off_looks_at_nothing(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = stored.jit(policy="off")
    assert stored.call(fast) is not None
    monkeypatch.setenv("TWILL_JIT", "off")
    assert stored.call(stored.jit(policy="solve")) is not None
    assert (stored.cuda.launches, stored.said) == ([], [])
    assert "off" in twill.explain_fallback(fast)


def test_lookup_asks_nobody_where_nothing_can_be_found(world: World) -> None:
    fast = world.jit()
    for _ in range(3):
        world.call(fast)
    (known,) = fast.twill_dispatch.variants.known.values()
    assert known.shelf.settled.wait(10)
    world.call(fast)
    assert (len(world.originals), world.requests) == (4, [])
    assert len(world.said) == 1 and "no schedule is stored" in world.said[0]


def test_lookup_behind_a_service_asks_once_and_switches_over(world: World) -> None:
    world.answer = emitted
    fast = world.jit(server="http://127.0.0.1:1")
    assert world.call(fast) is not None
    (known,) = fast.twill_dispatch.variants.known.values()
    assert known.shelf.settled.wait(10)
    assert world.call(fast) is None
    (asked,) = world.requests
    assert (asked.solve, asked.kernel, asked.module, asked.machine) == (False, "scale", "the module", "h200")
    assert [one.name for one in asked.parameters] == scale.arg_names
    assert asked.divisible == ("x", "M", "N")
    assert (len(world.originals), len(world.cuda.launches)) == (1, 1)


def test_solve_asks_for_a_solve_without_any_store(world: World) -> None:
    world.answer = emitted
    fast = world.jit(policy="solve", store="off", solve_seconds=7.0)
    world.call(fast)
    (known,) = fast.twill_dispatch.variants.known.values()
    assert known.shelf.settled.wait(10)
    world.call(fast)
    assert [(one.solve, one.seconds) for one in world.requests] == [(True, 7.0)]
    assert len(world.cuda.launches) == 1


def test_a_variant_that_the_helper_refuses_is_triton_s_from_then_on(world: World) -> None:
    world.answer = lambda request: Prepared(
        request.key, "unsupported", "scale.py:3: no scans", ("the service is down",)
    )
    fast = world.jit(policy="solve")
    for _ in range(3):
        world.call(fast)
        next(iter(fast.twill_dispatch.variants.known.values())).shelf.settled.wait(10)
    assert (len(world.originals), len(world.requests)) == (3, 1)
    assert sorted(world.said) == ["scale runs as Triton's kernel: scale.py:3: no scans", "the service is down"]


def test_require_waits_for_the_kernel(world: World) -> None:
    world.answer = emitted
    fast = world.jit(policy="require", server="http://127.0.0.1:1")
    assert world.call(fast) is None
    assert (len(world.cuda.launches), world.originals) == (1, [])


@pytest.mark.parametrize("changed", [{}, {"dtype": print}, {"launch_pdl": True}])
def test_require_without_a_kernel_is_an_error(world: World, changed: dict[str, Any]) -> None:
    fast = world.jit(policy="require")
    with pytest.raises(exc.KernelNotReady):
        world.call(fast, **changed)
    assert world.originals == []


@pytest.mark.parametrize(
    ("policy", "budget"), [("never", None), ("LOOKUP", None), (None, "x"), (None, "-1"), (None, "inf")]
)
def test_a_setting_that_is_none_is_refused(
    monkeypatch: pytest.MonkeyPatch, policy: str | None, budget: str | None
) -> None:
    if budget:
        monkeypatch.setenv("TWILL_JIT_BUDGET", budget)
    with pytest.raises(exc.WrongPolicy):
        twill.jit(scale, policy=policy)


# ---------------------------------------------------------------- what the environment says


@pytest.mark.parametrize("name", ["TRITON_DEFAULT_FP_FUSION", "TRITON_FORCE_DISABLE_FP_FUSION"])
def test_a_process_without_fusion_of_products_and_sums_runs_triton_s_kernel(
    name: str, stored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = stored.jit()
    monkeypatch.setenv(name, "0" if "DEFAULT" in name else "1")
    known = name == "TRITON_DEFAULT_FP_FUSION" or hasattr(triton.knobs.language, "force_disable_fp_fusion")
    stored.call(fast)
    assert (len(stored.originals), len(stored.cuda.launches)) == ((1, 0) if known else (0, 1))
    if known:
        assert "TRITON_DEFAULT_FP_FUSION" in twill.explain_fallback(fast)
    for _ in range(1 + known):
        stored.call(fast, enable_fp_fusion=True)  # the call decides over the default, and the force over the call
    forced = known and "FORCE" in name
    assert len(stored.cuda.launches) == (0 if forced else 1 if known else 2)


def test_a_slow_look_up_of_one_variant_does_not_hold_another(stored: World, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = stored.jit(budget=60.0)
    variants = fast.twill_dispatch.variants
    begun, go = threading.Event(), threading.Event()
    machine = variants.machine

    def slow(index: int) -> str:
        if not begun.is_set():
            begun.set()
            go.wait(60)
        return str(machine(index))

    monkeypatch.setattr(variants, "machine", slow)
    first = threading.Thread(target=stored.call, args=(fast,), kwargs={"N": 65})
    first.start()
    assert begun.wait(60)
    assert stored.call(fast) is None and len(stored.cuda.launches) == 1
    assert first.is_alive()
    go.set()
    first.join()


# ---------------------------------------------------------------- launches that stay with Triton


def not_asked(*_: Any) -> Any:
    raise AssertionError("the binder ran for Twill, too")


@pytest.mark.parametrize("when", ["refused", "being prepared"])
def test_a_launch_that_stays_with_triton_is_bound_once(
    world: World, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    if when == "refused":
        world.answer = lambda request: Prepared(request.key, "unsupported", "scale.py:3: no scans")
    fast = world.jit(policy="solve")
    for _ in range(2):
        world.call(fast)
        (known,) = fast.twill_dispatch.variants.known.values()
        assert known.inquiry.over.wait(10) and (when != "refused" or known.shelf.settled.wait(10))
    world.call(fast)
    monkeypatch.setattr(fast.twill_dispatch, "ask", not_asked)
    for _ in range(3):
        world.call(fast)
    args, kwargs = world.arguments()
    fast.run(*args, grid=(2,), warmup=False, **kwargs)  # as an autotuner does
    assert (len(world.originals), world.cuda.launches) == (7, [])


def test_a_new_variant_is_looked_into_though_all_others_stay_with_triton(stored: World) -> None:
    fast = stored.jit()
    for number in (1, 2):
        for _ in range(3):
            stored.call(fast, s=number)  # a number where the emitted kernel takes a float
    assert (len(stored.originals), stored.cuda.launches) == (6, [])
    launched = [stored.call(fast) for _ in range(3)]
    assert [one is None for one in launched] == [False, True, True]


def test_a_kernel_that_can_never_be_emitted_is_handed_over_untouched(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = world.jit(policy="off")
    assert world.call(fast) is not None
    for name in ("launch", "look"):
        monkeypatch.setattr(fast.twill_dispatch, name, not_asked)
    assert world.call(fast) is not None
    assert len(world.originals) == 2


def test_beside_an_emitted_variant_the_calls_of_another_are_recognized(
    stored: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    fast = stored.jit()
    other = torch.zeros(4096).half()
    for _ in range(3):
        stored.call(fast)
        stored.call(fast, x=other)
        assert all(known.shelf.settled.wait(10) for known in fast.twill_dispatch.variants.known.values())
    monkeypatch.setattr(fast.twill_dispatch, "ask", not_asked)
    for x in (other, other.clone(), torch.zeros(4096).half()):  # wherever they lie
        assert stored.call(fast, x=x) is not None
    assert stored.call(fast) is None
