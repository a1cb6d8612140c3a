"""A store on Redis or Valkey: no process owns it, any number of workers serve its crawls.

Both steps of deleting a crawl (its record, then its data) can be repeated: a command that was killed between
them is run again.
"""

import asyncio
import logging
import os
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import replace
from functools import partial

import msgspec

from shoal.archive.names import file_name
from shoal.archive.registry import crawl_location
from shoal.fetch.escalation.browser_budget import delete_spent
from shoal.fetch.exits.ledger import delete_spending
from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.repair import repair_crawls
from shoal.frontier.results import Audit, Counts, HostView
from shoal.model import crawl_totals as sums
from shoal.model.errors import Misconfigured, ShoalError, Unavailable
from shoal.model.quarantine import QuarantinedEntry
from shoal.model.spider_versions import Reparse
from shoal.model.yields.counts import DROPPED, NO_DATA, is_count, load_drops
from shoal.redis_client import RedisClient, key_names
from shoal.redis_client.quarantine import NO_CRAWL, Quarantine
from shoal.redis_client.servers import Connect
from shoal.sinks.fleet import progress as sink_progress
from shoal.sinks.fleet.writer import item_streams
from shoal.sinks.names import public_name
from shoal.spider.arguments import ARGUMENTS, read_arguments
from shoal.stores.contract.changes import DirectChanges, StoreChanges
from shoal.stores.contract.crawl_record import LOCAL_FOLDER, CrawlRecord
from shoal.stores.contract.fleet import Fleet
from shoal.stores.contract.footprint import CrawlFootprint
from shoal.stores.contract.heartbeat import Heartbeat
from shoal.stores.contract.monitoring import StoreRoom
from shoal.stores.contract.places import NO_SERVERS, Places
from shoal.stores.contract.store import Capabilities, OutputState, Stay, WorkingStore, require_crawl
from shoal.stores.redis.crawls import Crawls
from shoal.stores.redis.damage import DamageCheck
from shoal.stores.redis.exits import RedisExitRecords
from shoal.stores.redis.levels import RedisLevels
from shoal.stores.redis.lost_holders import LostHolders
from shoal.stores.redis.monitoring import RedisMonitoring
from shoal.stores.redis.page_quota import SharedPageQuota
from shoal.stores.redis.pages import RedisPages
from shoal.stores.redis.site_budget import SharedSiteBudget
from shoal.stores.redis.workers import Workers

log = logging.getLogger(__name__)

CAPABILITIES = Capabilities(shared=True, durable=True, page_records=False)
RELEASE_TIMEOUT_S = 30.0  # for workers to leave a paused crawl that is being deleted


class RedisStore:
    """See `Store`."""

    capabilities = CAPABILITIES

    def __init__(
        self, client: RedisClient, dsn: str, *, address: str = "", places: Places = NO_SERVERS
    ) -> None:
        self.address = address or str(client.dsn)
        frontier = RedisFrontier(client)
        self.frontier = frontier.reader
        self.crawls = RedisCrawlRecords(client)
        self.workers = RedisWorkers(client)
        self.outputs = RedisOutputs(client, places)
        self.fleet = Fleet(
            dsn,
            client,
            frontier,
            Crawls(client),
            Workers(client),
            partial(SharedPageQuota, client),
            partial(SharedSiteBudget, client),
            self.outputs.unwritten_pages,
            DamageCheck(frontier),
            LostHolders(client),
            RedisExitRecords(client),
            RedisLevels(client),
        )
        self.exits = self.fleet.exits
        self.levels = self.fleet.levels
        self.api_records = RedisExitRecords(client, key_names.api_records, replicated=True)
        self.schedules = RedisExitRecords(client, key_names.schedules, replicated=True)
        self.monitoring = RedisMonitoring(client)
        self._client = client

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        dsn: str,
        *,
        address: str = "",
        advise: bool = False,
        places: Places = NO_SERVERS,
        connect: Connect | None = None,
        shards: int | None = None,
    ) -> AsyncIterator["RedisStore"]:
        """Connect; `advise` logs settings of the server that put data at risk.

        `connect`, `shards`: see `RedisClient.open`.
        """
        async with RedisClient.open(dsn, advise=advise, connect=connect, shards=shards) as client:
            yield cls(client, dsn, address=address, places=places)

    async def room(self) -> StoreRoom:
        return await self.monitoring.room()

    async def host(self, name: str) -> HostView | None:
        return await self.frontier.host(name)

    async def archive_of(self, crawl: str) -> RedisPages:
        return RedisPages(self._client, crawl, await self.crawls.record(crawl))

    async def quarantined(self, crawl: str | None) -> Sequence[QuarantinedEntry]:
        number = NO_CRAWL if crawl is None else await self.frontier.number(crawl)
        return await Quarantine(self._client).entries(number)

    async def repair(self, crawls: Sequence[str]) -> list[str]:
        return await repair_crawls(self.fleet.frontier, crawls, self._archived)

    async def _archived(self, crawl: str) -> Mapping[str, Sequence[int]]:
        """Return, by shard, the fingerprints of the pages that the archive of a crawl holds."""
        record = await self.crawls.record(crawl)
        # After `--fresh` the archive also has pages that this generation has not seen.
        if record is None or record.overwrite:
            return {}
        found: dict[str, set[int]] = {}
        with suppress(ShoalError):
            async for host, fingerprint in (await self.archive_of(crawl)).fingerprints():
                found.setdefault(self._client.tag_of(host), set()).add(fingerprint)
        return {tag: sorted(fingerprints) for tag, fingerprints in found.items()}

    @asynccontextmanager
    async def change(self, crawls: Sequence[str] = ()) -> AsyncIterator[StoreChanges]:
        self._client.on_damage(self.fleet.damage)
        frontier = RedisFrontier(self._client)
        for name in crawls:
            await frontier.crawls.open(name)
        yield RedisChanges(frontier)
        await self.fleet.crawls.announce()

    def work(
        self, *, fsync: bool = False, stay: Stay | None = None
    ) -> AbstractAsyncContextManager[WorkingStore]:
        raise Misconfigured(f"{self.address} is shared: no process can own it")


class RedisChanges(DirectChanges):
    """See `StoreChanges`."""

    def __init__(self, frontier: RedisFrontier) -> None:
        super().__init__(frontier)
        self._open_crawl = frontier.crawls.open
        self._pauses = frontier.pauses

    async def pause(self, crawl: str) -> None:
        await super().pause(crawl)
        await self._pauses.wait_until_held()

    async def set_host(
        self,
        host: str,
        *,
        interval: float | None = None,
        concurrency: int | None = None,
        rest_until: float | None = None,
        paused: bool | None = None,
    ) -> HostView:
        view = await super().set_host(
            host, interval=interval, concurrency=concurrency, rest_until=rest_until, paused=paused
        )
        if paused or rest_until:
            await self._pauses.wait_until_held(host)
        return view

    async def note_reparse(self, crawl: str, reparse: Reparse) -> None:
        await self._open_crawl(crawl)  # the frontier writes values only of crawls that are open
        await super().note_reparse(crawl, reparse)


class RedisWorkers:
    """See `StoreWorkers`."""

    def __init__(self, client: RedisClient) -> None:
        self.all = Workers(client).all

    def owner(self) -> str | None:
        return None


class RedisOutputs:
    """See `StoredOutputs`."""

    def __init__(self, client: RedisClient, places: Places = NO_SERVERS) -> None:
        self._client = client
        self._places = places
        self._crawls = Crawls(client)
        self._reader = RedisFrontier(client).reader

    async def progress(self, crawl: str) -> Mapping[str, OutputState]:
        record = await self._crawls.get(crawl)
        number = await self._reader.number(crawl)
        current = {public_name(output): output for output in (() if record is None else record.outputs)}
        found = {name: await self._progress(number, output) for name, output in current.items()}
        for name in await sink_progress.ever_written(self._client, number):
            if name not in current:  # an output that the crawl no longer has: no more items will come
                found[name] = replace(await self._progress(number, name), waiting=0)
        return found

    async def _progress(self, number: int, output: str) -> OutputState:
        node = os.uname().nodename
        refusal = self._places.read_refusal(output)
        found = await sink_progress.output_progress(self._client, number, output, node=node, refusal=refusal)
        return OutputState(found.waiting, found.held, found.why, found.problem)

    async def rejects(self, crawl: str) -> Mapping[str, OutputState]:
        return {}  # each worker has a file, for people; nothing keeps track of them

    async def unwritten_pages(self, crawl: str) -> int:
        return await item_streams(self._client, await self._reader.number(crawl)).length()


class RedisCrawlRecords:
    """See `StoredCrawls`."""

    def __init__(self, client: RedisClient) -> None:
        self._client = client
        self._frontier = RedisFrontier(client)
        self._reader = self._frontier.reader
        self._records = Crawls(client)
        self._workers = Workers(client)
        self._outputs = RedisOutputs(client)
        self.names = self._reader.crawls
        self.record = self._records.get
        self.records = self._records.all

    async def arguments(self, crawl: str) -> Mapping[str, str]:
        return read_arguments(await self._reader.value(crawl, ARGUMENTS))

    async def totals(self, crawl: str) -> sums.CrawlTotals:
        values = await self._reader.values(crawl)
        parts = []
        for key, value in values.items():
            if key.startswith(sums.PART):
                try:
                    parts.append(sums.CrawlTotals.load(value))
                except msgspec.DecodeError as error:
                    about = {"crawl": crawl, "entry": key, "bytes": len(value), "why": str(error)}
                    log.error("totals.unreadable", extra=about)
        # Earlier versions counted in the part of each worker; now parts have closed patterns alone.
        totals = sums.total(parts)
        totals.release(sums.load_released(values.get(sums.RELEASED)))
        stored = await self._reader.totals(crawl)
        totals.add(stored)
        totals.add_counts({name: number for name, number in stored.items() if is_count(name)})
        totals.dropped = load_drops(values.get(DROPPED))
        totals.no_data = values.get(NO_DATA, b"").decode(errors="replace")
        return totals

    async def check(self) -> list[str]:
        names = await self.names()
        found = await self._records.read()
        records = [record.name for record in found.records]
        numbers = await self._frontier.crawls.unlisted()
        return [
            *(f"crawl {name!r}: {why}" for name, why in found.refused.items()),
            *(
                f"crawl {name!r} was submitted, but its queue is lost: submit it again"
                for name in records
                if name not in names
            ),
            *(f"the store has data of a crawl whose name is lost (number {number})" for number in numbers),
        ]

    async def audit(self, crawl: str) -> Audit:
        found = await self._reader.audit(crawl)
        record: CrawlRecord | str | None = ""
        with suppress(Misconfigured):  # it cannot be used, which `check` reports
            record = await self.record(crawl)
        if record is None:
            missing = (
                "it has no record: its submission was interrupted, or the record is lost; submit it again"
            )
            found = replace(found, problems=[*found.problems, missing])
        if not found.problems or not await self._workers.all():
            return found
        # Shards are read at different instants and may disagree while workers run: only what two audits
        # report in the same words is a problem.
        again = await self._reader.audit(crawl)
        problems = [line for line in again.problems if line in found.problems]
        return Audit(again.counts, problems, again.lost if problems else 0)

    async def footprint(self, crawl: str) -> CrawlFootprint:
        record = None
        with suppress(Misconfigured):  # what cannot be used can still be deleted
            record = await self.record(crawl)
        if record is None:
            require_crawl(crawl, await self.names())
        written = [] if record is None else list(map(public_name, record.outputs))
        counts, unwritten = Counts(), 0
        with suppress(Misconfigured):  # only its record is there
            counts = await self._reader.counts(crawl)
            unwritten = await self._outputs.unwritten_pages(crawl)
            written += await sink_progress.ever_written(self._client, await self._reader.number(crawl))
        await self._refuse_if_worked_on(crawl)
        return CrawlFootprint(
            crawl,
            counts.accepted,
            counts.open,
            counts.dead,
            tuple(dict.fromkeys(map(public_name, written))),
            _archive(crawl, record),
            scattered=record is not None and not record.archive_location,
            unwritten=unwritten,
        )

    async def delete(self, crawl: str) -> None:
        """Delete a crawl: first its record, so that workers leave it in good order, then its data.

        A worker that does not leave in time (its process is stopped) is refused by the store when it returns.
        """
        await self._refuse_if_worked_on(crawl)
        await self._records.delete(crawl)
        await self._records.announce()
        with suppress(TimeoutError):
            async with asyncio.timeout(RELEASE_TIMEOUT_S):
                while serves(crawl, await self._workers.all()):  # noqa: ASYNC110 (other processes end this)
                    await asyncio.sleep(0.2)
        await self._frontier.crawls.delete(crawl, entirely=True)
        await delete_spending(RedisExitRecords(self._client), crawl)
        await delete_spent(RedisLevels(self._client), crawl)
        await self._records.announce()  # so that no worker keeps pages of the crawl
        await self._client.sync()

    async def _refuse_if_worked_on(self, crawl: str) -> None:
        paused = crawl in await self.names() and await self._reader.paused(crawl)
        if busy := busy_workers(crawl, await self._workers.all(), paused=paused):
            who = f"{len(busy)} {'worker' if len(busy) == 1 else 'workers'} ({', '.join(busy)})"
            how = "wait until they have finished their pages" if paused else f"run shoal pause {crawl} first"
            raise Unavailable(f"crawl {crawl!r} is being worked on by {who}: {how}, or stop them")


def busy_workers(crawl: str, workers: Iterable[Heartbeat], *, paused: bool) -> list[str]:
    """Return the workers that are busy with a crawl; with a paused one, those that have pages in progress."""
    return [
        worker.worker
        for worker in workers
        if any(at.crawl == crawl and (not paused or at.in_flight or at.parsing) for at in worker.crawls)
        or any(at.crawl == crawl and at.doing == "writing" for at in worker.outputs)
    ]


def serves(crawl: str, workers: Iterable[Heartbeat]) -> bool:
    """Return whether any worker still has a crawl open, even if it only waits."""
    return any(
        crawl in (*(at.crawl for at in worker.crawls), *(at.crawl for at in worker.outputs))
        for worker in workers
    )


def _archive(crawl: str, record: CrawlRecord | None) -> str:
    if record is None:
        return ""
    location = record.archive_location
    return crawl_location(location, crawl) if location else f"{LOCAL_FOLDER}/archive/{file_name(crawl)}"
