"""Promises of forked processes: nothing waits there for a thread that only the parent has."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.jit_kernels import World, emitted
from tests.manifests import CODE, KERNEL
from twill.exc import KernelNotReady
from twill.runtime import library
from twill.runtime.artifact import NAME, artifact
from twill.runtime.helper import Helper
from twill.runtime.library import Library
from twill.runtime.policy import JitSettings
from twill.runtime.request import Prepared, PrepareRequest
from twill.store.sqlite import SqliteStore

SECONDS = 60  # after which a child that waits for ever is ended
REQUEST = PrepareRequest("k1", "gemm", "gemm.py", (), (), (), (), "module", "h200", True, 1.0, "off", "")

pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def forked(what: Callable[[], object]) -> str:
    """What it gives in a forked process, as text; "" if the child did not come to its end."""
    ours, theirs = os.pipe()
    child = os.fork()
    if not child:
        signal.alarm(SECONDS)
        try:
            text = repr(what())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(theirs, text.encode())
        os._exit(0)
    os.close(theirs)
    with os.fdopen(ours, encoding="utf-8") as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def test_a_look_up_ends_also_where_the_parent_s_thread_is_at_work(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "s")
    store.put_artifact("k1", NAME, artifact("k1", KERNEL.text(), CODE))
    store.close()
    one, begun, go = Library(str(tmp_path / "s"), "", Helper()), threading.Event(), threading.Event()
    assert one.find(lambda: "k1", SECONDS).over.is_set()

    def slow() -> str:
        begun.set()
        go.wait(SECONDS)
        return "k2"

    one.inquire(slow)
    assert begun.wait(SECONDS)

    def look() -> object:
        found = [one.find(lambda key=key: key, SECONDS) for key in ("k1", "k2", "k3")]  # type: ignore[misc]
        return [inquiry.shelf.state if inquiry.shelf else inquiry.failure for inquiry in found]

    with one.lock, one.opening:  # whoever held them is not there to let go of them
        said = forked(look)
    go.set()
    assert said == "['ready', 'missing', 'missing']"


def test_a_launch_that_has_to_be_emitted_is_prepared_and_never_hangs(world: World) -> None:
    world.answer = emitted
    fast = world.jit(policy="require", server="http://s")
    world.call(fast)
    assert len(world.cuda.launches) == 1
    dispatch = fast.twill_dispatch

    def child() -> object:
        forget(fast)
        return world.call(fast), len(world.cuda.launches)

    with dispatch.variants.lock, dispatch.reasons.lock, dispatch.lock:
        said = forked(child)
    assert said == "(None, 2)"


def forget(fast: Any) -> None:
    """Let every variant be new again."""
    fast.twill_dispatch.variants.known.clear()
    fast.twill_dispatch.variants.library.shelves.clear()
    fast.twill_dispatch.hot = None


def test_the_child_has_a_helper_of_its_own_and_leaves_the_parent_s_alone() -> None:
    code = "import sys, json\nfor line in sys.stdin:\n    REST['key'] = json.loads(line)['key']\n"
    code += "    print(json.dumps(REST), flush=True)\n"
    rest = "REST = {'state': 'missing', 'reason': 'r', 'notes': [], 'artifact': ''}\n"
    helper = Helper((sys.executable, "-c", rest + code))
    first = answered(helper)
    (worker,) = helper.workers
    process = worker.process
    assert process is not None

    def ask() -> object:
        answer = answered(helper)
        (mine,) = helper.workers
        assert mine.process is not None and mine.process.pid != process.pid
        helper.end()
        return answer

    assert forked(ask) == repr(first)
    assert process.poll() is None and answered(helper) == first and worker.process is process
    helper.end()


def answered(helper: Helper) -> object:
    """What the helper says of the request."""
    done, said = threading.Event(), []
    helper.ask(REQUEST, lambda answer: (said.append(answer), done.set())[0])  # type: ignore[func-returns-value]
    assert done.wait(SECONDS)
    return said[0]


def test_what_the_parent_s_helper_prepares_is_asked_for_again(world: World) -> None:
    fast = world.jit(policy="lookup", server="http://s")
    world.call(fast)  # the helper does not answer yet
    (known,) = fast.twill_dispatch.variants.known.values()
    while known.shelf is None or known.shelf.state != "preparing":
        threading.Event().wait(0.01)

    def child() -> object:
        world.answer = emitted
        world.call(fast)
        (mine,) = fast.twill_dispatch.variants.known.values()
        assert mine.inquiry.over.wait(SECONDS) and mine.shelf.settled.wait(SECONDS)
        return world.call(fast), len(world.cuda.launches)

    assert forked(child) == "(None, 1)"


def test_a_kernel_that_is_not_there_is_an_error_in_the_child(world: World) -> None:
    world.answer = lambda request: Prepared(request.key, "missing", "nobody has one")
    fast = world.jit(policy="require", server="http://s")
    with pytest.raises(KernelNotReady):
        world.call(fast)

    def child() -> object:
        forget(fast)
        return world.call(fast)

    assert forked(child).startswith("KernelNotReady: ")


def test_a_child_that_was_forked_while_another_thread_asked_for_the_library_gets_one(tmp_path: Path) -> None:
    settings = JitSettings(store=str(tmp_path / "s"))
    parents = library.library(settings)

    def ask() -> object:
        return library.library(settings).process == os.getpid()

    with library._lock:  # whoever held it is not there to let go of it
        assert forked(ask) == "True"
    assert library.library(settings) is parents
