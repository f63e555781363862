"""Promises of the places: arguments before the environment before the default, and no error that was not asked for."""

from __future__ import annotations

from pathlib import Path

import pytest

from twill.exc import BadServerAddress, StoreUnavailable
from twill.store.location import open_store, store_path


def test_the_file_is_named_by_the_environment_or_in_the_cache() -> None:
    assert store_path({"TWILL_STORE": "/a/b", "XDG_CACHE_HOME": "/c"}) == Path("/a/b")
    assert store_path({"TWILL_STORE": "off", "HOME": "/h"}) is None
    assert store_path({"XDG_CACHE_HOME": "/c", "HOME": "/h"}) == Path("/c/twill/schedules.sqlite3")
    assert store_path({"XDG_CACHE_HOME": "relative", "HOME": "/h"}) == Path("/h/.cache/twill/schedules.sqlite3")
    assert store_path({}) is None


def test_arguments_come_before_the_environment(tmp_path: Path) -> None:
    environment = {"TWILL_STORE": str(tmp_path / "e"), "TWILL_SERVER": "http://e", "TWILL_TOKEN": "t"}
    store = open_store(tmp_path / "a", "http://a:7", environment=environment)
    assert store.sqlite is not None and store.http is not None
    assert store.sqlite.path == tmp_path / "a"
    assert (store.http.client.address, store.http.client.transport.address) == ("http://a:7", "http://a:7")
    assert store.http.client.transport.headers["Authorization"] == "Bearer t"
    store.close()
    store = open_store(environment=environment)
    assert store.sqlite is not None and store.http is not None
    assert (store.sqlite.path, store.http.client.address) == (tmp_path / "e", "http://e")
    store.close()
    store = open_store(server="", environment={"TWILL_STORE": "off", "TWILL_SERVER": "http://e"})
    assert (store.sqlite, store.http) == (None, None)
    store.close()


def test_a_file_that_was_asked_for_must_be_usable(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    place = tmp_path / "file" / "s"
    with pytest.raises(StoreUnavailable):
        open_store(place, environment={})
    with pytest.raises(StoreUnavailable):
        open_store(environment={"TWILL_STORE": str(place)})
    with pytest.raises(BadServerAddress):
        open_store(server="nowhere", environment={})


def test_the_default_file_is_left_out_if_it_cannot_be_used(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").write_text("")
    store = open_store(environment={"XDG_CACHE_HOME": str(tmp_path / "file")})
    assert store.sqlite is None
    assert "the schedule store" in caplog.text
    store.close()
