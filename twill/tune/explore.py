"""All candidates with what is predicted of them, the most promising first."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twill import exc
from twill.codegen.emission import Extracted
from twill.codegen.lower.multicast import CTAS
from twill.graph.cooperation import cooperations
from twill.kernel.problem import Case
from twill.machine.description import Machine
from twill.schedule.document import Schedule
from twill.schedule.options import SolveOptions
from twill.solve.pipeline import best_known, main_region, solve_top
from twill.tune.candidate import Candidate, Tiles, all_tiles, cases, read, space_of, with_values
from twill.tune.split import best_parts, fills, launch_cycles


@dataclass(frozen=True)
class ExploreRequest:
    """What is explored. values: of constexprs, over those of the sidecar. sizes: to tune for (none: the sidecar's).
    top: equally good schedules of each choice of tiles and row blocks. options: of each solve. strict: as for
    `twill.kernel.specialization.resolve`."""

    target: str
    spec: str | None = None
    sig: tuple[str, ...] = ()
    const: tuple[str, ...] = ()
    values: Mapping[str, tuple[int, ...]] | None = None
    sizes: tuple[Mapping[str, int], ...] = ()
    top: int = 1
    options: SolveOptions = SolveOptions(budget=60.0, fuse=False)
    strict: bool = False


@dataclass(frozen=True)
class RefusedTiles:
    """Tiles (and row blocks) that come to nothing, and why."""

    name: str
    why: str


@dataclass(frozen=True)
class Explored:
    """candidates: the default first, then the most promising."""

    candidates: tuple[Candidate, ...]
    refused: tuple[RefusedTiles, ...]
    sizes: tuple[Mapping[str, int], ...]


def explore(asked: ExploreRequest, machine: Machine, notify: Callable[[str], None] = lambda text: None) -> Explored:
    """Solves everything. Errors of the default tiles are raised, those of others are recorded."""
    own = read(asked.target, asked.spec, Tiles({}, {}), asked.sig, asked.const, asked.strict)
    space = with_values(space_of(own.specialization), asked.values or {})
    sizes = [dict(case.sizes) for case in cases(own.specialization, asked.sizes)]
    candidates: list[Candidate] = []
    refused: list[RefusedTiles] = []
    for tiles in all_tiles(own.specialization, space):
        notify(f"solving {tiles.text()}")
        try:
            kernel = own
            if tiles.constants:
                kernel = read(asked.target, asked.spec, tiles, asked.sig, asked.const, asked.strict)
            launches = cases(kernel.specialization, sizes)
        except exc.TwillError as error:
            if kernel_is_own(tiles):
                raise
            refused.append(RefusedTiles(tiles.text(), error.message))
            continue
        for found in _solved(kernel, tiles, machine, asked, launches):
            (candidates if isinstance(found, Candidate) else refused).append(found)  # type: ignore[arg-type]
    if not candidates or not candidates[0].default:
        raise exc.Infeasible(
            f"the default tiles of {own.graph.kernel} have no schedule: {refused[0].why}", file=own.graph.file
        )
    ranked = sorted(candidates[1:], key=lambda one: (score(one, candidates[0]), one.name))
    best = ranked[0] if ranked else candidates[0]
    in_clusters = replace(best, cluster=CTAS, default=False)  # only a measurement knows what they are worth
    split: list[Candidate] = []
    for one in {each.tiles.text(): each for each in reversed((candidates[0], *ranked))}.values():
        parted = in_parts_of(one, asked, machine, sizes)
        if isinstance(parted, RefusedTiles):
            refused.append(parted)
        elif parted is not None:
            split.append(parted)
    ranked = sorted((*ranked, *split), key=lambda one: (score(one, candidates[0]), one.name))
    return Explored((candidates[0], *ranked[:1], in_clusters, *ranked[1:]), tuple(refused), tuple(sizes))


def in_parts_of(
    one: Candidate, asked: ExploreRequest, machine: Machine, sizes: Sequence[Mapping[str, int]]
) -> Candidate | RefusedTiles | None:
    """The candidate with K in parts, where its tiles leave SMs idle and prediction says that parts gain."""
    if one.split > 1 or all(fills(case, machine) for case in cases(one.kernel.specialization, sizes)):
        return None
    try:
        kernel = read(asked.target, asked.spec, one.tiles, asked.sig, asked.const, asked.strict, split=2)
        blocks = one.schedule.cooperation.blocks
        (schedule, *_) = _schedules(kernel, machine, asked.options.model_copy(update={"blocks": blocks}), 1)
    except exc.CannotSplit:
        return None
    except exc.TwillError as error:
        return RefusedTiles(f"{one.tiles.text()}, K in parts", error.message)
    parts, predicted = best_parts(kernel, schedule, machine, cases(kernel.specialization, sizes))
    if parts == 1:
        return None
    kernel = read(asked.target, asked.spec, one.tiles, asked.sig, asked.const, asked.strict, split=parts)
    return Candidate(one.tiles, kernel, schedule, 1, predicted)


def kernel_is_own(tiles: Tiles) -> bool:
    """Whether these are the specialization's own tiles."""
    return not tiles.constants


def score(candidate: Candidate, default: Candidate) -> float:
    """Predicted time over that of the default: geometric mean over the sizes."""
    ratios = (mine / theirs for mine, theirs in zip(candidate.predicted, default.predicted, strict=True) if theirs)
    logs = [math.log(ratio) for ratio in ratios if ratio > 0]
    return math.exp(sum(logs) / len(logs)) if logs else 1.0


def _solved(
    kernel: Extracted, tiles: Tiles, machine: Machine, asked: ExploreRequest, launches: Sequence[Case]
) -> Iterator[Candidate | RefusedTiles]:
    """What the solver prefers first, then the same tiles in other numbers of row blocks."""
    seen: set[str] = set()
    preferred = 0
    for blocks in (asked.options.blocks, *_other_blocks(kernel, machine, asked.options)):
        if blocks and blocks == preferred:
            continue
        name = tiles.text() + (f", {blocks} row blocks" if blocks else "")
        try:
            schedules = _schedules(kernel, machine, asked.options.model_copy(update={"blocks": blocks}), asked.top)
        except exc.TwillError as error:
            yield RefusedTiles(name, error.message)
            continue
        for number, schedule in enumerate(schedules, 1):
            preferred = preferred or schedule.cooperation.blocks
            same = repr((schedule.cooperation, schedule.ii, schedule.ops, schedule.warp_groups, schedule.buffers))
            if same in seen:
                continue
            default = kernel_is_own(tiles) and not seen
            seen.add(same)
            predicted = tuple(launch_cycles(kernel, schedule, machine, case) for case in launches)
            yield Candidate(tiles, kernel, schedule, number, predicted, default)


def _other_blocks(kernel: Extracted, machine: Machine, options: SolveOptions) -> list[int]:
    """Numbers of row blocks without fused instances, if none was asked for."""
    if options.blocks:
        return []
    found = cooperations(kernel.graph, main_region(kernel.graph), machine)
    return sorted({one.blocks for one in found if one.fuse == 1})


def _schedules(kernel: Extracted, machine: Machine, options: SolveOptions, top: int) -> tuple[Schedule, ...]:
    """Equally good ones; the best of a budget that ran out."""
    try:
        return solve_top(kernel.graph, machine, top, options).schedules
    except exc.BudgetExhausted as ended:
        return (best_known(ended),)
