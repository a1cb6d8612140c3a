"""What a crawl of a fleet has gathered, read from its archive: the store forgets pages that are done.

The archive is gone through once, for a list of its pages, which lies in a temporary database: memory does not
depend on how many there are. A page that is there twice (a worker was killed after archiving it, or the crawl
was begun afresh) counts once, as it was last fetched.

What the archive cannot tell: which items came from which page, and which pages are of a generation before
`--fresh` and were never fetched again.
"""

import asyncio
import os
import sqlite3
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterator, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass, replace
from pathlib import Path

from shoal.archive.errors import PageDamaged
from shoal.archive.read_ahead import ReadAhead
from shoal.archive.reader import ArchiveReader, Damage
from shoal.archive.records import ArchivedResponse, WarcRecord, parse_response
from shoal.archive.registry import open_segments
from shoal.archive.request_metadata import parse_metadata
from shoal.fetch.http.decode import decode_archived
from shoal.frontier.redis import RedisFrontier
from shoal.model.errors import Misconfigured
from shoal.model.page import PageRecord, PageRef
from shoal.model.settings import Settings
from shoal.model.url import fingerprint_of
from shoal.redis_client import RedisClient
from shoal.services.reprocess.folder_pages import LINES, PageEntry, PageFilter
from shoal.sinks.fleet.progress import ever_written, output_progress
from shoal.sinks.names import canonical_name
from shoal.stores.redis.crawls import CrawlRecord, Crawls
from shoal.stores.redis.submitted import FOLDER, settings_of

BREATH = 64  # records between two moments for everything else
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
    """What going through an archive has found."""

    pages: int
    missing: int  # pages that are done and not among them
    damaged: int  # stretches that cannot be read

    @property
    def unreadable(self) -> int:
        return max(self.missing, self.damaged)  # what is damaged is not found


@asynccontextmanager
async def open_fleet_holdings(
    dsn: str, choose: Callable[[Sequence[str]], str]
) -> AsyncIterator["FleetPages"]:
    """Open what a crawl of a fleet has gathered; `choose` names one of its crawls."""
    async with RedisClient.open(dsn, advise=False) as store:
        crawl = choose(await RedisFrontier(store).reader.crawls())
        record = await Crawls(store).get(crawl)
        if record is None:
            raise Misconfigured(f"crawl {crawl!r} was never submitted to the end: shoal submit does that")
        yield FleetPages(store, record)


class FleetPages:
    """What one crawl of a fleet has gathered; `Gathered` says what its methods do."""

    def __init__(self, store: RedisClient, record: CrawlRecord) -> None:
        self.crawl = record.name
        self.record = record
        self.unreadable = 0
        self._store = store
        self._frontier = RedisFrontier(store)
        self.located = bool(settings_of(record).archive.location)  # in one place, for all workers
        place = settings_of(record).archive.location or f"{FOLDER}/archive"
        segments = open_segments(place, record.name)
        self.place = str(segments.path)
        self.archive = ArchiveReader(ReadAhead(segments), decode_archived)

    def settings(self, own: Settings) -> Settings:
        return replace(own, crawl=settings_of(self.record).crawl)

    async def hosts(self) -> Sequence[str]:
        return self.record.hosts or ()

    async def outputs(self) -> Collection[str]:
        written = await ever_written(self._store, await self._frontier.reader.number(self.crawl))
        return {canonical_name(output) for output in (*self.record.outputs, *written)}

    async def pages(
        self, selection: PageFilter, items: Path | None = None
    ) -> AsyncGenerator[PageEntry, None]:
        assert items is None, "the items of a fleet belong to no page any more"
        with closing(sqlite3.connect("")) as pages:  # on disk, and nobody else's
            self.unreadable = (await self._list(pages)).unreadable
            # As they lie in the archive: that is how it is read fastest.
            for fingerprint, segment, offset, length, status, fetched_at in pages.execute(
                "SELECT * FROM page ORDER BY segment, offset"
            ):
                page = PageRecord(PageRef(segment, offset, length), status, fetched_at)
                if selection.takes(page):
                    yield PageEntry(fingerprint, page, None)

    async def inventory(self) -> Inventory:
        """Read every page in the archive, and compare with what the store has settled."""
        with closing(sqlite3.connect("")) as pages:
            return await self._list(pages)

    def _nothing_here(self, done: int) -> str:
        problem = f"{self.place} holds none of the {done} pages of crawl {self.crawl!r}"
        if self.located:
            return problem
        return (
            f"{problem}: it was submitted without archive.location, so its pages are in {FOLDER}/archive of"
            " the folders that its workers were started in"
        )

    async def _list(self, pages: sqlite3.Connection) -> Inventory:
        """Go through the archive; raises `Misconfigured` if nothing of the crawl is there."""
        done = (
            await self._frontier.reader.counts(self.crawl)
        ).done  # before: pages are archived, then settled
        damaged = 0
        pages.execute(_SCHEMA)
        for number, entry in enumerate(_entries(self.archive)):
            if isinstance(entry, Damage):
                damaged += not entry.torn  # else a worker is writing it right now
            else:
                fingerprint, page = entry
                at = page.ref.segment, page.ref.offset, page.ref.length
                pages.execute(_KEEP_LAST, (fingerprint, *at, page.status, page.fetched_at))
            if number % BREATH == 0:
                await asyncio.sleep(0)
        [[found]] = pages.execute("SELECT count(*) FROM page")
        if not found and done:
            raise Misconfigured(self._nothing_here(done))
        return Inventory(found, max(done - found, 0), damaged)

    async def whole_output(self) -> tuple[Path, int]:
        """Find a JSONL output on this machine that holds every item, and how many that are."""
        number = await self._frontier.reader.number(self.crawl)
        items = await self._frontier.reader.items(self.crawl)
        why = []
        for output in self.record.outputs:
            stands = await output_progress(self._store, number, output, node=os.uname().nodename)
            if not output.endswith(LINES):
                why.append(f"{canonical_name(output)} is no JSONL")
            elif stands.held is None or stands.problem:
                why.append(stands.problem or f"{output}: {stands.why}")
            elif stands.waiting or stands.held != items:
                why.append(f"{output} has {stands.held} of {items} items: shoal worker writes the others")
            else:
                return Path(output), items
        raise Misconfigured(
            f"crawl {self.crawl!r} has no JSONL output with all its items here ({'; '.join(why)})"
        )


def _entries(archive: ArchiveReader) -> Iterator[tuple[int, PageRecord] | Damage]:
    """Go through an archive; which request a page answers is told by the record behind it."""
    answered: tuple[PageRef, ArchivedResponse] | None = None
    for found in archive.records():
        if isinstance(found, Damage):
            yield found
            continue
        ref, record = found
        try:
            if record.kind in ("response", "revisit"):
                answered = ref, parse_response(record)
            elif record.kind == "request" and answered is not None:
                (at, answer), answered = answered, None
                yield _fingerprint(answer, record), PageRecord(at, answer.status, answer.fetched_at)
        except PageDamaged as error:
            yield Damage(ref, str(error))


def _fingerprint(answer: ArchivedResponse, request: WarcRecord) -> int:
    method = parse_metadata(answer.url, answer.request_metadata).method
    return fingerprint_of(method, answer.url, request.block.partition(b"\r\n\r\n")[2])
