"""Politeness, by the only witness that counts: the log of the server."""

from pathlib import Path

import pytest
from tests.graph_crawl import GraphCrawl, Moment, serving_graph
from tests.site.access_log import by_host, gaps, peak_concurrency, violations
from tests.site.graph import Busy, Shape

# The crawler's clock is monotonic, the log's is the wall clock: while that is being adjusted they drift apart.
CLOCK_SLACK = 0.001


@pytest.mark.slow
async def test_no_window_of_any_length_holds_more_than_the_rate_even_across_a_kill(tmp_path: Path) -> None:
    async with serving_graph(Shape(pages=240, hosts=20)) as (site, graph):
        crawl = GraphCrawl(graph.start, tmp_path, ("--rate", "5"))
        assert await crawl.run_and_kill(site, Moment(served=100))

        ran = crawl.run()

        assert ran.code == 0, ran.err
        hosts = by_host(await site.hits())
        assert len(hosts) == 20
        assert (
            sum(len(hits) for hits in hosts.values()) >= 240 + 20
        )  # robots.txt counts like any other request
        for host, hits in hosts.items():
            assert not violations([hit.arrived for hit in hits], rate=5, burst=1, slack_s=CLOCK_SLACK), host


async def test_the_crawl_delay_of_robots_txt_is_kept_where_it_is_slower(tmp_path: Path) -> None:
    async with serving_graph(Shape(pages=12, hosts=2, crawl_delay_s={1: 1.0})) as (site, graph):
        ran = GraphCrawl(graph.start, tmp_path, ("--rate", "20")).run()

        assert ran.code == 0, ran.err
        hosts = by_host(await site.hits())
    unhurried, delayed = (hosts[authority] for authority in site.authorities)
    assert len(delayed) == len(unhurried) == 6 + 1
    assert min(gaps(hit.arrived for hit in delayed[1:])) >= 1.0 - CLOCK_SLACK  # robots.txt itself came before
    assert min(gaps(hit.arrived for hit in unhurried)) < 0.5


async def test_a_host_that_says_retry_after_is_left_alone_for_as_long(tmp_path: Path) -> None:
    shape = Shape(pages=40, hosts=2, busy={1: Busy(after=5, retry_after_s=2, times=2)})
    async with serving_graph(shape) as (site, graph):
        crawl = GraphCrawl(graph.start, tmp_path, ("--rate", "0", "--per-host", "1"))
        ran = crawl.run()

        assert ran.code == 0, ran.err
        assert crawl.counts()["dead"] == 0
        hits = by_host(await site.hits())[site.authorities[1]]
    refused = [number for number, hit in enumerate(hits) if hit.status == 429]
    assert len(refused) == 2
    for number in refused:
        assert hits[number + 1].arrived - hits[number].ended >= 2.0 - CLOCK_SLACK


async def test_retry_after_uses_up_no_attempts(tmp_path: Path) -> None:
    # One page behind five refusals: a crawl that counted them would give up after the fourth.
    shape = Shape(pages=2, hosts=2, busy={1: Busy(after=0, retry_after_s=1, times=5)})
    async with serving_graph(shape) as (site, graph):
        crawl = GraphCrawl(graph.start, tmp_path, ("--rate", "0"))
        ran = crawl.run()

        assert ran.code == 0, ran.err
        assert crawl.counts()["done"] == 2
        hits = by_host(await site.hits())[site.authorities[1]]
    assert [hit.status for hit in hits if hit.path != "/robots.txt"] == [429] * 5 + [200]


async def test_a_host_has_four_requests_at_once_and_no_more_by_default(tmp_path: Path) -> None:
    shape = Shape(pages=150, hosts=3, links=12, latency_s={0: 0.05, 1: 0.05, 2: 0.05})
    async with serving_graph(shape) as (site, graph):
        ran = GraphCrawl(graph.start, tmp_path, ("--rate", "0")).run()

        assert ran.code == 0, ran.err
        peaks = {host: peak_concurrency(hits) for host, hits in by_host(await site.hits()).items()}
    assert set(peaks.values()) == {4}
