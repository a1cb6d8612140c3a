"""`shoal trace` after a crawl of a shop with a page that fails at first, one that is gone and one that moved."""

import re
from pathlib import Path

from tests.e2e.command import HASTY, QUICK, records, shoal


def test_a_url_is_traced_from_the_page_that_links_to_it_to_its_items(shop: str, tmp_path: Path) -> None:
    shoal("crawl", shop, *QUICK, "--out", "items.jsonl", "--quiet", cwd=tmp_path, env=HASTY)
    urls = [item["url"] for item in records(tmp_path / "items.jsonl")]

    [seed] = shoal("trace", shop, "--json", cwd=tmp_path).json["traces"]
    assert (seed["state"], seed["found_on"], [one["status"] for one in seed["attempts"]]) == (
        "done",
        None,
        [200],
    )
    [last] = shoal("trace", urls[-1], "--json", cwd=tmp_path).json["traces"]
    assert last["found_on"]["url"] in urls
    assert last["page"]["items"] == 1
    assert last["page"]["elapsed_s"] > 0
    assert last["page"]["bytes"] > 0
    assert shoal("trace", last["trace"], cwd=tmp_path).out.startswith(urls[-1])

    missing = shoal("trace", f"{shop}no-such-page", cwd=tmp_path)
    assert missing.code == 1
    assert "was never accepted" in missing.complaint


def test_failed_attempts_are_remembered(shop: str, tmp_path: Path) -> None:
    """The page that fails the first time is given up without retries, then replayed."""
    shoal("crawl", shop, *QUICK, "--quiet", cwd=tmp_path, env={"SHOAL_RETRY_MAX_RETRIES": "0"})
    [letter] = shoal("dlq", "list", "--json", cwd=tmp_path).json["dead_letters"]
    [dead] = shoal("trace", letter["url"], "--json", cwd=tmp_path).json["traces"]
    assert (dead["state"], dead["class"]) == ("dead", "target_error")
    shoal("dlq", "replay", "--yes", cwd=tmp_path)
    shoal("crawl", shop, *QUICK, "--quiet", cwd=tmp_path)

    [trace] = shoal("trace", letter["url"], "--json", cwd=tmp_path).json["traces"]
    assert [(one["class"], one["status"]) for one in trace["attempts"]] == [
        ("target_error", 503),
        (None, 200),
    ]
    assert trace["state"] == "done"
    assert all(one["elapsed_s"] > 0 for one in trace["attempts"])
    first, second = (one["started_at"] for one in trace["attempts"])
    assert first < second


SPIDER = """
import shoal

spider = shoal.Spider("shop", start=[{start!r}], max_pages={pages})


@spider.page()
def anything(page):
    yield {{"url": page.url, "note": {note!r}}}
    yield page.links()
"""


def test_C08_a_page_knows_the_version_of_the_spider_that_parsed_it(shop: str, tmp_path: Path) -> None:
    """The crawl resumes with a changed spider; then its pages are parsed again with a third one."""

    def crawl(note: str, pages: int) -> None:
        (tmp_path / "spider.py").write_text(SPIDER.format(start=shop, note=note, pages=pages))
        shoal("crawl", "spider.py", *QUICK, "--out", "items.jsonl", "--quiet", cwd=tmp_path, env=HASTY)

    def parsed_by(url: str) -> str:
        [trace] = shoal("trace", url, "--json", cwd=tmp_path).json["traces"]
        return str(trace["parsed_by"]["version"])

    crawl("first", 5)
    early = len(records(tmp_path / "items.jsonl"))
    crawl("second", 1000)
    items = records(tmp_path / "items.jsonl")
    assert early < len(items)
    assert {item["note"] for item in items[:early]} == {"first"}
    assert {item["note"] for item in items[early:]} == {"second"}
    old, new = items[0]["url"], items[-1]["url"]
    assert parsed_by(old) != parsed_by(new)

    (tmp_path / "third.py").write_text(SPIDER.format(start=shop, note="third", pages=9))
    shoal("reparse", "third.py", "--commit", "--out", "third.jsonl", "--match", re.escape(new), cwd=tmp_path)
    [trace] = shoal("trace", new, "--json", cwd=tmp_path).json["traces"]
    [again] = trace["parsed_again"]
    assert again["version"] not in (parsed_by(old), parsed_by(new))
    assert again["out"] == str(tmp_path / "third.jsonl")
    [seed] = shoal("trace", shop, "--json", cwd=tmp_path).json["traces"]
    assert seed["parsed_again"] == []  # not one of those that were chosen
    assert "  parsed    by version " in shoal("trace", old, cwd=tmp_path).out
    assert shoal("verify", cwd=tmp_path).code == 0
