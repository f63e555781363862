"""The emitted kernels of this process: in memory by key, behind it the store's file, behind that a helper that emits.

A launch asks once for each variant of a kernel, and waits at most its budget. What takes longer comes later, and is
used from then on. Nothing that goes wrong here is an error of a launch.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from queue import SimpleQueue
from typing import Literal

from twill.exc import TwillError
from twill.runtime.artifact import NAME, RefusedVariant, from_text, read_artifact
from twill.runtime.forks import renew_after_fork
from twill.runtime.helper import Helper
from twill.runtime.kernel import EmittedKernel
from twill.runtime.policy import JitSettings
from twill.runtime.reasons import NOTES
from twill.runtime.request import Prepared, PrepareRequest
from twill.runtime.variant import Unsupported, compiler
from twill.runtime.verdict import SizeClass, Verdict, read_verdict
from twill.store.sqlite import SqliteStore

THREADS = 4  # so that a slow look-up does not hold the others
WAIT = 1.0  # seconds for another process that writes the store

State = Literal["missing", "preparing", "ready", "refused"]
"""missing: the store has no kernel, and the helper was not asked yet; refused: Triton's kernel it is."""


@dataclass
class Shelf:
    """What is known of one key. Fields are written under the library's lock; reading them needs none.

    reason: why it is not ready. settled: set when nothing more is to be expected. asks: whether the helper asked for
    what a launch is made with.
    """

    key: str
    state: State = "missing"
    kernel: EmittedKernel | None = None
    reason: str = "no emitted kernel is stored"
    settled: threading.Event = field(default_factory=threading.Event)
    asks: bool = False
    listeners: list[Callable[[], object]] = field(default_factory=list)

    def listen(self, tell: Callable[[], object]) -> None:
        """Tell when nothing more is to be expected, or a launch is asked for; at once, if the former is so already."""
        self.listeners.append(tell)
        if self.settled.is_set():
            tell()

    def settle(self) -> None:
        """Nothing more is to be expected."""
        self.settled.set()
        self.wake()

    def wake(self) -> None:
        """Whoever listens is told."""
        for tell in list(self.listeners):
            tell()


@dataclass
class Inquiry:
    """A look-up that somebody waits for, or has stopped to wait for. over: set when `shelf` or `failure` is there."""

    shelf: Shelf | None = None
    failure: str = ""
    over: threading.Event = field(default_factory=threading.Event)


def told(shelf: Shelf) -> Inquiry:
    """As if a shelf had just been looked up."""
    inquiry = Inquiry(shelf)
    inquiry.over.set()
    return inquiry


class Library:
    """Kernels behind one store and service. Thread-safe.

    store: the file (None: none). server: a service's address, "" for none.
    """

    def __init__(self, path: str | None, server: str, helper: Helper | None = None) -> None:
        self.path = path
        self.server = server
        self.helper = helper or Helper()
        self.process = os.getpid()
        self.shelves: dict[str, Shelf] = {}
        self.lock = threading.Lock()
        self.opening = threading.Lock()
        self.tasks: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self.threads: list[threading.Thread] = []
        self.open_tasks = 0
        self.store: SqliteStore | None = None
        self.opened = False
        self.warmed = False
        renew_after_fork(self)

    def after_fork(self) -> None:
        """See `Renewed`: no thread is here, and what the parent's have not finished is to be looked up again."""
        self.process = os.getpid()
        self.lock, self.opening = threading.Lock(), threading.Lock()
        self.tasks, self.threads, self.open_tasks = SimpleQueue(), [], 0
        if self.store is not None:
            _strangers.append(self.store)  # of the parent; to close it here would be an access to its file
        self.store, self.opened, self.warmed = None, False, False
        finished = {name: shelf for name, shelf in self.shelves.items() if shelf.settled.is_set()}
        self.shelves.clear()
        self.shelves.update(finished)

    def find(self, key: Callable[[], str], budget: float) -> Inquiry:
        """Look a key up, and wait for what is known of it at most `budget` seconds.

        key: computed on a thread of the library, because what goes into it may have to be read first.
        """
        inquiry = self.inquire(key)
        inquiry.over.wait(budget)
        return inquiry

    def inquire(self, key: Callable[[], str]) -> Inquiry:
        """The same without waiting."""
        inquiry = Inquiry()
        self.later(lambda: self.look(inquiry, key))
        return inquiry

    def now(self, key: str) -> Inquiry:
        """Look a key up on this thread."""
        inquiry = Inquiry()
        self.look(inquiry, lambda: key)
        return inquiry

    def warm(self, triton: str) -> None:
        """Do beforehand what every look-up needs."""

        def task() -> None:
            compiler(triton)
            self.file()

        if not self.warmed:
            self.warmed = True
            self.later(task)

    def later(self, task: Callable[[], None]) -> None:
        """Do something on a thread of the library: one that has nothing to do, or else another, up to `THREADS`."""
        with self.lock:
            self.open_tasks += 1
            if len(self.threads) < min(THREADS, self.open_tasks):
                self.threads.append(threading.Thread(target=self.work, name="twill-library", daemon=True))
                self.threads[-1].start()
        self.tasks.put(task)

    def work(self) -> None:
        """One task after the other."""
        while True:
            task = self.tasks.get()
            try:
                task()
            except Exception as error:
                NOTES.report(f"a look-up failed: {type(error).__name__}: {error}")
            finally:
                with self.lock:
                    self.open_tasks -= 1

    # -- the store

    def look(self, inquiry: Inquiry, key: Callable[[], str]) -> None:
        """Answer an inquiry from memory or from the store's file."""
        try:
            name = key()
            with self.lock:
                shelf = self.shelves.get(name)
            if shelf is None:
                shelf = Shelf(name)
                found = self.stored(name)
                if found is not None:
                    self.put(shelf, found)
                with self.lock:
                    shelf = self.shelves.setdefault(name, shelf)
            inquiry.shelf = shelf
        except Unsupported as unsupported:
            inquiry.failure = str(unsupported)
        except Exception as error:
            inquiry.failure = f"the look-up failed: {type(error).__name__}: {error}"
        finally:
            inquiry.over.set()

    def stored(self, key: str) -> EmittedKernel | RefusedVariant | None:
        """What the store's file has under a key; what is not as it should be is said once."""
        store = self.file()
        try:
            data = None if store is None else store.get_artifact(key, NAME)
            return None if data is None else read_artifact(data, key)
        except TwillError as error:
            NOTES.report(error.message)
            return None

    def verdict(self, key: str, sizes: SizeClass, where: str, notify: Callable[[Verdict], None]) -> threading.Event:
        """Tell what is stored of a key's kernel in a class of sizes, if anything is. The event: it is over."""
        over = threading.Event()

        def task() -> None:
            store = self.file()
            try:
                data = None if store is None else store.get_artifact(key, sizes.name)
                found = None if data is None else read_verdict(data, where)
                if found is not None:
                    notify(found)
            except TwillError as error:
                NOTES.report(error.message)
            finally:
                over.set()

        self.later(task)
        return over

    def keep_verdict(self, key: str, sizes: SizeClass, verdict: Verdict) -> None:
        """Store it; a store that takes nothing is no error."""

        def task() -> None:
            store = self.file()
            try:
                if store is not None:
                    store.put_artifact(key, sizes.name, verdict.data())
            except TwillError as error:
                NOTES.report(error.message)

        self.later(task)

    def file(self) -> SqliteStore | None:
        """The store's file, opened when first asked for."""
        with self.opening:
            if not self.opened and self.path is not None:
                try:
                    self.store = SqliteStore(self.path, wait=WAIT)
                except TwillError as error:
                    NOTES.report(error.message)
            self.opened = True
            return self.store

    def promising(self) -> bool:
        """Whether a schedule could be found anywhere."""
        if self.server:
            return True
        try:
            store = self.file()
            return store is not None and bool(store.find(limit=1))
        except TwillError as error:
            NOTES.report(error.message)
            return False

    # -- the helper

    def prepare(self, shelf: Shelf, request: PrepareRequest, launches: Callable[[], int] = lambda: 0) -> None:
        """Have a missing kernel prepared; returns at once. launches: how often its variant was launched until now."""
        with self.lock:
            if shelf.state != "missing":
                return
            shelf.state, shelf.reason = "preparing", "it is being prepared"
        self.later(lambda: self.ask(shelf, request, launches))

    def ask(self, shelf: Shelf, request: PrepareRequest, launches: Callable[[], int]) -> None:
        """Ask the helper, unless it could not find anything."""
        if not request.solve and not self.promising():
            self.refuse(shelf, "no schedule is stored, and there is no service to ask")
            return
        self.helper.ask(request, lambda answer: self.answered(shelf, answer), launches)

    def answered(self, shelf: Shelf, answer: Prepared) -> None:
        """What the helper made of it."""
        for note in answer.notes:
            NOTES.report(note)
        if answer.state == "asks":
            with self.lock:
                shelf.state, shelf.reason, shelf.asks = "missing", answer.reason, True
            shelf.wake()
            return
        if answer.state != "emitted":
            self.refuse(shelf, answer.reason)
            return
        try:
            self.put(shelf, read_artifact(from_text(answer.artifact), shelf.key))
        except TwillError as error:
            self.refuse(shelf, error.message)

    def refuse(self, shelf: Shelf, reason: str) -> None:
        """There will be no emitted kernel."""
        self.put(shelf, RefusedVariant(reason))

    def put(self, shelf: Shelf, found: EmittedKernel | RefusedVariant) -> None:
        """Nothing more is to be expected."""
        with self.lock:
            if isinstance(found, RefusedVariant):
                shelf.state, shelf.reason = "refused", found.reason
            else:
                shelf.kernel, shelf.state, shelf.reason = found, "ready", ""
        shelf.settle()


_strangers: list[SqliteStore] = []  # stores that a parent process opened
_libraries: dict[tuple[str | None, str], Library] = {}
_lock = threading.Lock()


def _renew() -> None:
    global _lock
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_renew)


def library(settings: JitSettings) -> Library:
    """The library of these settings' store and service; forked processes have their own."""
    place = (path_of(settings.store), settings.server)
    with _lock:
        there = _libraries.get(place)
        if there is None or there.process != os.getpid():
            there = _libraries[place] = Library(*place)
        return there


def path_of(store: str) -> str | None:
    """The file of a store, as the environment has it if none is named; None for none."""
    from twill.store.location import OFF, store_path

    if store:
        return None if store == OFF else store
    path = store_path()
    return None if path is None else str(path)
