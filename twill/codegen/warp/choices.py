"""What lowering decided for the whole program and passes carry out, and how a pass goes over warp groups."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from twill.codegen.warp.program import Stmt, WarpGroup, WarpProgram


@dataclass(frozen=True)
class Choices:
    """partial_sums: whether sums that go from one loop to the next stay in parts between them, too. ping_pong: whether
    equal computing warp groups take program instances alternately. dynamic: whether CTAs fetch instances. capacity:
    bytes of shared memory that one CTA may have. strict: whether no pass may change a number. accumulator_registers: of
    a thread, that accumulators read from tensor memory may take together (0: any number). product_registers: of a
    thread, that accumulators in registers may take together in what follows their loops (0: any number). cancel:
    whether instances that CTAs fetch are those of CTAs which have not started. late: whether tiles are loaded where
    they are read first. overlay: whether buffers of loops that follow one another may lie over
    one another. packed: whether instructions that compute two f32 at once are used.
    early: whether launches may begin before those in front of them have ended. columns: of tensor memory that a CTA may
    have (0: any number). passing: bytes of a tensor at most, whose tiles leave the L2 cache first where a launch reads
    them once (0: none does)."""

    partial_sums: bool
    ping_pong: bool
    dynamic: bool
    capacity: int
    strict: bool = False
    accumulator_registers: int = 0
    product_registers: int = 0
    cancel: bool = False
    late: bool = False
    overlay: bool = False
    packed: bool = False
    early: bool = False
    columns: int = 0
    passing: int = 0


def each_body(program: WarpProgram, change: Callable[[WarpGroup], tuple[Stmt, ...]]) -> WarpProgram:
    """The program with the body of every warp group made anew."""
    return replace(program, groups=tuple(replace(group, body=change(group)) for group in program.groups))
