"""The pages of a crawl on Redis, read from its archive: the frontier drops the records of finished pages.

The archive is read once, for a list of its pages, which is kept in a temporary database: memory does not
depend on how many pages there are. A page that is archived twice (a worker was killed after archiving it, or
the crawl was started again with `--fresh`) counts once, as it was last fetched.

What the archive cannot tell: which items came from which page, and which pages are of a generation before
`--fresh` and were never fetched again.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property

import msgspec

from shoal.archive.contract import Segments
from shoal.archive.errors import PageDamaged
from shoal.archive.fetch_log import FetchLogReader
from shoal.archive.read_ahead import ReadAhead
from shoal.archive.reader import ArchiveReader, Damage, whole_pages
from shoal.archive.records import ArchivedResponse, WarcRecord, parse_response
from shoal.archive.registry import open_segments
from shoal.archive.request_metadata import parse_metadata
from shoal.fetch.http.decode import decode_archived
from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Misconfigured
from shoal.model.page import PageRecord, PageRef
from shoal.model.request import FINGERPRINT_KEY, request_fingerprint
from shoal.model.settings import Settings
from shoal.model.url import host_key
from shoal.redis_client import RedisClient
from shoal.sinks.fleet.progress import ever_written, output_progress
from shoal.sinks.names import canonical_name
from shoal.stores.contract.crawl_record import LOCAL_FOLDER, CrawlRecord
from shoal.stores.contract.pages import (
    ItemNeeds,
    ItemSource,
    PageCheck,
    PageEntry,
    PageFilter,
    readable_outputs,
)
from shoal.stores.contract.places import NO_SERVERS
from shoal.stores.contract.record_reader import settings_of

YIELD_EVERY = 64  # records between two turns of the event loop
NOT_COUNTED = "pages in the archive: a fleet keeps no record of those that are done; --deep goes through them"
_SCHEMA = """
CREATE TABLE page (
    fingerprint INTEGER PRIMARY KEY, segment TEXT, offset INTEGER, length INTEGER,
    status INTEGER, fetched_at REAL
)"""
_KEEP_LAST = """
INSERT INTO page VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (fingerprint) DO UPDATE SET
    segment = excluded.segment, offset = excluded.offset, length = excluded.length,
    status = excluded.status, fetched_at = excluded.fetched_at
WHERE excluded.fetched_at >= page.fetched_at"""


@dataclass(frozen=True, slots=True)
class Inventory:
    """What an archive holds."""

    pages: int
    missing: int  # pages that are done and not in the archive
    damaged: int  # stretches that cannot be read

    @property
    def unreadable(self) -> int:
        return max(self.missing, self.damaged)  # a damaged page counts as missing, too


class RedisPages:
    """See `CrawlPages`."""

    def __init__(self, client: RedisClient, crawl: str, record: CrawlRecord | None) -> None:
        self.crawl = crawl
        self.unreadable = self.lost = 0
        self._stored_record = record
        self._client = client
        self._reader = RedisFrontier(client).reader

    @property
    def _record(self) -> CrawlRecord:
        if self._stored_record is None:
            raise Misconfigured(
                f"crawl {self.crawl!r} was never submitted to the end: shoal submit does that"
            )
        return self._stored_record

    @property
    def _located(self) -> bool:
        return bool(self._record.archive_location)  # all workers write to one place

    @cached_property
    def _segments(self) -> Segments:
        return open_segments(self._record.archive_location or f"{LOCAL_FOLDER}/archive", self.crawl)

    @cached_property
    def archive(self) -> ArchiveReader:
        return ArchiveReader(ReadAhead(self._segments), decode_archived)

    @cached_property
    def fetch_log(self) -> FetchLogReader:
        return FetchLogReader(self._segments)

    @property
    def is_shared(self) -> bool:
        return self._located

    @property
    def _place(self) -> str:
        return str(self._segments.path)

    def settings(self, own: Settings) -> Settings:
        return replace(own, crawl=settings_of(self._record).crawl)

    async def hosts(self) -> Sequence[str]:
        return self._record.hosts or ()

    async def outputs(self) -> Collection[str]:
        written = await ever_written(self._client, await self._reader.number(self.crawl))
        return {canonical_name(output) for output in (*self._record.outputs, *written)}

    async def pages(
        self, selection: PageFilter, items: ItemSource | None = None
    ) -> AsyncGenerator[PageEntry, None]:
        assert items is None, "this store has no page records"
        with closing(sqlite3.connect("")) as pages:  # a temporary database on disk, deleted when closed
            found = await self._list(pages)
            self.unreadable = found.unreadable
            self.lost = found.unreadable if self._located else found.damaged
            # In the order of the archive: that is how it is read fastest.
            for fingerprint, segment, offset, length, status, fetched_at in pages.execute(
                "SELECT * FROM page ORDER BY segment, offset"
            ):
                page = PageRecord(PageRef(segment, offset, length), status, fetched_at)
                if selection.takes(page):
                    yield PageEntry(fingerprint, page, None)

    async def fingerprints(self) -> AsyncGenerator[tuple[str, int], None]:
        """Yield host and fingerprint of every page in the archive."""
        key = await self._reader.value(self.crawl, FINGERPRINT_KEY) or b""
        for number, found in enumerate(_exchanges(self.archive)):
            if not isinstance(found, Damage):
                _, answer, request = found
                yield host_key(answer.url), _fingerprint(answer, request, key)
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)

    async def item_source(self, needs: ItemNeeds) -> ItemSource:
        number = await self._reader.number(self.crawl)
        items = await self._reader.items(self.crawl)
        suitable = readable_outputs(self._record.outputs, needs)
        why = [
            f"{canonical_name(output)} {'is not JSONL' if needs.exact else 'cannot be read'}"
            for output in self._record.outputs
            if output not in suitable
        ]
        for output in suitable:
            progress = await output_progress(
                self._client,
                number,
                output,
                node=os.uname().nodename,
                refusal=NO_SERVERS.read_refusal(output),
            )
            if progress.held is None or progress.problem:
                why.append(progress.problem or f"{canonical_name(output)}: {progress.why}")
            elif progress.waiting or progress.held != items:
                name = canonical_name(output)
                why.append(f"{name} has {progress.held} of {items} items: shoal worker writes the others")
            else:
                return ItemSource(output, items)
        kind = "JSONL output" if needs.exact else "output"
        raise Misconfigured(f"crawl {self.crawl!r} has no {kind} with all its items here ({'; '.join(why)})")

    async def check(self, *, deep: bool) -> PageCheck:
        items = await self._reader.items(self.crawl)
        if not deep or self._stored_record is None:
            return PageCheck(items, unchecked=[NOT_COUNTED])
        try:
            with closing(sqlite3.connect("")) as pages:
                found = await self._list(pages)
        except Misconfigured as error:
            if self._located:
                return PageCheck(items, problems=[str(error)])
            return PageCheck(items, unchecked=[f"pages in the archive: {error}"])
        if found.damaged:
            return PageCheck(items, found.pages, [f"{found.damaged} records in {self._place} are damaged"])
        missing = [f"{found.missing} pages that are done are not in {self._place}"] if found.missing else []
        if self._located:
            return PageCheck(items, found.pages, problems=missing)
        return PageCheck(items, found.pages, unchecked=missing)  # another worker's folder may have them

    async def _list(self, pages: sqlite3.Connection) -> Inventory:
        """Read the archive into a table; raise `Misconfigured` if it has no page of the crawl."""
        done = (await self._reader.counts(self.crawl)).done  # first: pages are archived before they settle
        damaged = 0
        pages.execute(_SCHEMA)
        key = await self._reader.value(self.crawl, FINGERPRINT_KEY) or b""
        for number, entry in enumerate(_entries(self.archive, key)):
            if isinstance(entry, Damage):
                damaged += not entry.torn  # a torn record is one that a worker is writing right now
            else:
                fingerprint, page = entry
                at = page.ref.segment, page.ref.offset, page.ref.length
                pages.execute(_KEEP_LAST, (fingerprint, *at, page.status, page.fetched_at))
            if number % YIELD_EVERY == 0:
                await asyncio.sleep(0)
        [[found]] = pages.execute("SELECT count(*) FROM page")
        if not found and done:
            raise Misconfigured(self._empty_archive(done))
        return Inventory(found, max(done - found, 0), damaged)

    def _empty_archive(self, done: int) -> str:
        problem = f"{self._place} holds none of the {done} pages of crawl {self.crawl!r}"
        if self._located:
            return problem
        return (
            f"{problem}: it was submitted without archive.location, so its pages are in"
            f" {LOCAL_FOLDER}/archive of the folders that its workers were started in"
        )


def _entries(archive: ArchiveReader, key: bytes) -> Iterator[tuple[int, PageRecord] | Damage]:
    """Yield each page with its fingerprint."""
    for found in _exchanges(archive):
        if isinstance(found, Damage):
            yield found
        else:
            at, answer, request = found
            yield _fingerprint(answer, request, key), PageRecord(at, answer.status, answer.fetched_at)


def _exchanges(archive: ArchiveReader) -> Iterator[tuple[PageRef, ArchivedResponse, WarcRecord] | Damage]:
    """Yield each response with the request record behind it, which identifies the page."""
    answered: tuple[PageRef, ArchivedResponse] | None = None
    for found in whole_pages(archive.records()):
        if isinstance(found, Damage):
            yield found
            continue
        ref, record, _ = found
        try:
            if record.kind in ("response", "revisit"):
                answered = ref, parse_response(record)
            elif record.kind == "request" and answered is not None:
                (at, answer), answered = answered, None
                parse_metadata(answer.url, answer.request_metadata)  # raises if it cannot be read
                yield at, answer, record
        except PageDamaged as error:
            yield Damage(ref, str(error))


def _fingerprint(answer: ArchivedResponse, request: WarcRecord, key: bytes) -> int:
    described = parse_metadata(answer.url, answer.request_metadata)
    body = request.block.partition(b"\r\n\r\n")[2]
    return request_fingerprint(msgspec.structs.replace(described, body=body), key)
