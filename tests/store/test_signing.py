"""Promises of signing keys: made for their owner alone, told apart, changed without a gap."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from twill.exc import BadSigningKeys
from twill.store.signing import SigningKeys, key_name, keys_path, new_key, own_keys, read_keys, runs


def test_the_first_key_is_made_when_it_is_needed_and_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "keys"
    assert read_keys(path) == SigningKeys(())
    made = own_keys({"TWILL_SIGNING_KEYS": str(path)})
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert own_keys({"TWILL_SIGNING_KEYS": str(path)}) == made == read_keys(path)


def test_a_new_key_signs_and_the_old_ones_stay_trusted_until_their_line_is_gone(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    old = new_key(path)
    both = new_key(path)
    said = old.sign("k", "launch", "d")
    assert both.trusts(said, "k", "launch", "d") and both.secrets[1:] == old.secrets
    assert both.sign("k", "launch", "d").startswith(key_name(both.secrets[0]))
    path.write_text(path.read_text(encoding="ascii").splitlines()[0], encoding="ascii")
    assert not read_keys(path).trusts(said, "k", "launch", "d")


def test_a_file_that_others_can_read_signs_nothing(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    new_key(path)
    path.chmod(0o640)
    with pytest.raises(BadSigningKeys, match="others can read"):
        read_keys(path)


@pytest.mark.parametrize("text", ["abc\n", "# c\n" + "g" * 64, "é" * 64])
def test_a_line_that_is_no_key_is_named(text: str, tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(text, encoding="utf-8")
    path.chmod(0o600)
    with pytest.raises(BadSigningKeys, match="not a key"):
        read_keys(path)


def test_a_place_that_cannot_be_read_or_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadSigningKeys, match="cannot be read"):
        read_keys(tmp_path)
    (tmp_path / "file").write_text("", encoding="ascii")
    with pytest.raises(BadSigningKeys, match="cannot be"):
        own_keys({"TWILL_SIGNING_KEYS": str(tmp_path / "file" / "keys")})


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"TWILL_SIGNING_KEYS": "/a/b"}, "/a/b"),
        ({"XDG_CONFIG_HOME": "/c", "HOME": "/h"}, "/c/twill/signing.keys"),
        ({"XDG_CONFIG_HOME": "c", "HOME": "/h"}, "/h/.config/twill/signing.keys"),
    ],
)
def test_keys_are_with_the_users_settings(environment: dict[str, str], place: str) -> None:
    assert str(keys_path(environment)) == place


def test_only_known_documents_do_not_run() -> None:
    assert not runs("tuning.json") and runs("launch") and runs("anything")
