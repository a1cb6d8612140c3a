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
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import partial
from typing import Protocol

import msgspec

from shoal.archive.names import file_name
from shoal.archive.registry import choose_location
from shoal.archive.writer import ArchiveWriter
from shoal.engine.crawl_options import (
    fit_open_files,
    frontier_options,
    new_crawl_state,
    parse_processes,
    refuse_other_arguments,
    sandbox_rules,
    with_spider_options,
)
from shoal.engine.fetchers import (
    Pools,
    check_exits,
    check_fetching,
    check_seed_pools,
    check_waiting_pools,
    open_exits,
    open_ledger,
    redirect_rules,
)
from shoal.engine.generations.due import due_state
from shoal.engine.generations.yield_check import read_own_totals
from shoal.engine.outputs import EmbeddedOutputs, OutputCommit, Run, Writer, WriterThread
from shoal.engine.plan import CrawlPlan, Stop, crawl_name, planned_outputs
from shoal.engine.runs.decide import Decision, Reopening, RunAction, decide
from shoal.engine.runs.facts import KEY as COMMAND
from shoal.engine.runs.facts import CommandFacts, read_facts, replay_letters
from shoal.engine.runs.outcome import Decided, act_on
from shoal.engine.runs.reopen import Reopener, log_reopened
from shoal.engine.scope_state import ScopeState
from shoal.engine.seeding import (
    add_given,
    add_listed,
    depends_on_origins,
    seed_rendering,
    start_cookies,
    start_requests,
    warn_without_contact,
)
from shoal.engine.session import CLOSE_S, OpenCrawl, SinkFiles, open_sink
from shoal.engine.stations import CallerCapacity, WorkShare
from shoal.engine.traps.counts import PART, TrapCounters
from shoal.engine.traps.traps import Traps
from shoal.fetch.cookies import CookieJar
from shoal.fetch.escalation.browser_budget import delete_spent
from shoal.fetch.escalation.learned_levels import LearnedLevels
from shoal.fetch.exits.ledger import delete_spending
from shoal.fetch.given_cookies import cookies_for_seeds
from shoal.fetch.http.client import HttpClient
from shoal.fetch.registry import HTTP, usable_pools
from shoal.frontier import Counts
from shoal.model import crawl_totals
from shoal.model.generations.recheck import KEY as DUE
from shoal.model.generations.recheck import load_line
from shoal.model.outcome import Lease
from shoal.model.request import FINGERPRINT_KEY, Link, Request
from shoal.model.scope import ITEM_KEYS, KeyScheme, Scope
from shoal.model.settings import Settings
from shoal.model.spider_versions import KEY as VERSIONS
from shoal.model.spider_versions import SpiderVersions
from shoal.model.url import host_key, origin_of
from shoal.sinks import MultiSink
from shoal.sinks.drafts import (
    DRAFTS,
    UNFINISHED,
    discard,
    drafts_for,
    dump_drafts,
    load_drafts,
    moved,
    publish,
    rename_outputs,
)
from shoal.sinks.names import STDOUT, canonical_name
from shoal.sinks.recount import outputs as written_outputs
from shoal.sinks.registry import resolve
from shoal.spider.arguments import ARGUMENTS
from shoal.spider.source import SpiderDescription, SpiderSource
from shoal.stores.contract.checkpoints import archive_key, rejects_key, sinks_key
from shoal.stores.contract.store import Stay, Store, WorkingFrontier, WorkingStore

log = logging.getLogger(__name__)

SITE = "site/"  # prefix of the keys among a crawl's values that hold the requests per site
TRAPS = f"{PART}local"  # among a crawl's values: what this process and those before it have counted

SETTLE_AFTER_S = 2.0  # a page is settled then although its parse has not ended
EXPIRY_MARGIN_S = 1.0  # a lease counts as expired that much before its deadline: nothing reclaims it sooner


class Embedded:
    """Opens a planned crawl. A list of start URLs may take long to read; `stop` ends that with
    `Interrupted`.
    """

    def __init__(
        self,
        plan: CrawlPlan,
        store: Store,
        stop: Stop,
        is_behind: Callable[[], bool] | None = None,
        decided: Decided | None = None,
        *,
        stay: Stay | None = None,
        origins: set[str] | None = None,
        created: Callable[[], None] = lambda: None,
        client: HttpClient | None = None,
        open_writer: Callable[[], Writer] = WriterThread,
    ) -> None:
        """`stay`: how to share the store. `origins`: of the listed start URLs, over all sessions of a run.

        `created` is called when the crawl exists as the command asks for it: it may be resumed from then on.
        `client`: one that is open already; then it serves the only pool.
        """
        self._decided = decided
        self._stay = stay
        self._origins = set() if origins is None else origins
        self._created = created
        self._decision: Decision | None = None  # while the crawl is open
        self._command: CommandFacts | None = None
        self._plan = plan
        self._store = store
        self._stop = stop
        self._seeds: list[Request] = []
        self._working: WorkingStore | None = None  # while the crawl is open
        self.holder = f"{os.uname().nodename}-{os.getpid()}"
        self.share = WorkShare(
            pools=Pools(
                usable_pools(plan.settings.browser) if client is None else (HTTP,),
                exclusive=True,
                browser=plan.settings.browser.path,
            ),
            capacity=None if is_behind is None else CallerCapacity(is_behind),
            client=client,
            open_writer=open_writer,
        )
        self.sandbox = sandbox_rules(plan.settings)

    @property
    def host_process(self) -> str:
        """The process of which this one is a guest; empty: none."""
        return "" if self._working is None else self._working.host_process

    @property
    def frontier(self) -> WorkingFrontier:
        """The frontier of the store, while the crawl is open."""
        assert self._working is not None, "the crawl is open"
        return self._working.frontier

    @contextmanager
    def spider_source(self) -> Iterator[SpiderSource]:
        yield self._plan.source

    def parse_settings(self) -> Settings:
        return self._plan.settings

    def prepare(self, spider: SpiderDescription) -> Settings:
        plan = self._plan
        settings = with_spider_options(plan.settings, spider, plan.overrides, typed=plan.typed)
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
        # Before anything is changed: a setting that cannot work must not cost the pages of an earlier run.
        exits = open_exits(settings.proxies, worker=self.holder, records=self._store.exits)
        check_fetching(settings, exits)
        if exits is not None:
            crawl = settings.crawl
            await check_exits(
                exits, limits=settings.fetch, nameservers=crawl.nameservers, ca_file=crawl.ca_file
            )
        async with self._store.work(fsync=settings.crawl.fsync, stay=self._stay) as owned:
            frontier = owned.frontier
            self._working = owned
            await owned.claim(name)
            key = await self._fingerprint_key(frontier, name)
            outputs = planned_outputs(plan, str(owned.items / f"{file_name(name)}.jsonl"))
            if not plan.fresh and name in await frontier.reader.crawls():
                stored = await frontier.reader.value(name, ARGUMENTS)
                refuse_other_arguments(name, stored, spider.arguments)
            renew = await self._decide(frontier, name, spider, settings, outputs) is RunAction.RENEW
            drafts = await self._drafts(frontier, name, outputs, renew=renew)
            targets = [drafts.get(canonical_name(output), output) for output in outputs]
            due: dict[str, bytes] = {}
            if renew:
                await _check_outputs(targets, self.share.open_writer())
                if name in await frontier.reader.crawls():
                    due = await due_state(frontier.reader, name, settings.recrawl, time.time())
                await frontier.crawls.delete(
                    name, checkpoints=[sinks_key(name), rejects_key(name)], keep=settings.recrawl.keep
                )
                owned.rejects_file(name).unlink(missing_ok=True)  # this run may reject nothing
                await delete_spending(self._store.exits, name)
                await delete_spent(self._store.levels, name)
            opened = await frontier.crawls.open(
                name,
                **frontier_options(settings),
                state={
                    **new_crawl_state(spider.arguments),
                    **({FINGERPRINT_KEY: key} if key else {}),
                    **({DRAFTS: dump_drafts(drafts)} if drafts else {}),
                    **due,
                },
            )
            self._created()
            versions = SpiderVersions.load(await frontier.reader.value(name, VERSIONS))
            version = versions.number(spider.version, time.time())
            totals = await read_own_totals(frontier.reader, name)
            totals.reopen(
                per_pattern=settings.links.per_pattern,
                nothing_new=settings.links.nothing_new,
                released=crawl_totals.load_released(await frontier.reader.value(name, crawl_totals.RELEASED)),
            )
            counters = TrapCounters(TRAPS)
            counters.restore(await frontier.reader.value(name, TRAPS))
            budget = await self._site_budget(frontier, name, settings.links.per_site)
            jar = CookieJar.load(await frontier.reader.value(name, "cookies") or b"[]")
            jar.put(cookies, time.time())
            limit = settings.crawl.max_pages
            rejects = owned.rejects_file(name)
            ledger = None if exits is None else open_ledger(name, settings.crawl, self._store.exits)
            learned = LearnedLevels(self._store.levels)
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
                line=load_line(await frontier.reader.value(name, DUE)),
                home={origin_of(seed.url) for seed in self._seeds},
                outputs=outputs,
                sinks=SinkFiles(
                    targets,
                    await frontier.reader.checkpoint(sinks_key(name)),
                    renew,
                ),
                rejects=SinkFiles(
                    [str(rejects)] if spider.models else [],
                    await frontier.reader.checkpoint(rejects_key(name)),
                    renew,
                ),
                rejects_file=rejects,
                segments=choose_location(owned.archive / file_name(name), settings.archive.location, name),
                archived=await frontier.reader.checkpoint(archive_key(name)),
                quota=EmbeddedPageQuota(frontier.reader, name, limit) if limit else None,
                gate=owned.gate(name, settings.crawl.address_pace),
                exits=exits,
                ledger=ledger,
                no_exit=None if exits is None else exits.given_up,
                learned=learned,
                unparsed=frontier.parsing(name),
                initial_state={
                    crawl_totals.KEY: totals.dump_apart()[0],
                    VERSIONS: versions.dump(),
                    UNFINISHED: b"1",
                },
                keep_days=settings.archive.keep_days,
            )
            if exits is not None and ledger is not None:
                await exits.leave()
                await ledger.sync(force=True)
            await learned.sync(force=True)

    async def _drafts(
        self, frontier: WorkingFrontier, name: str, outputs: Sequence[str], *, renew: bool
    ) -> dict[str, str]:
        """Return the drafts that this run writes: new ones, or those of an interrupted generation."""
        if name not in await frontier.reader.crawls():
            replaces = self._plan.fresh or self._plan.again
            return drafts_for(outputs, own=(), confirmed=self._plan.confirmed) if replaces else {}
        drafts = load_drafts(await frontier.reader.value(name, DRAFTS))
        checkpoint = await frontier.reader.checkpoint(sinks_key(name))
        if renew:
            own = {*written_outputs(checkpoint), *drafts}
            for draft in drafts.values():
                discard(draft)
            return drafts_for(outputs, own=own, confirmed=self._plan.confirmed)
        if done := moved(drafts):
            publish(done)  # what is left of them
            await frontier.crawls.open(name)
            drafts = {output: draft for output, draft in drafts.items() if output not in done}
            renamed = rename_outputs(checkpoint, done)
            await frontier.commit(
                checkpoints={} if renamed is None else {sinks_key(name): renamed},
                crawl_state={name: {DRAFTS: dump_drafts(drafts)}},
            )
        return drafts

    async def _decide(
        self,
        frontier: WorkingFrontier,
        name: str,
        spider: SpiderDescription,
        settings: Settings,
        outputs: Sequence[str],
    ) -> RunAction:
        """Compare the command with the crawl; return what is done to it, or raise."""
        self._command = self._plan.facts(spider, settings, self._seeds, outputs)
        stored = await read_facts(frontier.reader, name)
        flags = self._plan.flags(self._store.address)
        self._decision = decide(name, stored, self._command, flags)
        await act_on(self._decision, flags, frontier.reader, name, decided=None)  # `start` reports it
        return self._decision.action

    async def _fingerprint_key(self, frontier: WorkingFrontier, name: str) -> bytes | None:
        """Return the key of the crawl if it exists and has one.

        A new generation keeps it: the pages of the last one, which it revalidates, are found by fingerprint.
        """
        if name not in await frontier.reader.crawls():
            return None
        return await frontier.reader.value(name, FINGERPRINT_KEY)

    async def _site_budget(
        self, frontier: WorkingFrontier, name: str, limit: int
    ) -> "EmbeddedSiteBudget | None":
        if not limit:
            return None
        return EmbeddedSiteBudget(limit, await frontier.reader.values(name, SITE))

    async def _scope(
        self,
        frontier: WorkingFrontier,
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
        assert self._working is not None, "the crawl is open"
        assert self._decision is not None, "the crawl is open"
        frontier, name = self._working.frontier, crawl.name
        if self._decided is not None:  # not before: an output that cannot be written is the only message
            self._decided(self._decision)
        key = crawl.fingerprint_key
        await add_given(frontier, name, self._seeds, fingerprint_key=key)
        if self._plan.listed is not None:
            gather = depends_on_origins(settings, spider)
            origins = await add_listed(
                frontier,
                name,
                self._plan.listed,
                self._stop,
                fingerprint_key=key,
                gather=gather,
                origins=self._origins,
                rendering=seed_rendering(self._plan, spider),
            )
            crawl.jar.put(cookies_for_seeds(settings.crawl.cookies, origins), time.time())
            crawl.home.update(origins)
            if not spider.hosts:
                scope.admit(*map(host_key, origins))
        await self._apply(frontier, crawl, settings, scope)
        check_waiting_pools(self.share.pools, name, await frontier.reader.waiting_by_pool(name))
        if await frontier.reader.paused(name):
            log.warning("crawl.paused", extra={"crawl": name, "resume_with": f"shoal resume {name}"})
        yield

    async def _apply(
        self, frontier: WorkingFrontier, crawl: OpenCrawl, settings: Settings, scope: ScopeState
    ) -> None:
        """Do what the decision asks for besides the seeds, and store the command as applied."""
        decision, name = self._decision, crawl.name
        assert decision is not None, "the crawl is open"
        assert self._command is not None

        async def add(links: Sequence[Link]) -> int:
            return (await frontier.add(name, links)).new

        if decision.reopen:
            reopener = Reopener(
                scope.children,
                scope,
                Traps(settings.links, crawl.totals, scope, TrapCounters("reopen")),
                redirect_rules(settings),
                add,
                self._stop.drain.is_set,
                readmit=partial(frontier.readmit, name) if Reopening.ROBOTS in decision.reopen else None,
            )
            start = [Link.to(seed, crawl.fingerprint_key) for seed in self._seeds]
            log_reopened(name, await reopener.run(await self._store.archive_of(name), start))
        if decision.retry_start or decision.retry_refused:
            await replay_letters(
                frontier.reader,
                frontier.dead_letters,
                name,
                start=decision.retry_start,
                refused=decision.retry_refused,
            )
        await frontier.commit(crawl_state={name: {COMMAND: self._command.dump()}})


async def _check_outputs(outputs: Sequence[str], thread: Writer) -> None:
    """Raise if an output of a new generation cannot be opened: the last generation is kept then.

    Files first: those of the last generation are untouched, because the new one has drafts beside them.
    """
    checked = [output for output in outputs if output != STDOUT]
    in_order = sorted(checked, key=lambda output: not resolve(output).capabilities.is_file)
    try:
        sink = await thread.run(partial(open_sink, SinkFiles(in_order, overwrite=True), fsync=False))
        await thread.run(sink.close)
    finally:
        thread.close(wait_s=CLOSE_S)


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
        return min(wanted, self._limit - counts.pages - counts.parsing - counts.leased)

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
