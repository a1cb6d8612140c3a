"""The keys of items in databases: different values are different items, also in crawls of older versions."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tests.e2e.command import QUICK, shoal

SPIDER = """
import re
import shoal

spider = shoal.Spider("keys", key="id")


@spider.page()
def page(page):
    number = len(page.url)
    yield {"id": number}
    yield {"id": str(number)}
    yield page.links()
"""


def keys(database: Path) -> set[str]:
    with closing(sqlite3.connect(database)) as opened:
        return {key for (key,) in opened.execute("SELECT _key FROM items")}


def crawl(shop: str, folder: Path, *options: str, command: tuple[str, ...] = ("crawl",)) -> None:
    (folder / "keys.py").write_text(SPIDER)
    ran = shoal(*command, "keys.py", shop, *QUICK, "--out", "items.sqlite", *options, "--quiet", cwd=folder)
    assert ran.code in (0, 3), ran.err


@pytest.mark.timeout(240)
@pytest.mark.parametrize("command", [("crawl",), ("fleet", "-n", "1")], ids=["folder", "fleet"])
def test_a_number_and_its_text_are_two_items(shop: str, tmp_path: Path, command: tuple[str, ...]) -> None:
    crawl(shop, tmp_path, command=command)
    found = keys(tmp_path / "items.sqlite")
    texts = {key for key in found if not key.startswith("=")}
    assert texts
    assert found == texts | {f"=[{key}]" for key in texts}


def test_a_crawl_of_an_older_version_keeps_its_keys(shop: str, tmp_path: Path) -> None:
    crawl(shop, tmp_path, "--max-pages", "2")
    with closing(sqlite3.connect(tmp_path / "shoal-data" / "store.db")) as store, store:
        assert store.execute("DELETE FROM crawl_state WHERE key = 'item_keys'").rowcount == 1
    first = keys(tmp_path / "items.sqlite")
    crawl(shop, tmp_path)
    later = keys(tmp_path / "items.sqlite") - first
    assert later
    assert not any(key.startswith("=") for key in later)

    crawl(shop, tmp_path, "--fresh")
    assert any(key.startswith("=") for key in keys(tmp_path / "items.sqlite"))
