"""The state of a store in messages of bounded size: crawls page by page, and snapshots for a screen."""

import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

import msgspec

from shoal.model.api.crawls import CrawlInfo, CrawlPage, StoreSnapshot, WorkerList
from shoal.services.inspect.finished import has_finished
from shoal.services.inspect.monitor import Overview, ReadHosts, StoreMonitor
from shoal.services.inspect.status import CrawlStatus, FleetStatus, StoreStatus, read_crawl, read_stages
from shoal.services.inspect.status_json import crawl_json, overview_json, workers_json
from shoal.sinks.names import public_name
from shoal.stores.contract.store import Store, require_crawl
from shoal.stores.open import open_store, public_address, store_exists

MAX_CRAWLS = 100  # in a snapshot; those with most work left
MAX_WORKERS = 200


async def list_crawls(dsn: str, *, after: str, limit: int) -> CrawlPage:
    """Return the crawls whose names come after `after`, by name."""
    if not store_exists(dsn):
        return CrawlPage(crawls=[])
    async with open_store(dsn) as store:
        names = sorted(name for name in await store.crawls.names() if name > after)
        crawls = [await _read_crawl(store, name) for name in names[:limit]]
    return CrawlPage(crawls=crawls, next_cursor=names[limit - 1] if len(names) > limit else None)


async def show_crawl(dsn: str, name: str) -> CrawlInfo:
    async with open_store(dsn) as store:
        require_crawl(name, await store.crawls.names())
        return await _read_crawl(store, name)


async def _read_crawl(store: Store, name: str) -> CrawlInfo:
    crawl = await read_crawl(store, name)
    fleet = None
    if store.capabilities.shared:
        record = await store.crawls.record(name)
        outputs = () if record is None else tuple(map(public_name, record.outputs))
        fleet = FleetStatus((), {name: await read_stages(store, crawl)}, {name: outputs})
    finished = await has_finished(store, name)
    return msgspec.convert({**crawl_json(crawl, fleet), "finished": finished}, CrawlInfo)


async def list_workers(dsn: str) -> WorkerList:
    if not store_exists(dsn):
        return WorkerList(owner=None, workers=[])
    async with open_store(dsn) as store:
        workers = await store.workers.all() if store.capabilities.shared else ()
        found = workers_json(FleetStatus(workers, {}, {}))
        return msgspec.convert({"owner": store.workers.owner(), "workers": found}, WorkerList)


class StoreSnapshots:
    def __init__(self, monitor: StoreMonitor) -> None:
        self._monitor = monitor

    async def read(self) -> StoreSnapshot:
        return snapshot_of(await self._monitor.look())


@asynccontextmanager
async def open_snapshots(dsn: str, read_hosts: ReadHosts) -> AsyncIterator[StoreSnapshots]:
    """Open a store for repeated reading on one connection."""
    async with open_store(dsn) as store:
        yield StoreSnapshots(StoreMonitor.of(store, read_hosts))


async def read_snapshot(dsn: str, read_hosts: ReadHosts) -> StoreSnapshot:
    """Read a store once; one that does not exist yet is empty."""
    if not store_exists(dsn):
        return StoreSnapshot(
            store=public_address(dsn), at=time.time(), running=False, crawls=[], crawls_total=0
        )
    async with open_snapshots(dsn, read_hosts) as reader:
        return await reader.read()


def snapshot_of(overview: Overview) -> StoreSnapshot:
    """Return an overview with at most so many crawls and workers, the busiest first."""
    status = overview.status
    crawls = busiest(status.crawls)
    workers = () if status.fleet is None else status.fleet.workers
    found = overview_json(replace(overview, status=_shortened(status, crawls)))
    return msgspec.convert(
        {**found, "crawls_total": len(status.crawls), "workers_total": len(workers)}, StoreSnapshot
    )


def _shortened(status: StoreStatus, crawls: Sequence[CrawlStatus]) -> StoreStatus:
    fleet = status.fleet
    if fleet is not None:
        fleet = FleetStatus(fleet.workers[:MAX_WORKERS], fleet.stages, fleet.outputs)
    return replace(status, crawls=crawls, fleet=fleet)


def busiest(crawls: Sequence[CrawlStatus]) -> list[CrawlStatus]:
    """Return the crawls with most requests left, then those with most requests at all."""

    def rank(crawl: CrawlStatus) -> tuple[int, int]:
        left = sum(crawl.counts[state] for state in ("waiting", "delayed", "leased", "parsing"))
        return (-left, -crawl.accepted)

    return sorted(crawls, key=rank)[:MAX_CRAWLS]


async def store_answers(dsn: str) -> bool:
    """Return True if a store can be read; one that does not exist yet is made by the first crawl."""
    if store_exists(dsn):
        async with open_store(dsn) as store:
            await store.crawls.names()
    return True
