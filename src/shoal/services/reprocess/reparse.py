"""Parsing the archived pages of a crawl again with a changed spider, without a single request.

The crawl does not change: its state, its items and its archive stay as they are. The items of the new spider
are compared with the items that the crawl has written, or with those of another spider on the same pages. A
store without page records does not know which page an item came from; there the spider that was submitted is
run for comparison. The result goes to a separate output if one is named; then the crawl records that, for
`trace`.

Pages are read, parsed and compared in order, at most `MAX_PAGES` of them at a time: memory does not depend on
how many there are. Only items are compared; links are not collected.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, ExitStack, aclosing
from dataclasses import asdict, dataclass, field
from itertools import count

from shoal.archive.errors import PageExpired, PageUnreadable
from shoal.archive.reader import StoredPage
from shoal.engine.crawl_options import sandbox_rules, with_spider_options
from shoal.model.crawl_totals import MAX_REASONS, OTHER_REASONS
from shoal.model.errors import Misconfigured
from shoal.model.page import Item, ParseResult, ParseTask
from shoal.model.request import Request
from shoal.model.scope import Scope
from shoal.model.settings import Settings
from shoal.model.spider_versions import Reparse
from shoal.parse.pool import ParsePool, Poisoned
from shoal.services.reprocess.atomic_output import AtomicOutput, replacing_items
from shoal.services.reprocess.choice import choose_crawl, refuse_own_output
from shoal.services.reprocess.diff import EXAMPLES, Differences
from shoal.sinks.names import canonical_name, public_name
from shoal.spider.source import SpiderDescription, SpiderSource
from shoal.stores.contract.crawl_record import spider_source
from shoal.stores.contract.pages import (
    CrawlPages,
    ItemNeeds,
    ItemSource,
    PageEntry,
    PageFilter,
    is_parsed,
)
from shoal.stores.contract.store import Store
from shoal.stores.open import open_store

MAX_PAGES = 256  # between reading and comparing
MAX_BODY_BYTES = 64 << 20
YIELD_EVERY = 32  # pages read between two turns of the event loop, which serves the parse children


@dataclass(frozen=True, slots=True)
class ReparsePlan:
    source: SpiderSource
    settings: Settings
    crawl: str = ""  # empty: the only crawl in the store, or the one named like the spider
    selection: PageFilter = field(default_factory=PageFilter)
    against: SpiderSource | None = None  # None: the items of the crawl, or its spider as it was submitted
    out: str = ""  # empty: compare only
    compare: bool = True
    overrides: frozenset[str] = frozenset()


@dataclass(slots=True)
class Reparsed:
    """The result of running a changed spider on the pages of a crawl."""

    crawl: str
    pages: int = 0
    items: int = 0
    faults: dict[str, int] = field(default_factory=dict)  # pages that could not be parsed, by reason
    fault_urls: dict[str, list[str]] = field(default_factory=dict)  # examples, by reason
    rejected: int = 0  # items that do not fit their model
    discarded: dict[str, int] = field(default_factory=dict)  # items that item hooks dropped, by reason
    unreadable: int = 0
    lost: int = 0  # of those, pages that have not expired
    differences: Differences | None = None  # None: nothing to compare with
    uncompared: str = ""  # why
    against: str = ""  # what was compared with, unless the crawl's items or `ReparsePlan.against`
    out: str = ""

    def fail(self, url: str, reason: str) -> None:
        self.faults[reason] = self.faults.get(reason, 0) + 1
        examples = self.fault_urls.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(url)


@dataclass(frozen=True, slots=True)
class _Reparse:
    """The result for one page; items are None where a parse failed."""

    url: str
    before: Sequence[bytes] | None
    after: Sequence[Item] | None
    fault: str = ""
    rejected: int = 0
    discarded: Mapping[str, int] = field(default_factory=dict)


async def reparse(plan: ReparsePlan) -> Reparsed:
    """Run a spider on the pages in a crawl's archive; works while the crawl runs."""
    async with AsyncExitStack() as stack:
        new = await _open_pool(stack, plan, plan.source)
        store = await stack.enter_async_context(open_store(plan.settings.store))
        name = await choose_crawl(store, plan.crawl, spider=new.description.crawl)
        pages = await store.archive_of(name)
        report = Reparsed(name, out=public_name(plan.out))
        old, items = await _open_comparison(stack, store, pages, plan, report)
        for pool in (new, old):
            if pool is not None:
                pool.configure(await _scope(pages, plan, pool.description))
        if old or items:
            report.differences = Differences()
        await _reparse(pages, items, plan=plan, new=new, old=old, report=report)
        if plan.out:
            async with store.change() as changes:
                await changes.note_reparse(name, _note(plan, new.description.version))
    return report


async def _reparse(
    pages: CrawlPages,
    items: ItemSource | None,
    *,
    plan: ReparsePlan,
    new: ParsePool,
    old: ParsePool | None,
    report: Reparsed,
) -> None:
    """Parse every chosen page; the output is complete when this returns."""
    with ExitStack() as stack:
        output: AtomicOutput | None = None
        if plan.out:
            await refuse_own_output(pages, plan.out)
            output = stack.enter_context(replacing_items(plan.out))
        tasks = _read_pages(pages, plan.selection, report, items)
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(pool.watch()) for pool in (new, old) if pool]
            async with aclosing(tasks), aclosing(_parse(tasks, new, old)) as parsed:
                async for page in parsed:
                    _add(report, page, new.description.key, output)
            for watch in watches:
                watch.cancel()
        report.unreadable += pages.unreadable
    report.lost += pages.lost


def _note(plan: ReparsePlan, version: str) -> Reparse:
    chosen = plan.selection
    return Reparse(
        version,
        time.time(),
        canonical_name(plan.out),
        chosen.match,
        chosen.status,
        chosen.since,
        chosen.until,
        chosen.limit,
    )


def _add(report: Reparsed, page: _Reparse, key: Sequence[str], output: AtomicOutput | None) -> None:
    report.pages += 1
    if page.after is None:
        report.fail(page.url, page.fault)
    after = page.after or ()
    report.items += len(after)
    report.rejected += page.rejected
    for reason, number in page.discarded.items():
        known = reason in report.discarded or len(report.discarded) < MAX_REASONS
        reason = reason if known else OTHER_REASONS
        report.discarded[reason] = report.discarded.get(reason, 0) + number
    if output is not None:
        output.write(after)
    if report.differences is not None:
        report.differences.note(page.url, page.before or (), [item.json for item in after], key)


async def _open_comparison(
    stack: AsyncExitStack, store: Store, pages: CrawlPages, plan: ReparsePlan, report: Reparsed
) -> tuple[ParsePool | None, ItemSource | None]:
    """Open what to compare with: another spider, or an output with the crawl's items."""
    if not plan.compare:
        return None, None
    if plan.against is not None:
        return await _open_pool(stack, plan, plan.against), None
    try:
        if store.capabilities.page_records:
            return None, await pages.item_source(ItemNeeds(exact=True, by_page=True))
        record = await store.crawls.record(pages.crawl)
        if record is None:
            raise Misconfigured(
                f"crawl {pages.crawl!r} was never submitted to the end: shoal submit does that"
            )
        old = await _open_pool(stack, plan, spider_source(record))
        report.against = "the spider as it was submitted"
        return old, None
    except Misconfigured as error:
        if not plan.out:
            raise Misconfigured(f"{error}; --against OLD.py compares with an older spider instead") from None
        report.uncompared = str(error)
        return None, None


async def _open_pool(stack: AsyncExitStack, plan: ReparsePlan, source: SpiderSource) -> ParsePool:
    procs = plan.settings.crawl.procs or max(1, os.cpu_count() or 1)
    return await stack.enter_async_context(
        ParsePool.open(source, procs=procs, limits=plan.settings.parse, sandbox=sandbox_rules(plan.settings))
    )


async def _scope(pages: CrawlPages, plan: ReparsePlan, spider: SpiderDescription) -> Scope:
    """Return a scope without hosts, so that no links are collected; nofollow is obeyed as in the crawl.

    Where only canonical pages yield items, which pages these are depends on the hosts of the crawl.
    """
    settings = with_spider_options(pages.settings(plan.settings), spider, plan.overrides)
    if not settings.crawl.canonical_only:
        return Scope(hosts=frozenset(), obey_nofollow=settings.crawl.robots)
    hosts = [*spider.hosts, *await pages.hosts()]
    return Scope.of(settings.crawl, (), hosts=hosts, limits=settings.links)


async def _read_pages(
    pages: CrawlPages, selection: PageFilter, report: Reparsed, items: ItemSource | None
) -> AsyncGenerator[tuple[PageEntry, StoredPage, Request], None]:
    left = selection.limit
    async with aclosing(pages.pages(selection, items)) as entries:
        async for entry in entries:
            if left == 0:
                return
            if not is_parsed(entry.page):
                continue
            try:
                stored = await pages.archive.read_async(entry.page.ref)
                request = stored.request
            except PageUnreadable as error:
                report.unreadable += 1
                report.lost += not isinstance(error, PageExpired)
                continue
            if selection.takes_url(stored.url):
                left = None if left is None else left - 1
                yield entry, stored, request


async def _parse(
    pages: AsyncIterator[tuple[PageEntry, StoredPage, Request]], new: ParsePool, old: ParsePool | None
) -> AsyncGenerator[_Reparse, None]:
    """Parse pages with one or both spiders; yield the results in order."""
    waiting: deque[_Task] = deque()
    ids, held = count(1), 0
    async for entry, stored, request in pages:
        number = next(ids)
        task = ParseTask(
            number,
            entry.fingerprint,
            request,
            stored.url,
            stored.status,
            stored.headers,
            stored.body,
            stored.fetched_at,
            rendered=stored.rendered,
        )
        waiting.append(_Task(task, entry.items, new, old))
        held += len(stored.body)
        if number % YIELD_EVERY == 0:
            await asyncio.sleep(0)
        while waiting and (waiting[0].done or len(waiting) >= MAX_PAGES or held > MAX_BODY_BYTES):
            first = waiting.popleft()
            held -= first.size
            yield await first.result()
    while waiting:
        yield await waiting.popleft().result()


class _Task:
    """A page that the parse children have."""

    def __init__(
        self, task: ParseTask, before: Sequence[bytes] | None, new: ParsePool, old: ParsePool | None
    ) -> None:
        self.size = len(task.body)
        self._url = task.url
        self._before = before
        self._new = _submit(new, task)
        self._old = _submit(old, task) if old else None

    @property
    def done(self) -> bool:
        return self._new.done() and (self._old is None or self._old.done())

    async def result(self) -> _Reparse:
        before = self._before
        if self._old is not None:
            answered = await self._old
            items = answered.items if isinstance(answered, ParseResult) else ()
            before = [item.json for item in items]
        answer = await self._new
        if isinstance(answer, Poisoned):
            return _Reparse(self._url, before, None, f"{answer.cause}: {answer.reason}")
        if answer.fault is not None:
            return _Reparse(self._url, before, None, answer.fault.reason)
        return _Reparse(
            self._url, before, answer.items, rejected=len(answer.rejected), discarded=answer.discarded
        )


def _submit(pool: ParsePool, task: ParseTask) -> "asyncio.Future[ParseResult | Poisoned]":
    future: asyncio.Future[ParseResult | Poisoned] = asyncio.get_running_loop().create_future()

    def answer(result: ParseResult | Poisoned) -> None:
        if not future.done():
            future.set_result(result)

    pool.submit(task, answer)
    return future


def reparse_json(report: Reparsed, elapsed: float) -> dict[str, object]:
    facts = asdict(report)
    dropped = facts.pop("discarded")
    return {**facts, "dropped_items": dropped, "elapsed_s": round(elapsed, 3)}
