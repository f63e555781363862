"""Tensors of a problem of `benchmarks.attention_sweep`, and its result in float32."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from benchmarks.attention_sweep_problems import Problem

SCORES = 1 << 28  # that the reference holds at once
FURTHEST = 2e-2  # of a row's own length, that a result in bf16 may be off


@dataclass(frozen=True)
class Inputs:
    """q, out: [sequences, heads, queries, D], or [queries of all, heads, D] where lengths vary; k, v alike. lse:
    float32, for each head and query. begins: of the sequences, of queries and of keys, int32 [sequences + 1]."""

    problem: Problem
    q: Any
    k: Any
    v: Any
    out: Any
    lse: Any
    begins: tuple[Any, Any]

    @property
    def scale(self) -> float:
        """Of the scores."""
        return math.sqrt(1 / self.problem.width)


def inputs(problem: Problem, filled: bool = True) -> Inputs:
    """filled: with random numbers."""
    import torch

    torch.manual_seed(0)
    make = torch.randn if filled else torch.empty
    begins = tuple(
        torch.tensor([0, *accumulate(both)], device="cuda", dtype=torch.int32)
        for both in zip(*problem.sequences, strict=True)
    )
    count, width = len(problem.sequences), problem.width
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    if problem.kind == "variable":
        queries, keys = (sum(both) for both in zip(*problem.sequences, strict=True))
        shapes = (queries, problem.heads, width), (keys, problem.key_heads, width)
    else:
        queries = count * problem.queries
        shapes = (count, problem.heads, problem.queries, width), (count, problem.key_heads, problem.keys, width)
    q, k, v = (make(shapes[i], device="cuda", dtype=torch.bfloat16) for i in (0, 1, 1))
    lse = torch.empty(problem.heads * queries, device="cuda", dtype=torch.float32)
    return Inputs(problem, q, k, v, torch.empty_like(q), lse, (begins[0], begins[1]))


def reference(given: Inputs) -> Any:
    """The result in float32, of the shape of q."""
    import torch

    problem, expected = given.problem, torch.empty(given.q.shape, device="cuda", dtype=torch.float32)
    if problem.kind != "variable":
        together = max(1, SCORES // (problem.heads * problem.queries * problem.keys))
        for first in range(0, len(problem.sequences), together):
            part = slice(first, first + together)
            _attend(given.q[part], given.k[part], given.v[part], expected[part], given.scale, problem.causal)
        return expected
    begins = [one.tolist() for one in given.begins]
    for index in range(len(problem.sequences)):
        rows, keys = (slice(one[index], one[index + 1]) for one in begins)
        q, out = (one[rows].transpose(0, 1)[None] for one in (given.q, expected))
        k, v = (one[keys].transpose(0, 1)[None] for one in (given.k, given.v))
        _attend(q, k, v, out, given.scale, problem.causal)
    return expected


def _attend(q: Any, k: Any, v: Any, out: Any, scale: float, causal: bool) -> None:
    """[sequences, heads, length, D], some queries at a time; writes into `out`."""
    import torch

    count, heads, queries, width = q.shape
    of_keys, keys = k.shape[1:3]
    shared = heads // of_keys
    k, v = k.float(), v.float()
    rows = max(1, SCORES // max(1, count * heads * keys))
    column = torch.arange(keys, device=q.device)
    for first in range(0, queries, rows):
        part = q[:, :, first : first + rows].float()
        length = part.shape[2]
        scores = part.reshape(count, of_keys, shared * length, width) @ k.mT * scale
        if causal:
            last = torch.arange(first, first + length, device=q.device) + keys - queries
            scores.masked_fill_((column > last[:, None]).repeat(shared, 1), float("-inf"))
        found = torch.softmax(scores, -1) @ v
        out[:, :, first : first + rows] = found.view(count, heads, length, width)


def distance(result: Any, expected: Any) -> float:
    """Of the row that is furthest off, in parts of its length; infinite if a number is none."""
    off = (result.float() - expected).norm(dim=-1) / expected.norm(dim=-1)
    return float(off.nan_to_num(float("inf")).max())
