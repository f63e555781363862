"""One complete CUDA text from a kernel's own text: the headers and the multiplies it uses, then the kernel.

The text stands alone, for NVRTC and nvcc alike. `#line` markers give every part a name that does not depend on
the machine, so equal kernels give equal cubins.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.resources import files

from twill.codegen.print.cuda.multiply_shapes import MultiplyShape, wgmma_source

HEADERS = ("ptx.cuh", "fragment.cuh", "wgmma.cuh", "tile.cuh")
# header -> what it defines; only behind HEADERS
ON_DEMAND = {"atomics.cuh": ("reduce_umax(", "reduce_umin("), "parts.cuh": ("sum_parts<",),
             "elected.cuh": ("atom_",), "early_launch.cuh": ("await_earlier_grids(",),
             "tcgen05.cuh": ("tensor_alloc(", "tensor_alloc_pair("), "tcgen05_pair.cuh": ("tensor_alloc_pair(",),
             "tcgen05_multicast.cuh": ("tensor_commit_multicast(",), "tcgen05_scales.cuh": ("tensor_copy_scales",),
             "pairs.cuh": ("pair_of(", "ex2_polynomial"), "exponentials.cuh": ("ex2_polynomial",),
             "cluster_launch.cuh": ("try_cancel(",), "made_maps.cuh": ("map_from_template(",),
             "halves.cuh": ("halves_", "fma_f16(", "fma_bf16("),
             "histogram.cuh": ("add_shared(",), "bytes.cuh": ("_signed(", "_unsigned(", "short_to_float(")}  # fmt: skip
ROOT = "/twill/"  # the folder that line information names; no such folder needs to exist


def header(name: str) -> str:
    """The text of a header, without its include guard."""
    text = files("twill.codegen.print.cuda").joinpath(name).read_text(encoding="utf-8")
    return text.replace("#pragma once\n", "\n")  # the line stays, so that line numbers are the file's


def standalone(kernel: str, shapes: Iterable[MultiplyShape] = (), *, name: str = "kernel.cu") -> str:
    """`kernel` behind everything it needs. Line information calls the kernel's first line `name`:1."""
    wanted = [file for file, defined in ON_DEMAND.items() if any(call in kernel for call in defined)]
    parts = [(file, header(file)) for file in (*HEADERS, *wanted)]
    parts += [("wgmma_shapes.cuh", wgmma_source(shapes)), (name, kernel)]
    return "".join(f'#line 1 "{ROOT}{file}"\n{text}' + ("" if text.endswith("\n") else "\n") for file, text in parts)
