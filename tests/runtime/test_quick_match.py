"""Promises of the functions in C: what their twins in Python say, or that these are to be asked."""

from __future__ import annotations

import gc
import inspect
import sys
import weakref
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from triton.runtime.autotuner import Autotuner

from tests.jit_kernels import plain
from twill.runtime.matcher import HOW, changed, matcher, reaches
from twill.runtime.plans import STALE, Call, Plans
from twill.runtime.quick_match import COMPILER, Compiler, QuickMatch, quick_match
from twill.runtime.wrappers import NAMES, QuickTuner, quicken

X, Y, Z = torch.zeros(64), torch.zeros(65)[1:], torch.zeros(8, dtype=torch.bfloat16)


def kernel(x: Any, y: Any, o: Any, n: Any, s: Any, f: Any = None, B: Any = 64, D: Any = "a") -> None:
    """For its signature."""


LOOKED_AT: Any = {
    "x": "open tensor", "y": "tensor", "o": "optional tensor", "n": "free", "s": "float", "f": "fixed", "B": "constant",
    "D": "constant",
}  # fmt: skip


@pytest.fixture(scope="module", autouse=True)
def module() -> Any:
    if COMPILER.made is None:
        COMPILER.begun = True
        COMPILER.compile()
    assert COMPILER.made is not None
    return COMPILER.made


class Started:
    """A plan that notes its launches."""

    def __init__(self, result: Any = True) -> None:
        self.seen: list[Any] = []
        self.result = result

    def start(self, values: tuple[Any, ...], stream: int) -> Any:
        self.seen.append((values, stream))
        return self.result


class Twins:
    """Both functions, of one kernel and one `Plans`."""

    def __init__(
        self, function: Any = kernel, looked_at: Any = LOOKED_AT, keyed: bool = True, values: Any = None
    ) -> None:
        signature, self.plans, self.values = inspect.signature(function), Plans(), {} if values is None else values
        reached = frozenset({"y"})
        told = reaches(list(signature.parameters), looked_at, reached)
        how = [name for name in HOW if name not in signature.parameters]
        places = (lambda gpu: 10 + gpu, lambda: 5)
        self.python = matcher(signature, looked_at, self.plans, *places, self.values, keyed, reached)
        others = (self.plans.by_key, Call, STALE, *places, self.values, changed)
        self.quick: QuickMatch = quick_match(signature, looked_at, told, how, keyed, *others)

    def both(self, grid: Any, *args: Any, **kwargs: Any) -> tuple[Any, Any]:
        assert self.quick.match is not None
        return said(lambda: self.python(grid, *args, **kwargs)), said(lambda: self.quick.match(grid, args, kwargs))  # type: ignore[misc]


def said(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except Exception as error:
        return type(error)


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.Tensor, "get_device", lambda tensor: 3)


USUAL: dict[str, Any] = {"x": X, "y": Y, "o": None, "n": 32, "s": 0.5}
CHANGES: list[dict[str, Any]] = [
    {}, {"x": X[4:]}, {"x": X[1:]}, {"x": Z}, {"y": X}, {"y": Z}, {"o": X}, {"o": Y}, {"o": Z}, {"n": 33}, {"n": 1},
    {"n": 0}, {"n": -16}, {"n": True}, {"n": False}, {"n": (1 << 62) + 1}, {"s": 0.25}, {"s": 3}, {"f": 3}, {"f": True},
    {"f": 1.0}, {"f": "text"}, {"B": 128}, {"B": True}, {"B": 1}, {"B": 1.0}, {"B": torch.float32}, {"D": (1, 2)},
    {"num_warps": 8}, {"num_stages": 3, "maxnreg": 64}, {"num_ctas": 1},
]  # fmt: skip


@pytest.mark.parametrize("keyed", [True, False])
def test_every_call_has_the_key_that_it_has_in_python(gpu: None, keyed: bool) -> None:
    twins, keys = Twins(keyed=keyed), set()
    for change in CHANGES:
        given = {**USUAL, **change}
        calls = [((), given), ((), dict(reversed(given.items())))]
        calls += [(tuple(given[name] for name in "xyon"), {name: given[name] for name in given if name not in "xyon"})]
        for args, kwargs in calls:
            python, quick = twins.both((4, 2), *args, **kwargs)
            assert type(python) is Call and quick == python and hash(quick) == hash(python)
            assert [type(one) for one in quick.key] == [type(one) for one in python.key]
        keys.add(python)
    same = 4 if keyed else 4 + 3  # n of 0, of -16, of 2^62 + 1 and 33, s of 0.25; options
    assert len(keys) == len(CHANGES) - same


def test_grids_are_what_they_are_in_python(gpu: None) -> None:
    twins = Twins()

    def spoiling(meta: dict[str, Any]) -> list[int]:
        found = [meta["n"], meta["B"] + len(meta)]
        meta.clear()
        return found

    for grid in ((4,), [4, 2], lambda meta: (meta["n"] // 8, 3), lambda meta: [meta["x"].numel()], spoiling, ()):
        python, quick = twins.both(grid, **USUAL)
        assert type(python) is Call and quick == python
    for wrong in (4, None, lambda meta: 4, lambda meta: meta["nothing"]):
        python, quick = twins.both(wrong, **USUAL)
        assert python is quick and issubclass(quick, Exception)


def test_what_it_does_not_know_is_left_to_python(gpu: None) -> None:
    twins = Twins()
    left: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((), {}), ((X,), USUAL), ((), {**USUAL, "nonsense": 1}), ((X, Y, None, 1, 1.0, None, 64, "a", 1), {}),
        ((), {**USUAL, "n": 1 << 64}), ((), {**USUAL, "n": 2.5}), ((), {**USUAL, "n": "text"}),
        ((X, Y, None), {"n": 1}),
    ]  # fmt: skip
    for args, kwargs in left:
        assert twins.quick.match is not None and twins.quick.match((4,), args, kwargs) is NotImplemented
    wrong_ones: list[dict[str, Any]] = [{"x": 3}, {"x": None}, {"o": 3}, {"B": []}, {"f": {}}]
    for change in wrong_ones:
        python, quick = twins.both((4,), **{**USUAL, **change})
        assert python is quick and issubclass(quick, Exception)


def test_a_plan_is_started_with_the_same_values_on_the_same_stream(gpu: None) -> None:
    twins, plan = Twins(), Started()
    call, _ = twins.both((4,), **USUAL)
    twins.plans.by_key[call.key] = plan  # type: ignore[assignment]
    assert twins.both((4,), **USUAL) == (True, True) and twins.both((4,), X, Y, None, 48, 0.75) == (True, True)
    for python, quick in zip(plan.seen[::2], plan.seen[1::2], strict=True):
        assert quick[1] == python[1] == 13 and len(quick[0]) == len(python[0]) == 8 + 4
        assert all(ours is theirs or ours == theirs for ours, theirs in zip(quick[0], python[0], strict=True))
    for result in (False, None, STALE, "compiled"):
        plan.result = result
        assert twins.both((4,), **USUAL) == ((call, call) if result is STALE else (result, result))


def test_a_kernel_without_tensors_is_launched_on_the_current_gpu() -> None:
    twins, plan = Twins(lambda n: None, {"n": "free"}), Started()
    call, _ = twins.both((1,), 3)
    twins.plans.by_key[call.key] = plan  # type: ignore[assignment]
    assert twins.both((1,), 5) == (True, True) and {stream for _, stream in plan.seen} == {15}


def test_a_changed_global_is_seen(gpu: None) -> None:
    place = {"LIMIT": 3}
    twins = Twins(values={("LIMIT", 0): (3, place)})
    assert type(twins.both((4,), **USUAL)[1]) is Call
    place["LIMIT"] = 4
    assert twins.both((4,), **USUAL) == (False, False)


def test_kernels_that_are_looked_at_otherwise_have_none() -> None:
    many = inspect.Signature([inspect.Parameter(f"n{i}", inspect.Parameter.POSITIONAL_OR_KEYWORD) for i in range(101)])
    assert quick_match(many, {f"n{i}": "free" for i in range(101)}, {}, (), False, {}).match is None
    assert Twins(looked_at={**LOOKED_AT, "x": "any"}).quick.match is None
    assert Twins(lambda *, n: None, {"n": "free"}).quick.match is None


def described(**changed: Any) -> Any:
    given = {"base": X, "shape": [8, 8], "strides": [8, 1], "block_shape": [4, 8], "padding": "zero", **changed}
    return SimpleNamespace(**given)


def of_descriptors(a: Any, b: Any, n: Any) -> None:
    """For its signature."""


DESCRIPTORS: Any = {"a": "descriptor", "b": "open descriptor", "n": "free"}


def test_descriptors_have_the_keys_that_they_have_in_python(gpu: None) -> None:
    twins, keys = Twins(of_descriptors, DESCRIPTORS), set()
    changes: list[dict[str, Any]] = [
        {}, {"base": Y}, {"base": Z}, {"shape": [4, 16]}, {"strides": (16, 1)}, {"block_shape": [4, 4]},
        {"padding": "nan"}, {"round_f32_to_tf32": True}, {"shape": (8, 8)},
    ]  # fmt: skip
    for place in ("a", "b"):
        for change in changes:
            given = {"a": described(), "b": described(), "n": 32, place: described(**change)}
            python, quick = twins.both((4, 2), **given)
            assert type(python) is Call and quick == python and hash(quick) == hash(python)
            keys.add(python)
    assert len(keys) == 2 * (len(changes) - 2) + 1  # a list of sizes or a tuple; what nothing changes
    plan = Started()
    twins.plans.by_key[python.key] = plan  # type: ignore[assignment]
    assert twins.both((4, 2), **given) == (True, True) and {stream for _, stream in plan.seen} == {13}


@pytest.mark.parametrize("lacks", ["base", "shape", "strides", "block_shape", "padding"])
def test_what_is_no_descriptor_is_the_same_mistake_as_in_python(gpu: None, lacks: str) -> None:
    twins = Twins(of_descriptors, DESCRIPTORS)
    broken = described()
    delattr(broken, lacks)
    for given in ((broken, described()), (described(), broken), (described(), X), (3, described())):
        python, quick = twins.both((4,), *given, 1)
        assert python is quick and issubclass(quick, Exception)


def test_descriptors_are_not_kept(gpu: None) -> None:
    twins, base = Twins(of_descriptors, DESCRIPTORS), torch.zeros(64)
    good, bad = described(base=base), described(base=base)
    del bad.padding
    counts = []
    for rounds in (1, 200):
        for _ in range(rounds):
            for one in (good, bad, 3):
                said(lambda one=one: twins.quick.match((4,), (good, one, 1), {}))  # type: ignore[misc]
        counts.append([sys.getrefcount(one) for one in (base, good, bad, good.shape, torch.float32, None)])
    assert all(abs(now - then) < 20 for now, then in zip(*counts, strict=True))


CALLS: tuple[dict[str, Any], ...] = (
    {}, {"D": []}, {"x": 3}, {"n": 2.5}, {"o": X}, {"o": 3}, {"nonsense": 1}, {"B": 128}
)  # fmt: skip


def called(twins: Twins, plan: Started, value: Any) -> None:
    """Good and bad calls, on good and bad grids."""
    for change in CALLS:
        given = {**USUAL, "D": value, **change}
        for grid in ((4,), [4], lambda meta: [4], 4):
            said(lambda grid=grid, given=given: twins.quick.match(grid, (), given))  # type: ignore[misc]
    plan.seen.clear()


def test_nothing_is_kept_and_nothing_is_lost(gpu: None) -> None:
    twins, plan, value = Twins(), Started(), ("a", 12345.5)
    call, _ = twins.both((4,), **USUAL, D=value)
    twins.plans.by_key[call.key] = plan  # type: ignore[assignment]
    del call
    counts: list[list[int]] = []
    for rounds in (1, 50):
        for _ in range(rounds):
            called(twins, plan, value)
        seen = (X, Y, value, value[1], torch.float32, None, True, twins.plans.by_key)
        counts.append([sys.getrefcount(one) for one in seen])
    assert all(abs(now - then) < 20 for now, then in zip(*counts, strict=True))
    gone = weakref.ref(plan)
    twins.plans.by_key[("twins",)] = twins  # type: ignore[assignment]
    del twins, plan, seen
    gc.collect()
    assert gone() is None


def test_without_a_compiler_everything_is_as_it_was(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("triton.runtime.build.compile_module_from_src", lambda *_: 1 / 0)
    told: list[Any] = []
    compiler = Compiler()
    compiler.begun = True
    compiler.tell(told.append)
    compiler.compile()
    compiler.tell(told.append)
    assert compiler.made is None and compiler.failed and not told and not compiler.waiting


def test_a_forked_process_begins_again_and_what_is_there_is_told_at_once(module: Any) -> None:
    told: list[Any] = []
    compiler = Compiler()
    compiler.lock.acquire()  # as if another thread had it at the fork
    compiler.begun = True
    compiler.after_fork()
    compiler.tell(told.append)
    assert compiler.begun
    compiler.compile()
    compiler.tell(told.append)
    assert len(told) >= 2 and all(one is compiler.made or one.make for one in told)


def tuner(kind: Any = plain) -> Any:
    made = Autotuner(kind, ["x", "y", "n", "s", "B"], [None, None], ["n", "B"], None, None)
    made.keys.append("z")
    quicken(made)
    assert isinstance(made, QuickTuner)
    return made


class Odd:
    """Its element type is any code."""

    @property
    def dtype(self) -> str:
        raise ValueError("none")


def test_keys_of_autotuners_are_those_of_python(module: Any) -> None:
    made = tuner()
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((X, Y, 3), {"B": 64}), ((), {"x": X, "y": None, "n": True, "B": 64, "grid": (1,), "warmup": False, "z": 3}),
        ((X,), {"n": 2.5, "y": Z, "num_warps": 8}), ((3, "text"), {}), ((), {"B": 64, "y": Z, "x": X}), ((), {}),
        ((X, Y, 3, 4, 5), {}), ((torch.float32, torch.Size([3])), {"n": plain}),
    ]  # fmt: skip
    for args, kwargs in calls:
        ours = module.key_of(made.keys, made.twill_names, made.arg_names, NAMES, args, kwargs)
        assert ours == made.twill_key(args, kwargs) and type(ours) is tuple
    assert module.key_of(made.keys, made.twill_names, made.arg_names, NAMES, (X,), {"x": X}) is NotImplemented
    assert module.key_of(made.keys, made.twill_names, made.arg_names, NAMES, (1, 2, 3, 4, 5, 6), {}) is NotImplemented
    with pytest.raises(ValueError, match="none"):
        module.key_of(made.keys, made.twill_names, made.arg_names, NAMES, (Odd(),), {})
