"""Many live crawls on two workers: all of them finish, within bounds, and none is behind a big one.

The big crawl is submitted first, and has more pages than all small ones together, twice as many in the cut. All
have the same weight. A fleet that shared fairly between two crawls alone, the big one and all small ones as one, would end
the last small one when the big one has half of its pages. Some of the small ones are submitted when the
workers have begun.

`make many-crawls` runs it with 1,200 crawls of 50 pages and prints what it took.
"""

import asyncio
import os
import time
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from tests.e2e.command import records
from tests.fleet_crawl import Fleet
from tests.graph_crawl import assert_same
from tests.servers.redis import RedisServer, valkey
from tests.site.server import ServedSite, serving

from shoal.engine.plan import CrawlPlan, Stop
from shoal.model.configuration.configure import SettingValue, configure
from shoal.parse.pool import ParsePool
from shoal.services.submit import submit_known
from shoal.spider.source import SpiderDescription, SpiderFile
from shoal.stores.open import open_store

CRAWLS = int(os.environ.get("MANY_CRAWLS", "40"))
PAGES = int(os.environ.get("MANY_CRAWLS_PAGES", "8"))
BIG = min(max(2 * CRAWLS * PAGES, 3_000), 90_000)  # pages of the big crawl; above 100,000 it would be a trap
HOSTS = 20  # that the crawls are on
SPIDERS = 5  # different ones; more than a worker keeps loaded
KEPT_SPIDERS, PROCESSES = 3, 4  # of a worker
LAST = max(3, CRAWLS // 100)  # crawls that are submitted last, when this many pages have been served:
SERVED = CRAWLS * PAGES // 4
MEMORY_BYTES = 1_500_000_000  # of both workers with their parse processes
WORKERS = 2

SPIDER = """
import shoal

spider = shoal.Spider("branch", start=["http://127.0.0.1:1/"])
NUMBER = {number}

@spider.page()
def page(page):
    yield {{"url": page.url, "spider": NUMBER}}
    yield page.links()
"""


@dataclass
class Bounds:
    """The most that was seen of the workers."""

    processes: int = 0
    memory_bytes: int = 0
    connections: int = 0
    samples: int = field(default=0, repr=False)

    async def watch(self, workers: Sequence[int], server: RedisServer) -> None:
        while True:
            found = [process for pid in workers for process in tree(pid)]
            self.processes = max(self.processes, len(found))
            self.memory_bytes = max(self.memory_bytes, sum(map(proportional_bytes, found)))
            lines = (await server.ask("CLIENT", "LIST")).split(b"\n")
            self.connections = max(self.connections, len([line for line in lines if line]))
            self.samples += 1
            await asyncio.sleep(1.0)


def tree(pid: int) -> Iterator[psutil.Process]:
    try:
        process = psutil.Process(pid)
        yield process
        yield from process.children(recursive=True)
    except psutil.NoSuchProcess:
        return


def proportional_bytes(process: psutil.Process) -> int:
    """Return the memory of a process, where pages that several share count in parts."""
    try:
        return int(process.memory_full_info().pss)
    except psutil.Error:
        return 0


def size_of(name: str) -> int:
    return BIG if name == "big" else PAGES


def start_of(site: ServedSite, name: str) -> str:
    host = 0 if name == "big" else int(name[1:]) % HOSTS
    return f"http://{site.authorities[host]}/{name}/{size_of(name)}/"


class Submissions:
    """Crawls of a few spiders, submitted to one store."""

    def __init__(self, server: RedisServer, site: ServedSite, folder: Path) -> None:
        given = {"crawl.allow_private": True, "crawl.rate": 0.0, "crawl.per_host": 64, "store": server.dsn}
        self._settings = configure(SettingValue(key, value, key) for key, value in given.items())
        self._site, self._folder = site, folder
        self._spiders: list[tuple[SpiderFile, SpiderDescription]] = []

    async def load_spiders(self) -> None:
        for number in range(SPIDERS):
            path = self._folder / f"spider{number}.py"
            path.write_text(SPIDER.format(number=number))
            source = SpiderFile(str(path))
            async with ParsePool.open(source, procs=1, limits=self._settings.parse) as pool:
                self._spiders.append((source, pool.description))

    async def submit(self, names: Sequence[str]) -> None:
        async with open_store(self._settings.store, create=True) as store:
            for number, name in enumerate(names):
                source, spider = self._spiders[number % SPIDERS]
                plan = CrawlPlan(
                    source=source,
                    settings=self._settings,
                    name=name,
                    seeds=(start_of(self._site, name),),
                    outputs=(str(self._folder / f"out/{name}.jsonl"),),
                )
                await submit_known(store, plan, spider, Stop())


@pytest.mark.timeout(3600)
async def test_many_crawls_finish_within_bounds_and_none_is_behind_a_big_one(tmp_path: Path) -> None:
    async with (
        valkey(tmp_path / "server") as server,
        serving("tests.site.branches:build", "", hosts=HOSTS) as site,
    ):
        names = ["big", *(f"c{number}" for number in range(CRAWLS))]
        submissions = Submissions(server, site, tmp_path)
        await submissions.load_spiders()
        await submissions.submit(names[:-LAST])
        settings = {"SHOAL_WORKER_MAX_SPIDERS": str(KEPT_SPIDERS), "SHOAL_WORKER_PROCS": str(PROCESSES)}
        fleet = Fleet(server.dsn, tmp_path, settings=settings)
        began = time.monotonic()
        workers = [fleet.start("--until-done") for _ in range(WORKERS)]
        bounds = Bounds()
        watching = asyncio.create_task(bounds.watch([worker.pid for worker in workers], server))
        try:
            await fleet.until_served(site, SERVED, within=3000)
            await submissions.submit(names[-LAST:])
            codes = [await fleet.ended(worker, within=3000) for worker in workers]
        finally:
            watching.cancel()
            for worker in workers:
                worker.kill()
        took = time.monotonic() - began
        served = await requests_by_crawl(site)

    logs = "".join((tmp_path / f"worker-{number}.log").read_text()[-2000:] for number in range(WORKERS))
    assert codes == [0] * WORKERS, logs
    for name in names:
        found = [record["url"] for record in records(tmp_path / f"out/{name}.jsonl")]
        assert_same(name, found, pages_of(site, name))
    small_end = max(served[name][-1] for name in names[1:])
    of_big = bisect_right(served["big"], small_end)
    print(
        f"{CRAWLS} crawls of {PAGES} pages and one of {BIG} in {took:.0f} s: {bounds};"
        f" the big one had {of_big} pages when the last small one had all"
    )
    assert bounds.samples
    assert bounds.processes <= WORKERS * (1 + 2 * (KEPT_SPIDERS + PROCESSES + 1))  # with their init processes
    assert bounds.memory_bytes <= MEMORY_BYTES
    assert bounds.connections <= 200
    late = [name for name in names[1:] if served[name][-1] > served["big"][-1]]
    assert late == []


def pages_of(site: ServedSite, name: str) -> list[str]:
    start = start_of(site, name)
    return [start, *(f"{start}{number}" for number in range(1, size_of(name)))]


async def requests_by_crawl(site: ServedSite) -> dict[str, list[float]]:
    """Return by crawl when its pages were asked for, in order."""
    arrived: dict[str, list[float]] = defaultdict(list)
    for hit in await site.hits():
        arrived[hit.path.split("/")[1]].append(hit.arrived)
    return {name: sorted(times) for name, times in arrived.items()}
