"""SentryWard, a static verifier by others, agrees with the executor about a GEMM and a tile scheduler in Gluon."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests import sentry
from tests.codegen.verify.ptx import test_strangers_blackwell as strangers
from tests.codegen.verify.ptx import test_strangers_clusters as clusters
from tests.codegen.verify.ptx.test_strangers_blackwell import Bits, Change, replaced
from twill.codegen.verify.ptx.run import PtxLaunch, Result
from twill.ptx.program import PtxModule

pytestmark = pytest.mark.usefixtures("quiet")
quiet = strangers.quiet


class Asked(Exception):
    """What the executor would have run."""

    def __init__(self, entry: str, launch: PtxLaunch) -> None:
        super().__init__(entry)
        self.entry, self.launch = entry, launch


def verdict(
    runs: Callable[[Change], Result | tuple[Result, Bits]], change: Change, monkeypatch: pytest.MonkeyPatch
) -> str:
    """Of the launch that the executor would get."""
    texts: list[str] = []

    def asked(module: PtxModule, entry: str, launch: PtxLaunch) -> Result:
        raise Asked(entry, launch)

    def seen(text: str) -> str:
        texts.append(change(text))
        return texts[0]

    for room in (strangers, clusters):
        monkeypatch.setattr(room, "execute", asked)
    with pytest.raises(Asked) as caught:
        runs(seen)
    return str(sentry.checked(texts[0], caught.value.entry, caught.value.launch)["result"])


def test_gluons_gemm_is_race_free(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its ring comes round twice."""
    runs: Callable[[Change], tuple[Result, Bits]] = lambda change: strangers.gluon_gemm(1, 128, 256, 128, change)  # noqa: E731
    assert verdict(runs, sentry.by_one_thread, monkeypatch) == "race_free"


@pytest.mark.parametrize(("size", "wanted"), [(16, "race_free"), (32, "not_wellsynced")])
def test_a_request_for_a_tile_is_race_free_and_waits_for_as_many_bytes_as_come(
    size: int, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    change = replaced(r"(expect_tx[^;]*), 16(;)", rf"\1, {size} \2")
    assert verdict(lambda one: clusters.places(1, (), one), change, monkeypatch) == wanted
