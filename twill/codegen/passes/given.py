"""Scalars that the launch computes for a program (`Given`): what passes that make some have in common.

What a launch computes it computes anew for other numbers, as it does with tensor maps: some 100 us of the host, where a
launch like one before takes a few. So a scalar is given only if launches with other numbers are other ones anyhow:
tensor maps are made of the same arguments, or a descriptor is an argument, whose shape goes along with them. A length
that grows from launch to launch, and stands in no map, stays with the kernel.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from twill.codegen.warp.expression import Expr, Symbol
from twill.codegen.warp.parameters import is_of_launch, nodes
from twill.codegen.warp.program import Define, Given, WarpProgram


def may_be_given(program: WarpProgram, value: Expr) -> bool:
    """Whether the launch may compute a scalar of this value."""
    asked = {node.name for node in nodes((value,)) if isinstance(node, Symbol)}
    return is_of_launch(value) and (has_descriptors(program) or asked <= in_maps(program))


def has_descriptors(program: WarpProgram) -> bool:
    """Whether the kernel is launched with some, of which shapes and strides are arguments of their own."""
    return any("." in argument.name for argument in program.program.arguments)


def in_maps(program: WarpProgram) -> frozenset[str]:
    """The scalars that tensor maps are made of."""
    parts = [(*spec.sizes, *spec.strides, spec.offset) for spec in program.maps]
    return frozenset(node.name for node in nodes(tuple(parts)) if isinstance(node, Symbol))


def with_given(program: WarpProgram, found: Mapping[str, Expr]) -> WarpProgram:
    """The program with such scalars, by name, behind what its setup begins with."""
    setup = program.setup
    at = next((number for number, stmt in enumerate(setup) if not isinstance(stmt, Define | Given)), len(setup))
    made = (Given(name, value) for name, value in found.items())
    return replace(program, setup=(*setup[:at], *made, *setup[at:]))
