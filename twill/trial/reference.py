"""What a kernel computes without rounding to 16 bits: its sequential meaning in float32, on the CPU."""

from __future__ import annotations

from typing import Any

from twill.tile.interpret.arithmetic import HELD
from twill.tile.interpret.arrays import np
from twill.tile.interpret.sequential import descriptor_scalars, run
from twill.tile.interpret.widen import wide, widened
from twill.tile.launch_grid import instance_case
from twill.tile.program import TileProgram
from twill.trial.data import Data


def reference(program: TileProgram, data: Data) -> dict[str, Any]:
    """The outputs, in float32 (or their integer type), for the inputs that `data` has now.

    Takes seconds: every program instance is run with NumPy.
    """
    import torch

    elements = {a.name: wide(a.type.element).partition(":")[2] for a in program.arguments if a.name in data.held}
    arrays = {}
    for name, element in elements.items():
        tensor = (data.counted_from_zero(name) if name in data.case.tables else data.tensor(name)).flatten()
        tensor = tensor.float() if tensor.dtype.is_floating_point else tensor
        arrays[name] = tensor.cpu().numpy().astype(HELD[element])
    scalars = {**data.case.scalars, **descriptor_scalars(program, data.case.shapes)}
    run(widened(program), instance_case(program, data.case).grid, arrays, scalars)
    return {
        name: torch.from_numpy(np.ascontiguousarray(arrays[name])).view(tensor.shape).to(tensor.device)
        for name, tensor in data.outputs.items()
    }
