"""The history of one URL: where it was found, every attempt, where its page is archived, what it brought.

Reads only, and works while a crawl runs. Three sources are joined. The store knows the current state, and a
store with page records also knows failed attempts and finished pages. The fetch log has a row for each
attempt, and for each page that was parsed by another process. The archived page has the request of a page
that is done.
"""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import time

from msgspec.structs import replace

from shoal.archive.errors import PageUnreadable
from shoal.archive.fetch_log import LoggedAttempt
from shoal.archive.reader import StoredPage
from shoal.fetch.escalation.learned_levels import read_host
from shoal.fetch.exits.refusing_hosts import read_refusing
from shoal.fetch.interpret import REDIRECT_STATUSES
from shoal.frontier.results import HostView, RequestHistory
from shoal.model.crawl_totals import BEGAN
from shoal.model.errors import Misconfigured, ShoalError
from shoal.model.exits.refusal import HostExits
from shoal.model.levels.learned import HostLevels, LearnedLevel, pattern_of_level
from shoal.model.page import PageRecord, Rendered
from shoal.model.request import FINGERPRINT_KEY, Link, Request
from shoal.model.spider_versions import KEY, Reparse, SpiderVersion, SpiderVersions
from shoal.model.url import canonical, host_key, join
from shoal.services.inspect.logged import (
    PHASES,
    Parse,
    Try,
    completed,
    ended_at,
    last_parse,
    tries_in,
)
from shoal.services.inspect.status_json import change_json
from shoal.stores.contract.pages import CrawlPages, PageFilter, is_parsed
from shoal.stores.contract.store import Store, select_crawls
from shoal.stores.open import open_store

__all__ = [
    "PHASES",
    "FoundOn",
    "HostView",
    "Parse",
    "RequestHistory",
    "Trace",
    "Try",
    "trace",
    "trace_json",
    "tries_of",
]


@dataclass(frozen=True, slots=True)
class FoundOn:
    """The page that linked here."""

    fingerprint: int
    url: str  # empty: no longer known
    at: float | None  # when that page was settled, and its links accepted with it


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
    parse: Parse | None = None  # as it is logged
    outputs: Sequence[str] = ()  # of the crawl: where its items go
    unwritten: int = 0  # pages of the crawl whose items are not in every output yet
    log_problem: str = ""  # why attempts may be missing
    method: str = "GET"
    chain: Sequence[str] = ()  # the URLs that redirected here, oldest first
    leads_to: str = ""  # where the response redirects to
    level: LearnedLevel | None = None  # what is known of its part of the host; None: it has needed nothing
    level_set: str = ""  # the level that an operator has set for its host
    rendered: Rendered | None = None  # None: no browser was needed
    host_exits: HostExits | None = None  # how its host's exits are chosen, if that refuses addresses

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
    url = url and canonical(url)
    async with open_store(dsn) as store:
        stories = []
        for name in await select_crawls(store, crawl):
            if not url:
                stories.append(await store.frontier.history(name, int(asked, 16)))
                continue
            key = await store.frontier.value(name, FINGERPRINT_KEY) or b""
            plain = Request(url=url)
            wanted = [Link.to(one, key).fingerprint for one in (plain, replace(plain, returned=True))]
            host = host_key(url)
            found = [await store.frontier.history(name, one, host=host) for one in wanted]
            if not any(found):
                found = [await store.frontier.history(name, one) for one in await _others(store, name, url)]
            stories += found
        return [await _trace(store, story, url) for story in stories if story is not None]


async def _others(store: Store, crawl: str, url: str) -> list[int]:
    """Return the fingerprints of requests for a URL that are not plain: a form is identified by its body.

    They are looked for in the dead letters and in the archive, page by page.
    """
    found = {
        letter.fingerprint async for letter in store.frontier.dead_letters(crawl) if letter.request.url == url
    }
    with suppress(Misconfigured):  # the archive is not on this machine
        pages = await store.archive_of(crawl)
        async for entry in pages.pages(PageFilter()):
            with suppress(PageUnreadable):
                if (await pages.archive.read_async(entry.page.ref)).url == url:
                    found.add(entry.fingerprint)
    return sorted(found)


class CrawlLog:
    """The fetch log of a crawl's current generation; it may be out of reach."""

    def __init__(self, pages: CrawlPages, began: float) -> None:
        self._pages = pages
        self._began = began
        self.problem = ""

    @classmethod
    async def open(cls, store: Store, crawl: str) -> "CrawlLog":
        began = float(await store.frontier.value(crawl, BEGAN) or 0.0)
        return cls(await store.archive_of(crawl), began)

    async def rows(self, fingerprint: int) -> list[LoggedAttempt]:
        """Return what is logged about a request."""
        try:
            log = self._pages.fetch_log
            found = await asyncio.to_thread(log.attempts, [fingerprint])
            if not found and not self._pages.is_shared:
                self.problem = (
                    f"{log.location} has no attempt of it: its worker logs on another machine, beside its"
                    " archive; archive.location names one place for all"
                )
        except ShoalError as error:
            self.problem = str(error)
            return []
        return [row for row in found if row.started_at / 1_000_000 >= self._began]


async def _trace(store: Store, story: RequestHistory, asked: str) -> Trace:
    log = await CrawlLog.open(store, story.crawl)
    rows = await log.rows(story.fingerprint)
    known = story
    story = completed(story, rows)
    stored = await _stored_page(store, story)
    request = story.request or (stored.request if stored is not None else None)
    url = request.url if request is not None else next((row.url for row in rows if row.url), asked)
    origin = story.found_on
    if origin is None:
        origin = request.found_on if request is not None else 0
    versions = SpiderVersions.load(await store.frontier.value(story.crawl, KEY))
    page, parse = story.page, last_parse(rows)
    levels = await _levels(store, host_key(url)) if url else None
    brings_items = page is not None and page.items > 0
    return Trace(
        story,
        url,
        await _found_on(store, log, story.crawl, origin) if origin else None,
        await store.host(host_key(url)) if url else None,
        fuller(tries_in(rows), tries_of(known)),
        _version(versions, page, parse),
        [one for one in versions.reparses if page is not None and _covers(one, page, url)],
        parse,
        await _outputs(store, story.crawl) if brings_items else (),
        await store.outputs.unwritten_pages(story.crawl) if brings_items else 0,
        log.problem if not rows else "",
        method=request.method if request is not None else "GET",
        chain=request.chain if request is not None else (),
        leads_to=_target(stored) if stored is not None else "",
        level=levels.at(pattern_of_level(url)) if levels is not None else None,
        level_set=levels.pin if levels is not None else "",
        rendered=stored.rendered if stored is not None else None,
        host_exits=read_refusing(await store.exits.all(), time()).get(host_key(url)) if url else None,
    )


async def _levels(store: Store, host: str) -> HostLevels | None:
    packed = await store.levels.get(host)
    return None if packed is None else read_host(host, packed)


def fuller(logged: Sequence[Try], stored: Sequence[Try]) -> Sequence[Try]:
    """Return the log's attempts, which say more; the store's if the latest ones are not in the log yet."""
    return logged if len(logged) >= len(stored) else stored


def _target(page: StoredPage) -> str:
    """Return where an archived response redirects to; empty: nowhere."""
    if page.status not in REDIRECT_STATUSES:
        return page.leads_to
    return join(page.url, page.header("location")) or ""


def tries_of(story: RequestHistory) -> list[Try]:
    """Return the attempts that the store knows: those that failed and the one that ended the request."""
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


def _version(versions: SpiderVersions, page: PageRecord | None, parse: Parse | None) -> SpiderVersion | None:
    """Return the version that parsed a page, with the time since when it is in use, if that is known."""
    if page is None:
        return None
    if (known := versions.known.get(page.version)) is not None or parse is None:
        return known
    return SpiderVersion(parse.version, 0.0)


async def _outputs(store: Store, crawl: str) -> list[str]:
    return sorted(await (await store.archive_of(crawl)).outputs())


def _covers(reparse: Reparse, page: PageRecord, url: str) -> bool:
    chosen = PageFilter(reparse.match, reparse.status, reparse.since, reparse.until)
    return is_parsed(page) and page.fetched_at < reparse.at and chosen.takes(page) and chosen.takes_url(url)


async def _found_on(store: Store, log: CrawlLog, crawl: str, fingerprint: int) -> FoundOn:
    if not store.capabilities.page_records:  # its log needs no search in the queues of all hosts
        rows = await log.rows(fingerprint)
        if url := next((row.url for row in rows if row.url), ""):
            return FoundOn(fingerprint, url, ended_at(rows[-1]))
    origin = await store.frontier.history(crawl, fingerprint)
    request = None if origin is None else await _request_of(store, origin)
    at = None if origin is None else origin.ended_at
    if request is not None and at is not None:
        return FoundOn(fingerprint, request.url, at)
    rows = await log.rows(fingerprint)
    url = request.url if request is not None else next((row.url for row in rows if row.url), "")
    return FoundOn(fingerprint, url, ended_at(rows[-1]) if at is None and rows else at)


async def _request_of(store: Store, story: RequestHistory) -> Request | None:
    """Return the request from the store or, for a page that is done, from the archive."""
    if story.request is not None:
        return story.request
    stored = await _stored_page(store, story)
    return None if stored is None else stored.request


async def _stored_page(store: Store, story: RequestHistory) -> StoredPage | None:
    """Return the archived page of a request; None: it has none, or the page cannot be read."""
    if story.page is None:
        return None
    pages = await store.archive_of(story.crawl)
    try:
        stored = pages.archive.read(story.page.ref)
        stored.request  # noqa: B018 (raises if it cannot be decoded)
    except (PageUnreadable, Misconfigured):
        return None
    return stored


def trace_json(trace: Trace) -> dict[str, object]:
    story, page, origin = trace.story, trace.story.page, trace.found_on
    return {
        "crawl": story.crawl,
        "url": trace.url,
        "method": trace.method,
        "redirected_from": list(trace.chain),
        "redirects_to": trace.leads_to or None,
        "trace": story.trace,
        "state": trace.state,
        "found_on": None if origin is None else {"url": origin.url, "trace": f"{origin.fingerprint:016x}"},
        "accepted_at": None if origin is None else origin.at,
        "attempts": [try_json(tried) for tried in trace.tries],
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
        "rendered": None if trace.rendered is None else rendered_json(trace.rendered),
        "parsed_by": None
        if trace.version is None
        else {"version": trace.version.digest, "since": trace.version.since or None},
        "parsed_at": None if trace.parse is None else parse_json(trace.parse),
        "parsed_again": [
            {"version": again.digest, "at": again.at, "out": again.out, "limit": again.limit}
            for again in trace.again
        ],
        "outputs": list(trace.outputs),
        "unwritten_pages": trace.unwritten,
        "host_exits": None if trace.host_exits is None else change_json(trace.host_exits),
        "due": story.due,
        "holder": story.holder,
        "leased_at": story.leased_at,
        "log_problem": trace.log_problem or None,
    }


def rendered_json(rendered: Rendered) -> dict[str, object]:
    return {
        "browser": rendered.browser,
        "url": rendered.url,
        "partial": list(rendered.partial),
        "console": list(rendered.console),
        "screenshot_bytes": len(rendered.screenshot),
        "pdf_bytes": len(rendered.pdf),
    }


def try_json(tried: Try) -> dict[str, object]:
    return {
        "started_at": tried.started_at,
        "elapsed_s": tried.elapsed,
        "status": tried.status,
        "class": tried.kind or None,
        "reason": tried.reason,
        "number": tried.number or None,
        "outcome": tried.outcome or None,
        "worker": tried.worker or None,
        "pool": tried.pool or None,
        "level": tried.level or None,
        "exit": tried.exit or None,
        "address": tried.address or None,
        "sent": tried.sent,
        "phases_s": dict(zip(PHASES, tried.phases, strict=True)) if tried.phases else None,
        "bytes": tried.wire_bytes,
        "missing_before": tried.missing,
    }


def parse_json(parse: Parse) -> dict[str, object]:
    return {
        "at": parse.at,
        "worker": parse.worker,
        "cpu_ms": round(parse.cpu_ms, 1),
        "items": parse.items,
        "links": parse.links,
        "keys": list(parse.keys),
        "class": parse.failure or None,
        "reason": parse.reason,
    }
