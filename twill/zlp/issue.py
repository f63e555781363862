"""The issue bound: what warp groups must issue, one instruction after another, fits in I cycles."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain, combinations

from twill.graph.costed import CostedGraph, Instruction
from twill.machine.description import Machine
from twill.zlp.bound import NO_BOUND, LowerBound, ceil_div, spelled


@dataclass(frozen=True)
class IssueBundle:
    """Instructions that must share a warp group, and the contexts that can hold them all."""

    members: tuple[Instruction, ...]
    contexts: frozenset[str]

    @property
    def hold(self) -> int:
        """Cycles that they hold their warp group, together."""
        return sum(member.hold for member in self.members)

    @property
    def variable(self) -> bool:
        """Whether their warp group holds variable-latency instructions only."""
        return any(member.variable_latency for member in self.members)


def issue_bound(graph: CostedGraph, machine: Machine) -> LowerBound:
    """The best packing bound over the sets of contexts.

    Proof. For a set S of contexts, instructions whose contexts all lie in S are issued by at most
    m = Σ max_groups(S) warp groups, and in each group their holds are disjoint modulo I, so the
    holds of one group sum to at most I. Some group has at least the average, and of the k·m + 1
    longest some group has k + 1, so I is at least their smallest k + 1; groups with
    variable-latency instructions have no others, so the better bound holds for every split of m.
    """
    items = together(graph)
    groups = {context.name: context.max_groups for context in machine.contexts}
    names = sorted(set(chain.from_iterable(item.contexts for item in items)) & set(groups))
    best = NO_BOUND
    for count in range(1, len(names) + 1):
        for chosen in combinations(names, count):
            bound = packing(items, frozenset(chosen), sum(groups[name] for name in chosen))
            best = max(best, bound, key=lambda b: b.value)
    return best


def together(graph: CostedGraph) -> tuple[IssueBundle, ...]:
    """One item for each single-issuer tag, and one for each instruction without a tag."""
    tagged: dict[str, list[Instruction]] = {}
    alone: list[list[Instruction]] = []
    for instruction in graph.instructions:
        if instruction.single_issuer:
            tagged.setdefault(instruction.single_issuer, []).append(instruction)
        else:
            alone.append([instruction])
    return tuple(
        IssueBundle(tuple(members), frozenset.intersection(*(frozenset(member.contexts) for member in members)))
        for members in (*tagged.values(), *alone)
    )


def packing(items: Iterable[IssueBundle], contexts: frozenset[str], groups: int) -> LowerBound:
    """The bound for the items that only `contexts` can hold, in `groups` warp groups."""
    inside = [item for item in items if item.contexts <= contexts]
    variable = [item for item in inside if item.variable]
    steady = [item for item in inside if not item.variable]
    if not variable or not steady or groups < 2:
        return packed(inside, groups, contexts)
    splits = (
        max(packed(variable, n, contexts), packed(steady, groups - n, contexts), key=lambda b: b.value)
        for n in range(1, groups)
    )
    return min(splits, key=lambda b: b.value)


def packed(items: list[IssueBundle], groups: int, contexts: frozenset[str]) -> LowerBound:
    """I that any placing of the items in `groups` warp groups needs: the average, or k + 1 of k·groups + 1."""
    if not items or groups < 1:
        return NO_BOUND
    order = sorted(items, key=lambda item: -item.hold)
    total = sum(item.hold for item in order)
    value, among = ceil_div(total, groups), order
    for k in range((len(order) - 1) // groups + 1):
        longest = order[: k * groups + 1]
        least = sum(item.hold for item in longest[-(k + 1) :])
        if least > value:
            value, among = least, longest
    where = f"{groups} warp group{'s' if groups > 1 else ''} of context {' or '.join(sorted(contexts))}"
    words = spelled((member, member.hold) for item in among for member in item.members)
    return LowerBound(value, f"at most {where} can issue these, and one of them is held {value} cycles: {words}")
