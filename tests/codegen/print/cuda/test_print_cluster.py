"""Promises of `twill.codegen.print.cuda.print_cluster`: printed arithmetic is that of pairs; who sends, arrives,
meets."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from tests.warp_programs import clustered_gemm, gemm
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.print.cuda.printer import print_cuda
from twill.codegen.warp.pairs import ClusterMember, paired
from twill.codegen.warp.program import NEIGHBOUR, PRESENT, Cluster
from twill.tile.interpret.sequential import instances


def test_a_cluster_is_printed_and_compiles() -> None:
    printed = print_cuda(clustered_gemm())
    text = printed.text
    assert "__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)" in text
    assert text.count("cluster_sync();") == 2 and "__syncthreads" not in text
    assert re.findall(r"if \(cta == (\d)\) tma_load_multicast\(.*, 3, ", text) == ["0", "1"]
    assert "if (lane < 2) mbar_arrive_at(" in text and "mbar_arrive(" not in text
    assert text.index("min(pair + cta, grid0 - 1)") < text.index("present = pair + cta < grid0")
    facts = compile_cubin(text, shapes=printed.shapes, lines=printed.lines).function(printed.function)
    assert facts.spill_stores == 0


def test_without_a_cluster_nothing_of_it_is_printed() -> None:
    text = print_cuda(gemm()).text
    assert not re.search(r"cluster|\bcta\b|\bpair", text)


@given(st.integers(1, 7), st.integers(1, 5), st.integers(1, 3), st.integers(0, 2))
def test_the_printed_arithmetic_is_that_of_pairs(first: int, second: int, third: int, axis: int) -> None:
    grid, cluster = (first, second, third), Cluster(axis)
    sizes = [(size + 1) // 2 if a == axis else size for a, size in enumerate(grid)]
    walked = list(instances(paired(grid, cluster)))
    assert len(walked) == sizes[0] * sizes[1] * sizes[2]
    for instance, pair in enumerate(walked):
        ids = [instance % sizes[0], instance // sizes[0] % sizes[1], instance // (sizes[0] * sizes[1])]
        start = 2 * ids[axis]
        for cta in range(2):
            member = ClusterMember(cluster, cta, grid)
            ids[axis] = min(start + cta, grid[axis] - 1)
            assert tuple(ids) == member.index(pair)
            named = {PRESENT: int(start + cta < grid[axis]), NEIGHBOUR: min(start + 1 - cta, grid[axis] - 1)}
            assert named == member.names(pair)
