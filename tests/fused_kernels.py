"""Kernels whose program instances may be fused, and some whose may not, for tests of that."""

# mypy: disable-error-code="no-untyped-def, untyped-decorator"

import triton
import triton.language as tl


@triton.jit
def numbered(a_desc, b_desc, c_desc, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, HOW: tl.constexpr):
    """C = A B + something made of row numbers: HOW says of which."""
    pid = tl.program_id(0)
    row = pid * ROWS
    acc = tl.zeros([ROWS, COLUMNS], tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([k, 0]), acc)
    if HOW == "rows":
        number = row + tl.arange(0, ROWS)
    elif HOW == "twice the rows":
        number = 2 * (tl.arange(0, ROWS) + row) + 5
    elif HOW == "rows by parts":
        number = (row + tl.arange(0, ROWS)) // 3
    elif HOW == "rows of a tile":
        number = tl.arange(0, ROWS)
    elif HOW == "parts of rows of a tile":
        number = tl.arange(0, ROWS) // 3 + row
    elif HOW == "instances":
        number = pid + tl.zeros([ROWS], tl.int32)
    else:
        number = tl.arange(0, ROWS) + pid * (ROWS // 2)
    c = acc + number.to(tl.float32)[:, None]
    c_desc.store([row, 0], c.to(tl.bfloat16))


@triton.jit
def counting(a_desc, b_desc, c_desc, Count, K, ROWS: tl.constexpr, COLUMNS: tl.constexpr, HOW: tl.constexpr):
    """C = A B, and something that is not of the rows alone: HOW says what."""
    pid = tl.program_id(0)
    row = pid * ROWS
    acc = tl.zeros([ROWS, COLUMNS], tl.float32)
    for k in range(0, K, 64):
        acc = tl.dot(a_desc.load([row, k]), b_desc.load([k, 0]), acc)
    c_desc.store([row, 0], acc.to(tl.bfloat16))
    if HOW == "once for all":
        tl.store(Count, K)
    elif HOW == "added":
        tl.atomic_add(Count, 1)
    elif HOW == "each its own":
        tl.store(Count + pid, K)
