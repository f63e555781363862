"""Dispatch of a kernel whose tiles are free: variants with a family launch its members (`twill.runtime.tilings`)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from triton.runtime.driver import driver

from twill.exc import TwillError
from twill.runtime.comparison import TritonTurn
from twill.runtime.current import capturing, device_of
from twill.runtime.dispatch import CAPTURING, BoundCall, Dispatch, refusal
from twill.runtime.free import FreeConstants
from twill.runtime.hooks import AfterLaunch, hooked
from twill.runtime.hot import Hot
from twill.runtime.member import FamilyMember
from twill.runtime.member_launch import MemberCall, MemberLaunch
from twill.runtime.plans import Call, PreparedLaunch
from twill.runtime.policy import JitSettings
from twill.runtime.tilings import TileFamily, Tilings
from twill.runtime.unusual import unusual
from twill.runtime.variants import WHOLE


class TiledDispatch(Dispatch):
    """As `Dispatch`. free: constants whose values are free; directory: a family that is shipped. has_chosen: which
    constants an autotuner around the kernel has chosen, whose variants alone have families; None without one."""

    def __init__(self, original: Any, chosen: JitSettings, free: FreeConstants | None, directory: Path | None) -> None:
        super().__init__(original, chosen)
        self.tilings: Tilings | None = None
        self.has_chosen: Callable[[Mapping[str, Any]], bool] | None = None
        if self.variants is None:
            return
        try:
            self.tilings = Tilings(self.variants, free, directory, self.ready, self.reasons.report)
        except TwillError as error:
            self.reasons.report(f"{type(error).__name__}: {error.message}")

    def look_into(self, hot: Hot | None, call: object, grid: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """As `Dispatch.look_into`, if no member has the launch."""
        no_member = self.tilings is None or self.bench.running or hooked() or self.original.pre_run_hooks
        asked = None if no_member else self.ask(args, kwargs)
        if asked is not None and not unusual(self.original, asked.options):
            family = self.family_of(asked, grid)
            if family is not None and family.choices is not None:
                launched = self.of_family(family, hot, call, grid, asked, args, kwargs)
                if launched is not NotImplemented:
                    return launched
        return super().look_into(hot, call, grid, args, kwargs)

    def family_of(self, asked: BoundCall, grid: Any) -> TileFamily | None:
        """That of a call's variant; it is begun, if there is none."""
        assert self.tilings is not None and self.variants is not None
        family = self.tilings.families.get(asked.name)
        if family is None and (self.has_chosen is None or self.has_chosen(asked.bound)):
            known = self.variants.of(asked.name, asked.index, asked.bound, asked.specialization)
            family = self.tilings.of(asked.name, known, asked.bound, grid)
        if family is not None and self.chosen.policy == "require":
            family.over.wait(WHOLE)
        return family if callable(grid) else None

    def chosen_anew(self) -> None:
        """Have launches of the configuration looked into, as far as they were recognized."""
        self.stays.clear()
        with self.lock:
            self.match(self.used)

    def ready(self, family: TileFamily) -> None:
        """Have launches of its variant looked into again, and those of its members recognized."""
        assert family.choices is not None
        self.stays.clear()
        first = {one.kernel.manifest.cubin: one.kernel for one in family.choices.members}
        with self.lock:
            self.sized |= family.sized
            self.match([*self.used, *first.values()])
        self.reasons.tell(f"{len(family.choices.members)} variants in {len(first)} kernels have its launches", "")

    def of_family(
        self, family: TileFamily, hot: Hot | None, call: object, grid: Any, asked: BoundCall, args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> Any:  # fmt: skip
        """Launch a member; what the launch gives back, or NotImplemented if no member takes it."""
        try:
            stream = driver.active.get_current_stream(device_of(asked.bound))
            turn = MemberCall(family, asked.bound, grid, asked.index, stream)
            reason: str | TritonTurn = ""
            while True:
                choice = turn.choice()
                if not choice.ranked[0].kernel.loaded and capturing():
                    reason = CAPTURING
                    break
                if not choice.decided:
                    turn.take_turns(choice)
                    return None
                member = choice.ranked[0]
                reason = self.member(turn, member, hot, call, args, kwargs)
                if not isinstance(reason, str) or not reason or not turn.leave_out(choice, member, reason):
                    break
        except AfterLaunch as after:
            raise after.__cause__ or after from None
        except Exception as error:  # before the launch; if it was a grid, Triton meets it again
            reason = refusal(error)
        if isinstance(reason, TritonTurn):
            return reason.run(lambda: self.as_triton.run(grid, args, kwargs))
        if reason:
            self.reasons.report(reason)
        return NotImplemented if reason else None

    def member(
        self, turn: MemberCall, member: FamilyMember, hot: Hot | None, call: object, args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> str | TritonTurn:  # fmt: skip
        """The launch of a member, which calls like this one have from now on; why not."""
        family = turn.family
        given = family.given(member, turn.bound)
        constants = {name: given[name] for name in family.free}

        def remembered(prepared: PreparedLaunch, sizes: tuple[int, ...]) -> PreparedLaunch:
            if not isinstance(call, Call):
                return prepared
            return MemberLaunch(prepared, call, sizes, list(given), constants, family.asked)

        known = family.known(member, turn.index)
        return self.emitted(known, member.kernel, hot, call, turn.grid, given, args, kwargs, remembered)

    def account(self) -> str:
        """As `Dispatch.account`, with the member of each size."""
        families = [] if self.tilings is None else list(self.tilings.families.values())
        lines = []
        for family in families:
            for choice in [] if family.choices is None else list(family.choices.by_key.values()):
                sizes = ", ".join(f"{name}={'x'.join(map(str, size))}" for name, *size in choice.key)
                compared = family.known(choice.ranked[0], choice.device).comparisons
                beside = "; ".join(one.text() for one in compared.values())
                lines.append(f"{self.original.__name__}, tiles at {sizes}: {choice.text()}{beside and '; '}{beside}")
        return "\n".join([super().account(), *lines])
