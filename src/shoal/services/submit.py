"""Submit a crawl to a fleet: everything that its workers need goes into the store.

Submitting twice is harmless: seeds that are known are not added again, and the record is replaced.
"""

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from shoal.archive.names import file_name
from shoal.engine.crawl_options import sandbox_rules, with_spider_options
from shoal.engine.plan import CrawlPlan, SeedList, Stop, crawl_name
from shoal.engine.seeding import (
    SeedFrontier,
    add_given,
    add_listed,
    depends_on_origins,
    has_secret_headers,
    start_cookies,
    start_requests,
    warn_without_contact,
)
from shoal.engine.shared import SharedCrawls, open_shared_crawl
from shoal.fetch.cookies import CookieJar
from shoal.fetch.given_cookies import cookies_for_seeds
from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.chunks import open_chunks
from shoal.frontier.redis.scripts import SCRIPTS
from shoal.frontier.redis.spill import Spilling
from shoal.model.errors import Misconfigured
from shoal.model.request import FINGERPRINT_KEY
from shoal.model.scope import Scope
from shoal.model.settings import Settings, WorkerSettings
from shoal.model.url import origin_of
from shoal.parse.pool import ParsePool
from shoal.services.backpressure import Backpressure, BackpressuredFrontier
from shoal.sinks.fleet.checkpointed import check_fleet_output
from shoal.sinks.names import canonical_name, public_name
from shoal.spider.source import SpiderDescription, SpiderFile, SpiderSource
from shoal.stores.contract.crawl_record import LOCAL_FOLDER, CrawlRecord
from shoal.stores.contract.fleet import Fleet, SubmittedCrawls
from shoal.stores.contract.record_reader import read_record_key
from shoal.stores.open import open_store


@dataclass(frozen=True, slots=True)
class Submitted:
    crawl: str
    resumed: bool  # False: it did not exist before
    changed: bool  # False: the same had been submitted before
    added: int  # seeds that were new
    known: int  # seeds that were not
    outputs: tuple[str, ...]  # without secrets
    version: str  # of the spider's code


async def submit_plan(
    plan: CrawlPlan,
    stop: Stop,
    *,
    full: Callable[[str], None],
    during: AbstractContextManager[object],
) -> Submitted:
    """Submit a crawl to the store of its settings, and return once the store has it on disk.

    `during` is entered after the store has answered and left when the last start URL was submitted.
    """
    async with open_store(plan.settings.store, create=True) as store:
        with during:
            submitted = await submit(store.fleet, plan, stop, full=full)
        await store.fleet.client.sync()
        return submitted


async def submit(
    fleet: Fleet, plan: CrawlPlan, stop: Stop, *, full: Callable[[str], None] | None = None
) -> Submitted:
    """Put a crawl into the store; raise before anything is written if the plan cannot work.

    A list of start URLs may take long to read; `stop` ends that with `Interrupted`. Workers start with a new
    crawl when the list is complete, or, where nothing depends on the rest of the list, after its first
    piece.

    If the store is full, `submit` waits for space and calls `full` with messages; without `full` it raises
    `Full`.
    """
    async with ParsePool.open(
        plan.source, procs=1, limits=plan.settings.parse, sandbox=sandbox_rules(plan.settings)
    ) as parser:
        spider = parser.description
    return await submit_known(fleet, plan, spider, stop, full=full)


async def submit_known(
    fleet: Fleet,
    plan: CrawlPlan,
    spider: SpiderDescription,
    stop: Stop,
    *,
    full: Callable[[str], None] | None = None,
) -> Submitted:
    """Do what `submit` does, with a spider that is loaded already."""
    # The tail of a long list is spilled to the place that workers use.
    spilling = Spilling(fleet.client, SCRIPTS, open_chunks(plan.settings.archive.location))
    frontier = RedisFrontier(fleet.client, spilling=spilling)
    backpressure = Backpressure(fleet, stop, full)
    return await Submission(frontier, fleet.crawls, plan, spider, backpressure).run(stop)


class DeletableCrawls(SharedCrawls, Protocol):
    async def delete(self, name: str) -> bool: ...


class CrawlReader(Protocol):
    async def number(self, crawl: str) -> int: ...
    async def value(self, crawl: str, key: str) -> bytes | None: ...


class SubmissionFrontier(SeedFrontier, Protocol):
    """The part of a fleet's frontier that submitting needs."""

    @property
    def crawls(self) -> DeletableCrawls: ...
    @property
    def reader(self) -> CrawlReader: ...


class Submission:
    """One crawl that is being submitted. The constructor raises if the plan cannot work."""

    def __init__(
        self,
        frontier: SubmissionFrontier,
        crawls: SubmittedCrawls,
        plan: CrawlPlan,
        spider: SpiderDescription,
        backpressure: Backpressure,
    ) -> None:
        self._plan = plan
        self._backpressure = backpressure
        self._spider = spider
        self._settings = with_spider_options(plan.settings, spider, plan.overrides)
        self._name = crawl_name(plan, spider)
        self._seeds = start_requests(plan, spider)
        warn_without_contact(self._name, self._settings.crawl, self._seeds, plan.listed)
        self._origins: set[str] = set()  # of listed seeds
        self._jar = CookieJar()
        self._jar.put(start_cookies(self._settings.crawl, self._seeds), time.time())
        self._outputs = fleet_outputs(plan, self._name)
        self._record_key = read_record_key(plan.settings.worker.record_key_file)
        self._crawls = crawls
        self._frontier = frontier
        self._seeding = BackpressuredFrontier(frontier, backpressure)
        self._changed = False
        self._key = b""  # of the crawl's fingerprints

    async def run(self, stop: Stop) -> Submitted:
        refuse_shared_outputs(self._name, self._outputs, await self._crawls.all())
        if self._plan.fresh:
            await self._frontier.crawls.delete(self._name)
        opened = await self._backpressure.retry(
            lambda: open_shared_crawl(self._frontier.crawls, self._name, self._settings)
        )
        self._key = await self._frontier.reader.value(self._name, FINGERPRINT_KEY) or b""
        new = await add_given(self._seeding, self._name, self._seeds, fingerprint_key=self._key)
        known = len(self._seeds) - new
        if (listed := self._plan.listed) is not None:
            await self._read(listed, stop)
            new, known = new + listed.new, known + listed.known
        await self._announce()
        return Submitted(
            self._name,
            opened.resumed,
            self._changed,
            new,
            known,
            tuple(map(public_name, self._outputs)),
            self._spider.version,
        )

    async def _read(self, listed: SeedList, stop: Stop) -> None:
        add = partial(add_listed, self._seeding, self._name, listed, stop, fingerprint_key=self._key)
        if depends_on_origins(self._settings, self._spider):
            self._origins = await add(gather=True)
            cookies = cookies_for_seeds(self._settings.crawl.cookies, sorted(self._origins))
            self._jar.put(cookies, time.time())
        else:
            await add(gather=False, on_added=self._announce)

    async def _announce(self) -> None:
        """Write the record, so that workers start with the crawl or check it again."""
        record = CrawlRecord(
            name=self._name,
            number=await self._frontier.reader.number(self._name),
            source=_portable(self._plan),
            text=_text(self._plan),
            version=self._spider.version,
            settings=msgspec.to_builtins(_portable_settings(self._settings)),
            hosts=await self._hosts(),
            home=await self._home(),
            cookies=self._jar.dump(given=True),
            outputs=self._outputs,
            overwrite=self._plan.fresh,
            submitted_at=time.time(),
        )
        self._changed |= await self._backpressure.retry(
            lambda: self._crawls.submit(record, key=self._record_key)
        )

    async def _hosts(self) -> tuple[str, ...] | None:
        """Return the hosts in scope, including those of earlier seeds: their requests are still queued."""
        urls = [*(seed.url for seed in self._seeds), *self._origins]
        limits, named = self._settings.links, self._spider.hosts
        hosts = Scope.of(self._settings.crawl, urls, hosts=named, limits=limits).hosts
        if hosts is None:
            return None
        before = await self._before()
        return tuple(sorted(hosts.union((before and before.hosts) or ())))

    async def _home(self) -> tuple[str, ...]:
        """Return the origins of all seeds, including earlier ones, if a secret header depends on them."""
        if not has_secret_headers(self._settings):
            return ()
        before = await self._before()
        seeds = {origin_of(seed.url) for seed in self._seeds}
        return tuple(sorted(seeds.union(self._origins, before.home if before else ())))

    async def _before(self) -> CrawlRecord | None:
        """Return the record that this one replaces; None: it cannot be used, or a new crawl starts."""
        if self._plan.fresh:
            return None
        with suppress(Misconfigured):
            return await self._crawls.get(self._name)
        return None


def fleet_outputs(plan: CrawlPlan, name: str) -> tuple[str, ...]:
    """Return the outputs of a crawl as every machine of a fleet spells them."""
    outputs = plan.outputs or (f"{LOCAL_FOLDER}/items/{file_name(name)}.jsonl",)
    return tuple(map(check_fleet_output, outputs))


def own_places(plan: CrawlPlan, name: str) -> tuple[str, ...]:
    """Return where a crawl writes that the operator of this process has planned: outputs and archive."""
    location = plan.settings.archive.location
    return (*fleet_outputs(plan, name), *((location,) if location else ()))


def _portable_settings(settings: Settings) -> Settings:
    """Return what workers need: no password of the store, no rules and no files of this machine."""
    crawl = replace(settings.crawl, cookie_file=None)
    return replace(settings, store="", crawl=crawl, worker=WorkerSettings())


def refuse_shared_outputs(crawl: str, outputs: Sequence[str], others: Iterable[CrawlRecord]) -> None:
    """Raise `Misconfigured` if another crawl of the store writes one of the outputs: it has one owner."""
    wanted = set(map(canonical_name, outputs))
    for other in others:
        if other.name != crawl and (shared := wanted.intersection(map(canonical_name, other.outputs))):
            raise Misconfigured(
                f"output {min(shared)} belongs to crawl {other.name!r}, and crawl {crawl!r} cannot write it"
                f" too: choose another --out, or remove the other crawl with shoal delete {other.name}"
            )


def _portable(plan: CrawlPlan) -> SpiderSource:
    if isinstance(plan.source, SpiderFile):
        return msgspec.structs.replace(plan.source, path=Path(plan.source.path).name)
    return plan.source


def _text(plan: CrawlPlan) -> bytes:
    return Path(plan.source.path).read_bytes() if isinstance(plan.source, SpiderFile) else b""


def submitted_json(submitted: Submitted) -> dict[str, object]:
    return {
        "crawl": submitted.crawl,
        "resumed": submitted.resumed,
        "changed": submitted.changed,
        "added": submitted.added,
        "known": submitted.known,
        "outputs": list(submitted.outputs),
        "version": submitted.version,
    }
