"""Tiles that a target has, where those of the specialization are another one's: of the sidecar's table `tune`."""

from __future__ import annotations

from argparse import Namespace
from math import prod
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from twill.codegen.emission import Extracted
    from twill.machine.description import Machine
    from twill.tile.odd_sizes import Known


def fitting(kernel: Extracted, machine: Machine, arguments: Namespace, known: Known) -> tuple[Extracted, Namespace]:
    """The kernel and its arguments as they are, if the target has products of its tiles; else with the largest tiles of
    its table `tune` that the target has, which is said. Errors: UnsupportedInKernel of the tiles as they are, where a
    schedule or a warp program for them is given, or no others are. known: programs that were read before, to which
    those of other tiles are added."""
    from twill import exc
    from twill.cli.complaint import complain
    from twill.cli.emit import extracted_as
    from twill.codegen.targets.base import target_of

    target = target_of(machine)
    try:
        target.refuse(kernel.on(machine).graph)
    except exc.UnsupportedInKernel:
        from twill.tune.candidate import all_tiles, space_of

        space = space_of(kernel.specialization)
        if arguments.schedule is not None or arguments.from_ir is not None or space is None:
            raise
        others = [tiles for tiles in all_tiles(kernel.specialization, space) if tiles.constants]
        for tiles in sorted(others, key=lambda one: -prod(one.constants.values())):
            given = {"sig": [*arguments.sig, *tiles.sig], "const": [*arguments.const, *tiles.const]}
            again = Namespace(**{**vars(arguments), **given})
            try:
                made = extracted_as(again, conditional=arguments.language == "cuda", known=known)
                target.refuse(made.on(machine).graph)
            except exc.TwillError:
                continue
            complain(f"note: {target.name} has {target.sizes}: {tiles.text()} instead of the specialization's tiles")
            return made, again
        raise
    return kernel, arguments
