"""Promises of benchmarks.shadow: copies share memory as the originals do, and differences are seen."""

from __future__ import annotations

import torch

from benchmarks.shadow import Compared, copied


def test_what_shares_memory_shares_it_in_the_copy() -> None:
    whole = torch.arange(12.0).view(3, 4)
    column, other = whole[:, 1], torch.zeros(2)
    a, b, c, n = copied([whole, column, other, 5])
    assert n == 5 and a.data_ptr() != whole.data_ptr() and torch.equal(b, column) and b.stride() == column.stride()
    a[0, 1] = 9.0
    assert b[0] == 9.0 and whole[0, 1] == 1.0 and c.data_ptr() != other.data_ptr()


def test_distances_bits_and_infinities_are_counted() -> None:
    seen, wanted = Compared(), torch.tensor([3.0, 4.0], dtype=torch.bfloat16)
    seen.add(wanted.clone(), wanted, wanted.clone())
    assert (seen.distance, seen.unequal, seen.placed) == (0.0, 0, 0)
    seen.add(torch.tensor([3.0, 5.0]).bfloat16(), wanted, wanted)
    assert (seen.distance, seen.largest, seen.unequal) == (0.2, 0.25, 1)
    seen.add(torch.tensor([3.0, float("nan")]).bfloat16(), wanted, wanted)
    assert (seen.launches, seen.placed) == (3, 1)
