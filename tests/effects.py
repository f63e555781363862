"""What a run of a warp program does, without what changes nothing: two runs with the same effects are the same run.

A wait that was over and known before, a Fence of what no thread touched, a proxy fence without a write, a Commit or
WaitGroups without a multiply, a box outside of its tensor: these have no effect. The effects of a warp group are in
its order; a multiply's end stands where something first depends on it.
"""

from __future__ import annotations

from typing import Any

from twill.codegen.abstract.actor import Actor
from twill.codegen.abstract.scalars import integer
from twill.codegen.abstract_machine import Trial, run
from twill.codegen.aref import (
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
    SlotRef,
    Stmt,
    StoreShared,
    Sync,
    TmaLoad,
    TmaStore,
    WaitGroups,
    WarpProgram,
)

Effects = dict[int, list[Any]]


def effects(program: WarpProgram, trial: Trial) -> Effects:
    """The effects of each warp group."""
    recorder = Recorder()
    run(program, trial.launch, watch=recorder)
    recorder.finish()
    return recorder.found


class Recorder:
    """Is told of each statement before it is executed, and of nothing after: what it did shows at the next one."""

    def __init__(self) -> None:
        self.found: Effects = {}
        self.last: dict[Actor, tuple[Stmt, Any]] = {}
        self.fresh: dict[int, bool] = {}  # a generic write since the last proxy fence

    def __call__(self, actor: Actor, stmt: Stmt) -> None:
        self.after(actor)
        self.last[actor] = stmt, self.before(actor, stmt)

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
            case Fence():
                return frozenset(actor.fragments.written & set(stmt.fragments)), frozenset(actor.fragments.touched)
            case Multiply():
                value = actor.fragments.values.get(stmt.accumulator)
                running = actor.fragments.accumulating_now(stmt.accumulator)
                adds = stmt.accumulate and (running or value is None or bool(value.any()))
                return adds, self.slots(actor, stmt)
            case TmaLoad() | TmaStore():
                first = tuple(integer(expr, actor.scope) for expr in stmt.coordinates)
                address, inside = actor.machine.tensors.box(
                    actor.machine.program.maps[stmt.map], list(first), actor.scope
                )
                return address[inside].tobytes(), inside.tobytes(), self.slots(actor, stmt)
        return self.slots(actor, stmt)

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
        for effect in self.effect(actor, stmt, seen):
            self.found.setdefault(actor.group.id, []).append(effect)

    def effect(self, actor: Actor, stmt: Stmt, seen: Any) -> list[Any]:
        """() or one effect."""
        match stmt:
            case Let() | If() | Pipeline() | Advance() | Commit() | BulkCommit():
                return []
            case Get(cursor) | Acquire(cursor):
                (ring, slot, phase, _), known = seen
                learned = any(known.get(event, 0) < count for event, count in actor.clock.known.items())
                return [("wait", type(stmt), ring.aref.id, slot, phase)] if learned else []
            case Consumed() | Publish():
                return [(type(stmt), actor.ring_of[stmt.cursor].aref.id, seen)]
            case Expect(cursor, size):
                return [("expect", actor.ring_of[cursor].aref.id, seen, size)]
            case WaitGroups():
                return [("over", index) for index in self.multiplied(actor, seen, actor.multiplies.complete)]
            case BulkWait():
                moved = (actor.bulk_read, actor.bulk_done) != seen
                return [("bulk", actor.bulk_read, actor.bulk_done)] if moved else []
            case Fence():
                used = actor.fragments.accumulating.keys() | actor.fragments.multiplying.keys()
                return [("fence", seen[0], seen[1] & used)] if seen[0] or seen[1] & used or not used else []
            case ProxyFence():
                return ["proxy fence"] if self.fresh.pop(actor.group.id, False) else []
            case Sync() | Arrive():
                return [(type(stmt), stmt.barrier)]
            case Multiply():
                return [("multiply", stmt.accumulator, stmt.a if isinstance(stmt.a, int) else None, *seen)]
            case TmaLoad() | TmaStore():
                return [] if isinstance(stmt, TmaStore) and not seen[0] else [(type(stmt), stmt.map, *seen)]
        if isinstance(stmt, StoreShared):
            self.fresh[actor.group.id] = True
        return [(stmt, seen)]

    def multiplied(self, actor: Actor, first: int, end: int) -> list[int]:
        """Those of some wgmma groups that have multiplies."""
        used = {*actor.fragments.accumulating.values(), *actor.fragments.multiplying.values()}
        return [index for index in range(first + 1, end + 1) if index in used]
