"""Best priority first, and a slow host never holds up the others."""

import random
from pathlib import Path

import msgspec
import pytest
from tests.e2e.command import shoal
from tests.graph_crawl import GraphCrawl
from tests.site.access_log import Hit
from tests.site.hub import Hub
from tests.site.server import serving
from tests.site.written import Sheet, serving_written

SPIDER = Path(__file__).parents[1] / "spiders" / "hub.py"
SLOW = 1  # host number
QUICK_HOSTS = range(2, 10)


async def leaves_asked_for(hub: Hub, folder: Path, *options: str) -> list[Hit]:
    """Crawl a hub and return the requests for its leaves, in order."""
    async with serving("tests.site.hub:build", msgspec.json.encode(hub).decode(), hosts=hub.hosts) as site:
        crawl = GraphCrawl(f"http://{site.authorities[0]}/", folder, ("--rate", "0", *options), SPIDER)
        ran = crawl.run()
        assert ran.code == 0, ran.err
        hits = [hit for hit in await site.hits() if hit.path.startswith("/leaf/")]
    assert len(hits) == len(hub.leaves)
    return hits


async def test_requests_go_out_by_priority_and_within_one_in_the_order_of_the_page(tmp_path: Path) -> None:
    rng = random.Random(5)
    priorities = [rng.randint(1, 10) for _ in range(200)]
    hub = Hub(hosts=1, leaves=[(0, priority) for priority in priorities])

    hits = await leaves_asked_for(hub, tmp_path, "--per-host", "1", "--concurrency", "1")

    numbers = [int(hit.path.removeprefix("/leaf/")) for hit in hits]
    assert numbers == sorted(range(200), key=lambda number: priorities[number])


async def test_hubs_are_fetched_ahead_of_deep_pagination_by_default(tmp_path: Path) -> None:
    deep = [f"/list?page={number}" for number in (250, 30, 4)]  # as far from the best order as can be
    books = [f"/book/{number}" for number in range(3)]
    hubs = [f"/category/{number}/" for number in range(3)]
    nothing = {path: Sheet() for path in (*deep, *books, *hubs)}
    anchors = "".join(f'<a href="{path}">{path}</a>' for path in (*deep, *books, *hubs))
    async with serving_written({"/": Sheet(anchors), **nothing}) as site:
        ran = shoal(
            *("crawl", f"http://{site.authorities[0]}/", "--allow-private", "--rate", "0", "--quiet"),
            *("--per-host", "1", "--concurrency", "1", "--no-robots"),
            cwd=tmp_path,
        )
        fetched = [hit.path for hit in await site.hits()]

    assert ran.code == 0, ran.err
    assert fetched == ["/", *hubs, *books, *reversed(deep)]


@pytest.mark.slow
async def test_a_slow_host_with_all_the_best_requests_does_not_slow_the_others_down(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    quick = [(host, 5) for _ in range(180) for host in QUICK_HOSTS]
    slow = [(SLOW, 1) for _ in range(60)]
    latency_s = {SLOW: 0.5}  # four at once: the slow host takes seven seconds and a half
    options = ("--per-host", "4", "--concurrency", "16")

    async def seconds_for_the_quick(folder: Path, leaves: list[tuple[int, int]]) -> float:
        hub = Hub(hosts=10, leaves=leaves, latency_s=latency_s)
        hits = await leaves_asked_for(hub, folder, *options)
        arrivals = [hit.arrived for hit in hits if not hit.host.startswith("127.0.1.2:")]
        return max(arrivals) - min(arrivals)

    alone = await seconds_for_the_quick(tmp_path_factory.mktemp("alone"), quick)
    together = await seconds_for_the_quick(tmp_path_factory.mktemp("together"), slow + quick)

    # A quarter of the slots sit on the slow host, so a third more time is fair; the rest is for a busy machine.
    assert together < 2 * alone + 1
