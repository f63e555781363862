"""Promises of the token file: only hashes are kept, scopes include each other, a mistake lets nobody in."""

from __future__ import annotations

import stat
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from server import tokens
from server.tokens import Tokens, add_token, read_tokens, scopes_of
from twill.exc import MalformedTokenFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "tokens"


def test_a_token_is_told_once_and_only_its_hash_is_kept(path: Path) -> None:
    token = add_token(path, "ci", scopes_of(["solve", "read"]))
    assert token.startswith("twill_") and len(token) > 40
    assert token not in path.read_text(encoding="utf-8")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    client = Tokens(path).client(token)
    assert client is not None and client.name == "ci"
    assert Tokens(path).client(token + "x") is None and Tokens(path).client("") is None


def test_tokens_differ_and_are_appended(path: Path) -> None:
    first, second = (add_token(path, name, scopes_of(["read"])) for name in ("a", "b"))
    known = Tokens(path)
    assert first != second
    assert [c and c.name for c in (known.client(first), known.client(second))] == ["a", "b"]


@pytest.mark.parametrize(
    ("held", "may"), [("read", {"read"}), ("solve", {"read", "solve"}), ("admin", {"read", "solve", "admin"})]
)
def test_each_scope_includes_the_smaller_ones(path: Path, held: str, may: set[str]) -> None:
    token = add_token(path, "x", scopes_of([held]))
    client = Tokens(path).client(token)
    assert client is not None
    assert {scope for scope in tokens.SCOPES if client.may(scope)} == may


def test_comments_and_empty_lines_are_skipped(path: Path) -> None:
    token = add_token(path, "ci", scopes_of(["read"]))
    path.write_text(f"# who may ask\n\n{path.read_text(encoding='utf-8').strip()}  # until spring\n", encoding="utf-8")
    assert Tokens(path).client(token) is not None


@pytest.mark.parametrize(
    "line",
    [
        "ci read", "ci read 12ab", f"ci everything {'0' * 64}", f"c:i read {'0' * 64}", f"ci read {'0' * 64} more",
        f"ci read {'0' * 64} 2027-13-01", f"ci read {'0' * 64} 2027-01-01 x", "x",
    ],
)  # fmt: skip
def test_a_line_that_is_none_is_said_with_its_number_and_the_others_count(
    path: Path, line: str, caplog: pytest.LogCaptureFixture
) -> None:
    token = add_token(path, "ci", scopes_of(["read"]))
    good = path.read_text(encoding="utf-8")
    path.write_text(f"# tokens\n{line}\n{good}", encoding="utf-8")
    _, (bad,) = read_tokens(path)
    assert bad.line == 2 and bad.file == str(path) and bad.hint
    assert Tokens(path).client(token) is not None
    assert f"{path}:2: " in caplog.text
    later = add_token(path, "later", scopes_of(["read"]))
    assert Tokens(path).client(later) is not None


def test_a_token_is_added_on_a_line_of_its_own(path: Path) -> None:
    first = add_token(path, "ci", scopes_of(["read"]))
    path.write_text(path.read_text(encoding="utf-8").strip(), encoding="utf-8")
    second = add_token(path, "other", scopes_of(["read"]))
    assert None not in (Tokens(path).client(first), Tokens(path).client(second))


def test_a_token_counts_to_the_end_of_its_last_day(path: Path) -> None:
    tokens = [add_token(path, f"t{days}", scopes_of(["read"]), days) for days in (0, 1)]
    path.write_text(path.read_text(encoding="utf-8") + f"old read {'0' * 64} 2020-01-01\n", encoding="utf-8")
    known = Tokens(path)
    found = [known.client(token) for token in tokens]
    assert [one is not None and one.expired() for one in found] == [False, False]
    assert known.clients["0" * 64].expired()
    assert found[1] is not None and found[1].last_day == datetime.now(UTC).date() + timedelta(days=1)


def test_a_file_that_cannot_be_read_is_refused(path: Path) -> None:
    with pytest.raises(MalformedTokenFile, match="No such file"):
        Tokens(path)
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(MalformedTokenFile, match="not UTF-8"):
        Tokens(path)


def test_names_and_scopes_of_new_tokens_are_checked_before_anything_is_written(path: Path) -> None:
    with pytest.raises(MalformedTokenFile, match="no name"):
        add_token(path, "two words", scopes_of(["read"]))
    with pytest.raises(MalformedTokenFile, match="no scope 'write'"):
        scopes_of(["read", "write"])
    assert not path.exists()


def test_a_changed_file_is_read_again(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "LOOK_AGAIN", 0.0)
    old = add_token(path, "old", scopes_of(["read"]))
    known = Tokens(path)
    new = add_token(path, "new", scopes_of(["read"]))
    assert known.client(new) is not None and known.client(old) is not None
    path.write_text("", encoding="utf-8")
    assert known.client(new) is None


@pytest.mark.parametrize("spoil", [lambda path: path.unlink(), lambda path: path.write_bytes(b"\xff\xfe")])
def test_a_file_that_is_broken_later_lets_nobody_in(path: Path, spoil: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "LOOK_AGAIN", 0.0)
    token = add_token(path, "ci", scopes_of(["read"]))
    known = Tokens(path)
    assert callable(spoil)
    spoil(path)
    assert known.client(token) is None


def test_what_a_client_may_have_stands_behind_its_hash(path: Path) -> None:
    token = add_token(path, "ci", scopes_of(["solve"]), 90, ["share=2.5", "priority=-1", "jobs=50"])
    plain = add_token(path, "plain", scopes_of(["solve"]))
    known = Tokens(path)
    client = known.client(token)
    assert client is not None and (client.share, client.priority, client.jobs) == (2.5, -1, 50)
    assert client.last_day is not None and not client.expired()
    other = known.client(plain)
    assert other is not None and (other.share, other.priority, other.jobs, other.last_day) == (1.0, 0, 0, None)


@pytest.mark.parametrize("word", ["share=0", "share=-1", "share=x", "priority=1.5", "jobs=-1", "jobs=", "color=red"])
def test_what_means_nothing_for_a_token_is_refused_before_it_is_written(path: Path, word: str) -> None:
    with pytest.raises(MalformedTokenFile, match="means nothing"):
        add_token(path, "ci", scopes_of(["read"]), None, [word])
    assert not path.exists()
    path.write_text(f"ci read {'0' * 64} {word}\n", encoding="utf-8")
    found, bad = read_tokens(path)
    assert found == {} and [error.line for error in bad] == [1]


def test_a_new_token_of_a_name_is_the_same_client_while_the_old_one_counts(path: Path) -> None:
    old, new = (add_token(path, "ci", scopes_of(["solve"])) for _ in range(2))
    known = Tokens(path)
    clients = [known.client(token) for token in (old, new)]
    assert [client and client.name for client in clients] == ["ci", "ci"]
