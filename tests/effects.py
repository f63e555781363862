"""What a run of a warp program does, without what changes nothing: two runs with the same effects are the same run.

A wait that was over and known before, a Fence of what no multiply uses, a proxy fence without a write, a Commit or
WaitGroups without a multiply, a box outside of its tensor, a value that nobody reads or that was there before: these
have no effect. The effects of a warp group are in its order; the end of a wgmma group stands where something first
depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from twill.codegen.verify.abstract.actor import Actor
from twill.codegen.verify.abstract.scalars import integer
from twill.codegen.verify.abstract_machine import Trial, run
from twill.codegen.warp.effects import effects as registers
from twill.codegen.warp.program import (
    Acquire,
    Advance,
    Arrive,
    BulkCommit,
    BulkWait,
    Commit,
    Consumed,
    Expect,
    Fence,
    Get,
    If,
    Let,
    Multiply,
    Pipeline,
    ProxyFence,
    Publish,
    Reduce,
    Skip,
    SlotRef,
    Stmt,
    StoreShared,
    Sync,
    TmaLoad,
    TmaStore,
    WaitGroups,
    WarpProgram,
)


@dataclass(frozen=True)
class Effect:
    """What one statement did. reads, writes: fragments. pure: it does nothing but write them. slots: of shared memory
    that it writes or gives back. over: a wgmma group of this number ended. keeps: fragments that a multiply reads, for
    which it need not wait. multiplies: it is one."""

    what: Any
    reads: frozenset[int] = frozenset()
    writes: frozenset[int] = frozenset()
    pure: bool = False
    slots: frozenset[tuple[int, int]] = frozenset()
    over: int = 0
    keeps: frozenset[int] = frozenset()
    multiplies: bool = False


Effects = dict[int, list[Any]]


def effects(program: WarpProgram, trial: Trial, *, orders: bool = True, values: bool = True) -> Effects:
    """The effects of each warp group. orders: also of what does nothing but put others in order, in time or between
    threads; without it these are left out (`tests.happens` says what they are there for). values: also of what does
    nothing but compute in registers."""
    recorder = Recorder()
    run(program, trial.launch, watch=recorder)
    recorder.finish()
    made = {group: [e for e in found if orders or not only_orders(e)] for group, found in recorder.found.items()}
    return {group: recorder.ordered(group, alive(found), values) for group, found in made.items()}


def only_orders(effect: Effect) -> bool:
    """Whether an effect is a wait for a slot or for a bulk store to have read, a slot given on, a proxy fence, or a
    named barrier."""
    what = effect.what[0] if isinstance(effect.what, tuple) else effect.what
    return what in ("wait", "read", "proxy fence", Consumed, Publish, Sync, Arrive)


def same(value: Any, now: Any) -> bool:
    """Whether a fragment still has the value that it had."""
    if value is None or now is None:
        return value is now
    return np.array_equal(value, now, equal_nan=value.dtype.kind == "f")


def alive(found: list[Effect]) -> list[Effect]:
    """Without the values that nobody reads."""
    retained, live = [], set[int]()
    for effect in reversed(found):
        if effect.pure and not effect.writes & live:
            continue
        live -= effect.writes
        live |= effect.reads | effect.keeps
        retained.append(effect)
    return retained[::-1]


class Recorder:
    """Is told of each statement before it is executed, and of nothing after: what it did shows at the next one."""

    def __init__(self) -> None:
        self.found: dict[int, list[Effect]] = {}
        self.ordinal: dict[tuple[int, int], int] = {}  # empty groups do not count
        # What the multiplies of (warp group, wgmma group) use: fragments, slots.
        self.used: dict[tuple[int, int], tuple[set[int], set[tuple[int, int]]]] = {}
        self.last: dict[Actor, tuple[Stmt, Any]] = {}
        self.fresh: dict[int, bool] = {}  # a generic write since the last proxy fence

    def __call__(self, actor: Actor, stmt: Stmt) -> None:
        self.after(actor)
        self.last[actor] = stmt, self.before(actor, stmt)

    def ordered(self, group: int, found: list[Effect], values: bool = True) -> list[Any]:
        """What was done, with the ends of wgmma groups where something first depends on them. values: as above."""
        order: list[Any] = []
        waiting: list[int] = []
        for effect in found:
            if effect.over:
                waiting.append(effect.over)
                continue
            for number in [*waiting] if values else ():
                fragments, slots = self.used[group, number]
                if fragments & (effect.reads | effect.writes) or slots & effect.slots:
                    order.append(("over", self.rank(group, number)))
                    waiting.remove(number)
            if values or not (effect.pure or effect.multiplies):
                order.append(effect.what)
        return [*order, *(self.rank(group, number) for number in waiting if values)]

    def rank(self, group: int, number: int) -> int:
        """Which of the wgmma groups of a warp group that multiply it is."""
        return sum(1 for other, earlier in self.ordinal if other == group and earlier < number)

    def finish(self) -> None:
        """The run is over."""
        for actor in [*self.last]:
            self.after(actor)

    def before(self, actor: Actor, stmt: Stmt) -> Any:
        """What must be seen before a statement changes it."""
        match stmt:
            case Get(cursor) | Acquire(cursor):
                return actor.place(cursor), dict(actor.clock.known)
            case Consumed(cursor) | Publish(cursor) | Expect(cursor):
                return actor.place(cursor)[1:3]
            case WaitGroups():
                return actor.multiplies.complete
            case BulkWait():
                return actor.bulk_read, actor.bulk_done
            case Multiply():
                value = actor.fragments.values.get(stmt.accumulator)
                running = actor.fragments.accumulating_now(stmt.accumulator)
                adds = stmt.accumulate and (running or value is None or bool(value.any()))
                slots = self.slots(actor, stmt)
                fragments, places = self.used.setdefault((actor.group.id, actor.multiplies.index), (set(), set()))
                self.ordinal.setdefault((actor.group.id, actor.multiplies.index), len(self.ordinal))
                fragments |= {stmt.accumulator} | ({stmt.a} if isinstance(stmt.a, int) else set())
                places |= {(buffer, slot) for buffer, slot, *_ in slots}
                mine = {stmt.accumulator} | ({stmt.a} if isinstance(stmt.a, int) else set())
                return adds, slots, frozenset(mine & actor.fragments.touched)  # the last: what no fence covers
            case TmaLoad() | TmaStore():
                first = tuple(integer(expr, actor.scope) for expr in stmt.coordinates)
                address, inside = actor.machine.tensors.box(
                    actor.machine.program.maps[stmt.map], list(first), actor.scope
                )
                return address[inside].tobytes(), inside.tobytes(), self.slots(actor, stmt)
        (written, _) = registers(stmt)
        return self.slots(actor, stmt), [(number, actor.fragments.values.get(number)) for number in written]

    @staticmethod
    def slots(actor: Actor, stmt: Stmt) -> tuple[Any, ...]:
        """The slots that a statement names."""
        refs = [getattr(stmt, name, None) for name in ("a", "b", "target", "source")]
        return tuple((ref.buffer, actor.slot(ref), ref.rows, ref.columns) for ref in refs if isinstance(ref, SlotRef))

    def after(self, actor: Actor) -> None:
        """What the last statement did."""
        if actor not in self.last:
            return
        stmt, seen = self.last.pop(actor)
        self.found.setdefault(actor.group.id, []).extend(self.effect(actor, stmt, seen))

    def effect(self, actor: Actor, stmt: Stmt, seen: Any) -> Iterator[Effect]:
        """None, one or several."""
        match stmt:
            case Let() | If() | Pipeline() | Advance() | Skip() | Commit() | BulkCommit() | Fence():
                return
            case Get(cursor) | Acquire(cursor):
                (ring, slot, phase, _), known = seen
                if any(known.get(event, 0) < count for event, count in actor.clock.known.items()):
                    yield Effect(("wait", type(stmt), ring.aref.id, slot, phase))
            case Consumed(cursor) | Publish(cursor):
                aref = actor.ring_of[cursor].aref
                slots = frozenset((buffer, seen[0]) for buffer in aref.buffers)
                yield Effect((type(stmt), aref.id, seen), slots=slots)
            case Expect(cursor, size):
                yield Effect(("expect", actor.ring_of[cursor].aref.id, seen, size))
            case WaitGroups():
                for number in range(seen + 1, actor.multiplies.complete + 1):
                    if (actor.group.id, number) in self.used:
                        yield Effect("over", over=number)
            case BulkWait():
                if actor.bulk_read != seen[0]:
                    yield Effect(("read", actor.bulk_read))
                if actor.bulk_done != seen[1]:
                    yield Effect(("bulk", actor.bulk_done))
            case ProxyFence():
                if self.fresh.pop(actor.group.id, False):
                    yield Effect("proxy fence")
            case Sync() | Arrive():
                yield Effect((type(stmt), stmt.barrier))
            case Multiply():
                left = frozenset({stmt.a}) if isinstance(stmt.a, int) else frozenset[int]()
                what = ("multiply", stmt.accumulator, stmt.a if left else None, *seen)
                retained = left | ({stmt.accumulator} if stmt.accumulate else set())
                yield Effect(what, keeps=retained, multiplies=True)
            case TmaLoad() | TmaStore():
                if isinstance(stmt, TmaLoad) or seen[0]:
                    yield Effect((type(stmt), stmt.map, *seen))
            case _:
                slots, old = seen
                if not old or not all(same(value, actor.fragments.values.get(number)) for number, value in old):
                    yield self.other(stmt, slots, actor.group.id)

    def other(self, stmt: Stmt, seen: Any, group: int) -> Effect:
        """Of a statement that moves or computes values."""
        writes, reads = registers(stmt)
        slots: frozenset[tuple[int, int]] = frozenset()
        if isinstance(stmt, StoreShared):
            self.fresh[group] = True
            slots = frozenset((buffer, slot) for buffer, slot, *_ in seen)
        pure = bool(writes) and not (isinstance(stmt, Reduce) and stmt.scratch is not None)
        refs = {name: ref for name in ("target", "source") if isinstance(ref := getattr(stmt, name, None), SlotRef)}
        changed: dict[str, Any] = {
            name: replace(ref, cursor=None) for name, ref in refs.items()
        }  # the slot is in `seen`
        what = (replace(stmt, line=0, note="", **changed), seen)
        return Effect(what, frozenset(reads), frozenset(writes), pure, slots)
