"""Partial sums of program instances that meet in global memory (split of K)."""

from __future__ import annotations

from twill import exc
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.warp.expression import NumPrograms
from twill.codegen.warp.layout import elements_of
from twill.codegen.warp.program import LAST_PART, SumParts
from twill.manifest.document import COUNTERS_AT, SHARED_SUMS, SPLIT_ZEROS, SUM_WORDS

_WORD = 4  # bytes of a register, and of a number of the workspace


def print_sum_parts(stmt: SumParts, ctx: PrintContext) -> None:
    """Every thread writes its registers, one thread counts the instance in, and those of the last one add up, or those
    of all that are there (`parts.cuh`). The words of a sum are 0 again behind it. An instance that is whole has its sum
    already."""
    operand, result, out = ctx.fragments[stmt.operand], ctx.fragments[stmt.result], ctx.out
    count, threads = elements_of(ctx.fragment(stmt.operand).layout), ctx.group.threads
    if count % _WORD:
        raise exc.UnsupportedInKernel(f"no CUDA for partial sums of {count} registers a thread")
    sync = ctx.barrier("sync", stmt.barrier)
    scratch = f"smem + {ctx.shared.buffers[stmt.scratch]}"
    slot, part, parts = (ctx.expression(expr) for expr in (stmt.slot, stmt.part, stmt.parts))
    last = ctx.define(LAST_PART)
    this, of, sums, words, before, role = (
        ctx.names.fresh(name)
        for name in ("this_sum", "parts_of_sum", "partial_sums", "words_of_sum", "arrived", "role")
    )

    def told(value: str) -> None:
        """What one thread knows, to all of them."""
        out.line(f"store_shared({scratch}, {value});")

    with out.unrolled(f"i32 i = 0; i < {count}; ++i"):
        out.line(f"{result}[i] = {operand}[i];")
    out.line(f"bool {last} = true;")
    with out.block(f"if ({parts} > 1)"):
        out.line(f"const i32 {this} = {slot}, {of} = {parts};")
        start = f"(float*)(claims + {SPLIT_ZEROS // _WORD}) + (u64){this} * {of} * {threads * count}"
        out.line(f"float* const {sums} = {start};")
        out.line(f"u32* const {words} = claims + {COUNTERS_AT // _WORD} + {SUM_WORDS}u * {this};")
        out.line(f"store_parts<{threads}>({sums} + (u64){part} * {threads * count}, thread, {operand});")
        out.line(sync)
        programs = " * ".join(f"(u64){ctx.expression(NumPrograms(axis))}" for axis in range(3))
        enough = f"{of} * {count}u >= {SHARED_SUMS // threads}u"
        with out.block(f"if ({enough} && {programs} <= sms_of_gpu())"):
            with out.block("if (leader)"):
                told(f"arrive_part({words}, {of})")
            out.line(sync)
            out.line(f"const u32 {role} = load_shared({scratch});")
            out.line(f"{last} = {role} == LAST;")
            with out.block(f"if ({role} != GOES)"):
                out.line(sync)
                with out.block("if (leader)"):
                    told(f"take_slice({words}, false)")
                with out.block("for (;;)"):
                    out.line(sync)
                    out.line(f"const u32 slice = load_shared({scratch});")
                    out.line(f"if (slice >= (u32){of}) break;")
                    out.line(f"sum_slice<{threads}, {count}>({sums}, thread, slice, {of});")
                    out.line(sync)
                    with out.block("if (leader)"):
                        told(f"take_slice({words}, true)")
            with out.block(f"if ({last})"):
                out.line(f"if (leader) await_slices({words}, {of});")
                out.line(sync)
                out.line(f"load_sum<{threads}>({sums}, thread, {result});")
            out.line(f"if (leader) leave_sum({words}, {of});")
        with out.block("else"):
            with out.block("if (leader)"):
                out.line("fence_gpu();  // what all threads wrote, before the count")
                out.line(f"const u32 {before} = atomic_count({words}, {of} - 1);")
                out.line("fence_gpu();")
                told(f"{before} == {of} - 1")
            out.line(sync)
            out.line(f"{last} = load_shared({scratch}) != 0;")
            out.line(f"if ({last}) sum_parts<{threads}>({sums}, thread, {part}, {of}, {result});")
