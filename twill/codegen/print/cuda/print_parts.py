"""Partial sums of program instances that meet in global memory (split of K)."""

from __future__ import annotations

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.warp.layout import elements_of
from twill.codegen.warp.program import LAST_PART, SumParts
from twill.manifest.document import COUNTERS_AT, SPLIT_ZEROS

_WORD = 4  # bytes of a register, and of a number of the workspace


def print_sum_parts(stmt: SumParts, ctx: PrintContext) -> None:
    """Every thread writes its registers, one thread counts the instance in, and those of the last one add up. The
    counter is 0 again behind the last one (`atomic_count`). An instance that is whole has its sum already."""
    operand, result, out = ctx.fragments[stmt.operand], ctx.fragments[stmt.result], ctx.out
    count, threads = elements_of(ctx.fragment(stmt.operand).layout), ctx.group.threads
    if count % _WORD:
        raise exc.UnsupportedInKernel(f"no CUDA for partial sums of {count} registers a thread")
    sync = ctx.barrier("sync", stmt.barrier)
    scratch = f"smem + {ctx.shared.buffers[stmt.scratch]}"
    slot, part, parts = (ctx.expression(expr) for expr in (stmt.slot, stmt.part, stmt.parts))
    last = ctx.define(LAST_PART)
    this, of, sums, before = (ctx.names.fresh(name) for name in ("this_sum", "parts_of_sum", "partial_sums", "arrived"))
    with out.unrolled(f"i32 i = 0; i < {count}; ++i"):
        out.line(f"{result}[i] = {operand}[i];")
    out.line(f"bool {last} = true;")
    with out.block(f"if ({parts} > 1)"):
        out.line(f"const i32 {this} = {slot}, {of} = {parts};")
        start = f"(float*)(claims + {SPLIT_ZEROS // _WORD}) + (u64){this} * {of} * {threads * count}"
        out.line(f"float* const {sums} = {start};")
        out.line(f"store_parts<{threads}>({sums} + (u64){part} * {threads * count}, thread, {operand});")
        out.line(sync)
        with out.block("if (leader)"):
            out.line("fence_gpu();  // what all threads wrote, before the count")
            counter = f"claims + {COUNTERS_AT // _WORD} + {this}"
            out.line(f"const u32 {before} = atomic_count({counter}, {of} - 1);")
            out.line("fence_gpu();")
            out.line(f"store_shared({scratch}, {before} == {of} - 1);")
        out.line(sync)
        out.line(f"{last} = load_shared({scratch}) != 0;")
        out.line(f"if ({last}) sum_parts<{threads}>({sums}, thread, {part}, {of}, {result});")
