"""A launch that need not wait for the one in front of it until it touches global memory.

A grid that follows another one in its stream begins when that one has ended; its CTAs then still have to be handed out,
barriers be made and tensor maps be fetched. Where a target has programmatic dependent launches (PTX ISA,
"griddepcontrol"; CUDA programming guide, "programmatic dependent launch") CTAs start as soon as others end, do all that
touches no memory, and wait. That is right whatever the other grid is: the wait ends when everything in front has ended
and is visible. In return the grid behind may begin early: it waits in the same way, or, if it was not launched so, it
begins when this one has ended.

What all warp groups begin with is looked up in memory behind the wait; left out where one thread does so for all.
"""

from __future__ import annotations

from dataclasses import replace

from twill.codegen.warp.choices import Choices
from twill.codegen.warp.parameters import looks_up
from twill.codegen.warp.program import AwaitEarlierGrids, WarpProgram


def run(program: WarpProgram, choices: Choices) -> WarpProgram:
    """With a wait behind all that the warp groups begin with, or in front of the first look at memory."""
    setup = program.setup
    at = next((place for place, stmt in enumerate(setup) if looks_up(stmt)), len(setup))
    if not choices.early or looks_up(program.once) or (program.once and at < len(setup)):
        return program
    return replace(program, setup=(*setup[:at], AwaitEarlierGrids(), *setup[at:]))
