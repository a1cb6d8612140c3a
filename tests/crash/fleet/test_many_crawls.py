"""Many live crawls on two workers: all of them finish, within bounds, and none is behind a big one.

`make many-crawls` runs it with 1,200 crawls of 50 pages and prints what it took.
"""

import asyncio
import os
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest
from tests.fleet_crawl import Fleet
from tests.servers.redis import RedisServer, valkey
from tests.site.server import ServedSite, serving

from shoal.engine.plan import CrawlPlan, Stop
from shoal.model.configuration.configure import SettingValue, configure
from shoal.parse.pool import ParsePool
from shoal.services.submit import submit_known
from shoal.spider.source import SpiderFile
from shoal.stores.open import open_store

CRAWLS = int(os.environ.get("MANY_CRAWLS", "40"))
PAGES = int(os.environ.get("MANY_CRAWLS_PAGES", "8"))
BIG = min(2 * CRAWLS * PAGES, 10_000)  # pages of the big crawl
SPIDERS = 5  # different ones; more than a worker keeps loaded
KEPT_SPIDERS, PROCESSES = 3, 4  # of a worker
LAST = max(3, CRAWLS // 100)  # crawls that are submitted last
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


async def submit_all(server: RedisServer, site: ServedSite, folder: Path) -> list[str]:
    """Submit the big crawl, then the small ones; return their names in that order."""
    names = ["big", *(f"c{number}" for number in range(CRAWLS))]
    given = {"crawl.allow_private": True, "crawl.rate": 0.0, "crawl.per_host": 64, "store": server.dsn}
    settings = configure(SettingValue(key, value, key) for key, value in given.items())
    async with open_store(server.dsn, create=True) as store:
        sources = []
        for number in range(SPIDERS):
            path = folder / f"spider{number}.py"
            path.write_text(SPIDER.format(number=number))
            async with ParsePool.open(SpiderFile(str(path)), procs=1, limits=settings.parse) as pool:
                sources.append((SpiderFile(str(path)), pool.description))
        for number, name in enumerate(names):
            source, spider = sources[number % SPIDERS]
            size = BIG if name == "big" else PAGES
            plan = CrawlPlan(
                source=source,
                settings=settings,
                name=name,
                seeds=(f"http://{site.authorities[0]}/{name}/{size}/",),
                outputs=(str(folder / f"out/{name}.jsonl"),),
            )
            await submit_known(store, plan, spider, Stop())
    return names


@pytest.mark.timeout(3600)
async def test_many_crawls_finish_within_bounds_and_none_is_behind_a_big_one(tmp_path: Path) -> None:
    async with (
        valkey(tmp_path / "server") as server,
        serving("tests.site.branches:build", "", hosts=1) as site,
    ):
        names = await submit_all(server, site, tmp_path)
        settings = {"SHOAL_WORKER_MAX_SPIDERS": str(KEPT_SPIDERS), "SHOAL_WORKER_PROCS": str(PROCESSES)}
        fleet = Fleet(server.dsn, tmp_path, settings=settings)
        began = time.monotonic()
        workers = [fleet.start("--until-done") for _ in range(WORKERS)]
        bounds = Bounds()
        watching = asyncio.create_task(bounds.watch([worker.pid for worker in workers], server))
        try:
            codes = [await fleet.ended(worker, within=3000) for worker in workers]
        finally:
            watching.cancel()
            for worker in workers:
                worker.kill()
        took = time.monotonic() - began
        finished = await last_requests(site)

    logs = "".join((tmp_path / f"worker-{number}.log").read_text()[-2000:] for number in range(WORKERS))
    assert codes == [0] * WORKERS, logs
    lines = {name: (tmp_path / f"out/{name}.jsonl").read_text().splitlines() for name in names}
    assert {name: len(set(found)) for name, found in lines.items()} == {
        name: BIG if name == "big" else PAGES for name in names
    }
    assert all(len(set(found)) == len(found) for found in lines.values())
    print(f"{CRAWLS} crawls of {PAGES} pages and one of {BIG} in {took:.0f} s: {bounds}")
    assert bounds.samples
    assert bounds.processes <= WORKERS * (1 + 2 * (KEPT_SPIDERS + PROCESSES + 1))  # with their init processes
    assert bounds.memory_bytes <= MEMORY_BYTES
    assert bounds.connections <= 200
    late = [name for name in names[-LAST:] if finished[name] > finished["big"]]
    assert late == []


async def last_requests(site: ServedSite) -> dict[str, float]:
    """Return by crawl when its last page was asked for."""
    last: dict[str, float] = defaultdict(float)
    for hit in await site.hits():
        last[hit.path.split("/")[1]] = max(last[hit.path.split("/")[1]], hit.arrived)
    return last
