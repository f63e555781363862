"""Who may do what: API tokens, kept as hashes in a text file.

A line of the file is `name scopes sha256`, scopes joined by commas. Behind that may stand, in any order, the last day
on which the token counts, as 2027-01-31 (UTC); `share=2`, its share of the workers beside others (1 unless it is said);
`priority=1`, whose jobs go before those of lower ones (0); `jobs=50`, how many it may have queued or running (any
number). Lines of one name are one client, so that a new token can be given out before the old one ends. `#` begins a
comment.

A token is 256 random bits, so that its plain SHA-256 tells nobody anything. The file is read again when it changes. A
line that is none is logged, and the others count.
"""

from __future__ import annotations

import dataclasses
import hashlib
import logging
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, get_args

from twill.exc import MalformedTokenFile

Scope = Literal["read", "solve", "admin"]

SCOPES: tuple[Scope, ...] = get_args(Scope)
GRANTS: dict[Scope, frozenset[Scope]] = {
    "read": frozenset({"read"}),
    "solve": frozenset({"read", "solve"}),
    "admin": frozenset({"read", "solve", "admin"}),
}
PREFIX = "twill_"  # so that a token found in a log or a repository is known for what it is
LOOK_AGAIN = 1.0  # seconds between two looks at the file
NAME = re.compile(r"[A-Za-z0-9._-]{1,64}")
SETTINGS = {
    "share": re.compile(r"(?=.*[1-9])[0-9]{1,4}(\.[0-9]{1,2})?"),
    "priority": re.compile(r"-?[0-9]{1,3}"),
    "jobs": re.compile(r"[0-9]{1,6}"),
}
GRAMMAR = (
    "a line is `name scopes sha256 [last day] [share=N] [priority=N] [jobs=N]`,"
    " as `twill serve --token-file FILE --add-token NAME:SCOPES` writes it"
)


log = logging.getLogger("twill.server.tokens")


@dataclass(frozen=True)
class Caller:
    """Whoever asks. name: of the token, or the address where none is needed. last_day: on which the token counts.

    share, priority, jobs: see the top of this file (jobs 0: any number).
    """

    name: str
    scopes: frozenset[Scope]
    last_day: date | None = None
    share: float = 1.0
    priority: int = 0
    jobs: int = 0

    def expired(self) -> bool:
        """Whether the token counts no more."""
        return self.last_day is not None and datetime.now(UTC).date() > self.last_day

    def may(self, scope: Scope) -> bool:
        """Whether the client has a scope, or one that includes it."""
        return any(scope in GRANTS[held] for held in self.scopes)


class Tokens:
    """The clients of a token file. Raises MalformedTokenFile, when it is first read, if it is not one."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.lock = threading.Lock()
        self.looked = time.monotonic()
        self.stamp = stamp(path)
        self.clients = self.read()

    def read(self) -> dict[str, Caller]:
        """The clients of the file; its bad lines are logged. Raises MalformedTokenFile if it cannot be read."""
        found, bad = read_tokens(self.path)
        for error in bad:
            log.error("a line of the token file is not used: %s", error.describe().replace("\n", ";"))
        return found

    def client(self, token: str) -> Caller | None:
        """Whoever the token belongs to."""
        self.look_again()
        return self.clients.get(digest(token))

    def look_again(self) -> None:
        """Read the file again if it changed. One that cannot be read or is gone lets nobody in."""
        with self.lock:
            if time.monotonic() - self.looked < LOOK_AGAIN:
                return
            self.looked = time.monotonic()
            now = stamp(self.path)
            if now == self.stamp:
                return
            self.stamp = now
            try:
                self.clients = self.read()
            except MalformedTokenFile as error:
                log.error("nobody is let in: %s", error.describe().replace("\n", ";"))
                self.clients = {}


def digest(token: str) -> str:
    """What is kept of a token."""
    return hashlib.sha256(token.encode("utf-8", "replace")).hexdigest()


def stamp(path: Path) -> tuple[int, int, int]:
    """What changes when a file does."""
    try:
        found = path.stat()
    except OSError:
        return (0, 0, 0)
    return (found.st_ino, found.st_size, found.st_mtime_ns)


def read_tokens(path: Path) -> tuple[dict[str, Caller], tuple[MalformedTokenFile, ...]]:
    """Clients by the hash of their token, and what is wrong with the lines that are none. Raises MalformedTokenFile."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise MalformedTokenFile(f"cannot be read: {reason}", file=str(path), hint=GRAMMAR) from None
    found: dict[str, Caller] = {}
    bad: list[MalformedTokenFile] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        try:
            found[words[2] if len(words) > 2 else ""] = client_of(words, str(path), number)
        except MalformedTokenFile as error:
            bad.append(error)
    return found, tuple(bad)


def client_of(words: Sequence[str], file: str, line: int) -> Caller:
    """The client of a line's words; raises MalformedTokenFile."""
    if len(words) < 3 or not NAME.fullmatch(words[0]) or not re.fullmatch(r"[0-9a-f]{64}", words[2]):
        raise MalformedTokenFile("not a token's line", file=file, line=line, hint=GRAMMAR)
    client = Caller(words[0], scopes_of(words[1].split(","), file, line))
    for word in words[3:]:
        client = dataclasses.replace(client, **said_by(word, file, line))
    return client


def said_by(word: str, file: str, line: int) -> dict[str, Any]:
    """What a word behind a token's hash says of its client; raises MalformedTokenFile."""
    name, equals, value = word.partition("=")
    if not equals:
        try:
            return {"last_day": date.fromisoformat(word)}
        except ValueError:
            hint = "a day as 2027-01-31"
            raise MalformedTokenFile(f"{word!r} is no day", file=file, line=line, hint=hint) from None
    form = SETTINGS.get(name)
    if form is None or not form.fullmatch(value):
        hint = "share=2, priority=1 or jobs=50"
        raise MalformedTokenFile(f"{word!r} means nothing for a token", file=file, line=line, hint=hint)
    return {name: float(value) if name == "share" else int(value)}


def scopes_of(words: Iterable[str], file: str = "", line: int = 0) -> frozenset[Scope]:
    """Scopes by their names; raises MalformedTokenFile."""
    found: set[Scope] = set()
    for word in words:
        scope = next((known for known in SCOPES if known == word), None)
        if scope is None:
            hint = f"one or more of {', '.join(SCOPES)}, joined by commas"
            raise MalformedTokenFile(f"there is no scope {word!r}", file=file, line=line, hint=hint)
        found.add(scope)
    return frozenset(found)


def add_token(
    path: Path, name: str, scopes: frozenset[Scope], days: int | None = None, said: Sequence[str] = ()
) -> str:
    """Append a new token to the file (made if need be, readable by its owner only), and return it: it is told once.

    days: for which it counts, today not among them (None: for good). said: words as `share=2`.
    """
    for word in said:
        said_by(word, "", 0)
    if not NAME.fullmatch(name):
        hint = "1 to 64 letters, digits, dots, dashes and underscores"
        raise MalformedTokenFile(f"{name!r} is no name for a token", hint=hint)
    start = ""
    if path.exists():
        read_tokens(path)  # a file of something else is not written to
        start = "" if path.read_bytes()[-1:] in (b"", b"\n") else "\n"
    until = "" if days is None else f" {datetime.now(UTC).date() + timedelta(days=days)}"
    token = PREFIX + secrets.token_urlsafe(32)
    granted = ",".join(scope for scope in SCOPES if scope in scopes)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{start}{' '.join((name, granted, digest(token) + until, *said))}\n")
    return token
