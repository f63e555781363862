"""Unit propagation over the clauses of a proof in the making, with the reasons of every step.

Clauses are numbered in the order in which they were learned; a clause is derived from those before it only.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass
class Propagation:
    """Clauses with two watched literals each."""

    clauses: list[tuple[int, ...]] = field(default_factory=list)
    _watching: dict[int, list[int]] = field(default_factory=dict)  # literal -> clauses that watch for its negation
    _watched: list[list[int]] = field(default_factory=list)
    _short: list[int] = field(default_factory=list)  # clauses of at most one literal

    def add(self, clause: Sequence[int]) -> int:
        """The number of a new clause."""
        number = len(self.clauses)
        self.clauses.append(tuple(clause))
        self._watched.append(list(clause))
        if len(clause) < 2:
            self._short.append(number)
        for literal in clause[:2] if len(clause) > 1 else ():
            self._watching.setdefault(literal, []).append(number)
        return number

    def consequences(self, denied: Sequence[int], before: int) -> tuple[dict[int, int], list[int], int | None]:
        """Literals that hold if all of `denied` fail: their reasons (-1: denied), in order; the clause that breaks."""
        reason: dict[int, int] = {}
        trail: list[int] = []
        for literal in denied:
            if -literal not in reason:
                reason[-literal] = -1
                trail.append(-literal)
        for number in self._short:
            if number >= before:
                break
            if not self.clauses[number]:
                return reason, trail, number
            literal = self.clauses[number][0]
            if -literal in reason:
                return reason, trail, number
            if literal not in reason:
                reason[literal] = number
                trail.append(literal)
        broken = self._propagate(reason, trail, before)
        return reason, trail, broken

    def _propagate(self, reason: dict[int, int], trail: list[int], before: int) -> int | None:
        done = 0
        while done < len(trail):
            failed = -trail[done]
            done += 1
            watching = self._watching.get(failed)
            if not watching:
                continue
            retained: list[int] = []
            for place, number in enumerate(watching):
                if number >= before:
                    retained.append(number)
                    continue
                literals = self._watched[number]
                if literals[0] == failed:
                    literals[0], literals[1] = literals[1], failed
                first = literals[0]
                if first in reason:
                    retained.append(number)
                    continue
                for other in range(2, len(literals)):
                    if -literals[other] not in reason:
                        literals[1], literals[other] = literals[other], failed
                        self._watching.setdefault(literals[1], []).append(number)
                        break
                else:
                    retained.append(number)
                    if -first in reason:
                        retained.extend(watching[place + 1 :])
                        self._watching[failed] = retained
                        return number
                    reason[first] = number
                    trail.append(first)
            self._watching[failed] = retained
        return None

    def chain(self, reason: dict[int, int], trail: list[int], clause: Sequence[int]) -> list[int]:
        """The clauses that lead to the denial of `clause`, in the order in which each leaves one literal."""
        needed = {-literal for literal in clause}
        steps = []
        for literal in reversed(trail):
            if literal in needed and reason[literal] >= 0:
                steps.append(reason[literal])
                needed.update(-other for other in self.clauses[reason[literal]] if other != literal)
        return steps[::-1]
