"""A fleet far from its store: slower by the delay at most, never stopped, and as polite as nearby."""

from pathlib import Path

import pytest
from tests.adversary.size import sized
from tests.fleet_crawl import Fleet, assert_fleet_items
from tests.graph_crawl import serving_graph
from tests.servers.redis import valkey
from tests.servers.weather import weather
from tests.site.access_log import by_host, violations
from tests.site.graph import Shape

CLOCK_SLACK = 0.001

# Round trip in seconds, rate, pages, hosts, workers.
CASES: list[tuple[float, float, int, int, int]] = sized(
    [(0.03, 10.0, 24, 2, 2), (0.15, 10.0, 16, 1, 2)],
    full=[
        (distance, rate, pages, 2, 3)
        for distance in (0.0, 0.005, 0.03, 0.1, 0.3)
        for rate, pages in ((10.0, 300), (2.0, 80))
    ],
)
SHARE = sized(0.05, full=0.5)  # of the pace, in the middle of the crawl; a small crawl hardly reaches it


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("distance", "rate", "pages", "hosts", "workers"), CASES)
async def test_a_fleet_far_from_its_store_has_the_pace_of_the_hosts_and_never_more(
    distance: float, rate: float, pages: int, hosts: int, workers: int, tmp_path: Path
) -> None:
    async with (
        serving_graph(Shape(pages=pages, hosts=hosts, links=8)) as (site, graph),
        valkey(tmp_path) as server,
    ):
        with (
            weather(server.port, distance=distance) as between,
            Fleet(f"redis://127.0.0.1:{between.port}", tmp_path) as fleet,
        ):
            nearby = Fleet(server.dsn, tmp_path)
            assert nearby.submit(graph.start, "--rate", f"{rate:g}").code == 0
            for _ in range(workers):
                fleet.start("--until-done")
            for worker in fleet.workers:
                assert await fleet.ended(worker) == 0, fleet.logs()
            assert nearby.counts()["done"] == pages
            assert_fleet_items(fleet, graph)
            hits = by_host(await site.hits())
    for host, requests in hits.items():
        times = [hit.arrived for hit in requests]
        assert not violations(times, rate=rate, burst=1, slack_s=CLOCK_SLACK), host
        middle = times[len(times) // 4 : len(times) * 3 // 4]  # a crawl starts and ends with few links
        achieved = (len(middle) - 1) / (middle[-1] - middle[0]) / rate
        print(f"{distance * 1000:g} ms, rate {rate:g}, {host}: {achieved:.0%} of the pace")
        assert achieved >= SHARE, host
