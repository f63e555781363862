"""Conditional rescaling of online softmax: a running maximum is replaced only when it grew by more than a threshold.

A loop that carries m, the maximum so far, exponentiates x - m and multiplies all that it made under the old maximum by
2^(m_old - m_new). Where m is a shift and nothing else (`twill.tile.rewrite.rescale_analysis` proves that no result of
the kernel depends on its value), it may stay behind the maximum, row by row:

    max(m, r)  becomes  r if r > m + slack else m          (`slack` of "max")

With slack = 8 (in base 2; in the kernel's own base elsewhere), sums and exponentials are at most 2^8 times what they
were. In the arithmetic of real numbers nothing changes. Rows that do not move have a factor of exactly 1, so a
multiplication by it can be left out where a whole warp's rows stay: it is marked (`often_one` of "mul").

The factor is marked, too, where m is more than a shift: maxima move seldom by themselves.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from twill.tile.program import Loop, Op, TileProgram
from twill.tile.rewrite.rescale_algebra import Law, of
from twill.tile.rewrite.rescale_analysis import Objection, RescaleAnalysis, Shift, rows_of
from twill.tile.vocabulary import OFTEN_ONE, SLACK

GROWTH = 8.0  # in log2: what a lazy shift may be behind
WORTH = 16  # elements of a row that are multiplied, to pay for its addition, choice and vote in each of four lanes


@dataclass(frozen=True)
class RescaleReport:
    """What became of the running maxima. conditional: those that move only when they must; retained: the others whose
    factors are worth a vote, with the reason why they move at once."""

    program: TileProgram
    conditional: tuple[Shift, ...] = ()
    immediate: tuple[tuple[Shift, Objection], ...] = ()

    def said(self) -> tuple[str, ...]:
        """For people, a line for each running maximum."""
        return (
            *(f"line {s.maximum.line}: {name_of(s)} moves only when it has to" for s in self.conditional),
            *(f"line {s.maximum.line}: {name_of(s)} moves at once: {o.said()}" for s, o in self.immediate),
        )


def name_of(shift: Shift) -> str:
    """The running maximum, as the kernel calls it."""
    return f"`{shift.maximum.name or shift.carry.name or 'the running maximum'}`"


def rescale_conditionally(program: TileProgram) -> TileProgram:
    """The program with conditional rescaling, where it is proven right and saves instructions; else the same one."""
    return rescaling(program).program


def rescaling(program: TileProgram) -> RescaleReport:
    """What conditional rescaling makes of a program, and why it leaves a running maximum as it is."""
    shifts = tuple(running_maxima(program))
    done = RescaleReport(program)
    tried: set[Shift] = set()
    for together in (shifts, *chains(shifts)):
        todo = tuple(shift for shift in together if shift not in tried)
        if not todo:
            continue
        walk = RescaleAnalysis(done.program, by_loop(todo)).run()
        if not walk.objections:
            tried.update(todo)
            done = made_conditional(done, walk, todo)
        elif together is not shifts or len(chains(shifts)) == 1:
            tried.update(todo)
            done = marked(done, walk, todo)
    return done


def running_maxima(program: TileProgram) -> Iterator[Shift]:
    """Carried f32 vectors that every iteration replaces by the maximum of themselves and something else."""
    for loop in program.body:
        if not isinstance(loop, Loop):
            continue
        makers = {result: op for op in loop.body if isinstance(op, Op) for result in op.results}
        for carry in loop.carried:
            op = makers.get(carry.yielded)
            kind = program.type_of(carry.argument)
            if op is None or op.kind != "max" or op.operands.count(carry.argument) != 1:
                continue
            given = dict(op.attributes)
            if kind.element == "f32" and rows_of(kind.shape) >= 0 and not {SLACK, "propagate_nan"} & given.keys():
                yield Shift(loop.id, carry, op)


def chains(shifts: tuple[Shift, ...]) -> tuple[tuple[Shift, ...], ...]:
    """Shifts that one loop hands to the next, together."""
    made: list[list[Shift]] = []
    for shift in shifts:
        chain = next((c for c in made if c[-1].carry.result == shift.carry.init), None)
        if chain is None:
            made.append([shift])
        else:
            chain.append(shift)
    return tuple(map(tuple, made))


def by_loop(shifts: tuple[Shift, ...]) -> dict[int, tuple[Shift, ...]]:
    """Shifts by their loops."""
    return {loop: tuple(s for s in shifts if s.loop == loop) for loop in {shift.loop for shift in shifts}}


def made_conditional(done: RescaleReport, walk: RescaleAnalysis, shifts: tuple[Shift, ...]) -> RescaleReport:
    """The program in which those shifts are lazy, if a factor is worth it."""
    factors = tuple(factors_of(walk, shifts))
    if not factors:
        return done
    slack = GROWTH / max(reach(law) for law in walk.laws.values())
    maxima = {shift.maximum.id: shift for shift in shifts}
    program = mark(done.program, factors).with_ops(
        lambda op: conditional_maximum(op, maxima[op.id], slack) if op.id in maxima else op
    )
    return replace(done, program=program, conditional=(*done.conditional, *shifts))


def reach(law: Law) -> float:
    """By how much, in log2, a value grows or shrinks at most where no shift is behind by more than 1."""
    degrees = [degree for _, degree in law.degrees] if law.kind == "scale" else []
    return max(sum(d for d in degrees if d > 0), -sum(d for d in degrees if d < 0))


def conditional_maximum(op: Op, shift: Shift, slack: float) -> Op:
    """The maximum that moves only when it grew by more than `slack`; the shift is its first operand."""
    other = next(operand for operand in op.operands if operand != shift.carry.argument)
    return replace(op, operands=(shift.carry.argument, other), attributes=(*op.attributes, (SLACK, slack)))


def marked(done: RescaleReport, walk: RescaleAnalysis, shifts: tuple[Shift, ...]) -> RescaleReport:
    """The program in which those shifts move at once."""
    factors = tuple(factors_of(walk, shifts))
    if not factors:
        return done
    retained = tuple((shift, walk.objections[0]) for shift in shifts)
    return replace(done, program=mark(done.program, factors), immediate=(*done.immediate, *retained))


def factors_of(walk: RescaleAnalysis, shifts: tuple[Shift, ...]) -> Iterator[int]:
    """Multiplications of a matrix by 2^(a·(shift before - shift after)), which is 1 in rows that stay."""
    changes = {of("scale", ((shift.before, sign), (shift.after, -sign))).degrees for shift in shifts for sign in (1.0,)}
    for op in walk.program.ops():
        if op.kind != "mul":
            continue
        kind = walk.program.type_of(op.results[0])
        rows = [kind.shape[law.axis] for law in map(walk.law, op.operands) if is_change(law, changes)]
        if rows and prod(kind.shape) > WORTH * rows[0]:
            yield op.id


def is_change(law: Law, changes: set[tuple[tuple[str, float], ...]]) -> bool:
    """Whether a value is a power of the change of a shift and nothing else."""
    if law.kind != "scale" or len(law.degrees) != 2 or not law.power:
        return False
    size = max(abs(degree) for _, degree in law.degrees)
    return any(not of("sum", (*law.times(1 / size).degrees, *((s, -sign * d) for s, d in change))).degrees
               for change in changes for sign in (1.0, -1.0))  # fmt: skip


def mark(program: TileProgram, factors: tuple[int, ...]) -> TileProgram:
    """The program with those multiplications marked."""
    return program.with_ops(
        lambda op: replace(op, attributes=(*op.attributes, (OFTEN_ONE, 1))) if op.id in factors else op
    )
