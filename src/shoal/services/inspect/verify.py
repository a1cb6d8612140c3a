"""Proof that nothing was lost and nothing doubled: frontier, archive and outputs against one another.

Everything is counted again from the data, without owning the store and without changing anything. Three
things are compared: the frontier's rows with its own counters, its pages with the bytes in the archive, and
the items that its pages brought with what the outputs hold.

Outputs are looked up before pages, so while a crawl runs they can only seem to hold too little; that alone
is not held against a crawl that runs.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from shoal.archive.contract import Segments
from shoal.archive.errors import PageExpired, PageUnreadable
from shoal.archive.names import SegmentName, file_name
from shoal.archive.reader import ArchiveReader
from shoal.archive.registry import open_crawl_folder
from shoal.engine.outputs import rejects_key, sinks_key
from shoal.fetch.http.decode import decode_archived
from shoal.frontier.sqlite import SqliteReader
from shoal.model import crawl_totals as sums
from shoal.model.errors import Rejected
from shoal.model.page import PageRecord
from shoal.model.request import trace_id
from shoal.sinks.recount import outputs, recount
from shoal.stores.access import chosen, peeking
from shoal.stores.address import is_redis
from shoal.stores.folder.store import StoreFolder
from shoal.stores.reach import reached

SHOWN = 20  # problems of one kind that are told one by one
REMEDY = "put it back from a copy, or write the items again: shoal reparse SPIDER --commit --out NEW"


@dataclass(frozen=True, slots=True)
class CrawlReport:
    """One crawl, counted again."""

    name: str
    accepted: int
    pages: int | None  # in the archive; None: not counted
    items: int  # that those pages, and hooks, brought
    outputs: Mapping[str, int | None]  # items by output; None: there, but not counted
    problems: Sequence[str]  # one line each
    waiting: int = 0  # items that are in the store of a fleet, on their way to the outputs
    unchecked: Sequence[str] = ()  # what could not be compared, one line each


@dataclass(frozen=True, slots=True)
class VerifyReport:
    store: str
    deep: bool
    crawls: Sequence[CrawlReport]
    repaired: Sequence[str] | None = None  # what was put right, one line each; None: nobody asked for it

    @property
    def problems(self) -> list[str]:
        return [f"{crawl.name}: {problem}" for crawl in self.crawls for problem in crawl.problems]


async def verify(store: str, crawl: str | None, *, deep: bool, repair: bool = False) -> VerifyReport:
    """Check one crawl of a store, or all; `deep` reads every archived page again.

    `repair` first puts right what can be. In a folder that is nothing: each change of its database is one
    transaction, and no half of one is ever there.
    """
    async with reached(store) as address:
        if is_redis(address):
            from shoal.services.inspect.fleet_verify import verify_fleet

            return await verify_fleet(address, crawl, deep=deep, repair=repair)
        folder = StoreFolder(Path(address))
        async with peeking(address) as reader:
            names = await chosen(reader, crawl)
            reports = [await _verify_crawl(reader, folder, name, deep) for name in names]
            return VerifyReport(store, deep, reports, [] if repair else None)


async def _verify_crawl(reader: SqliteReader, store: StoreFolder, crawl: str, deep: bool) -> CrawlReport:
    audit = await reader.audit(crawl)
    checkpoint = await reader.checkpoint(sinks_key(crawl))
    shelf = _Shelf(open_crawl_folder(store.archive / file_name(crawl)), deep=deep)
    pages = items = 0
    async for fingerprint, page in reader.pages(crawl):
        pages += 1
        items += page.items
        shelf.check(fingerprint, page)
    written, lost = _count_outputs(outputs(checkpoint))
    rejects, rejects_lost = _count_outputs(outputs(await reader.checkpoint(rejects_key(crawl))))
    totals = sums.CrawlTotals.load(await reader.value(crawl, sums.KEY))
    items += totals.hook_items
    running = store.owner() is not None
    return CrawlReport(
        name=crawl,
        accepted=sum(audit.counts.values()),
        pages=pages,
        items=items,
        outputs=written,
        problems=[
            *audit.problems,
            *shelf.problems,
            *lost,
            *rejects_lost,
            *compare(items, written, running=running),
            *compare(totals.rejected, rejects, running=running),
        ],
    )


@dataclass(slots=True)
class _Shelf:
    """A crawl's archive, asked page by page."""

    segments: Segments
    deep: bool
    problems: list[str] = field(default_factory=list)
    _sizes: dict[str, int | None] = field(default_factory=dict)

    def check(self, fingerprint: int, page: PageRecord) -> None:
        try:
            self._read(page) if self.deep else self._find(page)
        except PageExpired:
            return  # deleted on purpose
        except Rejected as error:
            if len(self.problems) < SHOWN:
                self.problems.append(f"page {trace_id(fingerprint)}: {error}")
            elif len(self.problems) == SHOWN:
                self.problems.append("more pages than can be told")

    def _find(self, page: PageRecord) -> None:
        segment, offset, length = page.ref.segment, page.ref.offset, page.ref.length
        if segment not in self._sizes:
            self._sizes[segment] = self.segments.size(SegmentName.parse(segment))
        size = self._sizes[segment]
        if size is None and self.segments.was_expired(SegmentName.parse(segment)):
            raise PageExpired(segment)
        if size is None or offset + length > size:
            raise PageUnreadable(f"beyond the end of archive segment {segment}")

    def _read(self, page: PageRecord) -> None:
        stored = ArchiveReader(self.segments, decode_archived).read(page.ref)
        if page.digest and stored.digest != page.digest:
            raise PageUnreadable(
                f"archive segment {page.ref.segment} holds another page at {page.ref.offset}"
            )


def _count_outputs(checkpoints: Mapping[str, bytes]) -> tuple[dict[str, int | None], list[str]]:
    counted: dict[str, int | None] = {}
    problems: list[str] = []
    for path, checkpoint in checkpoints.items():
        try:
            counted[path] = recount(path, checkpoint)
        except Rejected as error:
            problems.append(f"{error}; {REMEDY}")
    return counted, problems


def compare(items: int, written: Mapping[str, int | None], *, running: bool) -> list[str]:
    """Say where outputs disagree with the number of items that were committed.

    An output that joined a crawl later, or was left out for a run, rightly has fewer; but none has more, and
    together they have them all.
    """
    counted = {path: count for path, count in written.items() if count is not None}
    problems = [
        f"output {path} holds {count} items, but only {items} were committed; {REMEDY}"
        for path, count in counted.items()
        if count > items
    ]
    complete = counted and len(counted) == len(written) and not running
    if complete and sum(counted.values()) < items:
        problems.append(
            f"{items} items were committed, but {', '.join(counted)} hold {sum(counted.values())}; {REMEDY}"
        )
    return problems
