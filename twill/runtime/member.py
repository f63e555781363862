"""A member of a family: an emitted kernel that stands for others of its Triton kernel, and what it should take.

Constants differ from member to member, and so do the blocks of descriptors: a member gets a call with its own.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from twill.manifest.document import CallArgument
from twill.manifest.evaluate import evaluate
from twill.manifest.family import PARTS, MemberCost, TensorSize
from twill.runtime.kernel import EmittedKernel, GridLike
from twill.runtime.tensor import ELEMENT_BYTES
from twill.runtime.tensor_map import NARROW


@dataclass(frozen=True)
class FamilyMember:
    """A variant that can be launched. name: its folder, and the parts of K. blocks: of its descriptors, by position and
    name."""

    name: str
    kernel: EmittedKernel
    cost: MemberCost | None
    blocks: tuple[tuple[int, str, list[int]], ...]

    @classmethod
    def of(cls, name: str, kernel: EmittedKernel, cost: MemberCost | None) -> FamilyMember:
        """That of a kernel."""
        arguments = enumerate(kernel.manifest.arguments)
        blocks = tuple((i, a.name, list(a.block)) for i, a in arguments if a.kind == "descriptor")
        return cls(name, kernel, cost, blocks)

    def in_parts(self) -> list[FamilyMember]:
        """It with every number of parts, if K can be split; itself if not."""
        split = self.kernel.manifest.split
        if split is None:
            return [self]
        made = (replace(self.kernel.manifest, split=replace(split, parts=n)) for n in PARTS)
        return [
            replace(self, name=f"{self.name}/{number}", kernel=EmittedKernel(manifest, self.kernel.cubin))
            for number, manifest in zip(PARTS, made, strict=True)
        ]

    def predicted(self, instances: int, sms: int, values: Mapping[str, Any]) -> float:
        """Cycles of a launch; infinite where nothing is known."""
        if self.cost is None:
            return math.inf
        manifest = self.kernel.manifest
        parts = 1 if manifest.split is None else manifest.split.parts
        sizes = self.sizes(values)
        cycles = self.cost.launch(instances, sms, dict(values), sizes, parts, manifest.cluster)
        return math.inf if cycles is None else cycles

    def sizes(self, values: Mapping[str, Any]) -> dict[str, TensorSize]:
        """Of the arguments that have tensor maps, as far as they follow from numbers of the call."""
        found: dict[str, TensorSize] = {}
        for entry in self.kernel.manifest.maps:
            element = ELEMENT_BYTES.get(entry.element, 0.5 if entry.element == NARROW else 0)
            try:
                sizes = [evaluate(size, dict(values)) for size in entry.sizes if size is not None]
                row = evaluate(entry.strides[-2], dict(values)) if len(entry.strides) > 1 else 0
            except (KeyError, ArithmeticError):
                continue
            if len(sizes) == len(entry.sizes):
                found.setdefault(entry.argument, TensorSize(int(math.prod(sizes) * element), int(row * element)))
        return found

    def given(self, bound: Mapping[str, Any]) -> dict[str, Any]:
        """Arguments of a call, by name, with the member's constants and blocks."""
        own = {name: with_block(bound[name], block) for _, name, block in self.blocks}
        return self.kernel.constants({**bound, **own})

    def launch(self, grid: GridLike, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        """The call with descriptors of its own blocks. Errors: those of the kernel."""
        given, count = list(args), len(args)
        for position, name, block in self.blocks:
            if position < count:
                if getattr(given[position], "block_shape", block) != block:
                    given[position] = Reblocked(given[position], block)
            elif name in kwargs:
                kwargs = {**kwargs, name: with_block(kwargs[name], block)}
        self.kernel[grid](*given, **kwargs)


class Reblocked:
    """A descriptor with another block."""

    __slots__ = ("base", "block_shape", "padding", "shape", "strides")

    def __init__(self, of: Any, block: list[int]) -> None:
        self.base, self.shape, self.strides = of.base, of.shape, of.strides
        self.padding, self.block_shape = getattr(of, "padding", None), block


def with_block(value: Any, block: list[int]) -> Any:
    """A descriptor with that block; itself, if it has it, or is none."""
    try:
        return value if value.block_shape == block else Reblocked(value, block)
    except AttributeError:
        return value


def free_constants(members: Iterable[FamilyMember], own: Iterable[tuple[str, Any]] = ()) -> frozenset[str]:
    """Constants that are not the same for all members. own: what some of them are for others."""
    values: dict[str, set[Any]] = {name: {value} for name, value in own}
    for argument in (argument for member in members for argument in member.kernel.manifest.arguments):
        if argument.kind == "constant":
            values.setdefault(argument.name, set()).add(argument.value)
    return frozenset(name for name, found in values.items() if len(found) > 1)


def numbers_of(
    arguments: Sequence[CallArgument], args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, int | float]:
    """Numbers of a call, by name; sizes of descriptors as "a_desc.shape.0"."""
    found: dict[str, int | float] = {}
    for position, argument in enumerate(arguments):
        value: Any = args[position] if position < len(args) else kwargs.get(argument.name)
        if type(value) is int or type(value) is float:
            found[argument.name] = value
        elif hasattr(value, "block_shape"):
            found.update({f"{argument.name}.shape.{axis}": int(size) for axis, size in enumerate(value.shape)})
            found.update({f"{argument.name}.stride.{axis}": int(size) for axis, size in enumerate(value.strides)})
    return found
