"""Workers that are killed over and over, with the allowed crashes that are the default: no page is blamed."""

import asyncio
import random
import time
from pathlib import Path

import pytest
from tests.adversary.size import sized
from tests.crash.fleet import judge
from tests.e2e.command import records
from tests.fleet_crawl import Fleet
from tests.graph_crawl import GraphCrawl, Moment, serving_graph
from tests.servers.redis import SYNCED, valkey
from tests.site.graph import Shape

from shoal.frontier.redis import RedisFrontier
from shoal.model.pace import Pace
from shoal.model.request import Link, Request
from shoal.redis_client import RedisClient
from shoal.stores.redis.lost_holders import LostHolders

PAGES, KILLS, WORKERS = sized(60, full=10_000), sized(4, full=300), 3
RATE = sized("6", full="0.4")  # requests per second and host: the hosts' pace is what limits the crawl
HOSTS = sized(6, full=50)
LEASE, PER_HOST = sized(5.0, full=120.0), sized("8", full="4")  # full size: the defaults


async def crawl(folder: Path, dsn: str, *, kills: int) -> float:
    """Crawl a graph while workers are killed; return the pages per second until the last kill."""
    await asyncio.to_thread(folder.mkdir)
    rng = random.Random(5)
    async with serving_graph(Shape(seed=5, pages=PAGES, hosts=HOSTS)) as (site, graph):
        with Fleet(dsn, folder, lease=LEASE) as fleet:
            assert fleet.submit(graph.start, "--rate", RATE, "--per-host", PER_HOST).code == 0
            workers = [fleet.start("--until-done") for _ in range(WORKERS)]
            await fleet.until_served(site, 10)
            began, first = time.monotonic(), await site.served()
            for _ in range(kills):
                await asyncio.sleep(rng.uniform(0.1, sized(0.5, full=3.1)))
                victim = rng.randrange(WORKERS)
                fleet.kill(workers[victim])
                workers[victim] = fleet.start("--until-done")
            if not kills:  # only the pace is wanted
                await fleet.until_served(site, PAGES // 5)
                return (await site.served() - first) / (time.monotonic() - began)
            rate = (await site.served() - first) / (time.monotonic() - began)
            ends = [await fleet.ended(worker, within=1800) for worker in workers]
            assert ends == [0] * WORKERS, fleet.logs()[-4000:]

            judge.assert_counted(fleet.counts(), graph.expected())  # nothing is dead
            judge.assert_items("JSONL", records(folder / "items.jsonl"), graph.expected().items)
            assert fleet.verify().code == 0
            return rate


@pytest.mark.timeout(3600)
async def test_no_page_is_blamed_for_workers_that_are_killed(tmp_path: Path) -> None:
    async with valkey(tmp_path / "server", *SYNCED) as server:
        disturbed = await crawl(tmp_path / "killed", f"{server.dsn}?namespace=killed", kills=KILLS)
        if sized(False, full=True):
            quiet = await crawl(tmp_path / "quiet", f"{server.dsn}?namespace=quiet", kills=0)
            print(f"{KILLS} kills on {PAGES} pages: {disturbed:.1f} pages/s, undisturbed {quiet:.1f}, "
                  f"ratio {disturbed / quiet:.2f}")  # fmt: skip


@pytest.mark.timeout(1800)
async def test_no_page_of_a_folder_is_blamed_for_a_process_that_is_killed(tmp_path: Path) -> None:
    shape = Shape(seed=9, pages=sized(100, full=5_000), hosts=5)
    async with serving_graph(shape) as (site, graph):
        options = ("--rate", "0", "--per-host", "8", "--concurrency", "64")
        killed = GraphCrawl(graph.start, tmp_path, options)
        kills = 0
        for number in range(sized(3, full=100)):
            served = min(5 + number * shape.pages // sized(8, full=120), shape.pages - 10)
            kills += await killed.run_and_kill(site, Moment(served))
        killed.run()
        assert kills >= sized(2, full=50)
        assert killed.counts()["dead"] == 0
        assert killed.counts()["done"] == len(graph.expected().pages)
        assert killed.verify().code == 0


async def test_leases_of_a_worker_without_a_heartbeat_are_reclaimed_when_its_requests_are_over(
    tmp_path: Path,
) -> None:
    """A process that is known to have ended has nothing on the wire: its leases are reclaimed at once."""
    clock = 1000.0
    async with valkey(tmp_path) as server, RedisClient.open(server.dsn, advise=False) as store:
        frontier = RedisFrontier(store)
        await frontier.crawls.open("c", pace=Pace(0.0, 1, 100))
        links = [Link.to(Request(url=f"http://{number}.example/")) for number in range(20)]
        await frontier.add("c", links)
        dead = (await frontier.lease(holder="dead", limit=10, ttl=600.0)).leases
        live = (await frontier.lease(holder="live", limit=5, ttl=600.0)).leases
        ended = (await frontier.lease(holder="ended", limit=5, ttl=600.0)).leases
        lost = LostHolders(store, clock=lambda: clock)

        async def look() -> int:
            return await lost.reclaim("live", ["live"], longest_s=65.0)

        beating = ["live", "ended"]  # the heartbeat of a worker outlives its process
        assert await lost.reclaim("live", beating, longest_s=65.0, ended=["ended"]) == len(ended)
        assert await look() == 0  # missed for the first time
        clock += 45.0
        assert await look() == 0  # the heartbeat is gone, a request may still be on the wire
        clock += 10.0
        assert await look() == len(dead)
        assert await look() == 0
        counts = await frontier.reader.counts("c")
        assert (counts.leased, counts.waiting) == (len(live), 15)
        assert counts.crashes == len(dead) + len(ended)
        another = RedisFrontier(store)
        await another.crawls.open("c")
        assert (await another.lease(holder="live", limit=1, ttl=60.0, crawls=["c"])).leases
        assert (await frontier.extend([*dead, *ended], 60.0)) == []  # fenced
        assert not (await frontier.reader.audit("c")).problems
