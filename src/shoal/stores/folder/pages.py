"""The pages of a crawl in a folder, each with its items, in the order of their commits.

Pages and items are written by the same commits, in the same order. So the items of an output that was part of
the crawl from its start, and that replaces none by a later one, belong to the pages one after the other, as
many as each page's record says: no key is needed to attribute them. An output whose items do not add up is
refused.
"""

from collections.abc import AsyncGenerator, Collection, Sequence
from dataclasses import dataclass, field
from itertools import islice

import msgspec

from shoal.archive.contract import Segments
from shoal.archive.errors import PageExpired, PageUnreadable
from shoal.archive.fetch_log import FetchLogReader
from shoal.archive.names import SegmentName, file_name
from shoal.archive.reader import ArchiveReader
from shoal.archive.registry import open_crawl_folder
from shoal.fetch.http.decode import decode_archived
from shoal.frontier.sqlite import SqliteReader
from shoal.model import crawl_totals as sums
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.page import PageRecord
from shoal.model.request import trace_id
from shoal.model.settings import Settings
from shoal.sinks.recount import outputs, recount
from shoal.stores.contract.checkpoints import sinks_key
from shoal.stores.contract.pages import (
    ItemNeeds,
    ItemSource,
    PageCheck,
    PageEntry,
    PageFilter,
    readable_outputs,
)
from shoal.stores.folder.directory import StoreFolder

MAX_PAGE_PROBLEMS = 20  # reported one by one


class FolderPages:
    """See `CrawlPages`."""

    is_shared = True  # there is one process
    lost = unreadable = 0  # a page that is missing in the archive is reported when it is read

    def __init__(self, reader: SqliteReader, folder: StoreFolder, crawl: str) -> None:
        self.crawl = crawl
        self._segments = open_crawl_folder(folder.archive / file_name(crawl))
        self.archive = ArchiveReader(self._segments, decode_archived)
        self.fetch_log = FetchLogReader(self._segments)
        self._reader = reader
        self._folder = folder

    def settings(self, own: Settings) -> Settings:
        return own

    async def hosts(self) -> Sequence[str]:
        return msgspec.json.decode(await self._reader.value(self.crawl, "hosts") or b"[]", type=list[str])

    async def outputs(self) -> Collection[str]:
        return outputs(await self._reader.checkpoint(sinks_key(self.crawl)))

    async def pages(
        self, selection: PageFilter, items: ItemSource | None = None
    ) -> AsyncGenerator[PageEntry, None]:
        found = None if items is None else items.read()
        async for fingerprint, page in self._reader.pages(self.crawl):
            before = None if found is None else [item.json for item in islice(found, page.items)]
            if selection.takes(page):
                yield PageEntry(fingerprint, page, before)

    async def item_source(self, needs: ItemNeeds) -> ItemSource:
        if (owner := self._folder.owner()) is not None:
            raise Misconfigured(
                f"{self._folder.path} is in use by {owner}: its items are complete when that ends"
            )
        total = 0
        async for _, page in self._reader.pages(self.crawl):
            total += page.items
        known = outputs(await self._reader.checkpoint(sinks_key(self.crawl)))
        for path in readable_outputs(known, needs):
            try:
                if recount(path, known[path]) == total:
                    return ItemSource(path, total)
            except Rejected:
                continue  # missing or changed; another output may be complete
        if made := sums.CrawlTotals.load(await self._reader.value(self.crawl, sums.KEY)).hook_items:
            raise Misconfigured(
                f"{made} items of crawl {self.crawl!r} were made by on_error hooks, from no page: "
                "the others cannot be told from them"
            )
        names = ", ".join(known) or "nothing but standard output"
        kind = "JSONL output" if needs.exact else "output"
        why = ", in which an item replaces none" if needs.by_page and not needs.exact else ""
        raise Misconfigured(
            f"crawl {self.crawl!r} has no {kind} with all its {total} items any more{why}"
            f" (it wrote to {names})"
        )

    async def check(self, *, deep: bool) -> PageCheck:
        checker = _ArchiveChecker(self._segments, deep=deep)
        pages = items = 0
        async for fingerprint, page in self._reader.pages(self.crawl):
            pages += 1
            items += page.items
            checker.check(fingerprint, page)
        totals = sums.CrawlTotals.load(await self._reader.value(self.crawl, sums.KEY))
        return PageCheck(items + totals.hook_items, pages, checker.problems)


@dataclass(slots=True)
class _ArchiveChecker:
    """Looks each page up in the archive."""

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
            if len(self.problems) < MAX_PAGE_PROBLEMS:
                self.problems.append(f"page {trace_id(fingerprint)}: {error}")
            elif len(self.problems) == MAX_PAGE_PROBLEMS:
                self.problems.append("more pages than are listed here")

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
