"""Which files a spider may read."""

import os
import sys
from pathlib import Path

import pytest

from shoal.parse.sandbox.readable import ReadablePath, readable_paths


def files(folder: Path, *names: str) -> None:
    for name in names:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x")


def may_read(found: list[ReadablePath], path: Path) -> bool:
    rules = [rule.path for rule in found if rule.content]
    return any(
        os.path.realpath(path) == rule or os.path.realpath(path).startswith(rule + "/") for rule in rules
    )


def test_a_spider_reads_what_is_beside_it_without_secrets_and_stores(tmp_path: Path) -> None:
    files(tmp_path, "spider.py", "model.py", "data/table.csv", ".env", ".git/config", "shoal.toml")
    files(tmp_path, "shoal-data/store.db", "var/store/store.db", "var/words.txt")
    private = [str(tmp_path / "shoal-data"), str(tmp_path / "var" / "store")]

    found = readable_paths(str(tmp_path / "spider.py"), import_path=[], given=[], private=private)

    readable = {
        str(path.relative_to(tmp_path))
        for path in tmp_path.rglob("*")
        if path.is_file() and may_read(found, path)
    }
    assert readable == {"spider.py", "model.py", "data/table.csv", "var/words.txt"}
    assert ReadablePath(str(tmp_path), content=False) in found, "an import lists the folder"


def test_a_store_that_is_created_later_is_not_readable(tmp_path: Path) -> None:
    files(tmp_path, "spider.py")
    store = tmp_path / "shoal-data"

    found = readable_paths(str(tmp_path / "spider.py"), import_path=[], given=[], private=[str(store)])

    assert may_read(found, tmp_path / "spider.py")
    assert not may_read(found, store / "store.db")


def test_a_folder_of_a_spider_without_secrets_is_readable_as_a_whole(tmp_path: Path) -> None:
    files(tmp_path, "spider.py")
    found = readable_paths(str(tmp_path / "spider.py"), import_path=[], given=[], private=["/elsewhere"])
    assert ReadablePath(str(tmp_path)) in found


def test_in_the_home_folder_only_python_files_are_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    files(tmp_path, "spider.py", "model.py", "diary.txt", "photos/one.jpg", ".ssh/id_ed25519")

    found = readable_paths(str(tmp_path / "spider.py"), import_path=[str(tmp_path)], given=[], private=[])

    readable = {path.name for path in tmp_path.rglob("*") if path.is_file() and may_read(found, path)}
    assert readable == {"spider.py", "model.py"}


def test_the_interpreter_and_what_the_operator_adds_are_readable(tmp_path: Path) -> None:
    files(tmp_path, "extra/table.csv", "other.txt")
    found = readable_paths(None, import_path=sys.path, given=[str(tmp_path / "extra")], private=[])

    assert may_read(found, Path(os.__file__))
    assert may_read(found, Path(pytest.__file__))
    assert may_read(found, tmp_path / "extra" / "table.csv")
    assert not may_read(found, tmp_path / "other.txt")
    assert not may_read(found, Path("/etc/shadow"))
    assert not may_read(found, Path("/proc/1/environ"))
