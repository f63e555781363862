"""Promises of an emitted kernel: called as the Triton kernel, refused by name before the driver is asked."""

from __future__ import annotations

import math
import struct
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_driver import FakeDriver, fake_torch, forget, install
from tests.manifests import CODE, COUNTING, KERNEL, SIZES
from twill import exc
from twill.manifest.document import CUBIN, MANIFEST, KernelParameter, Promise, Rereads
from twill.manifest.evaluate import ScalarOperation
from twill.runtime.kernel import EmittedKernel
from twill.runtime.plans import MOST_PLANS

GPU_STREAM = 5555


def descriptor(pointer: int = 0x10000, shape: tuple[int, ...] = (1000, 512), **other: Any) -> Any:
    base = fake_torch(pointer, shape=shape, strides=(shape[1], 1), **other)
    return SimpleNamespace(base=base, shape=list(shape), strides=[shape[1], 1], block_shape=[128, 64], padding="zero")


def vector(pointer: int = 0x20000, dtype: str = "torch.float32", gpu: int = 0, beyond: int = 4096 * 4) -> Any:
    return fake_torch(pointer, dtype, (4096,), (1,), gpu, beyond)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDriver]:
    raw = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: GPU_STREAM + index)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=raw))
    yield install(monkeypatch, FakeDriver(SIZES))
    forget()


@pytest.fixture
def kernel() -> EmittedKernel:
    return EmittedKernel(KERNEL, CODE)


def numbers(driver: FakeDriver) -> tuple[int, int, float, int, tuple[int, ...]]:
    """M, x, scale, stride and grid of the last launch."""
    values = driver.launches[-1].values
    grid = tuple(struct.unpack("<I", value)[0] for value in values[6:])
    m, x, scale, stride = (struct.unpack(f, v)[0] for f, v in zip(("<i", "<Q", "<f", "<q"), values[2:6], strict=True))
    return m, x, scale, stride, grid


def test_a_call_gives_the_kernel_what_it_takes(driver: FakeDriver, kernel: EmittedKernel) -> None:
    kernel[(4, 3)](descriptor(), vector(), 1000, 512, 2.0, BLOCK=128, num_warps=8)
    launch = driver.launches[0]
    assert (launch.grid, launch.block, launch.shared) == ((12, 1, 1), (384, 1, 1), 1024)
    assert launch.stream == GPU_STREAM
    assert numbers(driver) == (1000, 0x20000, 2.0, 512, (4, 3, 1))


def test_there_are_no_more_ctas_than_sms(driver: FakeDriver, kernel: EmittedKernel) -> None:
    kernel[(1000,)](descriptor(), vector(), 1000, 512)
    assert driver.launches[0].grid == (132, 1, 1)
    assert numbers(driver)[-1] == (1000, 1, 1)


def test_ctas_that_share_an_sm_are_launched_together(driver: FakeDriver) -> None:
    several = EmittedKernel(replace(KERNEL, ctas=3), CODE)
    several[(1000,)](descriptor(), vector(), 1000, 512)
    assert driver.launches[0].grid == (3 * 132, 1, 1)
    several[(200,)](descriptor(), vector(), 1000, 512)
    assert driver.launches[1].grid == (200, 1, 1)


def test_ctas_that_work_on_one_instance_at_a_time_are_as_many_as_there_are_instances(driver: FakeDriver) -> None:
    each = EmittedKernel(replace(KERNEL, ctas=3, persistent=False), CODE)
    each[(1000,)](descriptor(), vector(), 1000, 512)
    assert driver.launches[0].grid == (1000, 1, 1)
    many = (1 << 30) + 1  # the next instance of the last CTA could not be counted in 32 bits
    each[(many,)](descriptor(), vector(), 1000, 512)
    assert driver.launches[1].grid == (3 * 132, 1, 1)


def test_clusters_are_whole_and_work_on_pairs(driver: FakeDriver) -> None:
    pairs = EmittedKernel(replace(KERNEL, cluster=2, cluster_axis=1), CODE)
    for grid, ctas in (((3, 5), 2 * 9), ((1, 1), 2), ((100, 100), 132), ((5, 0), 0)):
        before = len(driver.launches)
        pairs[grid](descriptor(), vector(), 1000, 512)
        assert [launch.grid for launch in driver.launches[before:]] == ([(ctas, 1, 1)] if ctas else [])
    assert driver.launches[-1].cluster == (2, 1, 1)


@pytest.mark.parametrize("cluster", [1, 2])
def test_a_kernel_that_waits_for_earlier_grids_itself_is_launched_so_and_no_other_is(
    driver: FakeDriver, cluster: int
) -> None:
    for early in (False, True):
        kernel = EmittedKernel(replace(KERNEL, cluster=cluster, early=early), CODE)
        for _ in range(3):  # the first launch, one that is known, one in a hurry
            kernel[(4,)](descriptor(), vector(), 1000, 512)
        assert [(one.early, one.cluster) for one in driver.launches[-3:]] == [(early, (cluster, 1, 1))] * 3


@pytest.mark.parametrize("persistent", [False, True])
def test_long_launches_of_persistent_ctas_do_not_begin_early(driver: FakeDriver, persistent: bool) -> None:
    kernel = EmittedKernel(replace(KERNEL, early=True, persistent=persistent), CODE)
    for instances in (8 * 132, 8 * 132 + 1):
        kernel[(instances,)](descriptor(), vector(), 1000, 512)
    assert [one.early for one in driver.launches] == [True, not persistent]


def test_names_defaults_and_grids_of_functions_work_as_in_triton(driver: FakeDriver, kernel: EmittedKernel) -> None:
    kernel[lambda meta: (meta["M"] // meta["BLOCK"],)](descriptor(), vector(), N=512, M=1280, BLOCK=128)
    assert numbers(driver) == (1280, 0x20000, 0.5, 512, (10, 1, 1))


def test_tensor_maps_are_made_from_the_arguments(driver: FakeDriver, kernel: EmittedKernel) -> None:
    kernel[(1,)](descriptor(), vector(), 1000, 512)
    first, second = driver.encoded
    assert (first["pointer"], first["sizes"], first["strides"], first["box"]) == (
        0x10000,
        [512, 1000],
        [1024],
        [64, 64],
    )
    assert (second["pointer"], second["sizes"]) == (0x20000 + 512 * 4, [512, 4])
    assert second["strides"] == [512 * 2 * 4]  # of its rows, 4 begin in the tensor's memory


def test_an_axis_without_a_bound_ends_where_the_memory_does(driver: FakeDriver, kernel: EmittedKernel) -> None:
    kernel[(1,)](descriptor(), vector(beyond=512 * 2 * 4 * 9), 1000, 512)
    kernel[(1,)](descriptor(), vector(beyond=512 * 2 * 4 * 99), 1000, 512)
    assert [entry["sizes"][1] for entry in driver.encoded if entry["pointer"] > 0x20000] == [9, 99]


def test_an_equal_launch_is_not_looked_at_again(
    driver: FakeDriver, kernel: EmittedKernel, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = descriptor(), vector()
    kernel[(1,)](*arguments, 1000, 512)
    monkeypatch.setattr("twill.runtime.kernel.make_plan", None)
    kernel[(1,)](*arguments, 1000, 512)
    kernel[(1,)](*arguments, -3, 512, 7)  # M and scale are in no tensor map
    assert numbers(driver) == (-3, 0x20000, 7.0, 512, (1, 1, 1))
    assert (len(driver.launches), len(driver.encoded), driver.loaded) == (3, 2, 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda: (descriptor(shape=(1000, 1024)), vector(), 1000, 512),
        lambda: (descriptor(), vector(), 1000, 256),
    ],
)
def test_what_a_map_is_made_of_makes_another_one(
    driver: FakeDriver, kernel: EmittedKernel, change: Callable[[], tuple[Any, ...]]
) -> None:
    kernel[(1,)](descriptor(), vector(), 1000, 512)
    kernel[(1,)](*change())
    assert len(driver.encoded) == 3


def test_tensors_elsewhere_get_the_old_maps_at_their_addresses(driver: FakeDriver, kernel: EmittedKernel) -> None:
    kernel[(1,)](descriptor(), vector(), 1000, 512)
    kernel[(1,)](descriptor(0x40000), vector(0x80000), 1000, 512)
    kernel[(1,)](descriptor(), vector(), 1000, 512)
    seen = [tuple(struct.unpack("<Q", one.values[i][:8])[0] for i in (0, 1, 3)) for one in driver.launches]
    first, elsewhere = (0x10000, 0x20000 + 512 * 4, 0x20000), (0x40000, 0x80000 + 512 * 4, 0x80000)
    assert seen == [first, elsewhere, first]
    assert (len(driver.encoded), driver.moved) == (2, [0x40000, 0x80000 + 512 * 4])


def test_less_memory_behind_an_open_axis_is_another_map(driver: FakeDriver, kernel: EmittedKernel) -> None:
    kernel[(1,)](descriptor(), vector(), 1000, 512)
    kernel[(1,)](descriptor(), vector(0x80000, beyond=4096 * 8), 1000, 512)
    assert (len(driver.encoded), driver.moved) == (3, [])


def test_a_grid_with_a_zero_launches_nothing(driver: FakeDriver, kernel: EmittedKernel) -> None:
    kernel[(0,)](descriptor(0, (0, 64)), vector(0), 0, 512)
    assert driver.launches == []


def test_another_stream_is_taken(driver: FakeDriver, kernel: EmittedKernel) -> None:
    arguments = descriptor(), vector(), 1000, 512
    kernel[(1,)](*arguments)
    kernel[(1,)](*arguments, stream=99)
    kernel[(1,)](*arguments)
    assert [launch.stream for launch in driver.launches] == [GPU_STREAM, 99, GPU_STREAM]


def test_tensors_on_another_gpu_are_launched_there(driver: FakeDriver, kernel: EmittedKernel) -> None:
    kernel[(1,)](descriptor(gpu=1), vector(gpu=1), 1000, 512)
    kernel[(1,)](descriptor(gpu=1), vector(gpu=1), 1000, 512)
    assert driver.pushed and set(driver.pushed) == {1}
    assert driver.launches[1].stream == GPU_STREAM + 1


def _padded() -> Any:
    found = descriptor()
    found.padding = "nan"
    return found


def _blocked() -> Any:
    found = descriptor()
    found.block_shape = [64, 64]
    return found


def _strided() -> Any:
    found = descriptor()
    found.strides = [512, 2]
    return found


@pytest.mark.parametrize(
    ("arguments", "error", "words"),
    [
        (lambda: (vector(), vector(), 1, 512), exc.WrongArgument, "pass a TensorDescriptor with blocks [128, 64]"),
        (lambda: (_blocked(), vector(), 1, 512), exc.WrongArgument, "blocks [64, 64]"),
        (lambda: (_padded(), vector(), 1, 512), exc.WrongArgument, "padding 'nan'"),
        (lambda: (_strided(), vector(), 1, 512), exc.MisalignedTensor, "stride 2 in its last dimension"),
        (lambda: (descriptor(dtype="torch.float16"), vector(), 1, 512), exc.WrongArgument, "a tensor of f16"),
        (lambda: (descriptor(0x10008), vector(), 1, 512), exc.MisalignedTensor, "`a_desc` starts at address 0x10008"),
        (lambda: (descriptor(shape=(1000, 516)), vector(), 1, 512), exc.BrokenPromise, "`a_desc.stride.0` is 516"),
        (lambda: (descriptor(shape=(0, 512)), vector(), 1, 512), exc.WrongArgument, "of size 0 in dimension 0"),
        (lambda: (descriptor(), 3, 1, 512), exc.WrongArgument, "`x` is a int"),
        (lambda: (descriptor(), vector(dtype="torch.int32"), 1, 512), exc.WrongArgument, "`x` is a tensor of i32"),
        (lambda: (descriptor(), vector(0x20004), 1, 512), exc.MisalignedTensor, "`x` starts at address 0x20004"),
        (lambda: (descriptor(), vector(gpu=-1), 1, 512), exc.WrongArgument, "`x` is a tensor in host memory"),
        (lambda: (descriptor(), vector(gpu=1), 1, 512), exc.WrongArgument, "`x` is on GPU 1"),
        (lambda: (descriptor(), vector(), 1, 500), exc.BrokenPromise, "`N` is 500, which is not a multiple of 16"),
        (lambda: (descriptor(), vector(), 1 << 31, 512), exc.WrongArgument, "fits i32"),
        (lambda: (descriptor(), vector(), 1.5, 512), exc.WrongArgument, "`M` is a float"),
        (lambda: (descriptor(), vector(), True, 512), exc.WrongArgument, "`M` is a bool"),
        (lambda: (descriptor(), vector(), 1, 512, "1"), exc.WrongArgument, "`scale` is a str"),
        (lambda: (descriptor(), vector(), 1, 1 << 30), exc.WrongArgument, "cannot be computed"),
        (lambda: (descriptor(), vector(), 1), exc.WrongArgument, "`N` is missing"),
        (lambda: (descriptor(), vector(), 1, 512, 1.0, 64), exc.WrongConstant, "emitted for BLOCK = 128"),
    ],
)
def test_bad_arguments_are_refused_by_name_every_time(
    driver: FakeDriver, kernel: EmittedKernel, arguments: Callable[[], tuple[Any, ...]],
    error: type[exc.TwillError], words: str,
) -> None:  # fmt: skip
    kernel[(1,)](descriptor(), vector(), 1000, 512)
    for _ in range(2):
        with pytest.raises(error) as caught:
            kernel[(1,)](*arguments())
        assert words in str(caught.value)
    assert len(driver.launches) == 1


@pytest.mark.parametrize("scale", [0.0, -1.0, 2.0**-33, 2.0**33, math.nan, math.inf])
def test_a_number_that_was_promised_to_be_positive_is_so_at_every_launch(driver: FakeDriver, scale: float) -> None:
    promising = replace(KERNEL, promises=(*KERNEL.promises, Promise("scale", 1, positive=True)))
    kernel = EmittedKernel(promising, CODE)
    kernel[(1,)](descriptor(), vector(), 1000, 512, 2.0)
    kernel[(1,)](descriptor(), vector(), 1000, 512, 3)
    for _ in range(2):
        with pytest.raises(exc.BrokenPromise, match="`scale` is .*, which is not a number from 2.33e-10 to"):
            kernel[(1,)](descriptor(), vector(), 1000, 512, scale)
    assert len(driver.launches) == 2


@pytest.mark.parametrize(
    ("grid", "words"), [(3, "`grid` is 3"), ((), "one to three"), ((1, 1, 1, 1), "one to three"), ((-1,), "from 0")]
)
def test_a_grid_that_is_none_is_refused(driver: FakeDriver, kernel: EmittedKernel, grid: Any, words: str) -> None:
    with pytest.raises(exc.WrongArgument, match="grid") as caught:
        kernel[grid](descriptor(), vector(), 1000, 512)
    assert words in str(caught.value)


def test_more_program_instances_than_the_kernel_counts_are_refused(driver: FakeDriver, kernel: EmittedKernel) -> None:
    with pytest.raises(exc.LaunchTooLarge, match="program instances"):
        kernel[(1 << 16, 1 << 15)](descriptor(), vector(), 1000, 512)


def test_another_architecture_is_refused_before_the_code_is_loaded(
    monkeypatch: pytest.MonkeyPatch, kernel: EmittedKernel, driver: FakeDriver
) -> None:
    old = install(monkeypatch, FakeDriver(SIZES, capability=(8, 0)))
    with pytest.raises(exc.WrongArchitecture, match="compiled for sm_90a"):
        kernel[(1,)](descriptor(), vector(), 1000, 512)
    assert (old.loaded, old.launches) == (0, [])


def test_a_missing_driver_is_said(monkeypatch: pytest.MonkeyPatch, kernel: EmittedKernel, driver: FakeDriver) -> None:
    def missing() -> Any:
        raise exc.DriverMissing("no libcuda")

    monkeypatch.setattr("twill.runtime.plan.bindings", missing)
    with pytest.raises(exc.DriverMissing):
        kernel[(1,)](descriptor(), vector(), 1000, 512)


def test_remembered_launches_are_bounded(driver: FakeDriver, kernel: EmittedKernel) -> None:
    for i in range(MOST_PLANS + 5):
        kernel[(1 + i,)](descriptor(), vector(), 1000, 512)
    assert len(kernel._plans.by_key) == MOST_PLANS


def test_launches_of_a_kind_are_one_wherever_tensors_lie(driver: FakeDriver, kernel: EmittedKernel) -> None:
    for i in range(3):
        kernel[(1,)](descriptor(0x100000 + 1024 * i), vector(0x20000 + 64 * i), 1000, 512)
    assert len(kernel._plans.by_key) == 1
    assert len({launch.values for launch in driver.launches}) == 3


def test_a_kernel_with_a_parameter_called_stream_gets_it(driver: FakeDriver) -> None:
    renamed = tuple(replace(a, name="stream") if a.name == "scale" else a for a in KERNEL.arguments)
    parameters = tuple(replace(p, name="stream") if p.name == "scale" else p for p in KERNEL.parameters)
    kernel = EmittedKernel(replace(KERNEL, arguments=renamed, parameters=parameters), CODE)
    kernel[(1,)](descriptor(), vector(), 1000, 512, stream=3.0)
    assert numbers(driver)[2] == 3.0


def test_a_directory_is_loaded_if_its_files_belong_together(tmp_path: Path) -> None:
    (tmp_path / MANIFEST).write_text(KERNEL.text())
    with pytest.raises(exc.FileMissing, match=CUBIN):
        EmittedKernel.load(tmp_path)
    (tmp_path / CUBIN).write_bytes(b"other code")
    with pytest.raises(exc.MalformedManifest, match="is not that of kernel.cubin"):
        EmittedKernel.load(tmp_path)
    (tmp_path / CUBIN).write_bytes(CODE)
    loaded = EmittedKernel.load(tmp_path)
    assert replace(loaded.manifest, digest="") == KERNEL


@pytest.fixture
def counting(driver: FakeDriver) -> EmittedKernel:
    driver.sizes = [*SIZES, 8]
    return EmittedKernel(COUNTING, CODE)


def counters(driver: FakeDriver) -> list[int]:
    """Where each launch so far counts its program instances."""
    return [struct.unpack("<Q", launch.values[-1])[0] for launch in driver.launches]


def test_launches_count_in_one_place_for_each_stream(driver: FakeDriver, counting: EmittedKernel) -> None:
    other = EmittedKernel(COUNTING, CODE)
    for kernel, stream in ((counting, 7), (counting, 8), (counting, 7), (other, 7)):
        kernel[(4, 3)](descriptor(), vector(), 1000, 512, stream=stream)
    first, second, again, others = counters(driver)
    assert first == again and len({first, second, others}) == 3 and 0 not in counters(driver)


def test_a_launch_that_moved_counts_in_the_place_of_its_stream(driver: FakeDriver, counting: EmittedKernel) -> None:
    def run(pointer: int, stream: int) -> None:
        counting[(4, 3)](descriptor(pointer), vector(), 1000, 512, stream=stream)

    run(0x10000, 7)
    run(0x20000, 8)
    run(0x10000, 7)
    run(0x20000, 7)
    seven, eight, *rest = counters(driver)
    assert seven != eight and rest == [seven, seven]
    assert len(driver.encoded) == 2  # the second was moved, not made anew


def test_launches_of_a_graph_count_apart(driver: FakeDriver, counting: EmittedKernel) -> None:
    def run() -> None:
        counting[(4, 3)](descriptor(), vector(), 1000, 512, stream=7)

    run()
    driver.capturing.add(7)
    run()
    run()
    driver.capturing.clear()
    run()
    eager, one, two, again = counters(driver)
    assert eager == again and len({eager, one, two}) == 3


def test_parameters_that_are_computed_follow_the_arguments_and_the_grid(driver: FakeDriver) -> None:
    instances = ScalarOperation("mul", "i64", ("grid.0", ScalarOperation("mul", "i64", ("grid.1", "grid.2"))))
    together = ScalarOperation("evenly", "i64", ("grid.0", "M"))
    computed = [("rows", "i32"), ("instances", "i32"), ("together", "i32"), ("scratch", "u64")]
    added = tuple(KernelParameter("computed", name, kind, at) for at, (name, kind) in enumerate(computed))
    numbers = ("a_desc.shape.0", instances, together, 0)
    manifest = replace(KERNEL, parameters=(*KERNEL.parameters[:2], *added), numbers=numbers)
    driver.sizes = [128, 128, 4, 4, 4, 8]
    kernel = EmittedKernel(manifest, CODE)
    cases = (((7, 3), 4, (1000, 21, 4, 0)), ((9, 1), 4, (1000, 9, 3, 0)), ((9, 1), 8, (1000, 9, 5, 0)))
    for grid, most, wanted in cases:
        kernel[grid](descriptor(), vector(), most, 512)
        passed = driver.launches[-1].values[2:]
        assert tuple(int.from_bytes(value, "little") for value in passed) == wanted


def test_fewer_ctas_share_an_sm_where_they_read_more_again_than_its_part_of_the_cache_holds(driver: FakeDriver) -> None:
    """132 SMs of 228 KiB, 1 KiB of which the system keeps for each CTA: 75 KiB leave room for three of them."""
    driver.resident = 7
    reads = replace(
        KERNEL, ctas=7, persistent=False, rereads=Rereads(ScalarOperation("mul", "i32", ("N", 2)), 192000, 2)
    )
    rows = EmittedKernel(reads, CODE)

    def shared(n: int, programs: int = 4096) -> int:
        rows[(programs,)](descriptor(shape=(4096, n)), vector(), 4096, n)
        assert driver.launches[-1].grid == (programs, 1, 1)
        return driver.launches[-1].shared

    assert shared(32000) == 75 * 1024
    assert shared(48000) == 113 * 1024  # two
    assert shared(64000) == shared(8000) == 1024  # one would leave memory idle; there are no more than 7
    assert shared(32000, 1000) == 1024  # they are all there within three rounds
    driver.resident = 2
    assert shared(40000) == 1024
    asked = [size for what, *_, size in driver.calls if what == "dynamic shared"]
    assert asked == [1024, 232448]  # once for the code, once for as much as any launch may want
