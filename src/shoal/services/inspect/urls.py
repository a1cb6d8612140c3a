"""The URLs of a crawl by state, one after the other: memory does not depend on how many there are.

Reads only, and works while a crawl runs. Requests move during the call, so that one may be
listed in two states, or in none. What a store has not kept is counted.
"""

import asyncio
import re
import time
from collections.abc import AsyncGenerator, AsyncIterator, Collection
from contextlib import aclosing
from dataclasses import dataclass, field

from shoal.archive.errors import PageUnreadable
from shoal.frontier.results import STATES, ListedRequest
from shoal.model.request import trace_id
from shoal.model.url import host_key
from shoal.stores.contract.pages import PageFilter
from shoal.stores.contract.store import Store, select_crawls
from shoal.stores.open import open_store

__all__ = ["STATES", "ListedRequest", "UrlFilter", "UrlList", "listed_json", "page_of_urls"]

YIELD_EVERY = 500  # requests
OPEN_STATES = ("waiting", "delayed", "leased", "parsing")


@dataclass(frozen=True, slots=True)
class UrlFilter:
    """A choice of URLs; by default all of them."""

    crawl: str | None = None
    states: Collection[str] = STATES
    host: str = ""
    newer: float | None = None  # seconds since it ended, was leased or becomes due, at most
    match: re.Pattern[str] | None = None  # found anywhere in the URL
    limit: int | None = None

    def takes(self, one: ListedRequest, now: float) -> bool:
        return (
            (not self.host or one.host == self.host)
            and (self.newer is None or (one.at is not None and one.at >= now - self.newer))
            and (self.match is None or self.match.search(one.url) is not None)
        )


@dataclass(slots=True)
class UrlList:
    """Lists URLs; afterwards it knows how many it could not list, by state."""

    dsn: str
    choice: UrlFilter
    unlisted: dict[str, int] = field(default_factory=dict)

    async def run(self) -> AsyncGenerator[tuple[str, ListedRequest], None]:
        """Yield crawl and request, for each that the filter takes."""
        left = self.choice.limit
        async with open_store(self.dsn) as store:
            for crawl in await select_crawls(store, self.choice.crawl):
                async for one in self._of_crawl(store, crawl):
                    yield crawl, one
                    if left is not None:
                        left -= 1
                        if left == 0:
                            return

    async def _of_crawl(self, store: Store, crawl: str) -> AsyncIterator[ListedRequest]:
        now, choice = time.time(), self.choice
        seen = dict.fromkeys(choice.states, 0)
        async for one in store.frontier.requests(crawl, choice.states):
            seen[one.state] = seen.get(one.state, 0) + 1
            if choice.takes(one, now):
                yield one
        if "done" in choice.states:
            async for one in _done(store, crawl, choice, now):
                seen["done"] += 1
                if choice.takes(one, now):
                    yield one
        counts = (await store.frontier.counts(crawl)).by_state()
        for state in choice.states:
            if is_counted(state, shared=store.capabilities.shared, recent=choice.newer is not None):
                self._add(state, counts[state] - seen[state])

    def _add(self, state: str, missing: int) -> None:
        if missing > 0:
            self.unlisted[state] = self.unlisted.get(state, 0) + missing


async def page_of_urls(
    dsn: str, choice: UrlFilter, *, skip: int, limit: int
) -> tuple[list[ListedRequest], bool]:
    """Return requests that the filter takes, after the first `skip`, and whether there are more."""
    found: list[ListedRequest] = []
    number = 0
    async with aclosing(UrlList(dsn, choice).run()) as listed:
        async for _, one in listed:
            number += 1
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)  # a folder is read without waiting: others have their turn
            if number <= skip:
                continue
            if len(found) == limit:
                return found, True
            found.append(one)
    return found, False


def is_counted(state: str, *, shared: bool, recent: bool) -> bool:
    """Return whether requests that were not listed in a state are reported.

    Open requests move while they are listed; but a fleet may have spilled some that wait. Of pages, only the
    `recent` ones were read.
    """
    if state == "done":
        return not recent
    return state not in OPEN_STATES or (shared and state == "waiting")


async def _done(store: Store, crawl: str, choice: UrlFilter, now: float) -> AsyncIterator[ListedRequest]:
    """Yield the pages of a crawl; the archive has their URLs."""
    pages = await store.archive_of(crawl)
    since = None if choice.newer is None else now - choice.newer
    dead = {"dead", "parsing"}
    kept = {one.fingerprint async for one in store.frontier.requests(crawl, dead)}  # they have pages as well
    async for entry in pages.pages(PageFilter(since=since)):
        if entry.fingerprint in kept:
            continue
        try:
            stored = await asyncio.to_thread(pages.archive.read, entry.page.ref)
            url, method = stored.request.url, stored.request.method
        except PageUnreadable:
            url, method = "", "GET"
        yield ListedRequest(
            fingerprint=entry.fingerprint,
            state="done",
            url=url,
            method=method,
            host=host_key(url) if url else "",
            attempts=1,
            status=entry.page.status,
            at=entry.page.fetched_at,
        )


def listed_json(crawl: str, one: ListedRequest) -> dict[str, object]:
    """Return a listed request for --json."""
    return {
        "crawl": crawl,
        "url": one.url or None,
        "method": one.method,
        "state": one.state,
        "attempts": one.attempts,
        "status": one.status or None,
        "at": one.at,
        "class": one.rule or None,
        "reason": one.reason,
        "host": one.host,
        "trace": trace_id(one.fingerprint),
    }
