"""The two steady states of a loop, or the two sides of a branch, as one: what differs stands under a name.

A loop whose condition changes once, as where the keys of a causal row block begin to be masked, has two steady states:
the kernel's iteration with the condition decided. They are the same but for some statements and scalars. As text they
are one loop within another over the two states, which Triton's front end goes through one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from typing import Any

from twill.codegen.warp.effects import effects
from twill.codegen.warp.expression import Apply, Expr, Local
from twill.codegen.warp.program import Compute, If, Let, Operand, Pipeline, Range, Reg, Stmt

Same = Callable[[Stmt, Stmt], bool]


@dataclass(frozen=True)
class JoinedStates:
    """block: of both states. second: the name that is true in the second one."""

    block: tuple[Stmt, ...]
    second: str


def joined_states(loop: Pipeline, same: Same) -> JoinedStates | None:
    """Of a loop with two states; None where less than half of the statements are in both, or a scalar is only in one.
    same: whether two statements that look the same are printed the same."""
    first, later = loop.steady, loop.later
    codes = SequenceMatcher(None, list(map(_key, first)), list(map(_key, later)), autojunk=False).get_opcodes()
    common = sum(b - a for kind, a, b, _, _ in codes if kind == "equal")
    apart = [stmt for kind, a, b, c, d in codes if kind != "equal" for stmt in (*first[a:b], *later[c:d])]
    if 2 * common < len(later) or any(isinstance(stmt, Let) for stmt in apart):
        return None
    selects = any(isinstance(stmt, Compute) and stmt.kind == "select" for stmt in apart)
    second = "masked" if selects else "changed"
    block: list[Stmt] = []
    for kind, a, b, c, d in codes:
        if kind != "equal":
            block.append(If(Local(second, "i1"), later[c:d], first[a:b], line=(later[c:d] or first[a:b])[0].line))
            continue
        pairs = list(zip(first[a:b], later[c:d], strict=True))
        if not all(same(*pair) for pair in pairs):
            return None
        block += (_joined(one, other, second) for one, other in pairs)
    return JoinedStates(tuple(block), second)


def joined_sides(stmt: If, same: Same) -> JoinedStates | None:
    """Of a branch whose other side is the same but for some statements of its own side, which come together behind the
    last of them: one of both. None where that is less than half of it, or would change what a statement reads."""
    first, later = stmt.otherwise, stmt.body
    codes = SequenceMatcher(None, list(map(_key, first)), list(map(_key, later)), autojunk=False).get_opcodes()
    own = [(c, d) for kind, _, _, c, d in codes if kind != "equal"]
    if not own or any(kind not in ("equal", "insert") for kind, *_ in codes) or 2 * len(first) < len(later):
        return None
    pairs = [(one, later[c + at]) for kind, a, b, c, _ in codes if kind == "equal" for at, one in enumerate(first[a:b])]
    if not all(one == replace(other, line=one.line) and same(one, other) for one, other in pairs):
        return None
    begin, end = own[0][0], own[-1][1]
    within = [(any(c <= at < d for c, d in own), one) for at, one in enumerate(later[begin:end], begin)]
    moved = [one for is_own, one in within if is_own]
    if not all(isinstance(one, Compute | Range) for one in moved) or not _may_follow(within):
        return None
    second = "masked" if any(isinstance(one, Compute) and one.kind == "select" for one in moved) else "changed"
    condition = If(Local(second, "i1"), tuple(moved), line=moved[0].line)
    common = [one for is_own, one in within if not is_own]
    return JoinedStates((*later[:begin], *common, condition, *later[end:]), second)


def _may_follow(within: Sequence[tuple[bool, Stmt]]) -> bool:
    """Whether those that are marked may stand behind the others."""
    read, written = set[int](), set[int]()
    for is_own, stmt in within:
        writes, reads = effects(stmt)
        if is_own:
            read |= reads
            written |= writes
        elif isinstance(stmt, If | Pipeline) or writes & (read | written) or reads & written:
            return False
    return True


def _key(stmt: Stmt) -> str:
    """What two statements have to share, as text: all but their lines and scalar operands."""
    plain: dict[str, Any] = {"line": 0}
    if isinstance(stmt, Compute):
        plain["operands"] = tuple(one if isinstance(one, Reg) else "a scalar" for one in stmt.operands)
    return repr(replace(stmt, **plain))


def _joined(first: Stmt, later: Stmt, second: str) -> Stmt:
    if not isinstance(first, Compute) or not isinstance(later, Compute):
        return first
    return replace(first, operands=tuple(_chosen(first, later, second)))


def _chosen(first: Compute, later: Compute, second: str) -> Iterator[Operand]:
    """Operands, of which scalars may depend on the state."""
    for one, other in zip(first.operands, later.operands, strict=True):
        if one == other or isinstance(one, Reg) or isinstance(other, Reg):
            yield one
            continue
        operands: tuple[Expr, ...] = (Local(second, "i1"), other, one)
        yield Apply("select", operands, one.element)
