"""SentryWard, a static verifier of PTX for sm_100a that others wrote, asked about a launch as the executor gets it.

Its search for races asks about all pairs of accesses that overlap unless it is told to go on behind a race. Then it
takes the accesses of each address in one order of the program, and asks whether each is ordered behind the last that it
conflicts with: as many questions as accesses, and the same answer, for order is transitive. That search has no
exception for stores of the TMA that are issued twice.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import sentryward
from sentryward.frontend import ptx_native

from twill.codegen.verify.ptx.run import MapOf, PointerArgument, PtxLaunch
from twill.codegen.verify.ptx.units.tensor_map import BYTES, UNPACKED
from twill.ptx.parse import parse

ELEMENTS = {
    "BFLOAT16": "bf16", "FLOAT16": "f16", "FLOAT32": "f32", "FLOAT64": "f64", "TFLOAT32": "tf32", "UINT8": "u8",
    "UINT16": "u16", "UINT32": "u32", "INT32": "s32", "UINT64": "u64", "INT64": "s64", UNPACKED: "16u4_align16b",
}  # fmt: skip
SWIZZLES = {0: "none", 32: "32B", 64: "64B", 128: "128B"}


def verified(ptx: Path, **given: Any) -> Mapping[str, Any]:
    """Its answer, by the search whose time grows with accesses."""
    run = vars(ptx_native)["_run_ptx"]
    with patch("sentryward.api._run_ptx", partial(run, continue_memory_search=True)):
        answer: Mapping[str, Any] = sentryward.verify(ptx, **given)
    return answer


def checked(text: str, entry: str, launch: PtxLaunch, seconds: int = 120) -> Mapping[str, Any]:
    """Its answer: `result` is race_free, or potential_race, not_wellsynced, invalid_lifecycle, unsupported."""
    with TemporaryDirectory() as folder:
        ptx, given = Path(folder, "kernel.ptx"), Path(folder, "input.json")
        ptx.write_text(text)
        given.write_text(json.dumps(question(text, entry, launch)))
        return verified(ptx, input=given, timeout_seconds=seconds)


def equal(
    text: str, entry: str, launch: PtxLaunch, reference: str, inputs: Mapping[str, str], output: str, seconds: int = 120
) -> Mapping[str, Any]:
    """Its answer about races and whether a tensor is what PyTorch's functions say in real numbers: `verified`, or
    equivalence_not_proven. reference: a function of that name. inputs: its arguments, tensors of the launch, and their
    types in PyTorch."""
    shapes = {name: shaped(launch, name) for name in (*inputs, output)}
    layouts = {_named(name): shapes[name].layout() for name in inputs}
    target = shapes[output]
    mapped = {
        "left_allocation": _named(output), "right_allocation": _named(output), "shape": target.shape,
        "element_bytes": target.element, "left_offset": 0, "right_offset": 0,
        "left_strides_bytes": target.strides, "right_strides_bytes": target.strides,
    }  # fmt: skip
    arguments = [
        {"name": name, "allocation": _named(name), "shape": shapes[name].shape, "dtype": dtype}
        for name, dtype in inputs.items()
    ]
    binding = {
        "left_inputs": {"layouts": layouts},
        "right_inputs": {"layouts": layouts},
        "reference": {"arguments": arguments, "outputs": [{"allocation": _named(output), "shape": target.shape}]},
        "outputs": {"kind": "dense_tensors", "tensors": [mapped]},
    }
    with TemporaryDirectory() as folder:
        ptx, given, bound = (Path(folder, name) for name in ("kernel.ptx", "input.json", "reference_binding.json"))
        source = Path(folder, "example_reference.py")  # the name under which it is imported
        ptx.write_text(text)
        source.write_text(f"import torch\n\n\n{reference}")
        given.write_text(json.dumps(question(text, entry, launch)))
        bound.write_text(json.dumps(binding))
        return verified(ptx, input=given, reference=source, reference_binding=bound, timeout_seconds=seconds)


@dataclass(frozen=True)
class Shaped:
    """A tensor in global memory. strides, element: bytes."""

    shape: list[int]
    strides: list[int]
    element: int

    def layout(self) -> dict[str, Any]:
        """As kernel and reference find it."""
        return {
            "shape": self.shape, "element_bytes": self.element, "source_offset": 0, "target_offset": 0,
            "source_strides_bytes": self.strides, "target_strides_bytes": self.strides,
        }  # fmt: skip


def shaped(launch: PtxLaunch, name: str) -> Shaped:
    """Of a tensor that a map describes, or that is a vector."""
    for given in launch.arguments:
        if isinstance(given, MapOf) and given.tensor == name:
            element = BYTES[given.dtype]
            return Shaped(list(given.dims[::-1]), [*given.strides[::-1], element], element)
    held = launch.tensors[name]
    return Shaped([held.size], [held.itemsize], held.itemsize)


def _named(name: str) -> str:
    """What it calls a tensor in global memory: its lengths are in front of the words."""
    return f"6:global{len(name)}:{name}"


def question(text: str, entry: str, launch: PtxLaunch) -> dict[str, Any]:
    """A launch in its schema `spverify.kernel-input/v1`."""
    declarations: list[dict[str, Any]] = []
    arguments: list[dict[str, Any]] = []
    maps: list[dict[str, Any]] = []
    parameters = parse(text).function(entry).parameters
    for number, parameter in enumerate(parameters):
        given = launch.arguments[number] if number < len(launch.arguments) else None
        at = {"parameter": number}
        match given:
            case MapOf():
                declarations.append({**at, "type": "tensor_map", "object": given.tensor})
                maps.append({**at, **_described(given)})
            case PointerArgument(tensor):
                declarations.append({**at, "type": "pointer", "space": "global", "object": tensor})
            case float():
                arguments.append({**at, "type": f"f{8 * parameter.size}", "value": given})
            case int():
                arguments.append({**at, "type": f"u{8 * parameter.size}", "value": given})
            case _:  # scratch memory that Triton declares and does not use
                declarations.append({**at, "type": "pointer", "space": "global", "object": parameter.name})
    return {
        "schema": "spverify.kernel-input/v1",
        "entry": entry,
        "launch": {
            "grid_dim": list(launch.grid),
            "block_dim": [launch.threads, 1, 1],
            "cluster_dim": [launch.cluster, 1, 1],
            "dynamic_shared_bytes": launch.shared,
        },
        "declarations": declarations,
        "arguments": arguments,
        "tma_descriptors": maps,
        "assumptions": {"duplicate_tma_store_benign": False},
    }


def _described(given: MapOf) -> dict[str, Any]:
    return {
        "object": given.tensor,
        "element_type": ELEMENTS[given.dtype],
        "rank": len(given.dims),
        "base_byte_offset": given.offset,
        "global_shape": list(given.dims),
        "box_shape": list(given.box),
        "global_strides_bytes": list(given.strides),
        "element_strides": [1] * len(given.dims),
        "swizzle": SWIZZLES[given.swizzle],
        "interleave": "none",
        "oob_fill": "zero",
    }


def by_one_thread(text: str) -> str:
    """All of Triton's threads write one number to one word; SentryWard calls that a race. Here one of them does."""
    made = re.sub(r"(st\.shared\.b32 \s*\[global_smem\+\d+\], \d+;)", r"setp.eq.u32 %p0, %r1, 0; @%p0 \1", text)
    assert made != text
    return made


def taken(text: str) -> str:
    """A text of ours in the form that it takes."""
    return stored(unsigned(by_number(text)))


def stored(text: str) -> str:
    """It has no reductions of the TMA. Here they are stores: these read the same of shared memory, and what they write
    conflicts with more, stores and reductions of others among it."""
    reduction = r"cp\.reduce(\.async\.bulk\.tensor\.\dd\.global\.shared::cta)\.\w+(\.tile\.bulk_group)"
    return re.sub(reduction, r"cp\1\2", text)


_REDUCED = re.compile(
    r"(cp\.reduce\.async\.bulk\.tensor\.2d\.global\.shared::cta\.\w+\.tile\.bulk_group\s+\[%rd\d+, \{%r\d+, )%r(\d+)\}"
)


def apart(text: str, launch: PtxLaunch, names: Collection[str]) -> tuple[str, PtxLaunch]:
    """Reductions of the CTAs of a cluster into the same rows of a matrix are in no order, and need none; as stores they
    would conflict. Here those of each CTA go to rows of their own, behind those of the CTA before it. names: of the
    matrices."""
    declared = re.search(r"\.reg \.b32\s+%r<(\d+)>;", text)
    maps = [given for given in launch.arguments if isinstance(given, MapOf) and given.tensor in names]
    assert declared is not None and maps and all(len(given.dims) == 2 for given in maps)
    first, (rows,) = int(declared[1]), {given.dims[1] for given in maps}
    cta, row = f"%r{first}", f"%r{first + 1}"

    def moved(found: re.Match[str]) -> str:
        return f"mov.u32 {cta}, %cluster_ctarank; mad.lo.s32 {row}, {cta}, {rows}, %r{found[2]}; {found[1]}{row}}}"

    made, count = _REDUCED.subn(moved, text.replace(declared[0], f".reg .b32 %r<{first + 2}>;"))
    assert count
    arguments = tuple(
        replace(given, dims=(given.dims[0], rows * launch.cluster)) if given in maps else given
        for given in launch.arguments
    )
    return made, replace(launch, arguments=arguments)


def unsigned(text: str) -> str:
    """A descriptor whose highest bit is set is a negative number to it, if NVRTC writes the constant so."""
    return re.sub(r"(or\.b64\s+%rd\d+, %rd\d+, )-(\d+);", lambda found: f"{found[1]}{(1 << 64) - int(found[2])};", text)


_LOC = r"(?:\s*\.loc[^\n]*\n|\s)*"
_ELECTED = re.compile(
    rf"\{{{_LOC}\.reg \.pred p;{_LOC}elect\.sync _\|p, 0xffffffff;{_LOC}selp\.u32 (%r\d+), 1, 0, p;{_LOC}\}}"
)


def by_number(text: str) -> str:
    """SentryWard lets every lane go on behind an `elect.sync` into a predicate that a block in braces declares. Here
    the lane is chosen by its number."""
    made, count = _ELECTED.subn(r"mov.u32 \1, %tid.x; and.b32 \1, \1, 31; min.u32 \1, \1, 1; xor.b32 \1, \1, 1;", text)
    assert count
    return made
