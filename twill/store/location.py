"""Where a user's store is, and which service stands behind it.

TWILL_STORE: a file, or "off" for no file (default: `twill/schedules.sqlite3` in the user's cache directory).
TWILL_SERVER: the address of a service (default: none). TWILL_TOKEN: the token for it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from twill.exc import StoreUnavailable
from twill.store.client import Client
from twill.store.http import HttpStore
from twill.store.layered import BUDGET, LayeredStore
from twill.store.sqlite import LIMIT, WAIT, SqliteStore
from twill.store.validation import LOG

STORE, SERVER, TOKEN = "TWILL_STORE", "TWILL_SERVER", "TWILL_TOKEN"
OFF = "off"
NAME = Path("twill") / "schedules.sqlite3"


def store_path(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The file of the user's store; None if there is to be none."""
    named = environment.get(STORE, "")
    if named:
        return None if named == OFF else Path(named)
    cache = environment.get("XDG_CACHE_HOME", "")
    # The specification has a relative path there ignored (XDG Base Directory Specification 0.8).
    if cache and Path(cache).is_absolute():
        return Path(cache) / NAME
    home = environment.get("HOME", "")
    return Path(home) / ".cache" / NAME if home else None


def open_store(
    path: str | Path | None = None,
    server: str | None = None,
    *,
    budget: float | None = BUDGET,
    limit: int = LIMIT,
    wait: float = WAIT,
    environment: Mapping[str, str] = os.environ,
) -> LayeredStore:
    """The store of the arguments, else of the environment, else the default one.

    path: raises StoreUnavailable if it cannot be used; a store that was not asked for is left out then, with
    the reason logged. server: "" for none. Raises BadServerAddress.
    """
    asked_for = path or store_path(environment)
    address = environment.get(SERVER, "") if server is None else server
    http = HttpStore(Client(address, environment.get(TOKEN, ""))) if address else None
    sqlite = None
    if asked_for is not None:
        try:
            sqlite = SqliteStore(asked_for, limit=limit, wait=wait)
        except StoreUnavailable as error:
            if path is not None or environment.get(STORE):
                raise
            LOG.warning("%s", error.message)
    return LayeredStore(None, sqlite, http, budget=budget)
