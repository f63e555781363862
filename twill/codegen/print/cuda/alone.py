"""Kernels of one warp group whose CTAs have a program instance each: nothing hides what a CTA does before its first
load and between its loads and its stores, so these are printed for latency."""

from __future__ import annotations

from twill.codegen.warp.program import WarpProgram


def alone(program: WarpProgram) -> bool:
    """Whether the threads of a CTA have no barriers in memory, tensor maps or scheduler's memory between them."""
    shared = program.arefs or program.maps or program.once or program.cluster is not None
    return len(program.groups) == 1 and not shared
