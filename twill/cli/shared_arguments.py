"""Arguments that several commands have in common."""

from __future__ import annotations

import argparse

from twill.cli.values import natural, positive, seconds

SOLVERS = ("z3", "yices", "cvc5")
REWRITINGS = ("none", "masks", "all")  # as twill.tile.rewrite.pipeline has them
ORDERS = ("static", "dynamic")  # as twill.codegen.lower.dynamic_scheduler has them
BUDGET = 120.0  # seconds; long enough for every example that is proven at all on two cores


def trial(one: argparse.ArgumentParser) -> None:
    """What `twill run` and `twill bench` share."""
    kernel(one)
    rewriting(one)
    options(one, machine="h200")
    one.add_argument("--dir", metavar="DIR", help="what `twill emit` wrote (default: emit it now)")
    one.add_argument("--size", metavar="M=N,...", action="append", default=[], help="sizes other than the sidecar's")
    one.add_argument("--schedule", metavar="FILE", help="a schedule document instead of a solve")
    emission(one)
    answers(one)
    one.set_defaults(strategy="joint")


def filters(one: argparse.ArgumentParser) -> None:
    """Which stored schedules."""
    one.add_argument("--kernel", metavar="NAME", help="only of this kernel")
    one.add_argument("--machine", metavar="NAME", help="only for this machine")


def kernel(one: argparse.ArgumentParser) -> None:
    """Which kernel, and which specialization of it."""
    one.add_argument("kernel", metavar="FILE[::KERNEL]", help="a Python file with a Triton kernel")
    one.add_argument("--spec", metavar="NAME", help="a specialization of the sidecar <stem>.twill.toml")
    one.add_argument("--sig", metavar="ARG=TYPE", action="append", default=[], help="an argument's type: 'x=*fp16'")
    one.add_argument("--const", metavar="NAME=VALUE", action="append", default=[], help="value of a constexpr")


def rewriting(one: argparse.ArgumentParser) -> None:
    """How much of the kernel may be rewritten."""
    text = "join loops that go on and put rare masks under guards (all, the default), masks only, or none"
    one.add_argument("--rewrite", choices=REWRITINGS, default=REWRITINGS[2], help=text)
    strict(one)


def strict(one: argparse.ArgumentParser) -> None:
    """Whether numbers may be rounded otherwise."""
    text = "nothing rounds a number otherwise, or elsewhere, than the kernel says (TWILL_STRICT_MATH=1)"
    one.add_argument("--strict-math", action="store_true", help=text)


def options(one: argparse.ArgumentParser, machine: str | None = None) -> None:
    """What bounds and directs a solve. machine: the default; None: it must be named."""
    text = "as in `twill machines list`, or a file" + (f" (default: {machine})" if machine else "")
    one.add_argument("--machine", metavar="NAME_OR_FILE", required=machine is None, default=machine, help=text)
    one.add_argument("--normalize", metavar="U", type=positive, help="scale the cycle costs to small integers first")
    one.add_argument(
        "--budget", metavar="S", type=seconds, default=BUDGET, help=f"give up after S seconds (default {BUDGET:g})"
    )
    one.add_argument("--solver", choices=SOLVERS, default="z3", help="who answers the joint solve (default: z3)")
    one.add_argument("--resource-limit", metavar="N", type=natural, default=0, help="limit of each solver call")
    one.add_argument("--seed", metavar="N", type=natural, default=0, help="seed of the solver (default 0)")
    one.add_argument("--pin", metavar="PIN", action="append", default=[], help="fix part of the schedule, e.g. qk.0=g1")
    one.add_argument("--blocks", metavar="N", type=positive, help="only cooperations of N row blocks")
    text = "CTAs that work together, 1 or 2 (default: 1; emit: 2 where pairs have less I)"
    one.add_argument("--cluster", metavar="N", type=int, choices=(1, 2), default=1, help=text)
    text = "none is a polynomial in part, to spare the unit of special functions"
    one.add_argument("--whole-exponentials", action="store_true", help=text)
    one.add_argument("--ii", metavar="N", type=positive, help="only the initiation interval N")
    one.add_argument("--no-margin", action="store_true", help="no room for late products: the least L and registers")


def emission(one: argparse.ArgumentParser) -> None:
    """What directs an emission beside its schedule."""
    one.add_argument("--no-conditional-rescale", action="store_true", help="running maxima move in every iteration")
    text = "products and sums of floats are rounded apart (Triton's enable_fp_fusion=False)"
    one.add_argument("--no-fp-fusion", action="store_true", help=text)
    text = "parts that the loop over K is split into, each a program instance of its own (the specialization's, or 1)"
    one.add_argument("--split", metavar="N", type=positive, help=text)
    pairs = "the CTAs of a cluster load tiles together, and multiply each for itself (B200)"
    one.add_argument("--no-pair", action="store_true", help=pairs)
    text = "program instances: every n-th to a CTA, or fetched one by one (dynamic tile scheduler)"
    text += " (default: fetched if their trip counts differ or CTAs share an SM)"
    one.add_argument("--order", choices=ORDERS, default="chosen", help=text)


def outputs(one: argparse.ArgumentParser) -> None:
    """Files that draw a schedule."""
    one.add_argument("--html", metavar="FILE", help="write a self-contained page")
    one.add_argument("--trace", metavar="FILE", help="write a trace for Perfetto or chrome://tracing")


def answers(one: argparse.ArgumentParser) -> None:
    """Where schedules may come from that are not solved now and here."""
    store_place(one)
    one.add_argument("--no-store", action="store_true", help="neither look a schedule up nor keep it")
    one.add_argument("--server", metavar="URL", help="look up and solve at a service (default: TWILL_SERVER)")


def store_place(one: argparse.ArgumentParser) -> None:
    """Which file of stored schedules."""
    one.add_argument("--store", metavar="PATH", help="the file of stored schedules (default: TWILL_STORE, or a cache)")
