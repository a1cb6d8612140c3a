"""Blocks for hosts: applied when a crawl is opened, and taken back when they are gone."""

from pathlib import Path

from shoal.frontier.sqlite import SqliteFrontier
from shoal.model.request import Link, Request
from shoal.model.settings import CrawlSettings, HostSettings, Settings
from shoal.runtime.host_blocks import apply_blocks
from shoal.runtime.wiring import pace_of


async def pace_under(path: Path, settings: Settings) -> dict[str, tuple[float, int, int]]:
    async with SqliteFrontier.open(path) as frontier:
        await frontier.open_crawl("c", pace=pace_of(settings.crawl))
        await apply_blocks(frontier, "c", settings)
        await frontier.add("c", [Link.to(Request(url=f"http://{host}/")) for host in ("a.test", "b.test")])
        return {view.host: (view.interval, view.burst, view.concurrency) for view in await frontier.hosts()}


async def test_a_block_sets_the_pace_of_its_host_and_its_end_gives_the_crawls_own_back(
    tmp_path: Path,
) -> None:
    path = tmp_path / "store.db"
    crawl = CrawlSettings(rate=4.0, burst=2, per_host=3)
    block = {"a.test": HostSettings(rate=0.5, per_host=1), "b.test": HostSettings(headers={"X": "y"})}

    assert await pace_under(path, Settings(crawl=crawl, hosts=block)) == {
        "a.test": (2.0, 2, 1),
        "b.test": (0.25, 2, 3),
    }
    faster = CrawlSettings(rate=10.0)
    assert await pace_under(path, Settings(crawl=faster)) == {"a.test": (0.1, 1, 4), "b.test": (0.1, 1, 4)}


async def test_a_rate_of_nothing_is_no_limit(tmp_path: Path) -> None:
    settings = Settings(hosts={"a.test": HostSettings(rate=0.0)})
    assert (await pace_under(tmp_path / "store.db", settings))["a.test"][0] == 0.0
