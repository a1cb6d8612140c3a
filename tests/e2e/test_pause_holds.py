"""`shoal pause` and `shoal host pause` hold when they return: by the log of the site."""

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.e2e.command import records, shoal, started
from tests.fleet_crawl import Fleet
from tests.graph_crawl import POLL, SPIDER, serving_graph
from tests.servers.redis import valkey
from tests.site.graph import Shape
from tests.site.server import ServedSite

ON_THE_WIRE_S = 0.1  # a request that was sent before may be logged so much later on a busy machine
WATCHED_S = 1.0
PAGES = 1_200
HOSTS = 6


@dataclass
class Running:
    folder: Path
    env: Mapping[str, str] = field(default_factory=dict)

    def command(self, *arguments: str) -> None:
        ran = shoal(*arguments, cwd=self.folder, env=self.env)
        assert ran.code == 0, ran.err


@asynccontextmanager
async def running(kind: str, start: str, folder: Path, *options: str) -> AsyncIterator[Running]:
    """Run a crawl in a folder, or by the workers of a fleet."""
    usual = ("--allow-private", "--any-host", "--out", "items.jsonl", *options)
    if kind == "folder":
        with started("crawl", str(SPIDER), start, *usual, "--quiet", cwd=folder):
            yield Running(folder)
        return
    async with valkey(folder) as server:
        with Fleet(server.dsn, folder) as fleet:
            assert fleet.submit(start, *options).code == 0
            for _ in range(2):
                fleet.start()
            yield Running(folder, fleet.env)


async def until_served(site: ServedSite, pages: int) -> None:
    async with asyncio.timeout(60):
        while await site.served() < pages:  # noqa: ASYNC110 - the site is another process
            await asyncio.sleep(POLL)


@pytest.mark.parametrize("kind", ["folder", "fleet"])
@pytest.mark.parametrize("rate", ["8", "0"])
async def test_no_request_leaves_after_a_pause_has_returned(kind: str, rate: str, tmp_path: Path) -> None:
    shape = Shape(pages=PAGES, hosts=HOSTS, links=8, latency_s=dict.fromkeys(range(HOSTS), 0.1))
    async with serving_graph(shape) as (site, graph):
        async with running(kind, graph.start, tmp_path, "--rate", rate, "--per-host", "2") as crawl:
            await until_served(site, 60)
            paused_host = site.authorities[1]
            crawl.command("host", "pause", paused_host)
            host_paused_at = time.time()
            await asyncio.sleep(WATCHED_S / 2)
            crawl.command("pause")
            paused_at = time.time()
            await asyncio.sleep(WATCHED_S)
            late = [hit for hit in await site.hits() if hit.arrived > paused_at + ON_THE_WIRE_S]
            at_host = [
                hit
                for hit in await site.hits()
                if hit.host == paused_host and hit.arrived > host_paused_at + ON_THE_WIRE_S
            ]
            before = await site.served()
            assert (late, at_host) == ([], [])
            assert before < PAGES  # there was something to hold back
            crawl.command("host", "resume", paused_host)
            crawl.command("resume")
            await until_served(site, before + 5)
    assert records(tmp_path / "items.jsonl")
