"""The passes that a warp program goes through between lowering and printing, in order.

A pass takes a warp program that means what the tile program means, and gives one that means the same. What a pass needs
is what an earlier one, or lowering, promises; the order below is the only one that is run. Each is a file of this room
with a function `run(program, choices)`; `Choices` says what lowering decided.

`twill emit --passes` prints this table, `--dump-after PASS` the program behind one of them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from twill.codegen.passes import (
    cluster,
    column_parts,
    dynamic_scheduler,
    early_launch,
    early_lookups,
    erf_tails,
    exchanges,
    fences,
    frequent_divisors,
    group_order,
    hoist_vectors,
    late_loads,
    launch_divisions,
    load_order,
    memory_order,
    overlay,
    packed_floats,
    partial_reductions,
    ping_pong,
    placement,
    read_once,
    reader_fences,
    register_parts,
    tensor_overlay,
    unused_indices,
    warp_votes,
)
from twill.codegen.warp.choices import Choices
from twill.codegen.warp.program import WarpProgram
from twill.codegen.warp.verifier import refuse_ill_formed

LOWERING = "lowering"  # what the program is called in front of the first pass
Watcher = Callable[[str, WarpProgram], None]


@dataclass(frozen=True)
class Pass:
    """needs: what must hold of the program it gets. promises: what holds of the one it gives, beside its meaning."""

    name: str
    needs: str
    promises: str
    run: Callable[[WarpProgram, Choices], WarpProgram]


PIPELINE = (
    Pass("erf-tails", "values rounded to 16 bits stand behind their sums",
         "1 + erf(x) of them is erfc(-x) by a short formula", erf_tails.run),
    Pass("hoist-vectors", "elementwise statements in the order of the schedule",
         "what follows one another on a matrix is together; vectors stand in front", hoist_vectors.run),
    Pass("late-loads", "tiles are loaded in the order of the kernel",
         "where that leaves room for more CTAs, loads stand in front of their first readers", late_loads.run),
    Pass("early-lookups", "numbers of an iteration are looked up in front of their first readers",
         "where that is behind a wait for MMAs, in front of it", early_lookups.run),
    Pass("fences", "a fence in front of every run of MMAs",
         "only fences that order some access of registers are left", fences.run),
    Pass("partial-reductions", "sums of rows are reduced in every iteration",
         "sums that only grow are partial, four a row, until their loops are over", partial_reductions.run),
    Pass("warp-votes", "factors that are often 1 are marked",
         "a warp leaves out a multiplication by ones where that saves instructions; no mark is left", warp_votes.run),
    Pass("column-parts", "accumulators in tensor memory are read whole, in front of what follows their loops",
         "where they are more than a thread has room for, parts of columns are read, finished and stored in turn",
         column_parts.run),
    Pass("register-parts", "accumulators in registers are used whole in what follows their loops",
         "where that asks for more registers than there are, it is done for parts of the columns in turn",
         register_parts.run),
    Pass("packed-floats", "what follows one another on a matrix is together",
         "work on f32 that one instruction does for two registers is marked", packed_floats.run),
    Pass("memory-order", "accesses of global memory by the threads of a warp group are in the kernel's order",
         "threads wait for one another between two of them that may have the same element", memory_order.run),
    Pass("group-order", "accesses of global memory by a warp group are in the kernel's order, whatever others do",
         "a warp group waits for what another one has stored in front of the loop, or statement, that touches it",
         group_order.run),
    Pass("load-order", "a warp group waits for tiles of others in front of their readers",
         "and in front of what it stores over them", load_order.run),
    Pass("exchanges", "every reduction across warps names its barrier",
         "no scratch memory is written before all have read what was there", exchanges.run),
    Pass("reader-fences", "slots go back when their readers are done",
         "no copy of the TMA overwrites a slot before loads of threads from it are served", reader_fences.run),
    Pass("ping-pong", "computing warp groups with equal streams",
         "each has every other program instance; ordering barriers keep their use of rings apart", ping_pong.run),
    Pass("cluster", "rings that two CTAs fill are marked",
         "slots go back to both CTAs; an instance that only repeats its neighbour's stores nothing", cluster.run),
    Pass("dynamic-scheduler", "one load group, that issues loads by one thread",
         "instances are fetched from a counter and published to all groups through a ring", dynamic_scheduler.run),
    Pass("unused-indices", "every warp group sets all grid indices of its instances",
         "those that it asks for, and what they are made of", unused_indices.run),
    Pass("frequent-divisors", "scalars stand in front of the loops",
         "divisors that most launches have equal to a constant are compared with it first", frequent_divisors.run),
    Pass("launch-divisions", "scalars stand in front of the loops",
         "divisors of grid indices that the launch knows have reciprocals, which it computes", launch_divisions.run),
    Pass("read-once", "loads of loops stand in the warp groups' bodies",
         "tiles of tensors that a launch reads once leave the L2 cache first", read_once.run),
    Pass("early-launch", "nothing but warp groups touches global memory",
         "they begin when earlier grids have ended; the launch may begin before", early_launch.run),
    Pass("tensor-overlay", "loops that follow one another have columns of tensor memory of their own",
         "where there are too few, tiles that are never in use at once have the same; groups wait for others in front "
         "of what they write there", tensor_overlay.run),
    Pass("overlay", "loops that follow one another have buffers of their own",
         "where these do not fit, those that are never in use at once lie over one another; groups wait for others in "
         "front of what they write there", overlay.run),
    Pass("placement", "all buffers, rings and barriers are known",
         "every buffer has an offset; the bytes fit into one CTA's share", placement.run),
)  # fmt: skip


def run_passes(
    program: WarpProgram,
    choices: Choices,
    watch: Watcher = lambda name, made: None,
    without: Collection[str] = (),
) -> WarpProgram:
    """The program behind the last pass, well-formed behind each. watch: gets the name of each pass and the program
    behind it. without: names of passes that are left out, for a printer that has no words for what they make.

    Raises SharedMemoryFull, UnsupportedInKernel, IllFormedWarpProgram.
    """
    refuse_ill_formed(program, LOWERING)
    for step in PIPELINE:
        if step.name in without:
            continue
        program = step.run(program, choices)
        refuse_ill_formed(program, f"the pass {step.name}")
        watch(step.name, program)
    return program
