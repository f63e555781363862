"""Tilings of a kernel under `twill.jit(kernel, free=[...])`: its emitted kernels with other values of free constants.

What a variant of the kernel is with other tiles follows from Triton's binder: the types of its arguments with the
blocks of descriptors replaced, its constants with those values. Triton's frontend makes the module of each tiling, in
the background; the library looks each up and has it prepared like any variant. When nothing more is to be expected of
any of them, they become a family (`twill.runtime.choices`), and launches of the variant go to its members. The same
for a family that `twill tune --out` wrote, whose members are all there.
"""

from __future__ import annotations

import hashlib
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from twill.exc import TwillError
from twill.manifest.evaluate import names
from twill.runtime.choices import Choice, Key, MemberChoices
from twill.runtime.chosen import Chosen, chosen_document, read_chosen
from twill.runtime.device import device as gpu
from twill.runtime.free import FreeConstants, blocks_of, module_of, near
from twill.runtime.library import Library, Shelf, told
from twill.runtime.member import FamilyMember, free_constants, numbers_of
from twill.runtime.reasons import NOTES
from twill.runtime.shipped import read_members
from twill.runtime.variant import Variant
from twill.runtime.variants import KnownVariant, Variants

ARTIFACT, SCHEMA = "choices", "twill.choices/2"
FULL = 0.9  # of the SMs busy, on an average over the waves of a launch: no split gains much
FEW = 4  # waves of tiles, from which on a split is not worth an emitted kernel of its own


@dataclass(frozen=True)
class Tiling:
    """constants: the free ones. split: whether K is to be in parts, if it can be."""

    constants: Mapping[str, int]
    split: bool = False

    @property
    def name(self) -> str:
        """For people."""
        text = " ".join(f"{name}={value}" for name, value in self.constants.items())
        return f"{text}, K in parts" if self.split else text


@dataclass
class TileFamily:
    """Of one variant. free: constants that differ between members. sized: numbers that say which one is the best;
    asked: that the grid asks for.
    choices: once every tiling is emitted or refused; None until then, and if none is emitted. knowns: what is known of
    each member, by its name. over: nothing more is to be expected. key: of what is kept of it."""

    free: frozenset[str] = frozenset()
    sized: frozenset[str] = frozenset()
    asked: frozenset[str] = frozenset()
    variant: Variant | None = None
    choices: MemberChoices | None = None
    knowns: dict[str, KnownVariant] = field(default_factory=dict)
    over: threading.Event = field(default_factory=threading.Event)
    key: str = ""

    def given(self, member: FamilyMember, bound: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments of a call, by name, as a member has them."""
        own = member.given(bound)
        return {name: own[name] if name in self.free or hasattr(value, "block_shape") else value
                for name, value in bound.items()}  # fmt: skip

    def known(self, member: FamilyMember, index: int) -> KnownVariant:
        """What is known of a member beside Triton's kernel with the program's own constants."""
        there = self.knowns.get(member.name)
        if there is None:
            name = hashlib.sha256(f"{self.key} {member.name} {member.kernel.manifest.cubin}".encode()).hexdigest()
            shelf = Shelf(name, "ready", member.kernel)
            made = KnownVariant(index, self.variant, told(shelf), member.kernel)
            there = self.knowns.setdefault(member.name, made)
        return there

    def choice(self, bound: Mapping[str, Any], grid: Callable[[Any], Sequence[int]], index: int) -> Choice:
        """Which member has launches of these sizes."""
        assert self.choices is not None
        members = self.choices.members
        values = numbers_of(members[0].kernel.manifest.arguments, (), bound)
        numbers = (item for item in values.items() if item[0] in self.sized or ".shape." in item[0])
        key: Key = (("grid", *grid(bound)), *numbers)  # which may be made of what is no argument
        there = self.choices.by_key.get(key)
        if there is not None:
            return there
        cycles = {}
        about = gpu(index)
        for member in members:
            cycles[member.name] = member.predicted(math.prod(grid(self.given(member, bound))), about.sms, values)
        return self.choices.begin(key, index, about.name, cycles)


class Tilings:
    """Of one kernel, all variants. Thread-safe. ready: called when a variant has a family; reason: told what goes wrong
    with one."""

    def __init__(
        self,
        variants: Variants,
        free: FreeConstants | None,
        directory: Path | None,
        ready: Callable[[TileFamily], None],
        reason: Callable[[str], None],
    ) -> None:
        self.variants, self.free, self.ready, self.reason = variants, free, ready, reason
        self.lock = threading.Lock()
        self.families: dict[Any, TileFamily] = {}
        self.shipped: tuple[FamilyMember, ...] = ()
        self.digest = ""
        if directory is not None:
            self.shipped, self.digest = read_members(directory)

    def of(self, name: Any, known: KnownVariant, bound: Mapping[str, Any], grid: Any) -> TileFamily | None:
        """The family of a variant, which may not be ready; None for none. The first call begins to make it."""
        there = self.families.get(name)
        if there is not None:
            return there
        if known.variant is None or not callable(grid):
            if not callable(grid):
                self.reason("tiles are free where the grid is a function of the constants: lambda META: (...)")
            return None
        asked = looked_at(grid, bound)
        family = TileFamily(sized=asked, asked=asked, variant=known.variant)
        with self.lock:
            made = self.families.setdefault(name, family)
        if made is not family:
            return made
        if self.shipped:
            key = hashlib.sha256(f"{self.digest} {known.variant.text()}".encode()).hexdigest()
            self.become(family, [one for one in self.shipped if fits(one, known.variant)], key)
        elif self.free is not None:
            constants = {one: bound[one] for one in dict(known.variant.constants)}
            wanted = self.wanted(known, bound, grid)
            about = Preparation(family, known, known.variant, constants, wanted, len(grid(bound)))
            self.variants.library.later(lambda: self.prepare(about))
        return made

    def wanted(self, known: KnownVariant, bound: Mapping[str, Any], grid: Any) -> list[Tiling]:
        """What is to be emitted for launches like this one: with K in parts, too, where tiles leave SMs idle."""
        assert self.free is not None
        sms = gpu(known.index).sms
        found = []
        for constants in near(self.free, bound):
            found.append(Tiling(constants))
            count = math.prod(grid({**bound, **constants}))
            if count < FULL * sms * math.ceil(count / sms) and count < FEW * sms:
                found.append(Tiling(constants, split=True))
        return found

    def prepare(self, about: Preparation) -> None:
        """On a thread of the library: look all tilings up, and have those prepared that nobody has emitted."""
        try:
            self.begin(about)
        except Exception as error:
            self.reason(f"its tiles are as written: {type(error).__name__}: {error}")
            about.family.over.set()

    def begin(self, about: Preparation) -> None:
        """The same. Errors: any."""
        assert self.free is not None
        original, library, variants = self.variants.original, self.variants.library, self.variants
        blocks = blocks_of(original, about.variant, about.constants, self.free)
        may_solve = variants.chosen.policy == "solve" or library.promising()
        shelves: list[PreparedTiling] = []
        for tiling in about.wanted:
            variant = self.free.retiled(about.variant, tiling.constants, blocks)
            more = (f"split {about.axis}",) if tiling.split else ()
            inquiry = library.now(variants.key_of(variant, about.known.index, more))
            if inquiry.shelf is not None:
                shelves.append(PreparedTiling(tiling, variant, inquiry.shelf))
            else:
                self.reason(f"{tiling.name}: {inquiry.failure}")
        waiting = Countdown(len(shelves), lambda: self.settle(about, shelves))
        for one in shelves:
            if one.shelf.state == "missing" and may_solve:
                self.ask(about, one)
            if one.shelf.state == "missing":
                waiting.one()
            else:
                one.shelf.listen(waiting.one)

    def ask(self, about: Preparation, one: PreparedTiling) -> None:
        """Have a tiling emitted by the helper."""
        original, library, variants = self.variants.original, self.variants.library, self.variants
        constants = {**about.constants, **one.tiling.constants}
        try:
            module = module_of(original, one.variant, constants)
        except Exception as error:  # Triton cannot have these tiles
            library.refuse(one.shelf, f"Triton refuses it: {error}".splitlines()[0])
            return
        known = KnownVariant(about.known.index, one.variant)
        parts = (2, about.axis) if one.tiling.split else (1, about.axis)
        library.prepare(one.shelf, variants.request(one.shelf, known, one.variant, module, *parts))

    def settle(self, about: Preparation, shelves: Sequence[PreparedTiling]) -> None:
        """Nothing more is to be expected of any tiling."""
        members: list[FamilyMember] = []
        for one in shelves:
            kernel = one.shelf.kernel
            if kernel is not None and one.variant.fits(kernel.manifest):
                if one.tiling.split and kernel.manifest.split is None:  # K cannot be in parts
                    continue
                members += FamilyMember.of(one.tiling.name, kernel, kernel.cost).in_parts()
            elif one.shelf.state == "refused":
                NOTES.report(f"{self.variants.original.__name__} with {one.tiling.name}: {one.shelf.reason}")
        self.become(about.family, members, "" if about.known.shelf is None else about.known.shelf.key)

    def become(self, family: TileFamily, members: Sequence[FamilyMember], key: str) -> None:
        """A variant has a family of these members."""
        if members:
            stored = StoredChoices(self.variants.library, key)
            own = () if family.variant is None else family.variant.constants
            family.key = key
            family.free = free_constants(members, own)
            family.sized |= {one for member in members for one in sizes_of(member)}
            family.choices = MemberChoices(members, stored.known, stored.keep)
            self.ready(family)
        family.over.set()


@dataclass(frozen=True)
class PreparedTiling:
    """A tiling as a variant of the kernel, and what the library has of it."""

    tiling: Tiling
    variant: Variant
    shelf: Shelf


@dataclass(frozen=True)
class Preparation:
    """A family that is being made. constants: of the call, as Triton has them; no tensors. axis: of the launch grid,
    the first that the kernel has not."""

    family: TileFamily
    known: KnownVariant
    variant: Variant
    constants: Mapping[str, Any]
    wanted: Sequence[Tiling]
    axis: int


class Countdown:
    """For so many, then `then` is called, once."""

    def __init__(self, count: int, then: Callable[[], None]) -> None:
        self.count, self.then = count, then
        self.lock = threading.Lock()
        if not count:
            then()

    def one(self) -> None:
        """One more is there."""
        with self.lock:
            self.count -= 1
            last = self.count == 0
        if last:
            self.then()


class StoredChoices:
    """What was found to be the fastest, in the store: by GPU and sizes. What was found on another kind of GPU is not
    used, which is said once."""

    def __init__(self, library: Library, key: str) -> None:
        self.library, self.key = library, key
        self.found = self.read()
        self.storing = threading.Lock()  # what one choice stores, the next one reads and adds to

    def read(self) -> Chosen:
        """By GPU and sizes: the name of a member."""
        try:
            store = self.library.file()
            return read_chosen(
                None if store is None or not self.key else store.get_artifact(self.key, ARTIFACT), SCHEMA
            )
        except TwillError as error:
            NOTES.report(error.message)
        except ValueError:
            NOTES.report("choices among tiles that are stored cannot be read: they are found out again")
        return {}

    def known(self, name: str, key: Key) -> str | None:
        """As `MemberChoices` asks."""
        if self.found and name not in self.found:
            others = ", ".join(sorted(self.found))
            NOTES.report(f"tiles were measured on {others}, and this is {name}: they are measured again")
        return self.found.get(name, {}).get(repr(key))

    def keep(self, name: str, choice: Choice) -> None:
        """As `MemberChoices` tells; stored by a thread of the library."""
        self.found.setdefault(name, {})[repr(choice.key)] = choice.ranked[0].name
        if not self.key:
            return

        self.library.later(self.store)

    def store(self) -> None:
        """Add what was found to what is stored; two threads of the library do so one after the other."""
        with self.storing:
            merged = self.read()
            for one, chosen in list(self.found.items()):
                merged.setdefault(one, {}).update(chosen)
            store = self.library.file()
            try:
                if store is not None:
                    store.put_artifact(self.key, ARTIFACT, chosen_document(merged, SCHEMA))
            except TwillError as error:
                NOTES.report(error.message)


def sizes_of(member: FamilyMember) -> tuple[str, ...]:
    """Arguments that say how long a member takes."""
    cost = member.cost
    return () if cost is None or cost.iterations is None else tuple(names(cost.iterations))


def looked_at(grid: Callable[[Any], Any], bound: Mapping[str, Any]) -> frozenset[str]:
    """Arguments that a grid is made of."""
    seen: set[str] = set()

    class Watched(dict[str, Any]):
        def __getitem__(self, name: str) -> Any:
            seen.add(name)
            return super().__getitem__(name)

    grid(Watched(bound))
    return frozenset(seen)


def fits(member: FamilyMember, variant: Variant) -> bool:
    """Whether a member can stand for a variant: the same arguments, whatever their blocks, and the same names of
    constants."""
    arguments = member.kernel.manifest.arguments
    types = {name: kind.partition("[")[0] for name, kind in variant.signature}
    own = {a.name: a.type.partition("[")[0] for a in arguments if a.kind != "constant"}
    return types == own and {a.name for a in arguments if a.kind == "constant"} == set(dict(variant.constants))
