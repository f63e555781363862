"""Which program instance a CTA works on next: the launch grid row after row, in bands, or the longest first.

What all instances of an order have in common is computed once and kept in shared memory: divisions cost hundreds of
cycles between two instances, and registers that held the results would be missing in between.
"""

from __future__ import annotations

from twill.codegen.aref import LongestFirst
from twill.codegen.cuda.context import Context
from twill.codegen.cuda.writer import Writer
from twill.codegen.expression import ProgramId
from twill.codegen.parameters import nodes

_KIB = 10  # a shift
_PROGRAM_ID = ("instance % grid0", "instance / grid0 % grid1", "instance / (grid0 * grid1)")
_BANDED_ID = ("first_row + in_band % rows", "in_band / rows", "instance / (grid0 * grid1)")


def print_common(order: LongestFirst, at: str, ctx: Context) -> None:
    """What all instances have in common, by one thread of the CTA. at: C of where it is kept."""
    out, grid = ctx.out, f"grid{order.axis}"
    size = f"max(1u, (u32)(({ctx.expression(order.bytes)}) >> {_KIB}))"
    out.line(f"const u32 others = instances / {grid};  // the rest of the grid")
    out.line(f"const u32 together = max(1u, min(others, {order.cached >> _KIB} / {size}));  // of these")
    out.line(f"store_shared4({at}, {{others, together, together * {grid}, (others - 1) / together}});")


def print_loop(order: LongestFirst | None) -> tuple[str, str]:
    """C of further variables of the loop over instances, and of their steps."""
    return (", odd = 0", ", odd ^= 1") if order is not None else ("", "")


def print_instance(order: LongestFirst | None, band: int, at: str, ctx: Context) -> None:
    """Where in the launch grid `instance` is, along the axes that the warp group asks for."""
    out, group = ctx.out, ctx.group
    used = {node.axis for node in nodes((group.body, group.skip, group.finish)) if isinstance(node, ProgramId)}
    ids = _BANDED_ID if band else _PROGRAM_ID
    if order is not None and used:
        ids = _longest_ids(order)
        _longest_first(order, at, out)
    elif band and used & {0, 1}:
        out.line("const u32 in_layer = instance % (grid0 * grid1);")
        out.line(f"const u32 first_row = in_layer / ({band} * grid1) * {band};")
        out.line(f"const u32 in_band = in_layer - first_row * grid1, rows = min(grid0 - first_row, {band}u);")
    for axis in sorted(used):
        out.line(f"const i32 program_id_{axis} = {ids[axis]};")


def _longest_first(order: LongestFirst, at: str, out: Writer) -> None:
    """The rank of the instance, and where it is within the band of instances that are walked together."""
    grid = f"grid{order.axis}"
    for line in (
        f"const Vec4 walk = load_shared4({at});  // others, together, instances of a band, the last band",
        "const u32 begin = instance - blockIdx.x;",
        "const u32 ranked = odd ? begin + min(gridDim.x, instances - begin) - 1 - blockIdx.x : instance;",
        "const u32 nth = ranked / walk.z, before = nth * walk.y;  // the band, and others before it",
        f"const u32 width = min(walk.y, walk.x - before), inside = ranked - before * {grid};",
        "const u32 along = inside / width, other = before + inside - along * width;",
        f"const u32 step = walk.w - nth & 1 ? {grid} - 1 - along : along;  // every other band from its shortest",
    ):
        out.line(line)


def _longest_ids(order: LongestFirst) -> tuple[str, str, str]:
    """The grid indices of an instance, from `step` and `other`."""
    first, second = (axis for axis in range(len(_PROGRAM_ID)) if axis != order.axis)
    ids = {first: f"other % grid{first}", second: f"other / grid{first}"}
    ids[order.axis] = f"grid{order.axis} - 1 - step" if order.grows else "step"
    return ids[0], ids[1], ids[2]
