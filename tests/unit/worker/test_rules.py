"""What a worker allows, and what it says about the rest."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from shoal.model.configuration.address_ranges import PRIVATE
from shoal.model.configuration.configure import configure, from_tree
from shoal.model.settings import ArchiveSettings, CrawlSettings, Settings
from shoal.stores.contract.places import Places, pattern_for
from shoal.worker.rules import WorkerRules


def settings(**tables: dict[str, object]) -> Settings:
    return configure(from_tree(tables, "test"))


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    work = tmp_path / "work"
    work.mkdir()
    monkeypatch.chdir(work)
    return work


def test_files_below_the_current_folder_are_allowed_and_nothing_else(folder: Path) -> None:
    places = Places()
    (folder / "out").symlink_to(folder.parent)
    (folder / "in").symlink_to(folder / "sub")
    for path in (
        "a.jsonl",
        "sub/deep/a.csv",
        "in/a.jsonl",
        "shoal-data/items/a.jsonl",
        "shoal-data/archive/x",
    ):
        assert not places.refusal(str(folder / path))
    for path in (
        "../a.jsonl",
        "out/a.jsonl",
        "shoal-data/store.db",
        "shoal-data/valkey/dump.db",
        "a\0.jsonl",
        "x" * 300,
    ):
        assert places.refusal(str(folder / path)), path
    for place in (
        "/etc/passwd.db",
        "a.jsonl",
        "",
        f"{folder}2/a.jsonl",
        "postgresql://db/x",
        "s3://b/x",
        "file:///x",
    ):
        assert places.refusal(place), place


@pytest.mark.parametrize(
    ("pattern", "allowed", "refused"),
    [
        (
            "postgresql://shoal@db/shop",
            [
                "postgres://shoal:secret@db:5432/shop?table=a",
                "postgresql://shoal@DB/shop?sslmode=verify-full",
            ],
            [
                "postgresql://shoal@db/other",
                "postgresql://root@db/shop",
                "postgresql://shoal@db:5433/shop",
                "postgresql://shoal@db.evil/shop",
                "postgresql://shoal@db/shop?host=evil",
                "postgresql://shoal@db/shop?hostaddr=6.6.6.6",
                "postgresql://shoal@db/shop?service=evil",
                "postgresql://shoal@db/shop?passfile=/etc/shadow",
                "postgresql://shoal@db/shop?sslkey=/etc/key",
                "postgresql://shoal@db/shop?sslmode=disable",
                "postgresql://shoal@db/shop?table=a&table=b",
                "postgresql://shoal@db,evil/shop",
                "postgresql://shoal@evil#@db/shop",
                "mysql://shoal@db/shop",
            ],
        ),
        ("postgresql://db", ["postgresql://any@db/any", "postgresql://db"], ["postgresql://any@other/any"]),
        (
            "postgresql://crawl-*@db/crawl_*",
            ["postgresql://crawl-a@db/crawl_a"],
            ["postgresql://a@db/crawl_a"],
        ),
        (
            "postgresql://u@db/x?sslmode=disable&host=10.0.0.1",
            ["postgresql://u@db/x?host=10.0.0.1&sslmode=disable&table=t"],
            ["postgresql://u@db/x?host=10.0.0.2&sslmode=disable"],
        ),
        (
            "s3://bucket/shoal",
            ["s3://bucket/shoal", "s3://bucket/shoal/archive"],
            ["s3://bucket/shoal2", "s3://bucket/shoal/../x", "s3://bucket", "gs://bucket/shoal"],
        ),
    ],
)
def test_an_address_is_allowed_by_its_server_and_its_path(
    pattern: str, allowed: list[str], refused: list[str]
) -> None:
    places = Places((pattern,))
    assert [place for place in allowed if places.refusal(place)] == []
    assert [place for place in refused if not places.refusal(place)] == []


def test_a_list_of_places_replaces_the_current_folder(folder: Path) -> None:
    places = Places(("/data", "postgresql://db"))
    assert not places.refusal("/data/a.jsonl")
    assert "--allow-output" in places.refusal(str(folder / "a.jsonl"))
    assert "--allow-output /elsewhere" in places.refusal("/elsewhere/a.jsonl")
    assert "--allow-output postgresql://u@other/x" in places.refusal("postgresql://u:secret@other/x?table=t")
    assert "secret" not in places.refusal("postgresql://u:secret@other/x?password=secret")


def test_what_a_command_has_planned_itself_is_allowed(folder: Path) -> None:
    own = ("/elsewhere/a.jsonl", "postgresql://u:secret@db:1/x?table=t&sslmode=disable", "s3://bucket/x")
    rules = WorkerRules.of(Settings(), own=own)
    assert [place for place in (*own, str(folder / "b.jsonl")) if rules.places.refusal(place)] == []
    assert rules.places.refusal("/elsewhere/b.jsonl")
    assert all("secret" not in pattern_for(place) for place in own)


def test_the_archive_of_the_worker_is_allowed_to_crawls(folder: Path) -> None:
    rules = WorkerRules.of(replace(Settings(), archive=ArchiveSettings(location="s3://bucket/archive")))
    for location, allowed in (
        ("s3://bucket/archive", True),
        ("s3://bucket/other", False),
        ("archive", True),
        (str(folder.parent), False),
        ("file:///etc", False),
    ):
        asked = replace(Settings(), archive=ArchiveSettings(location=location))
        assert bool(rules.refusal(asked)) is not allowed, location


def test_private_addresses_need_both() -> None:
    asks = settings(fetch={"allow_ranges": ["10.1.2.0/24"]})
    everything = settings(crawl={"allow_private": True})
    assert "10.1.2.0/24" in WorkerRules().refusal(asks)
    assert not WorkerRules.of(settings(fetch={"allow_ranges": ["10.1.0.0/16"]})).refusal(asks)
    assert not WorkerRules.of(everything).refusal(asks)
    assert "192.168.0.0/16" in WorkerRules(ranges=tuple(PRIVATE[:2])).refusal(everything)
    assert not WorkerRules.of(everything).refusal(Settings())


@pytest.mark.parametrize("name", ["ca_file", "nameservers"])
def test_authorities_and_name_servers_are_the_workers(name: str) -> None:
    asks = replace(Settings(), crawl=CrawlSettings(**{name: "127.0.0.1"}))  # type: ignore[arg-type]
    assert f"crawl.{name}" in WorkerRules().refusal(asks)
    assert not WorkerRules.of(asks).refusal(asks)
    assert not WorkerRules.of(asks).refusal(Settings())
    assert getattr(WorkerRules.of(asks).apply(Settings()).crawl, name) == "127.0.0.1"
    hidden = replace(Settings(), crawl=CrawlSettings(cookie_file="/etc/cookies"))
    assert WorkerRules().apply(hidden).crawl.cookie_file is None


def test_a_key_is_long_and_its_file_is_never_named(tmp_path: Path) -> None:
    from shoal.model.errors import Misconfigured
    from shoal.stores.contract.record_reader import read_record_key

    (tmp_path / "key").write_text(os.urandom(32).hex() + "\n")
    assert len(read_record_key(str(tmp_path / "key"))) == 64
    assert read_record_key(None) == b""
    (tmp_path / "short").write_text("hunter2")
    for wrong in ("hunter2", str(tmp_path / "short"), str(tmp_path), "hunter2\0", "/dev/zero"):
        with pytest.raises(Misconfigured) as caught:
            read_record_key(wrong)
        assert "hunter2" not in str(caught.value)
