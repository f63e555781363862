"""What `twill.jit` may do for a kernel, from arguments and the environment.

TWILL_JIT: the policy; "off" there wins over every argument. TWILL_JIT_BUDGET: seconds that a launch may wait for a
look-up. TWILL_MACHINE: the machine, a name or a file. TWILL_STRICT_MATH: 1 for kernels of `--strict-math`.
TWILL_JIT_PREFER: which kernel runs where both could. TWILL_JIT_EMIT: cuda or gluon. TWILL_STORE, TWILL_SERVER: as for
the command line (docs/store.md).

| policy | where no emitted kernel is at hand |
| --- | --- |
| lookup | the Triton kernel runs; a stored schedule, if there is one, is emitted in the background |
| solve | the same, and what nobody has solved is solved in the background |
| require | the launch waits for a stored schedule to be emitted; without one it is an error |
| off | Triton alone, always |
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast, get_args

from twill.exc import WrongPolicy
from twill.runtime.request import Form

Policy = Literal["lookup", "solve", "require", "off"]
Prefer = Literal["faster", "emitted"]

POLICY, BUDGET, MACHINE = "TWILL_JIT", "TWILL_JIT_BUDGET", "TWILL_MACHINE"
EMIT = "TWILL_JIT_EMIT"
STORE, SERVER, STRICT, PREFER = "TWILL_STORE", "TWILL_SERVER", "TWILL_STRICT_MATH", "TWILL_JIT_PREFER"
SECONDS = 0.05  # that a launch may wait, once for each specialization
SOLVE_SECONDS = 120.0  # for one solve in the background


@dataclass(frozen=True)
class JitSettings:
    """budget: seconds. machine: a name or a file ("": the described one that the GPU's name contains). store, server:
    "" for what the environment says; solve_seconds: the budget of one solve in the background. strict_math: whether
    emitted kernels round every number where and as the kernel says (docs/emitted-kernels.md, "Numbers"). prefer: where
    there is an emitted kernel, the faster one of it and Triton's, as measured on the program's first launches, or
    always the emitted one; under the policy "require" it is always that. emit: what kernels are emitted as
    (docs/gluon.md has what Gluon can say)."""

    policy: Policy = "lookup"
    budget: float = SECONDS
    machine: str = ""
    store: str = ""
    server: str = ""
    solve_seconds: float = SOLVE_SECONDS
    strict_math: bool = False
    prefer: Prefer = "faster"
    emit: Form = "cuda"

    @property
    def compares(self) -> bool:
        """Whether emitted kernels have to be as fast as Triton's."""
        return self.prefer == "faster" and self.policy != "require"


def settings(
    policy: str | None = None,
    budget: float | None = None,
    machine: str | None = None,
    store: str | None = None,
    server: str | None = None,
    solve_seconds: float | None = None,
    strict_math: bool | None = None,
    prefer: str | None = None,
    emit: str | None = None,
    environment: Mapping[str, str] = os.environ,
) -> JitSettings:
    """The settings of these arguments, else of the environment, else the usual ones. Errors: WrongPolicy."""
    said = environment.get(POLICY, "")
    chosen = "off" if said == "off" else policy or said or "lookup"
    if chosen not in get_args(Policy):
        raise WrongPolicy(f"{chosen!r} is no policy of twill.jit", hint="lookup, solve, require or off")
    preferred = prefer or environment.get(PREFER, "") or "faster"
    if preferred not in get_args(Prefer):
        raise WrongPolicy(f"{preferred!r} is not what twill.jit can prefer", hint="faster or emitted")
    form = emit or environment.get(EMIT, "") or "cuda"
    if form not in get_args(Form):
        raise WrongPolicy(f"{form!r} is nothing that twill.jit emits", hint="cuda or gluon")
    return JitSettings(
        policy=cast(Policy, chosen),
        budget=_seconds(environment.get(BUDGET, "")) if budget is None else budget,
        machine=environment.get(MACHINE, "") if machine is None else machine,
        store=environment.get(STORE, "") if store is None else store,
        server=environment.get(SERVER, "") if server is None else server,
        solve_seconds=SOLVE_SECONDS if solve_seconds is None else solve_seconds,
        strict_math=environment.get(STRICT, "") not in ("", "0") if strict_math is None else strict_math,
        prefer=cast(Prefer, preferred),
        emit=cast(Form, form),
    )


def _seconds(text: str) -> float:
    if not text:
        return SECONDS
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < float("inf"):
        raise WrongPolicy(f"{BUDGET}={text} is no number of seconds", hint=f"{BUDGET}={SECONDS}")
    return value
