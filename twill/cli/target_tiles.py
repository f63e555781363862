"""Tiles that a target has, where those of the specialization are another one's: of the sidecar's table `tune`."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable, Iterator
from math import prod
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from twill.codegen.emission import Extracted
    from twill.graph.dependence import DependenceGraph
    from twill.kernel.specialization import Specialization
    from twill.machine.description import Machine
    from twill.tile.odd_sizes import Known

Kernel = TypeVar("Kernel")


def fitting(kernel: Extracted, machine: Machine, arguments: Namespace, known: Known) -> tuple[Extracted, Namespace]:
    """The kernel and its arguments as they are, if the target has products of its tiles; else with the largest tiles of
    its table `tune` that the target has, which is said. Errors: UnsupportedInKernel of the tiles as they are, where a
    warp program for them is given, or no others are. known: programs that were read before, to which those of other
    tiles are added."""
    from twill.cli.emit import extracted_as

    def read(asked: Namespace) -> Extracted:
        return extracted_as(asked, conditional=asked.language == "cuda", known=known)

    def graph(made: Extracted) -> DependenceGraph:
        return made.on(machine).graph

    if arguments.from_ir is not None:
        refuse(graph(kernel), machine)
        return kernel, arguments
    return with_tiles_of(machine, kernel.specialization, arguments, kernel, read, graph)


def with_tiles_of(
    machine: Machine,
    specialization: Specialization,
    arguments: Namespace,
    kernel: Kernel,
    read: Callable[[Namespace], Kernel],
    graph: Callable[[Kernel], DependenceGraph],
) -> tuple[Kernel, Namespace]:
    """A kernel with tiles that the machine's target has, and the arguments that say so. kernel: with the
    specialization's own. read: makes the kernel of other arguments. graph: its dependence graph, as the machine takes
    it. Errors: UnsupportedInKernel, NoTarget."""
    from twill import exc
    from twill.cli.complaint import complain
    from twill.codegen.targets.base import target_of

    try:
        refuse(graph(kernel), machine)
    except exc.UnsupportedInKernel:
        for text, again in other_tiles(specialization, arguments):
            try:
                made = read(again)
                refuse(graph(made), machine)
            except exc.TwillError:
                continue
            target = target_of(machine)
            complain(f"note: {target.name} has {target.sizes}: {text} instead of the specialization's tiles")
            return made, again
        raise
    return kernel, arguments


def other_tiles(specialization: Specialization, arguments: Namespace) -> Iterator[tuple[str, Namespace]]:
    """The other tiles of the table `tune`, the largest first: in words, and the arguments that ask for them."""
    from twill.tune.candidate import all_tiles, space_of

    space = space_of(specialization)
    others = [tiles for tiles in all_tiles(specialization, space) if tiles.constants] if space else []
    for tiles in sorted(others, key=lambda one: -prod(one.constants.values())):
        given = {"sig": [*arguments.sig, *tiles.sig], "const": [*arguments.const, *tiles.const]}
        yield tiles.text(), Namespace(**{**vars(arguments), **given})


def refuse(graph: DependenceGraph, machine: Machine) -> None:
    """Raises UnsupportedInKernel where the machine's target has no products of the graph's tiles; NoTarget."""
    from twill.codegen.targets.base import target_of

    target_of(machine).refuse(graph)
