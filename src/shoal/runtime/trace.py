"""The whole story of one URL: where it was found, every attempt, where its page lies, what it brought.

Reads only, beside a running crawl if need be. The store forgets the requests of pages that are done; what is
missing there is read from the archived page.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from shoal.archive.errors import PageUnreadable
from shoal.archive.names import file_name
from shoal.archive.places import segments_in
from shoal.archive.reader import ArchiveReader, StoredPage
from shoal.fetch.decode import decode_archived
from shoal.frontier.answers import HostView, Story
from shoal.frontier.sqlite import Reader
from shoal.model.page import PageRecord
from shoal.model.request import Link, Request
from shoal.model.url import host_key
from shoal.runtime.inspect import chosen, peeking
from shoal.stores.folder import StoreFolder

__all__ = ["FoundOn", "HostView", "Story", "Trace", "trace"]


@dataclass(frozen=True, slots=True)
class FoundOn:
    """The page that linked here."""

    fingerprint: int
    url: str  # empty: it can be told no more
    at: float | None  # when that page was settled, and its links accepted with it


@dataclass(frozen=True, slots=True)
class Trace:
    """One request of one crawl."""

    story: Story
    url: str  # empty: only its fingerprint is left
    found_on: FoundOn | None  # None: a seed
    host: HostView | None


async def trace(store: str, crawl: str | None, asked: str) -> list[Trace]:
    """Tell the story of a URL, or of a trace id, in one crawl or in each that has it."""
    url = "" if re.fullmatch(r"[0-9a-f]{16}", asked) else asked
    fingerprint = Link.to(Request(url=url)).fingerprint if url else int(asked, 16)
    async with peeking(store) as reader:
        stories = [await reader.story(name, fingerprint) for name in await chosen(reader, crawl)]
        folder = StoreFolder(Path(store))
        return [await _trace(reader, folder, story, url) for story in stories if story is not None]


async def _trace(reader: Reader, store: StoreFolder, story: Story, asked: str) -> Trace:
    request = _request_of(store, story)
    url = request.url if request is not None else asked
    origin = story.found_on
    if origin is None:
        origin = request.found_on if request is not None else 0
    return Trace(
        story,
        url,
        await _found_on(reader, store, story.crawl, origin) if origin else None,
        await reader.host(host_key(url)) if url else None,
    )


async def _found_on(reader: Reader, store: StoreFolder, crawl: str, fingerprint: int) -> FoundOn:
    origin = await reader.story(crawl, fingerprint)
    if origin is None:
        return FoundOn(fingerprint, "", None)
    request = _request_of(store, origin)
    return FoundOn(fingerprint, request.url if request is not None else "", origin.ended_at)


def _request_of(store: StoreFolder, story: Story) -> Request | None:
    """Find the request in the store or, of a page that is done, in the archive."""
    if story.request is not None or story.page is None:
        return story.request
    try:
        return _stored(store, story.crawl, story.page).request
    except PageUnreadable:
        return None


def _stored(store: StoreFolder, crawl: str, page: PageRecord) -> StoredPage:
    return ArchiveReader(segments_in(store.archive / file_name(crawl)), decode_archived).read(page.ref)
