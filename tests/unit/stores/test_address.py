"""What kind of store a text names."""

from pathlib import Path

import pytest

from shoal.model.errors import Misconfigured
from shoal.stores.address import check_store


@pytest.mark.parametrize(
    "store", ["shoal-data", "/data/shop", "redis://queue.example", "rediss://:pw@h:1/2?tls=1", "", "a:b"]
)
def test_folders_and_servers_are_what_they_seem(store: str) -> None:
    check_store(store)


@pytest.mark.parametrize(
    ("store", "complaint"),
    [
        ("redsi://:hunter2@queue.example", "no backend for 'redsi'; did you mean redis://? known: a folder"),
        ("amqp://:hunter2@queue.example", "no backend for 'amqp'; known: a folder, redis"),
        ("redis:queue.example", "redis: is followed by two slashes, as in redis://HOST"),
        ("queue.example:6379", "there is no folder queue.example:6379; a server is named redis://queue"),
    ],
)
def test_an_address_that_is_misspelled_is_not_taken_for_a_folder(store: str, complaint: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        check_store(store)
    assert complaint in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_a_folder_that_is_there_may_have_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "shop:8080").mkdir()
    check_store("shop:8080")
