"""One way to run a kernel: tiles, row blocks, a schedule; and how the kernel is read with other tiles."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twill import exc
from twill.codegen.extraction import Extracted, extract
from twill.kernel.problem import Case
from twill.kernel.sidecar import table_of
from twill.kernel.specialization import Specialization, problem_of
from twill.kernel.tuning_space import Space
from twill.schedule.document import Schedule


@dataclass(frozen=True)
class Tiles:
    """Constants other than the specialization's, and the types that go with them. As flags they give the same kernel to
    every command."""

    constants: Mapping[str, int]
    types: Mapping[str, str]

    @property
    def const(self) -> tuple[str, ...]:
        """Flags --const."""
        return tuple(f"{name}={value}" for name, value in self.constants.items())

    @property
    def sig(self) -> tuple[str, ...]:
        """Flags --sig."""
        return tuple(f"{name}={kind}" for name, kind in self.types.items())

    def text(self) -> str:
        """BLOCK_M=128 BLOCK_N=256."""
        return " ".join(self.const) or "as specialized"


@dataclass(frozen=True)
class Candidate:
    """number: of the schedule among the equally good ones of its tiles and row blocks, from 1. predicted: cycles at
    each size asked for. default: what is emitted if nothing else is asked for. cluster: CTAs that load tiles together;
    nothing is predicted of it."""

    tiles: Tiles
    kernel: Extracted = field(compare=False, repr=False)
    schedule: Schedule = field(repr=False)
    number: int
    predicted: tuple[float, ...]
    default: bool = False
    cluster: int = 1

    @property
    def split(self) -> int:
        """Parts of K."""
        split = self.kernel.program.split
        return 1 if split is None else split.parts

    @property
    def name(self) -> str:
        """BLOCK_M=128 BLOCK_N=256, 2 row blocks, schedule 1."""
        blocks = self.schedule.cooperation.blocks
        together = f", clusters of {self.cluster}" if self.cluster > 1 else ""
        together += f", K in {self.split} parts" if self.split > 1 else ""
        return f"{self.tiles.text()}, {blocks} row block{'s' if blocks > 1 else ''}, schedule {self.number}{together}"


def with_values(space: Space | None, given: Mapping[str, tuple[int, ...]]) -> Space:
    """The space of a sidecar with the values of --tile in place of its own."""
    if space is None:
        return Space(dict(given), {})
    return Space({**space.tiles, **given}, space.blocks, space.file, space.line)


def all_tiles(specialization: Specialization, space: Space) -> Iterator[Tiles]:
    """The specialization's own tiles, then every other point of the space."""
    yield Tiles({}, {})
    known = {name: value for name, value in specialization.constexprs if isinstance(value, int | float)}
    missing = [name for name in space.tiles if name not in known]
    if missing:
        raise exc.MalformedFlag(
            f"--tile {missing[0]}: no constexpr of {specialization.kernel}", hint=f"one of {', '.join(known)}"
        )
    types = hinted(specialization)
    for point in space.points():
        if any(known[name] != value for name, value in point.items()):
            yield Tiles(point, space.signature(types, {**known, **point}))


def hinted(specialization: Specialization) -> dict[str, str]:
    """Types of arguments with what was promised, as a sidecar spells them."""
    promised = dict(specialization.divisibility)
    return {name: kind + (":16" if name in promised else "") for name, kind in specialization.signature}


def read(
    target: str,
    spec: str | None,
    tiles: Tiles,
    sig: Iterable[str] = (),
    const: Iterable[str] = (),
    strict: bool = False,
    split: int | None = None,
) -> Extracted:
    """The kernel with these tiles, K in so many parts (None: as specialized). Errors: those of `extract`."""
    words = (*sig, *tiles.sig), (*const, *tiles.const)
    return extract(target, spec=spec, sig=words[0], const=words[1], strict=strict, split=split)


def space_of(specialization: Specialization) -> Space | None:
    """What its sidecar says can be tried."""
    table = table_of(specialization.file, specialization.kernel, specialization.spec)
    return table.space if table else None


def cases(specialization: Specialization, sizes: Iterable[Mapping[str, int]]) -> list[Case]:
    """The launches at these sizes, else at those to be measured. Errors: NoSizes; MalformedSidecar for a size that
    these tiles cannot have."""
    problem = problem_of(specialization)
    asked = list(sizes) or (list(problem.bench) if problem else [])
    if problem is None or not asked:
        raise exc.NoSizes(specialization.kernel, specialization.spec, file=specialization.file)
    return [problem.case(one) for one in asked]
