"""The keys with which artifacts that run are signed for an archive, and whose signatures this machine trusts.

The file of keys has one key a line, 64 hexadecimal digits, `#` begins a comment::

    9f86d0...   # the first one signs; all of them are trusted

It is a shared secret: who has a key can sign for every machine that has it, too. So the file is its owner's alone, and
one that others can read is refused. A signature is HMAC-SHA-256 (RFC 2104) over the artifact's key, name and hash,
preceded by the beginning of the key's own hash, which says whose it is.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import secrets
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from twill.exc import BadSigningKeys

KEYS = "TWILL_SIGNING_KEYS"
NAME = Path("twill") / "signing.keys"
PURPOSE = "twill.artifact-signature/1"  # no signature of anything else is one of an artifact
DATA = frozenset({"tuning.json"})
"""Artifacts that are documents, and held to every rule where they are read. Whatever has another name may be code."""
SHORT = 16  # hexadecimal digits of a key's hash that name it
HINT = "a key is 64 hexadecimal digits, as `twill store keys --new` writes them"


@dataclass(frozen=True)
class SigningKeys:
    """Secrets; the first one signs."""

    secrets: tuple[bytes, ...]

    def sign(self, key: str, name: str, digest: str) -> str:
        """The signature of the artifact `name` of `key`, whose bytes have that SHA-256; needs a key."""
        return signature(self.secrets[0], key, name, digest)

    def trusts(self, said: str, key: str, name: str, digest: str) -> bool:
        """Whether a signature is one of these keys', of exactly this artifact."""
        good = (signature(secret, key, name, digest) for secret in self.secrets)
        return any([hmac.compare_digest(one.encode(), said.encode("utf-8", "replace")) for one in good])


def runs(name: str) -> bool:
    """Whether an artifact of that name may be executed by whoever finds it in a store."""
    return name not in DATA


def signature(secret: bytes, key: str, name: str, digest: str) -> str:
    """`KEY:HMAC`, both hexadecimal."""
    message = json.dumps([PURPOSE, key, name, digest]).encode()
    return f"{key_name(secret)}:{hmac.new(secret, message, hashlib.sha256).hexdigest()}"


def key_name(secret: bytes) -> str:
    """What a key is called; tells nothing of it."""
    return hashlib.sha256(secret).hexdigest()[:SHORT]


def keys_path(environment: Mapping[str, str] = os.environ) -> Path:
    """Where this user's keys are: TWILL_SIGNING_KEYS, else in the directory of settings (XDG 0.8)."""
    named = environment.get(KEYS, "")
    if named:
        return Path(named)
    config = environment.get("XDG_CONFIG_HOME", "")
    if config and Path(config).is_absolute():
        return Path(config) / NAME
    return Path(environment.get("HOME", "") or "/") / ".config" / NAME


def read_keys(path: Path) -> SigningKeys:
    """The keys of a file; none if there is no file. Raises BadSigningKeys."""
    try:
        with path.open("rb") as file:
            if stat.S_IMODE(os.fstat(file.fileno()).st_mode) & 0o077:
                raise BadSigningKeys("others can read or write it", file=str(path), hint=f"chmod 600 {path}")
            text = file.read().decode("ascii", "replace")
    except FileNotFoundError:
        return SigningKeys(())
    except OSError as error:
        raise BadSigningKeys(f"cannot be read: {error.strerror or error}", file=str(path), hint=HINT) from None
    found: list[bytes] = []
    for number, line in enumerate(text.splitlines(), 1):
        word = line.partition("#")[0].strip()
        if word and not re.fullmatch("[0-9a-f]{64}", word):
            raise BadSigningKeys("not a key", file=str(path), line=number, hint=HINT)
        if word:
            found.append(bytes.fromhex(word))
    return SigningKeys(tuple(found))


def new_key(path: Path) -> SigningKeys:
    """The keys of a file after a new one was put in front of them: it signs from now on, the others stay trusted.

    Raises BadSigningKeys.
    """
    there = read_keys(path)
    secret = secrets.token_bytes(32)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}.tmp")
    old = path.read_text(encoding="ascii") if there.secrets else ""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(f"{secret.hex()}\n{old}")
        os.replace(temporary, path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BadSigningKeys(f"cannot be written: {error.strerror or error}", file=str(path), hint=KEYS) from None
    return SigningKeys((secret, *there.secrets))


def own_keys(environment: Mapping[str, str] = os.environ) -> SigningKeys:
    """The user's keys, of which the first is made if there is none. Raises BadSigningKeys."""
    path = keys_path(environment)
    found = read_keys(path)
    return found if found.secrets else new_key(path)
