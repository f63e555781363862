"""How far roundings alone move what a launch leaves.

Iterations that do not converge (a conjugate gradient of random numbers that are no positive definite matrix) turn the
last bit of a sum into another result. Two right kernels differ in it, and so do two of Triton's with other numbers of
warps: nothing says what it is.
"""

from __future__ import annotations

from collections.abc import Mapping

from twill.codegen.verify.abstract.inputs import CheckedLaunch
from twill.codegen.verify.abstract.rounding import narrowed_for_mmas, run_shaken
from twill.tile.interpret.arithmetic import Array
from twill.tile.interpret.arrays import np
from twill.tile.interpret.sequential import run
from twill.tile.program import TileProgram
from twill.tile.vocabulary import MMA

DRAWS = 4  # shaken runs: one may happen to move a tensor by little that others move by much


def moved_by_roundings(program: TileProgram, launch: CheckedLaunch) -> Mapping[str, float]:
    """For each tensor of floats that a launch stores to: ‖shaken − plain‖ / ‖plain‖ of the two runs that
    `twill.codegen.verify.abstract.rounding` describes, the most of `DRAWS`; infinity where one has a number and the
    other has none; in every second one the operands of tf32 are cut off, as tensor cores do that are given f32.
    program: as it was written."""
    plain = {name: array.copy() for name, array in launch.arrays.items()}
    run(program, launch.grid, plain, launch.scalars)
    stored = {op.access.base for op in program.ops() if op.access is not None and op.kind != "tile_load"}
    floats = sorted(name for name in stored if plain[name].dtype.kind == "f")
    cut = frozenset(op.line for op in program.ops() if op.kind in MMA and str(op.attribute("precision")) == "tf32")
    moved = dict.fromkeys(floats, 0.0)
    for draw in range(DRAWS):
        shaken = {name: array.copy() for name, array in launch.arrays.items()}
        as_cores = cut if draw % 2 else frozenset[int]()
        narrowed = narrowed_for_mmas(program)
        run_shaken(program, launch.grid, shaken, launch.scalars, narrowed, cut=as_cores, draw=draw)
        moved = {name: max(moved[name], apart(shaken[name], plain[name])) for name in floats}
    return moved


def apart(found: Array, wanted: Array) -> float:
    """‖found − wanted‖ / ‖wanted‖, without elements that are no number, or the same infinity, in both."""
    with np.errstate(all="ignore"):
        same = (found == wanted) | (np.isnan(found) & np.isnan(wanted))
        off = np.where(same, 0.0, found.astype(np.float64) - wanted)
        size = np.where(np.isfinite(wanted), wanted, 0.0).astype(np.float64)
        far = float(np.linalg.norm(off)) / max(float(np.linalg.norm(size)), 1e-30)
    return far if np.isfinite(far) else float("inf")
