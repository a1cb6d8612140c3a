"""The history of one URL: where it was found, every attempt, where its page is archived, what it brought.

Reads only, and works while a crawl runs. The store drops the requests of pages that are done; they are read
from the archived page. A store without page records drops the pages, too: then all that is left is that a
request has ended.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from shoal.archive.errors import PageUnreadable
from shoal.frontier.results import HostView, RequestHistory
from shoal.model.page import PageRecord
from shoal.model.request import FINGERPRINT_KEY, Link, Request
from shoal.model.spider_versions import KEY, Reparse, SpiderVersion, SpiderVersions
from shoal.model.url import canonical, host_key
from shoal.stores.contract.pages import PageFilter, is_parsed
from shoal.stores.contract.store import Store, select_crawls
from shoal.stores.open import open_store

__all__ = ["FoundOn", "HostView", "RequestHistory", "Trace", "Try", "trace", "trace_json"]


@dataclass(frozen=True, slots=True)
class FoundOn:
    """The page that linked here."""

    fingerprint: int
    url: str  # empty: no longer known
    at: float | None  # when that page was settled, and its links accepted with it


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt."""

    started_at: float
    elapsed: float
    status: int
    kind: str = ""  # failure class; empty: it brought a page
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """One request of one crawl."""

    story: RequestHistory
    url: str  # empty: only its fingerprint is left
    found_on: FoundOn | None  # None: a seed
    host: HostView | None
    tries: Sequence[Try] = ()  # in order
    version: SpiderVersion | None = None  # of the spider that parsed its page; None: not parsed, or unknown
    again: Sequence[Reparse] = ()  # how it was parsed since, into other outputs

    @property
    def forgotten(self) -> bool:
        """Return whether all that is known is that it has ended: done, gone or filtered."""
        return self.story.state == "done" and self.story.page is None

    @property
    def state(self) -> str:
        return "ended" if self.forgotten else self.story.state


async def trace(dsn: str, crawl: str | None, asked: str) -> list[Trace]:
    """Return the history of a URL, or of a trace id, in one crawl or in each that has it."""
    url = "" if re.fullmatch(r"[0-9a-f]{16}", asked) else asked
    request = Request(url=url and canonical(url))
    async with open_store(dsn) as store:
        names = await select_crawls(store, crawl)
        stories = []
        for name in names:
            key = await store.frontier.value(name, FINGERPRINT_KEY) or b""
            fingerprint = Link.to(request, key).fingerprint if url else int(asked, 16)
            stories.append(await store.frontier.history(name, fingerprint))
        return [await _trace(store, story, url) for story in stories if story is not None]


async def _trace(store: Store, story: RequestHistory, asked: str) -> Trace:
    request = await _request_of(store, story)
    url = request.url if request is not None else asked
    origin = story.found_on
    if origin is None:
        origin = request.found_on if request is not None else 0
    versions = SpiderVersions.load(await store.frontier.value(story.crawl, KEY))
    page = story.page
    return Trace(
        story,
        url,
        await _found_on(store, story.crawl, origin) if origin else None,
        await store.frontier.host(host_key(url)) if url else None,
        tries_of(story),
        versions.known.get(page.version) if page is not None else None,
        [one for one in versions.reparses if page is not None and _covers(one, page, url)],
    )


def tries_of(story: RequestHistory) -> list[Try]:
    """Return the attempts that failed and the one that ended the request, in order."""
    tries = [
        Try(tried.at - tried.elapsed, tried.elapsed, tried.status, tried.kind.value, tried.reason)
        for tried in story.tried
    ]
    page = story.page
    if page is not None and story.state != "dead":  # the page of a dead one failed, and is there already
        tries.append(Try(page.fetched_at - page.elapsed, page.elapsed, page.status))
    elif story.state == "gone" and story.ended_at is not None:
        tries.append(Try(story.ended_at - story.elapsed, story.elapsed, story.status, story.state))
    return sorted(tries, key=lambda one: one.started_at)


def _covers(reparse: Reparse, page: PageRecord, url: str) -> bool:
    chosen = PageFilter(reparse.match, reparse.status, reparse.since, reparse.until)
    return is_parsed(page) and page.fetched_at < reparse.at and chosen.takes(page) and chosen.takes_url(url)


async def _found_on(store: Store, crawl: str, fingerprint: int) -> FoundOn:
    origin = await store.frontier.history(crawl, fingerprint)
    if origin is None:
        return FoundOn(fingerprint, "", None)
    request = await _request_of(store, origin)
    return FoundOn(fingerprint, request.url if request is not None else "", origin.ended_at)


async def _request_of(store: Store, story: RequestHistory) -> Request | None:
    """Return the request from the store or, for a page that is done, from the archive."""
    if story.request is not None or story.page is None:
        return story.request
    pages = await store.archive_of(story.crawl)
    try:
        return pages.archive.read(story.page.ref).request
    except PageUnreadable:
        return None


def trace_json(trace: Trace) -> dict[str, object]:
    story, page, origin = trace.story, trace.story.page, trace.found_on
    return {
        "crawl": story.crawl,
        "url": trace.url,
        "trace": story.trace,
        "state": trace.state,
        "found_on": None if origin is None else {"url": origin.url, "trace": f"{origin.fingerprint:016x}"},
        "accepted_at": None if origin is None else origin.at,
        "attempts": [
            {
                "started_at": tried.started_at,
                "elapsed_s": tried.elapsed,
                "status": tried.status,
                "class": tried.kind or None,
                "reason": tried.reason,
            }
            for tried in trace.tries
        ],
        "ended_at": story.ended_at,
        "status": page.status if page else story.status,
        "class": story.rule or None,
        "reason": story.reason,
        "page": None
        if page is None
        else {
            "segment": page.ref.segment,
            "offset": page.ref.offset,
            "length": page.ref.length,
            "fetched_at": page.fetched_at,
            "elapsed_s": page.elapsed,
            "bytes": page.wire_bytes,
            "items": page.items,
            "links": page.links,
        },
        "parsed_by": None
        if trace.version is None
        else {"version": trace.version.digest, "since": trace.version.since},
        "parsed_again": [
            {"version": again.digest, "at": again.at, "out": again.out, "limit": again.limit}
            for again in trace.again
        ],
        "due": story.due,
        "holder": story.holder,
        "leased_at": story.leased_at,
    }
