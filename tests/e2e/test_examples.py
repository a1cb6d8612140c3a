"""The examples do what they say. (`shop.py` is what the demo runs: see test_demo.py.)"""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.command import QUICK, shoal
from tests.site.server import ServedSite, serving
from tests.site.toscrape import CATEGORIES, PER_CATEGORY, QUOTE_PAGES

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture
async def site() -> AsyncIterator[ServedSite]:
    async with serving("tests.site.toscrape:build", "", hosts=1) as site:
        yield site


def items(example: str, start: str, folder: Path) -> list[dict[str, Any]]:
    ran = shoal("crawl", str(EXAMPLES / example), start, "--out", "items.jsonl", *QUICK, cwd=folder)
    assert ran.code == 0, ran.err
    return [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]


async def test_books_know_the_category_they_were_found_in(site: ServedSite, tmp_path: Path) -> None:
    books = items("books.py", f"http://{site.authorities[0]}/", tmp_path)

    assert sorted((book["category"], book["upc"]) for book in books) == sorted(
        (category, f"upc-{category}-{n}") for category in CATEGORIES for n in range(PER_CATEGORY)
    )


async def test_quotes_are_read_page_by_page(site: ServedSite, tmp_path: Path) -> None:
    quotes = items("quotes.py", f"http://{site.authorities[0]}/api/quotes?page=1", tmp_path)

    assert [quote["text"] for quote in quotes] == [f"Quote {n}" for n in range(1, QUOTE_PAGES + 1)]


def test_every_example_is_tried_by_a_test() -> None:
    here = {"shop.py", "books.py", "quotes.py"}
    elsewhere = {"rendered.py", "wall.py"}  # test_rendering.py, and `shoal demo --wall` in test_levels.py
    in_unit_tests = {"login.py", "tag.py", "cheap.py"}
    assert {path.name for path in EXAMPLES.glob("*.py")} == here | in_unit_tests | elsewhere
