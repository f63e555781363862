"""Problems of `benchmarks.attention_fp8`: tensors in e4m3 with a scale for each head, and the result in float64."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from benchmarks.attention_sweep_problems import pairs

LARGEST = 448.0  # of e4m3
CHECKED = 4  # heads whose result is compared
ROWS = 2048  # of scores that the reference holds at once


@dataclass(frozen=True)
class Problem:
    """As many keys as queries in each of `batch` x `heads` heads of width `width`."""

    length: int
    causal: bool
    batch: int = 4
    heads: int = 16
    width: int = 128

    @property
    def name(self) -> str:
        """causal 4 x 16 x 1024, D 128."""
        return f"{'causal' if self.causal else 'full'} {self.batch} x {self.heads} x {self.length}, D {self.width}"

    @property
    def all_heads(self) -> int:
        return self.batch * self.heads

    @property
    def operations(self) -> float:
        """Multiplications and additions of both products, without what causal attention leaves out."""
        return 4.0 * self.width * self.all_heads * pairs(self.length, self.length, self.causal)

    @property
    def scale(self) -> float:
        """Of the scores."""
        return math.sqrt(1 / self.width)


def problems() -> Iterator[Problem]:
    """All of them, short ones first; then those of other widths."""
    for length in (1024, 2048, 4096, 8192, 16384):
        yield from (Problem(length, causal) for causal in (False, True))
    for heads, width in ((16, 64), (8, 256)):
        yield from (Problem(8192, causal, 4, heads, width) for causal in (False, True))


@dataclass(frozen=True)
class Inputs:
    """q, k, v: e4m3 [heads of all, rows, D]. across: v as [heads of all, D, rows]; quads: the same with each 16 rows in
    the order that kernels with QUADS want. scales: of q, k and v, float32 [heads of all]. out: bf16; lse: float32, for
    each row."""

    problem: Problem
    q: Any
    k: Any
    v: Any
    across: Any
    quads: Any
    scales: tuple[Any, Any, Any]
    out: Any
    lse: Any


def inputs(problem: Problem) -> Inputs:
    """Normal numbers; the largest of a head becomes the largest of e4m3."""
    import torch

    torch.manual_seed(0)
    shape = (problem.all_heads, problem.length, problem.width)
    made, scales = [], []
    for _ in range(3):
        whole = torch.randn(shape, device="cuda", dtype=torch.float32)
        scales.append(whole.abs().amax((1, 2)) / LARGEST)
        made.append((whole / scales[-1][:, None, None]).to(torch.float8_e4m3fn))
    q, k, v = made
    out = torch.empty(shape, device="cuda", dtype=torch.bfloat16)
    lse = torch.empty(shape[:2], device="cuda", dtype=torch.float32)
    across = moved(v, 0, 2, 1)
    quads = moved(across.view(*across.shape[:2], -1, 2, 4, 2), 0, 1, 2, 4, 3, 5).view(across.shape)
    return Inputs(problem, q, k, v, across, quads, (scales[0], scales[1], scales[2]), out, lse)


def moved(tensor: Any, *axes: int) -> Any:
    """A tensor of 8-bit floats with its axes in another order, in memory, too."""
    import torch

    return tensor.view(torch.uint8).permute(*axes).contiguous().view(tensor.dtype)


def checked(problem: Problem) -> list[int]:
    """The heads that are compared: the first, the last and some between."""
    return sorted({round(i * (problem.all_heads - 1) / (CHECKED - 1)) for i in range(CHECKED)})


def reference(given: Inputs) -> tuple[Any, Any]:
    """Of those heads, float64: what e4m3 inputs with their scales give, and the log-sum-exp of each row in base 2."""
    import torch

    problem, heads = given.problem, checked(given.problem)
    column = torch.arange(problem.length, device="cuda")
    results, sums = [], []
    for head in heads:
        of_head = zip((given.q, given.k, given.v), given.scales, strict=True)
        q, k, v = (one[head].float().double() * scale[head].double() for one, scale in of_head)
        for first in range(0, problem.length, ROWS):
            scores = q[first : first + ROWS] @ k.T * problem.scale
            if problem.causal:
                scores.masked_fill_(column > column[first : first + ROWS, None], float("-inf"))
            sums.append(torch.logsumexp(scores, -1) / math.log(2))
            results.append(torch.softmax(scores, -1) @ v)
    shape = (len(heads), problem.length)
    return torch.cat(results).view(*shape, problem.width), torch.cat(sums).view(shape)


def error(result: Any, expected: Any, problem: Problem) -> float:
    """Of all numbers of the compared heads together, relative; infinite if one is no number."""
    found = result[checked(problem)].double()
    return float(((found - expected).norm() / expected.norm()).nan_to_num(math.inf))
