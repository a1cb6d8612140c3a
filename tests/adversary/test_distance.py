"""A fleet far from its store: slower by the delay at most, never stopped, and as polite as nearby."""

import time
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
CASES = sized(
    [(0.03, 10.0, 60, 2, 2), (0.3, 10.0, 50, 2, 2), (0.3, 2.0, 12, 2, 2)],
    full=[
        (distance, rate, pages, 2, 3)
        for distance in (0.0, 0.005, 0.03, 0.1, 0.3)
        for rate, pages in ((10.0, 400), (2.0, 80))
    ],
)
SHARE = 0.7  # of the pace of the host


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
            assert fleet.submit(graph.start, "--rate", f"{rate:g}").code == 0
            for _ in range(workers):
                fleet.start("--until-done")
            began = time.monotonic()
            for worker in fleet.workers:
                assert await fleet.ended(worker) == 0, fleet.logs()
            print(f"took {time.monotonic() - began:.1f} s")
            assert fleet.counts()["done"] == pages
            assert_fleet_items(fleet, graph)
            hits = by_host(await site.hits())
            print(fleet.logs())
    for host, requests in hits.items():
        times = [hit.arrived for hit in requests]
        achieved = (len(times) - 1) / (times[-1] - times[0]) / rate
        print(f"{distance * 1000:g} ms {host}: {len(times)} requests, {achieved:.0%} of the pace")
        assert not violations(times, rate=rate, burst=1, slack_s=CLOCK_SLACK), host
        assert achieved >= SHARE, host
