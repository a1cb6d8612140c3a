"""The archived pages of a crawl, and the items that they brought."""

import re
from collections.abc import AsyncGenerator, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from shoal.archive.reader import ArchiveReader
from shoal.model.page import PageRecord
from shoal.model.settings import Settings

JSON_LINES = (".jsonl", ".ndjson")
_NO_CONTENT = (204, 205, 206)  # responses that are archived and not parsed


@dataclass(frozen=True, slots=True)
class PageFilter:
    """A choice of pages."""

    match: str = ""  # regular expression, found anywhere in the URL
    status: int | None = None
    since: float | None = None  # epoch seconds of fetching
    until: float | None = None
    limit: int | None = None

    def takes(self, page: PageRecord) -> bool:
        """Judge a page by its record; its URL is only known once the page was read."""
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
    items: Sequence[bytes] | None  # as they were written, one JSON object each; None: not read


@dataclass(frozen=True, slots=True)
class ItemLines:
    """A JSONL output that holds every item of a crawl."""

    path: Path
    count: int


@dataclass(frozen=True, slots=True)
class PageCheck:
    """The pages of a crawl compared with its archive."""

    items: int  # that the pages of the crawl, and its hooks, have brought
    pages: int | None = None  # in the archive; None: not counted
    problems: Sequence[str] = ()
    unchecked: Sequence[str] = ()  # what could not be compared


class CrawlPages(Protocol):
    """The archived pages of one crawl."""

    @property
    def crawl(self) -> str: ...

    @property
    def archive(self) -> ArchiveReader: ...

    @property
    def unreadable(self) -> int:
        """Return how many pages the last run of `pages` did not find in the archive, or found damaged."""

    @property
    def lost(self) -> int:
        """Return how many of those are nowhere else: not those that another machine may have."""

    def settings(self, own: Settings) -> Settings:
        """Return the crawl's settings where the store keeps them, else `own`."""

    async def hosts(self) -> Sequence[str]:
        """Return the hosts in scope."""

    async def outputs(self) -> Collection[str]:
        """Return the names of the outputs that the crawl itself writes."""

    def pages(self, selection: PageFilter, items: Path | None = None) -> AsyncGenerator[PageEntry, None]:
        """Yield the pages that the filter takes by their records.

        `items` is the path that `item_lines` returned, for the items of each page. Only a store with
        `page_records` can attribute items to pages.
        """

    async def item_lines(self) -> ItemLines:
        """Find a JSONL output that holds every item; raise `Misconfigured` if no output does."""

    async def check(self, *, deep: bool) -> PageCheck:
        """Compare the pages that the store has settled with the archive; `deep` reads every page."""


def is_parsed(page: PageRecord) -> bool:
    """Return whether a spider gets this page; redirects and responses without content are not parsed."""
    return 200 <= page.status < 300 and page.status not in _NO_CONTENT


@contextmanager
def read_lines(path: Path | None) -> Iterator[Iterator[bytes] | None]:
    """Open an output to iterate over its items; None for no path."""
    if path is None:
        yield None
        return
    with path.open("rb") as file:
        yield (line.rstrip(b"\n") for line in file)
