"""Promises of what is printed of clusters: who sends, arrives, meets."""

from __future__ import annotations

import re

from tests.warp_programs import clustered_gemm, gemm
from twill.codegen.compile.nvrtc import compile_cubin
from twill.codegen.print.cuda.printer import print_cuda


def test_a_cluster_is_printed_and_compiles() -> None:
    printed = print_cuda(clustered_gemm())
    text = printed.text
    assert "__global__ void __cluster_dims__(2, 1, 1) __launch_bounds__(384, 1)" in text
    assert text.count("cluster_sync();") == 1 and "__syncthreads" not in text
    assert re.findall(r"if \(cta == (\d)\) tma_load_multicast\(.*, 3, ", text) == ["0", "1"]
    assert "if (lane < 2) mbar_arrive_at(" in text and "mbar_arrive(" not in text
    assert text.index("min(pair + cta, grid0 - 1)") < text.index("present = pair + cta < grid0")
    facts = compile_cubin(text, shapes=printed.shapes, lines=printed.lines).function(printed.function)
    assert facts.spill_stores == 0


def test_every_thread_leaves_its_cluster_once_and_stores_of_its_own_may_be_under_way() -> None:
    text = print_cuda(clustered_gemm()).text
    roles = text.split("// ---- role:")
    assert all(role.count("cluster_arrive();") == 1 for role in roles[1:]) and "cluster_arrive();" not in roles[0]
    assert all(role.index("cluster_arrive();") < role.index("bulk_wait<0>") for role in roles if "bulk_wait<0>" in role)
    assert text.count("cluster_wait();") == 1 and text.index("cluster_wait();") > text.rindex("cluster_arrive();")


def test_without_a_cluster_nothing_of_it_is_printed() -> None:
    text = print_cuda(gemm()).text
    assert not re.search(r"cluster|\bcta\b|\bpair", text)
