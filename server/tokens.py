"""Who may do what: API tokens, kept as hashes in a text file.

A line of the file is `name scopes sha256`, scopes joined by commas; `#` begins a comment. A token is
256 random bits, so that its plain SHA-256 tells nobody anything. The file is read again when it changes.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

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
GRAMMAR = "a line is `name scopes sha256`, as `twill serve --token-file FILE --add-token NAME:SCOPES` writes it"


@dataclass(frozen=True)
class Client:
    """Whoever asks. name: of the token, or the address where none is needed."""

    name: str
    scopes: frozenset[Scope]

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
        self.clients = read_tokens(path)

    def client(self, token: str) -> Client | None:
        """Whoever the token belongs to."""
        self.look_again()
        return self.clients.get(digest(token))

    def look_again(self) -> None:
        """Read the file again if it changed. One that is broken or gone lets nobody in."""
        with self.lock:
            if time.monotonic() - self.looked < LOOK_AGAIN:
                return
            self.looked = time.monotonic()
            now = stamp(self.path)
            if now == self.stamp:
                return
            self.stamp = now
            try:
                self.clients = read_tokens(self.path)
            except MalformedTokenFile:
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


def read_tokens(path: Path) -> dict[str, Client]:
    """Clients by the hash of their token."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not UTF-8 text"
        raise MalformedTokenFile(f"cannot be read: {reason}", file=str(path), hint=GRAMMAR) from None
    found: dict[str, Client] = {}
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if not words:
            continue
        if len(words) != 3 or not NAME.fullmatch(words[0]) or not re.fullmatch(r"[0-9a-f]{64}", words[2]):
            raise MalformedTokenFile("not a token's line", file=str(path), line=number, hint=GRAMMAR)
        found[words[2]] = Client(words[0], scopes_of(words[1].split(","), str(path), number))
    return found


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


def add_token(path: Path, name: str, scopes: frozenset[Scope]) -> str:
    """Append a new token to the file (made if need be, readable by its owner only), and return it: it is told once."""
    if not NAME.fullmatch(name):
        hint = "1 to 64 letters, digits, dots, dashes and underscores"
        raise MalformedTokenFile(f"{name!r} is no name for a token", hint=hint)
    if path.exists():
        read_tokens(path)
    token = PREFIX + secrets.token_urlsafe(32)
    granted = ",".join(scope for scope in SCOPES if scope in scopes)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as file:
        file.write(f"{name} {granted} {digest(token)}\n")
    return token
