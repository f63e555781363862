"""Constants that `twill.jit` is free to choose, and what a kernel is with other values of them.

::

    twill.jit(kernel, free=["BLOCK_M", "BLOCK_N", "BLOCK_K"])
    twill.jit(kernel, free={"BLOCK_M": [64, 128, 192]}, blocks={"a_desc": ["BLOCK_M", 64]})
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from triton.compiler import ASTSource, make_backend

from twill.exc import WrongFreeConstant
from twill.kernel.gpu_free import TARGET
from twill.runtime.variant import Variant

BLOCK = re.compile(r"\[([^\]]*)\]")
MOST = 19  # tilings that are tried, those nearest to the program's own first
SMALLEST, LARGEST = 16, 256  # of a constant that nobody gave values for
TRIED = 64  # ways in which blocks may follow from constants

Blocks = Mapping[str, tuple[str | int, ...]]


@dataclass(frozen=True)
class FreeConstants:
    """values: to try, of each free constant; none: half and twice what the call has. blocks: of descriptors, in terms
    of constants; of one that is not named that is found out."""

    values: Mapping[str, tuple[int, ...]]
    blocks: Blocks

    @classmethod
    def of(cls, original: Any, free: Sequence[str] | Mapping[str, Sequence[int]],
           blocks: Mapping[str, Sequence[str | int]] | None) -> FreeConstants:  # fmt: skip
        """Errors: WrongFreeConstant."""
        if isinstance(free, str):
            raise WrongFreeConstant(f"free={free!r}", "a list of names of constexprs")
        values = free if isinstance(free, Mapping) else dict.fromkeys(free, ())
        known = [one.name for one in original.params if one.is_constexpr]
        for name, given in values.items():
            if name not in known:
                raise WrongFreeConstant(
                    f"{name} is no constexpr of {original.__name__}", f"names of {', '.join(known)}"
                )
            if any(type(value) is not int or value < 1 for value in given):
                raise WrongFreeConstant(f"{name} cannot be {list(given)}", "whole numbers from 1")
        return cls({name: tuple(given) for name, given in values.items()},
                   {name: tuple(block) for name, block in (blocks or {}).items()})  # fmt: skip

    def retiled(self, variant: Variant, constants: Mapping[str, int], blocks: Blocks) -> Variant:
        """The variant with these values of free constants."""
        own = tuple((name, constants.get(name, value)) for name, value in variant.constants)
        values = dict(own)

        def kind(name: str, text: str) -> str:
            if name not in blocks:
                return text
            sizes = (values[one] if isinstance(one, str) else one for one in blocks[name])
            return BLOCK.sub(f"[{', '.join(map(str, sizes))}]", text, count=1)

        return replace(variant, signature=tuple((name, kind(name, text)) for name, text in variant.signature),
                       constants=own)  # fmt: skip


def near(free: FreeConstants, bound: Mapping[str, Any]) -> Iterator[dict[str, int]]:
    """Values of the free constants, those of the call first, then the nearest (by the sum of their ratios' logarithms),
    `MOST` at most of what nobody gave values for."""
    own = {name: int(bound[name]) for name in free.values}
    choices = {name: given or tuple(sorted({own[name], *(size for size in (own[name] // 2, own[name] * 2)
                                                         if SMALLEST <= size <= LARGEST)}))
               for name, given in free.values.items()}  # fmt: skip
    points = [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]
    points.sort(key=lambda point: sum(abs(math.log2(value / own[name])) for name, value in point.items()))
    given = any(free.values.values())
    yield own
    yield from (point for point in (points if given else points[:MOST]) if point != own)


def module_of(original: Any, variant: Variant, constants: Mapping[str, Any]) -> str:
    """Triton's module of a variant, by its frontend and passes that know no hardware. Errors: Triton's."""
    from triton._C.libtriton import ir

    backend = make_backend(TARGET)
    options = backend.parse_options({"enable_fp_fusion": True})
    context = ir.context()
    ir.load_dialects(context)
    backend.load_dialects(context)
    types = dict(variant.signature)
    signature = {name: types.get(name, "constexpr") for name in original.arg_names}
    places = {name: original.arg_names.index(name) for name in variant.divisible}
    attributes = {(place,): [["tt.divisibility", 16]] for place in places.values()}
    source = ASTSource(original, signature, dict(constants), attributes)
    made = source.make_ir(
        TARGET, options, backend.get_codegen_implementation(options), backend.get_module_map(), context
    )
    stages: dict[str, Any] = {}
    backend.add_stages(stages, options, source.language)
    return str(stages["ttir"](made, {}))


def blocks_of(original: Any, variant: Variant, constants: Mapping[str, Any], free: FreeConstants) -> Blocks:
    """How blocks of descriptors follow from constants: as was said, else the one way in which the kernel compiles with
    values that all differ. Errors: WrongFreeConstant."""
    own = {name: int(constants[name]) for name in free.values}
    told = dict(free.blocks)
    open_: list[tuple[str, list[list[str | int]]]] = []
    for name, kind in variant.signature:
        if not kind.startswith("tensordesc") or name in told:
            continue
        found = BLOCK.search(kind)
        sizes = [int(size) for size in found[1].split(",")] if found else []
        open_.append((name, [[one for one, value in own.items() if value == size] or [size] for size in sizes]))
    axes = [axis for _, block in open_ for axis in block]
    if math.prod(map(len, axes)) == 1:
        return {**told, **{name: tuple(axis[0] for axis in block) for name, block in open_}}
    if math.prod(map(len, axes)) > TRIED:
        raise _unclear(open_, "too many ways")
    different = {name: 16 << place for place, name in enumerate(own)}
    right = []
    for way in itertools.product(*axes):
        given = iter(way)
        blocks = {**told, **{name: tuple(next(given) for _ in block) for name, block in open_}}
        try:
            module_of(original, free.retiled(variant, different, blocks), {**constants, **different})
        except Exception:  # not in this way
            continue
        right.append(blocks)
    if len(right) != 1:
        raise _unclear(open_, f"{len(right)} ways")
    return right[0]


def _unclear(open_: Sequence[tuple[str, Any]], how: str) -> WrongFreeConstant:
    names = ", ".join(name for name, _ in open_)
    hint = 'blocks={"a_desc": ["BLOCK_M", "BLOCK_K"], ...} beside free='
    return WrongFreeConstant(f"how the blocks of {names} follow from free constants is not clear ({how})", hint)
