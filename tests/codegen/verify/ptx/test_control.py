"""Ways that lanes take: tables of labels, waits behind other work, budgets that warps ask for at different places."""

from __future__ import annotations

import numpy as np

from tests.ptx_programs import kernel, rules, run
from twill.codegen.verify.ptx.run import PointerArgument, PtxLaunch, execute
from twill.ptx.parse import parse

OUT = "mov.u32 %r0, %tid.x; ld.param.u64 %rd1, [out]; mad.wide.u32 %rd2, %r0, 4, %rd1;"
ZEROS = {"out": np.zeros(256, np.uint32)}


def test_lanes_branch_by_a_table_of_labels() -> None:
    body = (
        OUT
        + """
      TABLE: .branchtargets A, B, C;
      and.b32 %r1, %r0, 3; min.u32 %r1, %r1, 2; brx.idx %r1, TABLE;
      A: mov.u32 %r2, 10; bra.uni END;
      B: mov.u32 %r2, 20; bra.uni END;
      C: mov.u32 %r2, 30;
      END: st.global.u32 [%rd2], %r2;
    """
    )
    assert run(body, ZEROS).tensors["out"][:8].tolist() == [10, 20, 30, 30, 10, 20, 30, 30]


def test_a_branch_beyond_its_table_is_found() -> None:
    body = OUT + "T: .branchtargets A, B; mov.u32 %r1, 2; brx.idx %r1, T; A: mov.u32 %r2, 1; B: mov.u32 %r3, 1;"
    assert rules(run(body, ZEROS)) == {"form"}


def test_what_stands_in_front_of_a_wait_for_other_lanes_is_done_once() -> None:
    """The lanes that come first wait there for those that come later by another way."""
    body = (
        OUT
        + """
      mov.u32 %r1, 0; bra.uni SPLIT;
      TOGETHER: add.u32 %r1, %r1, 1; bar.sync 0; st.global.u32 [%rd2], %r1; ret;
      SPLIT: setp.lt.u32 %p1, %r0, 7; @%p1 bra TOGETHER; mov.u32 %r7, 1; bra.uni TOGETHER;
    """
    )
    assert run(body, ZEROS).tensors["out"][:32].tolist() == [1] * 32


BUDGETS = """
  mov.u32 %r0, %tid.x; setp.lt.u32 %p1, %r0, 64; @%p1 bra LOW;
  setmaxnreg.dec.sync.aligned.u32 HIGH; bra.uni END;
  LOW: setmaxnreg.dec.sync.aligned.u32 40;
  END: ret;
"""


def test_warps_of_a_warp_group_ask_for_registers_at_different_places() -> None:
    for high, scattered, found in ((40, True, set()), (48, True, {"registers"}), (40, False, {"deadlock"})):
        module = parse(kernel(BUDGETS.replace("HIGH", str(high))))
        launch = PtxLaunch([PointerArgument("out")], ZEROS, (1, 1, 1), 128, registers=128, scattered_budgets=scattered)
        assert rules(execute(module, "k", launch)) == found
