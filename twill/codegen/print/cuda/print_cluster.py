"""Clusters of CTAs: who works on which pairs of program instances, and where the CTAs of a cluster meet.

Pairs are counted and walked as instances are without clusters; only then does a CTA take its own instance of the pair.
"""

from __future__ import annotations

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.writer import TextWriter
from twill.codegen.warp.expression import Local
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import NEIGHBOUR, PRESENT, Cluster


def cluster_shape(cluster: Cluster) -> str:
    """C of the attribute without which a kernel is launched in no cluster."""
    return f"__cluster_dims__({cluster.ctas}, 1, 1)"


def walked_sizes(cluster: Cluster | None) -> tuple[str, str, str]:
    """C of how many instances there are along each axis, or pairs of them."""
    first, second, third = (
        "pairs" if cluster is not None and axis == cluster.axis else f"grid{axis}" for axis in range(3)
    )
    return first, second, third


def workers(cluster: Cluster | None) -> tuple[str, str]:
    """C of which CTA, or cluster, this is, and of how many there are."""
    return ("blockIdx.x", "gridDim.x") if cluster is None else ("cluster", "clusters")


def meets_first(cluster: Cluster | None) -> bool:
    """Whether CTAs wait for one another before they do anything."""
    return cluster is not None and cluster.meets_first


def print_cluster(cluster: Cluster, out: TextWriter) -> None:
    """What the whole CTA knows of its cluster, and how many pairs there are."""
    ctas = cluster.ctas
    out.line(f"const u32 cta = cluster_rank(), cluster = blockIdx.x / {ctas}, clusters = gridDim.x / {ctas};")
    out.line(f"const u32 pairs = (grid{cluster.axis} + {ctas - 1}) / {ctas};  // of neighbouring instances")


def print_cluster_end(cluster: Cluster, out: TextWriter) -> None:
    """No CTA ends while another one may still write or arrive there."""
    if cluster.meets_last:
        out.line()
        out.line("cluster_sync();  // of all threads: nobody touches a CTA that has ended")


def asked(ctx: PrintContext) -> frozenset[str]:
    """What a warp group wants to know of its instance's pair."""
    blocks = (ctx.group.body, ctx.group.skip, ctx.group.finish)
    return frozenset(n.name for n in nodes(blocks) if isinstance(n, Local) and n.name in (PRESENT, NEIGHBOUR))


def paired_axes(ctx: PrintContext) -> set[int]:
    """The axis of the cluster if a warp group wants to know something of its pair."""
    cluster = ctx.program.cluster
    return {cluster.axis} if cluster is not None and asked(ctx) else set()


def print_index(axis: int, value: str, ctx: PrintContext) -> None:
    """A grid index of an instance. Along the axis of a cluster `value` is that of its pair, of which a CTA has its own
    instance; the last one twice where its neighbour is missing."""
    cluster, out, size = ctx.program.cluster, ctx.out, f"grid{axis}"
    if cluster is None or axis != cluster.axis:
        out.line(f"const i32 program_id_{axis} = {value};")
        return
    wanted = asked(ctx)
    out.line(f"const u32 pair = {cluster.ctas} * ({value});  // the index of its first instance")
    out.line(f"const i32 program_id_{axis} = min(pair + cta, {size} - 1);")
    if PRESENT in wanted:
        out.line(f"const bool {ctx.define(PRESENT)} = pair + cta < {size};")
    if NEIGHBOUR in wanted:
        out.line(f"const i32 {ctx.define(NEIGHBOUR)} = min(pair + {cluster.ctas - 1} - cta, {size} - 1);")
