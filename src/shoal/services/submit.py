"""Submit a crawl to a fleet: everything that its workers need goes into the store.

Submitting twice is harmless: seeds that are known are not added again, and the record is replaced.
"""

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import msgspec

from shoal.archive.names import file_name
from shoal.engine.crawl_options import (
    refuse_other_arguments,
    sandbox_rules,
    with_spider_options,
)
from shoal.engine.fetchers import redirect_rules
from shoal.engine.generations.due import GenerationReader, due_state
from shoal.engine.plan import CrawlPlan, SeedList, Stop, crawl_name, planned_outputs
from shoal.engine.runs.decide import Reopening, RunAction, decide
from shoal.engine.runs.facts import KEY as COMMAND
from shoal.engine.runs.facts import (
    CrawlFacts,
    FactsReader,
    LetterReplay,
    read_facts,
    replay_letters,
)
from shoal.engine.runs.outcome import Decided, act_on
from shoal.engine.runs.reopen import Reopener, log_reopened
from shoal.engine.scope_state import ScopeState
from shoal.engine.seeding import (
    SeedFrontier,
    add_given,
    add_listed,
    depends_on_origins,
    has_secret_headers,
    seed_rendering,
    start_cookies,
    start_requests,
    warn_without_contact,
)
from shoal.engine.shared import SharedCrawls, open_shared_crawl
from shoal.engine.traps.counts import TrapCounters, share_traps
from shoal.engine.traps.traps import Traps
from shoal.fetch.cookies import CookieJar
from shoal.fetch.escalation.browser_budget import delete_spent
from shoal.fetch.exits.ledger import delete_spending
from shoal.fetch.given_cookies import cookies_for_seeds
from shoal.frontier.redis import RedisFrontier
from shoal.frontier.redis.chunks import open_chunks
from shoal.frontier.redis.scripts import SCRIPTS
from shoal.frontier.redis.spill import Spilling
from shoal.model.configuration.hidden_secrets import hide_secrets, refuse_stored_secrets, visible_secrets
from shoal.model.crawl_totals import BEGAN, CrawlTotals
from shoal.model.errors import Misconfigured
from shoal.model.request import FINGERPRINT_KEY, Link
from shoal.model.scope import Scope
from shoal.model.settings import (
    AlertSettings,
    BrowserSettings,
    ProxySettings,
    Settings,
    TracingSettings,
    WorkerSettings,
)
from shoal.model.url import origin_of
from shoal.parse.pool import ParsePool
from shoal.services.backpressure import Backpressure, BackpressuredFrontier
from shoal.sinks.drafts import refuse_foreign
from shoal.sinks.fleet.checkpointed import check_fleet_output
from shoal.sinks.names import canonical_name, public_name
from shoal.spider.arguments import ARGUMENTS
from shoal.spider.pickled import PickledSpider
from shoal.spider.source import (
    PlainSpider,
    SpiderDescription,
    SpiderFile,
    SpiderModule,
    SpiderText,
    StoredSpiderSource,
)
from shoal.stores.contract.crawl_record import LOCAL_FOLDER, CrawlRecord
from shoal.stores.contract.fleet import SubmittedCrawls
from shoal.stores.contract.record_reader import read_record_key
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store
from shoal.worker.output_tasks import are_finished


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
    decided: Decided | None = None,
) -> Submitted:
    """Submit a crawl to the store of its settings, and return once the store has it on disk.

    Raises `NothingToDo` if the crawl is complete.

    `during` is entered after the store has answered and left when the last start URL was submitted.
    """
    async with open_store(plan.settings.store, create=True) as store:
        with during:
            submitted = await submit(store, plan, stop, full=full, decided=decided)
        await store.fleet.client.sync()
        return submitted


async def submit(
    store: Store,
    plan: CrawlPlan,
    stop: Stop,
    *,
    full: Callable[[str], None] | None = None,
    decided: Decided | None = None,
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
        return await submit_known(
            store, plan, parser.description, stop, parser=parser, full=full, decided=decided
        )


async def submit_known(
    store: Store,
    plan: CrawlPlan,
    spider: SpiderDescription,
    stop: Stop,
    *,
    parser: ParsePool | None = None,
    full: Callable[[str], None] | None = None,
    decided: Decided | None = None,
) -> Submitted:
    """Do what `submit` does, with a spider that is loaded already; `parser` has it, for wider limits."""
    _portable(plan)  # raises for a spider that no worker could load
    fleet = store.fleet
    # The tail of a long list is spilled to the place that workers use.
    spilling = Spilling(fleet.client, SCRIPTS, open_chunks(plan.settings.archive.location))
    frontier = RedisFrontier(fleet.client, spilling=spilling)
    backpressure = Backpressure(fleet, stop, full)

    async def state_of(crawl: str) -> CrawlFacts | None:
        found = await read_facts(frontier.reader, crawl, live=bool(await fleet.workers.all()))
        if found is None or found.open:
            return found
        unwritten = await fleet.unwritten_pages(crawl)
        with suppress(Misconfigured):
            if not unwritten and (record := await fleet.crawls.get(crawl)) is not None:
                unwritten = int(not await are_finished(fleet, record))
        return replace(found, unwritten=unwritten)

    async def reopen(
        crawl: str, settings: Settings, scope: Scope, key: bytes, start: Sequence[Link], *, robots: bool
    ) -> None:
        if parser is None:
            raise Misconfigured(f"crawl {crawl!r}: wider limits need the spider: submit it with shoal submit")
        state = ScopeState(scope, parser, key)
        totals, counters = CrawlTotals(), TrapCounters("reopen")
        values = await frontier.reader.values(crawl)
        share_traps(values, settings.links, totals, counters)
        traps = Traps(settings.links, totals, state, counters)

        async def add(links: Sequence[Link]) -> int:
            return (await backpressure.retry(partial(frontier.add, crawl, links))).new

        began = await frontier.reader.value(crawl, BEGAN)
        since = None if began is None else float(began)
        reopener = Reopener(
            parser,
            state,
            traps,
            redirect_rules(settings),
            add,
            stop.drain.is_set,
            since,
            readmit=partial(frontier.readmit, crawl) if robots else None,
        )
        log_reopened(crawl, await reopener.run(await store.archive_of(crawl), start))

    async def renewed(crawl: str) -> None:
        await delete_spending(fleet.exits, crawl)
        await delete_spent(fleet.levels, crawl)

    submission = Submission(
        frontier,
        fleet.crawls,
        plan,
        spider,
        backpressure,
        address=store.address,
        decided=decided,
        state_of=state_of,
        reopen=reopen,
        renewed=renewed,
    )
    return await submission.run(stop)


class Reopen(Protocol):
    """Adds what wider limits admit; `robots`: also what robots.txt had disallowed."""

    async def __call__(
        self, crawl: str, settings: Settings, scope: Scope, key: bytes, start: Sequence[Link], *, robots: bool
    ) -> None: ...


async def _reopen_nothing(
    crawl: str, settings: Settings, scope: Scope, key: bytes, start: Sequence[Link], *, robots: bool
) -> None:
    pass


class DeletableCrawls(SharedCrawls, Protocol):
    async def delete(self, name: str, *, keep: int) -> bool: ...

    async def pause(self, crawl: str) -> None: ...
    async def resume(self, crawl: str) -> None: ...
    async def set_value(self, crawl: str, key: str, value: bytes) -> None: ...


class CrawlReader(FactsReader, GenerationReader, Protocol):
    async def number(self, crawl: str) -> int: ...


class SubmissionFrontier(SeedFrontier, Protocol):
    """The part of a fleet's frontier that submitting needs."""

    @property
    def crawls(self) -> DeletableCrawls: ...
    @property
    def reader(self) -> CrawlReader: ...
    @property
    def dead_letters(self) -> LetterReplay: ...


class Submission:
    """One crawl that is being submitted. The constructor raises if the plan cannot work."""

    def __init__(
        self,
        frontier: SubmissionFrontier,
        crawls: SubmittedCrawls,
        plan: CrawlPlan,
        spider: SpiderDescription,
        backpressure: Backpressure,
        *,
        address: str = "",
        decided: Decided | None = None,
        state_of: Callable[[str], Awaitable[CrawlFacts | None]] | None = None,
        reopen: Reopen = _reopen_nothing,
        renewed: Callable[[str], Awaitable[None]] | None = None,
    ) -> None:
        self._renewed = renewed  # deletes what the store keeps of a crawl outside of its frontier
        self._address = address
        self._decided = decided
        self._state_of = state_of or partial(read_facts, frontier.reader)
        self._reopen = reopen
        self._renews = False
        self._plan = plan
        self._backpressure = backpressure
        self._spider = spider
        self._settings = with_spider_options(plan.settings, spider, plan.overrides, typed=plan.typed)
        self._name = crawl_name(plan, spider)
        self._seeds = start_requests(plan, spider)
        self._rendering = seed_rendering(plan, spider)
        warn_without_contact(self._name, self._settings.crawl, self._seeds, plan.listed)
        self._origins: set[str] = set()  # of listed seeds
        self._jar = CookieJar()
        self._jar.put(start_cookies(self._settings.crawl, self._seeds), time.time())
        self._outputs = fleet_outputs(plan, self._name)
        self._record_key = read_record_key(plan.settings.worker.record_key_file)
        self._secrets = visible_secrets(plan.settings.parse.environment, os.environ)
        self._crawls = crawls
        self._frontier = frontier
        self._seeding = BackpressuredFrontier(frontier, backpressure)
        self._changed = False
        self._key = b""  # of the crawl's fingerprints

    async def run(self, stop: Stop) -> Submitted:
        refuse_shared_outputs(self._name, self._outputs, await self._crawls.all())
        flags = self._plan.flags(self._address)
        command = self._plan.facts(self._spider, self._settings, self._seeds, self._outputs)
        stored = await self._state_of(self._name)
        arguments = self._spider.arguments
        if stored is not None and not flags.fresh:
            before_them = await self._frontier.reader.value(self._name, ARGUMENTS)
            refuse_other_arguments(self._name, before_them, arguments)
        decision = decide(self._name, stored, command, flags)
        await act_on(decision, flags, self._frontier.reader, self._name, self._decided)
        self._renews = decision.action is RunAction.RENEW
        if self._renews or flags.fresh or flags.again:
            before = None
            with suppress(Misconfigured):
                before = await self._crawls.get(self._name)
            own = [] if before is None else map(canonical_name, before.outputs)
            refuse_foreign(self._outputs, own=own, confirmed=flags.confirmed)
        due: dict[str, bytes] = {}
        if self._renews:
            due = await due_state(self._frontier.reader, self._name, self._settings.recrawl, time.time())
            await self._frontier.crawls.delete(self._name, keep=self._settings.recrawl.keep)
            if self._renewed is not None:
                await self._renewed(self._name)
        opened = await self._backpressure.retry(
            lambda: open_shared_crawl(
                self._frontier.crawls, self._name, self._settings, arguments=arguments, due=due
            )
        )
        self._key = await self._frontier.reader.value(self._name, FINGERPRINT_KEY) or b""
        if decision.reopen:
            robots = Reopening.ROBOTS in decision.reopen
            await self._extend(paused=stored is not None and stored.paused, robots=robots)
        new = await add_given(self._seeding, self._name, self._seeds, fingerprint_key=self._key)
        known = len(self._seeds) - new
        if (listed := self._plan.listed) is not None:
            await self._read(listed, stop)
            new, known = new + listed.new, known + listed.known
        if decision.retry_start or decision.retry_refused:
            await replay_letters(
                self._frontier.reader,
                self._frontier.dead_letters,
                self._name,
                start=decision.retry_start,
                refused=decision.retry_refused,
            )
        await self._announce()
        # Last: a submission that is killed before is compared with the command before it, and repeated.
        await self._backpressure.retry(
            lambda: self._frontier.crawls.set_value(self._name, COMMAND, command.dump())
        )
        return Submitted(
            self._name,
            opened.resumed,
            self._changed,
            new,
            known,
            tuple(map(public_name, self._outputs)),
            self._spider.version,
        )

    async def _extend(self, *, paused: bool, robots: bool) -> None:
        """Write the wider limits, then add the links that they admit.

        The crawl is paused during the call: a worker that had not read the new record yet would parse the
        first pages under the old limits.
        """
        crawls = self._frontier.crawls
        await crawls.pause(self._name)
        await self._announce()
        urls = [seed.url for seed in self._seeds]
        scope = Scope.of(self._settings.crawl, urls, hosts=self._spider.hosts, limits=self._settings.links)
        hosts = await self._hosts()
        scope = msgspec.structs.replace(scope, hosts=None if hosts is None else frozenset(hosts))
        start = [Link.to(seed, self._key) for seed in self._seeds]
        await self._reopen(self._name, self._settings, scope, self._key, start, robots=robots)
        if not paused:
            await crawls.resume(self._name)

    async def _read(self, listed: SeedList, stop: Stop) -> None:
        add = partial(add_listed, self._seeding, self._name, listed, stop, fingerprint_key=self._key)
        add = partial(add, rendering=self._rendering)
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
            settings=msgspec.to_builtins(hide_secrets(_portable_settings(self._settings), self._secrets)),
            hosts=await self._hosts(),
            home=await self._home(),
            cookies=self._jar.dump(given=True),
            outputs=self._outputs,
            overwrite=self._renews or self._plan.fresh or self._plan.again,
            submitted_at=time.time(),
        )
        refuse_stored_secrets(msgspec.msgpack.encode(record), self._secrets)
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
        if self._renews:
            return None
        with suppress(Misconfigured):
            return await self._crawls.get(self._name)
        return None


def fleet_outputs(plan: CrawlPlan, name: str) -> tuple[str, ...]:
    """Return the outputs of a crawl as every machine of a fleet spells them."""
    outputs = planned_outputs(plan, f"{LOCAL_FOLDER}/items/{file_name(name)}.jsonl")
    return tuple(map(check_fleet_output, outputs))


def own_places(plan: CrawlPlan, name: str) -> tuple[str, ...]:
    """Return where a crawl writes that the operator of this process has planned: outputs and archive."""
    location = plan.settings.archive.location
    return (*fleet_outputs(plan, name), *((location,) if location else ()))


def _portable_settings(settings: Settings) -> Settings:
    """Return what workers need: no password of the store, no rules and no files of this machine."""
    crawl = replace(settings.crawl, cookie_file=None)
    settings = replace(settings, worker=WorkerSettings(), proxies=ProxySettings(), alerts=AlertSettings())
    settings = replace(settings, tracing=TracingSettings(), browser=BrowserSettings())
    return replace(settings, store="", crawl=crawl)


def refuse_shared_outputs(crawl: str, outputs: Sequence[str], others: Iterable[CrawlRecord]) -> None:
    """Raise `Misconfigured` if another crawl of the store writes one of the outputs: it has one owner."""
    wanted = set(map(canonical_name, outputs))
    for other in others:
        if other.name != crawl and (shared := wanted.intersection(map(canonical_name, other.outputs))):
            raise Misconfigured(
                f"output {min(shared)} belongs to crawl {other.name!r}, and crawl {crawl!r} cannot write it"
                f" too: choose another --out, or remove the other crawl with shoal delete {other.name}"
            )


def _portable(plan: CrawlPlan) -> StoredSpiderSource:
    """Return the source for the record; raise `Misconfigured` for a spider of the calling program."""
    match plan.source:
        case SpiderFile(path):
            return msgspec.structs.replace(plan.source, path=Path(path).name)
        case SpiderModule():
            return msgspec.structs.replace(plan.source, folder="")  # of this machine; workers install it
        case PlainSpider():
            return plan.source
        case PickledSpider(name) | SpiderText(name):
            raise Misconfigured(
                f"spider {name!r} is part of this program, and workers of a shared store take spiders from"
                " files: move it to a file and run  shoal.run('spider.py', ...)"
            )


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
