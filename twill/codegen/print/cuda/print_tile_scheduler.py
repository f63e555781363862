"""Which program instance a CTA works on next: the launch grid row after row, in raster groups, or the longest first.

What all instances of an order have in common is computed once and kept in shared memory: divisions cost hundreds of
cycles between two instances, and registers that held the results would be missing in between.
"""

from __future__ import annotations

from twill.codegen.print.cuda.context import PrintContext
from twill.codegen.print.cuda.print_cluster import paired_axes, print_index, walked_sizes, workers
from twill.codegen.print.cuda.writer import TextWriter
from twill.codegen.warp.expression import Expr, ProgramId
from twill.codegen.warp.parameters import nodes
from twill.codegen.warp.program import (
    INSTANCES,
    FetchInstance,
    LongestFirst,
    PublishInstance,
    ReceiveInstance,
    WarpGroup,
    WarpProgram,
)

_KIB = 10  # a shift
_AXES = 3
_PROGRAM_ID = ("instance % {0}", "instance / {0} % {1}", "instance / ({0} * {1})")
_RASTERIZED_ID = ("first_row + in_band % rows", "in_band / rows", "instance / ({0} * {1})")
_WORDS = ("x", "y", "z")  # of a message that tells an instance; w: whether there is one


def print_common(order: LongestFirst, at: str, ctx: PrintContext) -> None:
    """What all instances have in common, by one thread of the CTA. at: C of where it is kept."""
    out, grid = ctx.out, f"grid{order.axis}"
    size = f"max(1u, (u32)(({ctx.expression(order.bytes)}) >> {_KIB}))"
    out.line(f"const u32 others = instances / {grid};  // the rest of the grid")
    out.line(f"const u32 cached = max(1u, {order.cached >> _KIB} / {size});  // of these")
    out.line(f"const u32 most = min(cached, min(others, {order.most}u));")
    out.line("u32 together = (others - 1) / ((others - 1) / most + 1) + 1;  // bands as wide as one another")
    out.line("while ((others - 1) % together * 2 + 2 < together) --together;  // no narrow last one")
    out.line(f"store_shared4({at}, {{others, together, together * {grid}, (others - 1) / together}});")


def used_axes(group: WarpGroup) -> list[int]:
    """Axes of the launch grid that a warp group asks for."""
    parts = (group.body, group.skip, group.finish)
    return sorted({node.axis for node in nodes(parts) if isinstance(node, ProgramId)})


# ---------------------------------------------------------------- a static order
def print_static_loop(program: WarpProgram, counted: bool) -> str:
    """C of the loop over the instances of a CTA, or the pairs of a cluster. counted: whether it counts them."""
    more, step = (", odd = 0", ", odd ^= 1") if program.order is not None else ("", "")
    first, all_of_them = workers(program.cluster)
    end = "instances"
    if program.runs is not None:
        first, end, all_of_them = "run_begin", "run_end", "run_step"
    if counted:
        more, step = f", {INSTANCES} = 0{more}", f", ++{INSTANCES}{step}"
    return f"for (u32 instance = {first}{more}; instance < {end}; instance += {all_of_them}{step})"


def print_runs(runs: Expr, ctx: PrintContext) -> None:
    """Which instances the CTA has: a run of neighbours, or every n-th."""
    out = ctx.out
    out.line(f"const bool runs = {ctx.expression(runs)};  // of neighbours, since tiles stay")
    out.line("const u32 run = instances / gridDim.x, longer = instances % gridDim.x;")
    out.line("const u32 run_begin = runs ? blockIdx.x * run + min(blockIdx.x, longer) : blockIdx.x;")
    out.line("const u32 run_end = runs ? run_begin + run + (blockIdx.x < longer) : instances;")
    out.line("const u32 run_step = runs ? 1 : gridDim.x;")


def print_instance(order: LongestFirst | None, raster_group: int, at: str, ctx: PrintContext) -> None:
    """Where in the launch grid `instance` is, along the axes that the warp group asks for."""
    used = sorted({*used_axes(ctx.group), *paired_axes(ctx)})
    if order is not None and used:
        ctx.out.line(f"const Vec4 walk = load_shared4({at});  // {_COMMON}")
        ctx.out.line("const u32 begin = instance - blockIdx.x;")
        backwards = "begin + min(gridDim.x, instances - begin) - 1 - blockIdx.x"
        ctx.out.line(f"const u32 ranked = odd ? {backwards} : instance;")
    ids = _place(order, raster_group, used, ctx)
    for axis in used:
        print_index(axis, ids[axis], ctx)


_COMMON = "others, together, instances of a band, the last band"


def _place(order: LongestFirst | None, raster_group: int, used: list[int], ctx: PrintContext) -> tuple[str, str, str]:
    """C of the grid indices of `instance`, or of `ranked` in an order, after the lines that they need."""
    out, sizes = ctx.out, walked_sizes(ctx.program.cluster)
    rows, columns, _ = sizes
    if order is not None and used:
        _longest_first(order, out)
        return _longest_ids(order)
    if raster_group and {0, 1} & set(used):
        out.line(f"const u32 in_layer = instance % ({rows} * {columns});")
        out.line(f"const u32 first_row = in_layer / ({raster_group} * {columns}) * {raster_group};")
        out.line(
            f"const u32 in_band = in_layer - first_row * {columns}, rows = min({rows} - first_row, {raster_group}u);"
        )
    first, second, third = (text.format(*sizes) for text in (_RASTERIZED_ID if raster_group else _PROGRAM_ID))
    return first, second, third


def _longest_first(order: LongestFirst, out: TextWriter) -> None:
    """Where the instance of a rank is within the raster group of instances that are walked together."""
    grid = f"grid{order.axis}"
    for line in (
        "const u32 nth = ranked / walk.z, before = nth * walk.y;  // the band, and others before it",
        f"const u32 width = min(walk.y, walk.x - before), inside = ranked - before * {grid};",
        "const u32 along = inside / width, other = before + inside - along * width;",
        f"const u32 step = walk.w - nth & 1 ? {grid} - 1 - along : along;  // every other band from its shortest",
    ):
        out.line(line)


def _longest_ids(order: LongestFirst) -> tuple[str, str, str]:
    """The grid indices of an instance, from `step` and `other`."""
    first, second = (axis for axis in range(_AXES) if axis != order.axis)
    ids = {first: f"other % grid{first}", second: f"other / grid{first}"}
    ids[order.axis] = f"grid{order.axis} - 1 - step" if order.grows else "step"
    return ids[0], ids[1], ids[2]


# ---------------------------------------------------------------- a dynamic order
def print_fetch_instance(stmt: FetchInstance, ctx: PrintContext) -> None:
    """`place` is read at the next Tell only, so the thread goes on while the atomic operation is under way.

    The counter counts the claims of a launch. CTA t has place t without one; a CTA claims until one claim finds no
    place, so that there are as many claims as instances: those that find one, instances - CTAs, and one of each CTA
    that does not. `atomic_count` makes the counter 0 after that many: each launch leaves it as it found it.
    """
    ctx.out.line("place = gridDim.x + atomic_count(claims, instances - 1);")


def print_publish_instance(stmt: PublishInstance, ctx: PrintContext) -> None:
    """The grid indices at `place`, in a scope of their own; those of the last place if there is none there."""
    out, program = ctx.out, ctx.program
    out.line("Vec4 told;  // the place in the grid, and whether there is one")
    with out.block(""):
        used = sorted({axis for group in program.groups for axis in used_axes(group)})
        last = "min(place, instances - 1)"
        if program.order is not None and used:
            out.line(f"const Vec4 walk = load_shared4(smem + {ctx.shared.order});  // {_COMMON}")
            out.line(f"const u32 ranked = {last};")
        else:
            out.line(f"const u32 instance = {last};")
        ids = _place(program.order, program.raster_group, used, ctx)
        words = [ids[axis] if axis in used else "0" for axis in range(_AXES)]
        out.line(f"told = {{{', '.join(words)}, place < instances}};")
    out.line(f"store_shared4({ctx.slot(stmt.target)}, told);")


def print_receive_instance(stmt: ReceiveInstance, ctx: PrintContext) -> None:
    """By one lane of each warp, which passes it on: the compiler then knows that all lanes have the same, and the lane
    that gives the slot back is the one that read it."""
    at = ctx.slot(stmt.source)
    if ctx.group.issuer:
        ctx.out.line(f"const Vec4 told = load_shared4({at});")
        return
    ctx.out.line("Vec4 told = {0, 0, 0, 0};")
    ctx.out.line(f"if (lane == 0) told = load_shared4({at});")
    for word in (*(_WORDS[axis] for axis in used_axes(ctx.group)), "w"):
        ctx.out.line(f"told.{word} = warp_uniform(told.{word});")


def print_received(ctx: PrintContext) -> None:
    """The end of the loop over instances, or where in the launch grid the one is that was told."""
    ctx.out.line("if (!told.w) break;")
    for axis in used_axes(ctx.group):
        ctx.out.line(f"const i32 program_id_{axis} = told.{_WORDS[axis]};")
