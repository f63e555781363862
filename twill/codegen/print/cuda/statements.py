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
from twill.codegen.warp import program as aref

PRINTERS: Mapping[type[aref.Stmt], Callable[[Any, PrintContext], None]] = {
    aref.Let: print_control.print_let,
    aref.CountReuse: print_control.print_count_reuse,
    aref.If: print_control.print_if,
    aref.Pipeline: print_control.print_pipeline,
    aref.Acquire: print_synchronization.print_acquire,
    aref.Expect: print_synchronization.print_expect,
    aref.TmaLoad: print_synchronization.print_tma_load,
    aref.MakeMap: print_made_maps.print_make_map,
    aref.ShowMaps: print_made_maps.print_show_maps,
    aref.Settle: print_made_maps.print_settle,
    aref.Publish: print_synchronization.print_publish,
    aref.Get: print_synchronization.print_get,
    aref.Consumed: print_synchronization.print_consumed,
    aref.Advance: print_synchronization.print_advance,
    aref.Skip: print_synchronization.print_skip,
    aref.Define: print_tile_scheduler.print_define,
    aref.ScalarLoop: print_tile_scheduler.print_scalar_loop,
    aref.Visit: print_tile_scheduler.print_visit,
    aref.Elect: print_elected.print_elect,
    aref.Atomic: print_elected.print_atomic,
    aref.ReceiveElected: print_elected.print_receive,
    aref.Given: print_tile_scheduler.print_given,
    aref.Evenly: print_tile_scheduler.print_evenly,
    aref.Keep: print_tile_scheduler.print_keep,
    aref.Recall: print_tile_scheduler.print_recall,
    aref.SumOver: print_tile_scheduler.print_sum_over,
    aref.Seek: print_tile_scheduler.print_seek,
    aref.SetProgramId: print_tile_scheduler.print_set_program_id,
    aref.StopUnless: print_tile_scheduler.print_stop_unless,
    aref.FetchInstance: print_tile_scheduler.print_fetch_instance,
    aref.PublishInstance: print_tile_scheduler.print_publish_instance,
    aref.ReceiveInstance: print_tile_scheduler.print_receive_instance,
    aref.ProxyFence: print_synchronization.print_proxy_fence,
    aref.AwaitEarlierGrids: print_synchronization.print_await_earlier_grids,
    aref.Sync: print_synchronization.print_sync,
    aref.Arrive: print_synchronization.print_arrive,
    aref.TmaStore: print_synchronization.print_tma_store,
    aref.BulkCommit: print_synchronization.print_bulk_commit,
    aref.BulkWait: print_synchronization.print_bulk_wait,
    aref.Fence: print_wgmma.print_fence,
    aref.Multiply: print_wgmma.print_multiply,
    aref.CopyScales: print_scales.print_copy_scales,
    aref.StoreScales: print_scales.print_store_scales,
    aref.TensorMultiply: print_tcgen05.print_tensor_multiply,
    aref.LoadAccumulator: print_tcgen05.print_load_accumulator,
    aref.StoreAccumulator: print_tcgen05.print_store_accumulator,
    aref.Commit: print_wgmma.print_commit,
    aref.WaitGroups: print_wgmma.print_wait_groups,
    aref.Fill: print_registers.print_fill,
    aref.Range: print_registers.print_range,
    aref.Compute: print_registers.print_compute,
    aref.Copy: print_registers.print_copy,
    aref.Reduce: print_reduce.print_reduce,
    aref.Scan: print_scan.print_scan,
    aref.Rearrange: print_rearrange.print_rearrange,
    aref.Histogram: print_rearrange.print_histogram,
    aref.SumParts: print_parts.print_sum_parts,
    aref.LoadShared: print_shared.print_load_shared,
    aref.StoreShared: print_shared.print_store_shared,
    aref.LoadGlobal: print_global.print_load_global,
    aref.StoreGlobal: print_global.print_store_global,
}


def print_block(stmts: tuple[aref.Stmt, ...], ctx: PrintContext) -> None:
    """Statement after statement, in the order they have.

    Errors: those of the printers, with the kernel line of the statement.
    """
    for stmt in stmts:
        ctx.out.origin(stmt.line, "" if isinstance(stmt, aref.SchedulingStmt) else stmt.note)
        try:
            PRINTERS[type(stmt)](stmt, ctx)
        except exc.TwillError as error:
            if error.line or not stmt.line:
                raise
            error.file, error.line = ctx.program.program.file, stmt.line
            error.args = (error.describe(),)
            raise
