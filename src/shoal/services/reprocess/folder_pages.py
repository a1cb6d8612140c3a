"""What a crawl in a folder has gathered: its pages, each with its items, in the order of their commits.

Pages and items are written by the same commits, in the same order (`commit`). So the lines of a JSONL output
that has taken part from the beginning belong to the pages one after the other, as many as each page's record
says: no key is needed to tell whose they are. An output that does not add up is refused, not guessed at.
"""

import re
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import msgspec

from shoal.archive.names import file_name
from shoal.archive.reader import ArchiveReader
from shoal.archive.registry import open_crawl_folder
from shoal.engine.outputs import sinks_key
from shoal.fetch.http.decode import decode_archived
from shoal.frontier.sqlite import SqliteReader
from shoal.model import crawl_totals as sums
from shoal.model.errors import Misconfigured, Rejected
from shoal.model.page import PageRecord
from shoal.model.settings import Settings
from shoal.sinks.recount import outputs, recount
from shoal.stores.folder.store import StoreFolder

LINES = (".jsonl", ".ndjson")
_NO_CONTENT = (204, 205, 206)  # answers that are kept and not parsed


@dataclass(frozen=True, slots=True)
class PageFilter:
    """Which pages are meant."""

    match: str = ""  # regular expression that the URL matches somewhere
    status: int | None = None
    since: float | None = None  # epoch seconds of fetching
    until: float | None = None
    limit: int | None = None

    def takes(self, page: PageRecord) -> bool:
        """Judge a page by its record; its URL is known only once it is read."""
        return (
            (self.status is None or page.status == self.status)
            and (self.since is None or page.fetched_at >= self.since)
            and (self.until is None or page.fetched_at < self.until)
        )

    def takes_url(self, url: str) -> bool:
        return not self.match or re.search(self.match, url) is not None


@dataclass(frozen=True, slots=True)
class PageEntry:
    fingerprint: int
    page: PageRecord
    items: Sequence[bytes] | None  # as they were written, one JSON object each; None: not asked for


def is_parsed(page: PageRecord) -> bool:
    """Say whether a page is one that a spider gets to see: redirects and answers without content are not."""
    return 200 <= page.status < 300 and page.status not in _NO_CONTENT


class FolderPages:
    """What one crawl of a folder has gathered; `Holdings` says what its methods do."""

    unreadable = 0  # each page that is missing is met on the way

    def __init__(self, reader: SqliteReader, store: StoreFolder, crawl: str) -> None:
        self.crawl = crawl
        self.archive = ArchiveReader(open_crawl_folder(store.archive / file_name(crawl)), decode_archived)
        self._reader = reader
        self._store = store

    def settings(self, own: Settings) -> Settings:
        return own

    async def hosts(self) -> Sequence[str]:
        return msgspec.json.decode(await self._reader.value(self.crawl, "hosts") or b"[]", type=list[str])

    async def outputs(self) -> Collection[str]:
        return outputs(await self._reader.checkpoint(sinks_key(self.crawl)))

    async def pages(
        self, selection: PageFilter, items: Path | None = None
    ) -> AsyncGenerator[PageEntry, None]:
        """Give the pages that are chosen by their record; `items` is an output that `items` found."""
        with lines_of(items) as lines:
            async for fingerprint, page in self._reader.pages(self.crawl):
                before = None if lines is None else [next(lines) for _ in range(page.items)]
                if selection.takes(page):
                    yield PageEntry(fingerprint, page, before)

    async def items(self) -> Path:
        """Find the JSONL output that holds every item; raise `Misconfigured` if there is none."""
        if (owner := self._store.owner()) is not None:
            raise Misconfigured(
                f"{self._store.path} is in use by {owner}: its items are complete when that ends"
            )
        total = 0
        async for _, page in self._reader.pages(self.crawl):
            total += page.items
        known = outputs(await self._reader.checkpoint(sinks_key(self.crawl)))
        for path, checkpoint in known.items():
            if path.endswith(LINES):
                try:
                    if recount(path, checkpoint) == total:
                        return Path(path)
                except Rejected:
                    continue  # gone, or changed: perhaps there is another one
        if made := sums.CrawlTotals.load(await self._reader.value(self.crawl, sums.KEY)).hook_items:
            raise Misconfigured(
                f"{made} items of crawl {self.crawl!r} were made by on_error hooks, from no page: "
                "the others cannot be told from them"
            )
        shown = ", ".join(known) or "nothing but standard output"
        raise Misconfigured(
            f"crawl {self.crawl!r} has no JSONL output with all its {total} items any more"
            f" (it wrote to {shown})"
        )


@contextmanager
def lines_of(path: Path | None) -> Iterator[Iterator[bytes] | None]:
    """Read the items of an output one by one; None: of none."""
    if path is None:
        yield None
        return
    with path.open("rb") as file:
        yield (line.rstrip(b"\n") for line in file)
