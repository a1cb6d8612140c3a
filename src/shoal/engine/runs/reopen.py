"""Find again what narrower limits had left out of a crawl.

A link that a rule refuses is counted and not stored: there are far more of them than pages. So the handlers
run once more on the archived pages, under the limits of now, and their links are added; the frontier ignores
those that the crawl knows. Where a redirect leads is a link as well. Items are not taken: they are written.

What robots.txt disallowed was accepted, and ended as filtered. If robots.txt is not obeyed any more, the same
links readmit those requests, and so do the start URLs.

Repeating this is harmless. A run that is killed in between has not stored its limits (`facts`), and the next
one starts over.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from itertools import count
from typing import Protocol

import msgspec

from shoal.archive.errors import PageUnreadable
from shoal.archive.reader import StoredPage
from shoal.fetch.interpret import RedirectRules, target_of
from shoal.model.errors import Interrupted, Rejected
from shoal.model.failure import Failure, FailureClass
from shoal.model.page import ParseResult, ParseTask
from shoal.model.request import Link, Request
from shoal.parse.pool import Poisoned
from shoal.stores.contract.pages import CrawlPages, PageEntry, PageFilter, is_parsed

MAX_PAGES = 128  # in the parse children
MAX_BODY_BYTES = 32 << 20
BATCH = 1_000  # links that are added at once
READMIT_BATCH = 20_000  # links that are compared at once with what was filtered: a folder reads all of that


log = logging.getLogger("shoal.progress")


class ParseChildren(Protocol):
    """The part of the parse pool that reopening needs."""

    async def watch(self) -> None: ...
    def submit(self, task: ParseTask, on_answer: Callable[[ParseResult | Poisoned], None]) -> None: ...


class LinkRules(Protocol):
    """The part of a crawl's scope that reopening needs."""

    def refuse(self, url: str, depth: int) -> FailureClass | None: ...
    async def refuse_target(self, target: Request, status: int) -> Failure | None: ...
    def link(self, request: Request) -> Link: ...
    def links_of(self, packed: Sequence[bytes], *, found_on: int, page: Request) -> tuple[Link, ...]: ...


class TrapFilter(Protocol):
    def filter_links(
        self, links: tuple[Link, ...], result: ParseResult, request: Request
    ) -> tuple[Link, ...]: ...


@dataclass(slots=True)
class Reopened:
    pages: int = 0  # that were judged again
    links: int = 0  # that the crawl did not know
    readmitted: int = 0  # requests that robots.txt had filtered
    unreadable: int = 0  # archived pages that cannot be read any more


def log_reopened(crawl: str, done: Reopened) -> None:
    """Log how many links wider limits have brought."""
    facts = {"crawl": crawl, "pages": done.pages, "links": done.links, "unreadable": done.unreadable}
    if done.readmitted:
        facts["readmitted"] = done.readmitted
    log.info("crawl.reopened", extra=facts)


class Reopener(msgspec.Struct, frozen=True):
    """Judges the links of archived pages again."""

    children: ParseChildren
    scope: LinkRules
    traps: TrapFilter
    redirects: RedirectRules
    add: Callable[[Sequence[Link]], Awaitable[int]]  # returns how many were new
    stopped: Callable[[], bool]
    since: float | None = None  # when this generation began: the archive may hold pages of those before
    readmit: Callable[[Sequence[Link]], Awaitable[int]] | None = None  # None: robots.txt is obeyed as before

    async def run(self, pages: CrawlPages, start: Sequence[Link] = ()) -> Reopened:
        """Add the links of every archived page, and of `start`; raise `Interrupted` when it is `stopped`."""
        done = Reopened()
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self.children.watch(), name="reopen.watch")
            try:
                await self._run(pages, start, done)
            finally:
                watch.cancel()
        done.unreadable += pages.unreadable
        return done

    async def _run(self, pages: CrawlPages, start: Sequence[Link], done: Reopened) -> None:
        waiting: deque[_Page] = deque()
        batch = _Batch(self, done, list(start))
        ids, held = count(1), 0
        async with aclosing(_read(pages, done, self.since)) as stored:
            async for entry, request, page in stored:
                if self.stopped():
                    raise Interrupted(
                        f"interrupted: {done.pages:,} pages were judged again;"
                        " run the same command to judge them all"
                    )
                waiting.append(_Page(next(ids), entry, request, page, self.children))
                held += len(page.body)
                while waiting and (waiting[0].done or len(waiting) >= MAX_PAGES or held > MAX_BODY_BYTES):
                    first = waiting.popleft()
                    held -= first.size
                    await batch.put(await self._links(first))
        for last in waiting:
            await batch.put(await self._links(last))
        await batch.flush()

    async def _links(self, page: "_Page") -> list[Link]:
        request = page.request
        found: list[Link] = []
        target = target_of(request, page.stored, self.redirects)
        if (
            target is not None
            and self.scope.refuse(target.url, target.depth) is None
            and await self.scope.refuse_target(target, page.stored.status) is None
        ):
            found.append(self.scope.link(target))
        result = await page.result()
        if isinstance(result, ParseResult) and result.fault is None:
            try:
                links = self.scope.links_of(result.requests, found_on=page.fingerprint, page=request)
            except Rejected:
                return found
            found += self.traps.filter_links(links, result, request)
        return found


class _Batch:
    """Links that are yet to be added."""

    def __init__(self, reopener: Reopener, done: Reopened, links: list[Link]) -> None:
        self._reopener = reopener
        self._done = done
        self._links = links
        self._filtered: dict[int, Link] = {}  # perhaps

    async def put(self, links: Sequence[Link]) -> None:
        """Take the links of one page."""
        self._done.pages += 1
        self._links += links
        if len(self._links) >= BATCH:
            await self._add()
        if len(self._filtered) >= READMIT_BATCH:
            await self._readmit()

    async def flush(self) -> None:
        await self._add()
        await self._readmit()

    async def _add(self) -> None:
        if self._links:
            self._done.links += await self._reopener.add(self._links)
            if self._reopener.readmit is not None:
                self._filtered.update((link.fingerprint, link) for link in self._links)
            self._links = []

    async def _readmit(self) -> None:
        if self._filtered and self._reopener.readmit is not None:
            self._done.readmitted += await self._reopener.readmit(list(self._filtered.values()))
            self._filtered = {}


async def _read(
    pages: CrawlPages, done: Reopened, since: float | None
) -> AsyncGenerator[tuple[PageEntry, Request, StoredPage], None]:
    async with aclosing(pages.pages(PageFilter(since=since))) as entries:
        async for entry in entries:
            try:
                stored = await pages.archive.read_async(entry.page.ref)
                request = stored.request
            except PageUnreadable:
                done.unreadable += 1
                continue
            yield entry, request, stored


class _Page:
    """A page that the parse children have, if there is anything to parse."""

    def __init__(
        self, id: int, entry: PageEntry, request: Request, stored: StoredPage, children: ParseChildren
    ) -> None:
        self.fingerprint = entry.fingerprint
        self.request = request
        self.stored = stored
        self.size = len(stored.body)
        self._answer: asyncio.Future[ParseResult | Poisoned] | None = None
        if not is_parsed(entry.page):
            return
        self._answer = future = asyncio.get_running_loop().create_future()

        def answered(result: ParseResult | Poisoned) -> None:
            if not future.done():
                future.set_result(result)

        children.submit(
            ParseTask(
                id,
                entry.fingerprint,
                request,
                stored.url,
                stored.status,
                stored.headers,
                stored.body,
                stored.fetched_at,
                rendered=stored.rendered,
            ),
            answered,
        )

    @property
    def done(self) -> bool:
        return self._answer is None or self._answer.done()

    async def result(self) -> ParseResult | Poisoned | None:
        return None if self._answer is None else await self._answer
