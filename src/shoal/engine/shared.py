"""A crawl that the workers of a fleet run together: what one of them does.

- Deadlines of leases are on the store's clock.
- A page stays leased to the worker that has its body: another one would have to read it from the archive.
- Other workers may hold leases when this one holds none: what is left is counted only when the frontier has
  nothing to wait for.
- Each worker has its cookies; the scope grows with the hosts that are queued.
- The outputs are written by the workers that were elected for that, and each worker archives to segments of
  its own name. So nothing here is undone after a crash: what was archived and not settled remains as bytes
  that nothing refers to.
"""

import math
import os
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AbstractContextManager, asynccontextmanager, nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Protocol

import msgspec

from shoal.archive.names import file_name
from shoal.archive.registry import open_segments
from shoal.archive.writer import ArchiveWriter
from shoal.engine.commit import PageBus
from shoal.engine.crawl_options import frontier_options, new_crawl_state
from shoal.engine.fetchers import open_ledger
from shoal.engine.outputs import OutputCommit, Run, StreamedOutputs
from shoal.engine.scope_state import ScopeState
from shoal.engine.session import OpenCrawl, SinkFiles
from shoal.engine.stations import WorkShare
from shoal.engine.traps.counts import PART, TrapCounters, share_traps
from shoal.fetch.cookies import CookieJar
from shoal.fetch.shared_gate import SharedGate
from shoal.frontier import Opened, Unparsed
from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.chunks import open_chunks
from shoal.frontier.redis.scripts import SCRIPTS
from shoal.frontier.redis.seen import Approximate
from shoal.frontier.redis.spill import Spilling
from shoal.model import crawl_totals
from shoal.model.adaptive_delay import SlowdownRules
from shoal.model.configuration.hidden_secrets import reveal_secrets
from shoal.model.generations.recheck import KEY as DUE
from shoal.model.generations.recheck import load_line
from shoal.model.outcome import Lease
from shoal.model.pace import Pace
from shoal.model.request import FINGERPRINT_KEY
from shoal.model.sandbox import SandboxRules
from shoal.model.scope import ITEM_KEYS, KeyScheme, Scope
from shoal.model.settings import CrawlSettings, Settings
from shoal.sinks import MultiSink
from shoal.spider.source import PlainSpider, SpiderDescription, SpiderSource
from shoal.stores.contract.crawl_record import CrawlRecord, spider_source
from shoal.stores.contract.fleet import Fleet, SharedQuota, SiteBudget
from shoal.stores.contract.record_reader import settings_of

PLAIN = "plain"  # the name of every spider without code: crawls share one

COUNT_EVERY_S = 1.0  # between two questions to every shard whether anything is left
COUNT_WAITING_S = 5.0  # the same while the frontier knows of something to wait for


class SharedCrawls(Protocol):
    """The part of a fleet's frontier that opens crawls."""

    async def open(
        self,
        name: str,
        *,
        pace: Pace | None = None,
        max_crashes: int | None = None,
        slowdown: SlowdownRules | None = None,
        host_budget: int | None = None,
        hosts: Mapping[str, Pace] | None = None,
        approximate: Approximate | None = None,
        state: Mapping[str, bytes] | None = None,
        may_be_new: bool = True,
    ) -> Opened: ...


class DeliveringBus(PageBus, Protocol):
    def pages_of(self, crawl: str) -> AsyncIterator[Unparsed]:
        """Yield the pages of a crawl that other workers have fetched."""


class Shared:
    """Opens a submitted crawl for one worker, with the files of the worker in `folder`.

    A spider's file is loaded as other workers have it, without the files beside it.
    """

    def __init__(
        self,
        record: CrawlRecord,
        fleet: Fleet,
        *,
        worker: str,
        folder: Path,
        concurrency: int,
        share: WorkShare,
        sandbox: SandboxRules,
        settings: Settings | None = None,
        bus: DeliveringBus | None = None,
    ) -> None:
        """`settings`: those to run the crawl with, None: the record's."""
        self._record = record
        self._fleet = fleet
        self._store = fleet.client
        self._folder = folder
        self._bus = bus
        settings = reveal_secrets(settings or settings_of(record), sandbox.environment, os.environ)
        concurrency = min(settings.crawl.concurrency, concurrency)
        self._settings = replace(settings, crawl=replace(settings.crawl, concurrency=concurrency))
        self.holder = worker
        self.share = replace(share, bus=bus)
        self.sandbox = sandbox  # the worker's, not that of the record

    def spider_source(self) -> AbstractContextManager[SpiderSource]:
        source = spider_source(self._record)
        if isinstance(source, PlainSpider):
            # The name and the start URLs are in the store: crawls with the same fields share a process.
            source = PlainSpider(PLAIN, (), source.items)
        return nullcontext(source)

    def parse_settings(self) -> Settings:
        return self._settings

    def prepare(self, spider: SpiderDescription) -> Settings:
        return self._settings  # the spider's options were applied when it was submitted

    @asynccontextmanager
    async def open_crawl(self, spider: SpiderDescription, settings: Settings) -> AsyncIterator[OpenCrawl]:
        record, store = self._record, self._store
        spilling = Spilling(store, SCRIPTS, open_chunks(settings.archive.location))
        await spilling.collect()
        frontier = RedisFrontier(store, spilling=spilling)
        # A crawl that was deleted after this worker has learned of it must not be created again.
        opened = await open_shared_crawl(frontier.crawls, record.name, settings, may_be_new=False)
        rejects = self._folder / "items" / f"{file_name(record.name)}.rejected.{self.holder}.jsonl"
        scope = Scope.of(settings.crawl, (), hosts=spider.hosts, limits=settings.links)
        hosts = None if record.hosts is None else frozenset(record.hosts)
        totals, counters = crawl_totals.CrawlTotals(), TrapCounters(f"{PART}{self.holder}")
        values = await frontier.reader.values(record.name)
        counters.restore(values.get(counters.key))
        share_traps(values, settings.links, totals, counters)
        item_keys = await frontier.reader.value(record.name, ITEM_KEYS)
        ledger = None
        if self.share.exits is not None:
            ledger = open_ledger(record.name, settings.crawl, self._fleet.exits)
        yield OpenCrawl(
            name=record.name,
            frontier=frontier,
            store=str(store.dsn),
            resumed=opened.resumed,
            totals=totals,
            trap_counters=counters,
            site_budget=await self._site_budget(frontier, settings.links.per_site),
            jar=CookieJar.load(record.cookies),
            scope=msgspec.structs.replace(scope, hosts=hosts, item_keys=KeyScheme.load(item_keys)),
            other_workers=partial(frontier.reader.values, record.name),
            fingerprint_key=await frontier.reader.value(record.name, FINGERPRINT_KEY) or b"",
            line=load_line(values.get(DUE)),
            home=set(record.home),
            outputs=record.outputs,
            rejects=SinkFiles([str(rejects)] if spider.models else []),
            rejects_file=rejects,
            segments=open_segments(settings.archive.location or str(self._folder / "archive"), record.name),
            segment_writer=self.holder,
            gate=SharedGate(
                frontier.turn,
                is_paused=frontier.pauses.is_paused,
                hosts_at=frontier.hosts_at,
                addresses=settings.crawl.address_pace,
                crawl=record.name,
            ),
            quota=await self._quota(frontier, settings.crawl),
            exits=self.share.exits,
            ledger=ledger,
            learned=self.share.learned,
            served_pools=self.share.served_pools,
            unparsed=None if self._bus is None else self._bus.pages_of(record.name),
        )
        if ledger is not None:
            await ledger.sync(force=True)

    async def _site_budget(self, frontier: RedisFrontier, limit: int) -> SiteBudget | None:
        if not limit:
            return None
        return self._fleet.site_budget(await frontier.reader.number(self._record.name), limit)

    async def _quota(self, frontier: RedisFrontier, settings: CrawlSettings) -> SharedQuota | None:
        name = self._record.name

        async def count() -> int:
            counts = await frontier.reader.counts(name)
            return counts.pages + counts.parsing

        if not settings.max_pages:
            return None
        return self._fleet.page_quota(
            await frontier.reader.number(name),
            worker=self.holder,
            limit=settings.max_pages,
            lease=settings.lease,
            count=count,
        )

    async def open_outputs(
        self, crawl: OpenCrawl, sinks: MultiSink, rejects: MultiSink, archive: ArchiveWriter, run: Run
    ) -> OutputCommit:
        return StreamedOutputs(archive, rejects, crawl.totals, patience=lambda: self._store.patience)

    def ownership(self, crawl: OpenCrawl, scope: ScopeState) -> "SharedOwnership":
        return SharedOwnership(self.holder, scope, crawl.totals)

    @asynccontextmanager
    async def start(
        self, crawl: OpenCrawl, spider: SpiderDescription, settings: Settings, scope: ScopeState
    ) -> AsyncIterator[None]:
        yield  # the first requests were added when the crawl was submitted


class SharedOwnership:
    """One worker of a fleet runs its share of the crawl, next to any number of others."""

    settle_after = settle_after_stop = math.inf

    def __init__(
        self,
        worker: str,
        scope: ScopeState,
        totals: crawl_totals.CrawlTotals,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._worker = worker
        self._scope = scope
        self._totals = totals
        self._clock = clock
        self._counted_at = -math.inf

    def record_lease(self, lease: Lease) -> None:
        # Another worker may have followed a seed to this host: what it has queued is in scope.
        self._scope.admit(lease.host)

    def extend_before(self, ttl: float) -> float:
        return math.inf  # the store's clock is not ours, so all are extended

    def expired_by(self) -> float:
        return -math.inf  # only the store knows, and any worker may reclaim it before our next call

    def may_be_finished(self, wait: float) -> bool:
        # Counting takes a call to every shard. While the frontier knows of anything to wait for, something is
        # probably left. It may also be a lease of another crawl in the same shard: a finished crawl must not
        # keep its place until that one has finished too.
        now = self._clock()
        every = COUNT_WAITING_S if math.isfinite(wait) else COUNT_EVERY_S
        if now - self._counted_at < every:
            return False
        self._counted_at = now
        return True

    def state(self) -> Mapping[str, bytes]:
        return {f"{crawl_totals.PART}{self._worker}": self._totals.patterns().dump()}


async def open_shared_crawl(
    crawls: SharedCrawls,
    name: str,
    settings: Settings,
    *,
    may_be_new: bool = True,
    arguments: Mapping[str, str] = MappingProxyType({}),
    due: Mapping[str, bytes] = MappingProxyType({}),
) -> Opened:
    """Open a crawl in a shared store with the options of its settings; create it if it may be new.

    `arguments` are those of its spider, if it is new; `due` then says which pages it asks for.
    """
    links = settings.crawl.approximate_links
    return await crawls.open(
        name,
        may_be_new=may_be_new,
        **frontier_options(settings),
        approximate=Approximate(links) if links else None,
        state={**new_crawl_state(arguments), **due},
    )
