"""Promises of `twill.jit(..., family=DIR)`: members have the launches that they take, Triton's kernel the others."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.jit_kernels import CODE, MANIFEST, World
from twill.manifest.document import CUBIN
from twill.manifest.document import MANIFEST as NAME
from twill.manifest.family import FAMILY, SCHEMA, Family, Member, MemberCost
from twill.runtime.choices import ROUNDS


@pytest.fixture(autouse=True)
def stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A PyTorch without CUDA has no streams."""
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda index: 7, raising=False)


def family(folder: Path) -> Path:
    """Two members; the one with blocks of 64 rows is predicted to be faster."""
    for block in (128, 64):
        arguments = tuple(
            replace(a, value=block) if a.name == "BLOCK" else replace(a, block=(block, 64)) if a.block else a
            for a in (*MANIFEST.arguments[:-1], replace(MANIFEST.arguments[-1], default="tl.bfloat16"))
        )
        (folder / str(block)).mkdir(parents=True)
        (folder / str(block) / NAME).write_text(replace(MANIFEST, arguments=arguments).text())
        (folder / str(block) / CUBIN).write_bytes(CODE)
    members = tuple(Member(str(block), MemberCost(block, 0.0, 0.0, "N")) for block in (128, 64))
    (folder / FAMILY).write_text(Family(SCHEMA, "scale", members).text())
    return folder


def call(world: World, fast: Any, **changed: Any) -> Any:
    args, kwargs = world.arguments(**changed)
    return fast[lambda meta: (meta["M"] // meta["BLOCK"],)](*args, **kwargs)


def test_a_launch_goes_to_the_member_that_is_best_for_its_sizes(stored: World, tmp_path: Path) -> None:
    """Whatever block the program was written for."""
    fast = stored.jit(family=family(tmp_path / "f"))
    run = ROUNDS[0][1]
    for _ in range(run + 1):
        call(stored, fast, BLOCK=128)
    assert [one.grid[0] for one in stored.cuda.launches] == [256 // 64] * run + [256 // 128]  # then the next in turn
    assert stored.originals == []


def test_what_no_member_takes_goes_on_as_without_a_family(stored: World, tmp_path: Path) -> None:
    fast = stored.jit(family=family(tmp_path / "f"))
    call(stored, fast, M=250)
    assert not stored.cuda.launches
    assert len(stored.originals) == 1


@pytest.mark.parametrize("damage", ["none", "member", "all"])
def test_a_family_that_cannot_be_read_leaves_the_kernel_as_it_was(
    stored: World,
    tmp_path: Path,
    damage: str,
) -> None:
    folder = tmp_path / "f" if damage == "none" else family(tmp_path / "f")
    for block in {"none": (), "member": (64,), "all": (64, 128)}[damage]:
        (folder / str(block) / CUBIN).write_bytes(b"another")
    fast = stored.jit(family=folder)
    call(stored, fast)
    assert [one.grid[0] for one in stored.cuda.launches] == [256 // 128]
    assert len(stored.said) == (0 if damage == "member" else 1)


def test_no_family_is_looked_at_under_the_policy_off(stored: World, tmp_path: Path) -> None:
    fast = stored.jit(family=family(tmp_path / "f"), policy="off")
    call(stored, fast)
    assert not stored.cuda.launches
