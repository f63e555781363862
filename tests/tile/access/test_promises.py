"""What a signature could promise is said once, however often a line was written out."""

from __future__ import annotations

from collections.abc import Callable

from twill.kernel.specialization import resolve
from twill.tile.access.promises import missing_promises
from twill.tile.access.resolve import resolve_accesses
from twill.tile.translate.translate import tile_program

KERNEL = """
@triton.jit
def k(x, y, n):
    i, j = tl.arange(0, 16), tl.arange(0, 64)
    s = tl.zeros((16, 64), tl.float32)
    for part in range(8):
        for at in range(0, n, 64):
            s += tl.load(x + i[:, None] * 64 + j[None, :] + part * n + at)
    s += tl.load(x + i[:, None] * n + j[None, :])
    tl.store(y + i[:, None] * 64 + j[None, :], s)
"""


def test_a_line_that_was_written_out_is_told_of_once(kernel_file: Callable[..., str]) -> None:
    spec = resolve(f"{kernel_file(KERNEL)}::k", sig=["x=*fp32:16", "y=*fp32:16", "n=i32"], const=[])
    told = [*missing_promises(resolve_accesses(tile_program(spec)))]
    assert [line for line, _ in told] == [9, 10]
    assert "its start" in told[0][1] and "its stride n" in told[1][1]
