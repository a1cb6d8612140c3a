"""Pages on request: the pace of a host holds between the servers of a fleet."""

import asyncio
import time
from itertools import pairwise
from pathlib import Path

from tests.servers.redis import valkey
from tests.site.raw import OK, Peer, raw_server

from shoal.model.request import Request
from shoal.model.settings import CrawlSettings, Settings
from shoal.services.scraping.scrape import Scraper


async def test_two_servers_of_a_fleet_keep_one_pace(tmp_path: Path) -> None:
    arrived: list[float] = []

    async def answer(peer: Peer) -> None:
        while True:
            await peer.request()
            arrived.append(time.monotonic())
            await peer.send(OK)

    async with valkey(tmp_path / "valkey") as store, raw_server(answer) as site:
        crawl = CrawlSettings(allow_private=True, rate=4.0, robots=False)
        settings = Settings(store=store.dsn, crawl=crawl)
        async with Scraper.open(settings) as one, Scraper.open(settings) as two:
            fetches = [
                scraper.fetch(Request(url=site.url(f"/{number}")), settings)
                for number in range(3)
                for scraper in (one, two)
            ]
            async with asyncio.timeout(20):
                await asyncio.gather(*fetches)
    assert len(arrived) == 6
    assert min(after - before for before, after in pairwise(arrived)) > 0.24
