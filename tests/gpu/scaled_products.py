"""Products with scales of blocks, by PyTorch: inputs whose scales are numbers about 1, and the product itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from twill.trial.data import Data

ROWS, BLOCKS, LANES = 128, 4, 32  # of 512 bytes of scales; rows whose scales lie one behind the other
E2M1 = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
SEED = 11


def prepare(data: Data) -> None:
    """Scales from 2^-7 to 2^7 (e8m0), or from 1/4 to 4 (e4m3); any elements of e2m1."""
    generator = torch.Generator().manual_seed(SEED)
    for name in ("a_scales", "b_scales"):
        tensor = data.tensor(name)
        low, high = (120, 135) if tensor.dtype == torch.uint8 else (0x28, 0x48)
        bits = torch.randint(low, high, tensor.shape, generator=generator, dtype=torch.uint8)
        tensor.view(torch.uint8).copy_(bits)
    for name in ("a_desc", "b_desc"):
        tensor = data.tensor(name)
        if tensor.dtype == torch.uint8:
            tensor.copy_(torch.randint(0, 256, tensor.shape, generator=generator, dtype=torch.uint8))


def reference(data: Data, dtype: torch.dtype) -> dict[str, Tensor]:
    """C = A B^T."""
    a, b = (scaled(data.tensor(f"{name}_desc"), data.tensor(f"{name}_scales"), dtype) for name in "ab")
    return {"c_desc": a @ b.T}


def scaled(elements: Tensor, scales: Tensor, dtype: torch.dtype) -> Tensor:
    """A matrix [rows, k] with its scales multiplied in. elements: two of e2m1 in a byte, or numbers."""
    if elements.dtype == torch.uint8:
        table = torch.tensor([*E2M1, *(-number for number in E2M1)], dtype=dtype, device=elements.device)
        codes = torch.stack([elements & 0xF, elements >> 4], dim=-1).long()
        numbers = table[codes].flatten(1)
    else:
        numbers = elements.to(dtype)
    rows, k = numbers.shape
    factors = scales.to(dtype) if scales.dtype != torch.uint8 else torch.exp2(scales.to(dtype) - 127)
    block = 32 if scales.dtype == torch.uint8 else 16
    if scales.ndim == 2:  # [rows, blocks], not in chunks
        return numbers * factors.repeat_interleave(block, dim=1)[:, :k]
    high, wide = scales.shape[1:3]
    found = factors.reshape(high, wide, LANES, ROWS // LANES, BLOCKS).permute(0, 3, 2, 1, 4)
    found = found.reshape(high * ROWS, wide * BLOCKS)[:rows, : math.ceil(k / block)]
    return numbers * found.repeat_interleave(block, dim=1)[:, :k]
