"""Threads, memory and barriers: what programs do, and what is found in those that a GPU may take amiss.

Each rule has a program that breaks it and a twin that does not.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.ptx_programs import kernel, rules, run
from twill.codegen.verify.ptx import findings
from twill.codegen.verify.ptx.build import build
from twill.codegen.verify.ptx.findings import RULES
from twill.codegen.verify.ptx.memory import GlobalMemory
from twill.codegen.verify.ptx.run import MapOf, PointerArgument, PtxLaunch, Result, execute
from twill.ptx import program
from twill.ptx.formats import decode, encode
from twill.ptx.parse import parse

OUT = "mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r0, 4, %rd1;"
ZEROS = {"out": np.zeros(256, np.uint32)}
BASE = "mov.u32 %r90, memory;"  # the first dynamic byte of shared memory
ELECT = "elect.sync _|%p9, 0xffffffff;"
INIT = (
    BASE
    + """
  mov.u32 %r99, %tid.x; setp.ne.u32 %p8, %r99, 0; @%p8 bra MADE;
  mbarrier.init.shared::cta.b64 [%r90], COUNT; fence.mbarrier_init.release.cluster; MADE: bar.sync 0;
"""
)
TRY = "{ .reg .pred p; WAIT: mbarrier.try_wait.parity.shared::cta.b64 p, [%r90], {parity}; @!p bra WAIT; }"


def wait(parity: int = 0) -> str:
    return TRY.replace("{parity}", str(parity))


def made(count: int) -> str:
    return INIT.replace("COUNT", str(count))


def test_what_two_texts_have_in_common_becomes_steps_once() -> None:
    """But not where other registers are declared."""
    same = "\nadd.u32 %r1, %r2, %r3;"
    texts = [kernel(body + same) for body in ("", "mov.u32 %r2, 7;", ".reg .b32 more;")]
    steps = [build(one, one.function("k"), GlobalMemory()).blocks[0].steps[-1] for one in map(parse, texts)]
    assert steps[0] is steps[1] and steps[0] is not steps[2]


# ---------------------------------------------------------------- threads


def test_lanes_that_go_different_ways_meet_again() -> None:
    body = (
        OUT
        + """
      and.b32 %r1, %r0, 3; mov.u32 %r2, 0; mov.u32 %r3, 0;
      LOOP: setp.ge.u32 %p1, %r2, %r0; @%p1 bra DONE;
      setp.eq.u32 %p2, %r1, 1; @%p2 bra ODD; add.u32 %r3, %r3, %r2; bra.uni NEXT;
      ODD: add.u32 %r3, %r3, 1000;
      NEXT: add.u32 %r2, %r2, 1; bra.uni LOOP;
      DONE: activemask.b32 %r4; st.global.u32 [%rd2], %r3; st.global.u32 [%rd2+512], %r4;
    """
    )
    got = run(body, {"out": np.zeros(256, np.uint32)}, threads=64).tensors["out"]
    wanted = [1000 * t if t % 4 == 1 else t * (t - 1) // 2 for t in range(64)]
    assert got[:64].tolist() == wanted
    assert got[128:192].tolist() == [0xFFFFFFFF] * 64  # all of the warp are together again


def test_every_cta_of_the_grid_runs_with_its_own_numbers() -> None:
    body = """
      mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %nctaid.x; mad.lo.u32 %r3, %r1, %r2, %r0;
      mov.u32 %r4, %ntid.x; mov.u32 %r5, %tid.x; mad.lo.u32 %r6, %r3, %r4, %r5;
      ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r6, 4, %rd1; st.global.u32 [%rd2], %r6;
    """
    got = run(body, {"out": np.zeros(6 * 48, np.uint32)}, threads=48, grid=(3, 2, 1)).tensors["out"]
    assert got.tolist() == list(range(6 * 48))


def test_a_guarded_instruction_changes_only_its_lanes() -> None:
    body = OUT + "mov.u32 %r1, 7; setp.gt.u32 %p1, %r0, 9; @%p1 mov.u32 %r1, 8; @!%p1 st.global.u32 [%rd2], %r1;"
    got = run(body, ZEROS).tensors["out"]
    assert got[:32].tolist() == [7] * 10 + [0] * 22


@pytest.mark.parametrize(
    ("instruction", "source"),
    [("bfly.b32 %r1|%p1, %r0, 5, 31, -1", lambda t: t ^ 5), ("idx.b32 %r1|%p1, %r0, 3, 31, -1", lambda t: 3),
     ("up.b32 %r1|%p1, %r0, 2, 0, -1", lambda t: t - 2 if t >= 2 else t),
     ("down.b32 %r1|%p1, %r0, 4, 31, -1", lambda t: t + 4 if t < 28 else t),
     ("idx.b32 %r1|%p1, %r0, 3, 0x1807, -1", lambda t: t & 24 | 3)],
)  # fmt: skip
def test_shuffles(instruction: str, source: object) -> None:
    got = run(OUT + f"shfl.sync.{instruction}; st.global.u32 [%rd2], %r1;", ZEROS).tensors["out"]
    assert callable(source) and got[:32].tolist() == [source(t) for t in range(32)]


def test_votes_reductions_and_matches() -> None:
    body = (
        OUT
        + """
      setp.lt.u32 %p1, %r0, 5; vote.sync.ballot.b32 %r1, %p1, -1; vote.sync.any.pred %p2, %p1, -1;
      vote.sync.all.pred %p3, %p1, -1; selp.u32 %r2, 1, 0, %p2; selp.u32 %r3, 2, 0, %p3; or.b32 %r2, %r2, %r3;
      redux.sync.max.s32 %r4, %r0, -1; and.b32 %r5, %r0, 7; match.any.sync.b32 %r6, %r5, -1;
      st.global.u32 [%rd2], %r1; st.global.u32 [%rd2+128], %r2; st.global.u32 [%rd2+256], %r4;
      st.global.u32 [%rd2+384], %r6;
    """
    )
    got = run(body, ZEROS).tensors["out"]
    assert got[:32].tolist() == [31] * 32 and got[32:64].tolist() == [1] * 32 and got[64:96].tolist() == [31] * 32
    assert got[96:128].tolist() == [0x01010101 << (t & 7) for t in range(32)]


def test_generic_addresses_reach_shared_global_and_local_memory() -> None:
    body = (
        OUT
        + """
      .local .align 8 .b8 depot[16];
      mov.u64 %rd3, memory; cvta.shared.u64 %rd3, %rd3; mad.wide.u32 %rd4, %r0, 4, %rd3; st.u32 [%rd4], %r0;
      mov.u64 %rd5, depot; cvta.local.u64 %rd6, %rd5; add.u32 %r1, %r0, 100; st.u32 [%rd6+8], %r1;
      ld.local.u32 %r2, [depot+8];
      bar.warp.sync -1; xor.b32 %r3, %r0, 1; mad.wide.u32 %rd4, %r3, 4, %rd3; ld.u32 %r4, [%rd4];
      add.u32 %r5, %r4, %r2; cvta.to.global.u64 %rd7, %rd2; st.u32 [%rd7], %r5; isspacep.shared %p1, %rd4;
      selp.u32 %r6, 1, 0, %p1; st.global.u32 [%rd2+128], %r6;
    """
    )
    result = run(body, ZEROS, shared=256)
    assert not result.findings
    assert result.tensors["out"][:32].tolist() == [(t ^ 1) + t + 100 for t in range(32)]
    assert result.tensors["out"][32:64].tolist() == [1] * 32


def test_parts_of_words_vectors_and_constants() -> None:
    body = (
        OUT
        + """
      mov.u64 %rd3, table; cvta.global.u64 %rd3, %rd3; ld.global.v2.u32 {%r1, %r2}, [%rd3+8];
      ld.global.s8 %r3, [%rd3+3];
      ld.global.u8 %r4, [%rd3+3]; add.u32 %r5, %r1, %r2; add.u32 %r5, %r5, %r3; add.u32 %r5, %r5, %r4;
      st.global.b16 [%rd2], %r5; st.global.u8 [%rd2+3], %r4;
    """
    )
    variables = ".global .align 16 .u32 table[4] = {0xFF000000, 1, 20, 300};\n"
    got = run(body, ZEROS, variables=variables).tensors["out"]
    assert got[:32].tolist() == [320 - 1 + 255 | 0xFF000000] * 32


def test_atomic_operations_return_what_was_there() -> None:
    body = (
        OUT
        + """
      atom.global.add.u32 %r1, [%rd1+512], 3; st.global.u32 [%rd2], %r1; red.global.max.s32 [%rd1+516], %r0;
      atom.global.inc.u32 %r2, [%rd1+520], 5; atom.global.cas.b32 %r3, [%rd1+524], 0, %r0; mov.f32 %f1, 0f3F000000;
      red.global.add.f32 [%rd1+528], %f1; mov.u32 %r4, memory; mov.u32 %r5, 0; st.shared.u32 [%r4], %r5; bar.sync 0;
      atom.shared.add.u32 %r6, [%r4], 1;
    """
    )
    got = run(body, ZEROS, shared=16).tensors["out"]
    assert got[:32].tolist() == [3 * t for t in range(32)] and got[128:132].tolist() == [96, 31, 32 % 6, 1]
    assert got[132:133].view(np.float32)[0] == 16.0


# ---------------------------------------------------------------- memory that is not there


@pytest.mark.parametrize(
    ("access", "rule"),
    [("st.global.u32 [%rd2+1024], %r0;", "bounds"), ("ld.global.u32 %r1, [%rd2+-4];", "bounds"),
     ("st.global.u32 [%rd2+2], %r0;", "alignment"), ("st.shared.u32 [%r90+256], %r0;", "bounds"),
     ("mov.u32 %r1, 0; st.shared.u32 [%r1], %r0;", "bounds"),
     ("ld.shared.v4.u32 {%r1,%r2,%r3,%r4}, [%r90+8];", "alignment")],
)  # fmt: skip
def test_an_access_beyond_or_beside_memory_is_found_with_its_line(access: str, rule: str) -> None:
    result = run(OUT + BASE + "\n" + access, ZEROS, shared=256)
    (finding,) = result.findings
    assert finding.rule == rule and finding.place.line == 17 and "CTA 0" in finding.threads
    inside = access.replace("1024", "892").replace("-4", "0").replace("+2]", "+4]").replace("256", "252")
    inside = inside.replace("%r1, 0; st.shared.u32 [%r1]", "%r1, 0; st.shared.u32 [%r90]").replace("+8]", "+16]")
    assert not run(OUT + BASE + "bar.sync 0;" + inside, ZEROS, shared=256).findings


# ---------------------------------------------------------------- orders

SHARE = (
    BASE
    + OUT
    + """
  mad.lo.u32 %r91, %r0, 4, %r90; xor.b32 %r1, %r0, 32; mad.lo.u32 %r92, %r1, 4, %r90; st.shared.u32 [%r91], %r0;
"""
)
READ = "ld.shared.u32 %r2, [%r92]; st.global.u32 [%rd2], %r2;"


def test_warps_that_read_what_others_wrote_need_a_barrier() -> None:
    right = run(SHARE + "bar.sync 0;" + READ, ZEROS, threads=64, shared=512)
    assert not right.findings and right.tensors["out"][:64].tolist() == [t ^ 32 for t in range(64)]
    assert rules(run(SHARE + READ, ZEROS, threads=64, shared=512)) == {"order"}


def test_warps_that_overwrite_what_others_read_need_a_barrier() -> None:
    again = "st.shared.u32 [%r91], %r1;"
    assert not run(SHARE + "bar.sync 0;" + READ + "bar.sync 0;" + again, ZEROS, threads=64, shared=512).findings
    assert rules(run(SHARE + "bar.sync 0;" + READ + again, ZEROS, threads=64, shared=512)) == {"order"}


def test_named_barriers_order_those_who_arrive_before_those_who_wait() -> None:
    halves = "setp.lt.u32 %p1, %r0, 32; @%p1 bra FIRST; bar.sync 3, 64; {read} bra.uni END; FIRST: {arrive} END: "
    right = SHARE + halves.format(read=READ, arrive="bar.arrive 3, 64;")
    assert not run(right, ZEROS, threads=64, shared=512).findings
    wrong = SHARE + halves.format(read=READ, arrive="bar.arrive 4, 32;").replace("bar.sync 3, 64", "bar.sync 3, 32")
    assert rules(run(wrong, ZEROS, threads=64, shared=512)) == {"order"}


def test_an_mbarrier_orders_its_arrivals_before_its_waits() -> None:
    first = OUT + made(64) + "add.u32 %r90, %r90, 16;" + SHARE.removeprefix(BASE).replace(OUT, "")
    arrive = "sub.u32 %r90, %r90, 16; mbarrier.arrive.shared::cta.b64 _, [%r90];"
    right = run(first + arrive + wait() + READ, ZEROS, threads=64, shared=512)
    assert not right.findings and right.tensors["out"][:64].tolist() == [t ^ 32 for t in range(64)]
    assert rules(run(first + arrive + READ, ZEROS, threads=64, shared=512)) == {"order"}


def test_a_wait_that_is_not_repeated_may_fail() -> None:
    first = OUT + made(64) + "add.u32 %r90, %r90, 16;" + SHARE.removeprefix(BASE).replace(OUT, "")
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r90];"
    ways = f"""
      sub.u32 %r90, %r90, 16; setp.ge.u32 %p1, %r0, 32; @%p1 bra LAST;
      {arrive} {{wait}} {READ} bra.uni END; LAST: {arrive} END:
    """
    assert not run((first + ways).replace("{wait}", wait()), ZEROS, threads=64, shared=512).findings
    once = "mbarrier.try_wait.parity.shared::cta.b64 %p5, [%r90], 0;"
    assert rules(run((first + ways).replace("{wait}", once), ZEROS, threads=64, shared=512)) == {"order"}


# ---------------------------------------------------------------- barriers


def test_whoever_waits_for_ever_is_named_with_what_is_missing() -> None:
    arrive = "mbarrier.arrive.shared::cta.b64 _, [%r90];"
    (finding,) = run(OUT + made(33) + arrive + wait(), ZEROS, shared=64).findings
    assert finding.rule == "deadlock"
    assert "32 threads from 0 to 31" in finding.message and "misses 1 of 33 arrivals and 0 bytes" in finding.message
    assert not run(OUT + made(32) + arrive + wait(), ZEROS, shared=64).findings


def test_a_barrier_that_some_never_reach_is_a_deadlock() -> None:
    half = OUT + "setp.lt.u32 %p1, %r0, 32; @%p1 bra END; bar.sync 1, 64; END: "
    (finding,) = run(half, ZEROS, threads=64).findings
    assert finding.rule == "deadlock" and "barrier 1, where 32 of 64 threads are" in finding.message
    assert not run(half.replace("64", "32"), ZEROS, threads=64).findings


def test_a_program_without_an_end_is_stopped() -> None:
    module = parse(kernel("AGAIN: mov.u32 %r1, 0; bra.uni AGAIN;"))
    result = execute(module, "k", PtxLaunch([PointerArgument("out")], ZEROS, (1, 1, 1), 32, blocks=5000))
    (finding,) = result.findings
    assert finding.rule == "endless" and "32 threads from 0 to 31" in finding.message


@pytest.mark.parametrize("first", [0, 32])
def test_whoever_waits_for_a_store_in_a_loop_does_not_keep_out_the_storing_warp(first: int) -> None:
    body = (
        OUT
        + f"""
      xor.b32 %r5, %r0, {first}; setp.ge.u32 %p1, %r5, 32; @%p1 bra STORE;
      SPIN: ld.volatile.global.u32 %r1, [%rd1+1020]; setp.eq.u32 %p2, %r1, 0; @%p2 bra SPIN;
      st.global.u32 [%rd2], %r1; bra.uni END;
      STORE: mov.u32 %r2, 7; st.volatile.global.u32 [%rd1+1020], %r2; END:
    """
    )
    result = run(body, ZEROS, threads=64)
    assert not result.findings and result.tensors["out"][first : first + 32].tolist() == [7] * 32


@pytest.mark.parametrize(
    ("wrong", "right", "rule"),
    [
        ("mbarrier.arrive.shared::cta.b64 _, [%r90+8];", "mbarrier.arrive.shared::cta.b64 _, [%r90];", "mbarrier"),
        ("mbarrier.arrive.shared::cta.b64 _, [%r90], 3;", "mbarrier.arrive.shared::cta.b64 _, [%r90];", "mbarrier"),
        ("st.shared.u32 [%r90+4], %r0;", "bar.sync 0; st.shared.u32 [%r90+8], %r0;", "mbarrier"),
        ("bar.sync 1, 33;", "bar.sync 1, 32;", "barrier"),
        ("bar.sync 17;", "bar.sync 15;", "barrier"),
        ("setmaxnreg.inc.sync.aligned.u32 65;", "setmaxnreg.inc.sync.aligned.u32 248;", "registers"),
        ("setmaxnreg.inc.sync.aligned.u32 128;", "setmaxnreg.dec.sync.aligned.u32 128;", "registers"),
    ],
)
def test_what_barriers_and_budgets_cannot_do(wrong: str, right: str, rule: str) -> None:
    assert rules(run(OUT + made(32) + wrong, ZEROS, shared=64, registers=248)) == {rule}
    assert not run(OUT + made(32) + right, ZEROS, shared=64, registers=248).findings


def test_registers_are_handed_out_only_when_others_gave_them_back() -> None:
    body = (
        OUT
        + """
      setp.lt.u32 %p1, %r0, 128; @%p1 bra GROW; setmaxnreg.dec.sync.aligned.u32 {less}; bra.uni END;
      GROW: setmaxnreg.inc.sync.aligned.u32 232; END:
    """
    )
    assert not run(body.format(less=24), ZEROS, threads=256, registers=128).findings
    (finding,) = run(body.format(less=40), ZEROS, threads=256, registers=128).findings
    assert finding.rule == "deadlock" and "registers" in finding.message


# ---------------------------------------------------------------- copies

TILE = {"source": np.arange(64 * 64, dtype=np.float32).reshape(64, 64), "out": np.zeros((64, 64), np.float32)}


def tile_map(name: str) -> MapOf:
    return MapOf(name, "FLOAT32", (64, 64), (256,), (32, 16), 128)


LOADED = made(1) + """
  mov.b64 %rd1, source; cvta.param.u64 %rd1, %rd1; add.u32 %r91, %r90, 1024; mov.u32 %r0, %tid.x;
  setp.ne.u32 %p1, %r0, 0; @%p1 bra ISSUED; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r90], {bytes};
  mov.u32 %r1, 32; mov.u32 %r2, 48;
  cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r91], [%rd1, {{%r1, %r2}}], [%r90];
  ISSUED: {wait}
"""  # fmt: skip
ADDED = """
  shl.b32 %r3, %r0, 4; add.u32 %r3, %r3, %r91; ld.shared.v4.f32 {%f1,%f2,%f3,%f4}, [%r3]; add.f32 %f1, %f1, %f1;
  add.f32 %f2, %f2, %f2; add.f32 %f3, %f3, %f3; add.f32 %f4, %f4, %f4; st.shared.v4.f32 [%r3], {%f1,%f2,%f3,%f4};
"""
STORED = """
  @%p1 bra END; mov.b64 %rd2, out; cvta.param.u64 %rd2, %rd2; mov.u32 %r4, 0; mov.u32 %r5, 16;
  cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%rd2, {%r4, %r5}], [%r91]; cp.async.bulk.commit_group;
  {after} END:
"""
MAPS = (".align 64 .b8 source[128]", ".align 64 .b8 out[128]")
FENCE, READ_OUT = "fence.proxy.async.shared::cta;", "cp.async.bulk.wait_group.read 0;"


def copied(
    bytes: int = 2048, waits: str = "", fence: str = FENCE, after: str = READ_OUT, between: str = "bar.sync 0;"
) -> Result:
    body = LOADED.format(bytes=bytes, wait=waits or wait()) + ADDED + fence + between + STORED.replace("{after}", after)
    return run(body, TILE, [tile_map("source"), tile_map("out")], parameters=MAPS, threads=128, shared=4096)


def test_a_tile_is_copied_in_doubled_and_copied_out() -> None:
    result = copied()
    assert not result.findings
    wanted = np.zeros((64, 64), np.float32)
    wanted[16:32, 0:32] = 2 * TILE["source"][48:64, 32:64]
    assert (result.tensors["out"] == wanted).all()


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ({"fence": ""}, "proxy-fence"),
        ({"fence": "", "between": f"bar.sync 0; {FENCE} bar.sync 0;"}, ""),
        ({"between": ""}, "order"),
        ({"waits": "bar.sync 0;"}, "order leftover"),
        ({"after": ""}, "bulk-wait"),
        ({"after": "cp.async.bulk.wait_group.read 1;"}, "bulk-wait"),
        ({"after": "st.shared.u32 [%r91], %r4;" + READ_OUT}, "in-flight"),
        ({"after": READ_OUT + "st.shared.u32 [%r91], %r4;"}, ""),
        ({"bytes": 2032}, "deadlock"),
        ({"bytes": 2064}, "deadlock"),
        ({"fence": f"setp.eq.u32 %p2, %r0, 0; @%p2 {FENCE}"}, "proxy-fence"),
    ],
)
def test_what_is_missing_around_copies_is_found(words: dict[str, Any], rule: str) -> None:
    assert rules(copied(**words)) == set(rule.split())


@pytest.mark.parametrize(("index", "found"), [(32, set()), (28, set()), (30, {"alignment"}), (-1, {"alignment"})])
def test_an_innermost_index_that_is_no_multiple_of_16_bytes_is_found(index: int, found: set[str]) -> None:
    """The hardware ends the launch with an illegal instruction."""
    body = LOADED.format(bytes=2048, wait=wait()).replace("mov.u32 %r1, 32;", f"mov.s32 %r1, {index};")
    result = run(body, TILE, [tile_map("source"), tile_map("out")], parameters=MAPS, threads=32, shared=4096)
    assert rules(result) == found


def test_a_copy_that_nobody_waits_for_is_found() -> None:
    body = LOADED.format(bytes=2048, wait="")
    assert rules(run(body, TILE, [tile_map("source"), tile_map("out")], parameters=MAPS, threads=32, shared=4096)) == {
        "leftover"
    }


# ---------------------------------------------------------------- multiplies

SHARED_BYTES = 8192
FILL = (
    BASE
    + """
  mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [a]; ld.param.u64 %rd2, [out]; mov.u32 %r1, 0;
  COPY: mad.lo.u32 %r2, %r1, 128, %r0; mad.wide.u32 %rd3, %r2, 4, %rd1; ld.global.u32 %r3, [%rd3];
  mad.lo.u32 %r4, %r2, 4, %r90; st.shared.u32 [%r4], %r3; add.u32 %r1, %r1, 1; setp.lt.u32 %p1, %r1, 5; @%p1 bra COPY;
"""
)
# A: 64 x 16 and B: 8 x 16 of bf16 in core matrices, 8 rows of 16 bytes; the second half of K is 128 bytes further on.
DESCRIBE = """
  shr.u32 %r5, %r90, 4; cvt.u64.u32 %rd4, %r5; or.b64 %rd4, %rd4, {strides}; add.s64 %rd5, %rd4, 128;
  mov.f32 %f1, 0f3F800000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;
"""
MULTIPLY = """{ .reg .pred p; setp.ne.b32 p, 1, 0;
  wgmma.mma_async.sync.aligned.m64n8k16.f32.bf16.bf16 {%f1, %f2, %f3, %f4}, %rd4, %rd5, p, 1, 1, 0, 0; }
"""
SAVE = "mad.wide.u32 %rd6, %r0, 16, %rd2; st.global.v4.f32 [%rd6], {%f1, %f2, %f3, %f4};"
STRIDES = 128 >> 4 << 16 | 256 >> 4 << 32
WGMMA = {
    "fence": "wgmma.fence.sync.aligned;",
    "commit": "wgmma.commit_group.sync.aligned;",
    "wait": "wgmma.wait_group.sync.aligned 0;",
}


def cores(matrix: np.ndarray) -> np.ndarray:
    """Rows x 16 numbers as core matrices: [rows / 8, 2, 8, 8]."""
    return np.ascontiguousarray(matrix.reshape(-1, 8, 2, 8).swapaxes(1, 2)).reshape(-1)


def multiplied(order: str, filled: str = FILL + FENCE + "bar.sync 0;"):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(7)
    a, b = rng.integers(-4, 5, (64, 16)).astype(np.float32), rng.integers(-4, 5, (8, 16)).astype(np.float32)
    bits = np.concatenate([encode(cores(a), "bf16"), encode(cores(b), "bf16"), np.zeros(128, np.uint16)])
    body = filled + DESCRIBE.format(strides=STRIDES)
    for word in order.split():
        body += {"multiply": MULTIPLY, "save": SAVE, **WGMMA}.get(word, word.replace("_", " ")) + "\n"
    result = run(body, {"a": bits, "out": np.zeros((128, 4), np.float32)}, threads=128, shared=SHARED_BYTES)
    thread, register = np.ogrid[:128, :4]
    row = thread // 32 * 16 + thread % 32 // 4 + 8 * (register // 2)
    column = thread % 4 * 2 + register % 2
    return result, (1 + decode(encode(a, "bf16"), "bf16") @ b.T)[row, column]


def test_a_warp_group_multiplies_what_its_descriptors_say() -> None:
    result, wanted = multiplied("fence multiply commit wait save")
    assert not result.findings
    assert (result.tensors["out"] == wanted).all()


@pytest.mark.parametrize(
    ("order", "rule"),
    [
        ("multiply commit wait save", "wgmma-fence"),
        ("fence multiply commit save wait", "wgmma-wait"),
        ("fence multiply commit mov.f32_%f3,_0f00000000; wait save", "wgmma-wait"),
        ("fence multiply commit wait mov.f32_%f3,_0f00000000; save", ""),
        ("fence multiply commit mov.f32_%f5,_%f1; wait save", ""),
        ("fence multiply commit st.shared.u32_[%r90],_%r0; wait save", "in-flight"),
        ("fence multiply multiply commit wait save", ""),
        ("fence multiply commit", "leftover"),
        ("fence multiply commit wait", ""),
        ("fence multiply commit wait add.f32_%f1,_%f1,_%f1; multiply commit wait save", "wgmma-fence"),
        ("fence multiply commit wait add.f32_%f1,_%f1,_%f1; fence multiply commit wait save", ""),
    ],
)
def test_registers_of_multiplies_and_what_they_read_are_left_alone_until_they_are_over(order: str, rule: str) -> None:
    result, _ = multiplied(order)
    assert rules(result) == ({rule} if rule else set())


@pytest.mark.parametrize(
    ("between", "rule"),
    [("bar.sync 0;", "proxy-fence"), (FENCE, "order"), (f"{FENCE} bar.sync 0;", ""), (f"bar.sync 0; {FENCE}", ""),
     (f"setp.eq.u32 %p2, %r0, 0; @%p2 {FENCE} bar.sync 0;", "proxy-fence"),
     (f"setp.lt.u32 %p2, %r0, 32; @%p2 {FENCE} bar.sync 0;", "proxy-fence")],
)  # fmt: skip
def test_what_threads_wrote_is_synchronized_and_fenced_on_its_way_to_a_multiply(between: str, rule: str) -> None:
    result, _ = multiplied("fence multiply commit wait save", FILL + between)
    assert rules(result) == ({rule} if rule else set())


def test_the_result_of_a_multiply_is_not_there_before_its_wait() -> None:
    result, _ = multiplied("fence multiply commit save wait")
    assert np.isnan(result.tensors["out"]).all()


def test_a_multiply_by_part_of_a_warp_group_never_runs() -> None:
    skip = FILL + FENCE + "bar.sync 0; setp.ge.u32 %p2, %r0, 96; @%p2 bra.uni OUT;"
    result, _ = multiplied("fence multiply commit wait save OUT:", skip)
    assert rules(result) <= {"deadlock", "form"} and rules(result)


# ---------------------------------------------------------------- clusters


def test_ctas_of_a_cluster_arrive_at_one_anothers_barriers() -> None:
    body = (
        OUT
        + made(1)
        + """
      barrier.cluster.arrive.release; barrier.cluster.wait.acquire;
      mov.u32 %r1, %cluster_ctarank; xor.b32 %r2, %r1, 1; mapa.shared::cluster.u32 %r3, %r90, %r2;
      setp.eq.u32 %p1, %r0, 0; @%p1 mbarrier.arrive.shared::cluster.b64 _, [%r3];
    """
        + wait()
        + """
      mad.lo.u32 %r4, %r1, 32, %r0; mad.wide.u32 %rd3, %r4, 4, %rd1; st.global.u32 [%rd3], %r1;
    """
    )
    result = run(body, ZEROS, grid=(2, 1, 1), cluster=2, shared=64)
    assert not result.findings and result.tensors["out"][:64].tolist() == [0] * 32 + [1] * 32


def test_every_rule_says_what_it_is() -> None:
    assert all(text and not text.endswith(".") for text in RULES.values())


def test_arguments_are_numbers_addresses_and_maps() -> None:
    body = """
      ld.param.u64 %rd1, [out]; ld.param.f32 %f1, [x]; ld.param.u32 %r1, [n];
      st.global.f32 [%rd1], %f1; st.global.u32 [%rd1+4], %r1;
    """
    result = run(body, ZEROS, [PointerArgument("out", 8), 1.5, -2], parameters=(".u64 out", ".f32 x", ".u32 n"))
    assert result.tensors["out"][:4].tolist() == [0, 0, 0x3FC00000, 0xFFFFFFFE]


def test_the_executor_knows_nothing_of_the_rest_of_twill() -> None:
    rooms = (Path(findings.__file__).parent, Path(program.__file__).parent)
    for file in (file for room in rooms for file in room.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            names = [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            names += [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                assert not name.startswith("twill") or name.startswith(
                    ("twill.exc", "twill.ptx", "twill.codegen.verify.ptx")
                ), file
