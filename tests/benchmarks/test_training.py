"""Promises of the benchmark of trainings: a step is gone through without computing it, and sides are told apart."""

from __future__ import annotations

import torch

from benchmarks.training import Training, pairs, report
from benchmarks.training_prepare import BIG, uncomputed


def test_large_results_have_the_shapes_and_strides_of_computed_ones_and_small_ones_are_computed() -> None:
    with uncomputed():
        a, b = (torch.ones(512, 512, dtype=torch.bfloat16, requires_grad=True) for _ in range(2))
        product = a @ b.t()
        (gradient,) = torch.autograd.grad(product.sum(), a)
        counted = torch.arange(2 * BIG)
        small = torch.full((4, 4), 3.0) @ torch.eye(4)
    assert (product.shape, product.stride(), product.dtype) == ((512, 512), (512, 1), torch.bfloat16)
    assert (gradient.shape, gradient.stride()) == ((512, 512), a.stride())
    assert int(counted[-1]) == 2 * BIG - 1  # integers say what is launched
    assert small.tolist() == [[3.0] * 4] * 4


def test_nothing_is_written_into_large_tensors() -> None:
    a = torch.zeros(BIG)
    small = torch.zeros(4)
    with uncomputed():
        assert a.add_(1) is a and small.add_(1) is small
    assert not a.any() and small.all()


def test_losses_and_times_of_both_sides_are_said_beside_what_runs_differ_by() -> None:
    plain = [Training([3.0, 2.0], [50.0, 52.0]), Training([3.0, 2.01], [50.0, 50.0])]
    under = [Training([3.0, 2.05], [40.0, 40.0]), Training([3.0, 1.99], [41.0, 41.0])]
    first, second, third = report("llama", plain, under)
    assert "50.50 ms, under twill.jit 40.50 ms: 1.247 x" in first
    assert second.endswith("runs without 51.00/50.00, under 40.00/41.00")
    assert third.endswith("apart at most 0.0500, 0.0100 between runs without")


def test_pairs_of_other_weights_say_whether_losses_are_higher() -> None:
    plain = [Training([4.0 + seed] * 50, [1.0]) for seed in range(4)]
    under = [Training([4.0 + seed + gap] * 50, [1.0]) for seed, gap in enumerate((0.1, 0.2, -0.1, 0.2))]
    assert list(pairs(plain, under))[-1] == "  step 49:   5.5000, under  +0.1000 ± 0.0707 (4 pairs, 3 higher)"
