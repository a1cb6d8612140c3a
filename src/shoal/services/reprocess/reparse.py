"""Parsing again what is in the archive, with a spider that has changed, without a single request.

Nothing of the crawl changes: its state, its items and its archive stay as they are. What the new spider makes
of the pages is compared with what the crawl has written, or with what another spider makes of the same pages.
A fleet does not know which page an item came from; it has the spider that was submitted, to compare with.
The result goes to an output of its own if that is asked for; then the crawl remembers that, for `trace`.

Pages are read, parsed and compared in order, at most `WINDOW` of them at a time: memory does not depend on
how many there are. Only items count here; links are not even collected.
"""

import asyncio
import os
import time
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import StoredPage
from shoal.engine.crawl_options import with_spider_options
from shoal.model.errors import Misconfigured
from shoal.model.page import Item, ParseResult, ParseTask
from shoal.model.request import Request
from shoal.model.scope import Scope
from shoal.model.settings import Settings
from shoal.model.spider_versions import Reparse
from shoal.parse.pool import ParsePool, Poisoned
from shoal.services.control.hosts import note_reparse
from shoal.services.reprocess.atomic_output import AtomicOutput, drafting_items
from shoal.services.reprocess.diff import EXAMPLES, Differences
from shoal.services.reprocess.folder_pages import FolderPages, PageEntry, PageFilter, is_parsed
from shoal.services.reprocess.pages import CrawlPages, open_pages, refuse_own
from shoal.spider.source import SpiderDescription, SpiderSource
from shoal.stores.redis.submitted import placed

if TYPE_CHECKING:
    from shoal.services.reprocess.fleet_pages import FleetPages

WINDOW = 256  # pages between reading and comparing
WINDOW_BYTES = 64 << 20
BREATH = 32  # pages read between two looks at the children: reading does not let the event loop run by itself


@dataclass(frozen=True, slots=True)
class ReparsePlan:
    source: SpiderSource
    settings: Settings
    crawl: str = ""  # empty: the spider's name, or the only crawl there is
    selection: PageFilter = field(default_factory=PageFilter)
    against: SpiderSource | None = None  # None: what the crawl has written, or its spider as it was submitted
    out: str = ""  # empty: compare only
    overrides: frozenset[str] = frozenset()


@dataclass(slots=True)
class Reparsed:
    """What a changed spider made of the pages of a crawl."""

    crawl: str
    pages: int = 0
    items: int = 0
    faults: dict[str, int] = field(default_factory=dict)  # pages that gave nothing, by reason
    fault_urls: dict[str, list[str]] = field(default_factory=dict)  # examples, by reason
    rejected: int = 0  # items that do not fit their model
    unreadable: int = 0
    differences: Differences | None = None  # None: there was nothing to compare with
    uncompared: str = ""  # why
    against: str = ""  # what was compared with, if neither the crawl's items nor what was asked for
    out: str = ""

    def fail(self, url: str, reason: str) -> None:
        self.faults[reason] = self.faults.get(reason, 0) + 1
        examples = self.fault_urls.setdefault(reason, [])
        if len(examples) < EXAMPLES:
            examples.append(url)


@dataclass(frozen=True, slots=True)
class _Again:
    """One page, parsed again; items are None where a parse failed."""

    url: str
    before: Sequence[bytes] | None
    after: Sequence[Item] | None
    fault: str = ""
    rejected: int = 0


async def reparse(plan: ReparsePlan) -> Reparsed:
    """Run a spider over the pages in a crawl's archive; works beside a crawl that runs."""
    async with AsyncExitStack() as stack:
        new = await _open_pool(stack, plan, plan.source)
        holdings = await stack.enter_async_context(
            open_pages(plan.settings.store, plan.crawl, spider=new.description.name)
        )
        report = Reparsed(holdings.crawl, out=plan.out)
        old, items = await _compared(stack, holdings, plan, report)
        for pool in (new, old):
            if pool is not None:
                pool.configure(await _scope(holdings, plan, pool.description))
        if old or items:
            report.differences = Differences()
        draft = await _draft(stack, holdings, plan)
        pages = _pages(holdings, plan.selection, report, items)
        async with asyncio.TaskGroup() as group:
            watches = [group.create_task(pool.watch()) for pool in (new, old) if pool]
            async with aclosing(pages), aclosing(_parsed(pages, new, old)) as again:
                async for page in again:
                    _take(report, page, new.description.key, draft)
            for watch in watches:
                watch.cancel()
        report.unreadable += holdings.unreadable
    if plan.out:
        await note_reparse(plan.settings.store, report.crawl, _note(plan, new.description.version))
    return report


def _note(plan: ReparsePlan, version: str) -> Reparse:
    chosen = plan.selection
    where = plan.out if plan.out == "-" else str(Path(plan.out).absolute())
    return Reparse(
        version, time.time(), where, chosen.match, chosen.status, chosen.since, chosen.until, chosen.limit
    )


def _take(report: Reparsed, page: _Again, key: Sequence[str], draft: AtomicOutput | None) -> None:
    report.pages += 1
    if page.after is None:
        report.fail(page.url, page.fault)
    after = page.after or ()
    report.items += len(after)
    report.rejected += page.rejected
    if draft is not None:
        draft.write(after)
    if report.differences is not None:
        report.differences.note(page.url, page.before or (), [item.json for item in after], key)


async def _compared(
    stack: AsyncExitStack, holdings: "FolderPages | FleetPages", plan: ReparsePlan, report: Reparsed
) -> tuple[ParsePool | None, Path | None]:
    """Open what to compare with: another spider, or an output with the crawl's items."""
    if plan.against is not None:
        return await _open_pool(stack, plan, plan.against), None
    try:
        if isinstance(holdings, FolderPages):
            return None, await holdings.items()
        # Nothing tells which of a fleet's items came from a page; but its spider was kept.
        old = await _open_pool(stack, plan, stack.enter_context(placed(holdings.record)))
        report.against = "the spider as it was submitted"
        return old, None
    except Misconfigured as error:
        if not plan.out:
            raise Misconfigured(f"{error}; --against OLD.py compares with an older spider instead") from None
        report.uncompared = str(error)
        return None, None


async def _open_pool(stack: AsyncExitStack, plan: ReparsePlan, source: SpiderSource) -> ParsePool:
    procs = plan.settings.crawl.procs or max(1, os.cpu_count() or 1)
    return await stack.enter_async_context(ParsePool.open(source, procs=procs, limits=plan.settings.parse))


async def _scope(holdings: CrawlPages, plan: ReparsePlan, spider: SpiderDescription) -> Scope:
    """Let no host be in scope, so that no link is looked for; nofollow means what it meant in the crawl.

    Where only canonical pages yield items, what they are depends on the hosts of the crawl.
    """
    settings = with_spider_options(holdings.settings(plan.settings), spider, plan.overrides)
    if not settings.crawl.canonical_only:
        return Scope(hosts=frozenset(), obey_nofollow=settings.crawl.robots)
    hosts = [*spider.hosts, *await holdings.hosts()]
    return Scope.of(settings.crawl, (), hosts=hosts, limits=settings.links)


async def _draft(stack: AsyncExitStack, holdings: CrawlPages, plan: ReparsePlan) -> AtomicOutput | None:
    if not plan.out:
        return None
    await refuse_own(holdings, plan.out)
    return stack.enter_context(drafting_items(plan.out))


async def _pages(
    holdings: CrawlPages, selection: PageFilter, report: Reparsed, items: Path | None
) -> AsyncGenerator[tuple[PageEntry, StoredPage, Request], None]:
    left = selection.limit
    async with aclosing(holdings.pages(selection, items)) as pages:
        async for kept in pages:
            if left == 0:
                return
            if not is_parsed(kept.page):
                continue
            try:
                stored = await holdings.archive.read_async(kept.page.ref)
                request = stored.request
            except PageUnreadable:
                report.unreadable += 1
                continue
            if selection.takes_url(stored.url):
                left = None if left is None else left - 1
                yield kept, stored, request


async def _parsed(
    pages: AsyncIterator[tuple[PageEntry, StoredPage, Request]], new: ParsePool, old: ParsePool | None
) -> AsyncGenerator[_Again, None]:
    """Have pages parsed by one or both spiders, and give them back in order."""
    waiting: deque[_Task] = deque()
    ids, held = count(1), 0
    async for kept, stored, request in pages:
        number = next(ids)
        task = ParseTask(
            number,
            kept.fingerprint,
            request,
            stored.url,
            stored.status,
            stored.headers,
            stored.body,
            stored.fetched_at,
        )
        waiting.append(_Task(task, kept.items, new, old))
        held += len(stored.body)
        if number % BREATH == 0:
            await asyncio.sleep(0)
        while waiting and (waiting[0].done or len(waiting) >= WINDOW or held > WINDOW_BYTES):
            first = waiting.popleft()
            held -= first.size
            yield await first.result()
    while waiting:
        yield await waiting.popleft().result()


class _Task:
    """A page on its way through the children."""

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

    async def result(self) -> _Again:
        before = self._before
        if self._old is not None:
            answered = await self._old
            items = answered.items if isinstance(answered, ParseResult) else ()
            before = [item.json for item in items]
        answer = await self._new
        if isinstance(answer, Poisoned):
            return _Again(self._url, before, None, f"{answer.cause}: {answer.reason}")
        if answer.fault is not None:
            return _Again(self._url, before, None, answer.fault.reason)
        return _Again(self._url, before, answer.items, rejected=len(answer.rejected))


def _submit(pool: ParsePool, task: ParseTask) -> "asyncio.Future[ParseResult | Poisoned]":
    future: asyncio.Future[ParseResult | Poisoned] = asyncio.get_running_loop().create_future()

    def answer(result: ParseResult | Poisoned) -> None:
        if not future.done():
            future.set_result(result)

    pool.submit(task, answer)
    return future
