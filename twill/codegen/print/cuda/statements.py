"""The table of printers: one for each statement of a warp program."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twill import exc
from twill.codegen.print.cuda import (
    print_control,
    print_elected,
    print_global,
    print_made_maps,
    print_parts,
    print_rearrange,
    print_reduce,
    print_registers,
    print_scales,
    print_scan,
    print_shared,
    print_synchronization,
    print_tcgen05,
    print_tile_scheduler,
    print_wgmma,
)
from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.warp import program as ir

PRINTERS: Mapping[type[ir.Stmt], Callable[[Any, PrintContext], None]] = {
    ir.Let: print_control.print_let,
    ir.CountReuse: print_control.print_count_reuse,
    ir.If: print_control.print_if,
    ir.Pipeline: print_control.print_pipeline,
    ir.Acquire: print_synchronization.print_acquire,
    ir.Expect: print_synchronization.print_expect,
    ir.TmaLoad: print_synchronization.print_tma_load,
    ir.MakeMap: print_made_maps.print_make_map,
    ir.ShowMaps: print_made_maps.print_show_maps,
    ir.Settle: print_made_maps.print_settle,
    ir.Publish: print_synchronization.print_publish,
    ir.Get: print_synchronization.print_get,
    ir.Consumed: print_synchronization.print_consumed,
    ir.Advance: print_synchronization.print_advance,
    ir.Skip: print_synchronization.print_skip,
    ir.Define: print_tile_scheduler.print_define,
    ir.ScalarLoop: print_tile_scheduler.print_scalar_loop,
    ir.Visit: print_tile_scheduler.print_visit,
    ir.Elect: print_elected.print_elect,
    ir.Atomic: print_elected.print_atomic,
    ir.ReceiveElected: print_elected.print_receive,
    ir.Given: print_tile_scheduler.print_given,
    ir.Evenly: print_tile_scheduler.print_evenly,
    ir.Keep: print_tile_scheduler.print_keep,
    ir.Recall: print_tile_scheduler.print_recall,
    ir.SumOver: print_tile_scheduler.print_sum_over,
    ir.Seek: print_tile_scheduler.print_seek,
    ir.SetProgramId: print_tile_scheduler.print_set_program_id,
    ir.StopUnless: print_tile_scheduler.print_stop_unless,
    ir.FetchInstance: print_tile_scheduler.print_fetch_instance,
    ir.PublishInstance: print_tile_scheduler.print_publish_instance,
    ir.ReceiveInstance: print_tile_scheduler.print_receive_instance,
    ir.ProxyFence: print_synchronization.print_proxy_fence,
    ir.AwaitEarlierGrids: print_synchronization.print_await_earlier_grids,
    ir.Sync: print_synchronization.print_sync,
    ir.Arrive: print_synchronization.print_arrive,
    ir.TmaStore: print_synchronization.print_tma_store,
    ir.BulkCommit: print_synchronization.print_bulk_commit,
    ir.BulkWait: print_synchronization.print_bulk_wait,
    ir.Fence: print_wgmma.print_fence,
    ir.Multiply: print_wgmma.print_multiply,
    ir.CopyScales: print_scales.print_copy_scales,
    ir.StoreScales: print_scales.print_store_scales,
    ir.TensorMultiply: print_tcgen05.print_tensor_multiply,
    ir.LoadAccumulator: print_tcgen05.print_load_accumulator,
    ir.StoreAccumulator: print_tcgen05.print_store_accumulator,
    ir.Commit: print_wgmma.print_commit,
    ir.WaitGroups: print_wgmma.print_wait_groups,
    ir.Fill: print_registers.print_fill,
    ir.Range: print_registers.print_range,
    ir.Compute: print_registers.print_compute,
    ir.Copy: print_registers.print_copy,
    ir.Reduce: print_reduce.print_reduce,
    ir.Scan: print_scan.print_scan,
    ir.Rearrange: print_rearrange.print_rearrange,
    ir.Histogram: print_rearrange.print_histogram,
    ir.SumParts: print_parts.print_sum_parts,
    ir.LoadShared: print_shared.print_load_shared,
    ir.StoreShared: print_shared.print_store_shared,
    ir.LoadGlobal: print_global.print_load_global,
    ir.StoreGlobal: print_global.print_store_global,
}


def print_block(stmts: tuple[ir.Stmt, ...], ctx: PrintContext) -> None:
    """Statement after statement, in the order they have.

    Errors: those of the printers, with the kernel line of the statement.
    """
    for stmt in stmts:
        ctx.out.origin(stmt.line, "" if isinstance(stmt, ir.SchedulingStmt) else stmt.note)
        try:
            PRINTERS[type(stmt)](stmt, ctx)
        except exc.TwillError as error:
            if error.line or not stmt.line:
                raise
            error.file, error.line = ctx.program.program.file, stmt.line
            error.args = (error.describe(),)
            raise
