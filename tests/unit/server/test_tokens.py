"""The file of tokens: who may read it, and how long a token is valid."""

from pathlib import Path

import pytest

from shoal.model.api.roles import Role
from shoal.model.errors import Misconfigured
from shoal.server.access.tokens import TokenBook, add_token, digest_of, read_tokens


@pytest.mark.parametrize("mode", [0o640, 0o620, 0o610, 0o604, 0o602, 0o601])
def test_a_file_that_others_can_open_is_refused(tmp_path: Path, mode: int) -> None:
    add_token(path := tmp_path / "tokens.json", "ann", Role.READ)
    assert [one.name for one in read_tokens(path)] == ["ann"]

    path.chmod(mode)
    with pytest.raises(Misconfigured, match="other users can read or write it"):
        read_tokens(path)


def test_a_token_for_an_hour_is_valid_for_an_hour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_800_000_000.0
    monkeypatch.setattr("time.time", lambda: now)
    token = add_token(path := tmp_path / "tokens.json", "ann", Role.READ, expires_s=3600.0)
    lasting = add_token(path, "bob", Role.READ)
    book = TokenBook(path)

    assert [book.find(digest_of(one)) is not None for one in (token, lasting)] == [True, True]
    now += 3599.0
    assert [book.find(digest_of(one)) is not None for one in (token, lasting)] == [True, True]
    now += 2.0
    assert [book.find(digest_of(one)) is not None for one in (token, lasting)] == [False, True]


@pytest.mark.parametrize("name", ["", "a b", "a\n", "a\u202eb", "x" * 1000])
def test_a_name_that_could_be_mistaken_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(Misconfigured, match="a token's name"):
        add_token(tmp_path / "tokens.json", name, Role.READ)
    assert not (tmp_path / "tokens.json").exists()
