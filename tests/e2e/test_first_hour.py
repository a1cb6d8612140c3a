"""A newcomer's first hour, command by command: from nothing to a table, and on to what goes wrong."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.e2e.command import QUICK, Ran, records, shoal
from tests.site.books import BOOKS
from tests.site.server import ServedSite, serving

SPIDER = """\
import shoal

spider = shoal.Spider("books", "{site}", key="url")


@spider.page(r"/book-")
def book(page):
    yield {{"url": page.url, "title": page.css("h1::text").get(), "price": page.css(".price::text").get()}}


@spider.page()
def listing(page):
    yield page.links("h3")
    yield page.links(".next")
"""


@pytest.fixture
async def books() -> AsyncIterator[ServedSite]:
    async with serving("tests.site.books:build", "", hosts=1) as site:
        yield site


def fine(*arguments: str, cwd: Path) -> Ran:
    ran = shoal(*arguments, cwd=cwd)
    assert ran.code == 0, f"{arguments}: {ran.err}"
    return ran


async def test_from_nothing_to_a_table_and_to_a_corrected_spider(books: ServedSite, tmp_path: Path) -> None:
    site, project = f"http://{books.authorities[0]}/", tmp_path / "project"

    # Is this machine fit, and what does a project look like?
    fine("doctor", cwd=tmp_path)
    fine("init", "project", cwd=tmp_path)

    # A new spider, tried on a few pages; then the same command resumes it without a limit.
    (project / "spider.py").write_text(SPIDER.format(site=site))
    fine("crawl", "spider.py", *QUICK, "--max-pages", "5", cwd=project)
    assert "finished" in fine("crawl", "spider.py", *QUICK, "--json", cwd=project).out
    assert f"{BOOKS} items" in fine("verify", cwd=project).out

    # The price should have been a number: corrected and compared without a request, then written.
    text = (project / "spider.py").read_text()
    price = 'page.css(".price::text").get()'
    (project / "spider.py").write_text(text.replace(price, f"float({price}[1:])"))
    differences = fine("reparse", "spider.py", "--json", cwd=project).json["differences"]
    assert list(differences["fields"]) == ["price"]
    assert differences["fields"]["price"]["changed"] == BOOKS
    fine("reparse", "spider.py", "--commit", "--out", "books.jsonl", cwd=project)
    assert {type(record["price"]) for record in records(project / "books.jsonl")} == {float}

    # A table for a colleague, and the pages themselves for another tool.
    fine("export", "--out", "books.csv", cwd=project)
    fine("export", "--out", "books.warc.gz", cwd=project)
    assert len((project / "books.csv").read_text().splitlines()) == BOOKS + 1

    # What became of one page?
    assert "done" in fine("trace", f"{site}catalogue/book-1/index.html", cwd=project).out


async def test_mistakes_of_the_first_hour_are_answered_with_what_to_do(
    books: ServedSite, tmp_path: Path
) -> None:
    (tmp_path / "spider.py").write_text(SPIDER.format(site=f"http://{books.authorities[0]}/"))
    for arguments, advice in (
        (("crawl", "books.toscrape.com"), "did you mean https://books.toscrape.com ?"),
        (("crawl", "spidr.py"), "no such spider file: spidr.py"),
        (("reparse", "spider.py"), "there is no store at shoal-data"),
        (("export", "--out", "books.xlsx", "--store", "."), "there is no store at"),
        (("init", "--force"), "see shoal init --help"),
    ):
        ran = shoal(*arguments, cwd=tmp_path)
        assert ran.code == 1, arguments
        assert advice in ran.complaint
