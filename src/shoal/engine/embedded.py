"""A crawl that one process runs, on a store folder that it owns.

- Deadlines of leases are on the clock of this process.
- A page whose parse takes long is settled early, so that its lease does not expire.
- When no lease is held, everything that is left is in the store: it can be counted at any time.
- Cookies, and the hosts that seeds redirect to, belong to the crawl and are saved with it.
- This process serves every pool that it has a fetcher for; a request of another pool is refused at once.
"""

import logging
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

import msgspec

from shoal.archive.names import file_name
from shoal.archive.registry import choose_location
from shoal.archive.writer import ArchiveWriter
from shoal.engine.crawl import Crawl
from shoal.engine.crawl_options import (
    fit_open_files,
    frontier_options,
    new_crawl_state,
    parse_processes,
    sandbox_rules,
    with_spider_options,
)
from shoal.engine.fetchers import Pools, check_seed_pools, check_waiting_pools
from shoal.engine.outputs import EmbeddedOutputs, OutputCommit, Run
from shoal.engine.plan import CrawlPlan, Stop, crawl_name
from shoal.engine.scope_state import ScopeState
from shoal.engine.seeding import (
    add_given,
    add_listed,
    depends_on_origins,
    start_cookies,
    start_requests,
    warn_without_contact,
)
from shoal.engine.session import OpenCrawl, SinkFiles, open_session
from shoal.engine.snapshot import Opening, Snapshot, Summary
from shoal.engine.stations import WorkShare
from shoal.engine.traps.counts import PART, TrapCounters
from shoal.fetch.cookies import CookieJar
from shoal.fetch.gate import SendGate
from shoal.fetch.given_cookies import cookies_for_seeds
from shoal.fetch.registry import fetcher_factories
from shoal.frontier import Counts
from shoal.frontier.sqlite import SqliteFrontier
from shoal.model import crawl_totals
from shoal.model.outcome import Lease
from shoal.model.request import FINGERPRINT_KEY, Request
from shoal.model.scope import ITEM_KEYS, KeyScheme, Scope
from shoal.model.settings import Settings
from shoal.model.spider_versions import KEY as VERSIONS
from shoal.model.spider_versions import SpiderVersions
from shoal.model.url import host_key, origin_of
from shoal.sinks import MultiSink
from shoal.spider.source import SpiderDescription, SpiderSource
from shoal.stores.contract.checkpoints import archive_key, rejects_key, sinks_key
from shoal.stores.contract.store import OwnedStore, Store

log = logging.getLogger(__name__)

SITE = "site/"  # prefix of the keys among a crawl's values that hold the requests per site
TRAPS = f"{PART}local"  # among a crawl's values: what this process and those before it have counted

SETTLE_AFTER_S = 2.0  # a page is settled then although its parse has not ended
EXPIRY_MARGIN_S = 1.0  # a lease counts as expired that much before its deadline: nothing reclaims it sooner


async def crawl(
    plan: CrawlPlan,
    store: Store,
    *,
    stop: Stop,
    opened: Callable[[Opening], None] | None = None,
    watch: Callable[[Snapshot], None] | None = None,
) -> Summary:
    """Run a crawl until it is finished, or `stop` asks it to end; the same call resumes it.

    `opened` is called once with what the crawl starts from, `watch` four times per second with a snapshot.
    """
    async with open_session(Embedded(plan, store, stop)) as stations:
        running = Crawl(stations)
        if opened is not None:
            opened(await running.opening())
        return await running.summary(await running.run(stop, watch))


class Embedded:
    """Opens a planned crawl. A list of start URLs may take long to read; `stop` ends that with
    `Interrupted`.
    """

    def __init__(self, plan: CrawlPlan, store: Store, stop: Stop) -> None:
        self._plan = plan
        self._store = store
        self._stop = stop
        self._seeds: list[Request] = []
        self._owned: OwnedStore | None = None  # while the crawl is open
        self.holder = f"{os.uname().nodename}-{os.getpid()}"
        self.share = WorkShare(pools=Pools(fetcher_factories(), exclusive=True))
        self.sandbox = sandbox_rules(plan.settings)

    @contextmanager
    def spider_source(self) -> Iterator[SpiderSource]:
        yield self._plan.source

    def parse_settings(self) -> Settings:
        return self._plan.settings

    def prepare(self, spider: SpiderDescription) -> Settings:
        settings = with_spider_options(self._plan.settings, spider, self._plan.overrides)
        concurrency = fit_open_files(settings.crawl.concurrency, parse_processes(settings.crawl))
        settings = replace(settings, crawl=replace(settings.crawl, concurrency=concurrency))
        self._seeds = start_requests(self._plan, spider)
        warn_without_contact(crawl_name(self._plan, spider), settings.crawl, self._seeds, self._plan.listed)
        check_seed_pools(self.share.pools, spider.name, self._seeds)
        return settings

    @asynccontextmanager
    async def open_crawl(self, spider: SpiderDescription, settings: Settings) -> AsyncIterator[OpenCrawl]:
        plan, name = self._plan, crawl_name(self._plan, spider)
        cookies = start_cookies(settings.crawl, self._seeds)
        async with self._store.own(fsync=settings.crawl.fsync) as owned:
            frontier = owned.frontier
            self._owned = owned
            key = await self._fingerprint_key(frontier, name)
            if plan.fresh:
                await frontier.crawls.delete(name, checkpoints=[sinks_key(name), rejects_key(name)])
                owned.rejects_file(name).unlink(missing_ok=True)  # this run may reject nothing
            opened = await frontier.crawls.open(
                name,
                **frontier_options(settings),
                state={**new_crawl_state(), **({FINGERPRINT_KEY: key} if key else {})},
            )
            versions = SpiderVersions.load(await frontier.reader.value(name, VERSIONS))
            version = versions.number(spider.version, time.time())
            totals = crawl_totals.CrawlTotals.load(await frontier.reader.value(name, crawl_totals.KEY))
            totals.reopen(
                per_pattern=settings.links.per_pattern,
                near_duplicates=settings.links.near_duplicates,
                identical_pages=settings.links.identical_pages,
            )
            counters = TrapCounters(TRAPS)
            counters.restore(await frontier.reader.value(name, TRAPS))
            budget = await self._site_budget(frontier, name, settings.links.per_site)
            jar = CookieJar.load(await frontier.reader.value(name, "cookies") or b"[]")
            jar.put(cookies, time.time())
            limit = settings.crawl.max_pages
            outputs = plan.outputs or (str(owned.items / f"{file_name(name)}.jsonl"),)
            rejects = owned.rejects_file(name)
            yield OpenCrawl(
                name=name,
                frontier=frontier,
                store=self._store.address,
                resumed=opened.resumed,
                version=version,
                totals=totals,
                trap_counters=counters,
                site_budget=budget,
                jar=jar,
                scope=await self._scope(frontier, name, spider, settings, totals),
                fingerprint_key=await frontier.reader.value(name, FINGERPRINT_KEY) or b"",
                home={origin_of(seed.url) for seed in self._seeds},
                outputs=outputs,
                sinks=SinkFiles(outputs, await frontier.reader.checkpoint(sinks_key(name)), plan.fresh),
                rejects=SinkFiles(
                    [str(rejects)] if spider.models else [],
                    await frontier.reader.checkpoint(rejects_key(name)),
                    plan.fresh,
                ),
                rejects_file=rejects,
                segments=choose_location(owned.archive / file_name(name), settings.archive.location, name),
                archived=await frontier.reader.checkpoint(archive_key(name)),
                quota=EmbeddedPageQuota(frontier.reader, name, limit) if limit else None,
                gate=SendGate(hold=partial(frontier.held_for, name), addresses=settings.crawl.address_pace),
                unparsed=frontier.parsing(name),
                initial_state={crawl_totals.KEY: totals.dump(), VERSIONS: versions.dump()},
                keep_days=settings.archive.keep_days,
            )

    async def _fingerprint_key(self, frontier: SqliteFrontier, name: str) -> bytes | None:
        """Return the key of the crawl if it exists and has one.

        A new generation keeps it: the pages of the last one, which it revalidates, are found by fingerprint.
        """
        if name not in await frontier.reader.crawls():
            return None
        return await frontier.reader.value(name, FINGERPRINT_KEY)

    async def _site_budget(
        self, frontier: SqliteFrontier, name: str, limit: int
    ) -> "EmbeddedSiteBudget | None":
        if not limit:
            return None
        return EmbeddedSiteBudget(limit, await frontier.reader.values(name, SITE))

    async def _scope(
        self,
        frontier: SqliteFrontier,
        name: str,
        spider: SpiderDescription,
        settings: Settings,
        totals: crawl_totals.CrawlTotals,
    ) -> Scope:
        saved = msgspec.json.decode(await frontier.reader.value(name, "hosts") or b"[]", type=list[str])
        urls = [seed.url for seed in self._seeds]
        scope = Scope.of(settings.crawl, urls, hosts=spider.hosts, limits=settings.links)
        return msgspec.structs.replace(
            scope,
            item_keys=KeyScheme.load(await frontier.reader.value(name, ITEM_KEYS)),
            hosts=None if scope.hosts is None else scope.hosts.union(saved),
            watched_patterns=frozenset(totals.near_duplicates),
        )

    async def open_outputs(
        self, crawl: OpenCrawl, sinks: MultiSink, rejects: MultiSink, archive: ArchiveWriter, run: Run
    ) -> OutputCommit:
        # From here on the outputs belong to this crawl: after a kill before the first page, the next run must
        # not take them for those of another crawl.
        await crawl.frontier.commit(
            checkpoints={
                sinks_key(crawl.name): await run(sinks.flush),
                rejects_key(crawl.name): await run(rejects.flush),
                archive_key(crawl.name): archive.checkpoint(),
            },
            crawl_state={crawl.name: crawl.initial_state},
        )
        return EmbeddedOutputs(crawl.name, archive, sinks, rejects, crawl.totals, run=run)

    def ownership(self, crawl: OpenCrawl, scope: ScopeState) -> "EmbeddedOwnership":
        return EmbeddedOwnership(crawl.jar, scope)

    @asynccontextmanager
    async def start(
        self, crawl: OpenCrawl, spider: SpiderDescription, settings: Settings, scope: ScopeState
    ) -> AsyncIterator[None]:
        frontier, name = crawl.frontier, crawl.name
        assert isinstance(frontier, SqliteFrontier)
        key = crawl.fingerprint_key
        await add_given(frontier, name, self._seeds, fingerprint_key=key)
        if self._plan.listed is not None:
            gather = depends_on_origins(settings, spider)
            origins = await add_listed(
                frontier, name, self._plan.listed, self._stop, fingerprint_key=key, gather=gather
            )
            crawl.jar.put(cookies_for_seeds(settings.crawl.cookies, origins), time.time())
            crawl.home.update(origins)
            if not spider.hosts:
                scope.admit(*map(host_key, origins))
        check_waiting_pools(self.share.pools, name, await frontier.reader.waiting_by_pool(name))
        if await frontier.reader.paused(name):
            log.warning("crawl.paused", extra={"crawl": name, "resume_with": f"shoal resume {name}"})
        assert self._owned is not None, "the crawl is open"
        async with self._owned.accept_commands():
            yield


class EmbeddedOwnership:
    """One process runs the crawl, and no other has the store open."""

    settle_after = SETTLE_AFTER_S
    settle_after_stop = 0.0  # fetched pages are archived, and parsed by the next run

    def __init__(self, jar: CookieJar, scope: ScopeState, clock: Callable[[], float] = time.time) -> None:
        self._jar = jar
        self._scope = scope
        self._clock = clock

    def record_lease(self, lease: Lease) -> None:
        pass  # this process has queued every request under its scope

    def extend_before(self, ttl: float) -> float:
        return self._clock() + ttl / 2

    def expired_by(self) -> float:
        return self._clock() + EXPIRY_MARGIN_S

    def may_be_finished(self, wait: float) -> bool:
        return True

    def state(self) -> Mapping[str, bytes]:
        state = {"cookies": self._jar.dump()}
        if self._scope.hosts is not None:  # those that seeds redirect to included
            state["hosts"] = msgspec.json.encode(sorted(self._scope.hosts))
        return state


class PageCounter(Protocol):
    async def counts(self, crawl: str) -> Counts: ...


class EmbeddedPageQuota:
    """The page limit of a crawl that one process runs; workers share theirs (`stores.redis.page_quota`)."""

    def __init__(self, reader: PageCounter, crawl: str, limit: int) -> None:
        self._reader = reader
        self._crawl = crawl
        self._limit = limit

    async def take(self, held: int, wanted: int) -> int:
        counts = await self._reader.counts(self._crawl)
        return min(wanted, self._limit - counts.done - counts.parsing - counts.leased)

    async def leave(self) -> None:
        pass  # no other process


class EmbeddedSiteBudget:
    """The budget of a crawl that one process runs; workers share theirs (`stores.redis.site_budget`)."""

    def __init__(self, limit: int, stored: Mapping[str, bytes]) -> None:
        self._limit = limit
        self._sent = {key.removeprefix(SITE): int(value) for key, value in stored.items() if value.isdigit()}
        self._changed: set[str] = set()

    async def take(self, site: str) -> bool:
        if self._sent.get(site, 0) >= self._limit:
            return False
        self._add(site, 1)
        return True

    async def give_back(self, site: str) -> None:
        self._add(site, -1)

    def _add(self, site: str, number: int) -> None:
        self._sent[site] = self._sent.get(site, 0) + number
        self._changed.add(site)

    def changes(self) -> dict[str, bytes]:
        """Return what has to be stored with the crawl since the last call."""
        changed = {f"{SITE}{site}": b"%d" % self._sent[site] for site in self._changed}
        self._changed = set()
        return changed
