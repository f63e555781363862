"""A kernel under `twill.jit` behind a broken service, launched all the while: what is wrong, and what it costs."""

from __future__ import annotations

import json
import logging
import tempfile
import time
from collections.abc import Callable, Iterator

import twill
from tests.gpu import jit_calls
from tests.gpu.jit_services import played
from tests.gpu.jit_watch import Watched, like_triton, settled

BUDGET = 0.05  # seconds that a launch may wait, as by default
MEASURED = "measured "  # begins the line of figures, in JSON
PATIENCE = 45.0


def broken(kind: str) -> Callable[[str], Iterator[str]]:
    """The scenario of that kind of service, with an empty store."""

    def scenario(store: str) -> Iterator[str]:
        records: list[str] = []
        handler = logging.Handler()
        handler.emit = lambda record: records.append(record.getMessage())  # type: ignore[method-assign]
        logging.getLogger("twill.jit").addHandler(handler)
        with tempfile.TemporaryDirectory() as place, played(kind, store) as address:
            watched = Watched("gemm", store=f"{place}/new", server=address)
            call = jit_calls.gemm()
            call.launch(jit_calls.kernel("gemm"))  # what Triton does at the first launch of all is no cost of twill.jit
            first = beside_triton(watched, call)
            yield "" if first < BUDGET else f"the first launch took {1000 * first:.0f} ms beside Triton's"
            later, last, end = [0.0], -1, time.monotonic() + PATIENCE
            while time.monotonic() < end and not settled(watched):
                if last != len(records):
                    last = len(records)
                    yield like_triton(call, lambda: call.launch(watched.fast))
                later.append(beside_triton(watched, call))
                time.sleep(0.01)
            yield "" if settled(watched) else "it never came to an end"
            yield like_triton(call, lambda: call.launch(watched.fast))
            yield "" if max(later) < BUDGET else f"a later launch took {1000 * max(later):.0f} ms beside Triton's"
            yield "" if watched.fast.twill_dispatch.used == [] else "a kernel came of it"
            yield "" if len(set(records)) == len(records) >= 1 else f"logged {records}"
            figures = {"kind": kind, "first": 1000 * first, "later": 1000 * max(later), "launches": len(later),
                       "logged": records, "explained": twill.explain_fallback(watched.fast)}  # fmt: skip
            print(MEASURED + json.dumps(figures), flush=True)

    return scenario


def beside_triton(watched: Watched, call: jit_calls.Call) -> float:
    """Seconds of one launch, without those of Triton's own."""
    watched.spent = 0.0
    begun = time.perf_counter()
    call.launch(watched.fast)
    return time.perf_counter() - begun - watched.spent
