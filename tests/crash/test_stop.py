"""SIGSTOP for longer than the leases, then SIGCONT: pages in progress are fetched again, and count once."""

from pathlib import Path

from tests.graph_crawl import GraphCrawl, assert_items, assert_same, serving_graph
from tests.site.graph import Shape

LEASE = 1.0
SETTINGS = f"[crawl]\nlease = {LEASE}\n"


async def test_a_crawl_that_sleeps_through_its_leases_ends_with_exactly_the_graph(tmp_path: Path) -> None:
    (tmp_path / "shoal.toml").write_text(SETTINGS)
    shape = Shape(seed=11, pages=600, hosts=10, redirects=20, gone=10)
    async with serving_graph(shape) as (site, graph):
        crawl = GraphCrawl(graph.start, tmp_path, ("--rate", "0", "--per-host", "8", "--concurrency", "64"))

        stopped = await crawl.run_and_stop(site, [100, 300, 500], for_s=1.5 * LEASE)

        assert stopped >= 2, "the crawl ended too early for the stops to mean anything"
        assert crawl.verify().code == 0
        assert_same("archived", crawl.archived().elements(), graph.expected().pages)
        assert_items(crawl, graph)
        assert crawl.counts()["dead"] == 0
