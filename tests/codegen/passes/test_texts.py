"""What single passes make of small warp programs, both as text: the statements in front of and behind each."""

from __future__ import annotations

import pytest

from tests.codegen.warp.test_text import TILE_PROGRAM
from twill.codegen.passes.pipeline import PIPELINE
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.parse import parse
from twill.codegen.warp.text import text
from twill.codegen.warp.verifier import faults

CHOICES = Choices(partial_sums=True, ping_pong=False, dynamic=False, capacity=1 << 20)
AROUND = """\
warp program all bf16 for h100: 16416 bytes of shared memory
buffer 0 x: 64x64 bf16 in panels of 128 bytes, swizzle 128, 2 x 8192 bytes at 0
buffer 1 scratch: 128 f32 in panels of 0 bytes, swizzle 0, 1 x 512 bytes at 16384
aref 0 x of x: depth 2, load -> (consumer), 8192 bytes a slot by tma, arrivals 1 full, 4 empty
barrier 0 all: (consumer), 128 threads

group 0 load: 128 threads, 40 registers, one thread issues
  instances from 0 below 1 by 1
  body

group 1 consumer: 128 threads, 240 registers
  fragment 0 acc: f32 accumulator 64x64
  fragment 1 p: bf16 accumulator 64x64
  fragment 2 sum: f32 columns of 64x64
  cursor 0 x_get in x
  instances from 0 below 1 by 1
  body
"""

READ = ("get x_get", "%p = load x[x_get]", "consumed x_get", "advance x_get")
CASES = {
    "reader-fences puts a fence between a read by threads and the release of the slot": (
        "reader-fences", READ, (*READ[:2], "proxy fence", *READ[2:])),
    "reader-fences leaves alone a slot that only products read": (
        "reader-fences", ("multiply %acc = x[x_get] @ x[x_get], k 64 bf16", "consumed x_get"),
        ("multiply %acc = x[x_get] @ x[x_get], k 64 bf16", "consumed x_get")),
    "exchanges waits in front of a reduction that overwrites what the one before left": (
        "exchanges", ("%sum = reduce add %acc axis 0 through scratch with all",),
        ("sync all", "%sum = reduce add %acc axis 0 through scratch with all")),
    "exchanges needs no wait of its own where all have met since": (
        "exchanges", ("%sum = reduce add %acc axis 0 through scratch with all", "sync all"),
        ("%sum = reduce add %acc axis 0 through scratch with all", "sync all")),
}  # fmt: skip


@pytest.mark.parametrize(("name", "before", "after"), CASES.values(), ids=CASES)
def test_a_pass_makes_one_text_of_another(name: str, before: tuple[str, ...], after: tuple[str, ...]) -> None:
    (step,) = (step for step in PIPELINE if step.name == name)
    program, wanted = (AROUND + "".join(f"    {line}\n" for line in lines) for lines in (before, after))
    made = step.run(parse(program, TILE_PROGRAM), CHOICES)
    assert faults(made) == ()
    assert text(made) == wanted


NEXT = (
    "recall",
    "define band, inside = (instance / walk.x), (instance % walk.x)",
    "define step = (band + walk.y)",
    "program_id 0 = inside",
    "program_id 1 = step",
    "program_id 2 = (instance / walk.z)",
)


@pytest.mark.parametrize(
    ("asked", "left"),
    [
        ("program_id(0)", (*NEXT[:2], NEXT[3])),
        ("program_id(1)", (*NEXT[:3], NEXT[4])),
        ("(program_id(2) + step:u32)", (*NEXT[:3], NEXT[5])),
        ("4", ()),
    ],
)
def test_unused_indices_leaves_what_the_body_asks_for_and_what_that_is_made_of(
    asked: str, left: tuple[str, ...]
) -> None:

    def program(block: tuple[str, ...]) -> str:
        lines = "".join(f"    {line}\n" for line in block)
        made = AROUND.replace("\ngroup 0", "once\n  keep 1, 2, 3, 4\n\ngroup 0")
        head, _, end = made.rpartition("  body\n")
        return head + (f"  next\n{lines}" if block else "") + f"  body\n    let here = {asked}\n" + end

    (step,) = (step for step in PIPELINE if step.name == "unused-indices")
    assert text(step.run(parse(program(NEXT), TILE_PROGRAM), CHOICES)) == program(left)
