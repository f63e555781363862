"""Promises of `twill.runtime.family`: the best member for the sizes of a launch, found out once, or else the next."""

from __future__ import annotations

import logging
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.fake_driver import Code, FakeDriver, fake_torch, forget, install
from tests.manifests import CODE, KERNEL, SIZES
from twill import exc
from twill.manifest.document import CUBIN, MANIFEST, KernelParameter, Manifest, Promise, SplitK
from twill.manifest.evaluate import ScalarOperation
from twill.manifest.family import FAMILY, PARTS, SCHEMA, Family, Member, MemberCost
from twill.runtime import driver as real
from twill.runtime.choices import COMPARED, ROUNDS, STARVED
from twill.runtime.family import EmittedFamily
from twill.runtime.kernel import EmittedKernel
from twill.runtime.member import FamilyMember
from twill.store.memory import MemoryStore

BLOCKS = (64, 128, 256)
CYCLES = {64: 30.0, 128: 10.0, 256: 20.0}  # predicted for an iteration, of which there are N / 64
TRUTH = {64: 30.0, 128: 20.0, 256: 10.0}  # microseconds of a launch
COUNT = ScalarOperation("div", "i32", ("N", 64), (("signed", 1),))
RUN = ROUNDS[0][1]  # launches of a turn, at first
LAUNCHES = sum(min(members, 3) * run for members, run in ROUNDS)  # until the fastest is known


class Timed(FakeDriver):
    """Launches take as long as their member's grid says: M / BLOCK instances. behind_others: microseconds more that a
    member takes behind another one."""

    def __init__(self, sizes: list[int]) -> None:
        super().__init__(sizes)
        self.behind_others: dict[int, float] = {}
        self.last = 0

    def cuLaunchKernelEx(self, config: Any, kernel: int, parameters: int, extra: int) -> tuple[Any]:
        self.cost = {1024 // block: TRUTH[block] for block in BLOCKS}.get(config.gridDimX, 15.0)
        if self.last != config.gridDimX:
            self.cost += self.behind_others.get(1024 // config.gridDimX, 0.0)
        self.last = config.gridDimX
        return super().cuLaunchKernelEx(config, kernel, parameters, extra)


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Timed]:
    raw = SimpleNamespace(_cuda_getCurrentRawStream=lambda index: 5555 + index)
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(_C=raw))
    made = Timed([*SIZES])
    install(monkeypatch, made)
    yield made
    forget()


def manifest(block: int, **other: Any) -> Manifest:
    """A kernel with that block of rows."""
    arguments = tuple(
        replace(a, value=block) if a.name == "BLOCK" else replace(a, block=(block, 64)) if a.block else a
        for a in KERNEL.arguments
    )
    return replace(KERNEL, arguments=arguments, **other)


def family(store: MemoryStore | None = None, **other: Any) -> EmittedFamily:
    members = [
        FamilyMember.of(str(block), EmittedKernel(manifest(block, **other), CODE), MemberCost(cycles, 0, 0, COUNT))
        for block, cycles in CYCLES.items()
    ]
    return EmittedFamily(members, store, "digest")


def grid(meta: Any) -> tuple[int]:
    return (meta["M"] // meta["BLOCK"],)


def descriptor(rows: int = 128, columns: int = 512) -> Any:
    base = fake_torch(0x10000, shape=(1000, columns), strides=(columns, 1))
    return SimpleNamespace(
        base=base, shape=[1000, columns], strides=[columns, 1], block_shape=[rows, 64], padding="zero"
    )


def vector() -> Any:
    return fake_torch(0x20000, "torch.float32", (4096,), (1,), 0, 4096 * 4)


def launch(of: EmittedFamily, times: int = 1, **named: Any) -> None:
    for _ in range(times):
        of[grid](descriptor(), vector(), 1024, 512, **named)


def blocks(driver: FakeDriver) -> list[int]:
    """Of each launch so far."""
    return [1024 // one.grid[0] for one in driver.launches]


def test_the_predicted_best_is_first_and_the_fastest_has_all_launches_in_the_end(driver: FakeDriver) -> None:
    one = family()
    launch(one, LAUNCHES + 5)
    assert blocks(driver)[: 3 * RUN] == [128] * RUN + [256] * RUN + [64] * RUN
    assert blocks(driver)[LAUNCHES:] == [256] * 5
    assert not driver.alive


def test_the_last_round_is_between_the_two_that_were_the_fastest(driver: Timed) -> None:
    launch(family(), LAUNCHES)
    assert set(blocks(driver)[-ROUNDS[-1][0] * ROUNDS[-1][1] :]) == {128, 256}


def test_a_member_is_timed_as_it_will_be_launched_behind_itself(driver: Timed) -> None:
    driver.behind_others[256] = 15.0  # its code has to come from memory first
    one = family()
    launch(one, LAUNCHES + 1)
    assert blocks(driver)[-1] == 256


def test_launches_for_which_the_gpu_waited_do_not_count_unless_all_are_so(driver: Timed) -> None:
    one = family()
    driver.quick = True  # the GPU is through with the delay before the host has issued the launch
    launch(one, RUN)
    driver.quick = False
    launch(one, RUN - 1)
    assert set(blocks(driver)) == {128}  # its turn, of which three launches did not count
    launch(one)
    assert blocks(driver)[-1] == 256
    driver.quick = True
    launch(one, LAUNCHES + STARVED)
    assert one.choices and all(choice.decided for choice in one.choices.values())


def test_other_sizes_are_found_out_anew_and_equal_ones_are_not(driver: FakeDriver) -> None:
    one = family()
    launch(one, LAUNCHES + 1)
    one[grid](descriptor(columns=1024), vector(), 1024, 1024)
    assert blocks(driver)[-2:] == [256, 128]
    launch(one)
    assert blocks(driver)[-1] == 256


@pytest.mark.parametrize("what", ["cuEventCreate", "cuEventRecord", "cuEventElapsedTime"])
def test_a_launch_that_cannot_be_timed_is_made_once_and_the_predicted_best_stays(
    what: str, driver: FakeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    answer = (Code(400), None) if what in ("cuEventCreate", "cuEventElapsedTime") else (Code(400),)
    monkeypatch.setattr(real.bindings(), what, lambda *given: answer)
    one = family()
    launch(one, LAUNCHES)
    assert len(driver.launches) == LAUNCHES
    assert blocks(driver)[-3:] == [128] * 3
    assert not driver.alive


def test_no_more_than_a_few_are_timed(driver: FakeDriver) -> None:
    assert COMPARED < 16
    split = SplitK(axis=1, parts=2, sums=1, bytes=4)
    kept = replace(manifest(128), split=split, workspace=1 << 16)
    kept = replace(kept, parameters=(*kept.parameters, KernelParameter("workspace", "claims", "u32", 0)))
    driver.sizes.append(8)
    count = ScalarOperation("div", "i32", ("N", 16), (("signed", 1),))  # 32 iterations, two for each of 16 parts
    cost = MemberCost(10.0, 0.0, 0.0, count, written=1.0, read=0.1)
    one = EmittedFamily(FamilyMember.of("s", EmittedKernel(kept, CODE), cost).in_parts())
    launch(one, sum(members * run for members, run in ROUNDS) + 4)
    launched = [driver.launches[number * RUN].grid[0] for number in range(COMPARED)]
    assert len(set(launched)) == COMPARED
    assert all(1 < ctas // 8 <= 16 for ctas in launched)  # eight tiles, each in so many parts
    assert len({one.grid for one in driver.launches[-3:]}) == 1


@pytest.mark.parametrize(
    "instances, iterations, most",
    [(8, 512, 66), (9, 512, 58), (8, 8, 4), (8, 1, 1), (132, 512, 4), (133, 512, 3), (1000, 512, 1)],
)
def test_parts_have_two_iterations_and_make_no_more_than_four_rounds_of_ctas(
    instances: int, iterations: int, most: int
) -> None:
    """So that the few members that are timed are not numbers of parts of one kernel that is best taken whole."""
    kept = replace(manifest(128), split=SplitK(axis=1, parts=2, sums=1, bytes=4))
    members = FamilyMember.of("s", EmittedKernel(kept, CODE), MemberCost(10.0, 0.0, 0.0, "N")).in_parts()
    known = [one for one in members if one.predicted(instances, 132, {"N": iterations}) < math.inf]
    assert [one.name for one in known] == [f"s/{parts}" for parts in PARTS if parts <= most]


def test_what_was_found_is_kept_for_this_kind_of_gpu(driver: FakeDriver) -> None:
    store = MemoryStore()
    launch(family(store), LAUNCHES + 1)
    launch(family(store))
    assert blocks(driver)[-1] == 256
    driver.model = b"NVIDIA H100"
    forget()
    launch(family(store))
    assert blocks(driver)[-1] == 128


def test_a_member_that_refuses_is_left_out_and_the_reason_is_said_once(
    driver: FakeDriver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The promise of the first does not hold at these sizes."""
    promised = manifest(128, promises=(*KERNEL.promises, Promise("M", 4096)))
    one = EmittedFamily.of(kept(tmp_path / "a", promised), kept(tmp_path / "b", manifest(64)))
    with caplog.at_level(logging.WARNING):
        launch(one, LAUNCHES)
    assert set(blocks(driver)) == {64}
    (record,) = caplog.records
    assert record.message.startswith(f"{tmp_path / 'a'} is not launched at (1000, 512, 1024, 512): ")
    one[grid](descriptor(), vector(), 4096, 512)
    assert driver.launches[-1].grid[0] == 4096 // 128


def test_what_no_member_takes_is_an_error(driver: FakeDriver) -> None:
    with pytest.raises(exc.WrongArgument):
        family()[grid]("no descriptor", vector(), 1024, 512)
    with pytest.raises(exc.WrongArgument, match="grid"):
        family()[(8,)](descriptor(), vector(), 1024, 512)
    assert not driver.launches


def test_constants_that_differ_may_be_given_and_mean_nothing(driver: FakeDriver) -> None:
    launch(family(), 2 * RUN + 1, BLOCK=64)
    assert blocks(driver) == [128] * RUN + [256] * RUN + [64]


def test_nothing_is_timed_while_a_graph_is_captured(driver: FakeDriver) -> None:
    one = family()
    driver.capturing.add(5555)
    launch(one, 20)
    assert set(blocks(driver)) == {128}
    driver.capturing.clear()
    launch(one, LAUNCHES + 1)
    assert blocks(driver)[-1] == 256


def kept(folder: Path, kernel: Manifest) -> Path:
    """A directory as `twill emit` writes it."""
    folder.mkdir()
    (folder / MANIFEST).write_text(kernel.text())
    (folder / CUBIN).write_bytes(CODE)
    return folder


def written(folder: Path) -> Path:
    """A directory with a family."""
    for block in BLOCKS:
        kept(folder / str(block), manifest(block))
    members = tuple(Member(str(block), MemberCost(cycles, 0.0, 0.0, COUNT)) for block, cycles in CYCLES.items())
    (folder / FAMILY).write_text(Family(SCHEMA, "scale", members).text())
    return folder


def test_a_directory_is_a_family_and_a_damaged_member_is_left_out(
    driver: FakeDriver, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (written(tmp_path) / "128" / CUBIN).write_bytes(b"another")
    with caplog.at_level(logging.WARNING):
        one = EmittedFamily.load(tmp_path)
    assert len(caplog.records) == 1
    assert "128 is left out" in caplog.records[0].message
    launch(one, LAUNCHES)
    assert set(blocks(driver)) == {64, 256}


def test_a_family_without_a_document_or_a_good_member_is_refused(tmp_path: Path) -> None:
    with pytest.raises(exc.FileMissing):
        EmittedFamily.load(tmp_path)
    for block in BLOCKS:
        (written(tmp_path) if block == BLOCKS[0] else tmp_path).joinpath(str(block), CUBIN).write_bytes(b"another")
    with pytest.raises(exc.MalformedManifest):
        EmittedFamily.load(tmp_path)


def test_constants_may_be_given_by_position(driver: FakeDriver) -> None:
    one = family()
    one[grid](descriptor(), vector(), 1024, 512, 0.5, 64, "tl.bfloat16")
    assert blocks(driver) == [128]
