"""Pages under several addresses that say which one is their own."""

from pathlib import Path

from tests.e2e.command import QUICK, records, shoal
from tests.site.written import Sheet, serving_written

BOOK = Sheet('<h1>A book</h1><link rel=canonical href="/book">')
CANONICAL_ONLY = {"SHOAL_CRAWL_CANONICAL_ONLY": "true"}
SHEETS = {
    "/": Sheet('<a href="/book?ref=1">one</a><a href="/book?ref=2">two</a><a href="/book?ref=3">three</a>'),
    "/book": BOOK,
    "/book?ref=1": BOOK,
    "/book?ref=2": BOOK,
    "/book?ref=3": Sheet("<h1>A book</h1>", headers=[("Link", '</book>; rel="canonical"')]),
}


async def test_the_canonical_page_is_found_and_with_canonical_only_it_alone_yields_items(
    tmp_path: Path,
) -> None:
    async with serving_written(SHEETS) as site:
        start = f"http://{site.authorities[0]}/"
        crawl = ("crawl", start, "--item", "title=h1", *QUICK, "--json")
        every = shoal(*crawl, "--crawl", "every", "--out", "every.jsonl", cwd=tmp_path)
        once = shoal(
            *(*crawl, "--crawl", "once", "--out", "once.jsonl"),
            cwd=tmp_path,
            env=CANONICAL_ONLY,
        )
        again = shoal(
            *("reparse", start, "--crawl", "once", "--item", "title=h1", "--diff", "--json"),
            cwd=tmp_path,
            env=CANONICAL_ONLY,
        )

    assert every.code == once.code == 0, every.err + once.err
    paths = {f"{start}{path[1:]}" for path in SHEETS}
    assert {item["url"] for item in records(tmp_path / "every.jsonl")} == paths
    assert {item["url"] for item in records(tmp_path / "once.jsonl")} == {start, f"{start}book"}
    assert (every.json["withheld"], once.json["withheld"], once.json["pages"]) == (0, 3, 5)
    assert "skipped in once for a canonical page: 3 items" in shoal("status", cwd=tmp_path).out
    assert shoal("verify", cwd=tmp_path).code == 0
    assert again.code == 0, again.err
    assert again.json["pages"] == 5
    assert again.json["differences"]["pages_changed"] == 0
