"""The whole story of one URL: where it was found, every attempt, where its page lies, what it brought.

Reads only, beside a running crawl if need be. The store forgets the requests of pages that are done; what is
missing there is read from the archived page. A fleet's store forgets the pages, too: then it can only
be told that a request has come to its end.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from shoal.archive.errors import PageUnreadable
from shoal.archive.names import file_name
from shoal.archive.reader import ArchiveReader, StoredPage
from shoal.archive.registry import open_crawl_folder
from shoal.fetch.http.decode import decode_archived
from shoal.frontier.results import HostView, RequestHistory
from shoal.model.page import PageRecord
from shoal.model.request import Link, Request
from shoal.model.spider_versions import KEY, Reparse, SpiderVersion, SpiderVersions
from shoal.model.url import host_key
from shoal.services.reprocess.folder_pages import PageFilter, is_parsed
from shoal.stores.access import StoreReader, chosen, open_reader
from shoal.stores.folder.store import StoreFolder

__all__ = ["FoundOn", "HostView", "RequestHistory", "Trace", "Try", "trace"]


@dataclass(frozen=True, slots=True)
class FoundOn:
    """The page that linked here."""

    fingerprint: int
    url: str  # empty: it can be told no more
    at: float | None  # when that page was settled, and its links accepted with it


@dataclass(frozen=True, slots=True)
class Try:
    """One attempt, whatever came of it."""

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
    version: SpiderVersion | None = None  # of the spider that parsed its page; None: not parsed, or forgotten
    again: Sequence[Reparse] = ()  # how it was parsed since, into other outputs

    @property
    def forgotten(self) -> bool:
        """Say whether all that is left is that it has ended: done, gone or filtered."""
        return self.story.state == "done" and self.story.page is None

    @property
    def state(self) -> str:
        return "ended" if self.forgotten else self.story.state


async def trace(store: str, crawl: str | None, asked: str) -> list[Trace]:
    """Tell the story of a URL, or of a trace id, in one crawl or in each that has it."""
    url = "" if re.fullmatch(r"[0-9a-f]{16}", asked) else asked
    fingerprint = Link.to(Request(url=url)).fingerprint if url else int(asked, 16)
    async with open_reader(store) as reader:
        stories = [await reader.history(name, fingerprint) for name in await chosen(reader, crawl)]
        folder = StoreFolder(Path(store))
        return [await _trace(reader, folder, story, url) for story in stories if story is not None]


async def _trace(reader: StoreReader, store: StoreFolder, story: RequestHistory, asked: str) -> Trace:
    request = _request_of(store, story)
    url = request.url if request is not None else asked
    origin = story.found_on
    if origin is None:
        origin = request.found_on if request is not None else 0
    versions = SpiderVersions.load(await reader.value(story.crawl, KEY))
    page = story.page
    return Trace(
        story,
        url,
        await _found_on(reader, store, story.crawl, origin) if origin else None,
        await reader.host(host_key(url)) if url else None,
        tries_of(story),
        versions.known.get(page.version) if page is not None else None,
        [one for one in versions.reparses if page is not None and _covers(one, page, url)],
    )


def tries_of(story: RequestHistory) -> list[Try]:
    """Put the attempts that failed and the one that ended the story in order."""
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


async def _found_on(reader: StoreReader, store: StoreFolder, crawl: str, fingerprint: int) -> FoundOn:
    origin = await reader.history(crawl, fingerprint)
    if origin is None:
        return FoundOn(fingerprint, "", None)
    request = _request_of(store, origin)
    return FoundOn(fingerprint, request.url if request is not None else "", origin.ended_at)


def _request_of(store: StoreFolder, story: RequestHistory) -> Request | None:
    """Find the request in the store or, of a page that is done, in the archive."""
    if story.request is not None or story.page is None:
        return story.request
    try:
        return _stored(store, story.crawl, story.page).request
    except PageUnreadable:
        return None


def _stored(store: StoreFolder, crawl: str, page: PageRecord) -> StoredPage:
    return ArchiveReader(open_crawl_folder(store.archive / file_name(crawl)), decode_archived).read(page.ref)
