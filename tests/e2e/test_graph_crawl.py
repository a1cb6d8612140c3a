"""The command line on a graph whose crawl has a known result: 50 hosts, 5,000 pages.

`make chaos` runs it with 20,000 pages (`CHAOS_PAGES`).
"""

import os
from pathlib import Path

import pytest
from tests.graph_crawl import GraphCrawl, assert_items, assert_same, serving_graph
from tests.site.access_log import fetches
from tests.site.graph import Shape

PAGES = int(os.environ.get("CHAOS_PAGES", "1500"))
SHAPE = Shape(
    seed=20,
    pages=PAGES,
    hosts=50,
    chain=30,
    redirects=PAGES // 50,
    gone=PAGES // 100,
    disallowed=PAGES // 100,
    unfollowed=60,
    spellings=True,
    queries=True,
)
QUICK = ("--rate", "0", "--per-host", "8", "--concurrency", "64")


@pytest.mark.slow("1,500 pages, crawled, archived, verified")
@pytest.mark.timeout(600)
async def test_a_crawl_ends_with_exactly_the_graph_and_a_second_one_has_nothing_to_do(tmp_path: Path) -> None:
    async with serving_graph(SHAPE) as (site, graph):
        expected = graph.expected()
        crawl = GraphCrawl(graph.start, tmp_path, QUICK)

        first = crawl.run()

        assert first.code == 0, first.err
        hits = await site.hits()
        assert_same("fetched", fetches(hits).elements(), expected.fetched)
        assert_same("archived", crawl.archived().elements(), expected.pages)
        assert_items(crawl, graph)
        counts = crawl.counts()
        assert counts["accepted"] == len(expected.fetched) + len(expected.disallowed)
        assert (counts["gone"], counts["filtered"], counts["dead"]) == (SHAPE.gone, SHAPE.disallowed, 0)

        second = crawl.run()

        assert second.code == 0, second.err
        assert await site.hits() == hits
        assert_items(crawl, graph)
        verified = crawl.verify()
        assert verified.code == 0, verified.out
