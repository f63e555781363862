"""Promises of `twill.codegen.warp.verifier`: each rule refuses a program in which one text was changed, with words for
what is wrong, and passes the program before the change."""

from __future__ import annotations

import pytest

from tests.codegen.warp.test_text import TILE_PROGRAM
from twill import exc
from twill.codegen.warp.parse import parse
from twill.codegen.warp.verifier import faults, refuse_ill_formed

SOUND = """\
warp program all bf16 for h100: 16416 bytes of shared memory
map 0 x: bf16 [$N, 64] by [64, 1], offset 0, box 64x64, swizzle 128
buffer 0 x: 64x64 bf16 in panels of 128 bytes, swizzle 128, 2 x 8192 bytes at 0
buffer 1 other: 64x64 bf16 in panels of 128 bytes, swizzle 128, 1 x 8192 bytes at 16384
aref 0 x of x: depth 2, load -> (consumer), 8192 bytes a slot by tma, arrivals 1 full, 4 empty
barrier 0 turn: (consumer), 128 threads
setup
  define instances = num_programs(0)
once
  define size = instances
  keep size, size, size, size

group 0 load: 128 threads, 40 registers, one thread issues
  cursor 0 x_put in x
  instances from cta() below instances by ctas()
  body
    acquire x_put
    expect x_put 8192 bytes
    tma load x[0, 0] -> x[x_put] full at x_put
    advance x_put

group 1 consumer: 128 threads, 240 registers
  fragment 0 acc: f32 accumulator 64x64
  fragment 1 p: f32 accumulator 64x64
  fragment 2 rows: f32 rows of 64x64
  cursor 1 x_get in x
  instances from cta() below instances by ctas()
  next
    recall
    define row, column = (instance % walk.x), walk.y
    program_id 0 = (row + column)
  body
    let n = ($N / 64)
    pipeline k with step step: n iterations, 1 stages
      prologue 0
        get x_get
      steady
        multiply %acc += x[x_get][0:64, 0:64] @ x[x_get], k 64 bf16
        if (step < n)
          let inner = step
          %p = %acc
        consumed x_get
        advance x_get
      epilogue 0
        sync turn
    %p = mul %p, %rows[0, *]
"""

LOOP = "  instances from cta() below instances by ctas()\n"
FAULTS = [
    ("buffer 1 other", "buffer 2 other", "ids of each buffer are not their places"),
    ("  cursor 1", "  fragment 2 rows: f32 uniform\n  cursor 1", "two fragments have one id"),
    ("  cursor 1", "  cursor 1 x_get in x\n  cursor 1", "two cursors have one id"),
    ("depth 2", "depth 3", "ring x is deeper than its buffer"),
    ("let n = ($N / 64)", "commit", "Pipeline: scalar `n` is not defined here"),
    ("        consumed x_get", "        let again = inner", "Let: scalar `inner` is not defined here"),
    ("        sync turn", "        sync turn\n    let late = step", "Let: scalar `step` is not defined here"),
    ("    get x_get", "    get x_put", "Get: names cursor 0, which is not there"),
    ("    acquire x_put", "    fence %acc", "Fence: names fragment 0, which is not there"),
    ("    acquire x_put", "    %p = mul %rows, (%rows)", "Compute: names fragment 2, which is not there"),
    ("@ x[x_get]", "@ other[x_get]", "takes a slot of `other` by the cursor of another ring"),
    ("[0:64, 0:64]", "[0:64, 32:128]", "takes 32:128 of 64 in a slot of `x`"),
    ("%p = %acc", "%p = %rows", "copies `rows` to `p`, which has another element type or layout"),
    ("      epilogue 0\n        sync turn\n", "", "has 1 stages, 1 blocks of prologue and 0 of epilogue"),
    (
        "    advance x_put",
        "    publish instance x[x_put]: 0, 0, 0 if 1",
        "load, body: PublishInstance: stands in `body`",
    ),
    ("  define size = instances", "  define size = row", "once: Define: scalar `row` is not defined here"),
    ("    program_id 0", "    keep 0, 0, 0, 0\n    program_id 0", "consumer, next: Keep: stands in `next`"),
    ("    recall\n", "", "Define: scalar `walk.x` is not defined here"),
    ("row, column = (instance % walk.x), walk.y", "row, column = walk.x", "gives 2 names to 1 values"),
    ("let n = ($N / 64)", "let n = size", "Let: scalar `size` is not defined here"),
    (
        "    program_id 0",
        "    stop unless row\n    program_id 0",
        "consumer: has a loop over its instances, and `next` stops",
    ),
    (
        LOOP + "  body\n    acquire",
        "  body\n    acquire",
        "load: has no loop over its instances, and `next` stops none",
    ),
    (
        "    program_id 0",
        "    multiply %acc = x @ x, k 64 bf16\n    program_id 0",
        "Multiply: stands in `next`",
    ),
    ("    let n =", "    await earlier grids\n    let n =", "AwaitEarlierGrids: stands in `body`"),
    (
        "  define instances",
        "  await earlier grids\n  define instances",
        "setup: something stands behind the wait for earlier grids",
    ),
    (
        "  define instances = num_programs(0)",
        "  define instances = num_programs(0)\n  given row = (program_id(0) / $N)",
        "setup: Given: computes `row` before the launch, of what is not known there",
    ),
    ("    let n =", "    given m = ($N / 64)\n    let n =", "Given: stands in `body`"),
    (
        "once\n  define size = instances",
        "  await earlier grids\nonce\n  define size = lookup(N, 0:i64, pad=0)",
        "setup, once: something is looked up in memory before earlier grids have ended",
    ),
]


def test_a_sound_program_has_no_faults() -> None:
    assert faults(parse(SOUND, TILE_PROGRAM)) == ()


@pytest.mark.parametrize(("old", "new", "said"), FAULTS, ids=[said for _, _, said in FAULTS])
def test_a_program_with_a_fault_is_refused_with_its_place(old: str, new: str, said: str) -> None:
    assert old in SOUND
    broken = parse(SOUND.replace(old, new, 1), TILE_PROGRAM)
    with pytest.raises(exc.IllFormedWarpProgram) as found:
        refuse_ill_formed(broken, "the pass fences")
    assert str(found.value).startswith("all.py: the warp program behind the pass fences is ill-formed:")
    assert said in str(found.value)
