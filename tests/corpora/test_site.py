"""A real site, crawled whole by the real command: the server's log must show what a second crawler asks for.

Then its pages are parsed again by a changed spider, and the log must show nothing at all.
"""

import os
from collections import Counter
from pathlib import Path

import pytest
from bench.web_server import serving
from tests.corpora.trees import OPENJDK, POSTGRESQL, WHOLE
from tests.corpora.walk import walk
from tests.e2e.command import records, shoal
from tests.servers.nginx import put_nginx_into_path

TREE, LEAST = (OPENJDK, 10_000) if WHOLE else (POSTGRESQL, 1_000)
LONGEST_RUN = 1500.0  # seconds, on a machine that is busy with other things

SPIDER = """\
import shoal

spider = shoal.Spider("documentation")


@spider.page()
def described(page):
    title = page.css("title::text").get("")
    yield {"url": page.url, %s}
    yield page.links()
"""
BEFORE = SPIDER % '"title": title, "paragraphs": len(page.css("p"))'
AFTER = SPIDER % '"title": title + "!", "first": page.css("p::text").get()'


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_a_real_site_is_crawled_whole_and_parsed_again_without_a_request(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_nginx_into_path(monkeypatch)
    (tmp_path / "spider.py").write_text(BEFORE)
    (tmp_path / "changed.py").write_text(AFTER)
    with serving(TREE.root(), core=max(os.sched_getaffinity(0))) as server:
        assert server.name == "nginx"
        start = f"{server.url}index.html"
        options = ("--allow-private", "--rate", "0", "--per-host", "16", "--out", "pages.jsonl", "--quiet")
        crawl = shoal("crawl", "spider.py", start, *options, cwd=tmp_path, timeout=LONGEST_RUN)
        crawled = server.take_log()
        again = shoal("reparse", "changed.py", "--diff", "--json", cwd=tmp_path, timeout=LONGEST_RUN)
        asked_again = server.take_log()
        walked = walk(start)

    assert crawl.code == 0, crawl.err
    assert crawled.keys() - walked == set(), "asked for by the crawl alone"
    assert walked - crawled.keys() == set(), "missed by the crawl"
    assert set(crawled.values()) == {1}
    pages = [page["url"] for page in records(tmp_path / "pages.jsonl")]
    assert len(pages) == len(set(pages)) >= LEAST
    print(
        f"{TREE.package}: {len(crawled):,} addresses asked for, {len(pages):,} pages; the walk: {len(walked):,}"
    )

    assert again.code == 0, again.err
    assert asked_again == Counter()
    fields = again.json["differences"]["fields"]
    assert {name: (one["added"], one["removed"], one["changed"]) for name, one in fields.items()} == {
        "title": (0, 0, len(pages)),
        "paragraphs": (0, len(pages), 0),
        "first": (len(pages), 0, 0),
    }
